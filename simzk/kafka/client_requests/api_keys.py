"""API keys of clients' requests, by the module that handles them."""

from __future__ import annotations

from typing import Final

TOPICS: Final = (19, 20, 37)
LEADERSHIP: Final = (43, 45, 46)
CONFIGS: Final = (32, 33, 44)
ACLS: Final = (29, 30, 31)
QUOTAS: Final = (48, 49)
SCRAM_USERS: Final = (50, 51)
TOKENS: Final = (38, 39, 40, 41)
LOG_DIRS: Final = (34, 35)
FEATURES: Final = (57,)
SASL: Final = (17, 36)
GROUPS: Final = (10, 11, 12, 13, 14, 15, 16, 42)
OFFSETS: Final = (8, 9, 28, 47)
PRODUCE: Final = (0,)
FETCH: Final = (1,)
LOG_OFFSETS: Final = (2, 21, 23)
TRANSACTIONS: Final = (24, 25, 26, 65, 66)
PRODUCER_IDS: Final = (22,)
PRODUCERS: Final = (61,)
TRANSACTION_MARKERS: Final = (27,)
BROKERS: Final = (4, 5, 6, 7, 56, 58, 67)
