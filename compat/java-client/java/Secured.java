import com.alibaba.fastjson.JSONObject;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import org.apache.rocketmq.acl.common.AclClientRPCHook;
import org.apache.rocketmq.acl.common.SessionCredentials;
import org.apache.rocketmq.client.QueryResult;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragely;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.TopicConfig;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.remoting.RPCHook;
import org.apache.rocketmq.remoting.netty.TlsSystemConfig;
import org.apache.rocketmq.tools.admin.DefaultMQAdminExt;

/**
 * Clients that sign and encrypt.
 *
 * Words of an order: "topic", which exists, and "group"; "access_key" and "secret_key"; "tls", whose members are "trust" (whose
 * signatures to believe; without it any certificate will do), "cert" and "key" (our own).
 */
final class Secured {
    static void register(Map<String, Driver.Scenario> scenarios) {
        scenarios.put("secured_talk", Secured::talk);
        scenarios.put("secured_refusal", Secured::refusal);
        scenarios.put("secured_admin", Secured::administer);
    }

    private static Object talk(Stage stage) throws Exception {
        DefaultMQProducer producer = producer(stage);
        String topic = stage.order.getString("topic");
        DefaultMQPushConsumer consumer = secured(stage, new DefaultMQPushConsumer(
                stage.order.getString("group"), hook(stage), new AllocateMessageQueueAveragely()));
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(topic, stage.name("tag"));
        Catcher catcher = new Catcher();
        catcher.concurrently(consumer, message -> true);
        stage.atTheEnd(consumer::shutdown);
        consumer.start();

        Set<String> wanted = new TreeSet<>();
        String key = stage.name("key");
        for (int i = 0; i < 20; i++) {
            String body = i == 0 ? "x".repeat(300_000) : "Nachricht " + i + " für " + key;
            producer.send(Stage.message(topic, stage.name("tag"), key, body));
            wanted.add(body);
        }
        Message one = Stage.message(topic, stage.name("tag"), key, "in a batch");
        producer.send(List.of(one));
        wanted.add("in a batch");
        catcher.await(wanted.size(), 30_000);
        Check.equal(wanted, catcher.distinct(), "what was consumed");

        QueryResult found = producer.queryMessage(topic, key, 64, 0, System.currentTimeMillis() + 60_000);
        Check.equal(wanted.size(), found.getMessageList().size(), "messages by key");
        return found.getMessageList().size();
    }

    /** The words in which a send is refused. */
    private static Object refusal(Stage stage) throws Exception {
        DefaultMQProducer producer = producer(stage);
        producer.setRetryTimesWhenSendFailed(0);
        try {
            producer.send(Stage.message(stage.order.getString("topic"), "", "", "x"));
        } catch (Exception refused) {
            Throwable reason = refused;
            while (reason.getCause() != null) {
                reason = reason.getCause();
            }
            return reason.toString();
        }
        throw new AssertionError("it was sent");
    }

    /** What mqadmin stands on: makes the topic of the order; the words of a refusal, if it is one. */
    private static Object administer(Stage stage) throws Exception {
        DefaultMQAdminExt admin = secured(stage, new DefaultMQAdminExt(hook(stage), 10_000));
        stage.atTheEnd(admin::shutdown);
        admin.start();
        String broker = admin.examineBrokerClusterInfo().getBrokerAddrTable().values().iterator().next().selectBrokerAddr();
        Check.that(admin.fetchBrokerRuntimeStats(broker).getTable().containsKey("brokerVersion"), "nothing is known of " + broker);
        try {
            admin.createAndUpdateTopicConfig(broker, new TopicConfig(stage.order.getString("topic"), 1, 1, 6));
        } catch (MQClientException refused) {
            return refused.getMessage();
        }
        return "made";
    }

    private static DefaultMQProducer producer(Stage stage) throws Exception {
        DefaultMQProducer producer = secured(stage, new DefaultMQProducer(stage.name("signers"), hook(stage)));
        producer.setSendMsgTimeout(10_000);
        stage.atTheEnd(producer::shutdown);
        producer.start();
        return producer;
    }

    private static RPCHook hook(Stage stage) {
        String key = stage.order.getString("access_key");
        return key == null ? null : new AclClientRPCHook(new SessionCredentials(key, stage.order.getString("secret_key")));
    }

    /** TLS is made of static fields when a client starts; scenarios run one at a time. */
    private static <T extends org.apache.rocketmq.client.ClientConfig> T secured(Stage stage, T client) {
        JSONObject tls = stage.order.getJSONObject("tls");
        stage.configured(client);
        client.setUseTLS(tls != null);
        if (tls != null) {
            TlsSystemConfig.tlsTestModeEnable = tls.isEmpty();
            TlsSystemConfig.tlsClientAuthServer = tls.containsKey("trust");
            TlsSystemConfig.tlsClientTrustCertPath = tls.getString("trust");
            TlsSystemConfig.tlsClientCertPath = tls.getString("cert");
            TlsSystemConfig.tlsClientKeyPath = tls.getString("key");
        }
        return client;
    }
}
