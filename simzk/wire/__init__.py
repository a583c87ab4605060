"""Bytes to requests and back, without IO: jute records from one table, both ends of a connection."""
