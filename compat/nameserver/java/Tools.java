import com.alibaba.fastjson.JSON;
import com.alibaba.fastjson.JSONArray;
import com.alibaba.fastjson.JSONObject;
import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Properties;
import org.apache.rocketmq.common.BrokerConfig;
import org.apache.rocketmq.common.MixAll;
import org.apache.rocketmq.common.namesrv.NamesrvConfig;
import org.apache.rocketmq.remoting.netty.NettyClientConfig;
import org.apache.rocketmq.remoting.netty.NettyServerConfig;
import org.apache.rocketmq.store.config.MessageStoreConfig;
import org.apache.rocketmq.tools.command.MQAdminStartup;

/**
 * One warm JVM with what operators use: mqadmin, and the classes that hold and read settings.
 *
 * Each line on standard input is a JSON object whose "do" names the task, each line on standard output is {"ok": result} or
 * {"error": text}:
 *   {"do":"mqadmin", "arguments": [...]}      what the command printed
 *   {"do":"defaults"}                         {"broker": {key: value}, "nameserver": {...}}, every setting there is
 *   {"do":"properties", "texts": [...]}       for each text the map that java.util.Properties reads from it, or null
 */
public final class Tools {
    public static void main(String[] args) throws Exception {
        PrintStream answers = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        System.setOut(System.err);
        BufferedReader wishes = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line; (line = wishes.readLine()) != null; ) {
            JSONObject answer = new JSONObject();
            try {
                answer.put("ok", carryOut(JSON.parseObject(line)));
            } catch (Throwable failure) {
                failure.printStackTrace();
                answer.put("error", failure.toString());
            }
            answers.println(answer.toJSONString());
            answers.flush();
        }
        System.exit(0); // the admin client leaves non-daemon threads behind
    }

    private static Object carryOut(JSONObject wish) throws Exception {
        switch (wish.getString("do")) {
            case "mqadmin":
                return mqadmin(wish.getJSONArray("arguments").toArray(new String[0]));
            case "defaults":
                return defaults();
            case "properties":
                return properties(wish.getJSONArray("texts"));
            default:
                throw new IllegalArgumentException("unknown task " + wish.getString("do"));
        }
    }

    private static String mqadmin(String[] arguments) {
        ByteArrayOutputStream printed = new ByteArrayOutputStream();
        PrintStream before = System.out;
        System.setOut(new PrintStream(printed, true, StandardCharsets.UTF_8));
        try {
            Commands.run(arguments);
        } finally {
            System.out.flush();
            System.setOut(before);
        }
        return printed.toString(StandardCharsets.UTF_8);
    }

    /** Commands made for each run: those that mqadmin keeps from the run before work only once, some of them. */
    private static final class Commands extends MQAdminStartup {
        static void run(String[] arguments) {
            subCommandList.clear();
            main0(arguments, null);
        }
    }

    private static JSONObject defaults() {
        JSONObject result = new JSONObject();
        result.put("broker", settings(new NettyClientConfig(), new NettyServerConfig(), new MessageStoreConfig(), new BrokerConfig()));
        result.put("nameserver", settings(new NettyServerConfig(), new NamesrvConfig()));
        return result;
    }

    private static JSONObject settings(Object... holders) {
        JSONObject all = new JSONObject();
        for (Object holder : holders) {
            Properties properties = MixAll.object2Properties(holder);
            properties.stringPropertyNames().forEach(key -> all.put(key, properties.getProperty(key)));
        }
        return all;
    }

    private static JSONArray properties(JSONArray texts) throws Exception {
        JSONArray maps = new JSONArray();
        for (int i = 0; i < texts.size(); i++) {
            Properties properties = new Properties();
            try {
                properties.load(new ByteArrayInputStream(texts.getString(i).getBytes(StandardCharsets.ISO_8859_1)));
            } catch (IllegalArgumentException malformed) {
                maps.add(null);
                continue;
            }
            JSONObject map = new JSONObject();
            properties.stringPropertyNames().forEach(key -> map.put(key, properties.getProperty(key)));
            maps.add(map);
        }
        return maps;
    }
}
