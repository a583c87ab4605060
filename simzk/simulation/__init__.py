"""Virtual time: scheduler, seeded streams, processes, network, faults, history, invariants.

Nothing here waits, reads a clock or draws unseeded chance: a run is a function of its seed and of what is asked of it.
"""

from simzk.simulation.faults import Fault, FaultPlan
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
