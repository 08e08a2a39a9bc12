import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.rocketmq.common.UtilAll;
import org.apache.rocketmq.common.compression.CompressionType;
import org.apache.rocketmq.common.compression.CompressorFactory;
import org.apache.rocketmq.common.message.MessageAccessor;
import org.apache.rocketmq.common.message.MessageDecoder;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.sysflag.MessageSysFlag;

/** Messages as records, by {@link MessageDecoder}, and lists of them. */
final class Records {
    private final Golden golden = new Golden();
    private final List<byte[]> encoded = new ArrayList<>();

    interface Change {
        void apply(MessageExt message) throws Exception;
    }

    static void write(Path file) throws Exception {
        Records records = new Records();
        InetSocketAddress bornV6 = host("2001:db8::ff:1", 5555);
        InetSocketAddress storeV6 = host("fe80::1:2:3:4", 10911);
        records.add("plain", m -> { });
        records.add("born_v6", m -> { m.setBornHost(bornV6); m.setBornHostV6Flag(); });
        records.add("store_v6", m -> { m.setStoreHost(storeV6); m.setStoreHostAddressV6Flag(); });
        records.add("both_v6", m -> {
            m.setBornHost(bornV6);
            m.setBornHostV6Flag();
            m.setStoreHost(storeV6);
            m.setStoreHostAddressV6Flag();
        });
        records.add("empty_body", m -> m.setBody(new byte[0]));
        records.add("one_byte_body", m -> m.setBody(new byte[] {(byte) 0x80}));
        records.add("no_properties", m -> MessageAccessor.setProperties(m, new LinkedHashMap<>()));
        records.add("unicode", m -> {
            m.setTopic("主题-ü-😀");
            MessageAccessor.putProperty(m, "TAGS", "标签");
            MessageAccessor.putProperty(m, "имя", "значение 😀");
        });
        records.add("longest_topic", m -> m.setTopic("t".repeat(127)));
        records.add("prepared", m -> m.setSysFlag(MessageSysFlag.TRANSACTION_PREPARED_TYPE));
        records.add("committed", m -> {
            m.setSysFlag(MessageSysFlag.TRANSACTION_COMMIT_TYPE);
            m.setPreparedTransactionOffset(4096);
        });
        records.add("rolled_back", m -> m.setSysFlag(MessageSysFlag.TRANSACTION_ROLLBACK_TYPE));
        records.add("multi_tags", m -> m.setSysFlag(MessageSysFlag.MULTI_TAGS_FLAG));
        records.add("consumed_again", m -> m.setReconsumeTimes(16));
        records.add("extreme_numbers", m -> {
            m.setQueueId(Integer.MAX_VALUE);
            m.setFlag(Integer.MIN_VALUE);
            m.setQueueOffset(Long.MAX_VALUE);
            m.setCommitLogOffset(Long.MIN_VALUE);
            m.setBornTimestamp(-1);
            m.setStoreTimestamp(0);
            m.setReconsumeTimes(-1);
            m.setPreparedTransactionOffset(-2);
            m.setBornHost(host("255.255.255.255", 65535));
            m.setStoreHost(host("0.0.0.0", 0));
        });
        for (CompressionType type : CompressionType.values()) {
            records.add("compressed_" + type, m -> compress(m, type, type.getCompressionFlag()));
        }
        records.add("compressed_by_an_old_client", m -> compress(m, CompressionType.ZLIB, 0));
        records.list();
        records.golden.save(file);
    }

    /** The first record, for commands that carry one. */
    static byte[] plain() throws Exception {
        return MessageDecoder.encode(message(), false);
    }

    static InetSocketAddress host(String ip, int port) throws Exception {
        return new InetSocketAddress(InetAddress.getByName(ip), port);
    }

    private static void compress(MessageExt message, CompressionType type, int typeFlag) throws Exception {
        message.setSysFlag(MessageSysFlag.COMPRESSED_FLAG | typeFlag);
        message.setBody(CompressorFactory.getCompressor(type).compress(Bodies.sample(), 5));
    }

    private static MessageExt message() throws Exception {
        MessageExt message = new MessageExt();
        message.setTopic("T1");
        message.setBody(Golden.utf8("hello"));
        message.setQueueId(3);
        message.setFlag(9);
        message.setQueueOffset(77);
        message.setCommitLogOffset(452);
        message.setBornTimestamp(1700000000000L);
        message.setBornHost(host("127.0.0.1", 5555));
        message.setStoreTimestamp(1700000000123L);
        message.setStoreHost(host("10.1.2.3", 10911));
        Map<String, String> properties = new LinkedHashMap<>();
        properties.put("TAGS", "TagA");
        properties.put("KEYS", "k1 k2");
        properties.put("UNIQ_KEY", "UK1");
        MessageAccessor.setProperties(message, properties);
        return message;
    }

    private void add(String name, Change change) throws Exception {
        MessageExt message = message();
        change.apply(message);
        message.setBodyCRC(UtilAll.crc32(message.getBody()));
        byte[] record = MessageDecoder.encode(message, false);
        encoded.add(record);
        Map<String, Object> entry = golden.entry(name);
        boolean compressed = (message.getSysFlag() & MessageSysFlag.COMPRESSED_FLAG) != 0;
        entry.put("deterministic", !compressed);
        describe(entry, message);
        if (compressed) {
            entry.put("inflated", Golden.hex(MessageDecoder.decode(ByteBuffer.wrap(record)).getBody()));
        }
        entry.put("record", Golden.hex(record));
    }

    static void describe(Map<String, Object> entry, MessageExt message) {
        entry.put("queue_id", message.getQueueId());
        entry.put("flag", message.getFlag());
        entry.put("queue_offset", message.getQueueOffset());
        entry.put("physical_offset", message.getCommitLogOffset());
        entry.put("sys_flag", message.getSysFlag());
        entry.put("born_timestamp", message.getBornTimestamp());
        host(entry, "born", (InetSocketAddress) message.getBornHost());
        entry.put("store_timestamp", message.getStoreTimestamp());
        host(entry, "store", (InetSocketAddress) message.getStoreHost());
        entry.put("reconsume_times", message.getReconsumeTimes());
        entry.put("prepared_transaction_offset", message.getPreparedTransactionOffset());
        entry.put("topic", message.getTopic());
        entry.put("properties", MessageDecoder.messageProperties2String(message.getProperties()));
        entry.put("body", Golden.hex(message.getBody()));
    }

    private static void host(Map<String, Object> entry, String whose, InetSocketAddress host) {
        entry.put(whose + "_ip", host.getAddress().getHostAddress());
        entry.put(whose + "_port", host.getPort());
    }

    /** All records back to back, and how Java reads that. */
    private void list() {
        int size = encoded.stream().mapToInt(record -> record.length).sum();
        ByteBuffer all = ByteBuffer.allocate(size);
        encoded.forEach(all::put);
        all.flip();
        List<MessageExt> seen = MessageDecoder.decodes(all.duplicate());
        Map<String, Object> entry = golden.entry("list");
        entry.put("deterministic", false);
        entry.put("topics", seen.stream().map(MessageExt::getTopic).toArray());
        entry.put("offset_ids", seen.stream().map(MessageDecoderIds::offsetId).toArray());
        entry.put("list", Golden.hex(Arrays.copyOf(all.array(), size)));
    }

    /** The client shows the unique id as a message's id; the offset id is kept beside it. */
    private static final class MessageDecoderIds {
        static String offsetId(MessageExt message) {
            return MessageDecoder.createMessageId(message.getStoreHost(), message.getCommitLogOffset());
        }
    }
}
