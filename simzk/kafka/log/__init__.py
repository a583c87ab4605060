"""Logs of replicas, without I/O: record batches, leader epochs, truncation, high watermark, and what a disk keeps."""
