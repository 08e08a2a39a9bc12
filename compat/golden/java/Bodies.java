import com.alibaba.fastjson.JSON;
import com.alibaba.fastjson.serializer.SerializerFeature;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.rocketmq.common.admin.ConsumeStats;
import org.apache.rocketmq.common.admin.OffsetWrapper;
import org.apache.rocketmq.common.compression.CompressionType;
import org.apache.rocketmq.common.compression.CompressorFactory;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.common.protocol.body.ConsumerOffsetSerializeWrapper;
import org.apache.rocketmq.common.protocol.body.ResetOffsetBody;
import org.apache.rocketmq.common.protocol.route.BrokerData;
import org.apache.rocketmq.common.protocol.route.QueueData;
import org.apache.rocketmq.common.protocol.route.TopicRouteData;
import org.apache.rocketmq.remoting.protocol.RemotingSerializable;

/** What stands in bodies: fastjson's JSON with its odd keys, and compressed message bodies. */
final class Bodies {
    private Bodies() {
    }

    static void writeJson(Path file) throws Exception {
        Golden golden = new Golden();

        TopicRouteData route = new TopicRouteData();
        HashMap<Long, String> addresses = new HashMap<>(Map.of(0L, "10.1.2.3:10911", 1L, "10.1.2.4:10911"));
        route.setBrokerDatas(List.of(new BrokerData("DefaultCluster", "broker-a", addresses)));
        QueueData queues = new QueueData();
        queues.setBrokerName("broker-a");
        queues.setReadQueueNums(8);
        queues.setWriteQueueNums(8);
        queues.setPerm(6);
        route.setQueueDatas(List.of(queues));
        route.setFilterServerTable(new HashMap<>());
        json(golden, "route", route);

        ResetOffsetBody reset = new ResetOffsetBody();
        Map<MessageQueue, Long> offsets = new LinkedHashMap<>();
        offsets.put(new MessageQueue("orders", "broker-a", 0), 5L);
        offsets.put(new MessageQueue("orders", "broker-a", 1), -1L);
        reset.setOffsetTable(offsets);
        json(golden, "reset_offsets", reset);

        ConsumeStats stats = new ConsumeStats();
        OffsetWrapper wrapper = new OffsetWrapper();
        wrapper.setBrokerOffset(100);
        wrapper.setConsumerOffset(90);
        wrapper.setLastTimestamp(1700000000000L);
        HashMap<MessageQueue, OffsetWrapper> table = new HashMap<>();
        table.put(new MessageQueue("主题", "broker-a", 0), wrapper);
        stats.setOffsetTable(table);
        stats.setConsumeTps(1.5);
        json(golden, "consume_stats", stats);

        ConsumerOffsetSerializeWrapper consumed = new ConsumerOffsetSerializeWrapper();
        consumed.getOffsetTable().put("orders@consumers", new java.util.concurrent.ConcurrentHashMap<>(Map.of(0, 5L, 1, 6L)));
        json(golden, "consumer_offsets", consumed);

        Map<String, Object> shared = new LinkedHashMap<>();
        shared.put("first", queues);
        shared.put("again", queues);
        json(golden, "reference", shared);

        Map<Object, Object> odd = new LinkedHashMap<>();
        odd.put(1, "int");
        odd.put(-2L, "long");
        odd.put(true, "bool");
        odd.put(null, "null");
        odd.put(List.of(1, 2), "list");
        odd.put("text \u0001\"\\\n\u2028", "escapes \u007F\u0080\t/");
        odd.put("numbers", List.of(0, Long.MIN_VALUE, new java.math.BigInteger("123456789012345678901234567890"), 1.0, 1e30, 1.5f));
        odd.put("nested", Map.of("empty list", List.of()));
        json(golden, "odd_keys", odd);
        golden.save(file);
    }

    /** As Java sends it, and as any JSON reader could read it. */
    private static void json(Golden golden, String name, Object body) {
        Map<String, Object> entry = golden.entry(name);
        entry.put("text", new String(RemotingSerializable.encode(body), StandardCharsets.UTF_8));
        entry.put("quoted", JSON.toJSONString(body, SerializerFeature.WriteNonStringKeyAsString));
    }

    /** A body worth compressing: part pattern, part noise. */
    static byte[] sample() {
        byte[] body = new byte[600];
        int noise = 1;
        for (int i = 0; i < body.length; i++) {
            noise = noise * 1103515245 + 12345;
            body[i] = i % 60 < 50 ? (byte) ('a' + i % 7) : (byte) (noise >> 16);
        }
        return body;
    }

    static void writeCompressed(Path file) throws Exception {
        Golden golden = new Golden();
        Map<String, byte[]> bodies = new LinkedHashMap<>();
        bodies.put("sample", sample());
        bodies.put("one_byte", new byte[] {7});
        bodies.put("empty", new byte[0]);
        bodies.put("zeros", new byte[100_000]);
        for (Map.Entry<String, byte[]> body : bodies.entrySet()) {
            for (CompressionType type : CompressionType.values()) {
                Map<String, Object> entry = golden.entry(body.getKey() + "_" + type);
                entry.put("deterministic", false);
                entry.put("sys_flag", 1 | type.getCompressionFlag());
                entry.put("length", body.getValue().length);
                entry.put("body", body.getValue().length > 1000 ? null : Golden.hex(body.getValue()));
                entry.put("compressed", Golden.hex(CompressorFactory.getCompressor(type).compress(body.getValue(), 5)));
            }
        }
        golden.save(file);
    }
}
