import java.lang.reflect.*;
import java.nio.file.*;
import java.util.*;

/**
 * Prints what the jars of a Kafka release say about settings of listeners, for make_listener_answers.py.
 *
 * java -cp CLASSES:JARS DumpListeners FILE   FILE has settings KEY=VALUE separated by blanks, a broker a line
 */
public class DumpListeners {
    static String q(String s) {
        return s == null ? "null" : "\"" + s.replace("\\", "\\\\").replace("\"", "\\\"") + "\"";
    }

    public static void main(String[] a) throws Exception {
        Object module = Class.forName("kafka.server.KafkaConfig$").getField("MODULE$").get(null);
        Method from = module.getClass().getMethod("fromProps", Properties.class);
        for (String line : Files.readAllLines(Paths.get(a[0]))) {
            Properties p = new Properties();
            p.setProperty("zookeeper.connect", "localhost:1");
            p.setProperty("broker.id", "0");
            for (String pair : line.split(" ")) p.setProperty(pair.split("=", 2)[0], pair.split("=", 2)[1]);
            String text = null;
            try { from.invoke(module, p); } catch (InvocationTargetException e) { text = e.getCause().getMessage(); }
            System.out.println("[" + q(line) + "," + q(text) + "]");
        }
        System.out.flush();
        System.exit(0);
    }
}
