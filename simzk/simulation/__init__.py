"""Simulation in virtual time: scheduler, random streams, processes, network, faults, history, invariants.

No code here waits, reads a clock or uses an unseeded random generator: a run is a function of its seed and its inputs.
Names are imported on first use (PEP 562), because a server on wall time needs the fault rules only.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from simzk.simulation.condition import Condition
    from simzk.simulation.history import Event, History, Invariant, Monitor, Violation
    from simzk.simulation.network import Network
    from simzk.simulation.process import CancelledError, Future, Process, Queue, Task, gather
    from simzk.simulation.scheduler import NoProgressError, Scheduler, Timer
    from simzk.simulation.streams import RandomStream

__all__ = [
    "CancelledError",
    "Condition",
    "Event",
    "Future",
    "History",
    "Invariant",
    "Monitor",
    "Network",
    "NoProgressError",
    "Process",
    "Queue",
    "RandomStream",
    "Scheduler",
    "Task",
    "Timer",
    "Violation",
    "gather",
]

_HOMES = {
    "condition": ("Condition",),
    "process": ("CancelledError", "Future", "Process", "Queue", "Task", "gather"),
    "history": ("Event", "History", "Invariant", "Monitor", "Violation"),
    "network": ("Network",),
    "scheduler": ("NoProgressError", "Scheduler", "Timer"),
    "streams": ("RandomStream",),
}

if not TYPE_CHECKING:  # hidden from type checkers, which know the names above and reject others

    def __getattr__(name: str) -> object:
        for home, names in _HOMES.items():
            if name in names:
                value: object = getattr(import_module(f"{__name__}.{home}"), name)
                globals()[name] = value
                return value
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
