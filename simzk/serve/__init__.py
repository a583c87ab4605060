"""Servers for real clients: the only room with sockets, threads and wall time."""
