import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.ObjectSerializationCache;
import org.apache.kafka.common.requests.AbstractRequest;
import org.apache.kafka.common.requests.AbstractResponse;

/**
 * Answers requests with errors, as Kafka's own classes do. A line of input is an API key, a version, an error code, and the
 * body of the request in hexadecimal. A line of output is "ok" and the body of the response, "none" if the request has no
 * response, or "error" and the exception.
 */
public class ErrorResponses {
    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split(" ", -1);
            short version = Short.parseShort(words[1]);
            Errors error = Errors.forCode(Short.parseShort(words[2]));
            try {
                out.println(answer(ApiKeys.forId(Integer.parseInt(words[0])), version, error, HexFormat.of().parseHex(words[3])));
            } catch (Exception exception) {
                out.println("error " + exception.toString().replace('\n', ' '));
            }
        }
        out.flush();
    }

    private static String answer(ApiKeys api, short version, Errors error, byte[] body) {
        AbstractRequest request = AbstractRequest.parseRequest(api, version, ByteBuffer.wrap(body)).request;
        AbstractResponse response = request.getErrorResponse(0, error.exception());
        if (response == null) {
            return "none";
        }
        Message message = response.data();
        ObjectSerializationCache cache = new ObjectSerializationCache();
        ByteBuffer written = ByteBuffer.allocate(message.size(cache, version));
        message.write(new ByteBufferAccessor(written), cache, version);
        return "ok " + HexFormat.of().formatHex(written.array(), 0, written.position());
    }
}
