"""One HTTP request of a test."""

from __future__ import annotations

import http.client

from tests.waiting import PATIENCE_S


def fetch(
    port: int,
    target: str,
    method: str = "GET",
    *,
    body: bytes | None = None,
    headers: dict[str, str] | None = None,
    host: str = "127.0.0.1",
) -> tuple[int, dict[str, str], bytes]:
    """Return status, headers and body."""
    connection = http.client.HTTPConnection(host, port, timeout=PATIENCE_S)
    try:
        connection.request(method, target, body, headers or {})
        response = connection.getresponse()
        return response.status, dict(response.getheaders()), response.read()
    finally:
        connection.close()
