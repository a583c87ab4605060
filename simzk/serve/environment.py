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


# What QuorumPeerConfig.parseProperties knows by itself; of any other key it makes a system property.
_KNOWN = frozenset(
    [
        "dataDir",
        "dataLogDir",
        "clientPort",
        "localSessionsEnabled",
        "localSessionsUpgradingEnabled",
        "clientPortAddress",
        "secureClientPort",
        "secureClientPortAddress",
        "observerMasterPort",
        "clientPortListenBacklog",
        "tickTime",
        "maxClientCnxns",
        "minSessionTimeout",
        "maxSessionTimeout",
        "initLimit",
        "syncLimit",
        "connectToLearnerMasterLimit",
        "electionAlg",
        "quorumListenOnAllIPs",
        "peerType",
        "syncEnabled",
        "dynamicConfigFile",
        "autopurge.snapRetainCount",
        "autopurge.purgeInterval",
        "standaloneEnabled",
        "reconfigEnabled",
        "sslQuorum",
        "portUnification",
        "sslQuorumReloadCertFiles",
        "quorum.auth.enableSasl",
        "quorum.auth.serverRequireSasl",
        "quorum.auth.learnerRequireSasl",
        "quorum.auth.learner.saslLoginContext",
        "quorum.auth.server.saslLoginContext",
        "quorum.auth.kerberos.servicePrincipal",
        "quorum.cnxn.threads.size",
        "jvm.pause.info-threshold.ms",
        "jvm.pause.warn-threshold.ms",
        "jvm.pause.sleep.time.ms",
        "jvm.pause.monitor",
        "metricsProvider.className",
        "multiAddress.enabled",
        "multiAddress.reachabilityCheckTimeoutMs",
        "multiAddress.reachabilityCheckEnabled",
        "oraclePath",
        "sslQuorumReloadCertFiles",
    ]
)


def system_properties(text: str) -> dict[str, str]:
    """Name to value, sorted by name: what is Java's is Python's here, and what a zoo.cfg's text makes of itself."""
    told = {name: value for name, value in environment("").items() if name.startswith(("java.", "os.", "user."))}
    told |= {"file.separator": os.sep, "line.separator": os.linesep, "path.separator": os.pathsep}
    if text:
        from simzk.serve.properties import read_properties

        for key, entry in read_properties(text).items():
            if key not in _KNOWN and not key.startswith(("server.", "group", "weight", "metricsProvider.")):
                told[f"zookeeper.{key}"] = entry.value
    return dict(sorted(told.items()))


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
