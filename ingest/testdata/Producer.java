import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;

// Writes what TestServersProducersOfOtherMake reads, with Apache Kafka's own client: brokers, topic.
public class Producer {
    static String brokers, topic;
    static int sent;

    static KafkaProducer<byte[], byte[]> open(Map<String, String> more) {
        Properties p = new Properties();
        p.put("bootstrap.servers", brokers);
        p.put("key.serializer", ByteArraySerializer.class.getName());
        p.put("value.serializer", ByteArraySerializer.class.getName());
        p.put("enable.idempotence", "true");
        p.put("linger.ms", "20");
        p.putAll(more);
        return new KafkaProducer<>(p);
    }

    static void send(KafkaProducer<byte[], byte[]> producer, String codec, int n) {
        for (int i = 0; i < n; i++, sent++) {
            byte[] key = sent % 3 == 0 ? null : ("key-" + sent).getBytes();
            byte[] value = ("{\"codec\":\"" + codec + "\",\"n\":" + sent + ",\"padding\":\"" + "x".repeat(200) + "\"}").getBytes();
            ProducerRecord<byte[], byte[]> record = new ProducerRecord<>(topic, 0, key, value);
            record.headers().add("traceparent", ("00-" + sent).getBytes()).add("empty", null);
            producer.send(record);
        }
        producer.flush();
    }

    public static void main(String[] args) {
        brokers = args[0];
        topic = args[1];
        for (String codec : new String[] {"none", "gzip", "snappy", "lz4", "zstd"}) {
            try (KafkaProducer<byte[], byte[]> producer = open(Map.of("compression.type", codec))) {
                send(producer, codec, 20);
            }
        }
        KafkaProducer<byte[], byte[]> producer = open(Map.of("transactional.id", topic + "-java", "transaction.timeout.ms", "1000"));
        producer.initTransactions();
        for (boolean commit : new boolean[] {true, false, true}) {
            producer.beginTransaction();
            send(producer, "none", 2);
            if (commit) {
                producer.commitTransaction();
            } else {
                producer.abortTransaction();
            }
        }
        producer.beginTransaction();
        send(producer, "none", 1);
        Runtime.getRuntime().halt(0); // it dies inside the transaction
    }
}
