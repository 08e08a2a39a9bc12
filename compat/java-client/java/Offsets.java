import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.store.ReadOffsetType;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageQueue;

/** Where a group stands: where it begins, and how it is moved. */
final class Offsets {
    /** A broker finds the message whose time is nearest, so no send may take as long as lies between two lots of messages. */
    private static final int TIME_APART_MS = 1_500;

    static void register(Map<String, Driver.Scenario> scenarios) {
        scenarios.put("new_group_begins", Offsets::newGroup);
        scenarios.put("reset_by_commit", Offsets::resetByCommit);
        scenarios.put("reset_offline", Offsets::resetOffline);
        scenarios.put("reset_online", Offsets::resetOnline);
    }

    private static DefaultMQPushConsumer listening(Stage stage, String group, String topic, Catcher catcher) throws Exception {
        DefaultMQPushConsumer consumer = stage.pushConsumer(group);
        consumer.subscribe(topic, "*");
        catcher.concurrently(consumer, message -> true);
        consumer.start();
        return consumer;
    }

    private static Set<String> send(DefaultMQProducer producer, String topic, String word, int count) throws Exception {
        Set<String> sent = new TreeSet<>();
        for (int i = 0; i < count; i++) {
            producer.send(Stage.message(topic, "t", "k", word + i));
            sent.add(word + i);
        }
        return sent;
    }

    /** On a young topic even a group that wants only the latest begins at the beginning. */
    private static Object newGroup(Stage stage) throws Exception {
        String topic = stage.topic("Young", 2);
        Set<String> sent = send(stage.producer(), topic, "young ", 20);
        for (ConsumeFromWhere where : List.of(ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET, ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
            ConsumeFromWhere.CONSUME_FROM_TIMESTAMP)) {
            Catcher catcher = new Catcher();
            DefaultMQPushConsumer consumer = stage.pushConsumer(stage.name("young" + where.ordinal()));
            consumer.setConsumeFromWhere(where);
            consumer.subscribe(topic, "*");
            catcher.concurrently(consumer, message -> true);
            consumer.start();
            catcher.await(20, 10_000);
            Check.equal(sent, catcher.distinct(), "what a group got that begins at " + where);
        }
        return Map.of("groups", 3);
    }

    /** A group that is away is moved by committing in its name. */
    private static Object resetByCommit(Stage stage) throws Exception {
        String topic = stage.topic("Committed", 1);
        String group = stage.name("committed");
        DefaultMQProducer producer = stage.producer();
        Set<String> sent = send(producer, topic, "first ", 30);
        Catcher before = new Catcher();
        DefaultMQPushConsumer consumer = listening(stage, group, topic, before);
        before.await(30, 10_000);
        consumer.shutdown();
        DefaultMQPullConsumer mover = stage.pullConsumer(group);
        for (MessageQueue queue : mover.fetchSubscribeMessageQueues(topic)) {
            Check.equal(mover.maxOffset(queue), mover.fetchConsumeOffset(queue, true), "where the group stands in " + queue);
            mover.updateConsumeOffset(queue, 0);
            mover.persist(queue);
            Check.await(5_000, () -> "the new offset of " + queue, () -> mover.fetchConsumeOffset(queue, true) == 0);
        }
        mover.shutdown();
        Catcher after = new Catcher();
        listening(stage, group, topic, after);
        after.await(30, 10_000);
        Check.equal(sent, after.distinct(), "what was consumed again");
        return Map.of("again", after.caught.size());
    }

    /** The admin tools move a group that is away, queue by queue. */
    private static Object resetOffline(Stage stage) throws Exception {
        String topic = stage.topic("Offline", 1);
        String group = stage.name("offline");
        DefaultMQProducer producer = stage.producer();
        send(producer, topic, "old ", 20);
        Thread.sleep(TIME_APART_MS);
        long then = System.currentTimeMillis();
        Set<String> recent = send(producer, topic, "recent ", 20);
        Catcher before = new Catcher();
        DefaultMQPushConsumer consumer = listening(stage, group, topic, before);
        before.await(40, 10_000);
        consumer.shutdown();
        stage.admin().resetOffsetByTimestampOld(group, topic, then, true);
        Catcher after = new Catcher();
        listening(stage, group, topic, after);
        after.await(20, 10_000);
        Check.equal(recent, after.distinct(), "what was consumed again");
        return Map.of("again", after.caught.size());
    }

    /** The admin tools move a group that is there: the broker tells its members. One broker: the client pauses ten seconds for each. */
    private static Object resetOnline(Stage stage) throws Exception {
        String topic = stage.topic("Online", 2, new TreeSet<>(Set.of(stage.brokerNames().first())));
        String group = stage.name("online");
        DefaultMQProducer producer = stage.producer();
        send(producer, topic, "old ", 20);
        Thread.sleep(TIME_APART_MS);
        long then = System.currentTimeMillis();
        Set<String> recent = send(producer, topic, "recent ", 20);
        Catcher catcher = new Catcher();
        DefaultMQPushConsumer consumer = listening(stage, group, topic, catcher);
        catcher.await(40, 10_000);
        // Only a group that stands somewhere can be moved.
        consumer.getDefaultMQPushConsumerImpl().persistConsumerOffset();
        for (MessageQueue queue : consumer.fetchSubscribeMessageQueues(topic)) {
            Check.await(5_000, () -> "the group's offset in " + queue,
                () -> consumer.getOffsetStore().readOffset(queue, ReadOffsetType.READ_FROM_STORE) == consumer.maxOffset(queue));
        }
        Map<MessageQueue, Long> moved = stage.admin().resetOffsetByTimestamp(topic, group, then, true);
        Check.equal(2, moved.size(), "queues moved");
        catcher.await(60, 30_000);
        Check.equal(recent, new TreeSet<>(catcher.texts().subList(40, 60)), "what was consumed again");
        return Map.of("again", catcher.caught.size() - 40);
    }
}
