"""Which zoo.cfg the real server starts with, and which properties it makes of one: the same as here."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from simzk.errors import ConfigError
from simzk.serve.configuration.file_formats import read_properties
from simzk.serve.configuration.zoo_cfg import parse_zoo_cfg
from tests.conformance.java_tools import told_by_java

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.slow

LEAST = "dataDir=/tmp/zookeeper\nclientPort=2181\n"
LINES = (
    "",
    "tickTime=fast",
    "tickTime=0",
    "tickTime=2147483648",
    "tickTime=+500",
    "clientPort=70000",
    "clientPort=0x10",
    "clientPort=-1",
    "clientPortAddress=127.0.0.1",
    "secureClientPortAddress=127.0.0.1",
    "secureClientPort=x",
    "maxClientCnxns=many",
    "maxClientCnxns=-3",
    "clientPortListenBacklog=1.5",
    "minSessionTimeout=9\nmaxSessionTimeout=8",
    "minSessionTimeout=70000",
    "maxSessionTimeout=10",
    "minSessionTimeout=-1",
    "initLimit=ten",
    "syncLimit=",
    "electionAlg=0",
    "electionAlg=3",
    "peerType=observer",
    "peerType=leader",
    "reconfigEnabled=yes",
    "reconfigEnabled=TRUE",
    "standaloneEnabled=maybe",
    "syncEnabled=0",
    "localSessionsEnabled=on",
    "sslQuorum=off",
    "quorumListenOnAllIPs=1",
    "multiAddress.enabled=1",
    "multiAddress.reachabilityCheckTimeoutMs=soon",
    "quorum.cnxn.threads.size=a",
    "observerMasterPort=b",
    "autopurge.snapRetainCount=1",
    "autopurge.snapRetainCount=all",
    "autopurge.purgeInterval=daily",
    "autopurge.purgeInterval=-2",
    "jvm.pause.monitor=sometimes",
    "jvm.pause.sleep.time.ms=never",
    "metricsProvider.className=org.example.NoSuchThing",
    "metricsProvider.className=org.apache.zookeeper.metrics.impl.DefaultMetricsProvider",
    "snapCount=none",
    "snapCount=1",
    "preAllocSize=big",
    "jute.maxbuffer=0xffff",
    "extendedTypesEnabled=yes",
    "skipACL=true",
    "forceSync=false",
    "4lw.commands.whitelist=ruok, nonsense",
    "4lw.commands.whitelist=",
    "nonsense=1",
    "zookeeper.snapCount=5",
    "server.1=localhost:2888:3888",
    r"nonsense=\u12",
    r"nonsense=\u0041",
    "nonsense",
    "=value",
)
PROPERTIES = (
    "a=b\n c : d\ne f\n",
    "! no\n# no \\\nk=v\n",
    "k=a\\\n   b\\\n\tc\n",
    "k\\=l=m\\:n\\ o\n",
    "k=\\u0041\\t|\\n|\\f|\\q\\\\\n",
    "k=1\rl=2\r\nm=3\x0bx\x85y\n",
    "k\n=v\n:w\n",
    "a==b\nc=:d\ne:=f\n",
    "twice=1\ntwice=2\n",
    "end=\\",
    "gap=a\\\n\nb=c\n",
    "comment=a\\\n# b\n",
    "k =\t v w \n",
)


def is_taken(text: str) -> bool:
    try:
        parse_zoo_cfg(text)
    except ConfigError:
        return False
    return True


@pytest.mark.java
@pytest.mark.timeout(150)
def test_the_same_files_are_taken(tmp_path: Path) -> None:
    files = []
    for number, line in enumerate(LINES):
        files.append(tmp_path / f"{number}.cfg")
        files[-1].write_text(f"{LEAST}{line}\n")
    real = [line.split()[0] for line in told_by_java("ZooCfgs.java", *map(str, files)).splitlines()]
    ours = ["taken" if is_taken(f"{LEAST}{line}\n") else "refused" for line in LINES]
    assert dict(zip(LINES, ours, strict=True)) == dict(zip(LINES, real, strict=True))
    assert {"taken", "refused"} == set(real)


@pytest.mark.java
@pytest.mark.timeout(150)
def test_properties_are_read_as_java_reads_them(tmp_path: Path) -> None:
    files = []
    for number, text in enumerate(PROPERTIES):
        files.append(tmp_path / f"{number}.properties")
        files[-1].write_bytes(text.encode("latin-1"))
    lines = told_by_java("Properties.java", *map(str, files)).strip().split("\n")
    for text, line in zip(PROPERTIES, lines, strict=True):
        ours = {key: entry.value for key, entry in read_properties(text).items()}
        assert ours == {key.strip(): value.strip() for key, value in json.loads(line).items()}, text
