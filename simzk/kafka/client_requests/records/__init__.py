"""Requests about records: produce, fetch, offsets of logs, idempotent producers."""
