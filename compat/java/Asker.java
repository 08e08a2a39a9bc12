import com.alibaba.fastjson.JSON;
import com.alibaba.fastjson.JSONArray;
import com.alibaba.fastjson.JSONObject;
import java.io.BufferedOutputStream;
import java.io.OutputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.Map;
import org.apache.rocketmq.common.protocol.RequestCode;
import org.apache.rocketmq.common.protocol.ResponseCode;
import org.apache.rocketmq.remoting.netty.NettyClientConfig;
import org.apache.rocketmq.remoting.netty.NettyRemotingClient;
import org.apache.rocketmq.remoting.protocol.RemotingCommand;

/**
 * Asks a running broker and hands on its answers as they came: record bytes are not decoded, so that the suite compares
 * bytes with bytes.
 *
 * {"do":"ask", "broker": address, "questions": [...], "bytes": path} answers a list, one element a question:
 *   {"ask":"range",   "topic", "queue_id"}                       → {"min", "max"}
 *   {"ask":"records", "topic", "queue_id"}                       → {"start", "length", "count"}: every record from min to max
 *   {"ask":"units",   "topic", "queue_id"}                       → [[physical_offset, size, tags_code], ...]
 *   {"ask":"key",     "topic", "key", "max", "begin", "end"}     → {"start", "length"}
 *   {"ask":"time",    "topic", "queue_id", "timestamp"}          → queue offset
 *   {"ask":"record",  "physical_offset"}                         → {"start", "length"}
 *   {"ask":"runtime"}                                            → the broker's runtime table, empty while it has none
 * "start" and "length" speak of the file "bytes".
 */
final class Asker {
    private static final long TIMEOUT_MS = 30_000;
    private static final String GROUP = "asker";
    private static final int PULL_SUBSCRIPTION = 4; // PullSysFlag: the request carries its subscription, hold nothing, commit nothing

    private final NettyRemotingClient client;
    private final String broker;
    private final OutputStream bytes;
    private long position;

    private Asker(NettyRemotingClient client, String broker, OutputStream bytes) {
        this.client = client;
        this.broker = broker;
        this.bytes = bytes;
    }

    static JSONArray run(JSONObject wish) throws Exception {
        NettyRemotingClient client = new NettyRemotingClient(new NettyClientConfig());
        client.start();
        try (OutputStream bytes = new BufferedOutputStream(Files.newOutputStream(Path.of(wish.getString("bytes"))), 1 << 20)) {
            Asker asker = new Asker(client, wish.getString("broker"), bytes);
            JSONArray answers = new JSONArray();
            JSONArray questions = wish.getJSONArray("questions");
            for (int i = 0; i < questions.size(); i++) {
                answers.add(asker.answer(questions.getJSONObject(i)));
            }
            return answers;
        } finally {
            client.shutdown();
        }
    }

    private Object answer(JSONObject question) throws Exception {
        String topic = question.getString("topic");
        int queueId = question.getIntValue("queue_id");
        switch (question.getString("ask")) {
            case "range": {
                JSONObject range = new JSONObject();
                range.put("min", offset(RequestCode.GET_MIN_OFFSET, topic, queueId));
                range.put("max", offset(RequestCode.GET_MAX_OFFSET, topic, queueId));
                return range;
            }
            case "records":
                return records(topic, queueId);
            case "units":
                return units(topic, queueId);
            case "key":
                return span(call(RequestCode.QUERY_MESSAGE, Map.of("topic", topic, "key", question.getString("key"),
                    "maxNum", question.getString("max"), "beginTimestamp", question.getString("begin"),
                    "endTimestamp", question.getString("end")), ResponseCode.QUERY_NOT_FOUND));
            case "time":
                return Long.parseLong(call(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, Map.of("topic", topic, "queueId", "" + queueId,
                    "timestamp", question.getString("timestamp"))).getExtFields().get("offset"));
            case "record":
                return span(call(RequestCode.VIEW_MESSAGE_BY_ID, Map.of("offset", question.getString("physical_offset"))));
            case "runtime":
                // In its first second a broker has no statistics yet and fails over that.
                byte[] table = call(RequestCode.GET_BROKER_RUNTIME_INFO, Map.of(), ResponseCode.SYSTEM_ERROR).getBody();
                return table == null ? Map.of() : JSON.parseObject(new String(table)).get("table");
            default:
                throw new IllegalArgumentException("unknown question " + question);
        }
    }

