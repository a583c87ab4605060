"""The certificates that tests speak TLS with, and a client's end of it."""

from __future__ import annotations

import ssl
from pathlib import Path

FILES = Path(__file__).parent / "data" / "tls"


def client_tls(*, certificate: bool = True) -> ssl.SSLContext:
    """A client's end, with the certificate of client.pem or with none.

    Not the default context: from Python 3.13 on that wants extensions of an authority that Java does not ask for.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(FILES / "authority.pem")
    if certificate:
        context.load_cert_chain(FILES / "client.pem", FILES / "client.key")
    return context
