import com.alibaba.fastjson.JSON;
import com.alibaba.fastjson.JSONArray;
import com.alibaba.fastjson.JSONObject;
import java.io.BufferedReader;
import java.net.InetSocketAddress;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import org.apache.rocketmq.common.BrokerConfig;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageAccessor;
import org.apache.rocketmq.common.message.MessageDecoder;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageExtBatch;
import org.apache.rocketmq.store.DefaultMessageStore;
import org.apache.rocketmq.store.MessageExtBrokerInner;
import org.apache.rocketmq.store.PutMessageResult;
import org.apache.rocketmq.store.PutMessageStatus;
import org.apache.rocketmq.store.config.MessageStoreConfig;
import org.apache.rocketmq.store.stats.BrokerStatsManager;

/**
 * Appends a given list of messages with Java's own DefaultMessageStore, without a broker around it.
 *
 * {"do":"put", "root", "given", "ha_port", file sizes...}. Each line of "given" is one message or, under "batch", several that share
 * topic, queue, hosts and times, as a producer's batch does. The files below "root" are the answer.
 */
final class StoreWriter {
    static JSONObject run(JSONObject wish) throws Exception {
        MessageStoreConfig config = new MessageStoreConfig();
        config.setStorePathRootDir(wish.getString("root"));
        config.setStorePathCommitLog(wish.getString("root") + "/commitlog");
        config.setMappedFileSizeCommitLog(wish.getIntValue("commit_log_file_size"));
        config.setMappedFileSizeConsumeQueue(wish.getIntValue("consume_queue_file_size"));
        config.setMaxHashSlotNum(wish.getIntValue("index_slots"));
        config.setMaxIndexNum(wish.getIntValue("index_entries"));
        config.setHaListenPort(wish.getIntValue("ha_port"));
        config.setCleanFileForciblyEnable(false);
        DefaultMessageStore store = new DefaultMessageStore(config, new BrokerStatsManager("compat", true),
            (topic, queueId, offset, tagsCode, time, bitMap, properties) -> { }, new BrokerConfig());
        if (!store.load()) {
            throw new IllegalStateException("load failed");
        }
        store.start();
        int stored = 0;
        try (BufferedReader in = Files.newBufferedReader(Path.of(wish.getString("given")))) {
            for (String line; (line = in.readLine()) != null; ) {
                JSONObject given = JSON.parseObject(line);
                stored += given.containsKey("batch") ? putBatch(store, given) : putOne(store, given);
            }
        } finally {
            store.shutdown();
        }
        JSONObject result = new JSONObject();
        result.put("stored", stored);
        return result;
    }

    private static int putOne(DefaultMessageStore store, JSONObject given) throws Exception {
        MessageExtBrokerInner message = new MessageExtBrokerInner();
        common(message, given);
        message.setFlag(given.getIntValue("flag"));
        message.setBody(Base64.getDecoder().decode(given.getString("body")));
        message.setPreparedTransactionOffset(given.getLongValue("prepared_transaction_offset"));
        String properties = given.getString("properties");
        MessageAccessor.setProperties(message, MessageDecoder.string2messageProperties(properties));
        message.setPropertiesString(properties);
        check(store.putMessage(message), given);
        return 1;
    }

    private static int putBatch(DefaultMessageStore store, JSONObject given) throws Exception {
        JSONArray inner = given.getJSONArray("batch");
        List<Message> messages = new ArrayList<>();
        for (int i = 0; i < inner.size(); i++) {
            JSONObject one = inner.getJSONObject(i);
            Message message = new Message();
            message.setFlag(one.getIntValue("flag"));
            message.setBody(Base64.getDecoder().decode(one.getString("body")));
            MessageAccessor.setProperties(message, MessageDecoder.string2messageProperties(one.getString("properties")));
            messages.add(message);
        }
        MessageExtBatch batch = new MessageExtBatch();
        common(batch, given);
        MessageAccessor.setProperties(batch, MessageDecoder.string2messageProperties(given.getString("properties")));
        batch.setBody(MessageDecoder.encodeMessages(messages));
        check(store.putMessages(batch), given);
        return inner.size();
    }

    private static void common(MessageExt message, JSONObject given) {
        message.setTopic(given.getString("topic"));
        message.setQueueId(given.getIntValue("queue_id"));
        message.setSysFlag(given.getIntValue("sys_flag"));
        message.setBornTimestamp(given.getLongValue("born_timestamp"));
        message.setBornHost(new InetSocketAddress(given.getString("born_ip"), given.getIntValue("born_port")));
        message.setStoreHost(new InetSocketAddress(given.getString("store_ip"), given.getIntValue("store_port")));
        message.setReconsumeTimes(given.getIntValue("reconsume_times"));
    }

    private static void check(PutMessageResult result, JSONObject given) {
        if (result.getPutMessageStatus() != PutMessageStatus.PUT_OK) {
            throw new IllegalStateException(result.getPutMessageStatus() + " for " + given);
        }
    }
}
