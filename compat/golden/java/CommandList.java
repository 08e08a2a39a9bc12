import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.rocketmq.common.protocol.RequestCode;
import org.apache.rocketmq.common.protocol.ResponseCode;
import org.apache.rocketmq.common.protocol.header.*;
import org.apache.rocketmq.common.protocol.header.namesrv.*;
import org.apache.rocketmq.common.protocol.heartbeat.HeartbeatData;
import org.apache.rocketmq.common.protocol.heartbeat.ProducerData;
import org.apache.rocketmq.remoting.CommandCustomHeader;
import org.apache.rocketmq.remoting.protocol.LanguageCode;
import org.apache.rocketmq.remoting.protocol.RemotingCommand;

/** The commands that are written down: requests and responses with the real header classes, and the odd corners of both. */
final class CommandList {
    interface Maker {
        RemotingCommand make() throws Exception;
    }

    private final Map<String, Maker> makers = new LinkedHashMap<>();

    static Map<String, Maker> all() {
        CommandList list = new CommandList();
        list.messaging();
        list.management();
        list.responses();
        list.corners();
        return list.makers;
    }

    private static RemotingCommand request(int code, int opaque, CommandCustomHeader header) {
        RemotingCommand command = RemotingCommand.createRequestCommand(code, header);
        command.setOpaque(opaque);
        return command;
    }

    /** A response as a broker makes it: empty header object first, filled afterwards. */
    private static <H extends CommandCustomHeader> RemotingCommand response(int code, String remark, int opaque, Class<H> type,
        java.util.function.Consumer<H> fill) {
        RemotingCommand command = RemotingCommand.createResponseCommand(type);
        command.setCode(code);
        command.setRemark(remark);
        command.setOpaque(opaque);
        if (type != null) {
            fill.accept(type.cast(command.readCustomHeader()));
        }
        return command;
    }

    static SendMessageRequestHeader send(String topic, String properties) {
        SendMessageRequestHeader header = new SendMessageRequestHeader();
        header.setProducerGroup("producers");
        header.setTopic(topic);
        header.setDefaultTopic("TBW102");
        header.setDefaultTopicQueueNums(4);
        header.setQueueId(1);
        header.setSysFlag(0);
        header.setBornTimestamp(1700000000000L);
        header.setFlag(9);
        header.setProperties(properties);
        header.setReconsumeTimes(0);
        header.setUnitMode(false);
        header.setBatch(false);
        header.setBname("broker-a");
        return header;
    }

