"""A ZooKeeper server without IO: requests and time go in, replies and watch events come out."""
