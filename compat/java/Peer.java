import com.alibaba.fastjson.JSON;
import com.alibaba.fastjson.JSONObject;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;

/**
 * One warm JVM that carries out the test suite's wishes with the real Java client and store.
 *
 * Each line on standard input is a JSON object whose "do" names the task; each line on standard output is a JSON object:
 * any number of {"progress": n}, then {"ok": result} or {"error": text}. The process ends at the end of its input.
 * Whatever RocketMQ itself prints goes to standard error, so the two never mix.
 */
public final class Peer {
    private static final PrintStream ANSWERS = new PrintStream(System.out, false, StandardCharsets.UTF_8);

    public static void main(String[] args) throws Exception {
        System.setOut(System.err);
        BufferedReader wishes = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line; (line = wishes.readLine()) != null; ) {
            JSONObject wish = JSON.parseObject(line);
            JSONObject answer = new JSONObject();
            try {
                answer.put("ok", carryOut(wish));
            } catch (Throwable failure) {
                failure.printStackTrace();
                answer.put("error", failure.toString());
            }
            say(answer);
        }
        System.exit(0); // the client leaves non-daemon threads behind
    }

    private static Object carryOut(JSONObject wish) throws Exception {
        switch (wish.getString("do")) {
            case "write":
                return Writer.run(wish);
            case "ask":
                return Asker.run(wish);
            case "consume":
                return Consumer.run(wish);
            case "put":
                return StoreWriter.run(wish);
            default:
                throw new IllegalArgumentException("unknown task " + wish.getString("do"));
        }
    }

    static void progress(long count) {
        JSONObject answer = new JSONObject();
        answer.put("progress", count);
        say(answer);
    }

    private static synchronized void say(JSONObject answer) {
        ANSWERS.println(answer.toJSONString());
        ANSWERS.flush();
    }
}
