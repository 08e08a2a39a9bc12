import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.common.protocol.heartbeat.MessageModel;

/** Push consumers: concurrent, orderly, broadcast, by tag, sharing their queues. */
final class Pushes {
    static void register(Map<String, Driver.Scenario> scenarios) {
        scenarios.put("push_concurrently", Pushes::concurrently);
        scenarios.put("push_orderly", Pushes::orderly);
        scenarios.put("orderly_locks", Pushes::orderlyLocks);
        scenarios.put("push_broadcast", Pushes::broadcast);
        scenarios.put("push_tags", Pushes::tags);
        scenarios.put("push_latency", Pushes::latency);
        scenarios.put("members_are_told", Pushes::membersAreTold);
    }

    private static Object concurrently(Stage stage) throws Exception {
        String topic = stage.topic("Concurrent", 4);
        DefaultMQProducer producer = stage.producer();
        Set<String> sent = new TreeSet<>();
        for (int i = 0; i < 300; i++) {
            sent.add("message " + i);
            producer.send(Stage.message(topic, "t", "", "message " + i));
        }
        Catcher first = new Catcher();
        DefaultMQPushConsumer consumer = stage.pushConsumer(stage.name("concurrent"));
        consumer.subscribe(topic, "*");
        first.concurrently(consumer, message -> true);
        consumer.start();
        for (int i = 300; i < 600; i++) {
            sent.add("message " + i);
            producer.send(Stage.message(topic, "t", "", "message " + i));
        }
        first.await(600, 20_000);
        Check.equal(sent, first.distinct(), "what was consumed");
        consumer.shutdown(); // commits its offsets
        Check.equal(600, first.caught.size(), "deliveries");

        Catcher second = new Catcher();
        DefaultMQPushConsumer successor = stage.pushConsumer(stage.name("concurrent"));
        successor.subscribe(topic, "*");
        second.concurrently(successor, message -> true);
        successor.start();
        producer.send(Stage.message(topic, "t", "", "one more"));
        second.await(1, 10_000);
        Check.equal(List.of("one more"), second.texts(), "what the next member of the group got");
        return Map.of("consumed", 601);
    }

    /** In order within each queue; a message that is not consumed comes again before the next one does. */
    private static Object orderly(Stage stage) throws Exception {
        String topic = stage.topic("Orderly", 4);
        DefaultMQProducer producer = stage.producer();
        for (int step = 0; step < 30; step++) {
            for (int customer = 0; customer < 10; customer++) {
                producer.send(Stage.message(topic, "t", "c" + customer, customer + " " + step),
                    (queues, message, argument) -> queues.get((int) argument % queues.size()), customer);
            }
        }
        Map<String, Integer> refusals = new ConcurrentHashMap<>();
        Catcher catcher = new Catcher();
        DefaultMQPushConsumer consumer = stage.pushConsumer(stage.name("orderly"));
        consumer.setSuspendCurrentQueueTimeMillis(50);
        consumer.setConsumeMessageBatchMaxSize(1);
        consumer.subscribe(topic, "*");
        catcher.orderly(consumer, message -> {
            boolean stumbles = Stage.text(message).endsWith("7");
            return !stumbles || refusals.merge(Stage.text(message), 1, Integer::sum) > 2;
        });
        consumer.start();
        int expected = 300 + 2 * 30; // steps 7, 17 and 27 of ten customers come three times
        catcher.await(expected, 30_000);
        Check.equal(expected, catcher.caught.size(), "deliveries");
        Map<String, List<Integer>> steps = new HashMap<>();
        for (String text : catcher.texts()) {
            String[] words = text.split(" ");
            steps.computeIfAbsent(words[0], customer -> new ArrayList<>()).add(Integer.parseInt(words[1]));
        }
        List<Integer> order = new ArrayList<>();
        for (int step = 0; step < 30; step++) {
            for (int time = 0; time < (step % 10 == 7 ? 3 : 1); time++) {
                order.add(step);
            }
        }
        Check.equal(10, steps.size(), "customers");
        steps.forEach((customer, seen) -> Check.equal(order, seen, "steps of customer " + customer));
        return Map.of("consumed", expected);
    }

