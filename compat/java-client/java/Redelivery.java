import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageConst;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * Messages that come later: delayed ones, and those that were not consumed, up to the dead letters.
 *
 * A group's retry topic comes into being with its first heartbeat. A client that asked for the route a moment earlier asks again
 * after thirty seconds only, hence the shorter period here.
 */
final class Redelivery {
    static void register(Map<String, Driver.Scenario> scenarios) {
        scenarios.put("delay", Redelivery::delay);
        scenarios.put("retry_to_dead_letters", Redelivery::retry);
        scenarios.put("orderly_to_dead_letters", Redelivery::orderlyToDeadLetters);
        scenarios.put("send_back_by_hand", Redelivery::sendBack);
    }

    /** "levels" of the order maps a level to its milliseconds; the answer tells how late each delivery was. */
    private static Object delay(Stage stage) throws Exception {
        String topic = stage.topic("Delay", 2);
        Catcher catcher = new Catcher();
        DefaultMQPushConsumer consumer = stage.pushConsumer(stage.name("delay"));
        consumer.subscribe(topic, "*");
        catcher.concurrently(consumer, message -> true);
        consumer.start();
        DefaultMQProducer producer = stage.producer();
        producer.send(Stage.message(topic, "", "", "warm up"));
        catcher.await(1, 10_000);
        Map<String, Object> levels = stage.order.getJSONObject("levels");
        Set<String> sent = new TreeSet<>(Set.of("warm up"));
        Map<String, Long> sentAtMs = new TreeMap<>();
        for (int i = 0; i < 10; i++) {
            for (String level : levels.keySet()) {
                String text = level + " " + i;
                Message message = Stage.message(topic, "late", "k" + i, text);
                message.setDelayTimeLevel(Integer.parseInt(level));
                sentAtMs.put(text, System.currentTimeMillis());
                producer.send(message);
                sent.add(text);
            }
            Thread.sleep(30);
        }
        catcher.await(sent.size(), 20_000);
        Check.equal(sent, catcher.distinct(), "what was delivered");
        Check.equal(sent.size(), catcher.caught.size(), "deliveries");
        List<Long> late = new ArrayList<>();
        for (Catcher.Caught one : catcher.caught) {
            if (sentAtMs.containsKey(one.text())) {
                String level = one.text().split(" ")[0];
                late.add(one.atMs - sentAtMs.get(one.text()) - Long.parseLong(levels.get(level).toString()));
                Check.equal("late", one.message.getTags(), "tags");
                Check.equal(topic, one.message.getTopic(), "topic");
                Check.equal(level, one.message.getProperty(MessageConst.PROPERTY_DELAY_TIME_LEVEL), "level");
            }
        }
        return Map.of("late_ms", late);
    }

    /** Three tries, each with the message's own identity, then the dead letters; others go on meanwhile. */
    private static Object retry(Stage stage) throws Exception {
        String topic = stage.topic("Retry", 2);
        String group = stage.name("retry");
        Catcher catcher = new Catcher();
        DefaultMQPushConsumer consumer = stage.pushConsumer(group);
        consumer.setPollNameServerInterval(300);
        consumer.setMaxReconsumeTimes(2);
        consumer.subscribe(topic, "*");
        catcher.concurrently(consumer, message -> Stage.text(message).startsWith("good"));
        consumer.start();
        DefaultMQProducer producer = stage.producer();
        Map<String, String> ids = new TreeMap<>();
        for (int i = 0; i < 4; i++) {
            for (String kind : List.of("good", "bad")) {
                Message message = Stage.message(topic, "t" + i, "key" + i, kind + i);
                message.putUserProperty("own", kind + i);
                ids.put(kind + i, producer.send(message).getMsgId());
            }
        }
        catcher.await(4 + 4 * 3, 30_000);
        String deadLetters = "%DLQ%" + group;
        List<MessageExt> dead = new ArrayList<>();
        Check.await(15_000, () -> dead.size() + " of 4 messages are dead letters", () -> {
            dead.clear();
            try {
                dead.addAll(stage.readAll(deadLetters));
            } catch (org.apache.rocketmq.client.exception.MQClientException notYet) {
                return false; // no route to the topic before the first letter
            }
            return dead.size() >= 4;
        });
        Check.equal(4 + 4 * 3, catcher.caught.size(), "deliveries");
        Map<String, List<Integer>> tries = new TreeMap<>();
        for (Catcher.Caught one : catcher.caught) {
            Check.equal(topic, one.message.getTopic(), "topic of a retry");
            Check.equal(ids.get(one.text()), one.message.getMsgId(), "unique id of " + one.text());
            Check.equal(one.text(), one.message.getUserProperty("own"), "user property");
            tries.computeIfAbsent(one.text(), text -> new ArrayList<>()).add(one.message.getReconsumeTimes());
        }
        tries.forEach((text, times) -> Check.equal(text.startsWith("good") ? List.of(0) : List.of(0, 1, 2), times, "tries of " + text));
        Set<String> letters = new TreeSet<>();
        for (MessageExt letter : dead) {
            letters.add(Stage.text(letter));
            Check.equal(topic, letter.getProperty(MessageConst.PROPERTY_RETRY_TOPIC), "origin of " + letter);
            Check.equal(ids.get(Stage.text(letter)), letter.getMsgId(), "unique id");
            Check.that(letter.getProperty(MessageConst.PROPERTY_ORIGIN_MESSAGE_ID) != null, "no original id in " + letter);
            Check.equal(3, letter.getReconsumeTimes(), "reconsume times");
        }
        Check.equal(Set.of("bad0", "bad1", "bad2", "bad3"), letters, "dead letters");
        return Map.of("dead", dead.size());
    }

