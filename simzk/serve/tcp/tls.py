"""TLS configuration of a served ZooKeeper, and the subject of a client's certificate (§4, x509).

Rules of this module:
  - files are PEM, as the real server's `ssl.keyStore.type=PEM`, or Java's key stores (key_stores.py);
  - an unusable file is an error before the server listens, with its name and the reason;
  - a subject has the format of Java's `X500Principal.getName()` (RFC 2253), because ACLs contain that text.

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

# Attributes with a keyword in RFC 2253; Java writes others by their object identifier and encoded value.
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
    """TLS configuration of a port.

    Attributes:
        certificate: file of the server's certificate and its issuers; of its key too if `key` is None.
        key: file of the certificate's private key, PEM.
        authorities: file of trusted certificates of clients' issuers; None for those that the system trusts.
        client_auth: whether a client must, may or need not send a certificate (ssl.clientAuth).
        password: of the key or its store, or None.
        password_path: file of that password, which overrides it.
        key_store_type: "pem", "jks" or "pkcs12"; None for the type of the file's suffix, PEM if unknown.
        trust_store_type: likewise, of `authorities`.
        trust_password: of the store of `authorities`, or None.
        trust_password_path: file of that password, which overrides it.
        protocols: accepted versions, as "TLSv1.3"; empty for those of this machine's library.
        ciphers: cipher suites up to TLS 1.2, by Java's names; empty for those of the library. Those of TLS 1.3 are
            always accepted.

    >>> from pathlib import Path
    >>> Tls(Path("server.pem"), client_auth="none").client_auth
    'none'
    """

    certificate: Path
    key: Path | None = None
    authorities: Path | None = None
    client_auth: Literal["need", "want", "none"] = "need"
    password: str | None = None
    password_path: Path | None = None
    key_store_type: str | None = None
    trust_store_type: str | None = None
    trust_password: str | None = None
    trust_password_path: Path | None = None
    protocols: tuple[str, ...] = ()
    ciphers: tuple[str, ...] = ()

    def context(self) -> ssl.SSLContext:
        """Return the context of a listener.

        Raises:
            ConfigError: a file cannot be read or used, the key does not match the certificate, a password is wrong, or
                a protocol or cipher suite is unknown.
        """
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._load_key(context)
        if self.client_auth != "none":
            self._load_authorities(context)
        self._limit(context)
        context.verify_mode = _VERIFY[self.client_auth]
        return context

    def _load_key(self, context: ssl.SSLContext) -> None:
        password = _password(self.password, self.password_path)
        if store_type(self.certificate, self.key_store_type) != "pem":
            from simzk.serve.tcp.key_stores import load_key

            load_key(context, self.certificate, _read(self.certificate), password)
            return
        key = self.key or self.certificate
        _require_pem(self.certificate)
        _require_pem(key)
        try:
            # Without a password given OpenSSL would ask the terminal for one.
            context.load_cert_chain(self.certificate, key, password=password)
        except ssl.SSLError as error:
            right = f"the key of {self.certificate}"
            if error.reason != "KEY_VALUES_MISMATCH" and b"ENCRYPTED" in key.read_bytes():
                right = "the password of the key"
            raise ConfigError(_reason(error), where=str(key), right=right) from error

    def _load_authorities(self, context: ssl.SSLContext) -> None:
        if self.authorities is None:
            context.load_default_certs(ssl.Purpose.CLIENT_AUTH)
            return
        if store_type(self.authorities, self.trust_store_type) != "pem":
            from simzk.serve.tcp.key_stores import load_authorities

            password = _password(self.trust_password, self.trust_password_path)
            load_authorities(context, self.authorities, _read(self.authorities), password)
            return
        _require_pem(self.authorities)
        try:
            context.load_verify_locations(self.authorities)
        except ssl.SSLError as error:
            raise ConfigError(_reason(error), where=str(self.authorities), right="certificates, PEM") from error

    def _limit(self, context: ssl.SSLContext) -> None:
        if self.protocols:
            unknown = [name for name in self.protocols if name not in _PROTOCOLS]
            if unknown:
                raise ConfigError(f"unknown protocol {unknown[0]!r}", where="TLS", right=", ".join(_PROTOCOLS))
            versions = [_PROTOCOLS[name] for name in self.protocols]
            context.minimum_version, context.maximum_version = min(versions), max(versions)
        older = [_cipher(name) for name in self.ciphers if "_WITH_" in name]
        if older:
            try:
                context.set_ciphers(":".join(older))
            except ssl.SSLError as error:
                what = f"unknown cipher suites {', '.join(self.ciphers)}"
                right = "cipher suites, as TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"
                raise ConfigError(what, where="TLS", right=right) from error


_PROTOCOLS = {
    "TLSv1": ssl.TLSVersion.TLSv1,
    "TLSv1.1": ssl.TLSVersion.TLSv1_1,
    "TLSv1.2": ssl.TLSVersion.TLSv1_2,
    "TLSv1.3": ssl.TLSVersion.TLSv1_3,
}
STORES = {".pem": "pem", ".jks": "jks", ".p12": "pkcs12"}
"""Types of stores by the suffix of the file, as in the real server."""


def store_type(path: Path, asked: str | None) -> str:
    """Return the type of a store: as configured, or by the suffix of the file (KeyStoreFileType)."""
    return STORES.get(path.suffix, "pem") if asked is None else asked


def _password(text: str | None, path: Path | None) -> str:
    """Return a password; that of a file takes precedence (X509Util.getPasswordFromConfigPropertyOrFile)."""
    if path is None:
        return text or ""
    try:
        return path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not a text file"
        raise ConfigError(f"cannot be read: {reason}", where=str(path), right="the file of a password") from error


def _cipher(name: str) -> str:
    """Return OpenSSL's name of a cipher suite of Java.

    >>> _cipher("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"), _cipher("TLS_RSA_WITH_AES_256_CBC_SHA")
    ('ECDHE-RSA-AES128-GCM-SHA256', 'AES256-SHA')
    """
    exchange, _, cipher = name.removeprefix("TLS_").partition("_WITH_")
    cipher = re.sub(r"AES_(\d+)", r"AES\1", cipher).replace("_CBC", "").replace("POLY1305_SHA256", "POLY1305")
    exchange = "" if exchange == "RSA" else exchange.replace("_", "-") + "-"
    return exchange + cipher.replace("_", "-")


def _require_pem(path: Path) -> None:
    if b"-----BEGIN " not in _read(path):
        raise ConfigError("not a PEM file", where=str(path), right="-----BEGIN ...")


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigError(f"cannot be read: {error.strerror}", where=str(path)) from error


def _reason(error: ssl.SSLError) -> str:
    if error.reason == "KEY_VALUES_MISMATCH":
        return "the key does not match the certificate"
    return f"it cannot be used ({error.reason or 'no content'})"


def subject_of(certificate: dict[str, Any]) -> str:
    """Return the subject of a certificate of `SSLSocket.getpeercert`, in the form of ACLs.

    >>> subject_of({"subject": ((("countryName", "NL"),), (("organizationName", "simzk, tests"),))})
    'O=simzk\\\\, tests,C=NL'
    """
    parts = reversed(certificate["subject"])
    return ",".join("+".join(_attribute(name, value) for name, value in part) for part in parts)


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