    /** A queue whose owner is busy with a message is not given to a member that has just joined. */
    private static Object orderlyLocks(Stage stage) throws Exception {
        String topic = stage.topic("Locked", 1);
        DefaultMQProducer producer = stage.producer();
        for (MessageQueue queue : producer.fetchPublishMessageQueues(topic)) {
            for (String text : List.of("slow", "quick", "quick", "quick")) {
                producer.send(Stage.message(topic, "t", "", text), queue);
            }
        }
        Map<String, AtomicInteger> busy = new ConcurrentHashMap<>();
        List<String> clashes = new CopyOnWriteArrayList<>();
        Set<String> consumed = ConcurrentHashMap.newKeySet();
        CountDownLatch begun = new CountDownLatch(2);
        for (int member = 0; member < 2; member++) {
            int number = member;
            DefaultMQPushConsumer consumer = stage.pushConsumer(stage.name("locked"));
            consumer.setConsumeMessageBatchMaxSize(1);
            consumer.subscribe(topic, "*");
            consumer.registerMessageListener((MessageListenerOrderly) (messages, context) -> {
                String queue = context.getMessageQueue().toString();
                AtomicInteger here = busy.computeIfAbsent(queue, name -> new AtomicInteger());
                if (here.incrementAndGet() > 1) {
                    clashes.add(queue + " at member " + number);
                }
                begun.countDown();
                try {
                    Thread.sleep(Stage.text(messages.get(0)).equals("slow") ? 3_000 : 1);
                } catch (InterruptedException shutDown) {
                    Thread.currentThread().interrupt();
                }
                here.decrementAndGet();
                consumed.add(queue + " " + messages.get(0).getQueueOffset());
                return ConsumeOrderlyStatus.SUCCESS;
            });
            consumer.start();
            Check.that(begun.await(30, TimeUnit.SECONDS), "the first member did not begin");
        }
        Check.await(20_000, () -> consumed.size() + " of 8 were consumed", () -> consumed.size() == 8);
        Check.equal(List.of(), clashes, "queues that two members worked on at once");
        return Map.of("consumed", consumed.size());
    }

    private static Object broadcast(Stage stage) throws Exception {
        String topic = stage.topic("Broadcast", 2);
        List<Catcher> catchers = new ArrayList<>();
        for (int i = 0; i < 2; i++) {
            DefaultMQPushConsumer consumer = stage.pushConsumer(stage.name("broadcast"));
            consumer.setMessageModel(MessageModel.BROADCASTING);
            consumer.subscribe(topic, "*");
            Catcher catcher = new Catcher();
            catcher.concurrently(consumer, message -> true);
            consumer.start();
            catchers.add(catcher);
        }
        DefaultMQProducer producer = stage.producer();
        Set<String> sent = new TreeSet<>();
        for (int i = 0; i < 50; i++) {
            sent.add("news " + i);
            producer.send(Stage.message(topic, "t", "", "news " + i));
        }
        for (Catcher catcher : catchers) {
            catcher.await(50, 15_000);
            Check.equal(sent, catcher.distinct(), "what one listener heard");
            Check.equal(50, catcher.caught.size(), "deliveries");
        }
        return Map.of("listeners", 2);
    }

