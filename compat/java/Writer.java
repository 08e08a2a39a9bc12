import com.alibaba.fastjson.JSONObject;
import java.io.BufferedWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.TreeSet;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.common.topic.TopicValidator;

/**
 * Sends with the real producer and writes down, one JSON line a message, what the broker acknowledged.
 *
 * {"do":"write", "nameserver", "broker_name", "topics":{name: queues}, "create_topics", "delay_levels": [...], "seed", "first",
 * "count", "threads", "manifest"}
 * With "until_failure" it sends until the broker is gone; what was acknowledged till then is what the manifest holds.
 */
final class Writer {
    private static final int PROGRESS_EVERY = 100;

    private final JSONObject wish;
    private final MessageMaker maker;
    private final List<MessageQueue> queues = new ArrayList<>();
    private final AtomicInteger next;
    private final int end;
    private final AtomicInteger acknowledged = new AtomicInteger();
    private final AtomicReference<Exception> failure = new AtomicReference<>();

    private Writer(JSONObject wish) {
        this.wish = wish;
        this.maker = new MessageMaker(wish.getLongValue("seed"), wish.getJSONArray("delay_levels").toJavaList(Integer.class));
        this.next = new AtomicInteger(wish.getIntValue("first"));
        this.end = wish.getBooleanValue("until_failure") ? Integer.MAX_VALUE : next.get() + wish.getIntValue("count");
        JSONObject topics = wish.getJSONObject("topics");
        for (String topic : new TreeSet<>(topics.keySet())) {
            for (int queueId = 0; queueId < topics.getIntValue(topic); queueId++) {
                queues.add(new MessageQueue(topic, wish.getString("broker_name"), queueId));
            }
        }
    }

    static JSONObject run(JSONObject wish) throws Exception {
        return new Writer(wish).run();
    }

    private JSONObject run() throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer("writer");
        producer.setNamesrvAddr(wish.getString("nameserver"));
        producer.setInstanceName("writer-" + System.nanoTime());
        producer.setRetryTimesWhenSendFailed(0); // a retry would store a second copy and the manifest would not know
        producer.setVipChannelEnabled(false);
        producer.setSendMsgTimeout(10_000);
        producer.start();
        try (BufferedWriter manifest = Files.newBufferedWriter(Path.of(wish.getString("manifest")))) {
            if (wish.getBooleanValue("create_topics")) {
                JSONObject topics = wish.getJSONObject("topics");
                for (String topic : topics.keySet()) {
                    producer.createTopic(TopicValidator.AUTO_CREATE_TOPIC_KEY_TOPIC, topic, topics.getIntValue(topic));
                }
            }
            List<Thread> threads = new ArrayList<>();
            for (int i = 0; i < wish.getIntValue("threads"); i++) {
                Thread thread = new Thread(() -> sendAll(producer, manifest));
                thread.start();
                threads.add(thread);
            }
            for (Thread thread : threads) {
                thread.join();
            }
        } finally {
            producer.shutdown();
        }
        if (failure.get() != null && !wish.getBooleanValue("until_failure")) {
            throw failure.get();
        }
        JSONObject result = new JSONObject();
        result.put("acknowledged", acknowledged.get());
        result.put("next", next.get());
        return result;
    }

    private void sendAll(DefaultMQProducer producer, BufferedWriter manifest) {
        while (failure.get() == null) {
            int number = next.get();
            if (number >= end) {
                return;
            }
            int size = Math.min(maker.batchSize(number), end - number); // the last batch must not make it more than was wished
            if (!next.compareAndSet(number, number + size)) {
                continue;
            }
            MessageQueue queue = queues.get(Math.floorMod(number * 31 + 7, queues.size()));
            try {
                send(producer, queue, number, size, manifest);
            } catch (Exception error) {
                failure.compareAndSet(null, error);
            }
        }
    }

    private void send(DefaultMQProducer producer, MessageQueue queue, int number, int size, BufferedWriter manifest) throws Exception {
        List<Message> messages = new ArrayList<>();
        for (int i = 0; i < size; i++) {
            messages.add(maker.make(queue.getTopic(), number + i));
        }
        SendResult result;
        int delayLevel = 0;
        if (size > 1) {
            result = producer.send(messages, queue);
        } else {
            delayLevel = maker.delayLevel(number);
            if (delayLevel > 0) {
                messages.get(0).setDelayTimeLevel(delayLevel);
            }
            result = producer.send(messages.get(0), queue);
        }
        if (result.getSendStatus() != SendStatus.SEND_OK) {
            throw new IllegalStateException(result.toString());
        }
        String[] ids = result.getMsgId().split(",");
        String[] offsetIds = result.getOffsetMsgId().split(",");
        StringBuilder lines = new StringBuilder();
        for (int i = 0; i < size; i++) {
            Message message = messages.get(i);
            JSONObject line = new JSONObject(true);
            line.put("number", number + i);
            line.put("topic", queue.getTopic());
            line.put("queue_id", queue.getQueueId());
            line.put("queue_offset", result.getQueueOffset() + i);
            line.put("unique_key", ids[i]);
            line.put("offset_id", offsetIds[i]);
            line.put("delay_level", delayLevel);
            line.put("tags", message.getTags());
            line.put("keys", message.getKeys() == null ? Collections.emptyList() : List.of(message.getKeys().split(" ")));
            line.put("flag", message.getFlag());
            line.put("body_size", message.getBody().length);
            line.put("body_sha1", Digest.sha1(message.getBody()));
            line.put("properties", message.getProperties());
            lines.append(line.toJSONString()).append('\n');
        }
        synchronized (manifest) {
            manifest.write(lines.toString());
        }
        int before = acknowledged.getAndAdd(size);
        if (before / PROGRESS_EVERY != (before + size) / PROGRESS_EVERY) {
            Peer.progress(before + size);
        }
    }
}
