import com.alibaba.fastjson.JSONObject;
import java.nio.charset.StandardCharsets;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.client.ClientConfig;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.consumer.PullStatus;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.TopicConfig;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.common.protocol.route.BrokerData;
import org.apache.rocketmq.tools.admin.DefaultMQAdminExt;

/** What a scenario is given: its order, and clients of the cluster that leave when it ends. */
final class Stage implements AutoCloseable {
    private static final AtomicInteger INSTANCES = new AtomicInteger();
    private static final Map<String, DefaultMQAdminExt> ADMINS = new ConcurrentHashMap<>();
    private static final long ROUTE_LIMIT_MS = 10_000;

    final JSONObject order;
    final String nameserver;
    private final Deque<Runnable> leaving = new ArrayDeque<>();

    Stage(JSONObject order) {
        this.order = order;
        this.nameserver = order.getString("nameserver");
    }

    /** A name no other scenario of the run uses: the suite gives each order its own mark. */
    String name(String base) {
        return base + "_" + order.getString("mark");
    }

    JSONObject ask(String wish, String broker) throws InterruptedException {
        JSONObject line = new JSONObject(true);
        line.put("id", order.get("id"));
        line.put("wish", wish);
        line.put("broker", broker);
        return Driver.ask(line);
    }

    // ---- clients

    <T extends ClientConfig> T configured(T client) {
        client.setNamesrvAddr(nameserver);
        client.setInstanceName("driver-" + ProcessHandle.current().pid() + "-" + INSTANCES.incrementAndGet());
        client.setVipChannelEnabled(false);
        client.setPersistConsumerOffsetInterval(500);
        return client;
    }

    DefaultMQProducer unstartedProducer() {
        DefaultMQProducer producer = configured(new DefaultMQProducer(name("producer")));
        producer.setSendMsgTimeout(10_000); // a loaded machine is no finding
        atTheEnd(producer::shutdown);
        return producer;
    }

    DefaultMQProducer producer() throws Exception {
        DefaultMQProducer producer = unstartedProducer();
        producer.start();
        return producer;
    }

    /** Not started. */
    DefaultMQPushConsumer pushConsumer(String group) {
        DefaultMQPushConsumer consumer = configured(new DefaultMQPushConsumer(group));
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setConsumeThreadMin(4);
        consumer.setConsumeThreadMax(4);
        atTheEnd(consumer::shutdown);
        return consumer;
    }

    DefaultMQPullConsumer pullConsumer(String group) throws Exception {
        DefaultMQPullConsumer consumer = configured(new DefaultMQPullConsumer(group));
        atTheEnd(consumer::shutdown);
        consumer.start();
        return consumer;
    }

    /** Not started. */
    DefaultLitePullConsumer litePullConsumer(String group) {
        DefaultLitePullConsumer consumer = configured(new DefaultLitePullConsumer(group));
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        atTheEnd(consumer::shutdown);
        return consumer;
    }

    /** One for each cluster, for as long as the JVM lives. */
    DefaultMQAdminExt admin() {
        return ADMINS.computeIfAbsent(nameserver, address -> {
            DefaultMQAdminExt admin = configured(new DefaultMQAdminExt(10_000));
            try {
                admin.start();
            } catch (Exception failure) {
                throw new IllegalStateException(failure);
            }
            return admin;
        });
    }

    void atTheEnd(Runnable task) {
        leaving.push(task);
    }

    @Override
    public void close() {
        while (!leaving.isEmpty()) {
            leaving.pop().run();
        }
    }

    // ---- topics

    /** A topic with so many queues on each broker, once the nameserver leads to all of them. */
    String topic(String base, int queues) throws Exception {
        return topic(base, queues, brokerNames());
    }

    String topic(String base, int queues, TreeSet<String> brokers) throws Exception {
        String topic = name(base);
        Map<String, BrokerData> all = admin().examineBrokerClusterInfo().getBrokerAddrTable();
        for (String broker : brokers) {
            admin().createAndUpdateTopicConfig(all.get(broker).selectBrokerAddr(), new TopicConfig(topic, queues, queues, 6));
        }
        awaitBrokers(topic, brokers);
        return topic;
    }

    TreeSet<String> brokerNames() throws Exception {
        return new TreeSet<>(admin().examineBrokerClusterInfo().getBrokerAddrTable().keySet());
    }

    void awaitBrokers(String topic, TreeSet<String> names) throws Exception {
        Check.await(ROUTE_LIMIT_MS, () -> "a route of " + topic + " to " + names, () -> {
            TreeSet<String> routed = new TreeSet<>();
            try {
                admin().examineTopicRouteInfo(topic).getBrokerDatas().forEach(data -> routed.add(data.getBrokerName()));
            } catch (org.apache.rocketmq.client.exception.MQClientException notYet) {
                return names.isEmpty();
            }
            return routed.equals(names);
        });
    }

    // ---- messages

    static Message message(String topic, String tags, String keys, String body) {
        return new Message(topic, tags, keys, body.getBytes(StandardCharsets.UTF_8));
    }

    static String text(MessageExt message) {
        return new String(message.getBody(), StandardCharsets.UTF_8);
    }

    /** Everything a topic holds, queue after queue, read by place: nobody's offsets move. */
    List<MessageExt> readAll(String topic) throws Exception {
        DefaultMQPullConsumer reader = configured(new DefaultMQPullConsumer(name("reader")));
        reader.start();
        try {
            List<MessageExt> messages = new ArrayList<>();
            for (MessageQueue queue : new TreeSet<>(reader.fetchSubscribeMessageQueues(topic))) {
                long offset = reader.minOffset(queue);
                long max = reader.maxOffset(queue);
                while (offset < max) {
                    PullResult result = reader.pull(queue, "*", offset, 32);
                    Check.equal(PullStatus.FOUND, result.getPullStatus(), "pull of " + queue + " at " + offset);
                    for (MessageExt message : result.getMsgFoundList()) {
                        Check.equal(offset++, message.getQueueOffset(), "offset in " + queue);
                        messages.add(message);
                    }
                    Check.equal(offset, result.getNextBeginOffset(), "next offset of " + queue);
                }
            }
            return messages;
        } finally {
            reader.shutdown();
        }
    }
}
