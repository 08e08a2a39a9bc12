import com.alibaba.fastjson.JSONArray;
import com.alibaba.fastjson.JSONObject;
import java.io.BufferedWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * Reads with the real push consumer, from the first offset, and writes down one JSON line a message.
 *
 * {"do":"consume", "nameserver", "group", "topics": [...], "expected": count, "quiet_ms", "out"} ends when as many messages
 * have come as expected; a pause of quiet_ms without any is an error.
 */
final class Consumer {
    static JSONObject run(JSONObject wish) throws Exception {
        long expected = wish.getLongValue("expected");
        Semaphore arrivals = new Semaphore(0);
        // A consumer that shares out its queues anew while it starts may be given a message twice, which counts once.
        Set<String> seen = ConcurrentHashMap.newKeySet();
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(wish.getString("group"));
        consumer.setNamesrvAddr(wish.getString("nameserver"));
        consumer.setInstanceName("consumer-" + System.nanoTime());
        consumer.setVipChannelEnabled(false);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setPullBatchSize(1000);
        consumer.setConsumeMessageBatchMaxSize(256);
        JSONArray topics = wish.getJSONArray("topics");
        for (int i = 0; i < topics.size(); i++) {
            consumer.subscribe(topics.getString(i), "*");
        }
        try (BufferedWriter out = Files.newBufferedWriter(Path.of(wish.getString("out")))) {
            consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
                try {
                    StringBuilder lines = new StringBuilder();
                    int arrived = 0;
                    for (MessageExt message : messages) {
                        String place = message.getTopic() + " " + message.getQueueId() + " " + message.getQueueOffset();
                        if (!seen.add(place)) {
                            continue;
                        }
                        arrived++;
                        JSONObject line = new JSONObject(true);
                        line.put("topic", message.getTopic());
                        line.put("queue_id", message.getQueueId());
                        line.put("queue_offset", message.getQueueOffset());
                        line.put("physical_offset", message.getCommitLogOffset());
                        line.put("unique_key", message.getMsgId());
                        line.put("tags", message.getTags());
                        line.put("keys", message.getKeys());
                        line.put("body_sha1", Digest.sha1(message.getBody()));
                        lines.append(line.toJSONString()).append('\n');
                    }
                    synchronized (out) {
                        out.write(lines.toString());
                    }
                    arrivals.release(arrived);
                    return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
                } catch (Exception error) {
                    throw new IllegalStateException(error);
                }
            });
            consumer.start();
            try {
                for (long arrived = 0; arrived < expected; arrived++) {
                    if (!arrivals.tryAcquire(wish.getLongValue("quiet_ms"), TimeUnit.MILLISECONDS)) {
                        throw new IllegalStateException("only " + arrived + " of " + expected + " messages arrived");
                    }
                }
            } finally {
                consumer.shutdown();
            }
        }
        JSONObject result = new JSONObject();
        result.put("consumed", expected + arrivals.availablePermits());
        return result;
    }
}