    /** An orderly consumer that gives up sends the message itself, to the retry topic; the broker buries it. */
    private static Object orderlyToDeadLetters(Stage stage) throws Exception {
        String topic = stage.topic("Stuck", 1);
        String group = stage.name("stuck");
        Catcher catcher = new Catcher();
        DefaultMQPushConsumer consumer = stage.pushConsumer(group);
        consumer.setPollNameServerInterval(300);
        consumer.setMaxReconsumeTimes(2);
        consumer.setSuspendCurrentQueueTimeMillis(50);
        consumer.subscribe(topic, "*");
        catcher.orderly(consumer, message -> !Stage.text(message).equals("stuck"));
        consumer.start();
        DefaultMQProducer producer = stage.producer();
        var queue = producer.fetchPublishMessageQueues(topic).get(0);
        for (String text : List.of("before", "stuck", "after")) {
            producer.send(Stage.message(topic, "t", "k", text), queue);
        }
        catcher.await(5, 15_000);
        Check.equal(List.of("before", "stuck", "stuck", "stuck", "after"), catcher.texts(), "deliveries");
        List<MessageExt> dead = new ArrayList<>();
        Check.await(15_000, () -> "the stuck message among the dead letters", () -> {
            try {
                dead.addAll(stage.readAll("%DLQ%" + group));
            } catch (org.apache.rocketmq.client.exception.MQClientException notYet) {
                return false;
            }
            return !dead.isEmpty();
        });
        Check.equal("stuck", Stage.text(dead.get(0)), "dead letter");
        return Map.of("dead", dead.size());
    }

    /** A pull consumer sends messages back with levels of its choice; a push consumer of its group gets them. */
    private static Object sendBack(Stage stage) throws Exception {
        String topic = stage.topic("ByHand", 1);
        String group = stage.name("byHand");
        DefaultMQProducer producer = stage.producer();
        producer.send(Stage.message(topic, "t", "k", "again"));
        MessageExt message = stage.readAll(topic).get(0);
        DefaultMQPullConsumer puller = stage.pullConsumer(group);
        long begin = System.currentTimeMillis();
        puller.sendMessageBack(message, 2, message.getBrokerName());
        puller.shutdown(); // a member without subscriptions would be given queues all the same
        Catcher catcher = new Catcher();
        DefaultMQPushConsumer consumer = stage.pushConsumer(group);
        consumer.setPollNameServerInterval(300);
        consumer.subscribe(stage.topic("ByHandOther", 1), "*"); // the retry topic comes with any subscription
        catcher.concurrently(consumer, one -> true);
        consumer.start();
        catcher.await(1, 15_000);
        Catcher.Caught caught = catcher.caught.get(0);
        Check.equal("again", caught.text(), "body");
        Check.equal(1, caught.message.getReconsumeTimes(), "reconsume times");
        return Map.of("after_ms", caught.message.getStoreTimestamp() - begin);
    }
}
