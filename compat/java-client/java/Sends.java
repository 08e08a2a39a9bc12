import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.client.producer.selector.SelectMessageQueueByHash;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageClientIDSetter;
import org.apache.rocketmq.common.message.MessageDecoder;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.remoting.protocol.RemotingCommand;

/** Every way to send, and that what is stored is what was sent. */
final class Sends {
    static void register(Map<String, Driver.Scenario> scenarios) {
        scenarios.put("encoding", Sends::encoding);
        scenarios.put("send_sync", Sends::sync);
        scenarios.put("send_async", Sends::async);
        scenarios.put("send_oneway", Sends::oneway);
        scenarios.put("send_batch", Sends::batch);
        scenarios.put("send_selector", Sends::selector);
        scenarios.put("send_creates_topic", Sends::createsTopic);
    }

    /** Which headers this JVM writes: the suite runs once with each. */
    private static Object encoding(Stage stage) {
        return RemotingCommand.getSerializeTypeConfigInThisServer().toString();
    }

    private static Object sync(Stage stage) throws Exception {
        String topic = stage.topic("Sync", 4);
        DefaultMQProducer producer = stage.producer();
        Map<String, SendResult> sent = new HashMap<>();
        Map<String, Message> messages = new HashMap<>();
        Set<MessageQueue> used = new HashSet<>();
        Map<MessageQueue, Long> next = new HashMap<>();
        long begin = System.currentTimeMillis();
        for (int i = 0; i < 40; i++) {
            Message message = Stage.message(topic, "tag" + i % 3, "key" + i + " both" + i, "sync body ünï " + i);
            message.setFlag(i * 7);
            message.putUserProperty("color", i % 2 == 0 ? "rot" : "grün 色");
            SendResult result = producer.send(message);
            Check.equal(SendStatus.SEND_OK, result.getSendStatus(), "status");
            Check.equal(MessageClientIDSetter.getUniqID(message), result.getMsgId(), "unique id");
            long expected = next.getOrDefault(result.getMessageQueue(), 0L);
            Check.equal(expected, result.getQueueOffset(), "queue offset in " + result.getMessageQueue());
            next.put(result.getMessageQueue(), expected + 1);
            used.add(result.getMessageQueue());
            sent.put(result.getMsgId(), result);
            messages.put(result.getMsgId(), message);
        }
        Check.equal(8, used.size(), "queues used of " + used);
        List<MessageExt> stored = stage.readAll(topic);
        Check.equal(sent.keySet().size(), stored.size(), "messages stored");
        for (MessageExt message : stored) {
            SendResult result = sent.remove(message.getMsgId());
            Message original = messages.get(message.getMsgId());
            Check.that(result != null, "stored twice or never sent: " + message);
            Check.equal(result.getQueueOffset(), message.getQueueOffset(), "queue offset");
            Check.equal(result.getMessageQueue().getQueueId(), message.getQueueId(), "queue id");
            Check.equal(result.getMessageQueue().getBrokerName(), message.getBrokerName(), "broker");
            Check.equal(MessageDecoder.decodeMessageId(result.getOffsetMsgId()).getOffset(), message.getCommitLogOffset(), "physical offset");
            Check.that(Arrays.equals(original.getBody(), message.getBody()), "body of " + message);
            Check.equal(original.getTags(), message.getTags(), "tags");
            Check.equal(original.getKeys(), message.getKeys(), "keys");
            Check.equal(original.getFlag(), message.getFlag(), "flag");
            Check.equal(original.getUserProperty("color"), message.getUserProperty("color"), "user property");
            Check.equal("127.0.0.1", message.getBornHostString(), "born host");
            Check.that(begin <= message.getBornTimestamp() && message.getBornTimestamp() <= message.getStoreTimestamp() + 50
                && message.getStoreTimestamp() <= System.currentTimeMillis() + 50, "times of " + message);
            Check.equal(0, message.getReconsumeTimes(), "reconsume times");
        }
        return Map.of("queues", used.size());
    }

    private static Object async(Stage stage) throws Exception {
        String topic = stage.topic("Async", 4);
        DefaultMQProducer producer = stage.producer();
        int count = 500;
        CountDownLatch answered = new CountDownLatch(count);
        Set<String> ids = java.util.concurrent.ConcurrentHashMap.newKeySet();
        ConcurrentLinkedQueue<Throwable> failures = new ConcurrentLinkedQueue<>();
        for (int i = 0; i < count; i++) {
            producer.send(Stage.message(topic, "t", "k" + i, "async " + i), new SendCallback() {
                @Override
                public void onSuccess(SendResult result) {
                    ids.add(result.getMsgId());
                    answered.countDown();
                }

                @Override
                public void onException(Throwable failure) {
                    failures.add(failure);
                    answered.countDown();
                }
            });
        }
        Check.that(answered.await(60, TimeUnit.SECONDS), answered.getCount() + " sends were not answered");
        if (!failures.isEmpty()) {
            throw new IllegalStateException(failures.size() + " sends failed", failures.peek());
        }
        Set<String> stored = new HashSet<>();
        stage.readAll(topic).forEach(message -> stored.add(message.getMsgId()));
        Check.equal(ids, stored, "ids stored");
        Check.equal(count, stored.size(), "messages stored");
        return Map.of("sent", count);
    }

