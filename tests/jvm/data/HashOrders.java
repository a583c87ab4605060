// The orders in which a HashSet lists names: histories are read from a file, "+name" and "-name" a line, "?" asks for
// the order, "c" for the order of its clone, and an empty line begins a new set of 8 buckets.

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashSet;

public final class HashOrders {
    public static void main(String[] arguments) throws Exception {
        HashSet<String> names = new HashSet<>(8);
        for (String line : Files.readAllLines(Path.of(arguments[0]))) {
            if (line.isEmpty()) {
                names = new HashSet<>(8);
            } else if (line.charAt(0) == '+') {
                names.add(line.substring(1));
            } else if (line.charAt(0) == '-') {
                names.remove(line.substring(1));
            } else {
                HashSet<?> asked = line.equals("c") ? (HashSet<?>) names.clone() : names;
                System.out.println(String.join(" ", asked.toArray(new String[0])));
            }
        }
    }
}
