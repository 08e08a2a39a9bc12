import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import org.apache.rocketmq.common.message.Message;

/**
 * Messages that depend on a seed and their number only: bodies from one byte to far past the compression limit, no key to
 * three keys, no tag, plain tags, two tags with one hash ("Aa", "BB"), names and values outside ASCII and outside the BMP.
 */
final class MessageMaker {
    private static final String[] TAGS = {null, "TagA", "TagB", "Aa", "BB", "标签", "étiquette-😀", "TagC"};

    private final long seed;
    private final List<Integer> delayLevels;

    MessageMaker(long seed, List<Integer> delayLevels) {
        this.seed = seed;
        this.delayLevels = delayLevels;
    }

    Message make(String topic, int number) {
        Random random = random(number);
        Message message = new Message(topic, body(random, number));
        String tag = TAGS[random.nextInt(TAGS.length)];
        if (tag != null) {
            message.setTags(tag);
        }
        List<String> keys = new ArrayList<>();
        if (random.nextInt(10) > 0) {
            keys.add("order-" + seed + "-" + number);
        }
        if (random.nextInt(3) == 0) {
            keys.add("shared-" + random.nextInt(400));
        }
        if (random.nextInt(5) == 0) {
            keys.add("客户-" + random.nextInt(400));
        }
        if (!keys.isEmpty()) {
            message.setKeys(keys);
        }
        message.setFlag(random.nextInt());
        if (random.nextInt(3) == 0) {
            message.putUserProperty("región", "Köln-" + random.nextInt(5) + "-😀");
        }
        message.putUserProperty("number", Integer.toString(number));
        return message;
    }

    /** 0 for most messages. */
    int delayLevel(int number) {
        Random random = new Random(seed * 31 + number * 7L + 3);
        return random.nextInt(12) == 0 ? delayLevels.get(random.nextInt(delayLevels.size())) : 0;
    }

    int batchSize(int number) {
        Random random = new Random(seed * 17 + number * 13L + 5);
        return random.nextInt(20) == 0 ? 2 + random.nextInt(15) : 1;
    }

    private byte[] body(Random random, int number) {
        int kind = random.nextInt(1000);
        int size = kind < 700 ? 1 + random.nextInt(200)
            : kind < 950 ? 200 + random.nextInt(1800)
            : kind < 999 ? 2000 + random.nextInt(6000)
            : 40_000 + random.nextInt(80_000);
        if (random.nextInt(4) == 0) {
            StringBuilder text = new StringBuilder();
            while (text.length() < Math.max(1, size / 3)) {
                text.append("消息 ").append(number).append(" é😀 ");
            }
            return text.toString().getBytes(StandardCharsets.UTF_8);
        }
        byte[] body = new byte[size];
        random.nextBytes(body);
        return body;
    }

    private Random random(int number) {
        return new Random(seed * 1_000_003 + number);
    }
}
