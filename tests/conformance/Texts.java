// What Java makes of texts, a line each, from the file named on the command line: "text HEX" is decoded from UTF-8, and
// its UTF-16 units are printed; "name HEX" is a name in UTF-16 units, and 1 is printed if X500Principal accepts it.

import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HexFormat;
import javax.security.auth.x500.X500Principal;

public final class Texts {
    public static void main(String[] arguments) throws Exception {
        StringBuilder out = new StringBuilder();
        for (String line : Files.readAllLines(Path.of(arguments[0]))) {
            byte[] bytes = HexFormat.of().parseHex(line.substring(5));
            if (line.startsWith("text")) {
                byte[] units = new String(bytes, StandardCharsets.UTF_8).getBytes(StandardCharsets.UTF_16BE);
                out.append(HexFormat.of().formatHex(units));
            } else {
                out.append(isName(new String(bytes, StandardCharsets.UTF_16BE)) ? 1 : 0);
            }
            out.append('\n');
        }
        System.out.print(out);
    }

    private static boolean isName(String text) {
        try {
            new X500Principal(text);
            return true;
        } catch (IllegalArgumentException e) {
            return false;
        }
    }
}
