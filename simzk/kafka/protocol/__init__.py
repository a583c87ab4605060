"""Kafka's wire protocol: every version of every request and response, as bytes and as objects, without I/O.

`codec` encodes and decodes, `messages` has the classes, `columns` encodes arrays of structs from numpy columns. The
table of all messages is `definitions`; `schema`, `classes`, `encoding` and `decoding` make classes and functions of it.
"""
