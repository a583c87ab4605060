"""The JSON in Kafka's znodes: each module decodes all versions of a schema and encodes each of them.

Rules of this room:
  - encoded data equal those of real brokers byte for byte, with the same order of fields (docs/reference/kafka.md
    §1.2);
  - a reader ignores unknown fields and rejects invalid data with a `ZnodeError` that names path, field and reason.
"""
