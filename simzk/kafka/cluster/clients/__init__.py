"""Clients in virtual time that speak Kafka's requests: groups, transactions, fetch sessions, deletion, administration.

Each client is a process of the simulation. It reaches brokers only through connections, as a real one does, and tells
the ledger what it sent and what it was answered (`observation/client_ledger.py`).
"""
