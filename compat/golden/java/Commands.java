import com.alibaba.fastjson.JSON;
import com.alibaba.fastjson.JSONObject;
import com.alibaba.fastjson.parser.Feature;
import io.netty.buffer.ByteBuf;
import io.netty.buffer.Unpooled;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.rocketmq.remoting.protocol.RemotingCommand;
import org.apache.rocketmq.remoting.protocol.SerializeType;

/** Every command of {@link CommandList} as frames: both encodings, both of Java's ways of writing a header. */
final class Commands {
    private final Golden golden = new Golden();

    static void write(Path file) throws Exception {
        Commands commands = new Commands();
        for (Map.Entry<String, CommandList.Maker> maker : CommandList.all().entrySet()) {
            for (SerializeType type : SerializeType.values()) {
                // "net" is what Java's connections write; "plain" is the older way, still used where a frame is built by hand.
                byte[] net = net(command(maker.getValue(), type));
                commands.add(maker.getKey(), type, "net", net);
                byte[] plain = plain(command(maker.getValue(), type));
                if (!java.util.Arrays.equals(net, plain)) {
                    commands.add(maker.getKey(), type, "plain", plain);
                }
            }
        }
        commands.golden.save(file);
    }

    private static RemotingCommand command(CommandList.Maker maker, SerializeType type) throws Exception {
        RemotingCommand command = maker.make();
        command.setSerializeTypeCurrentRPC(type);
        return command;
    }

    private static byte[] net(RemotingCommand command) {
        ByteBuf out = Unpooled.buffer();
        command.fastEncodeHeader(out);
        if (command.getBody() != null) {
            out.writeBytes(command.getBody());
        }
        byte[] bytes = new byte[out.readableBytes()];
        out.readBytes(bytes);
        return bytes;
    }

    private static byte[] plain(RemotingCommand command) {
        ByteBuffer out = command.encode();
        byte[] bytes = new byte[out.remaining()];
        out.get(bytes);
        return bytes;
    }

    private void add(String name, SerializeType type, String path, byte[] frame) throws Exception {
        // Java's decoder is given the frame without its length word, as its connections do.
        RemotingCommand seen = RemotingCommand.decode(ByteBuffer.wrap(frame, 4, frame.length - 4).slice());
        Map<String, Object> entry = golden.entry(name);
        entry.put("encoding", type.name());
        entry.put("path", path);
        entry.put("code", seen.getCode());
        entry.put("language", seen.getLanguage().name());
        entry.put("version", seen.getVersion());
        entry.put("opaque", seen.getOpaque());
        entry.put("flag", seen.getFlag());
        entry.put("remark", seen.getRemark());
        entry.put("ext_written", extInOrder(frame, type));
        entry.put("ext_seen", seen.getExtFields() == null ? null : new TreeMap<>(seen.getExtFields()));
        entry.put("body", Golden.hex(seen.getBody() == null ? new byte[0] : seen.getBody()));
        entry.put("frame", Golden.hex(frame));
    }

    /** The ext fields as they stand in the frame, empty values and repeated names included; null when there is no map. */
    private static List<List<String>> extInOrder(byte[] frame, SerializeType type) {
        ByteBuffer in = ByteBuffer.wrap(frame);
        in.getInt();
        byte[] header = new byte[in.getInt() & 0xFFFFFF];
        in.get(header);
        List<List<String>> fields = new ArrayList<>();
        if (type == SerializeType.JSON) {
            JSONObject json = JSON.parseObject(new String(header, StandardCharsets.UTF_8), Feature.OrderedField);
            JSONObject map = json.getJSONObject("extFields");
            if (map == null) {
                return null;
            }
            map.forEach((key, value) -> fields.add(List.of(key, (String) value)));
            return fields;
        }
        ByteBuffer binary = ByteBuffer.wrap(header);
        binary.position(13);
        text(binary, binary.getInt());
        int end = binary.getInt() + binary.position();
        while (binary.position() < end) {
            String key = text(binary, binary.getShort());
            fields.add(List.of(key, text(binary, binary.getInt())));
        }
        return fields.isEmpty() ? null : fields;
    }

    private static String text(ByteBuffer in, int length) {
        byte[] bytes = new byte[length];
        in.get(bytes);
        return new String(bytes, StandardCharsets.UTF_8);
    }
}
