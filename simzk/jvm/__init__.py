"""What Java and Scala decide by hash or format: hash codes, maps, sets, `java.util.Random`, numbers."""
