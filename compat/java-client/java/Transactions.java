import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.MessageSelector;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/** Transactions with every outcome, and consumers that choose by SQL. */
final class Transactions {
    static void register(Map<String, Driver.Scenario> scenarios) {
        scenarios.put("transactions", Transactions::outcomes);
        scenarios.put("push_sql", Transactions::sql);
        scenarios.put("bad_sql", Transactions::badSql);
    }

    /** Bodies are "outcome at once / outcome when asked / number". */
    private static Object outcomes(Stage stage) throws Exception {
        String topic = stage.topic("Transactions", 2);
        Map<String, AtomicInteger> asked = new ConcurrentHashMap<>();
        TransactionMQProducer producer = stage.configured(new TransactionMQProducer(stage.name("deciders")));
        producer.setSendMsgTimeout(10_000);
        producer.setTransactionListener(new TransactionListener() {
            @Override
            public LocalTransactionState executeLocalTransaction(Message message, Object argument) {
                return LocalTransactionState.valueOf(text(message).split("/")[0]);
            }

            @Override
            public LocalTransactionState checkLocalTransaction(MessageExt message) {
                String body = text(message);
                int times = asked.computeIfAbsent(body, key -> new AtomicInteger()).incrementAndGet();
                Check.equal(topic, message.getTopic(), "topic of the message that is asked about");
                // The first question is not answered.
                return times == 1 ? LocalTransactionState.UNKNOW : LocalTransactionState.valueOf(body.split("/")[1]);
            }
        });
        stage.atTheEnd(producer::shutdown);
        producer.start();

        Catcher catcher = new Catcher();
        DefaultMQPushConsumer consumer = stage.pushConsumer(stage.name("outcomes"));
        consumer.subscribe(topic, "*");
        catcher.concurrently(consumer, message -> true);
        consumer.start();

        String commit = "COMMIT_MESSAGE", rollback = "ROLLBACK_MESSAGE", unknown = "UNKNOW";
        Set<String> wanted = new TreeSet<>();
        Set<String> undecided = new TreeSet<>();
        int number = 0;
        for (List<String> outcome : List.of(
                List.of(commit, rollback), List.of(rollback, commit), List.of(unknown, commit), List.of(unknown, rollback))) {
            for (int i = 0; i < 5; i++) {
                String body = outcome.get(0) + "/" + outcome.get(1) + "/" + number++;
                producer.sendMessageInTransaction(Stage.message(topic, "t", "", body), null);
                if (outcome.get(0).equals(unknown)) {
                    undecided.add(body);
                }
                if (outcome.get(0).equals(commit) || outcome.get(0).equals(unknown) && outcome.get(1).equals(commit)) {
                    wanted.add(body);
                }
            }
        }
        catcher.await(wanted.size(), 30_000);
        Check.equal(wanted, catcher.distinct(), "what was consumed");
        Check.equal(undecided, new TreeSet<>(asked.keySet()), "what was asked about");
        return Map.of("consumed", wanted.size());
    }

    private static Object sql(Stage stage) throws Exception {
        String topic = stage.topic("Sql", 2);
        DefaultMQProducer producer = stage.producer();
        Catcher catcher = new Catcher();
        DefaultMQPushConsumer consumer = stage.pushConsumer(stage.name("choosers"));
        consumer.subscribe(topic, MessageSelector.bySql("(n > 10 AND n <= 20 OR color = 'blue') AND TAGS IS NOT NULL"));
        catcher.concurrently(consumer, message -> true);
        Set<String> wanted = new TreeSet<>();
        for (int i = 0; i < 60; i++) {
            if (i == 30) {
                consumer.start(); // half of them are old, the others wake held pulls
            }
            String color = List.of("red", "green", "blue").get(i % 3);
            Message message = Stage.message(topic, i % 7 == 0 ? "" : "t", "", "message " + i);
            message.putUserProperty("n", String.valueOf(i));
            message.putUserProperty("color", color);
            producer.send(message);
            if ((i > 10 && i <= 20 || color.equals("blue")) && i % 7 != 0) {
                wanted.add("message " + i);
            }
        }
        catcher.await(wanted.size(), 20_000);
        Check.equal(wanted, catcher.distinct(), "what was consumed");
        Check.equal(wanted.size(), catcher.caught.size(), "deliveries");
        return Map.of("consumed", wanted.size());
    }

    /** The words in which a client is told that it cannot start. */
    private static Object badSql(Stage stage) throws Exception {
        String topic = stage.topic("BadSql", 1);
        DefaultMQPushConsumer consumer = stage.pushConsumer(stage.name("confused"));
        consumer.subscribe(topic, MessageSelector.bySql("price = NULL"));
        new Catcher().concurrently(consumer, message -> true);
        try {
            consumer.start();
        } catch (MQClientException refused) {
            return refused.getCause() == null ? refused.getMessage() : refused.getCause().getMessage();
        }
        throw new AssertionError("it started");
    }

    private static String text(Message message) {
        return new String(message.getBody(), StandardCharsets.UTF_8);
    }
}
