import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * The official client, one measurement a process: takes a verb and prints one JSON line.
 *
 * send | push | latency --nameserver ADDRESS --topic T --group G --messages N --warmup N --body BYTES --pull-batch N
 */
final class ClientBench {
    private static final Map<String, String> OPTIONS = new HashMap<>();

    public static void main(String[] words) throws Exception {
        for (int i = 1; i + 1 < words.length; i += 2) {
            OPTIONS.put(words[i].substring(2), words[i + 1]);
        }
        switch (words[0]) {
            case "send" -> send();
            case "push" -> push();
            case "latency" -> latency();
            default -> throw new IllegalArgumentException(words[0]);
        }
        System.exit(0);
    }

    private static int number(String name, int otherwise) {
        return Integer.parseInt(OPTIONS.getOrDefault(name, Integer.toString(otherwise)));
    }

    private static DefaultMQProducer producer() throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer("bench-java");
        producer.setNamesrvAddr(OPTIONS.get("nameserver"));
        producer.start();
        return producer;
    }

    private static void send() throws Exception {
        DefaultMQProducer producer = producer();
        byte[] body = new byte[number("body", 128)];
        Arrays.fill(body, (byte) 'b');
        int messages = number("messages", 10_000);
        long began = 0;
        for (int i = -number("warmup", 1_000); i < messages; i++) {
            if (i == 0) {
                began = System.nanoTime();
            }
            producer.send(new Message(OPTIONS.get("topic"), body));
        }
        report("per_second", messages / seconds(began));
        producer.shutdown();
    }

    private static void push() throws Exception {
        DefaultMQPushConsumer consumer = consumer();
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        int wanted = number("messages", 1_000_000);
        AtomicLong arrived = new AtomicLong();
        AtomicLong began = new AtomicLong();
        AtomicLong ended = new AtomicLong();
        CountDownLatch done = new CountDownLatch(1);
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            long count = arrived.addAndGet(messages.size());
            if (count == messages.size()) {
                began.set(System.nanoTime());
            }
            if (count >= wanted) {
                ended.compareAndSet(0, System.nanoTime());
                done.countDown();
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        if (!done.await(300, TimeUnit.SECONDS)) {
            throw new IllegalStateException("only " + arrived + " messages arrived");
        }
        report("per_second", wanted / ((ended.get() - began.get()) / 1e9));
        consumer.shutdown();
    }

    private static DefaultMQPushConsumer consumer() throws Exception {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(OPTIONS.get("group"));
        consumer.setNamesrvAddr(OPTIONS.get("nameserver"));
        consumer.subscribe(OPTIONS.get("topic"), "*");
        consumer.setPullBatchSize(number("pull-batch", 32));
        return consumer;
    }

    private static void latency() throws Exception {
        DefaultMQPushConsumer consumer = consumer();
        int warmup = number("warmup", 1_000);
        long[] took = new long[warmup + number("messages", 1_000)];
        Semaphore arrived = new Semaphore(0);
        AtomicLong last = new AtomicLong();
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            for (MessageExt message : messages) {
                last.set(System.nanoTime() - Long.parseLong(new String(message.getBody(), StandardCharsets.UTF_8)));
                arrived.release();
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        DefaultMQProducer producer = producer();
        sendNow(producer);
        consumer.start();
        arrived.tryAcquire(20, TimeUnit.SECONDS);
        arrived.drainPermits();
        for (int i = 0; i < took.length; i++) {
            sendNow(producer);
            if (!arrived.tryAcquire(20, TimeUnit.SECONDS)) {
                throw new IllegalStateException("a message did not arrive");
            }
            took[i] = last.get();
        }
        long[] measured = Arrays.copyOfRange(took, warmup, took.length);
        Arrays.sort(measured);
        report("p50_us", measured[measured.length / 2] / 1e3);
        producer.shutdown();
        consumer.shutdown();
    }

    private static void sendNow(DefaultMQProducer producer) throws Exception {
        byte[] body = Long.toString(System.nanoTime()).getBytes(StandardCharsets.UTF_8);
        producer.send(new Message(OPTIONS.get("topic"), body));
    }

    private static double seconds(long since) {
        return (System.nanoTime() - since) / 1e9;
    }

    private static void report(String name, double value) {
        System.out.println("{\"" + name + "\": " + value + "}");
    }
}
