"""Settings in the real server's own configuration file, with warnings about it.

Rules of this module:
  - a key has an effect (keys.py), is accepted with a reason why it has none (keys_without_effect.py), or is unknown:
    the real server silently makes a system property of it; here it is a warning;
  - a value with which the real server does not start is an error, with file and line; a value that it replaces by
    another one is replaced here too, with a warning;
  - a feature that is configured and not supported is an error, because a client would notice;
  - defaults are the real server's: only `srvr` is answered, 60 connections an address, no TTL nodes, an AdminServer,
    logs preallocated in steps of 64 MiB.

Source: QuorumPeerConfig.parseProperties.
"""

from __future__ import annotations

from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Any

from simzk.errors import ConfigError
from simzk.serve.configuration.file_formats import Entry, read_properties
from simzk.serve.configuration.keys import (
    AUTH_PROVIDERS,
    DEFAULT_METRICS,
    FLAGS,
    KEYS,
    NO_METRICS,
    PROMETHEUS_METRICS,
    UNSET,
    DoubtError,
)
from simzk.serve.configuration.keys_without_effect import WITHOUT_EFFECT
from simzk.serve.configuration.settings import Metrics, Settings, Storage, Throttle
from simzk.serve.tcp.tls import STORES, Tls
from simzk.zookeeper.config import ServerConfig

if TYPE_CHECKING:
    from simzk.zookeeper.ensemble.membership import ServerLine

LEAST_SNAPSHOTS = 3
_DYNAMIC = "dynamicConfigFile"
_OF_MEMBERS = ("server.", "group", "weight")
_PARTS = ("settings", "server", "storage", "tls", "throttle", "file")
_LARGE_REQUEST_BYTES = 100 * 1024 * 1024


def read_zoo_cfg(path: Path) -> Settings:
    """Read a zoo.cfg.

    Raises:
        ConfigError: the file cannot be read, a value is invalid, or a configured feature is not supported.
    """
    try:
        text = path.read_text(encoding="latin-1")
    except OSError as error:
        raise ConfigError(f"cannot be read: {error.strerror}", where=str(path)) from error
    return parse_zoo_cfg(text, str(path))


def parse_zoo_cfg(text: str, name: str = "zoo.cfg") -> Settings:
    """Parse a zoo.cfg; `name` is the file's, for errors and warnings.

    >>> settings = parse_zoo_cfg("tickTime=500\\ndataDir=/tmp/z\\nclientPort=2181\\nsnpCount=3\\n")
    >>> settings.port, settings.server.tick_time_ms, settings.server.clamp_timeout(0)
    (2181, 500, 1000)
    >>> settings.notices
    ('zoo.cfg:4: unknown key snpCount has no effect',)
    """
    return _File(text, name).settings()