    private void messaging() {
        String properties = "KEYS\u0001k1 k2\u0002UNIQ_KEY\u00017F0000010F1C18B4AAC26B2C5D1E0001\u0002TAGS\u0001TagA";
        makers.put("send_v1", () -> {
            RemotingCommand command = request(RequestCode.SEND_MESSAGE, 1, send("orders", properties));
            command.setBody(Golden.utf8("hello"));
            return command;
        });
        makers.put("send_v2", () -> {
            RemotingCommand command = request(RequestCode.SEND_MESSAGE_V2, 2,
                SendMessageRequestHeaderV2.createSendMessageRequestHeaderV2(send("orders", properties)));
            command.setBody(Golden.utf8("hello"));
            return command;
        });
        makers.put("send_v2_empty_properties", () -> request(RequestCode.SEND_MESSAGE_V2, 3,
            SendMessageRequestHeaderV2.createSendMessageRequestHeaderV2(send("orders", ""))));
        makers.put("send_v2_retry_topic", () -> {
            SendMessageRequestHeader header = send("%RETRY%consumers", "RETRY_TOPIC\u0001orders\u0002DELAY\u00013");
            header.setReconsumeTimes(3);
            header.setMaxReconsumeTimes(16);
            header.setUnitMode(true);
            header.setQueueId(-1);
            return request(RequestCode.SEND_MESSAGE_V2, 4, SendMessageRequestHeaderV2.createSendMessageRequestHeaderV2(header));
        });
        makers.put("send_batch", () -> {
            SendMessageRequestHeader header = send("orders", "WAIT\u0001true");
            header.setBatch(true);
            RemotingCommand command = request(RequestCode.SEND_BATCH_MESSAGE, 5,
                SendMessageRequestHeaderV2.createSendMessageRequestHeaderV2(header));
            command.setBody(Batches.twoMessages());
            return command;
        });
        makers.put("pull", () -> {
            PullMessageRequestHeader header = new PullMessageRequestHeader();
            header.setConsumerGroup("consumers");
            header.setTopic("orders");
            header.setQueueId(3);
            header.setQueueOffset(9007199254740993L);
            header.setMaxMsgNums(32);
            header.setSysFlag(7);
            header.setCommitOffset(42L);
            header.setSuspendTimeoutMillis(15000L);
            header.setSubscription("TagA || TagB");
            header.setSubVersion(1700000000000L);
            header.setExpressionType("TAG");
            header.setBname("broker-a");
            return request(RequestCode.PULL_MESSAGE, 6, header);
        });
        makers.put("pull_few_fields", () -> {
            PullMessageRequestHeader header = new PullMessageRequestHeader();
            header.setConsumerGroup("consumers");
            header.setTopic("orders");
            header.setSubscription("");
            return request(RequestCode.PULL_MESSAGE, 7, header);
        });
        makers.put("send_back", () -> {
            ConsumerSendMsgBackRequestHeader header = new ConsumerSendMsgBackRequestHeader();
            header.setOffset(123456789L);
            header.setGroup("consumers");
            header.setDelayLevel(-1);
            header.setOriginMsgId("7F0000010F1C18B4AAC26B2C5D1E0001");
            header.setOriginTopic("orders");
            header.setMaxReconsumeTimes(16);
            return request(RequestCode.CONSUMER_SEND_MSG_BACK, 8, header);
        });
        makers.put("query_message", () -> {
            QueryMessageRequestHeader header = new QueryMessageRequestHeader();
            header.setTopic("orders");
            header.setKey("schlüssel 1");
            header.setMaxNum(64);
            header.setBeginTimestamp(0L);
            header.setEndTimestamp(Long.MAX_VALUE);
            RemotingCommand command = request(RequestCode.QUERY_MESSAGE, 9, header);
            command.addExtField("_UNIQUE_KEY_QUERY", "false");
            return command;
        });
        makers.put("view_message", () -> {
            ViewMessageRequestHeader header = new ViewMessageRequestHeader();
            header.setOffset(Long.MIN_VALUE);
            return request(RequestCode.VIEW_MESSAGE_BY_ID, 10, header);
        });
        makers.put("end_transaction_oneway", () -> {
            EndTransactionRequestHeader header = new EndTransactionRequestHeader();
            header.setProducerGroup("producers");
            header.setTranStateTableOffset(5L);
            header.setCommitLogOffset(4096L);
            header.setCommitOrRollback(8);
            header.setFromTransactionCheck(true);
            header.setMsgId("7F0000010F1C18B4AAC26B2C5D1E0001");
            RemotingCommand command = request(RequestCode.END_TRANSACTION, 11, header);
            command.setRemark("executeLocalTransactionBranch exception: java.lang.RuntimeException: \"no\"\n\tat x");
            command.markOnewayRPC();
            return command;
        });
        makers.put("check_transaction_oneway", () -> {
            CheckTransactionStateRequestHeader header = new CheckTransactionStateRequestHeader();
            header.setTranStateTableOffset(5L);
            header.setCommitLogOffset(4096L);
            header.setMsgId("7F0000010F1C18B4AAC26B2C5D1E0001");
            header.setTransactionId("7F0000010F1C18B4AAC26B2C5D1E0001");
            header.setOffsetMsgId("0A01020300002A9F0000000000001000");
            RemotingCommand command = request(RequestCode.CHECK_TRANSACTION_STATE, 12, header);
            command.setBody(Records.plain());
            command.markOnewayRPC();
            return command;
        });
        makers.put("push_reply", () -> {
            ReplyMessageRequestHeader header = new ReplyMessageRequestHeader();
            header.setProducerGroup("producers");
            header.setTopic("DefaultCluster_REPLY_TOPIC");
            header.setDefaultTopic("TBW102");
            header.setDefaultTopicQueueNums(4);
            header.setQueueId(0);
            header.setSysFlag(0x301);
            header.setBornTimestamp(1700000000000L);
            header.setFlag(0);
            header.setProperties("CORRELATION_ID\u0001c-1\u0002REPLY_TO_CLIENT\u0001127.0.0.1@1#2");
            header.setReconsumeTimes(0);
            header.setBornHost("127.0.0.1:5555");
            header.setStoreHost("10.1.2.3:10911");
            header.setStoreTimestamp(1700000000001L);
            return request(RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT, 13, header);
        });
    }

