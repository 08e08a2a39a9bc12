import java.lang.reflect.Constructor;
import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageAccessor;
import org.apache.rocketmq.common.message.MessageBatch;
import org.apache.rocketmq.common.message.MessageDecoder;
import org.apache.rocketmq.common.message.MessageExtBatch;

/** Batch bodies as producers make them, and the records the broker's own encoder makes of them. */
final class Batches {
    private final Golden golden = new Golden();

    static void write(Path file) throws Exception {
        Batches batches = new Batches();
        String batchProperties = "CLUSTER\u0001DefaultCluster\u0002WAIT\u0001true";
        batches.add("two", list(message("x", "KEYS", "k1", "TAGS", "A"), message("yz")), batchProperties);
        batches.add("one_empty_body", list(message("", "TAGS", "A")), batchProperties);
        batches.add("no_batch_properties", list(message("x", "TAGS", "A"), message("y", "TAGS", "B")), "");
        batches.add("name_in_both", list(message("x", "CLUSTER", "mine"), message("y")), batchProperties);
        batches.add("unicode", list(message("中文", "TAGS", "标签 😀")), "CLUSTER\u0001集群");
        Message flagged = message("flag");
        flagged.setFlag(-7);
        MessageAccessor.setProperties(flagged, new LinkedHashMap<>());
        batches.add("no_own_properties", list(flagged), batchProperties);
        List<Message> many = new ArrayList<>();
        for (int i = 0; i < 50; i++) {
            many.add(message("body " + i, "KEYS", "k" + i));
        }
        batches.add("fifty", many, batchProperties);
        batches.golden.save(file);
    }

    /** For the command that carries a batch. */
    static byte[] twoMessages() {
        return MessageBatch.generateFromList(list(message("x", "KEYS", "k1", "TAGS", "A"), message("yz"))).encode();
    }

    private static List<Message> list(Message... messages) {
        return new ArrayList<>(List.of(messages));
    }

    private static Message message(String body, String... properties) {
        Message message = new Message("orders", Golden.utf8(body));
        for (int i = 0; i < properties.length; i += 2) {
            MessageAccessor.putProperty(message, properties[i], properties[i + 1]);
        }
        return message;
    }

    private void add(String name, List<Message> messages, String batchProperties) throws Exception {
        byte[] body = MessageBatch.generateFromList(messages).encode();
        Map<String, Object> entry = golden.entry(name);
        List<Map<String, Object>> described = new ArrayList<>();
        for (Message message : MessageDecoder.decodeMessages(ByteBuffer.wrap(body))) {
            Map<String, Object> one = new LinkedHashMap<>();
            one.put("flag", message.getFlag());
            one.put("body", Golden.hex(message.getBody()));
            described.add(one);
        }
        List<String> properties = new ArrayList<>();
        for (Message message : messages) {
            properties.add(MessageDecoder.messageProperties2String(message.getProperties()));
        }
        entry.put("messages", described);
        entry.put("properties", properties);
        entry.put("batch_properties", batchProperties);
        entry.put("batch", Golden.hex(body));
        entry.put("stored", Golden.hex(stored(body, batchProperties)));
    }

    /** What the broker appends for a batch, before it fills in offsets and the time. */
    private static byte[] stored(byte[] body, String batchProperties) throws Exception {
        MessageExtBatch batch = new MessageExtBatch();
        batch.setTopic("orders");
        batch.setQueueId(2);
        batch.setSysFlag(0);
        batch.setBornTimestamp(1700000000000L);
        batch.setBornHost(Records.host("127.0.0.1", 5555));
        batch.setStoreHost(Records.host("10.1.2.3", 10911));
        batch.setStoreTimestamp(1700000000123L);
        batch.setReconsumeTimes(0);
        batch.setBody(body);
        if (!batchProperties.isEmpty()) {
            MessageAccessor.setProperties(batch, new LinkedHashMap<>(MessageDecoder.string2messageProperties(batchProperties)));
        }
        Class<?> encoderType = Class.forName("org.apache.rocketmq.store.CommitLog$MessageExtEncoder");
        Constructor<?> newEncoder = encoderType.getDeclaredConstructor(int.class);
        newEncoder.setAccessible(true);
        Class<?> contextType = Class.forName("org.apache.rocketmq.store.CommitLog$PutMessageContext");
        Constructor<?> newContext = contextType.getDeclaredConstructor(String.class);
        newContext.setAccessible(true);
        Method encode = encoderType.getDeclaredMethod("encode", MessageExtBatch.class, contextType);
        encode.setAccessible(true);
        ByteBuffer out = (ByteBuffer) encode.invoke(newEncoder.newInstance(4 << 20), batch, newContext.newInstance("orders-2"));
        byte[] bytes = new byte[out.remaining()];
        out.get(bytes);
        return bytes;
    }
}
