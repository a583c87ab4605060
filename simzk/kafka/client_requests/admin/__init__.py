"""Requests of administrators: topics, leaders, configurations, quotas, users, tokens, ACLs, features, directories."""
