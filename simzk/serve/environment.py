"""What a server tells of the machine and the process that it runs in (the word envi), under the real server's names."""

from __future__ import annotations

import datetime
import os
import platform
import resource
import socket
import sys
import tempfile
from pathlib import Path


def environment(version: str) -> dict[str, str]:
    """Name to value, in the real server's order. What is Java's there is Python's here."""
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


def open_files() -> tuple[int, int]:
    """File descriptors in use (-1 where the platform does not tell), and how many there may be."""
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    try:
        return len(os.listdir("/proc/self/fd")), most
    except OSError:
        return -1, most


def java_date(at_ms: int) -> str:
    """A time as Java's `Date` is written, in UTC.

    >>> java_date(1_795_256_032_000)
    'Sat Nov 21 10:13:52 UTC 2026'
    """
    at = datetime.datetime.fromtimestamp(at_ms / 1000, datetime.UTC)
    day = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")[at.weekday()]
    month = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"][at.month - 1]
    return f"{day} {month} {at.day:02} {at:%H:%M:%S} UTC {at.year}"
