import com.alibaba.fastjson.JSON;
import com.alibaba.fastjson.serializer.SerializerFeature;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.rocketmq.common.MQVersion;
import org.apache.rocketmq.remoting.protocol.RemotingCommand;

/**
 * Writes down what the classes of Apache RocketMQ 4.9.7 make of fixed values, for our own encoders to be compared with.
 *
 * <p>One JSON file per subject, one entry per line. Nothing in them depends on time, host or process, so two runs give the same
 * files; the exception are compressed bytes, which depend on the zlib of the JDK, and those entries say so.
 */
public final class Golden {
    private final List<Map<String, Object>> entries = new ArrayList<>();

    public static void main(String[] args) throws Exception {
        System.setProperty(RemotingCommand.REMOTING_VERSION_KEY, Integer.toString(MQVersion.CURRENT_VERSION));
        Path directory = Path.of(args[0]);
        Files.createDirectories(directory);
        Commands.write(directory.resolve("commands.json"));
        Records.write(directory.resolve("records.json"));
        Batches.write(directory.resolve("batches.json"));
        Bodies.writeJson(directory.resolve("json.json"));
        Bodies.writeCompressed(directory.resolve("compressed.json"));
        Names.writeIds(directory.resolve("ids.json"));
        Names.writeHashes(directory.resolve("hashes.json"));
        Names.writeProperties(directory.resolve("properties.json"));
    }

    /** Begins an entry; fields are added to the map that comes back. */
    Map<String, Object> entry(String name) {
        Map<String, Object> entry = new LinkedHashMap<>();
        entry.put("name", name);
        entries.add(entry);
        return entry;
    }

    void save(Path file) throws IOException {
        StringBuilder text = new StringBuilder("[\n");
        for (int i = 0; i < entries.size(); i++) {
            text.append(JSON.toJSONString(entries.get(i), SerializerFeature.WriteMapNullValue,
                SerializerFeature.DisableCircularReferenceDetect));
            text.append(i + 1 < entries.size() ? ",\n" : "\n");
        }
        Files.write(file, text.append("]\n").toString().getBytes(StandardCharsets.UTF_8));
        System.err.println(file.getFileName() + ": " + entries.size() + " entries");
    }

    static String hex(byte[] bytes) {
        StringBuilder text = new StringBuilder();
        for (byte b : bytes) {
            text.append(String.format("%02x", b));
        }
        return text.toString();
    }

    static byte[] utf8(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }
}
