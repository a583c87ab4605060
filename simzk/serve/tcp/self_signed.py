"""A certificate for a server that is given none: self-signed, for this machine, made with the package cryptography.

Rules of this module:
  - clients trust the certificate itself: its file is what they get as certificate of the authority;
  - it is valid for the whole century, because the clocks of tests may be anywhere.
"""

from __future__ import annotations

import datetime
import ipaddress
from typing import TYPE_CHECKING, Any

from simzk.errors import ConfigError
from simzk.serve.tcp.tls import Tls

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

NAME = "simzk"
_FROM = datetime.datetime(2000, 1, 1, tzinfo=datetime.UTC)
_UNTIL = datetime.datetime(2100, 1, 1, tzinfo=datetime.UTC)


def make_certificate(folder: Path, hosts: Iterable[str]) -> Tls:
    """Write a new certificate and its key; return the TLS configuration of a port with them.

    Args:
        folder: where `certificate.pem` and `key.pem` are written.
        hosts: interfaces and advertised hosts, for which the certificate is valid besides localhost.

    Raises:
        ConfigError: the package cryptography is missing.
    """
    try:
        from cryptography import x509
        from cryptography.hazmat.primitives import hashes, serialization
        from cryptography.hazmat.primitives.asymmetric import ec
    except ImportError as error:
        right = "pip install 'simzk[tls]', or tls=Tls(...) with a certificate"
        raise ConfigError("a certificate is made with the package cryptography", where="tls", right=right) from error
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, NAME)])
    identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    others = ("content_commitment", "key_encipherment", "data_encipherment", "key_agreement", "crl_sign")
    usage = dict.fromkeys((*others, "encipher_only", "decipher_only"), False)
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number(), _FROM, _UNTIL)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(x509.KeyUsage(digital_signature=True, key_cert_sign=True, **usage), critical=True)
        .add_extension(x509.SubjectAlternativeName(_names(x509, hosts)), critical=False)
        .add_extension(identifier, critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(identifier), critical=False)
        .sign(key, hashes.SHA256())
    )
    made = Tls(folder / "certificate.pem", folder / "key.pem", client_auth="none")
    made.certificate.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    assert made.key is not None
    made.key.touch(mode=0o600)
    made.key.write_bytes(private)
    return made


def _names(x509: Any, hosts: Iterable[str]) -> list[Any]:
    """Return the names and addresses of the server: localhost, and the hosts."""
    addresses, names = ["127.0.0.1", "::1"], ["localhost"]
    for host in hosts:
        try:
            ipaddress.ip_address(host)
            addresses.append(host)
        except ValueError:
            names.append(host)
    unique = [ipaddress.ip_address(address) for address in dict.fromkeys(addresses)]
    return [x509.DNSName(name) for name in dict.fromkeys(names)] + [x509.IPAddress(address) for address in unique]