    private static Object tags(Stage stage) throws Exception {
        String topic = stage.topic("Tags", 2);
        DefaultMQProducer producer = stage.producer();
        String[] tags = {"TagA", "TagB", "TagC", "TagD", ""};
        Set<String> wanted = new TreeSet<>();
        for (int i = 0; i < 100; i++) {
            String tag = tags[i % tags.length];
            producer.send(Stage.message(topic, tag, "", tag + i));
            if (tag.equals("TagA") || tag.equals("TagC")) {
                wanted.add(tag + i);
            }
        }
        Catcher catcher = new Catcher();
        DefaultMQPushConsumer consumer = stage.pushConsumer(stage.name("tags"));
        consumer.subscribe(topic, "TagA || TagC");
        catcher.concurrently(consumer, message -> true);
        consumer.start();
        catcher.await(wanted.size(), 15_000);
        // Held pulls, too, wake for the wanted tags alone.
        for (int i = 100; i < 140; i++) {
            String tag = tags[i % tags.length];
            producer.send(Stage.message(topic, tag, "", tag + i));
            if (tag.equals("TagA") || tag.equals("TagC")) {
                wanted.add(tag + i);
            }
        }
        catcher.await(wanted.size(), 15_000);
        Check.equal(wanted, catcher.distinct(), "what was consumed");
        Check.equal(wanted.size(), catcher.caught.size(), "deliveries");
        return Map.of("consumed", wanted.size());
    }

    /** A message for a waiting consumer arrives at once: held pulls are woken, not timed out. */
    private static Object latency(Stage stage) throws Exception {
        String topic = stage.topic("Latency", 2);
        Catcher catcher = new Catcher();
        DefaultMQPushConsumer consumer = stage.pushConsumer(stage.name("latency"));
        consumer.subscribe(topic, "*");
        catcher.concurrently(consumer, message -> true);
        consumer.start();
        DefaultMQProducer producer = stage.producer();
        producer.send(Stage.message(topic, "", "", "warm up"));
        catcher.await(1, 10_000);
        List<Long> delays = new ArrayList<>();
        for (int i = 1; i <= 40; i++) {
            producer.send(Stage.message(topic, "", "", "now " + i));
            catcher.await(i + 1, 5_000);
            Catcher.Caught last = catcher.caught.get(i);
            delays.add(last.atMs - last.message.getBornTimestamp());
        }
        delays.sort(null);
        return Map.of("median_ms", delays.get(delays.size() / 2), "worst_ms", delays.get(delays.size() - 1));
    }

    /** The queues are shared out anew because the broker tells the members, long before the client's own 20 seconds are over. */
    private static Object membersAreTold(Stage stage) throws Exception {
        String topic = stage.topic("Told", 4);
        String group = stage.name("told");
        DefaultMQPushConsumer first = member(stage, group, topic);
        Check.await(10_000, () -> "all queues for the first member", () -> owned(first, topic).size() == 8);
        DefaultMQPushConsumer second = member(stage, group, topic);
        long joinMs = Check.await(5_000, () -> "four queues each, the first has " + owned(first, topic) + ", the second " + owned(second, topic),
            () -> owned(first, topic).size() == 4 && owned(second, topic).size() == 4);
        Set<MessageQueue> all = new TreeSet<>(owned(first, topic));
        all.addAll(owned(second, topic));
        Check.equal(8, all.size(), "queues that have an owner");
        second.shutdown();
        long leaveMs = Check.await(5_000, () -> "all queues back, not " + owned(first, topic), () -> owned(first, topic).size() == 8);
        return Map.of("join_ms", joinMs, "leave_ms", leaveMs);
    }

    private static DefaultMQPushConsumer member(Stage stage, String group, String topic) throws Exception {
        DefaultMQPushConsumer consumer = stage.pushConsumer(group);
        consumer.subscribe(topic, "*");
        new Catcher().concurrently(consumer, message -> true);
        consumer.start();
        return consumer;
    }

    private static Set<MessageQueue> owned(DefaultMQPushConsumer consumer, String topic) {
        Set<MessageQueue> queues = new TreeSet<>();
        for (MessageQueue queue : consumer.getDefaultMQPushConsumerImpl().getRebalanceImpl().getProcessQueueTable().keySet()) {
            if (queue.getTopic().equals(topic)) {
                queues.add(queue);
            }
        }
        return queues;
    }
}
