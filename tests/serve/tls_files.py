"""Certificates and client contexts for TLS tests."""

from __future__ import annotations

import ssl
from pathlib import Path

FILES = Path(__file__).parent / "data" / "tls"


def client_tls(*, certificate: bool = True) -> ssl.SSLContext:
    """Return a client's context, with the certificate of client.pem or without one.

    Not the default context: from Python 3.13 on that requires extensions of authorities that Java does not.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(FILES / "authority.pem")
    if certificate:
        context.load_cert_chain(FILES / "client.pem", FILES / "client.key")
    return context
