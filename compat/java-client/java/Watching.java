import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragely;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.protocol.body.CMResult;
import org.apache.rocketmq.common.protocol.body.Connection;
import org.apache.rocketmq.common.protocol.body.ConsumeMessageDirectlyResult;
import org.apache.rocketmq.common.protocol.body.ConsumerRunningInfo;

/** What is known of messages and clients: traces, running consumers, a message consumed on demand; and chosen times. */
final class Watching {
    private static final String TRACES = "RMQ_SYS_TRACE_TOPIC";

    static void register(Map<String, Driver.Scenario> scenarios) {
        scenarios.put("trace", Watching::trace);
        scenarios.put("running_info", Watching::runningInfo);
        scenarios.put("timers", Watching::timers);
    }

    private static Object trace(Stage stage) throws Exception {
        String topic = stage.topic("Traced", 1);
        DefaultMQProducer producer = stage.configured(new DefaultMQProducer(stage.name("tracers"), true));
        producer.setSendMsgTimeout(10_000);
        stage.atTheEnd(producer::shutdown);
        producer.start();
        DefaultMQPushConsumer consumer = stage.configured(new DefaultMQPushConsumer(
                stage.name("traced"), null, new AllocateMessageQueueAveragely(), true, null));
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(topic, "*");
        Catcher catcher = new Catcher();
        catcher.concurrently(consumer, message -> true);
        stage.atTheEnd(consumer::shutdown);
        consumer.start();
        String id = producer.send(Stage.message(topic, "t", "traced-key", "x")).getMsgId();
        catcher.await(1, 20_000);
        Set<String> kinds = new HashSet<>();
        Check.await(20_000, () -> "only " + kinds + " of " + id + " are traced", () -> {
            for (MessageExt one : stage.readAll(TRACES)) {
                for (String line : Stage.text(one).split("\u0002")) {
                    if (line.contains(id)) {
                        kinds.add(line.split("\u0001")[0]);
                    }
                }
            }
            return kinds.containsAll(Set.of("Pub", "SubBefore", "SubAfter"));
        });
        return null;
    }

    private static Object runningInfo(Stage stage) throws Exception {
        String topic = stage.topic("Watched", 2);
        String group = stage.name("watched");
        DefaultMQPushConsumer consumer = stage.pushConsumer(group);
        consumer.subscribe(topic, "*");
        Catcher catcher = new Catcher();
        catcher.concurrently(consumer, message -> true);
        consumer.start();
        SendResult sent = stage.producer().send(Stage.message(topic, "", "", "once more"));
        catcher.await(1, 20_000);

        Connection online = stage.admin().examineConsumerConnectionInfo(group).getConnectionSet().iterator().next();
        ConsumerRunningInfo info = stage.admin().getConsumerRunningInfo(group, online.getClientId(), true);
        Check.that(info.getMqTable().keySet().stream().anyMatch(queue -> queue.getTopic().equals(topic)), "no queue of " + topic);
        Check.that(info.getJstack() != null && info.getJstack().contains("java."), "no stacks");
        ConsumeMessageDirectlyResult result =
                stage.admin().consumeMessageDirectly(group, online.getClientId(), topic, sent.getOffsetMsgId());
        Check.equal(CMResult.CR_SUCCESS, result.getConsumeResult(), "consumed on demand");
        Check.equal(2, catcher.caught.size(), "deliveries");
        return null;
    }

    /** How many milliseconds each message came after its time. */
    private static Object timers(Stage stage) throws Exception {
        String topic = stage.topic("Timers", 2);
        DefaultMQPushConsumer consumer = stage.pushConsumer(stage.name("on-time"));
        consumer.subscribe(topic, "*");
        Catcher catcher = new Catcher();
        catcher.concurrently(consumer, message -> true);
        consumer.start();
        DefaultMQProducer producer = stage.producer();
        Map<String, Long> due = new TreeMap<>();
        for (String property : new String[] {"TIMER_DELAY_SEC", "TIMER_DELAY_MS", "TIMER_DELIVER_MS"}) {
            Message message = Stage.message(topic, "", "", property);
            long now = System.currentTimeMillis();
            String wish = property.endsWith("SEC") ? "2" : property.endsWith("DELAY_MS") ? "1300" : String.valueOf(now + 700);
            message.putUserProperty(property, wish);
            due.put(property, property.endsWith("SEC") ? now + 2000 : property.endsWith("DELAY_MS") ? now + 1300 : now + 700);
            producer.send(message);
        }
        catcher.await(due.size(), 20_000);
        Map<String, Long> late = new TreeMap<>();
        for (Catcher.Caught one : catcher.caught) {
            late.put(one.text(), one.atMs - due.get(one.text()));
        }
        return late;
    }
}
