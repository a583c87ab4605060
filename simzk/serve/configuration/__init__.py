"""Configuration files and settings of a served ZooKeeper."""
