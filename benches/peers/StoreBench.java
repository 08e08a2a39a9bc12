import java.net.InetSocketAddress;
import java.net.SocketAddress;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.Locale;
import java.util.Map;
import org.apache.rocketmq.common.BrokerConfig;
import org.apache.rocketmq.store.DefaultMessageStore;
import org.apache.rocketmq.store.GetMessageResult;
import org.apache.rocketmq.store.GetMessageStatus;
import org.apache.rocketmq.store.MessageExtBrokerInner;
import org.apache.rocketmq.store.PutMessageResult;
import org.apache.rocketmq.store.config.MessageStoreConfig;
import org.apache.rocketmq.store.stats.BrokerStatsManager;

/**
 * Java's side of the store benchmarks: DefaultMessageStore with its default configuration (1 GiB files, async flush), called
 * in a loop on one thread. One JSON line on standard output; the words are those of crates/store/examples/bench.rs.
 *
 *   append --dir D --body BYTES --messages N --warmup N --queues N
 *   read   --dir D --messages N --warmup N --queues N      (of a store that append or the Rust side filled)
 *   open   --dir D
 */
public final class StoreBench {
    private static final String TOPIC = "bench";
    private static final SocketAddress BORN_HOST = new InetSocketAddress("127.0.0.1", 50000);
    private static final SocketAddress STORE_HOST = new InetSocketAddress("127.0.0.1", 10911);
    private static final int READ_BATCH = 32;
    /** Between warm-up and measurement, on both sides: what background threads have left to do shall be done. */
    private static final long PAUSE_MS = 2000;

    public static void main(String[] args) throws Exception {
        Map<String, String> options = new HashMap<>();
        for (int i = 1; i + 1 < args.length; i += 2) {
            options.put(args[i].substring(2), args[i + 1]);
        }
        switch (args[0]) {
            case "append":
                append(options);
                break;
            case "read":
                read(options);
                break;
            case "open":
                open(options);
                break;
            default:
                throw new IllegalArgumentException(args[0]);
        }
        System.exit(0);
    }

    private static void append(Map<String, String> options) throws Exception {
        DefaultMessageStore store = opened(options);
        byte[] body = new byte[number(options, "body")];
        int queues = number(options, "queues");
        int warmup = number(options, "warmup");
        int messages = number(options, "messages");
        put(store, body, queues, 0, warmup);
        awaitDispatch(store);
        Thread.sleep(PAUSE_MS);
        long start = System.nanoTime();
        put(store, body, queues, warmup, warmup + messages);
        long appended = System.nanoTime();
        awaitDispatch(store);
        long dispatched = System.nanoTime();
        System.out.printf(Locale.ROOT, "{\"messages\":%d,\"seconds\":%.6f,\"messages_per_s\":%.0f,\"dispatched_messages_per_s\":%.0f}%n",
            messages, (appended - start) / 1e9, messages * 1e9 / (appended - start), messages * 1e9 / (dispatched - start));
        System.out.flush();
        store.shutdown();
    }

    private static void put(DefaultMessageStore store, byte[] body, int queues, int from, int to) {
        char[] uniqueKey = "7F00000100002A9F0000018B00000000".toCharArray();
        for (int i = from; i < to; i++) {
            for (int digit = 0, rest = i; digit < 8; digit++, rest >>>= 4) {
                uniqueKey[31 - digit] = "0123456789ABCDEF".charAt(rest & 15);
            }
            MessageExtBrokerInner message = new MessageExtBrokerInner();
            message.setTopic(TOPIC);
            message.setQueueId(i % queues);
            message.setBody(body);
            message.setBornTimestamp(1_700_000_000_000L);
            message.setBornHost(BORN_HOST);
            message.setStoreHost(STORE_HOST);
            message.setPropertiesString("UNIQ_KEY\u0001" + new String(uniqueKey) + "\u0002TAGS\u0001TagA");
            PutMessageResult result = store.putMessage(message);
            if (!result.isOk()) {
                throw new IllegalStateException(result.toString());
            }
        }
    }

    /** Filling the queues and the index is the business of a background thread; both sides are compared with it caught up, too. */
    private static void awaitDispatch(DefaultMessageStore store) {
        while (store.dispatchBehindBytes() > 0) {
            Thread.onSpinWait();
        }
    }

    private static void read(Map<String, String> options) throws Exception {
        DefaultMessageStore store = opened(options);
        int queues = number(options, "queues");
        int messages = number(options, "messages");
        get(store, queues, number(options, "warmup"));
        long start = System.nanoTime();
        long bytes = get(store, queues, messages);
        long end = System.nanoTime();
        System.out.printf(Locale.ROOT, "{\"messages\":%d,\"seconds\":%.6f,\"messages_per_s\":%.0f,\"bytes\":%d}%n",
            messages, (end - start) / 1e9, messages * 1e9 / (end - start), bytes);
        System.out.flush();
        store.shutdown();
    }

    private static long get(DefaultMessageStore store, int queues, int messages) {
        long bytes = 0;
        int count = 0;
        for (int queueId = 0; queueId < queues && count < messages; queueId++) {
            long offset = 0;
            while (count < messages) {
                GetMessageResult result = store.getMessage("bench", TOPIC, queueId, offset, READ_BATCH, null);
                try {
                    if (result.getStatus() != GetMessageStatus.FOUND) {
                        break;
                    }
                    bytes += result.getBufferTotalSize();
                    count += result.getMessageCount();
                    offset = result.getNextBeginOffset();
                } finally {
                    result.release();
                }
            }
        }
        if (count < messages) {
            throw new IllegalStateException("the store holds only " + count + " of " + messages + " messages");
        }
        return bytes;
    }

    private static void open(Map<String, String> options) throws Exception {
        long start = System.nanoTime();
        DefaultMessageStore store = opened(options);
        long end = System.nanoTime();
        String resident = Files.readAllLines(Path.of("/proc/self/status")).stream()
            .filter(line -> line.startsWith("VmRSS:")).findFirst().orElseThrow().replaceAll("\\D", "");
        System.out.printf(Locale.ROOT, "{\"seconds\":%.6f,\"resident_mb\":%.1f}%n", (end - start) / 1e9, Long.parseLong(resident) / 1024.0);
        System.out.flush();
        store.shutdown();
    }

    private static DefaultMessageStore opened(Map<String, String> options) throws Exception {
        MessageStoreConfig config = new MessageStoreConfig();
        config.setStorePathRootDir(options.get("dir"));
        config.setStorePathCommitLog(options.get("dir") + "/commitlog");
        config.setHaListenPort(number(options, "ha-port"));
        config.setDiskMaxUsedSpaceRatio(95);
        config.setCleanFileForciblyEnable(false);
        DefaultMessageStore store = new DefaultMessageStore(config, new BrokerStatsManager("bench", true),
            (topic, queueId, offset, tagsCode, time, bitMap, properties) -> { }, new BrokerConfig());
        if (!store.load()) {
            throw new IllegalStateException("load failed");
        }
        store.start();
        return store;
    }

    private static int number(Map<String, String> options, String name) {
        return Integer.parseInt(options.get(name));
    }
}
