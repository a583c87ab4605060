"""Requests to coordinators: consumer groups with their offsets, transactions with their markers."""