    private void management() {
        makers.put("heartbeat", () -> {
            HeartbeatData heartbeat = new HeartbeatData();
            heartbeat.setClientID("127.0.0.1@1234#5678");
            ProducerData producer = new ProducerData();
            producer.setGroupName("producers");
            heartbeat.setProducerDataSet(new HashSet<>(java.util.List.of(producer)));
            RemotingCommand command = request(RequestCode.HEART_BEAT, 14, null);
            command.setBody(heartbeat.encode());
            return command;
        });
        makers.put("unregister_client", () -> {
            UnregisterClientRequestHeader header = new UnregisterClientRequestHeader();
            header.setClientID("127.0.0.1@1234#5678");
            header.setConsumerGroup("consumers");
            return request(RequestCode.UNREGISTER_CLIENT, 15, header);
        });
        makers.put("consumer_list", () -> {
            GetConsumerListByGroupRequestHeader header = new GetConsumerListByGroupRequestHeader();
            header.setConsumerGroup("consumers");
            return request(RequestCode.GET_CONSUMER_LIST_BY_GROUP, 16, header);
        });
        makers.put("query_offset", () -> {
            QueryConsumerOffsetRequestHeader header = new QueryConsumerOffsetRequestHeader();
            header.setConsumerGroup("consumers");
            header.setTopic("orders");
            header.setQueueId(3);
            header.setBname("broker-a");
            return request(RequestCode.QUERY_CONSUMER_OFFSET, 17, header);
        });
        makers.put("update_offset_oneway", () -> {
            UpdateConsumerOffsetRequestHeader header = new UpdateConsumerOffsetRequestHeader();
            header.setConsumerGroup("consumers");
            header.setTopic("orders");
            header.setQueueId(3);
            header.setCommitOffset(99L);
            RemotingCommand command = request(RequestCode.UPDATE_CONSUMER_OFFSET, 18, header);
            command.markOnewayRPC();
            return command;
        });
        makers.put("search_offset", () -> {
            SearchOffsetRequestHeader header = new SearchOffsetRequestHeader();
            header.setTopic("orders");
            header.setQueueId(3);
            header.setTimestamp(1700000000000L);
            return request(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, 19, header);
        });
        makers.put("max_offset", () -> {
            GetMaxOffsetRequestHeader header = new GetMaxOffsetRequestHeader();
            header.setTopic("orders");
            header.setQueueId(3);
            return request(RequestCode.GET_MAX_OFFSET, 20, header);
        });
        makers.put("reset_offset", () -> {
            ResetOffsetRequestHeader header = new ResetOffsetRequestHeader();
            header.setTopic("orders");
            header.setGroup("consumers");
            header.setTimestamp(-1);
            header.setForce(true);
            return request(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, 21, header);
        });
        makers.put("ids_changed_oneway", () -> {
            NotifyConsumerIdsChangedRequestHeader header = new NotifyConsumerIdsChangedRequestHeader();
            header.setConsumerGroup("consumers");
            RemotingCommand command = request(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, 22, header);
            command.markOnewayRPC();
            return command;
        });
        makers.put("create_topic", () -> {
            CreateTopicRequestHeader header = new CreateTopicRequestHeader();
            header.setTopic("orders");
            header.setDefaultTopic("TBW102");
            header.setReadQueueNums(8);
            header.setWriteQueueNums(8);
            header.setPerm(6);
            header.setTopicFilterType("SINGLE_TAG");
            header.setTopicSysFlag(0);
            header.setOrder(false);
            return request(RequestCode.UPDATE_AND_CREATE_TOPIC, 23, header);
        });
        makers.put("register_broker", () -> {
            RegisterBrokerRequestHeader header = new RegisterBrokerRequestHeader();
            header.setBrokerName("broker-a");
            header.setBrokerAddr("10.1.2.3:10911");
            header.setClusterName("DefaultCluster");
            header.setHaServerAddr("10.1.2.3:10912");
            header.setBrokerId(0L);
            header.setBodyCrc32(907060870);
            RemotingCommand command = request(RequestCode.REGISTER_BROKER, 24, header);
            command.setBody(Golden.utf8("{\"filterServerList\":[]}"));
            return command;
        });
        makers.put("route", () -> {
            GetRouteInfoRequestHeader header = new GetRouteInfoRequestHeader();
            header.setTopic("orders");
            header.setAcceptStandardJsonOnly(true);
            return request(RequestCode.GET_ROUTEINFO_BY_TOPIC, 25, header);
        });
        makers.put("put_kv_unicode", () -> {
            PutKVConfigRequestHeader header = new PutKVConfigRequestHeader();
            header.setNamespace("ORDER_TOPIC_CONFIG");
            header.setKey("主题");
            header.setValue("broker-a:8;брокер:4 😀");
            return request(RequestCode.PUT_KV_CONFIG, 26, header);
        });
    }

