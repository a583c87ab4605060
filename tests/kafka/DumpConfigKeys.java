import java.lang.reflect.*;
import java.util.*;

/**
 * Prints what the jars of a Kafka release say about values of configuration keys, for make_validator_table.py.
 *
 * java -cp CLASSES:JARS DumpConfigKeys keys      each key with its type, default, validator and answers, a JSON object a line
 * java -cp CLASSES:JARS DumpConfigKeys brokers   the answer to whole configurations of a broker, a JSON array a line
 */
public class DumpConfigKeys {
    static String q(Object o) {
        if (o == null) return "null";
        StringBuilder b = new StringBuilder("\"");
        for (char c : o.toString().toCharArray())
            if (c == '"' || c == '\\') b.append('\\').append(c); else if (c < 32) b.append(String.format("\\u%04x", (int) c)); else b.append(c);
        return b.append('"').toString();
    }
    static Object field(Object o, Class<?> c, String name) throws Exception {
        for (Class<?> k = c; k != null; k = k.getSuperclass())
            try { Field f = k.getDeclaredField(name); f.setAccessible(true); return f.get(o); } catch (NoSuchFieldException e) { }
        throw new NoSuchFieldException(name);
    }
    static String show(Object v, int depth) throws Exception {
        if (v == null) return "null";
        if (v instanceof Number || v instanceof Boolean || v instanceof String) return q(v);
        if (v instanceof Collection) { StringBuilder b = new StringBuilder("["); for (Object x : (Collection<?>) v) { if (b.length() > 1) b.append(','); b.append(show(x, depth + 1)); } return b.append(']').toString(); }
        if (depth > 3) return q(v.getClass().getName());
        StringBuilder b = new StringBuilder("{\"class\":" + q(v.getClass().getName()) + ",\"text\":" + q(v.toString()));
        for (Field f : v.getClass().getDeclaredFields()) { if (Modifier.isStatic(f.getModifiers())) continue; try { f.setAccessible(true); b.append("," + q(f.getName()) + ":" + show(f.get(v), depth + 1)); } catch (RuntimeException e) { } }
        return b.append('}').toString();
    }
    static Object module(String name) throws Exception { return field(null, Class.forName(name), "MODULE$"); }
    static Object def(String... places) throws Exception {
        Exception last = null;
        for (String p : places) { String[] s = p.split("#");
            try { Class<?> c = Class.forName(s[0]); Object o = s[0].endsWith("$") ? field(null, c, "MODULE$") : null; return field(o, c, s[1]); } catch (ClassNotFoundException | NoSuchFieldException e) { last = e; } }
        throw last;
    }
    static Method parse;
    public static void main(String[] a) throws Exception {
        if (a[0].equals("brokers")) brokers();
        Class<?> cd = Class.forName("org.apache.kafka.common.config.ConfigDef");
        for (Method m : cd.getDeclaredMethods()) if (m.getName().equals("parseType")) { parse = m; m.setAccessible(true); }
        dump("broker", def("kafka.server.KafkaConfig$#configDef", "kafka.server.KafkaConfig$#kafka$server$KafkaConfig$$configDef"));
        dump("topic", def("org.apache.kafka.storage.internals.log.LogConfig#CONFIG", "kafka.log.LogConfig$#configDef", "kafka.log.LogConfig$#kafka$log$LogConfig$$configDef", "kafka.log.LogConfig#configDef"));
        System.out.flush(); System.exit(0);
    }
    static void dump(String owner, Object def) throws Exception {
        Map<String, Object> keys = new LinkedHashMap<>((Map<String, Object>) field(def, def.getClass(), "configKeys"));
        for (Map.Entry<String, Object> e : keys.entrySet()) {
            Object k = e.getValue();
            Object type = field(k, k.getClass(), "type"), validator = field(k, k.getClass(), "validator");
            Object internal = false; try { internal = field(k, k.getClass(), "internalConfig"); } catch (NoSuchFieldException x) { }
            Object dflt = field(k, k.getClass(), "defaultValue");
            if (dflt != null && dflt.getClass() == Object.class) dflt = "(required)";
            Set<String> values = new LinkedHashSet<>();
            String t = type.toString();
            switch (t) {
                case "BOOLEAN": values.addAll(Arrays.asList("maybe", "TRUE", " true ", "1", "")); break;
                case "SHORT": case "INT": case "LONG": values.addAll(Arrays.asList("x", "", " 7 ", "+5", "1.5", "32768", "2147483648", "9223372036854775808")); for (int i = -3; i < 3; i++) values.add("" + i);
                    for (long m : new long[]{5, 9, 12, 14, 17, 22, 100, 255, 256, 1000, 1 << 20, Integer.MAX_VALUE}) for (long i = m - 1; i <= m + 1; i++) values.add("" + i); break;
                case "DOUBLE": values.addAll(Arrays.asList("x", "", "-1", "-0.1", "0", "0.5", "1", "1.01", "1.5", "100", "NaN", "1e3", "0.5f")); break;
                case "STRING": values.addAll(Arrays.asList("", "X", "zip", "producer", "Producer", "gzip", "GZIP", "snappy", "lz4", "zstd", "uncompressed", "none", "CreateTime", "LogAppendTime", "createtime", "required", "Requested", "none", "PLAINTEXT", "0.8.0", "0.8.2", "0.8.2.1", "0.9.0.1", "0.10.2", "0.10.0-IV1", "1.0", "2.4-IV1", "3.0", "3.9", "3.9-IV0", "4.0", "9.9", "upgrade")); break;
                case "LIST": values.addAll(Arrays.asList("", "delet", "delete", "delete,compact", "compact", "delete,compact,x", "delete, compact", "delete,delete", ",", "*", "abc", "0:1", "0:1,1:2", "0:x", "0:1:2", "a:1", "*,0:1", "broker", "controller", "broker,controller", "none", "none,classic", "classic", "consumer", "classic,consumer", "TLSv1.2", "1@localhost:9", "x@y", "GSSAPI")); break;
                default: continue;
            }
            StringBuilder b = new StringBuilder("{\"owner\":" + q(owner) + ",\"key\":" + q(e.getKey()) + ",\"type\":" + q(t) + ",\"internal\":" + internal + ",\"default\":" + q(dflt) + ",\"validator\":" + show(validator, 0) + ",\"answers\":{");
            boolean first = true;
            for (String v : values) {
                String text = null;
                try {
                    Object parsed = Modifier.isStatic(parse.getModifiers()) ? parse.invoke(null, e.getKey(), v, type) : parse.invoke(def, e.getKey(), v, type);
                    if (validator != null) { Method m = validator.getClass().getMethod("ensureValid", String.class, Object.class); m.setAccessible(true); m.invoke(validator, e.getKey(), parsed); }
                } catch (InvocationTargetException x) { Throwable c = x.getCause(); text = (c.getClass().getSimpleName().equals("ConfigException") ? "" : c.getClass().getName() + ": ") + c.getMessage(); }
                b.append(first ? "" : ",").append(q(v)).append(':').append(q(text)); first = false;
            }
            System.out.println(b.append("}}"));
        }
    }
    static void brokers() throws Exception {
        Object m = Class.forName("kafka.server.KafkaConfig$").getField("MODULE$").get(null);
        Method from = m.getClass().getMethod("fromProps", Properties.class);
        String[] sets = {"", "log.roll.ms=0", "log.roll.hours=0", "log.roll.jitter.ms=-1", "log.roll.jitter.hours=-1", "log.retention.ms=0", "log.retention.ms=-2", "log.retention.hours=0", "log.retention.minutes=0", "log.retention.hours=-5", "log.retention.minutes=-1",
          "log.cleaner.dedupe.buffer.size=1048576", "log.cleaner.threads=1000", "replica.socket.timeout.ms=100", "replica.fetch.wait.max.ms=20000,replica.socket.timeout.ms=30000", "replica.lag.time.max.ms=100", "replica.lag.time.max.ms=500", "queued.max.request.bytes=5", "max.connections.per.ip=0", "max.connections.per.ip.overrides=a b:1", "max.connections.per.ip=0,max.connections.per.ip.overrides=127.0.0.1:5", "connections.max.idle.ms=50", "connections.max.idle.ms=-1",
          "offsets.topic.compression.codec=9", "offsets.topic.compression.codec=4,inter.broker.protocol.version=2.0", "log.message.format.version=0.9.0,inter.broker.protocol.version=0.10.0", "log.message.format.version=0.11.0,inter.broker.protocol.version=0.10.2", "inter.broker.protocol.version=0.7", "log.message.format.version=x", "broker.id=-5", "broker.id=1001", "broker.id=1001,broker.id.generation.enable=false", "broker.id=-1,broker.id.generation.enable=false", "log.dirs=", "log.message.timestamp.type=X", "log.message.difference.max.ms=-1", "offsets.commit.required.acks=-2", "offsets.commit.required.acks=5", "controller.listener.names=X", "listeners=PLAINTEXT://h:1,PLAINTEXT://h:2", "advertised.listeners=PLAINTEXT://0.0.0.0:9", "process.roles=broker", "leader.imbalance.per.broker.percentage=500", "security.inter.broker.protocol=SSLX", "compression.type=zip", "unclean.leader.election.enable=yes", "min.insync.replicas=0", "num.io.threads=0", "message.max.bytes=-1", "log.cleaner.min.compaction.lag.ms=10,log.cleaner.max.compaction.lag.ms=5", "log.local.retention.ms=-1", "remote.log.storage.system.enable=true", "log.cleaner.enable=maybe", "authorizer.class.name=no.such.Class", "group.min.session.timeout.ms=9000,group.max.session.timeout.ms=8000", "node.id=5", "zookeeper.metadata.migration.enable=true"};
        for (String s : sets) {
            Properties p = new Properties(); p.setProperty("zookeeper.connect", "localhost:1"); p.setProperty("broker.id", "0");
            for (String kv : s.split(",(?=[a-z.]+=)")) if (kv.contains("=")) p.setProperty(kv.split("=", 2)[0], kv.split("=", 2)[1]);
            String text = null;
            try { from.invoke(m, p); } catch (InvocationTargetException e) { Throwable c = e.getCause(); text = c.getClass().getSimpleName() + ": " + c.getMessage(); }
            System.out.println("[" + q(s) + "," + q(text) + "]");
        }
        System.out.flush(); System.exit(0);
    }
}