    private JSONObject records(String topic, int queueId) throws Exception {
        long offset = offset(RequestCode.GET_MIN_OFFSET, topic, queueId);
        long max = offset(RequestCode.GET_MAX_OFFSET, topic, queueId);
        long start = position;
        long count = 0;
        while (offset < max) {
            Map<String, String> header = new HashMap<>(Map.of("consumerGroup", GROUP, "topic", topic, "queueId", "" + queueId,
                "queueOffset", "" + offset, "maxMsgNums", "800", "sysFlag", "" + PULL_SUBSCRIPTION, "commitOffset", "0",
                "suspendTimeoutMillis", "0", "subscription", "*", "subVersion", "0"));
            header.put("expressionType", "TAG");
            RemotingCommand response = call(RequestCode.PULL_MESSAGE, header, ResponseCode.PULL_RETRY_IMMEDIATELY);
            if (response.getBody() != null) {
                write(response.getBody());
            }
            long nextOffset = Long.parseLong(response.getExtFields().get("nextBeginOffset"));
            if (nextOffset <= offset) {
                throw new IllegalStateException("no way on from " + topic + "-" + queueId + " at " + offset);
            }
            count += nextOffset - offset;
            offset = nextOffset;
        }
        JSONObject span = new JSONObject();
        span.put("start", start);
        span.put("length", position - start);
        span.put("count", count);
        return span;
    }

    private JSONArray units(String topic, int queueId) throws Exception {
        JSONArray units = new JSONArray();
        long index = offset(RequestCode.GET_MIN_OFFSET, topic, queueId);
        long max = offset(RequestCode.GET_MAX_OFFSET, topic, queueId);
        while (index < max) {
            RemotingCommand response = call(RequestCode.QUERY_CONSUME_QUEUE,
                Map.of("topic", topic, "queueId", "" + queueId, "index", "" + index, "count", "500", "consumerGroup", GROUP));
            JSONArray found = JSON.parseObject(new String(response.getBody())).getJSONArray("queueData");
            for (int i = 0; i < found.size(); i++) {
                JSONObject unit = found.getJSONObject(i);
                JSONArray triple = new JSONArray();
                triple.add(unit.getLongValue("physicOffset"));
                triple.add(unit.getIntValue("physicSize"));
                triple.add(unit.getLongValue("tagsCode"));
                units.add(triple);
            }
            if (found.isEmpty()) {
                throw new IllegalStateException("no units of " + topic + "-" + queueId + " at " + index);
            }
            index += found.size();
        }
        return units;
    }

    private long offset(int code, String topic, int queueId) throws Exception {
        return Long.parseLong(call(code, Map.of("topic", topic, "queueId", "" + queueId)).getExtFields().get("offset"));
    }

    private JSONObject span(RemotingCommand response) throws Exception {
        JSONObject span = new JSONObject();
        span.put("start", position);
        byte[] body = response.getBody();
        span.put("length", body == null ? 0 : body.length);
        if (body != null) {
            write(body);
        }
        return span;
    }

    private void write(byte[] body) throws Exception {
        bytes.write(body);
        position += body.length;
    }

    private RemotingCommand call(int code, Map<String, String> header, int... alsoFine) throws Exception {
        RemotingCommand request = RemotingCommand.createRequestCommand(code, null);
        request.setExtFields(new HashMap<>(header));
        RemotingCommand response = client.invokeSync(broker, request, TIMEOUT_MS);
        boolean fine = response.getCode() == ResponseCode.SUCCESS;
        for (int other : alsoFine) {
            fine |= response.getCode() == other;
        }
        if (!fine) {
            throw new IllegalStateException("request " + code + " " + header + ": " + response.getCode() + " " + response.getRemark());
        }
        return response;
    }
}
