import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.TopicConfig;

/**
 * Brokers that stop, come back, join and leave while clients run.
 *
 * A client gives a pull that was held by a broker which is gone thirty seconds before it pulls there again, unless it has shared
 * out its queues meanwhile. So the broker comes back only after that, and the JVM is one that shares them out every second.
 */
final class Upheavals {
    static void register(Map<String, Driver.Scenario> scenarios) {
        scenarios.put("broker_restarts", Upheavals::restart);
        scenarios.put("broker_joins_and_leaves", Upheavals::joinAndLeave);
        scenarios.put("nameservers_come_and_go", Upheavals::nameserversInTurn);
    }

    private static DefaultMQPushConsumer watchful(Stage stage, String group, String topic, Catcher catcher) throws Exception {
        DefaultMQPushConsumer consumer = stage.pushConsumer(group);
        consumer.setPollNameServerInterval(300);
        consumer.setHeartbeatBrokerInterval(300);
        consumer.setPullTimeDelayMillsWhenException(200);
        consumer.subscribe(topic, "*");
        catcher.concurrently(consumer, message -> true);
        consumer.start();
        return consumer;
    }

    private static DefaultMQProducer watchfulProducer(Stage stage) throws Exception {
        DefaultMQProducer producer = stage.unstartedProducer();
        producer.setPollNameServerInterval(300);
        producer.setHeartbeatBrokerInterval(300);
        producer.setRetryTimesWhenSendFailed(5);
        producer.start();
        return producer;
    }

    private static void awaitDropped(DefaultMQPushConsumer consumer, String broker) throws Exception {
        Check.await(10_000, () -> "queues of " + broker + " given up", () -> consumer.getDefaultMQPushConsumerImpl().getRebalanceImpl()
            .getProcessQueueTable().keySet().stream().noneMatch(queue -> queue.getBrokerName().equals(broker)));
    }

    private static Set<String> send(DefaultMQProducer producer, String topic, String word, int count) throws Exception {
        Set<String> brokers = new TreeSet<>();
        for (int i = 0; i < count; i++) {
            brokers.add(producer.send(Stage.message(topic, "t", "k", word + " " + i)).getMessageQueue().getBrokerName());
        }
        return brokers;
    }

    private static void awaitTexts(Catcher catcher, String word, int count) throws Exception {
        Check.await(20_000, () -> word + ": " + count(catcher, word) + " of " + count, () -> count(catcher, word) == count);
    }

    private static long count(Catcher catcher, String word) {
        return catcher.distinct().stream().filter(text -> text.startsWith(word + " ")).count();
    }

    /** Nothing that was acknowledged is lost, and a group goes on where it stood. */
    private static Object restart(Stage stage) throws Exception {
        String topic = stage.topic("Restarted", 2);
        String group = stage.name("restarted");
        DefaultMQProducer producer = watchfulProducer(stage);
        Catcher catcher = new Catcher();
        DefaultMQPushConsumer consumer = watchful(stage, group, topic, catcher);
        TreeSet<String> both = stage.brokerNames();
        String leaver = both.last();
        Check.equal(both, send(producer, topic, "before", 100), "brokers that took messages");
        awaitTexts(catcher, "before", 100);

        stage.ask("stop_broker", leaver);
        TreeSet<String> others = new TreeSet<>(both);
        others.remove(leaver);
        stage.awaitBrokers(topic, others);
        Check.equal(others, send(producer, topic, "without", 50), "brokers that took messages");
        awaitTexts(catcher, "without", 50);
        awaitDropped(consumer, leaver);

        stage.ask("start_broker", leaver);
        stage.awaitBrokers(topic, both);
        Check.await(10_000, () -> "a producer that uses both again", () -> producer.fetchPublishMessageQueues(topic).size() == 4
            && send(producer, topic, "probe", 8).size() == 2);
        Check.equal(both, send(producer, topic, "again", 100), "brokers that took messages");
        awaitTexts(catcher, "again", 100);
        consumer.shutdown();
        send(producer, topic, "absent", 40);

        // All of it rests on disk while nobody is there.
        for (String broker : both) {
            stage.ask("stop_broker", broker);
        }
        for (String broker : both) {
            stage.ask("start_broker", broker);
        }
        stage.awaitBrokers(topic, both);
        Catcher later = new Catcher();
        watchful(stage, group, topic, later);
        awaitTexts(later, "absent", 40);
        Check.equal(40, later.distinct().size(), "messages for the group after the restart: " + later.distinct());
        return Map.of("deliveries", catcher.caught.size() + later.caught.size());
    }

