"""The real server's configuration file: what it sets, and what in it is refused, by file and line."""

from __future__ import annotations

from pathlib import Path

import pytest

from simzk.errors import ConfigError
from simzk.serve.zoo_cfg import parse_zoo_cfg, read_properties, read_zoo_cfg
from simzk.wire.four_letter_words import ALL_WORDS

LEAST = "dataDir=/var/lib/zookeeper\nclientPort=2181\n"

# What zkServer.sh's zoo_sample.cfg says, comments and all.
SAMPLE = """\
# The number of milliseconds of each tick
tickTime=2000
# The number of ticks that the initial
# synchronization phase can take
initLimit=10
syncLimit=5
dataDir=/tmp/zookeeper
clientPort=2181
#maxClientCnxns=60
#autopurge.snapRetainCount=3
"""


def test_the_sample_file() -> None:
    settings = parse_zoo_cfg(SAMPLE)
    assert (settings.address, settings.port, settings.data_directory) == ("", 2181, Path("/tmp/zookeeper"))
    assert settings.server.tick_time_ms == 2000
    assert settings.text == SAMPLE


def test_defaults_are_the_real_servers() -> None:
    settings = parse_zoo_cfg(LEAST)
    assert settings.max_connections_per_address == 60
    assert settings.whitelist == {"srvr"}
    assert (settings.admin_port, settings.admin_path) == (8080, "/commands")
    assert settings.fsync
    assert not settings.server.extended_types
    assert (settings.server.tick_time_ms, settings.server.clamp_timeout(0)) == (3000, 6000)


def test_every_key_reaches_its_place() -> None:
    settings = parse_zoo_cfg(
        LEAST
        + "clientPortAddress=127.0.0.1\nclientPortListenBacklog=7\nmaxClientCnxns=0\nforceSync=no\nsnapCount=500\n"
        "4lw.commands.whitelist=ruok, stat ,nonsense\nadmin.serverPort=0\nadmin.serverAddress=127.0.0.1\n"
        "admin.commandURL=/c\ntickTime=500\nminSessionTimeout=300\nmaxSessionTimeout=40000\njute.maxbuffer=0x1000\n"
        "extendedTypesEnabled=true\nDigestAuthenticationProvider.superDigest=super:x=\nskipACL=yes\nenforceQuota=true\n"
        "reconfigEnabled=true\nznode.container.checkIntervalMs=100\ndataLogDir=/var/log/zookeeper\n"
    )
    assert settings.log_directory == Path("/var/log/zookeeper")
    assert settings.whitelist == {"ruok", "stat"}
    assert (settings.address, settings.backlog, settings.max_connections_per_address) == ("127.0.0.1", 7, 0)
    assert (settings.fsync, settings.snap_count) == (False, 500)
    assert (settings.admin_address, settings.admin_port, settings.admin_path) == ("127.0.0.1", 0, "/c")
    server = settings.server
    assert (server.clamp_timeout(0), server.clamp_timeout(10**6), server.max_buffer_bytes) == (300, 40000, 0x1000)
    assert (server.extended_types, server.skip_acl, server.enforce_quota, server.reconfig_enabled) == (True,) * 4
    assert (server.super_digest, server.container_check_interval_ms) == ("super:x=", 100)


def test_words_by_the_star_and_no_admin_server() -> None:
    settings = parse_zoo_cfg(LEAST + "4lw.commands.whitelist=*\nadmin.enableServer=false\n")
    assert settings.whitelist == ALL_WORDS
    assert settings.admin_port is None


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("k=v", "v"),
        ("k : v", "v"),
        ("k v", "v"),
        ("  k=v  ", "v"),
        ("k=a\\\n   b", "ab"),
        ("k", ""),
        ("k=a\\=b", "a=b"),
    ],
)
def test_properties_as_java_reads_them(text: str, value: str) -> None:
    assert {key: entry.value for key, entry in read_properties(text).items()} == {"k": value}


ENSEMBLE = "server.1=a:1:2\nserver.2=b:1:2"


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ("tickTime=fast", ":3: tickTime cannot be 'fast'; expected a whole number"),
        ("tickTime=0", ":3: tickTime cannot be '0'; expected more than 0"),
        ("clientPort=70000", ":3: clientPort cannot be '70000'; expected a port, 0 to 65535"),
        ("extendedTypesEnabled=maybe", ":3: extendedTypesEnabled cannot be 'maybe'; expected true or false"),
        ("secureClientPort=2281", ":3: a secure port needs a key; expected ssl.keyStore.location=FILE.pem"),
        (ENSEMBLE, ":4: server.2 asks for an ensemble, which is not served; expected one server"),
        ("minSessionTimeout=9\nmaxSessionTimeout=8", ": minSessionTimeout must not be larger than maxSessionTimeout"),
    ],
)
def test_what_cannot_be_is_said_by_line(more: str, said: str) -> None:
    with pytest.raises(ConfigError) as refused:
        parse_zoo_cfg(LEAST + more)
    assert str(refused.value) == f"zoo.cfg{said}"


@pytest.mark.parametrize(("text", "missing"), [("clientPort=1\n", "dataDir"), ("dataDir=/x\n", "clientPort")])
def test_what_is_missing_is_said(text: str, missing: str) -> None:
    with pytest.raises(ConfigError, match=f"{missing} is not set"):
        parse_zoo_cfg(text)


def test_a_file_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        read_zoo_cfg(tmp_path / "zoo.cfg")
