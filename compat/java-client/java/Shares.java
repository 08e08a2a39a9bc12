import com.alibaba.fastjson.JSONArray;
import com.alibaba.fastjson.JSONObject;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import org.apache.rocketmq.client.consumer.AllocateMessageQueueStrategy;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMachineRoomNearby;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragely;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragelyByCircle;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueByMachineRoom;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueConsistentHash;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * What Java's strategies give each member of a group; no cluster is needed.
 *
 *   shares  {"cases": [{"strategy", "topic", "queues": [[broker, id]], "ids", "rooms"}]}  → per case and member "broker:id"s, in order
 *
 * In `nearby-…` brokers and members are in the room that their name begins with, up to the first dash.
 */
final class Shares {
    static void register(Map<String, Driver.Scenario> scenarios) {
        scenarios.put("shares", Shares::shares);
    }

    private static Object shares(Stage stage) {
        JSONArray all = new JSONArray();
        JSONArray cases = stage.order.getJSONArray("cases");
        for (int i = 0; i < cases.size(); i++) {
            all.add(sharesOf(cases.getJSONObject(i)));
        }
        return all;
    }

    private static JSONArray sharesOf(JSONObject one) {
        AllocateMessageQueueStrategy strategy = strategy(one.getString("strategy"), one.getJSONArray("rooms"));
        List<MessageQueue> queues = new ArrayList<>();
        for (Object pair : one.getJSONArray("queues")) {
            JSONArray queue = (JSONArray) pair;
            queues.add(new MessageQueue(one.getString("topic"), queue.getString(0), queue.getIntValue(1)));
        }
        List<String> ids = one.getJSONArray("ids").toJavaList(String.class);
        // As the rebalance does before it asks.
        Collections.sort(queues);
        Collections.sort(ids);
        JSONArray shares = new JSONArray();
        for (String id : ids) {
            JSONArray share = new JSONArray();
            for (MessageQueue queue : strategy.allocate("group", id, queues, ids)) {
                share.add(queue.getBrokerName() + ":" + queue.getQueueId());
            }
            shares.add(share);
        }
        return shares;
    }

    private static AllocateMessageQueueStrategy strategy(String name, JSONArray rooms) {
        if (name.startsWith("nearby-")) {
            AllocateMessageQueueStrategy inner = strategy(name.substring("nearby-".length()), rooms);
            return new AllocateMachineRoomNearby(inner, new AllocateMachineRoomNearby.MachineRoomResolver() {
                @Override
                public String brokerDeployIn(MessageQueue queue) {
                    return queue.getBrokerName().split("-")[0];
                }

                @Override
                public String consumerDeployIn(String id) {
                    return id.split("-")[0];
                }
            });
        }
        switch (name) {
            case "averagely":
                return new AllocateMessageQueueAveragely();
            case "circle":
                return new AllocateMessageQueueAveragelyByCircle();
            case "hash":
                return new AllocateMessageQueueConsistentHash();
            case "room":
                AllocateMessageQueueByMachineRoom byRoom = new AllocateMessageQueueByMachineRoom();
                byRoom.setConsumeridcs(new HashSet<>(rooms.toJavaList(String.class)));
                return byRoom;
            default:
                throw new IllegalArgumentException("no strategy " + name);
        }
    }
}
