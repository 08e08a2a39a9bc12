import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import org.apache.rocketmq.client.exception.MQBrokerException;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.protocol.RequestCode;
import org.apache.rocketmq.common.protocol.ResponseCode;
import org.apache.rocketmq.common.sysflag.MessageSysFlag;
import org.apache.rocketmq.remoting.netty.NettyClientConfig;
import org.apache.rocketmq.remoting.netty.NettyRemotingClient;
import org.apache.rocketmq.remoting.protocol.RemotingCommand;

/** How large, how compressed, how named a message may be, and the words of a refusal. */
final class Limits {
    private static final int MAX_BODY = 4 << 20;

    static void register(Map<String, Driver.Scenario> scenarios) {
        scenarios.put("body_of_4_mib", Limits::largeBody);
        scenarios.put("compressed_body", Limits::compressedBody);
        scenarios.put("properties_of_32_kb", Limits::largeProperties);
        scenarios.put("unicode_topic", Limits::unicodeTopic);
    }

    private static Object largeBody(Stage stage) throws Exception {
        String topic = stage.topic("Large", 1);
        DefaultMQProducer producer = stage.unstartedProducer();
        producer.setMaxMessageSize(2 * MAX_BODY); // the broker is to decide
        producer.setCompressMsgBodyOverHowmuch(Integer.MAX_VALUE);
        producer.start();
        byte[] body = new byte[MAX_BODY];
        new Random(4).nextBytes(body);
        SendResult result = producer.send(new Message(topic, "large", "large-key", body));
        Check.equal(SendStatus.SEND_OK, result.getSendStatus(), "status");
        List<MessageExt> stored = stage.readAll(topic);
        Check.equal(1, stored.size(), "messages stored");
        Check.that(Arrays.equals(body, stored.get(0).getBody()), "the body came back changed");
        MQBrokerException refusal = Check.fails(MQBrokerException.class,
            () -> producer.send(new Message(topic, "larger", "", Arrays.copyOf(body, MAX_BODY + 1))));
        Check.equal(ResponseCode.MESSAGE_ILLEGAL, refusal.getResponseCode(), "code of " + refusal);
        Check.equal(1, stage.readAll(topic).size(), "messages stored");
        // The client itself stops at the same size unless told otherwise.
        DefaultMQProducer cautious = stage.producer();
        Check.contains("over max value", Check.fails(MQClientException.class,
            () -> cautious.send(new Message(topic, Arrays.copyOf(body, MAX_BODY + 1)))).getMessage(), "the client's own limit");
        return refusal.getErrorMessage();
    }

    private static Object compressedBody(Stage stage) throws Exception {
        String topic = stage.topic("Compressed", 1);
        DefaultMQProducer producer = stage.producer();
        byte[] body = "OrbitMQ speaks RocketMQ. ".repeat(60_000).getBytes(StandardCharsets.UTF_8);
        SendResult result = producer.send(new Message(topic, "zip", "zip-key", body));
        MessageExt stored = stage.readAll(topic).get(0);
        Check.that(Arrays.equals(body, stored.getBody()), "the body came back changed");
        Check.that(stored.getStoreSize() < body.length / 10, "stored with " + stored.getStoreSize() + " bytes, was it compressed?");
        MessageExt viewed = producer.viewMessage(result.getOffsetMsgId());
        Check.that(Arrays.equals(body, viewed.getBody()), "the body came back changed by id");
        Check.equal(MessageSysFlag.COMPRESSED_FLAG, viewed.getSysFlag() & MessageSysFlag.COMPRESSED_FLAG, "flag");
        return String.valueOf(MessageSysFlag.getCompressionType(viewed.getSysFlag()));
    }

    private static Object largeProperties(Stage stage) throws Exception {
        String topic = stage.topic("Properties", 1);
        DefaultMQProducer producer = stage.producer();
        Message full = Stage.message(topic, "t", "k", "full of properties");
        full.putUserProperty("much", "x".repeat(32_000));
        Check.equal(SendStatus.SEND_OK, producer.send(full).getSendStatus(), "status");
        MessageExt stored = stage.readAll(topic).get(0);
        Check.equal(full.getUserProperty("much"), stored.getUserProperty("much"), "the property");
        Message tooFull = Stage.message(topic, "t", "k", "too full of properties");
        tooFull.putUserProperty("much", "x".repeat(32_768));
        MQBrokerException refusal = Check.fails(MQBrokerException.class, () -> producer.send(tooFull));
        Check.equal(ResponseCode.MESSAGE_ILLEGAL, refusal.getResponseCode(), "code of " + refusal);
        Check.equal(1, stage.readAll(topic).size(), "messages stored");
        return refusal.getErrorMessage();
    }

    /** The client refuses such a name before it asks; a request made by hand shows that the broker does, too. */
    private static Object unicodeTopic(Stage stage) throws Exception {
        DefaultMQProducer producer = stage.producer();
        String topic = "Überweisung-支付";
        Check.contains("illegal", Check.fails(MQClientException.class,
            () -> producer.send(Stage.message(topic, "", "", "x"))).getMessage(), "the client's own refusal");
        String broker = stage.admin().examineBrokerClusterInfo().getBrokerAddrTable().values().iterator().next().selectBrokerAddr();
        NettyRemotingClient client = new NettyRemotingClient(new NettyClientConfig());
        client.start();
        stage.atTheEnd(client::shutdown);
        Map<String, Object> remarks = new HashMap<>();
        for (String name : List.of(topic, "x".repeat(128), "", "SCHEDULE_TOPIC_XXXX")) {
            RemotingCommand request = RemotingCommand.createRequestCommand(RequestCode.SEND_MESSAGE, null);
            request.setExtFields(new HashMap<>(Map.of("producerGroup", "byHand", "topic", name, "defaultTopic", "TBW102",
                "defaultTopicQueueNums", "4", "queueId", "0", "sysFlag", "0", "bornTimestamp", "0", "flag", "0")));
            request.setBody("x".getBytes(StandardCharsets.UTF_8));
            RemotingCommand response = client.invokeSync(broker, request, 10_000);
            Check.that(response.getCode() != ResponseCode.SUCCESS, "accepted: topic " + name);
            Check.equal(RemotingCommand.getSerializeTypeConfigInThisServer(), response.getSerializeTypeCurrentRPC(), "encoding of the answer");
            remarks.put(name.length() > 100 ? "long" : name, response.getCode() + " " + response.getRemark());
        }
        for (String name : stage.admin().fetchAllTopicList().getTopicList()) {
            Check.that(name.chars().allMatch(letter -> letter < 128), "there is a topic " + name);
        }
        return remarks;
    }
}
