import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.rocketmq.common.UtilAll;
import org.apache.rocketmq.common.message.MessageClientIDSetter;
import org.apache.rocketmq.common.message.MessageDecoder;
import org.apache.rocketmq.common.message.MessageId;
import org.apache.rocketmq.store.MessageExtBrokerInner;
import org.apache.rocketmq.store.index.IndexFile;

/** Ids, hashes and property strings. */
final class Names {
    private Names() {
    }

    static void writeIds(Path file) throws Exception {
        Golden golden = new Golden();
        for (String ip : List.of("10.1.2.3", "255.255.255.255", "0.0.0.0", "2001:db8::ff:1", "::1")) {
            for (long offset : new long[] {0, 452, 123456789L, Long.MAX_VALUE, -1}) {
                String id = MessageDecoder.createMessageId(new InetSocketAddress(InetAddress.getByName(ip), 10911), offset);
                MessageId seen = MessageDecoder.decodeMessageId(id);
                Map<String, Object> entry = golden.entry("offset_id");
                entry.put("ip", ((InetSocketAddress) seen.getAddress()).getAddress().getHostAddress());
                entry.put("port", ((InetSocketAddress) seen.getAddress()).getPort());
                entry.put("physical_offset", seen.getOffset());
                entry.put("id", id);
            }
        }
        // A producer's id holds time and process, so its parts are fixed here and Java is asked to read them.
        byte[][] addresses = {{10, 1, 2, 3}, {(byte) 192, (byte) 168, 0, 1}, InetAddress.getByName("2001:db8::ff:1").getAddress()};
        for (byte[] ip : addresses) {
            ByteBuffer bytes = ByteBuffer.allocate(ip.length + 12);
            bytes.put(ip).putShort((short) 60000).putInt(0x98B4AAC2).putInt(1798012345).putShort((short) 40001);
            String id = UtilAll.bytes2string(bytes.array());
            Map<String, Object> entry = golden.entry("unique_id");
            entry.put("ip", InetAddress.getByName(MessageClientIDSetter.getIPStrFromID(id)).getHostAddress());
            entry.put("pid", MessageClientIDSetter.getPidFromID(id));
            entry.put("class_loader_hash", 0x98B4AAC2);
            entry.put("month_ms", 1798012345);
            entry.put("counter", 40001);
            entry.put("id", id);
        }
        checkThatProducersStillMakeSuchIds();
        golden.save(file);
    }

    private static void checkThatProducersStillMakeSuchIds() {
        String id = MessageClientIDSetter.createUniqID();
        String next = MessageClientIDSetter.createUniqID();
        int counter = Integer.parseInt(id.substring(id.length() - 4), 16);
        int nextCounter = Integer.parseInt(next.substring(next.length() - 4), 16);
        boolean same = (id.length() == 32 || id.length() == 56)
            && MessageClientIDSetter.getPidFromID(id) == (ProcessHandle.current().pid() & 0xFFFF)
            && nextCounter == (counter + 1 & 0xFFFF);
        if (!same) {
            throw new IllegalStateException("a producer's id is made otherwise: " + id + ", " + next);
        }
    }

    static void writeHashes(Path file) throws Exception {
        Golden golden = new Golden();
        Path scratch = Files.createTempDirectory("index");
        Path indexFile = scratch.resolve("20231114221320000");
        IndexFile index = new IndexFile(indexFile.toString(), 10, 10, 0, 0);
        List<String> texts = List.of("", "a", "Aa", "BB", "TagA", "TagA || TagB", "中文", "😀", "polygenelubricants",
            "7F0000010F1C18B4AAC26B2C5D1E0001", "key-bupndoh", "ÿ", "\u0000", "x".repeat(1000), "mixed ascii 中 and 😀 not");
        for (String text : texts) {
            Map<String, Object> entry = golden.entry("hash");
            entry.put("text", text);
            entry.put("java_hash", text.hashCode());
            entry.put("tags_code", MessageExtBrokerInner.tagsString2tagsCode(text));
            entry.put("index_hash", index.indexKeyHashMethod("orders#" + text));
            entry.put("body_crc", UtilAll.crc32(Golden.utf8(text)));
        }
        Files.delete(indexFile);
        Files.delete(scratch);
        golden.save(file);
    }

    static void writeProperties(Path file) throws Exception {
        Golden golden = new Golden();
        List<String> texts = List.of("", "a\u0001b", "a\u0001b\u0002", "a\u0001b\u0002c\u0001d", "\u0002\u0002a\u0001b\u0002\u0002", "a", "ab\u0002",
            "\u0001v", "n\u0001", "n\u0001\u0002x\u0001y", "n\u0001v\u0001w", "n\u0001\u0001", "\u0001\u0001v", "k\u00011\u0002k\u00012",
            "k\u00011\u0002k\u0001", "中\u0001文\u0002😀\u0001x", "ab\u0002c\u0001d", " \u0001 ", "a\u0001b\u0002\u0001\u0002c\u0001d");
        for (String text : texts) {
            Map<String, Object> entry = golden.entry("properties");
            entry.put("text", text);
            entry.put("seen", new TreeMap<>(MessageDecoder.string2messageProperties(text)));
        }
        golden.save(file);
    }
}
