"""A broker's ZooKeeper client: the session, typed requests and batched requests."""
