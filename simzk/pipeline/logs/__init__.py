"""Spark data sources that read ZooKeeper transaction logs, snapshots and live servers."""
