"""TCP listeners for one ZooKeeper server, for an ensemble and for the ZooKeeper of a simulated cluster."""