    /** A third broker comes, takes its share, goes with messages on it and brings them back. */
    private static Object joinAndLeave(Stage stage) throws Exception {
        String topic = stage.topic("Joined", 2);
        DefaultMQProducer producer = watchfulProducer(stage);
        Catcher catcher = new Catcher();
        DefaultMQPushConsumer consumer = watchful(stage, stage.name("joined"), topic, catcher);
        TreeSet<String> two = stage.brokerNames();
        TreeSet<String> three = new TreeSet<>(two);
        three.add("broker-c");
        Set<String> acknowledged = java.util.concurrent.ConcurrentHashMap.newKeySet();
        Set<String> used = java.util.concurrent.ConcurrentHashMap.newKeySet();
        AtomicBoolean goesOn = new AtomicBoolean(true);
        Thread load = new Thread(() -> {
            for (int i = 0; goesOn.get(); i++) {
                try {
                    SendResult result = producer.send(Stage.message(topic, "t", "k", "load " + i));
                    acknowledged.add("load " + i);
                    used.add(result.getMessageQueue().getBrokerName());
                    Thread.sleep(2);
                } catch (Exception failure) {
                    failure.printStackTrace(); // not acknowledged, so nobody may expect it
                }
            }
        }, "load");
        load.start();
        try {
            stage.ask("start_broker", "broker-c");
            Check.await(10_000, () -> "the third broker in the cluster", () -> stage.brokerNames().equals(three));
            String address = stage.admin().examineBrokerClusterInfo().getBrokerAddrTable().get("broker-c").selectBrokerAddr();
            stage.admin().createAndUpdateTopicConfig(address, new TopicConfig(topic, 2, 2, 6));
            stage.awaitBrokers(topic, three);
            Check.await(10_000, () -> "messages on the third broker, only " + used, () -> used.contains("broker-c"));
            Check.await(25_000, () -> "deliveries from the third broker",
                () -> catcher.caught.stream().anyMatch(one -> one.message.getBrokerName().equals("broker-c")));
            stage.ask("stop_broker", "broker-c");
            stage.awaitBrokers(topic, two);
            int sent = acknowledged.size();
            Check.await(10_000, () -> "sends after the third broker left", () -> acknowledged.size() > sent + 100);
            awaitDropped(consumer, "broker-c");
            stage.ask("start_broker", "broker-c"); // with what was not consumed yet
            stage.awaitBrokers(topic, three);
        } finally {
            goesOn.set(false);
            load.join();
        }
        Check.await(25_000, () -> {
            Set<String> missing = new TreeSet<>(acknowledged);
            missing.removeAll(catcher.distinct());
            return missing.size() + " of " + acknowledged.size() + " acknowledged messages never came: " + missing;
        }, () -> new HashSet<>(catcher.texts()).containsAll(acknowledged));
        stage.ask("stop_broker", "broker-c");
        return Map.of("acknowledged", acknowledged.size(), "deliveries", catcher.caught.size());
    }

    /**
     * Each nameserver of two goes away once, whichever of them a client has chosen, and comes back: no send fails, everything is
     * consumed, and clients that start meanwhile find their way.
     */
    private static Object nameserversInTurn(Stage stage) throws Exception {
        String topic = stage.topic("Guided", 2);
        DefaultMQProducer producer = watchfulProducer(stage);
        Catcher catcher = new Catcher();
        watchful(stage, stage.name("guided"), topic, catcher);
        Set<String> acknowledged = java.util.concurrent.ConcurrentHashMap.newKeySet();
        List<Exception> failures = new java.util.concurrent.CopyOnWriteArrayList<>();
        AtomicBoolean goesOn = new AtomicBoolean(true);
        Thread load = new Thread(() -> {
            for (int i = 0; goesOn.get(); i++) {
                try {
                    producer.send(Stage.message(topic, "t", "k", "load " + i));
                    acknowledged.add("load " + i);
                    Thread.sleep(2);
                } catch (Exception failure) {
                    failures.add(failure);
                }
            }
        }, "load");
        load.start();
        try {
            Check.await(20_000, () -> "load", () -> acknowledged.size() > 100 && catcher.caught.size() > 100);
            for (String index : List.of("0", "1")) {
                stage.ask("stop_nameserver", index);
                int sent = acknowledged.size();
                // Long enough for clients to ask for routes several times.
                Check.await(20_000, () -> "sends without nameserver " + index, () -> acknowledged.size() > sent + 500);
                String word = "without" + index;
                String made = stage.topic("MadeWithout" + index, 2);
                Catcher newcomer = new Catcher();
                watchful(stage, stage.name(word), made, newcomer);
                Check.equal(stage.brokerNames(), send(watchfulProducer(stage), made, word, 40), "brokers that took messages");
                awaitTexts(newcomer, word, 40);
                stage.ask("start_nameserver", index);
                // Brokers register with all when a topic changes: now the one that came back knows them again.
                stage.topic("MadeAfter" + index, 2);
            }
        } finally {
            goesOn.set(false);
            load.join();
        }
        Check.equal(List.of(), failures, "failed sends");
        Check.await(25_000, () -> acknowledged.size() - catcher.distinct().size() + " messages never came",
            () -> new HashSet<>(catcher.texts()).containsAll(acknowledged));
        return Map.of("acknowledged", acknowledged.size());
    }
}
