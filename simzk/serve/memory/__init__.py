"""ZooKeeper in memory: an unmodified kazoo client connects without a socket."""
