import java.io.FileOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.time.Instant;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * Members of a group that outlive the order which made them, and the load they work on.
 *
 * A member writes a line for each message before it acknowledges it: microseconds of the clock, broker, queue, offset, body. The
 * line is with the kernel when the listener returns, so it survives the process's being killed.
 */
final class Members {
    private static final Map<String, Stage> MEMBERS = new ConcurrentHashMap<>();
    private static final Map<String, Load> LOADS = new ConcurrentHashMap<>();

    static void register(Map<String, Driver.Scenario> scenarios) {
        scenarios.put("make_topic", stage -> stage.topic(stage.order.getString("topic"), stage.order.getIntValue("queues")));
        scenarios.put("join", Members::join);
        scenarios.put("leave", Members::leave);
        scenarios.put("load_start", Members::loadStart);
        scenarios.put("load_stop", Members::loadStop);
    }

    private static Object join(Stage ended) throws Exception {
        Stage stage = new Stage(ended.order);
        OutputStream log = new FileOutputStream(stage.order.getString("log"), true);
        for (boolean orderly : List.of(false, true)) {
            String kind = orderly ? "orderly" : "concurrent";
            DefaultMQPushConsumer consumer = stage.pushConsumer(stage.name("members-" + kind));
            consumer.setInstanceName(stage.order.getString("member") + "-" + kind);
            consumer.setPullBatchSize(8);
            consumer.subscribe(stage.order.getString("topic"), "*");
            if (orderly) {
                consumer.registerMessageListener((MessageListenerOrderly) (messages, context) -> {
                    note(log, kind, messages);
                    return ConsumeOrderlyStatus.SUCCESS;
                });
            } else {
                consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
                    note(log, kind, messages);
                    return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
                });
            }
            consumer.start();
        }
        MEMBERS.put(stage.order.getString("member"), stage);
        return stage.order.getString("member");
    }

    private static void note(OutputStream log, String kind, List<MessageExt> messages) {
        StringBuilder lines = new StringBuilder();
        for (MessageExt message : messages) {
            Instant now = Instant.now();
            lines.append(now.getEpochSecond() * 1_000_000 + now.getNano() / 1000).append(' ').append(kind).append(' ')
                .append(message.getBrokerName()).append(' ').append(message.getQueueId()).append(' ')
                .append(message.getQueueOffset()).append(' ').append(Stage.text(message)).append('\n');
        }
        try {
            log.write(lines.toString().getBytes(StandardCharsets.UTF_8)); // one call to the kernel
        } catch (IOException failure) {
            throw new IllegalStateException(failure);
        }
    }

    private static Object leave(Stage stage) {
        MEMBERS.remove(stage.order.getString("member")).close();
        return null;
    }

    /** Sends numbered messages of sixteen customers, each customer's to one queue, at a steady rate. */
    private static final class Load extends Thread {
        private final DefaultMQProducer producer;
        private final String topic;
        private final int perSecond;
        private final AtomicBoolean goesOn = new AtomicBoolean(true);
        private volatile int sent;
        private volatile Throwable failure;

        Load(DefaultMQProducer producer, String topic, int perSecond) {
            super("load");
            this.producer = producer;
            this.topic = topic;
            this.perSecond = perSecond;
        }

        @Override
        public void run() {
            long begin = System.nanoTime();
            try {
                while (goesOn.get()) {
                    int number = sent;
                    producer.send(Stage.message(topic, "t", "k", String.valueOf(number)),
                        (queues, message, argument) -> queues.get((int) argument % queues.size()), number % 16);
                    sent = number + 1;
                    long due = begin + sent * 1_000_000_000L / perSecond;
                    long early = due - System.nanoTime();
                    if (early > 0) {
                        Thread.sleep(early / 1_000_000, (int) (early % 1_000_000));
                    }
                }
            } catch (Throwable problem) {
                failure = problem;
            }
        }
    }

    private static Object loadStart(Stage ended) throws Exception {
        Stage stage = new Stage(ended.order);
        Load load = new Load(stage.producer(), stage.order.getString("topic"), stage.order.getIntValue("per_second"));
        LOADS.put(stage.order.getString("topic"), load);
        MEMBERS.put(stage.order.getString("topic"), stage);
        load.start();
        return null;
    }

    private static Object loadStop(Stage stage) throws Exception {
        Load load = LOADS.remove(stage.order.getString("topic"));
        load.goesOn.set(false);
        load.join();
        MEMBERS.remove(stage.order.getString("topic")).close();
        if (load.failure != null) {
            throw new IllegalStateException("the load broke off after " + load.sent, load.failure);
        }
        return load.sent;
    }
}
