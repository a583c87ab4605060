// What java.util.Properties reads of each file named on the command line: a JSON object a line.

import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.FileInputStream;
import java.util.TreeMap;

public final class Properties {
    public static void main(String[] files) throws Exception {
        for (String file : files) {
            java.util.Properties read = new java.util.Properties();
            try (FileInputStream in = new FileInputStream(file)) {
                read.load(in);
            }
            System.out.println(new ObjectMapper().writeValueAsString(new TreeMap<>(read)));
        }
    }
}
