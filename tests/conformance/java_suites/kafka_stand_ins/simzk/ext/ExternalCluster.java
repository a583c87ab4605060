package simzk.ext;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;

import java.io.File;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.io.StringWriter;
import java.net.HttpURLConnection;
import java.net.URL;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;

/**
 * One Kafka cluster outside this JVM (docs/kafka_server.md: the command and its HTTP control).
 *
 * KAFKA_CMD      shell command that runs ONE cluster in the foreground until SIGTERM; placeholders
 *                {brokers} {ids} {version} {config} {racks}
 * KAFKA_VERSION  what {version} becomes (default 3.9)
 * KAFKA_LOG      directory for the clusters' output and the config files (default: a temporary one)
 */
public final class ExternalCluster {
    private static final String CMD = System.getenv("KAFKA_CMD");
    private static final String LOG = System.getenv("KAFKA_LOG");
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final AtomicInteger COUNT = new AtomicInteger();
    private static final Map<String, ExternalCluster> ALL = new LinkedHashMap<>();

    static {
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            synchronized (ALL) {
                ALL.values().forEach(c -> {
                    if (c.process != null) {
                        c.process.destroy();
                    }
                });
            }
        }));
    }

    /** What stands for the ZooKeeper address in the settings of the tests' brokers until the cluster is there. */
    public final String token;
    private final TreeMap<Integer, Properties> wanted = new TreeMap<>();
    private Process process;
    private JsonNode door;
    private boolean ended;

    private ExternalCluster(String token) {
        this.token = token;
    }

    public static ExternalCluster create() {
        synchronized (ALL) {
            ExternalCluster c = new ExternalCluster("outside-" + COUNT.incrementAndGet() + ":1");
            ALL.put(c.token, c);
            return c;
        }
    }

    /** By the zookeeper.connect of a broker's settings: the token, or the real address once it is known. */
    public static ExternalCluster of(String zkConnect) {
        synchronized (ALL) {
            for (ExternalCluster c : ALL.values()) {
                if (c.token.equals(zkConnect) || c.door != null && zkConnect.equals(c.zookeeper())) {
                    return c;
                }
            }
        }
        throw new IllegalStateException("no cluster outside for zookeeper.connect=" + zkConnect);
    }

    /** A broker that the test wants running. The cluster starts when somebody first needs it. */
    public synchronized void want(int id, Properties settings) {
        if (door == null) {
            wanted.put(id, settings);
        } else if (!wanted.containsKey(id)) {
            throw Reaches.in("adds broker " + id + " to a cluster that runs");
        } else {
            boolean same = wanted.get(id).equals(settings);
            if ("running".equals(state(id))) {
                if (same) {
                    return;
                }
                control("stop", id, null);
            }
            wanted.put(id, settings);
            control("start", id, same ? null : text(settings));
        }
    }

    public synchronized boolean started() {
        return door != null;
    }

    public synchronized ExternalCluster running() {
        if (door == null && !ended) {
            start();
        }
        return this;
    }

    private void start() {
        if (CMD == null) {
            throw new IllegalStateException("set KAFKA_CMD");
        }
        int n = wanted.size();
        if (n == 0) {
            throw new IllegalStateException("the test asks for a cluster before it has said which brokers it wants");
        }
        if (wanted.firstKey() != 0 || wanted.lastKey() != n - 1) {
            throw Reaches.in("broker ids " + wanted.keySet());
        }
        try {
            File dir = LOG == null ? Files.createTempDirectory("kafka-outside").toFile() : new File(LOG);
            String name = token.substring(0, token.indexOf(':'));
            File config = new File(dir, name + ".properties");
            File out = new File(dir, name + ".out");
            Files.write(config.toPath(), together().getBytes(StandardCharsets.ISO_8859_1));
            List<String> racks = new ArrayList<>();
            boolean any = false;
            for (Properties p : wanted.values()) {
                racks.add(p.getProperty("broker.rack", ""));
                any |= p.containsKey("broker.rack");
            }
            String version = System.getenv("KAFKA_VERSION");
            String line = CMD.replace("{brokers}", "" + n).replace("{ids}", java.util.stream.IntStream.range(0, n).mapToObj(Integer::toString).collect(java.util.stream.Collectors.joining(","))).replace("{version}", version == null ? "3.9" : version)
                .replace("{config}", config.getPath()).replace("{racks}", any ? "'" + String.join(",", racks) + "'" : "''");
            ProcessBuilder b = new ProcessBuilder("/bin/sh", "-c", "exec " + line);
            b.redirectOutput(out).redirectError(new File(dir, name + ".err"));
            process = b.start();
            long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(120);
            String first = "";
            while (!first.contains("\n")) {
                if (!process.isAlive() || System.nanoTime() > end) {
                    throw new IllegalStateException("the cluster did not come up: " + line);
                }
                Thread.sleep(10);
                first = new String(Files.readAllBytes(out.toPath()), StandardCharsets.UTF_8);
            }
            door = JSON.readTree(first.substring(0, first.indexOf('\n')));
        } catch (IOException | InterruptedException e) {
            throw new IllegalStateException(e);
        }
    }

    /** One properties file: what all brokers share, and broker.N.key=value for the rest. */
    private String together() throws IOException {
        Properties all = new Properties();
        for (Map.Entry<Integer, Properties> e : wanted.entrySet()) {
            e.getValue().forEach((k, v) -> {
                boolean shared = wanted.values().stream().allMatch(p -> v.equals(p.get(k)));
                all.put(shared ? k : "broker." + e.getKey() + "." + k, v);
            });
        }
        return text(all);
    }

    private static String text(Properties p) {
        try {
            StringWriter w = new StringWriter();
            p.store(w, null);
            StringBuilder b = new StringBuilder();
            for (String l : w.toString().split("\n")) {
                if (!l.startsWith("#")) {
                    b.append(l.trim()).append('\n');
                }
            }
            return b.toString();
        } catch (IOException e) {
            throw new IllegalStateException(e);
        }
    }

    public String bootstrap() {
        return running().door.path("bootstrap_servers").asText();
    }

    /** "127.0.0.1:port" of a broker; it stays the same over stop and start. */
    public String address(int id) {
        return running().door.path("brokers").path("" + id).asText();
    }

    public int port(int id) {
        String a = address(id);
        return Integer.parseInt(a.substring(a.lastIndexOf(':') + 1));
    }

    public String zookeeper() {
        return running().door.path("zookeeper").asText();
    }

    public String clusterId() {
        return running().door.path("cluster_id").asText();
    }

    public String state(int id) {
        return brokers().path("" + id).path("state").asText();
    }

    public int controller() {
        JsonNode all = brokers();
        for (java.util.Iterator<String> i = all.fieldNames(); i.hasNext(); ) {
            String id = i.next();
            if (all.path(id).path("is_controller").asBoolean()) {
                return Integer.parseInt(id);
            }
        }
        return -1;
    }

    private JsonNode brokers() {
        return http("GET", "/brokers", null);
    }

    /** kill, stop, start, pause, resume. */
    public void control(String what, int id, String body) {
        http("POST", "/brokers/" + id + "/" + what, body);
    }

    private JsonNode http(String method, String path, String body) {
        try {
            HttpURLConnection c = (HttpURLConnection) new URL(running().door.path("control").asText() + path).openConnection();
            c.setRequestProperty("Connection", "close");
            c.setRequestMethod(method);
            c.setReadTimeout(180_000);
            if ("POST".equals(method)) {
                byte[] b = body == null ? new byte[0] : body.getBytes(StandardCharsets.ISO_8859_1);
                c.setDoOutput(true);
                c.setFixedLengthStreamingMode(b.length);
                if (b.length > 0) {
                    c.setRequestProperty("Content-Type", "text/plain");
                }
                try (OutputStream o = c.getOutputStream()) {
                    o.write(b);
                }
            }
            int code = c.getResponseCode();
            try (InputStream i = code < 400 ? c.getInputStream() : c.getErrorStream()) {
                JsonNode answer = JSON.readTree(i);
                if (code != 200) {
                    throw new IllegalStateException(method + " " + path + ": " + code + " " + answer);
                }
                return answer;
            }
        } catch (IOException e) {
            throw new IllegalStateException(method + " " + path, e);
        }
    }

    /** The test is over. */
    public synchronized void end() {
        ended = true;
        synchronized (ALL) {
            ALL.remove(token);
        }
        if (process == null) {
            return;
        }
        process.destroy();
        try {
            if (!process.waitFor(20, TimeUnit.SECONDS)) {
                process.destroyForcibly().waitFor(5, TimeUnit.SECONDS);
            }
        } catch (InterruptedException e) {
            process.destroyForcibly();
            Thread.currentThread().interrupt();
        }
    }
}
