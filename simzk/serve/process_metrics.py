"""What a metrics endpoint tells of the process, under the names that the real server's has for its Java machine.

Rules of this module:
  - what is Java's alone (pools of memory, loaded classes) has no samples.

Source: DefaultExports of the Prometheus client library 0.9, as a standalone 3.9.5 tells it.
"""

from __future__ import annotations

import gc
import platform
import resource
import threading
import time
from pathlib import Path

from simzk.serve.environment import open_files
from simzk.wire.prometheus import Family, Sample

_STARTED_S = time.time()
_OF_JAVA = {
    "jvm_memory_bytes_used": ("gauge", "Used bytes of a given JVM memory area."),
    "jvm_memory_bytes_committed": ("gauge", "Committed (bytes) of a given JVM memory area."),
    "jvm_memory_bytes_max": ("gauge", "Max (bytes) of a given JVM memory area."),
    "jvm_memory_bytes_init": ("gauge", "Initial bytes of a given JVM memory area."),
    "jvm_memory_pool_bytes_used": ("gauge", "Used bytes of a given JVM memory pool."),
    "jvm_memory_pool_bytes_committed": ("gauge", "Committed bytes of a given JVM memory pool."),
    "jvm_memory_pool_bytes_max": ("gauge", "Max bytes of a given JVM memory pool."),
    "jvm_memory_pool_bytes_init": ("gauge", "Initial bytes of a given JVM memory pool."),
    "jvm_memory_pool_allocated_bytes_total": (
        "counter",
        "Total bytes allocated in a given JVM memory pool. Only updated after GC, not continuously.",
    ),
    "jvm_buffer_pool_used_bytes": ("gauge", "Used bytes of a given JVM buffer pool."),
    "jvm_buffer_pool_capacity_bytes": ("gauge", "Bytes capacity of a given JVM buffer pool."),
    "jvm_buffer_pool_used_buffers": ("gauge", "Used buffers of a given JVM buffer pool."),
    "jvm_classes_loaded": ("gauge", "The number of classes that are currently loaded in the JVM"),
    "jvm_classes_loaded_total": (
        "counter",
        "The total number of classes that have been loaded since the JVM has started execution",
    ),
    "jvm_classes_unloaded_total": (
        "counter",
        "The total number of classes that have been unloaded since the JVM has started execution",
    ),
    "jvm_threads_peak": ("gauge", "Peak thread count of a JVM"),
    "jvm_threads_started_total": ("counter", "Started thread count of a JVM"),
    "jvm_threads_deadlocked": (
        "gauge",
        "Cycles of JVM-threads that are in deadlock waiting to acquire object monitors or ownable synchronizers",
    ),
    "jvm_threads_deadlocked_monitor": (
        "gauge",
        "Cycles of JVM-threads that are in deadlock waiting to acquire object monitors",
    ),
    "jvm_threads_state": ("gauge", "Current count of threads by state"),
}


def process_families() -> list[Family]:
    """What there is to tell at this moment."""
    opened, most = open_files()
    virtual_bytes, resident_bytes = _memory_bytes()
    threads = threading.enumerate()
    version = (
        ("version", platform.python_version()),
        ("vendor", platform.python_implementation()),
        ("runtime", "Python"),
    )
    return [
        Family("jvm_info", "gauge", [Sample("jvm_info", version, 1)], "JVM version info"),
        _one("process_cpu_seconds_total", time.process_time(), "Total user and system CPU time spent in seconds."),
        _one("process_start_time_seconds", _STARTED_S, "Start time of the process since unix epoch in seconds."),
        _one("process_open_fds", opened, "Number of open file descriptors."),
        _one("process_max_fds", most, "Maximum number of open file descriptors."),
        _one("process_virtual_memory_bytes", virtual_bytes, "Virtual memory size in bytes."),
        _one("process_resident_memory_bytes", resident_bytes, "Resident memory size in bytes."),
        _collections(),
        _one("jvm_threads_current", len(threads), "Current thread count of a JVM"),
        _one("jvm_threads_daemon", sum(thread.daemon for thread in threads), "Daemon thread count of a JVM"),
        *(Family(name, kind, [], about) for name, (kind, about) in _OF_JAVA.items()),
    ]


def _one(name: str, value: float, about: str) -> Family:
    kind = "counter" if name.endswith("_total") else "gauge"
    return Family(name, kind, [Sample(name, (), value)], about)


def _collections() -> Family:
    name = "jvm_gc_collection_seconds"
    samples = [
        Sample(f"{name}_count", (("gc", f"generation {number}"),), counted["collections"])
        for number, counted in enumerate(gc.get_stats())
    ]
    return Family(name, "summary", samples, "Time spent in a given JVM garbage collector in seconds.")


def _memory_bytes() -> tuple[int, int]:
    """Virtual and resident; where the platform does not tell, the largest resident size so far for both."""
    try:
        pages = Path("/proc/self/statm").read_text(encoding="ascii").split()
    except OSError:
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        return most, most
    return int(pages[0]) * resource.getpagesize(), int(pages[1]) * resource.getpagesize()
