"""The real server's own configuration file, as far as it means something here.

Rules of this module:
  - the file is Java's properties: `#` and `!` begin comments, `=`, `:` or blanks end a key, a backslash joins lines;
  - a key is a row of `KEYS`; one that is not there is ignored, as the real server makes a system property of it;
  - what the file asks for and is not served (an ensemble, a Java key store) is refused, for a client would notice;
  - defaults are the real server's: only `srvr` is answered, 60 connections an address, no TTL nodes, an AdminServer.

Source: QuorumPeerConfig.parseProperties, java.util.Properties.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from simzk.errors import ConfigError
from simzk.serve.settings import Settings
from simzk.serve.tls import Tls
from simzk.wire.four_letter_words import ALL_WORDS, DEFAULT_WHITELIST
from simzk.zookeeper.config import ServerConfig

if TYPE_CHECKING:
    from collections.abc import Callable

DEFAULT_MAX_CONNECTIONS = 60
DEFAULT_ADMIN_PORT = 8080
DEFAULT_TICK_MS = 3000
DEFAULT_SNAPSHOT_INTERVAL_MS = 300_000
_LINE = re.compile(r"\s*(?P<key>(?:\\.|[^\\\s=:])+)\s*[=:]?\s*(?P<value>.*)", re.DOTALL)


class Entry(NamedTuple):
    """One setting of the file, and on which line it stands."""

    value: str
    line: int


def read_properties(text: str) -> dict[str, Entry]:
    """Keys and values of a file of Java properties; of a key that comes twice the last counts.

    >>> read_properties("# a comment\\nclientPort=2181\\ndataDir : /var/\\\\\\n  zookeeper\\n")
    {'clientPort': Entry(value='2181', line=2), 'dataDir': Entry(value='/var/zookeeper', line=3)}
    """
    entries: dict[str, Entry] = {}
    pending, first_line = "", 0
    for number, physical in enumerate(text.splitlines(), 1):
        stripped = physical.lstrip()
        if not pending:
            if not stripped or stripped[0] in "#!":
                continue
            first_line = number
        pending += stripped
        backslashes = len(pending) - len(pending.rstrip("\\"))
        if backslashes % 2:
            pending = pending[:-1]
            continue
        found = _LINE.fullmatch(pending)
        pending = ""
        if found is not None:
            entries[_unescaped(found["key"])] = Entry(_unescaped(found["value"]).strip(), first_line)
    return entries


def _unescaped(text: str) -> str:
    return re.sub(r"\\(.)", lambda found: {"t": "\t", "n": "\n", "r": "\r"}.get(found[1], found[1]), text)


def _integer(value: str) -> int:
    if not re.fullmatch(r"[+-]?\d{1,10}", value):
        raise ValueError("a whole number")
    return int(value)


def _port(value: str) -> int:
    port = _integer(value)
    if not 0 <= port <= 65535:
        raise ValueError("a port, 0 to 65535")
    return port


def _size(value: str) -> int:
    # jute.maxbuffer is read by Integer.getInteger, which takes hexadecimal too.
    try:
        size = int(value, 0)
    except ValueError:
        raise ValueError("a whole number of bytes") from None
    if size <= 0:
        raise ValueError("more than 0 bytes")
    return size


def _positive(value: str) -> int:
    number = _integer(value)
    if number <= 0:
        raise ValueError("more than 0")
    return number


def _boolean(value: str) -> bool:
    if value.lower() not in ("true", "false"):
        raise ValueError("true or false")
    return value.lower() == "true"


def _yes(value: str) -> bool:
    return value == "yes"


def _not_no(value: str) -> bool:
    return value != "no"


def _words(value: str) -> frozenset[str]:
    # What is no word is passed over, as the real server does.
    listed = {word.strip() for word in value.split(",")}
    return ALL_WORDS if "*" in listed else ALL_WORDS & listed


def _pem(value: str) -> str:
    if value != "PEM":
        raise ValueError("PEM")
    return value


def _client_auth(value: str) -> str:
    if value.lower() not in ("need", "want", "none"):
        raise ValueError("need, want or none")
    return value.lower()


def _text(value: str) -> str:
    return value


class Key(NamedTuple):
    """What a key of the file sets: a field of `Settings` or of `ServerConfig`, or something put together below."""

    name: str
    read: Callable[[str], Any]
    of: str = "settings"


KEYS = {
    "clientPort": Key("port", _port),
    "clientPortAddress": Key("address", _text),
    "secureClientPort": Key("secure_port", _port),
    "secureClientPortAddress": Key("secure_address", _text, "file"),
    "ssl.keyStore.location": Key("certificate", Path, "tls"),
    "ssl.keyStore.password": Key("password", _text, "tls"),
    "ssl.keyStore.type": Key("key_store_type", _pem, "file"),
    "ssl.trustStore.location": Key("authorities", Path, "tls"),
    "ssl.trustStore.type": Key("trust_store_type", _pem, "file"),
    "ssl.clientAuth": Key("client_auth", _client_auth, "tls"),
    "sessionRequireClientSASLAuth": Key("requires_sasl", _boolean, "server"),
    "X509AuthenticationProvider.superUser": Key("x509_super", _text, "server"),
    "clientPortListenBacklog": Key("backlog", _integer),
    "maxClientCnxns": Key("max_connections_per_address", _integer),
    "4lw.commands.whitelist": Key("whitelist", _words),
    "dataDir": Key("data_directory", Path),
    "dataLogDir": Key("log_directory", Path),
    "forceSync": Key("fsync", _not_no),
    "snapCount": Key("snap_count", _positive),
    "admin.enableServer": Key("admin_enabled", _boolean, "file"),
    "admin.serverAddress": Key("admin_address", _text),
    "admin.serverPort": Key("admin_port", _port),
    "admin.commandURL": Key("admin_path", _text),
    "admin.rateLimiterIntervalInMS": Key("snapshot_interval_ms", _integer),
    "tickTime": Key("tick_time_ms", _positive, "server"),
    "minSessionTimeout": Key("min_session_timeout_ms", _integer, "server"),
    "maxSessionTimeout": Key("max_session_timeout_ms", _integer, "server"),
    "jute.maxbuffer": Key("max_buffer_bytes", _size, "server"),
    "extendedTypesEnabled": Key("extended_types", _boolean, "server"),
    "DigestAuthenticationProvider.superDigest": Key("super_digest", _text, "server"),
    "skipACL": Key("skip_acl", _yes, "server"),
    "enforceQuota": Key("enforce_quota", _boolean, "server"),
    "reconfigEnabled": Key("reconfig_enabled", _boolean, "server"),
    "znode.container.checkIntervalMs": Key("container_check_interval_ms", _positive, "server"),
}
NOT_SERVED = {"dynamicConfigFile": "an ensemble"}


def read_zoo_cfg(path: Path) -> Settings:
    """The settings that a zoo.cfg asks for.

    Raises:
        ConfigError: the file cannot be read, a value cannot be, or something is asked for that is not served.
    """
    try:
        text = path.read_text(encoding="latin-1")
    except OSError as error:
        raise ConfigError(f"cannot be read: {error.strerror}", where=str(path)) from error
    return parse_zoo_cfg(text, str(path))


def parse_zoo_cfg(text: str, name: str = "zoo.cfg") -> Settings:
    """The settings that the text of a zoo.cfg asks for; `name` is said in errors.

    >>> settings = parse_zoo_cfg("tickTime=500\\ndataDir=/tmp/z\\nclientPort=2181\\nmaxSessionTimeout=40000\\n")
    >>> settings.port, settings.server.tick_time_ms, settings.server.max_session_timeout_ms
    (2181, 500, 40000)
    """
    entries = read_properties(text)
    _refuse_what_is_not_served(entries, name)
    read: dict[str, dict[str, Any]] = {"settings": {}, "server": {}, "tls": {}, "file": {}}
    for key, entry in entries.items():
        row = KEYS.get(key.removeprefix("zookeeper."))
        if row is not None:
            try:
                read[row.of][row.name] = row.read(entry.value)
            except ValueError as error:
                where = f"{name}:{entry.line}"
                raise ConfigError(f"{key} cannot be {entry.value!r}", where=where, right=str(error)) from None
    return _settings(read, entries, text, name)


def _refuse_what_is_not_served(entries: dict[str, Entry], name: str) -> None:
    for key, what in NOT_SERVED.items():
        if key in entries:
            raise ConfigError(f"{key} asks for {what}, which is not served", where=f"{name}:{entries[key].line}")
    members = [key for key in entries if key.startswith("server.")]
    if len(members) > 1:
        where = f"{name}:{entries[members[1]].line}"
        raise ConfigError(f"{members[1]} asks for an ensemble, which is not served", where=where, right="one server")


def _tls(read: dict[str, dict[str, Any]], entries: dict[str, Entry], name: str) -> Tls:
    where = f"{name}:{entries['secureClientPort'].line}"
    if "certificate" not in read["tls"]:
        raise ConfigError("a secure port needs a key", where=where, right="ssl.keyStore.location=FILE.pem")
    tls = Tls(**read["tls"])
    if tls.authorities is None and tls.client_auth != "none":
        right = "ssl.trustStore.location=FILE.pem, or ssl.clientAuth=none"
        raise ConfigError("no client could be trusted", where=where, right=right)
    return tls


def _settings(read: dict[str, dict[str, Any]], entries: dict[str, Entry], text: str, name: str) -> Settings:
    settings, file = read["settings"], read["file"]
    if "data_directory" not in settings:
        raise ConfigError("dataDir is not set", where=name, right="dataDir=DIRECTORY")
    if "secure_port" in settings:
        settings["tls"] = _tls(read, entries, name)
        if "port" not in settings:
            settings["port"] = settings.pop("secure_port")
            settings["address"] = file.get("secure_address", "")
        elif file.get("secure_address", settings.get("address", "")) != settings.get("address", ""):
            where = f"{name}:{entries['secureClientPortAddress'].line}"
            raise ConfigError("both ports are on one interface", where=where, right="clientPortAddress, or absent")
    if "port" not in settings:
        raise ConfigError("clientPort is not set", where=name, right="clientPort=PORT")
    x509 = settings.get("tls") is not None
    server = ServerConfig(**{"tick_time_ms": DEFAULT_TICK_MS, "x509": x509, **read["server"]})
    longest = server.max_session_timeout_ms
    if longest is not None and (server.min_session_timeout_ms or 2 * server.tick_time_ms) > longest:
        raise ConfigError("minSessionTimeout must not be larger than maxSessionTimeout", where=name)
    if settings.get("backlog", -1) <= 0:
        settings["backlog"] = Settings.backlog
    settings["address"] = settings.get("address", "")
    settings["admin_port"] = settings.get("admin_port", DEFAULT_ADMIN_PORT) if file.get("admin_enabled", True) else None
    defaults = {
        "max_connections_per_address": DEFAULT_MAX_CONNECTIONS,
        "whitelist": DEFAULT_WHITELIST,
        "admin_address": "",
        "snapshot_interval_ms": DEFAULT_SNAPSHOT_INTERVAL_MS,
    }
    return Settings(**{**defaults, **settings}, server=server, text=text)
