"""Configuration file of the real server: settings, and errors with file and line."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from simzk.errors import ConfigError
from simzk.serve.configuration.file_formats import read_properties
from simzk.serve.configuration.keys import FLAGS, KEYS, PREFIXES
from simzk.serve.configuration.keys_without_effect import WITHOUT_EFFECT
from simzk.serve.configuration.settings import Metrics, Storage
from simzk.serve.configuration.zoo_cfg import parse_zoo_cfg, read_zoo_cfg
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
    assert settings.words == {"srvr"}
    assert (settings.admin_port, settings.admin_path) == (8080, "/commands")
    assert settings.storage == Storage(log_step_kib=65536)
    assert (settings.metrics, settings.notices) == (None, ())
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
    assert settings.words == {"ruok", "srvr", "stat"}
    assert (settings.address, settings.backlog, settings.max_connections_per_address) == ("127.0.0.1", 7, 0)
    assert settings.storage == Storage(fsync=False, snap_count=500, log_step_kib=65536)
    assert (settings.admin_address, settings.admin_port, settings.admin_path) == ("127.0.0.1", 0, "/c")
    server = settings.server
    assert (server.clamp_timeout(0), server.clamp_timeout(10**6), server.max_buffer_bytes) == (300, 40000, 0x1000)
    assert (server.extended_types, server.skip_acl, server.enforce_quota, server.reconfig_enabled) == (True,) * 4
    assert (server.super_digest, server.container_check_interval_ms) == ("super:x=", 100)


def test_words_by_the_star_and_no_admin_server() -> None:
    settings = parse_zoo_cfg(LEAST + "4lw.commands.whitelist=*\nadmin.enableServer=false\n")
    assert settings.words == ALL_WORDS
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


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ("tickTime=fast", ":3: invalid tickTime: 'fast'; expected a whole number"),
        ("tickTime=0", ":3: invalid tickTime: '0'; expected more than 0"),
        ("clientPort=70000", ":3: invalid clientPort: '70000'; expected a port, 0 to 65535"),
        ("reconfigEnabled=maybe", ":3: invalid reconfigEnabled: 'maybe'; expected true or false"),
        ("secureClientPort=2281", ":3: a secure port needs a key; expected ssl.keyStore.location=FILE"),
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


def test_what_is_written_and_how_often_reaches_its_place() -> None:
    settings = parse_zoo_cfg(
        LEAST + "preAllocSize=64\ntxnLogSizeLimitInKb=8\nsnapSizeLimitInKb=9\nsnapshot.compression.method=GZ\n"
        "snapshot.trust.empty=true\ndatadir.autocreate=false\ndigest.enabled=false\ncloseSessionTxn.enabled=false\n"
        "serializeLastProcessedZxid.enabled=false\nautopurge.snapRetainCount=5\nautopurge.purgeInterval=2\n"
        "fsync.warningthresholdms=7\nmaxCnxns=8\nnio.sessionlessCnxnTimeout=300\n"
    )
    assert settings.storage == Storage(
        True, 7, 64, 8, 100_000, 9, "gz", True, False, False, False, False, snapshots_kept=5, purge_interval_h=2
    )
    assert (settings.max_connections, settings.silence_ms, settings.notices) == (8, 300, ())


def test_who_may_do_what_reaches_its_place() -> None:
    settings = parse_zoo_cfg(
        LEAST
        + "DigestAuthenticationProvider.digestAlg=SHA3-256\nsuperUser=a\nsuperUser.2=b\nallowSaslFailedClients=true\n"
        "SASLAuthenticationProvider.superPassword=p\nenforce.auth.enabled=true\nenforce.auth.schemes=ip, x509\n"
        "authProvider.1=org.apache.zookeeper.server.auth.SASLAuthenticationProvider\nensembleAuthName=x, y\n"
        "authProvider.2=org.example.Own\n"
    )
    server = settings.server
    assert (server.digest_algorithm, server.super_users, server.super_password) == ("sha3_256", frozenset("ab"), "p")
    assert (server.required_schemes, server.providers) == (("ip", "x509"), frozenset({"sasl"}))
    assert (server.keeps_failed_logins, server.ensemble_names) == (True, frozenset("xy"))
    (notice,) = settings.notices
    assert notice.startswith("zoo.cfg:12: unknown class 'org.example.Own'; expected org.apache.zookeeper.server.auth.D")
    assert parse_zoo_cfg(LEAST + "sessionRequireClientSASLAuth=true\n").server.required_schemes == ("sasl",)


def test_metrics_have_a_port_of_their_own() -> None:
    provider = "metricsProvider.className=org.apache.zookeeper.metrics.prometheus.PrometheusMetricsProvider\n"
    assert parse_zoo_cfg(LEAST + provider).metrics == Metrics("", 7000, True)
    assert parse_zoo_cfg(LEAST + provider).counts
    nothing = parse_zoo_cfg(LEAST + "metricsProvider.className=org.apache.zookeeper.metrics.impl.NullMetricsProvider\n")
    assert (nothing.metrics, nothing.counts) == (None, False)
    more = "metricsProvider.httpHost=::1\nmetricsProvider.httpPort=0\nmetricsProvider.exportJvmInfo=false\n"
    assert parse_zoo_cfg(LEAST + provider + more).metrics == Metrics("::1", 0, False)


@pytest.mark.parametrize(
    ("line", "notice"),
    [
        ("snpCount=5", "unknown key snpCount has no effect"),
        (
            "zookeeper.snapCount=5",
            "unknown key zookeeper.snapCount has no effect; expected snapCount",
        ),
        ("snapCount=many", "invalid snapCount: 'many', the default is used instead; expected a whole number"),
        ("snapCount=1", "invalid snapCount: '1', 2 is used instead; expected 2 or more"),
        (
            "extendedTypesEnabled=yes",
            "invalid extendedTypesEnabled: 'yes', false is used instead; expected true or false",
        ),
        ("skipACL=true", "invalid skipACL: 'true', false is used instead; expected yes or no"),
        (
            "jute.maxbuffer=99",
            "the real server reads jute.maxbuffer only as Java's -Djute.maxbuffer=...; it has an effect here",
        ),
        ("autopurge.snapRetainCount=1", "the minimum of 3 snapshots is kept"),
    ],
)
def test_what_is_doubtful_is_said(line: str, notice: str) -> None:
    assert parse_zoo_cfg(f"{LEAST}{line}\n").notices == (f"zoo.cfg:3: {notice}",)


# A value that each key takes without a word; what is not here takes "1".
TAKEN = {
    "true": """admin.enableServer datadir.autocreate digest.enabled closeSessionTxn.enabled admin.restore.enabled
        serializeLastProcessedZxid.enabled extendedTypesEnabled enforceQuota allowSaslFailedClients reconfigEnabled
        snapshot.trust.empty DigestAuthenticationProvider.enabled IPAuthenticationProvider.usexforwardedfor
        admin.snapshot.enabled metricsProvider.exportJvmInfo sessionRequireClientSASLAuth localSessionsEnabled
        localSessionsUpgradingEnabled quorumListenOnAllIPs syncEnabled standaloneEnabled sslQuorum portUnification
        sslQuorumReloadCertFiles quorum.auth.enableSasl quorum.auth.serverRequireSasl quorum.auth.learnerRequireSasl
        multiAddress.enabled multiAddress.reachabilityCheckEnabled jvm.pause.monitor client.portUnification
        connection_throttle_weight_enabled emulate353TTLNodes""",
    "false": """enforce.auth.enabled admin.portUnification admin.forceHttps ssl.crl ssl.ocsp
        ssl.clientHostnameVerification""",
    "no": "skipACL forceSync",
    "3": "electionAlg snapCount autopurge.snapRetainCount",
    "observer": "peerType",
    "none": "ssl.clientAuth",
    "pem": "ssl.keyStore.type ssl.trustStore.type",
    "x509": "ssl.authProvider",
    "gz": "snapshot.compression.method",
    "ruok": "4lw.commands.whitelist",
    "SHA-256": "DigestAuthenticationProvider.digestAlg",
    "70000": "maxSessionTimeout",
    "org.apache.zookeeper.metrics.impl.DefaultMetricsProvider": "metricsProvider.className",
}
VALUES = {key: value for value, keys in TAKEN.items() for key in keys.split()}
NEVER = {"ssl.context.supplier.class", "letAnySaslUserDoX", "dynamicConfigFile"}


@pytest.mark.parametrize("key", sorted((KEYS.keys() | WITHOUT_EFFECT.keys()) - FLAGS - NEVER))
def test_every_key_is_taken_without_a_word(key: str) -> None:
    least = {"dataDir": "/d", "clientPort": "1", "secureClientPort": "2", "ssl.keyStore.location": "/k.pem"}
    least |= {"ssl.trustStore.location": "/t.pem", "clientPortAddress": "1", "secureClientPortAddress": "1"}
    asked = {**least, key: VALUES.get(key, least.get(key, "1"))}
    assert parse_zoo_cfg("".join(f"{name}={value}\n" for name, value in asked.items())).notices == ()


def test_the_documentation_has_every_key() -> None:
    text = (Path(__file__).parents[2] / "docs" / "zoo_cfg.md").read_text()
    obeyed, _, rest = text.partition("\n## Accepted")
    accepted, _, refused = rest.partition("\n## Refused")
    without_effect = set(re.findall(r"`([A-Za-z0-9_.-]+)`", "".join(re.findall(r"^\|.*", accepted, re.M))))
    first = {key for row in re.findall(r"^\| (`.*?) \|", obeyed, re.M) for key in re.findall(r"`(.*?)`", row)}
    never = {key for row in re.findall(r"^\| (`.*?) \|", refused, re.M) for key in re.findall(r"`(.*?)`", row)}
    prefixes = {f"{prefix.rstrip('.')}.N" for prefix in PREFIXES} | {"superUser"}
    assert (first - prefixes) | (never - {"group.N", "weight.N", "server.realm", "server.principal"}) == KEYS.keys()
    assert prefixes <= first
    for key, row in WITHOUT_EFFECT.items():
        assert re.search(rf"^\| {re.escape(row.reason)} \|.*`{re.escape(key)}`", accepted, re.M), key
    assert without_effect - WITHOUT_EFFECT.keys() == {"group.N", "weight.N"}
