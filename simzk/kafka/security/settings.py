"""Settings of brokers for SASL and TLS: protocol of the listener, mechanisms, users of PLAIN, lifetime of sessions.

Rules of this module:
  - a setting of one listener, such as `listener.name.sasl_plaintext.KEY`, or of a mechanism there,
    `listener.name.sasl_plaintext.plain.KEY`, wins over the setting KEY;
  - users of PLAIN are options `user_NAME="password"` of Kafka's login module in `plain.sasl.jaas.config`. Releases up
    to 1.0 read them from a JAAS file; here all of them accept the setting;
  - without `sasl.enabled.mechanisms` a listener with SASL accepts every mechanism that the release has and simzk
    simulates, not GSSAPI as in Kafka.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from simzk.documents import is_number
from simzk.errors import ConfigError
from simzk.kafka.security.mechanisms import MECHANISMS, PLAIN
from simzk.kafka.security.scram import MECHANISMS as SCRAM_DIGESTS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from simzk.kafka.releases.since import Release

PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL = PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
"""Protocols of a listener."""
_SINCE: Final[Mapping[str, Release]] = {SSL: (0, 9), SASL_PLAINTEXT: (0, 10), SASL_SSL: (0, 10)}
_SCRAM_SINCE: Final[Release] = (0, 10, 2)  # KIP-84
_MECHANISMS, _JAAS, _LIFETIME = "sasl.enabled.mechanisms", "sasl.jaas.config", "connections.max.reauth.ms"
_DELAY = "connection.failed.authentication.delay.ms"
_FIRST_OF: Final[Mapping[str, Release]] = {
    _MECHANISMS: (0, 10),
    _JAAS: (0, 10),
    _LIFETIME: (2, 2),  # KIP-368
    _DELAY: (2, 1),  # KIP-306
}
"""First release in which simzk has each setting."""
_DEFAULT_DELAY_MS = 100
_OF_LISTENER: Final = re.compile(
    r"listener\.name\.(?:[a-z0-9_.-]*?)\.(?:(?:plain|scram-sha-256|scram-sha-512)\.)?(?P<key>sasl\..*|connections?\..*)"
)
_LOGIN_MODULE: Final = re.compile(
    r"\s*[\w.$]+\s+(?:required|requisite|sufficient|optional)\b(?P<options>.*?);?\s*", re.S
)
_OPTION: Final = re.compile(r"""\s+(?P<name>[^\s=;"']+)\s*=\s*(?:"(?P<quoted>(?:[^"\\]|\\.)*)"|(?P<bare>[^\s;"']+))""")
_USER: Final = "user_"


def uses_sasl(protocol: str) -> bool:
    """Return whether clients of a listener log in by SASL."""
    return protocol in (SASL_PLAINTEXT, SASL_SSL)


def uses_tls(protocol: str) -> bool:
    """Return whether a listener has TLS."""
    return protocol in (SSL, SASL_SSL)


def check_protocol(protocol: str, release: Release, name: str) -> None:
    """Raise an error unless a listener of a release can have a protocol.

    Args:
        protocol: the protocol.
        release: the release, such as `(3, 9)`.
        name: its name, for messages.

    Raises:
        ConfigError: the protocol is unknown, or newer than the release.

    >>> check_protocol("SASL_PLAINTEXT", (3, 9), "3.9")
    """
    if protocol not in PROTOCOLS:
        raise ConfigError(f"{protocol!r} is not a security protocol", where="security", right=", ".join(PROTOCOLS))
    first = _SINCE.get(protocol, (0, 8))
    if release < first:
        right = f"{'.'.join(map(str, first))} or later"
        raise ConfigError(f"simzk has no {protocol} for clients of Kafka {name}", where="security", right=right)


def base_key(key: str) -> str | None:
    """Return the setting that a setting of one listener, or of one mechanism there, stands for; None for others.

    >>> base_key("listener.name.sasl_plaintext.plain.sasl.jaas.config"), base_key("num.partitions")
    ('sasl.jaas.config', None)
    """
    found = _OF_LISTENER.fullmatch(key)
    return None if found is None else found["key"]


def is_security_key(key: str, release: Release) -> bool:
    """Return whether a setting, also of one listener, changes what the simulated brokers do at a port with SASL.

    >>> is_security_key("sasl.enabled.mechanisms", (3, 9)), is_security_key("sasl.kerberos.kinit.cmd", (3, 9))
    (True, False)
    """
    return release >= _FIRST_OF.get(base_key(key) or key, (99,))


def check_login_module(key: str, text: str) -> None:
    """Raise an error if a setting is to configure a login module, and does not.

    Raises:
        ConfigError: the text is not that of a login module.

    >>> check_login_module("num.partitions", "2")
    """
    if (base_key(key) or key) == _JAAS:
        jaas_users(text, key)


def jaas_users(text: str, where: str) -> dict[str, str]:
    """Return the users in the options of a login module for PLAIN.

    Args:
        text: the value of the setting.
        where: the key of the setting, for messages.

    Raises:
        ConfigError: the text is not that of a login module.

    >>> jaas_users('org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="a b";', "jaas")
    {'alice': 'a b'}
    """
    module = _LOGIN_MODULE.fullmatch(text)
    options = "" if module is None else module["options"]
    found, end = {}, 0
    for option in _OPTION.finditer(options):
        if option.start() != end:
            break
        end = option.end()
        quoted = option["quoted"]
        found[option["name"]] = option["bare"] if quoted is None else re.sub(r"\\(.)", r"\1", quoted)
    if module is None or options[end:].strip():
        right = 'MODULE required user_NAME="password" ...;'
        raise ConfigError(f"{text!r} does not configure a login module", where=f"config.{where}", right=right)
    return {name.removeprefix(_USER): value for name, value in found.items() if name.startswith(_USER)}


@dataclass(frozen=True)
class SaslSettings:
    """SASL settings of a broker's listener.

    Attributes:
        mechanisms: names of the enabled mechanisms, in the order in which clients see them.
        passwords: password of each user of PLAIN.
        lifetimes_ms: by mechanism, after how long a client has to log in again; 0 for never.
        failure_delay_ms: how long the broker waits until it answers a failed login and closes the connection.
    """

    mechanisms: tuple[str, ...]
    passwords: Mapping[str, str]
    lifetimes_ms: Mapping[str, int]
    failure_delay_ms: int


def sasl_settings(given: Mapping[str, str], release: Release, listener: str) -> SaslSettings:
    """Return the SASL settings of a listener of a broker.

    Args:
        given: settings of the broker, as text.
        release: its release.
        listener: the listener's name.

    Raises:
        ConfigError: a mechanism is not simulated or the release does not have it, or a value is invalid.
    """
    prefix = f"listener.name.{listener.lower()}."

    def value(key: str, mechanism: str | None = None) -> tuple[str, str] | None:
        """Return the name and value of the setting that wins."""
        own = () if mechanism is None else (f"{prefix}{mechanism.lower()}.{key}",)
        return next(((name, given[name]) for name in (*own, prefix + key, key) if name in given), None)

    def milliseconds(key: str, mechanism: str | None, default: int) -> int:
        name, text = value(key, mechanism) or (key, str(default))
        if not is_number(text):
            raise ConfigError(f"{name} is {text!r}", where=f"config.{name}", right="a number of milliseconds")
        return int(text)

    available = [one for one in MECHANISMS if one not in SCRAM_DIGESTS or release >= _SCRAM_SINCE]
    mechanisms = tuple(available)
    if (asked := value(_MECHANISMS)) is not None:
        mechanisms = tuple(one.strip() for one in asked[1].split(",") if one.strip())
    for one in mechanisms:
        if one not in available:
            raise ConfigError(f"{one!r} is not simulated", where=f"config.{_MECHANISMS}", right=", ".join(available))
    jaas = value(_JAAS, PLAIN)
    has_lifetime, has_delay = (release >= _FIRST_OF[key] for key in (_LIFETIME, _DELAY))
    return SaslSettings(
        mechanisms,
        {} if jaas is None else jaas_users(jaas[1], jaas[0]),
        {one: milliseconds(_LIFETIME, one, 0) if has_lifetime else 0 for one in mechanisms},
        milliseconds(_DELAY, None, _DEFAULT_DELAY_MS) if has_delay else 0,
    )
