"""TLS of a served ZooKeeper: what its files give to `ssl`, and whom a client's certificate shows (§4, x509).

Rules of this module:
  - files are PEM, as the real server's `ssl.keyStore.type=PEM`; a key store and a trust store of Java's are refused;
  - whatever is wrong with a file is told before the server listens: which file, and what is wrong with it;
  - a subject is written as Java's `X500Principal.getName()` writes it (RFC 2253): ACLs hold that text.

Source: org.apache.zookeeper.common.X509Util, X509AuthenticationProvider.
"""

from __future__ import annotations

import re
import ssl
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from simzk.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path

_VERIFY = {"need": ssl.CERT_REQUIRED, "want": ssl.CERT_OPTIONAL, "none": ssl.CERT_NONE}

# Attributes that RFC 2253 has a keyword for; Java writes others by their number, and their value as its encoding.
_KEYWORDS = {
    "commonName": "CN",
    "countryName": "C",
    "localityName": "L",
    "stateOrProvinceName": "ST",
    "organizationName": "O",
    "organizationalUnitName": "OU",
    "streetAddress": "STREET",
    "domainComponent": "DC",
    "userId": "UID",
}
_IA5_STRING, _UTF8_STRING, _PRINTABLE_STRING = 0x16, 0x0C, 0x13
_NUMBERS = {
    "emailAddress": ("1.2.840.113549.1.9.1", _IA5_STRING),
    "serialNumber": ("2.5.4.5", _PRINTABLE_STRING),
    "title": ("2.5.4.12", _UTF8_STRING),
    "givenName": ("2.5.4.42", _UTF8_STRING),
    "surname": ("2.5.4.4", _UTF8_STRING),
}


@dataclass(frozen=True)
class Tls:
    """How a port is secured.

    Attributes:
        certificate: the server's certificate, and those that it was issued by, PEM; its key too where `key` is None.
        key: the certificate's private key, PEM.
        authorities: certificates by which clients' ones are trusted, PEM; None where no client is asked for one.
        client_auth: whether a client must show a certificate, may, or is not asked for one (ssl.clientAuth).
        password: of the key, or None.
    """

    certificate: Path
    key: Path | None = None
    authorities: Path | None = None
    client_auth: Literal["need", "want", "none"] = "need"
    password: str | None = None

    def context(self) -> ssl.SSLContext:
        """What secures a listener.

        Raises:
            ConfigError: a file that cannot be read or is no PEM, a key that does not fit, or nobody to trust.
        """
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        key = self.key or self.certificate
        for path in (self.certificate, key, self.authorities):
            if path is not None:
                _look_at(path)
        try:
            # Without a password given OpenSSL would ask the terminal for one.
            context.load_cert_chain(self.certificate, key, password=self.password or "")
        except ssl.SSLError as error:
            right = f"the key of {self.certificate}"
            if error.reason != "KEY_VALUES_MISMATCH" and b"ENCRYPTED" in key.read_bytes():
                right = "the password of the key"
            raise ConfigError(_reason(error), where=str(key), right=right) from error
        if self.authorities is None and self.client_auth != "none":
            raise ConfigError("no client could be trusted", where="authorities", right="certificates to trust, PEM")
        if self.authorities is not None:
            try:
                context.load_verify_locations(self.authorities)
            except ssl.SSLError as error:
                raise ConfigError(_reason(error), where=str(self.authorities), right="certificates, PEM") from error
        context.verify_mode = _VERIFY[self.client_auth]
        return context


def _look_at(path: Path) -> None:
    try:
        begin = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"cannot be read: {error.strerror}", where=str(path)) from error
    if b"-----BEGIN " not in begin:
        raise ConfigError("it is no PEM file", where=str(path), right="-----BEGIN ...")


def _reason(error: ssl.SSLError) -> str:
    if error.reason == "KEY_VALUES_MISMATCH":
        return "the key does not fit the certificate"
    return f"it cannot be used ({error.reason or 'nothing in it can be read'})"


def subject_of(certificate: dict[str, Any]) -> str:
    """The subject of a peer's certificate, as `SSLSocket.getpeercert` gives it, in the form of ACLs.

    >>> subject_of({"subject": ((("countryName", "NL"),), (("organizationName", "simzk, tests"),))})
    'O=simzk\\\\, tests,C=NL'
    """
    names = [
        "+".join(_attribute(name, value) for name, value in relative) for relative in reversed(certificate["subject"])
    ]
    return ",".join(names)


def _attribute(name: str, value: str) -> str:
    if name in _KEYWORDS:
        return f"{_KEYWORDS[name]}={_escaped(value)}"
    number, tag = _NUMBERS.get(name, (name, _UTF8_STRING))
    data = value.encode()
    length = bytes([len(data)]) if len(data) < 128 else b"\x81" + bytes([len(data) & 0xFF])
    return f"{number}=#{(bytes([tag]) + length + data).hex()}"


def _escaped(value: str) -> str:
    value = re.sub(r'([,+"\\<>;])', r"\\\1", value)
    value = re.sub(r"^([# ])", r"\\\1", value)
    return f"{value[:-1]}\\ " if value.endswith(" ") and len(value) > 1 else value
