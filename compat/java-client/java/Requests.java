import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.exception.RequestTimeoutException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.RequestCallback;
import org.apache.rocketmq.client.utils.MessageUtil;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * Request and reply; also one half of it, the other being another client's.
 *
 *   ask      {"topic", "count"}           asks so often; every reply must be "re: " and what was asked
 *   replies  {"topic", "group", "count"}  replies so often
 */
final class Requests {
    private static final long LIMIT_MS = 20_000;

    static void register(Map<String, Driver.Scenario> scenarios) {
        scenarios.put("request_reply", Requests::both);
        scenarios.put("ask", stage -> ask(stage, stage.order.getString("topic"), stage.order.getIntValue("count")));
        scenarios.put("reply", stage -> {
            Catcher asked = replier(stage, stage.order.getString("topic"), stage.order.getString("group"));
            asked.await(stage.order.getIntValue("count"), 30_000);
            return asked.texts();
        });
    }

    private static Object both(Stage stage) throws Exception {
        String topic = stage.topic("Requests", 2);
        replier(stage, topic, stage.name("repliers"));
        ask(stage, topic, 10);

        DefaultMQProducer asker = stage.producer();
        CompletableFuture<String> later = new CompletableFuture<>();
        asker.request(Stage.message(topic, "", "", "later"), new RequestCallback() {
            @Override
            public void onSuccess(Message reply) {
                later.complete(text(reply));
            }

            @Override
            public void onException(Throwable failure) {
                later.completeExceptionally(failure);
            }
        }, LIMIT_MS);
        Check.equal("re: later", later.get(LIMIT_MS, TimeUnit.MILLISECONDS), "the reply that was not waited for");

        String silent = stage.topic("NobodyReplies", 1);
        Check.fails(RequestTimeoutException.class, () -> asker.request(Stage.message(silent, "", "", "hello?"), 300));
        return null;
    }

    private static Object ask(Stage stage, String topic, int count) throws Exception {
        DefaultMQProducer asker = stage.producer();
        for (int i = 0; i < count; i++) {
            Message reply = asker.request(Stage.message(topic, "", "k" + i, "question " + i), LIMIT_MS);
            Check.equal("re: question " + i, text(reply), "reply");
        }
        return count;
    }

    private static Catcher replier(Stage stage, String topic, String group) throws Exception {
        DefaultMQProducer sender = stage.producer();
        DefaultMQPushConsumer consumer = stage.pushConsumer(group);
        consumer.subscribe(topic, "*");
        Catcher asked = new Catcher();
        asked.concurrently(consumer, message -> reply(sender, message));
        consumer.start();
        return asked;
    }

    private static boolean reply(DefaultMQProducer sender, MessageExt request) {
        byte[] body = ("re: " + Stage.text(request)).getBytes(StandardCharsets.UTF_8);
        try {
            sender.send(MessageUtil.createReplyMessage(request, body), LIMIT_MS);
            return true;
        } catch (Exception failure) {
            throw new IllegalStateException(failure);
        }
    }

    private static String text(Message message) {
        return new String(message.getBody(), StandardCharsets.UTF_8);
    }
}