class _File:
    """Parser of one file; `notices` are warnings about it."""

    def __init__(self, text: str, name: str) -> None:
        self._text = text
        self._name = name
        self._entries = read_properties(text, name)
        self._read: dict[str, dict[str, Any]] = {part: {} for part in _PARTS}
        self._own_line: ServerLine | None = None
        self._has_members = False
        self.notices: list[str] = []

    def settings(self) -> Settings:
        """Return the settings of the file."""
        for key, entry in self._entries.items():
            self._read_key(key, entry)
        return self._combine()

    def _where(self, key: str) -> str:
        return f"{self._name}:{self._entries[key].line}"

    def _warn(self, key: str, what: str) -> None:
        self.notices.append(f"{self._where(key)}: {what}")

    # One key

    def _read_key(self, key: str, entry: Entry) -> None:
        row, without_effect = KEYS.get(key), WITHOUT_EFFECT.get(key)
        if key in FLAGS:
            effect = "it has an effect here" if row is not None else "it has no effect here either"
            self._warn(key, f"the real server reads {key} only as Java's -D{key}=...; {effect}")
        if row is not None:
            value = self._value(key, entry, row.read)
            if value is not UNSET:
                self._read[row.of][row.name] = value
        elif without_effect is not None:
            self._value(key, entry, without_effect.read)
        elif key.startswith("authProvider."):
            self._read_auth_provider(key, entry)
        elif key == "superUser" or key.startswith("superUser."):
            self._read["file"].setdefault("super_users", set()).add(entry.value)
        elif not key.startswith(_OF_MEMBERS):
            bare = key.removeprefix("zookeeper.")
            hint = f"; expected {bare}" if bare != key and (bare in KEYS or bare in WITHOUT_EFFECT) else ""
            self._warn(key, f"unknown key {key} has no effect{hint}")

    def _value(self, key: str, entry: Entry, read: Any) -> object:
        try:
            return read(entry.value)
        except ValueError as error:
            what = f"invalid {key}: {entry.value!r}"
            raise ConfigError(what, where=self._where(key), right=str(error)) from None
        except DoubtError as doubt:
            used = "the default" if doubt.replacement is UNSET else _as_written(doubt.replacement)
            self._warn(key, f"invalid {key}: {entry.value!r}, {used} is used instead; expected {doubt}")
            return doubt.replacement

    def _read_auth_provider(self, key: str, entry: Entry) -> None:
        scheme = AUTH_PROVIDERS.get(entry.value)
        if scheme is None:
            self._warn(key, f"unknown class {entry.value!r}; expected {', '.join(AUTH_PROVIDERS)}")
        else:
            self._read["file"].setdefault("schemes", set()).add(scheme)

    # All of them

    def _combine(self) -> Settings:
        settings, file = self._read["settings"], self._read["file"]
        if "data_directory" not in settings:
            raise ConfigError("dataDir is not set", where=self._name, right="dataDir=DIRECTORY")
        self._read_members(settings["data_directory"])
        self._choose_ports()
        settings["address"] = settings.get("address", "")
        # The real AdminServer listens everywhere; what only simzk has keeps to the clients' interface.
        settings["live_address"] = None if "admin_address" in settings else settings["address"]
        enabled = file.get("admin_enabled", True)
        settings["admin_port"] = settings.get("admin_port", 8080) if enabled else None
        defaults = {
            "max_connections_per_address": 60,
            "whitelist": None,
            "admin_address": "",
            "snapshot_interval_ms": 300_000,
        }
        made = {
            "server": self._server(),
            "storage": self._storage(),
            "metrics": self._metrics(),
            "throttle": Throttle(**self._read["throttle"]) if self._read["throttle"].get("tokens", 0) else None,
            "counts": file.get("metrics_provider") != NO_METRICS,
            "text": self._text,
        }
        return Settings(**{**defaults, **settings, **made}, notices=tuple(self.notices))

    def _choose_ports(self) -> None:
        settings, file = self._read["settings"], self._read["file"]
        for address, port in (("clientPortAddress", "clientPort"), ("secureClientPortAddress", "secureClientPort")):
            if address in self._entries and port not in self._entries:
                raise ConfigError(f"{address} is set, but {port} is not", where=self._where(address), right=port)
        self._apply_own_line()
        if "secure_port" in settings:
            settings["tls"] = self._tls("secureClientPort")
            settings["secure_address"] = file.get("secure_address", "")
            if "port" not in settings:
                settings["port"], settings["address"] = settings.pop("secure_port"), settings.pop("secure_address")
        elif settings.get("unifies_ports", False):
            if "certificate" in self._read["tls"]:
                settings["tls"] = self._tls("client.portUnification")
            else:
                settings["unifies_ports"] = False
                self._warn("client.portUnification", "it has no effect without ssl.keyStore.location")
        if "port" not in settings:
            # A real standalone server starts without a port, and no client can reach it.
            of_line = ", or one of the line server.N that myid selects" if self._has_members else ""
            raise ConfigError("clientPort is not set", where=self._name, right=f"clientPort=PORT{of_line}")

    def _read_members(self, folder: Path) -> None:
        """Read the members of the file and `myid`; set the ensemble, or None for a standalone server."""
        settings, file = self._read["settings"], self._read["file"]
        settings["belonging"] = None
        standalone = file.get("standalone", True)
        names_members = any(key.startswith("server.") or key == _DYNAMIC for key in self._entries)
        if not names_members and standalone and not (folder / "myid").is_file():
            return
        from simzk.serve.configuration.members import Belonging, is_ensemble, read_membership, read_myid

        path = Path(self._name)
        membership = read_membership(self._entries, path)
        is_distributed = is_ensemble(membership, path, standalone_enabled=standalone)
        for key in ("initLimit", "syncLimit"):
            if is_distributed and not settings.get(KEYS[key].name, 0):
                right = f"{key}=TICKS, which every ensemble needs"
                raise ConfigError(f"{key} is not set", where=self._name, right=right)
        server_id = read_myid(folder, membership, is_required=is_distributed)
        if is_distributed:
            assert server_id is not None, "an ensemble needs myid"
            if not standalone:
                membership = membership._replace(least_voters=1)
            settings["belonging"] = Belonging(path, server_id, membership)
        self._own_line = next((line for line in membership.lines if line.server_id == server_id), None)
        self._has_members = bool(membership.lines)

    def _apply_own_line(self) -> None:
        """Use the client port of the server's own line; the file's must be equal or absent."""
        settings, line = self._read["settings"], self._own_line
        if settings["belonging"] is not None and line is None:
            settings.setdefault("port", 0)  # it has left the ensemble, and will not be started
        if line is None or line.client is None:
            return
        host, port = line.client
        address, own = _interface(settings.get("address", "")), _interface(host)
        # An address of the file that means all interfaces is replaced by the line's.
        pairs = {"clientPort": (settings.get("port", port), port), "clientPortAddress": (address or own, own)}
        for key, (of_file, of_line) in pairs.items():
            if of_file != of_line:
                what = f"it differs from server.{line.server_id}"
                raise ConfigError(what, where=self._where(key), right=str(line.client))
        settings["port"], settings["address"] = port, own

    def _tls(self, key: str) -> Tls:
        """Return the TLS configuration that `key` requires."""
        where, tls = self._where(key), self._read["tls"]
        if "certificate" not in tls:
            raise ConfigError("a secure port needs a key", where=where, right="ssl.keyStore.location=FILE")
        if "authorities" not in tls and tls.get("client_auth", "need") != "none":
            self._warn(key, "without ssl.trustStore.location only clients of public authorities are trusted")
        for store, kind in (("ssl.keyStore", "key_store_type"), ("ssl.trustStore", "trust_store_type")):
            location = f"{store}.location"
            entry = None if kind in tls else self._entries.get(location)
            if entry is not None and Path(entry.value).suffix not in STORES:
                right = f"{store}.type, or a suffix {', '.join(STORES)}"
                raise ConfigError("its type is unknown", where=self._where(location), right=right)
        scheme = self._read["file"].get("tls_scheme", "x509")
        if scheme != "x509" and f"authProvider.{scheme}" not in self._entries:
            where = self._where("ssl.authProvider")
            raise ConfigError(f"authProvider.{scheme} is missing", where=where, right="x509, or absent")
        return Tls(**{"protocols": (tls.pop("protocol", "TLSv1.3"),), **tls})

    def _server(self) -> ServerConfig:
        file = self._read["file"]
        server = ServerConfig(
            **{"tick_time_ms": 3000, **self._read["server"]},
            x509=self._read["settings"].get("tls") is not None,
            providers=frozenset(file.get("schemes", ())),
            large_request_bytes=self._large_request_bytes(),
            required_schemes=self._required_schemes(),
            super_users=frozenset(file.get("super_users", ())),
            names_ephemerals=self._read["storage"].get("names_ephemerals", True),
        )
        longest = server.max_session_timeout_ms
        shortest = 2 * server.tick_time_ms if server.min_session_timeout_ms is None else server.min_session_timeout_ms
        if (20 * server.tick_time_ms if longest is None else longest) < shortest:
            raise ConfigError("minSessionTimeout must not be larger than maxSessionTimeout", where=self._name)
        return server

    def _required_schemes(self) -> tuple[str, ...]:
        file = self._read["file"]
        if file.get("requires_sasl", False):
            return ("sasl",)
        if not file.get("enforces", False):
            return ()
        if "enforced" not in file:
            where = self._where("enforce.auth.enabled")
            raise ConfigError("enforce.auth.schemes is missing", where=where, right="enforce.auth.schemes=SCHEME,...")
        return tuple(file["enforced"])

    def _large_request_bytes(self) -> int | None:
        """Return the limit of one request; no other is in flight, so it may be as long as all large ones together."""
        file = self._read["file"]
        threshold: int | None = file.get("large_threshold")
        return None if threshold is None else max(threshold, file.get("large_bytes", _LARGE_REQUEST_BYTES))

    def _storage(self) -> Storage:
        asked = self._read["storage"]
        if asked.get("snapshots_kept", LEAST_SNAPSHOTS) < LEAST_SNAPSHOTS:
            self._warn("autopurge.snapRetainCount", f"the minimum of {LEAST_SNAPSHOTS} snapshots is kept")
            asked["snapshots_kept"] = LEAST_SNAPSHOTS
        return Storage(**{"log_step_kib": 64 * 1024, **asked})

    def _metrics(self) -> Metrics | None:
        file = self._read["file"]
        known = (DEFAULT_METRICS, NO_METRICS, PROMETHEUS_METRICS)
        class_name = file.get("metrics_provider", DEFAULT_METRICS)
        if class_name not in known:
            where = self._where("metricsProvider.className")
            raise ConfigError(f"unknown class {class_name!r}", where=where, right=" or ".join(known))
        if class_name != PROMETHEUS_METRICS:
            return None
        address, port = file.get("metrics_address", ""), file.get("metrics_port", 7000)
        return Metrics(address, port, file.get("exports_process", True))


def _interface(host: str) -> str:
    """Return an interface in one form: "" for all of them, an address for localhost."""
    if host == "localhost":
        return "127.0.0.1"
    try:
        address = ip_address(host)
    except ValueError:
        return host
    return "" if address.is_unspecified else str(address)


def _as_written(value: object) -> str:
    """Return a value as it is written in the file."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, frozenset):
        return repr(",".join(sorted(value)))
    return repr(value) if value == "" else str(value)
