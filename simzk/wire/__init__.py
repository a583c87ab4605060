"""Bytes of ZooKeeper's protocol: frames, records, both ends of a connection, four-letter words, metrics; no IO."""
