"""Linearizability checker, with models for registers and znode trees and a recording kazoo client.

Record what concurrent clients ask and see, then look for an order of the operations that explains it:

>>> from simzk import linearizability
>>> recorder = linearizability.HistoryRecorder()
>>> recorder.call("client 1", linearizability.Set("/x", b"new"), lambda: 1)
1
>>> recorder.call("client 2", linearizability.Get("/x"), lambda: (b"", 0))
(b'', 0)
>>> print(linearizability.find_violation(linearizability.RegisterModel(), recorder.history()))
not linearizable; after these, in this order:
  client 1 [1, 2] Set(key='/x', value=b'new'): 1
none of these can be next:
  client 2 [3, 4] Get(key='/x'): (b'', 0), where (b'new', 1) would be right
"""

from simzk.testing.linearizability.checker import HistoryRecorder, Model, Operation, Violation, find_violation
from simzk.testing.linearizability.kazoo import OUTCOME_UNKNOWN, RecordingClient
from simzk.testing.linearizability.models import (
    CompareAndSet,
    Get,
    Register,
    RegisterModel,
    SeenStat,
    Set,
    TreeCall,
    TreeModel,
    TreeResult,
)

__all__ = [
    "OUTCOME_UNKNOWN",
    "CompareAndSet",
    "Get",
    "HistoryRecorder",
    "Model",
    "Operation",
    "RecordingClient",
    "Register",
    "RegisterModel",
    "SeenStat",
    "Set",
    "TreeCall",
    "TreeModel",
    "TreeResult",
    "Violation",
    "find_violation",
]
