import com.fasterxml.jackson.databind.JsonNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.HexFormat;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.ObjectSerializationCache;

/**
 * Reads messages with Kafka's own classes and writes them again. A line of input is a class, the version to
 * read, the version to write, and bytes in hexadecimal. A line of output is "ok", the number of bytes read, the bytes written (none if it cannot be written) and the
 * fields as JSON; or "error" and the exception.
 */
public class Messages {
    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split(" ", -1);
            short read = Short.parseShort(words[1]), write = Short.parseShort(words[2]);
            out.println(answer(words[0], read, write, HexFormat.of().parseHex(words[3])));
        }
        out.flush();
    }

    private static String answer(String name, short read, short write, byte[] data) throws Exception {
        Message message = (Message) Class.forName(name).getConstructor().newInstance();
        ByteBuffer in = ByteBuffer.wrap(data);
        try {
            message.read(new ByteBufferAccessor(in), read);
        } catch (Exception | OutOfMemoryError error) {
            return "error " + error.toString().replace('\n', ' ');
        }
        ObjectSerializationCache cache = new ObjectSerializationCache();
        ByteBuffer written;
        try {
            written = ByteBuffer.allocate(message.size(cache, write));
            message.write(new ByteBufferAccessor(written), cache, write);
        } catch (Exception error) {
            return "ok " + in.position() + "  \"" + error.getClass().getSimpleName() + "\"";
        }
        JsonNode json = (JsonNode) Arrays.stream(Class.forName(name + "JsonConverter").getMethods())
            .filter(method -> method.getName().equals("write") && method.getParameterCount() == 3)
            .findFirst().orElseThrow()
            .invoke(null, message, write, false);
        return "ok " + in.position() + " " + HexFormat.of().formatHex(written.array(), 0, written.position()) + " " + json;
    }
}
