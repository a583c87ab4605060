"""Simulation in virtual time: scheduler, random streams, processes, network, faults, history, invariants.

No code here waits, reads a clock or uses an unseeded random generator: a run is a function of its seed and its inputs.
Names are imported on first use (PEP 562), because a server on wall time needs the fault rules only.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from simzk.simulation.faults.plan import Fault, FaultPlan
    from simzk.simulation.futures import CancelledError, Future, Queue, gather
    from simzk.simulation.history import Event, History
    from simzk.simulation.invariants import Invariant, Monitor, Violation
    from simzk.simulation.network import Network
    from simzk.simulation.process import Process, Task
    from simzk.simulation.scheduler import NoProgressError, Scheduler, Timer
    from simzk.simulation.streams import RandomStream

__all__ = [
    "CancelledError",
    "Event",
    "Fault",
    "FaultPlan",
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
    "faults.plan": ("Fault", "FaultPlan"),
    "futures": ("CancelledError", "Future", "Queue", "gather"),
    "history": ("Event", "History"),
    "invariants": ("Invariant", "Monitor", "Violation"),
    "network": ("Network",),
    "process": ("Process", "Task"),
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
