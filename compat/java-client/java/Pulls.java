import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.PullCallback;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.consumer.PullStatus;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/** Consumers that fetch for themselves: the classic pull consumer and the lite one. */
final class Pulls {
    static void register(Map<String, Driver.Scenario> scenarios) {
        scenarios.put("pull_classic", Pulls::classic);
        scenarios.put("pull_long_poll", Pulls::longPoll);
        scenarios.put("pull_balanced", Pulls::balanced);
        scenarios.put("lite_subscribe", Pulls::liteSubscribe);
        scenarios.put("lite_assign", Pulls::liteAssign);
    }

    private static MessageQueue filled(Stage stage, String topic, int count) throws Exception {
        DefaultMQProducer producer = stage.producer();
        MessageQueue queue = producer.fetchPublishMessageQueues(topic).get(0);
        for (int i = 0; i < count; i++) {
            producer.send(Stage.message(topic, i % 2 == 0 ? "even" : "odd", "k" + i, "pulled " + i), queue);
        }
        return queue;
    }

    private static Object classic(Stage stage) throws Exception {
        String topic = stage.topic("Classic", 2);
        MessageQueue queue = filled(stage, topic, 50);
        DefaultMQPullConsumer consumer = stage.pullConsumer(stage.name("classic"));
        Check.equal(4, consumer.fetchSubscribeMessageQueues(topic).size(), "queues");
        Check.equal(0L, consumer.minOffset(queue), "min offset");
        Check.equal(50L, consumer.maxOffset(queue), "max offset");

        PullResult first = consumer.pull(queue, "*", 0, 20);
        Check.equal(PullStatus.FOUND, first.getPullStatus(), "status");
        Check.equal(20, first.getMsgFoundList().size(), "messages");
        Check.equal(20L, first.getNextBeginOffset(), "next offset");
        Check.equal(0L, first.getMinOffset(), "min offset");
        Check.equal(50L, first.getMaxOffset(), "max offset");

        PullResult odd = consumer.pull(queue, "odd", 0, 10);
        Check.equal(10, odd.getMsgFoundList().size(), "messages with a tag");
        odd.getMsgFoundList().forEach(message -> Check.equal("odd", message.getTags(), "tags"));
        PullResult none = consumer.pull(queue, "never", 0, 10);
        Check.equal(PullStatus.NO_MATCHED_MSG, none.getPullStatus(), "status without a match");
        Check.equal(50L, none.getNextBeginOffset(), "next offset without a match");

        Check.equal(PullStatus.NO_NEW_MSG, consumer.pull(queue, "*", 50, 10).getPullStatus(), "status at the end");
        PullResult beyond = consumer.pull(queue, "*", 1000, 10);
        Check.equal(PullStatus.OFFSET_ILLEGAL, beyond.getPullStatus(), "status beyond the end");
        Check.equal(50L, beyond.getNextBeginOffset(), "next offset beyond the end");

        CompletableFuture<PullResult> later = new CompletableFuture<>();
        consumer.pull(queue, "*", 45, 32, new PullCallback() {
            @Override
            public void onSuccess(PullResult result) {
                later.complete(result);
            }

            @Override
            public void onException(Throwable failure) {
                later.completeExceptionally(failure);
            }
        });
        Check.equal(5, later.get(10, TimeUnit.SECONDS).getMsgFoundList().size(), "messages of an async pull");

        consumer.updateConsumeOffset(queue, 33);
        consumer.persist(queue);
        Check.await(5_000, () -> "the offset at the broker", () -> consumer.fetchConsumeOffset(queue, true) == 33);
        return Map.of("pulled", 50);
    }

    private static Object longPoll(Stage stage) throws Exception {
        String topic = stage.topic("Held", 1);
        MessageQueue queue = filled(stage, topic, 3);
        DefaultMQPullConsumer consumer = stage.pullConsumer(stage.name("held"));
        consumer.setBrokerSuspendMaxTimeMillis(1_000);
        long begin = System.currentTimeMillis();
        PullResult empty = consumer.pullBlockIfNotFound(queue, "*", 3, 10);
        long heldMs = System.currentTimeMillis() - begin;
        Check.equal(PullStatus.NO_NEW_MSG, empty.getPullStatus(), "status after the wait");
        Check.that(heldMs >= 900 && heldMs < 9_000, "held for " + heldMs + " ms");

        consumer.setBrokerSuspendMaxTimeMillis(15_000);
        AtomicInteger inVain = new AtomicInteger();
        long heldSince = System.currentTimeMillis();
        CompletableFuture<PullResult> held = CompletableFuture.supplyAsync(() -> {
            try {
                PullResult result = consumer.pullBlockIfNotFound(queue, "odd", 3, 10);
                while (result.getPullStatus() == PullStatus.NO_MATCHED_MSG) {
                    inVain.incrementAndGet();
                    result = consumer.pullBlockIfNotFound(queue, "odd", result.getNextBeginOffset(), 10);
                }
                return result;
            } catch (Exception failure) {
                throw new IllegalStateException(failure);
            }
        });
        Thread.sleep(300); // the pull is to be held already; if it is not yet, the test is only weaker
        Check.that(!held.isDone(), "the pull was not held");
        DefaultMQProducer producer = stage.producer();
        for (int i = 0; i < 5; i++) {
            producer.send(Stage.message(topic, "even", "", "not wanted"), queue);
            Thread.sleep(60);
        }
        Check.that(!held.isDone(), "the pull ended before its tag came");
        // Every five seconds the broker looks at held pulls whatever their tags; more wakes are wakes for an unwanted tag.
        long looksOfTheBroker = 1 + (System.currentTimeMillis() - heldSince) / 5_000;
        Check.that(inVain.get() <= looksOfTheBroker, "woken " + inVain + " times by a tag it does not want");
        begin = System.currentTimeMillis();
        producer.send(Stage.message(topic, "odd", "", "wanted"), queue);
        PullResult woken = held.get(30, TimeUnit.SECONDS);
        long wokenMs = System.currentTimeMillis() - begin;
        Check.equal(PullStatus.FOUND, woken.getPullStatus(), "status");
        Check.equal("wanted", Stage.text(woken.getMsgFoundList().get(0)), "what came");
        Check.that(wokenMs < 4_000, "woken after " + wokenMs + " ms");
        return Map.of("held_ms", heldMs, "woken_ms", wokenMs);
    }

