"""Published models of Kafka's replication, written again in plain Python, as judges of the simulation."""
