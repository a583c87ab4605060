"""Requests of clients in Kafka's protocol, answered from the state of one simulated broker, without I/O.

A frame comes in, a frame goes out: `broker_api` decodes, checks versions and calls the handler of an API; the other
modules are the handlers, by the part of Kafka that they ask for.
"""