    private void responses() {
        makers.put("send_response", () -> {
            RemotingCommand command = response(ResponseCode.SUCCESS, null, 1, SendMessageResponseHeader.class, header -> {
                header.setMsgId("0A01020300002A9F00000000000001C4");
                header.setQueueId(1);
                header.setQueueOffset(77L);
            });
            command.addExtField("MSG_REGION", "DefaultRegion");
            command.addExtField("TRACE_ON", "true");
            return command;
        });
        makers.put("pull_response", () -> {
            RemotingCommand command = response(ResponseCode.SUCCESS, "FOUND", 6, PullMessageResponseHeader.class, header -> {
                header.setSuggestWhichBrokerId(0L);
                header.setNextBeginOffset(33L);
                header.setMinOffset(0L);
                header.setMaxOffset(100L);
            });
            command.setBody(Records.plain());
            return command;
        });
        makers.put("query_message_response", () -> response(ResponseCode.QUERY_NOT_FOUND, "can not find message, maybe time range not correct",
            9, QueryMessageResponseHeader.class, header -> {
                header.setIndexLastUpdateTimestamp(0L);
                header.setIndexLastUpdatePhyoffset(0L);
            }));
        makers.put("max_offset_response", () -> response(ResponseCode.SUCCESS, null, 20, GetMaxOffsetResponseHeader.class,
            header -> header.setOffset(100L)));
        makers.put("register_broker_response", () -> {
            RemotingCommand command = response(ResponseCode.SUCCESS, null, 24, RegisterBrokerResponseHeader.class, header -> {
                header.setHaServerAddr("10.1.2.3:10912");
                header.setMasterAddr("");
            });
            command.setBody(Golden.utf8("{\"table\":{}}"));
            return command;
        });
        makers.put("header_of_nulls_response", () -> response(ResponseCode.SYSTEM_ERROR, "not set any response code", 27,
            SendMessageResponseHeader.class, header -> { }));
        makers.put("no_topic_response", () -> response(ResponseCode.TOPIC_NOT_EXIST,
            "topic[主题] not exist, apply first please!\nSee https://rocketmq.apache.org/docs/bestPractice/06FAQ for further details.",
            28, null, null));
        makers.put("busy_response", () -> response(ResponseCode.SYSTEM_BUSY,
            "[TIMEOUT_CLEAN_QUEUE]broker busy, start flow control for a while, period in queue: 201ms, size of queue: 1", 29, null, null));
        makers.put("empty_remark_response", () -> response(ResponseCode.SUCCESS, "", 30, null, null));
    }

    private void corners() {
        makers.put("nothing_at_all", () -> request(RequestCode.GET_ALL_TOPIC_CONFIG, 0, null));
        makers.put("negative_opaque", () -> request(RequestCode.GET_ALL_TOPIC_CONFIG, Integer.MIN_VALUE, null));
        makers.put("other_flag_bits", () -> {
            RemotingCommand command = request(RequestCode.GET_ALL_TOPIC_CONFIG, -1, null);
            command.setFlag(-4);
            return command;
        });
        makers.put("negative_code", () -> request(-1, 31, null));
        for (LanguageCode language : LanguageCode.values()) {
            makers.put("language_" + language.name(), () -> {
                RemotingCommand command = request(RequestCode.GET_ALL_TOPIC_CONFIG, 32, null);
                command.setLanguage(language);
                command.setVersion(317);
                return command;
            });
        }
        makers.put("signed_send_v2", () -> {
            // As the client's ACL hook does: sign over the fields, then add three.
            RemotingCommand command = request(RequestCode.SEND_MESSAGE_V2, 33,
                SendMessageRequestHeaderV2.createSendMessageRequestHeaderV2(send("orders", "TAGS\u0001a")));
            command.makeCustomHeaderToNet();
            command.addExtField("AccessKey", "rocketmq2");
            command.addExtField("Signature", "qm7VRzxU/kU4cBuVdEFpkNHvq7I=");
            command.addExtField("SecurityToken", "");
            return command;
        });
        makers.put("text_that_needs_escapes", () -> {
            StringBuilder text = new StringBuilder();
            for (char c = 0; c < 0xA1; c++) {
                text.append(c);
            }
            text.append("\u2027\u2028\u2029\u202A\uFEFF\uFFFD\uFFFF中😀");
            RemotingCommand command = request(RequestCode.GET_ALL_TOPIC_CONFIG, 34, null);
            command.addExtField("all", text.toString());
            command.addExtField("名\"\\\n", "值");
            command.setRemark(text.toString());
            return command;
        });
        makers.put("many_fields", () -> {
            RemotingCommand command = request(RequestCode.GET_ALL_TOPIC_CONFIG, 35, null);
            for (int i = 0; i < 200; i++) {
                command.addExtField("field-" + i, Integer.toString(i * i));
            }
            return command;
        });
    }
}
