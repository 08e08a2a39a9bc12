import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import org.apache.rocketmq.client.QueryResult;
import org.apache.rocketmq.client.exception.MQBrokerException;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/** Finding messages: by key, by either kind of id, by time. */
final class Queries {
    static void register(Map<String, Driver.Scenario> scenarios) {
        scenarios.put("query_by_key", Queries::byKey);
        scenarios.put("query_by_id", Queries::byId);
        scenarios.put("query_by_time", Queries::byTime);
    }

    private static Object byKey(Stage stage) throws Exception {
        String topic = stage.topic("Keyed", 2);
        DefaultMQProducer producer = stage.producer();
        long begin = System.currentTimeMillis();
        for (int i = 0; i < 20; i++) {
            producer.send(Stage.message(topic, "t", "own-" + i + " shared-" + i % 2, "keyed " + i));
        }
        long end = System.currentTimeMillis();
        Check.await(5_000, () -> "the last key", () -> {
            try {
                return producer.queryMessage(topic, "own-19", 64, 0, Long.MAX_VALUE).getMessageList().size() == 1;
            } catch (MQClientException notYet) {
                return false;
            }
        });
        // Both brokers hold some of the shared key's messages.
        QueryResult shared = producer.queryMessage(topic, "shared-1", 64, begin - 1000, end + 1000);
        Set<String> texts = new TreeSet<>();
        for (MessageExt message : shared.getMessageList()) {
            texts.add(Stage.text(message));
            Check.that(message.getKeys().contains("shared-1"), "keys of " + message);
            Check.equal(topic, message.getTopic(), "topic");
        }
        Check.equal(new TreeSet<>(List.of("keyed 1", "keyed 3", "keyed 5", "keyed 7", "keyed 9", "keyed 11", "keyed 13", "keyed 15",
            "keyed 17", "keyed 19")), texts, "messages of the shared key");
        Check.that(shared.getIndexLastUpdateTimestamp() >= begin, "the index was last updated " + shared.getIndexLastUpdateTimestamp());
        Check.that(producer.queryMessage(topic, "shared-0", 2, 0, Long.MAX_VALUE).getMessageList().size() <= 4, "at most two a broker");
        Check.fails(MQClientException.class, () -> producer.queryMessage(topic, "own-1", 64, begin - 5000, begin - 3000));
        Check.fails(MQClientException.class, () -> producer.queryMessage(topic, "unknown", 64, 0, Long.MAX_VALUE));
        return Map.of("found", texts.size());
    }

    private static Object byId(Stage stage) throws Exception {
        String topic = stage.topic("Identified", 2);
        DefaultMQProducer producer = stage.producer();
        for (int i = 0; i < 8; i++) {
            SendResult sent = producer.send(Stage.message(topic, "t", "k", "identified " + i));
            MessageExt byPlace = producer.viewMessage(sent.getOffsetMsgId());
            Check.equal("identified " + i, Stage.text(byPlace), "by its place");
            Check.equal(sent.getQueueOffset(), byPlace.getQueueOffset(), "queue offset");
            String text = "identified " + i;
            Check.await(5_000, () -> text + " by its unique id", () -> {
                try {
                    return Stage.text(producer.viewMessage(topic, sent.getMsgId())).equals(text);
                } catch (MQClientException notYet) {
                    return false;
                }
            });
            Check.equal(text, Stage.text(stage.admin().viewMessage(topic, sent.getMsgId())), "by the admin tools");
        }
        String id = producer.send(Stage.message(topic, "t", "k", "x")).getOffsetMsgId();
        String beyond = id.substring(0, 16) + "00000FFFFFFFFFFF";
        MQBrokerException refusal = Check.fails(MQBrokerException.class, () -> producer.viewMessage(beyond));
        return refusal.getResponseCode() + " " + refusal.getErrorMessage();
    }

    private static Object byTime(Stage stage) throws Exception {
        String topic = stage.topic("Timed", 1);
        DefaultMQProducer producer = stage.producer();
        MessageQueue queue = producer.fetchPublishMessageQueues(topic).get(0);
        Check.equal(0L, producer.maxOffset(queue), "max offset of an empty queue");
        long begin = System.currentTimeMillis();
        long[] stored = new long[10];
        for (int i = 0; i < 10; i++) {
            String id = producer.send(Stage.message(topic, "t", "k", "timed " + i), queue).getOffsetMsgId();
            stored[i] = producer.viewMessage(id).getStoreTimestamp();
            Thread.sleep(15);
        }
        Check.equal(10L, producer.maxOffset(queue), "max offset");
        Check.equal(0L, producer.minOffset(queue), "min offset");
        for (int i = 0; i < 10; i++) {
            Check.equal((long) i, producer.searchOffset(queue, stored[i]), "offset of the time message " + i + " was stored");
        }
        Check.equal(0L, producer.searchOffset(queue, begin - 60_000), "offset of a time before");
        Check.equal(stored[0], producer.earliestMsgStoreTime(queue), "earliest store time");
        return producer.searchOffset(queue, System.currentTimeMillis() + 60_000);
    }
}
