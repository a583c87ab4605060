"""Sockets, threads and wall time: the one room that touches them."""
