"""The options of `simzk serve` about TLS."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from simzk.errors import ConfigError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from simzk.serve.configuration.settings import Settings

_REST = {
    "tls_key": "--tls-key",
    "tls_ca": "--tls-ca",
    "tls_password_file": "--tls-password-file",
    "tls_client_auth": "--tls-client-auth",
}


def add_options(parser: argparse.ArgumentParser, port: Callable[[str], int]) -> None:
    """The options; `port` reads one."""
    group = parser.add_argument_group("TLS")
    group.add_argument("--secure-port", metavar="N", type=port, help="a port for TLS beside --port; 0 for any free one")
    group.add_argument(
        "--tls-cert",
        metavar="FILE",
        type=Path,
        help="the server's certificate, PEM, .jks or .p12; without --secure-port it is --port's",
    )
    group.add_argument("--tls-key", metavar="FILE", type=Path, help="its private key, PEM (default: in --tls-cert)")
    group.add_argument(
        "--tls-ca", metavar="FILE", type=Path, help="whose certificates are trusted, PEM, .jks or .p12; none: nobody's"
    )
    group.add_argument("--tls-password-file", metavar="FILE", type=Path, help="holds the password of key and stores")
    group.add_argument(
        "--tls-client-auth",
        choices=("need", "want", "none"),
        help="whether a client must show a certificate (default need with --tls-ca, else none)",
    )


def with_tls(settings: Settings, asked: argparse.Namespace) -> Settings:
    """The settings with what these options ask for.

    Raises:
        ConfigError: options that do not fit together.
    """
    if asked.tls_cert is None:
        for name, option in _REST.items():
            if getattr(asked, name) is not None:
                raise ConfigError("it secures nothing", where=option, right="--tls-cert FILE beside it")
        if asked.secure_port is None:
            return settings
        if settings.tls is None:
            raise ConfigError("a secure port needs a certificate", where="--secure-port", right="--tls-cert FILE")
        return settings._replace(secure_port=asked.secure_port)
    if asked.tls_client_auth in ("need", "want") and asked.tls_ca is None:
        raise ConfigError("no client could be trusted", where="--tls-client-auth", right="--tls-ca FILE beside it")
    from simzk.serve.tcp.tls import Tls

    tls = Tls(
        asked.tls_cert,
        key=asked.tls_key,
        authorities=asked.tls_ca,
        client_auth=asked.tls_client_auth or ("none" if asked.tls_ca is None else "need"),
        password_path=asked.tls_password_file,
        trust_password_path=asked.tls_password_file,
    )
    secure_port = settings.secure_port if asked.secure_port is None else asked.secure_port
    return settings._replace(tls=tls, secure_port=secure_port, server=settings.server._replace(x509=True))
