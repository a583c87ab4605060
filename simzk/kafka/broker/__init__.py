"""A broker: its start and its end, its replicas, what it believes of the cluster, and the requests that it serves."""
