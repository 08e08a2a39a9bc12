import com.alibaba.fastjson.JSON;
import com.alibaba.fastjson.JSONObject;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/**
 * One warm JVM with the real client that plays named scenarios against a cluster.
 *
 * Standard input, one JSON object a line:
 *   {"run": scenario, "id": n, "nameserver": addresses, ...}   play it
 *   {"done": n}  or  {"done": n, "error": text}                an answer to a wish
 * Standard output, likewise:
 *   {"id": n, "wish": what, ...}                               the scenario wants something done to the cluster, and waits
 *   {"id": n, "ok": result}  or  {"id": n, "error": text, "stack": frames}
 * A scenario that does not end in its time is given up: its error shows where its thread stood.
 * Whatever RocketMQ prints goes to standard error. The process ends at the end of its input.
 */
public final class Driver {
    private static final PrintStream ANSWERS = new PrintStream(System.out, false, StandardCharsets.UTF_8);
    private static final BlockingQueue<JSONObject> FULFILLED = new LinkedBlockingQueue<>();
    private static final long DEFAULT_LIMIT_MS = 150_000;

    /** What a name stands for. */
    interface Scenario {
        Object play(Stage stage) throws Exception;
    }

    private static final Map<String, Scenario> SCENARIOS = new TreeMap<>();

    static {
        Sends.register(SCENARIOS);
        Limits.register(SCENARIOS);
        Pushes.register(SCENARIOS);
        Redelivery.register(SCENARIOS);
        Pulls.register(SCENARIOS);
        Queries.register(SCENARIOS);
        Offsets.register(SCENARIOS);
        Upheavals.register(SCENARIOS);
        Members.register(SCENARIOS);
        Secured.register(SCENARIOS);
        Requests.register(SCENARIOS);
        Watching.register(SCENARIOS);
        Interop.register(SCENARIOS);
        Transactions.register(SCENARIOS);
        Shares.register(SCENARIOS);
    }

    public static void main(String[] args) throws Exception {
        System.setOut(System.err);
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line; (line = lines.readLine()) != null; ) {
            JSONObject order = JSON.parseObject(line);
            if (order.containsKey("done")) {
                FULFILLED.add(order);
            } else {
                Thread watch = new Thread(() -> play(order), "watch-" + order.getString("run"));
                watch.setDaemon(true);
                watch.start();
            }
        }
        System.exit(0); // the client leaves non-daemon threads behind
    }

    private static void play(JSONObject order) {
        long limitMs = order.containsKey("limit_ms") ? order.getLongValue("limit_ms") : DEFAULT_LIMIT_MS;
        JSONObject answer = new JSONObject();
        answer.put("id", order.get("id"));
        Thread player = new Thread(() -> {
            try (Stage stage = new Stage(order)) {
                Scenario scenario = SCENARIOS.get(order.getString("run"));
                if (scenario == null) {
                    throw new IllegalArgumentException("no scenario " + order.getString("run") + ", only " + SCENARIOS.keySet());
                }
                answer.put("ok", scenario.play(stage));
            } catch (Throwable failure) {
                answer.put("error", failure.toString());
                answer.put("stack", stackOf(failure));
            }
        }, "play-" + order.getString("run"));
        player.setDaemon(true);
        player.start();
        try {
            player.join(limitMs);
        } catch (InterruptedException impossible) {
            throw new IllegalStateException(impossible);
        }
        if (player.isAlive()) {
            Throwable where = new IllegalStateException("did not end within " + limitMs + " ms; it stood here");
            where.setStackTrace(player.getStackTrace());
            JSONObject late = new JSONObject();
            late.put("id", order.get("id"));
            late.put("error", where.toString());
            late.put("stack", stackOf(where));
            say(late);
        } else {
            say(answer);
        }
    }

    private static String stackOf(Throwable failure) {
        StringWriter text = new StringWriter();
        failure.printStackTrace(new PrintWriter(text));
        return text.toString();
    }

    /** Have the suite do something to the cluster. */
    static JSONObject ask(JSONObject wish) throws InterruptedException {
        say(wish);
        JSONObject done = FULFILLED.poll(60, TimeUnit.SECONDS);
        if (done == null || done.containsKey("error")) {
            throw new IllegalStateException("wish " + wish + " was not fulfilled: " + done);
        }
        return done;
    }

    private static synchronized void say(JSONObject answer) {
        ANSWERS.println(answer.toJSONString());
        ANSWERS.flush();
    }
}