    private static Object balanced(Stage stage) throws Exception {
        String topic = stage.topic("Balanced", 2);
        List<DefaultMQPullConsumer> consumers = new ArrayList<>();
        for (int i = 0; i < 2; i++) {
            DefaultMQPullConsumer consumer = stage.configured(new DefaultMQPullConsumer(stage.name("balanced")));
            consumer.setRegisterTopics(Set.of(topic));
            stage.atTheEnd(consumer::shutdown);
            consumer.start();
            consumers.add(consumer);
        }
        Check.await(10_000, () -> "two queues each", () -> {
            Set<MessageQueue> all = new TreeSet<>();
            for (DefaultMQPullConsumer consumer : consumers) {
                Set<MessageQueue> mine = consumer.fetchMessageQueuesInBalance(topic);
                if (mine == null || mine.size() != 2) {
                    return false;
                }
                all.addAll(mine);
            }
            return all.size() == 4;
        });
        return Map.of("queues", 4);
    }

    private static List<String> poll(DefaultLitePullConsumer consumer, int count, long limitMs) {
        List<String> texts = new ArrayList<>();
        long end = System.currentTimeMillis() + Check.PATIENCE * limitMs;
        while (texts.size() < count && System.currentTimeMillis() < end) {
            for (MessageExt message : consumer.poll(200)) {
                texts.add(Stage.text(message));
            }
        }
        Check.that(texts.size() >= count, "only " + texts.size() + " of " + count + " messages were polled");
        return texts;
    }

    private static Object liteSubscribe(Stage stage) throws Exception {
        String topic = stage.topic("Lite", 2);
        DefaultMQProducer producer = stage.producer();
        Set<String> sent = new TreeSet<>();
        for (int i = 0; i < 100; i++) {
            producer.send(Stage.message(topic, "t", "", "lite " + i));
            sent.add("lite " + i);
        }
        DefaultLitePullConsumer consumer = stage.litePullConsumer(stage.name("lite"));
        consumer.setAutoCommit(false);
        consumer.subscribe(topic, "*");
        consumer.start();
        List<String> polled = poll(consumer, 100, 15_000);
        Check.equal(sent, new TreeSet<>(polled), "what was polled");
        Check.equal(100, polled.size(), "deliveries");
        Check.equal(4, consumer.assignment().size(), "queues assigned");
        consumer.commitSync();
        Check.await(10_000, () -> "the offsets at the brokers", () -> {
            long total = 0;
            for (MessageQueue queue : consumer.assignment()) {
                total += Math.max(0, consumer.committed(queue));
            }
            return total == 100;
        });
        consumer.shutdown();
        producer.send(Stage.message(topic, "t", "", "one more"));
        DefaultLitePullConsumer successor = stage.litePullConsumer(stage.name("lite"));
        successor.subscribe(topic, "*");
        successor.start();
        Check.equal(List.of("one more"), poll(successor, 1, 15_000), "what the successor polled");
        return Map.of("polled", 101);
    }

    private static Object liteAssign(Stage stage) throws Exception {
        String topic = stage.topic("Assigned", 1);
        MessageQueue queue = filled(stage, topic, 30);
        DefaultMQProducer producer = stage.producer();
        Thread.sleep(100); // a time is answered with the message nearest to it
        long middle = System.currentTimeMillis();
        for (int i = 30; i < 40; i++) {
            producer.send(Stage.message(topic, i % 2 == 0 ? "even" : "odd", "", "pulled " + i), queue);
        }
        DefaultLitePullConsumer consumer = stage.litePullConsumer(stage.name("assigned"));
        consumer.setAutoCommit(false);
        consumer.start();
        Collection<MessageQueue> queues = consumer.fetchMessageQueues(topic);
        Check.equal(2, queues.size(), "queues");
        consumer.assign(List.of(queue));
        // The client's first pull is under way at once, and a seek that meets it may still see what it brings.
        Check.equal("pulled 0", poll(consumer, 40, 10_000).get(0), "without a seek");
        consumer.seek(queue, 25);
        Check.equal("pulled 25", poll(consumer, 15, 10_000).get(0), "after seek");
        consumer.seekToBegin(queue);
        List<String> all = poll(consumer, 40, 10_000);
        Check.equal("pulled 0", all.get(0), "after seekToBegin");
        Check.equal(40, all.size(), "after seekToBegin");
        Check.equal(30L, consumer.offsetForTimestamp(queue, middle), "offset by time");
        consumer.pause(List.of(queue));
        consumer.seekToEnd(queue);
        producer.send(Stage.message(topic, "odd", "", "while paused"), queue);
        Check.equal(List.of(), consumer.poll(700), "polled while paused");
        consumer.resume(List.of(queue));
        Check.equal(List.of("while paused"), poll(consumer, 1, 10_000), "polled after the pause");
        return Map.of("polled", 96);
    }
}
