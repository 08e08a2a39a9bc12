import com.alibaba.fastjson.JSONArray;
import com.alibaba.fastjson.JSONObject;
import java.security.MessageDigest;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.CopyOnWriteArrayList;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * Halves of a conversation with another client: messages sent as told, and messages told of as they were received.
 *
 *   send_list  {"topic", "messages": [{"body_size" | "text", "tags", "keys", "properties", "sharding"}]}  → message ids
 *   read_all   {"topic"}                                                                                  → messages, by place
 *   receive    {"topic", "group", "tags", "count"}                                                        → messages, as they came
 *
 * A body of a given size is what `pattern` makes.
 */
final class Interop {
    private static final long RECEIVE_LIMIT_MS = 30_000;

    static void register(Map<String, Driver.Scenario> scenarios) {
        scenarios.put("send_list", Interop::sendList);
        scenarios.put("read_all", Interop::readAll);
        scenarios.put("receive", Interop::receive);
    }

    static byte[] pattern(int size) {
        byte[] body = new byte[size];
        for (int i = 0; i < size; i++) {
            body[i] = (byte) (i * 31 + (i >> 8) * 7);
        }
        return body;
    }

    private static Object sendList(Stage stage) throws Exception {
        DefaultMQProducer producer = stage.producer();
        JSONArray ids = new JSONArray();
        JSONArray messages = stage.order.getJSONArray("messages");
        for (int i = 0; i < messages.size(); i++) {
            JSONObject wanted = messages.getJSONObject(i);
            byte[] body = wanted.containsKey("text") ? wanted.getString("text").getBytes("UTF-8") : pattern(wanted.getIntValue("body_size"));
            Message message = new Message(stage.order.getString("topic"), wanted.getString("tags"), wanted.getString("keys"), body);
            JSONObject properties = wanted.getJSONObject("properties");
            if (properties != null) {
                properties.forEach((name, value) -> message.putUserProperty(name, value.toString()));
            }
            SendResult result;
            if (wanted.containsKey("sharding")) {
                result = producer.send(message, (queues, one, key) -> queues.get((int) key % queues.size()), wanted.getIntValue("sharding"));
            } else {
                result = producer.send(message);
            }
            Check.equal(SendStatus.SEND_OK, result.getSendStatus(), "status of message " + i);
            ids.add(result.getMsgId());
        }
        return ids;
    }

    private static Object readAll(Stage stage) throws Exception {
        JSONArray told = new JSONArray();
        for (MessageExt message : stage.readAll(stage.order.getString("topic"))) {
            told.add(tell(message));
        }
        return told;
    }

    private static Object receive(Stage stage) throws Exception {
        List<JSONObject> received = new CopyOnWriteArrayList<>();
        DefaultMQPushConsumer consumer = stage.pushConsumer(stage.order.getString("group"));
        String tags = stage.order.getString("tags");
        consumer.subscribe(stage.order.getString("topic"), tags == null ? "*" : tags);
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            try {
                for (MessageExt message : messages) {
                    received.add(tell(message));
                }
                return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
            } catch (Exception failure) {
                throw new IllegalStateException(failure);
            }
        });
        consumer.start();
        int count = stage.order.getIntValue("count");
        Check.await(RECEIVE_LIMIT_MS, () -> received.size() + " of " + count + " messages came", () -> received.size() >= count);
        return received;
    }

    private static JSONObject tell(MessageExt message) throws Exception {
        JSONObject told = new JSONObject(true);
        StringBuilder digest = new StringBuilder();
        for (byte part : MessageDigest.getInstance("SHA-1").digest(message.getBody())) {
            digest.append(String.format("%02x", part));
        }
        told.put("id", message.getMsgId());
        told.put("body_sha1", digest.toString());
        told.put("body_size", message.getBody().length);
        told.put("tags", message.getTags());
        told.put("keys", message.getKeys());
        told.put("flag", message.getFlag());
        told.put("queue", new MessageQueue(message.getTopic(), message.getBrokerName(), message.getQueueId()).toString());
        told.put("queue_offset", message.getQueueOffset());
        told.put("properties", new TreeMap<>(message.getProperties()));
        return told;
    }
}
