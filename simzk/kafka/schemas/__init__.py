"""The JSON in Kafka's znodes: one module a schema; each reads every version of it and writes the one it is asked for.

Rules of this room:
  - what is written is equal to what the real brokers wrote, byte for byte, field order included
    (docs/reference/kafka.md §1.2);
  - a reader ignores unknown fields and refuses what it cannot use with a `ZnodeError` that names path, field and why.
"""
