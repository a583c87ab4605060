"""Machine and process in monitoring reports, under the real server's names.

Rules of this module:
  - values of Java's own (memory pools, loaded classes) have no samples.

Source: Environment; DefaultExports of the Prometheus client library 0.9, as in a standalone server 3.9.5.
"""

from __future__ import annotations

import datetime
import gc
import os
import platform
import resource
import socket
import sys
import tempfile
import threading
import time
from pathlib import Path

from simzk.wire.monitoring import Family, Sample


def environment(version: str) -> dict[str, str]:
    """Return the values of the word envi by name, in the real server's order; Python's in the place of Java's."""
    return {
        "zookeeper.version": version,
        "host.name": socket.gethostname(),
        "java.version": platform.python_version(),
        "java.vendor": platform.python_implementation(),
        "java.home": sys.prefix,
        "java.class.path": os.pathsep.join(sys.path),
        "java.library.path": "",
        "java.io.tmpdir": tempfile.gettempdir(),
        "java.compiler": "<NA>",
        "os.name": platform.system(),
        "os.arch": platform.machine(),
        "os.version": platform.release(),
        "user.name": os.environ.get("USER", str(os.getuid())),
        "user.home": str(Path.home()),
        "user.dir": str(Path.cwd()),
    }


# Keys that QuorumPeerConfig.parseProperties handles; any other key becomes a system property.
_CONFIGURATION_KEYS = {
    "dataDir", "dataLogDir", "clientPort", "localSessionsEnabled", "localSessionsUpgradingEnabled",
    "clientPortAddress", "secureClientPort", "secureClientPortAddress", "observerMasterPort",
    "clientPortListenBacklog", "tickTime", "maxClientCnxns", "minSessionTimeout", "maxSessionTimeout", "initLimit",
    "syncLimit", "connectToLearnerMasterLimit", "electionAlg", "quorumListenOnAllIPs", "peerType", "syncEnabled",
    "dynamicConfigFile", "autopurge.snapRetainCount", "autopurge.purgeInterval", "standaloneEnabled",
    "reconfigEnabled", "sslQuorum", "portUnification", "sslQuorumReloadCertFiles", "quorum.auth.enableSasl",
    "quorum.auth.serverRequireSasl", "quorum.auth.learnerRequireSasl", "quorum.auth.learner.saslLoginContext",
    "quorum.auth.server.saslLoginContext", "quorum.auth.kerberos.servicePrincipal", "quorum.cnxn.threads.size",
    "jvm.pause.info-threshold.ms", "jvm.pause.warn-threshold.ms", "jvm.pause.sleep.time.ms", "jvm.pause.monitor",
    "metricsProvider.className", "multiAddress.enabled", "multiAddress.reachabilityCheckTimeoutMs",
    "multiAddress.reachabilityCheckEnabled", "oraclePath",
}  # fmt: skip


def system_properties(text: str) -> dict[str, str]:
    """Return the system properties by name, sorted: Python's in the place of Java's, and those of a zoo.cfg."""
    properties = {name: value for name, value in environment("").items() if name.startswith(("java.", "os.", "user."))}
    properties |= {"file.separator": os.sep, "line.separator": os.linesep, "path.separator": os.pathsep}
    if text:
        from simzk.serve.configuration.file_formats import read_properties

        for key, entry in read_properties(text).items():
            of_prefix = key.startswith(("server.", "group", "weight", "metricsProvider."))
            if not of_prefix and key not in _CONFIGURATION_KEYS:
                properties[f"zookeeper.{key}"] = entry.value
    return dict(sorted(properties.items()))


def open_files() -> tuple[int, int]:
    """Return the number of open file descriptors, -1 if the platform does not report it, and their maximum."""
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    try:
        return len(os.listdir("/proc/self/fd")), most
    except OSError:
        return -1, most


def java_date(at_ms: int) -> str:
    """Return a time in the format of Java's `Date.toString`, in UTC.

    >>> java_date(1_795_256_032_000)
    'Sat Nov 21 10:13:52 UTC 2026'
    """
    at = datetime.datetime.fromtimestamp(at_ms / 1000, datetime.UTC)
    day = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")[at.weekday()]
    month = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"][at.month - 1]
    return f"{day} {month} {at.day:02} {at:%H:%M:%S} UTC {at.year}"


_STARTED_S = time.time()
_JVM_ONLY = {
    "jvm_memory_bytes_used": "Used bytes of a given JVM memory area.",
    "jvm_memory_bytes_committed": "Committed (bytes) of a given JVM memory area.",
    "jvm_memory_bytes_max": "Max (bytes) of a given JVM memory area.",
    "jvm_memory_bytes_init": "Initial bytes of a given JVM memory area.",
    "jvm_memory_pool_bytes_used": "Used bytes of a given JVM memory pool.",
    "jvm_memory_pool_bytes_committed": "Committed bytes of a given JVM memory pool.",
    "jvm_memory_pool_bytes_max": "Max bytes of a given JVM memory pool.",
    "jvm_memory_pool_bytes_init": "Initial bytes of a given JVM memory pool.",
    "jvm_memory_pool_allocated_bytes_total": (
        "Total bytes allocated in a given JVM memory pool. Only updated after GC, not continuously."
    ),
    "jvm_buffer_pool_used_bytes": "Used bytes of a given JVM buffer pool.",
    "jvm_buffer_pool_capacity_bytes": "Bytes capacity of a given JVM buffer pool.",
    "jvm_buffer_pool_used_buffers": "Used buffers of a given JVM buffer pool.",
    "jvm_classes_loaded": "The number of classes that are currently loaded in the JVM",
    "jvm_classes_loaded_total": (
        "The total number of classes that have been loaded since the JVM has started execution"
    ),
    "jvm_classes_unloaded_total": (
        "The total number of classes that have been unloaded since the JVM has started execution"
    ),
    "jvm_threads_peak": "Peak thread count of a JVM",
    "jvm_threads_started_total": "Started thread count of a JVM",
    "jvm_threads_deadlocked": (
        "Cycles of JVM-threads that are in deadlock waiting to acquire object monitors or ownable synchronizers"
    ),
    "jvm_threads_deadlocked_monitor": "Cycles of JVM-threads that are in deadlock waiting to acquire object monitors",
    "jvm_threads_state": "Current count of threads by state",
}


def process_families() -> list[Family]:
    """Return the metrics of the process."""
    opened, most = open_files()
    virtual_bytes, resident_bytes = _memory_bytes()
    threads = threading.enumerate()
    vendor = ("vendor", platform.python_implementation())
    version = (("version", platform.python_version()), vendor, ("runtime", "Python"))
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
        *(_one(name, None, about) for name, about in _JVM_ONLY.items()),
    ]


def _one(name: str, value: float | None, about: str) -> Family:
    """Return a metric with one sample, or with none."""
    kind = "counter" if name.endswith("_total") else "gauge"
    return Family(name, kind, [] if value is None else [Sample(name, (), value)], about)


def _collections() -> Family:
    name = "jvm_gc_collection_seconds"
    samples = [
        Sample(f"{name}_count", (("gc", f"generation {number}"),), counted["collections"])
        for number, counted in enumerate(gc.get_stats())
    ]
    return Family(name, "summary", samples, "Time spent in a given JVM garbage collector in seconds.")


def _memory_bytes() -> tuple[int, int]:
    """Return virtual and resident size; without /proc the peak resident size for both."""
    try:
        pages = Path("/proc/self/statm").read_text(encoding="ascii").split()
    except OSError:
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        return most, most
    return int(pages[0]) * resource.getpagesize(), int(pages[1]) * resource.getpagesize()
