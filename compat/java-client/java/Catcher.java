import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.function.Function;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.common.message.MessageExt;

/** A listener that keeps what it was given. */
final class Catcher {
    /** A delivery and when it came. */
    static final class Caught {
        final MessageExt message;
        final long atMs;

        Caught(MessageExt message) {
            this.message = message;
            this.atMs = System.currentTimeMillis();
        }

        String text() {
            return Stage.text(message);
        }
    }

    final List<Caught> caught = new CopyOnWriteArrayList<>();

    /** Listen; the verdict says of each message whether it is consumed. */
    void concurrently(DefaultMQPushConsumer consumer, Function<MessageExt, Boolean> verdict) {
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            boolean consumed = true;
            for (MessageExt message : messages) {
                caught.add(new Caught(message));
                consumed &= verdict.apply(message);
            }
            return consumed ? ConsumeConcurrentlyStatus.CONSUME_SUCCESS : ConsumeConcurrentlyStatus.RECONSUME_LATER;
        });
    }

    void orderly(DefaultMQPushConsumer consumer, Function<MessageExt, Boolean> verdict) {
        consumer.registerMessageListener((MessageListenerOrderly) (messages, context) -> {
            boolean consumed = true;
            for (MessageExt message : messages) {
                caught.add(new Caught(message));
                consumed &= verdict.apply(message);
            }
            return consumed ? ConsumeOrderlyStatus.SUCCESS : ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT;
        });
    }

    void await(int count, long limitMs) throws Exception {
        Check.await(limitMs, () -> caught.size() + " of " + count + " deliveries came", () -> caught.size() >= count);
    }

    List<String> texts() {
        List<String> texts = new ArrayList<>();
        caught.forEach(one -> texts.add(one.text()));
        return texts;
    }

    Set<String> distinct() {
        return new TreeSet<>(texts());
    }
}