    private static Object oneway(Stage stage) throws Exception {
        String topic = stage.topic("Oneway", 2);
        DefaultMQProducer producer = stage.producer();
        Set<String> ids = new TreeSet<>();
        for (int i = 0; i < 100; i++) {
            Message message = Stage.message(topic, "t", "k" + i, "oneway " + i);
            producer.sendOneway(message);
            ids.add(MessageClientIDSetter.getUniqID(message));
        }
        List<MessageExt> stored = new ArrayList<>();
        Check.await(10_000, () -> stored.size() + " of " + ids.size() + " one-way messages were stored", () -> {
            stored.clear();
            stored.addAll(stage.readAll(topic));
            return stored.size() >= ids.size();
        });
        Set<String> found = new TreeSet<>();
        stored.forEach(message -> found.add(message.getMsgId()));
        Check.equal(ids, found, "ids stored");
        return Map.of("sent", ids.size());
    }

    private static Object batch(Stage stage) throws Exception {
        String topic = stage.topic("Batch", 2);
        DefaultMQProducer producer = stage.producer();
        List<Message> batch = new ArrayList<>();
        for (int i = 0; i < 100; i++) {
            Message message = Stage.message(topic, i % 2 == 0 ? "even" : "odd", "batch" + i, "batched " + i);
            message.putUserProperty("number", String.valueOf(i));
            message.setFlag(i);
            batch.add(message);
        }
        MessageQueue queue = producer.fetchPublishMessageQueues(topic).get(0);
        for (int round = 0; round < 2; round++) {
            SendResult result = producer.send(batch, queue);
            Check.equal(SendStatus.SEND_OK, result.getSendStatus(), "status");
            Check.equal(queue, result.getMessageQueue(), "queue");
            Check.equal(100L * round, result.getQueueOffset(), "offset of the first");
            Check.equal(100, result.getMsgId().split(",").length, "unique ids in " + result.getMsgId());
            Check.equal(100, result.getOffsetMsgId().split(",").length, "ids in " + result.getOffsetMsgId());
            String[] ids = result.getOffsetMsgId().split(",");
            for (int i = 0; i < 100; i += 33) {
                MessageExt one = producer.viewMessage(ids[i]);
                Check.equal("batched " + i, Stage.text(one), "message " + ids[i]);
            }
        }
        List<MessageExt> stored = stage.readAll(topic);
        Check.equal(200, stored.size(), "messages stored");
        for (int i = 0; i < 200; i++) {
            MessageExt message = stored.get(i);
            int number = i % 100;
            Check.equal("batched " + number, Stage.text(message), "body");
            Check.equal(number % 2 == 0 ? "even" : "odd", message.getTags(), "tags");
            Check.equal("batch" + number, message.getKeys(), "keys");
            Check.equal(number, message.getFlag(), "flag");
            Check.equal(String.valueOf(number), message.getUserProperty("number"), "user property");
        }
        producer.send(batch); // and once where the client likes
        Check.equal(300, stage.readAll(topic).size(), "messages stored");
        return Map.of("sent", 300);
    }

    private static Object selector(Stage stage) throws Exception {
        String topic = stage.topic("Selector", 4);
        DefaultMQProducer producer = stage.producer();
        List<MessageQueue> queues = producer.fetchPublishMessageQueues(topic);
        Check.equal(8, queues.size(), "queues of " + queues);
        for (int i = 0; i < 32; i++) {
            Message message = Stage.message(topic, "chosen", "k" + i, "chosen " + i);
            SendResult chosen = producer.send(message, (among, ofMessage, argument) -> among.get((int) argument), i % 8);
            Check.equal(queues.get(i % 8), chosen.getMessageQueue(), "queue chosen");
            SendResult named = producer.send(Stage.message(topic, "named", "", "named " + i), queues.get(i % 8));
            Check.equal(queues.get(i % 8), named.getMessageQueue(), "queue named");
        }
        Set<MessageQueue> ofOneOrder = new HashSet<>();
        for (int i = 0; i < 10; i++) {
            ofOneOrder.add(producer.send(Stage.message(topic, "hashed", "", "hashed " + i), new SelectMessageQueueByHash(), "order-7").getMessageQueue());
        }
        Check.equal(1, ofOneOrder.size(), "queues of one order");
        CountDownLatch answered = new CountDownLatch(1);
        List<Object> outcome = new ArrayList<>();
        producer.send(Stage.message(topic, "async", "", "x"), (among, ofMessage, argument) -> among.get(3), null, new SendCallback() {
            @Override
            public void onSuccess(SendResult result) {
                outcome.add(result.getMessageQueue());
                answered.countDown();
            }

            @Override
            public void onException(Throwable failure) {
                outcome.add(failure);
                answered.countDown();
            }
        });
        Check.that(answered.await(30, TimeUnit.SECONDS), "no answer");
        Check.equal(List.of(queues.get(3)), outcome, "queue of the async send");
        producer.sendOneway(Stage.message(topic, "oneway", "", "x"), queues.get(5));
        Check.await(5_000, () -> "the one-way message", () -> stage.readAll(topic).size() == 32 * 2 + 10 + 2);
        return Map.of("queues", queues.size());
    }

    /** Nobody made the topic: the first message to each broker does, with the producer's number of queues. */
    private static Object createsTopic(Stage stage) throws Exception {
        String topic = stage.name("Created");
        DefaultMQProducer producer = stage.unstartedProducer();
        producer.setDefaultTopicQueueNums(3);
        producer.start();
        for (String broker : stage.brokerNames()) {
            SendResult result = producer.send(Stage.message(topic, "", "", "first"), new MessageQueue(topic, broker, 0));
            Check.equal(SendStatus.SEND_OK, result.getSendStatus(), "status");
        }
        stage.awaitBrokers(topic, stage.brokerNames());
        DefaultMQProducer later = stage.producer();
        List<MessageQueue> queues = later.fetchPublishMessageQueues(topic);
        Check.equal(3 * stage.brokerNames().size(), queues.size(), "queues of " + queues);
        return Map.of("queues", queues.size());
    }
}
