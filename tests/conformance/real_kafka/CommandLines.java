import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.io.PrintStream;
import java.lang.reflect.Field;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.common.utils.Exit;

/**
 * Runs Kafka's tools one after the other in one Java process. A line of input is a class, its standard input in base64
 * and its arguments, between tabs. A line of output is what it wrote to stdout and stderr, in base64. The argument of
 * this program is how long a tool may run, in seconds.
 *
 * A tool that exits never gets back control, as in a process of its own, and its shutdown hooks run.
 */
public class CommandLines {
    /** Stream that Scala's console and log4j keep from their start on; it writes to the current command's buffer. */
    private static class Switched extends OutputStream {
        private volatile ByteArrayOutputStream target = new ByteArrayOutputStream();

        @Override
        public void write(int one) {
            target.write(one);
        }

        @Override
        public void write(byte[] data, int from, int length) {
            target.write(data, from, length);
        }
    }

    private static final Switched OUT = new Switched(), ERR = new Switched();

    public static void main(String[] arguments) throws Exception {
        long limit = Long.parseLong(arguments[0]);
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream answers = System.out;
        System.setOut(new PrintStream(OUT, true, StandardCharsets.UTF_8));
        System.setErr(new PrintStream(ERR, true, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split("\t", -1);
            OUT.target = new ByteArrayOutputStream();
            ERR.target = new ByteArrayOutputStream();
            run(words[0], Base64.getDecoder().decode(words[1]), Arrays.copyOfRange(words, 2, words.length), limit);
            OUT.target.writeBytes(ERR.target.toByteArray());
            answers.println(Base64.getEncoder().encodeToString(OUT.target.toByteArray()));
            answers.flush();
        }
        Runtime.getRuntime().halt(0);
    }

    private static void run(String tool, byte[] given, String[] arguments, long limit) throws Exception {
        CountDownLatch ended = new CountDownLatch(1);
        Exit.setExitProcedure((status, message) -> {
            ended.countDown();
            while (true) {
                try {
                    Thread.sleep(Long.MAX_VALUE);
                } catch (InterruptedException ignored) {
                    // nobody gets control back from an exit
                }
            }
        });
        System.setIn(new ByteArrayInputStream(given));
        Thread thread = new Thread(() -> {
            try {
                Class.forName(tool).getMethod("main", String[].class).invoke(null, (Object) arguments);
            } catch (InvocationTargetException error) {
                System.err.print("Exception in thread \"main\" ");
                error.getCause().printStackTrace();
            } catch (ReflectiveOperationException error) {
                error.printStackTrace();
            }
            ended.countDown();
        }, "main");
        thread.setDaemon(true);
        thread.start();
        if (!ended.await(limit, TimeUnit.SECONDS)) {
            System.err.println("the tool did not end");
        }
        for (Thread hook : hooks()) {
            hook.start();
            hook.join(TimeUnit.SECONDS.toMillis(limit));
        }
    }

    /** Return the shutdown hooks, and forget them. */
    @SuppressWarnings("unchecked")
    private static List<Thread> hooks() throws Exception {
        Field field = Class.forName("java.lang.ApplicationShutdownHooks").getDeclaredField("hooks");
        field.setAccessible(true);
        Map<Thread, Thread> registered = (Map<Thread, Thread>) field.get(null);
        List<Thread> found = new ArrayList<>(registered.keySet());
        registered.clear();
        return found;
    }
}
