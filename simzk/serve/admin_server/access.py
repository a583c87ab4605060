"""Checks of Host, Origin and token, for the requests over HTTP that only simzk has.

Rules of this module:
  - a page of another site may ask nothing: browsers name its origin, which has to be the server's own;
  - a foreign name that resolves to this machine (DNS rebinding) is refused: Host is a loopback name, the unspecified
    address, or the address that the connection came to or that the server listens on;
  - a client on another machine needs the token, and so does every client if one is set; a proxy counts as another
    machine. A request with the token may have any Host, because no page of another site knows the token;
  - tokens are compared in constant time.
"""

from __future__ import annotations

import hmac
import ipaddress
import re
from http import HTTPStatus
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

from simzk.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from simzk.serve.admin_server.http import HttpRequest

_FORWARDED = ("forwarded", "x-forwarded-for", "x-real-ip")
_FOREIGN_SITES = frozenset({"cross-site", "same-site"})
_TOKEN = re.compile("[!-~]+")
_AUTHORITY = re.compile(r"(\[[^\]]*\]|[^:]*)(?::\d+)?")


class Rejection(NamedTuple):
    """Reason why a request is refused, and the status of the response."""

    status: HTTPStatus
    reason: str


class AccessRules:
    """Rules about who may see and change state.

    Args:
        token: the token that clients send as `Authorization: Bearer TOKEN`; None if none is set.
        address: the address that the server listens on, as it was configured; empty for all.

    Raises:
        ConfigError: the token is empty, or has blanks or characters beyond ASCII.

    >>> from simzk.serve.admin_server.http import HttpRequest
    >>> def post(**headers):
    ...     headers = {"host": "localhost:8080", **headers}
    ...     return HttpRequest("POST", "/faults/heal", "", headers, b"", address="127.0.0.1", local_address="127.0.0.1")
    >>> AccessRules(None, "").rejection(post()) is None
    True
    >>> AccessRules(None, "").rejection(post(origin="http://example.org")).reason
    'Origin http://example.org is not this server'
    >>> AccessRules("secret", "").rejection(post()).status.value
    401
    """

    def __init__(self, token: str | None, address: str) -> None:
        if token is not None and _TOKEN.fullmatch(token) is None:
            raise ConfigError("the token is empty, or has a blank or a character beyond ASCII", where="--admin-token")
        self._token = token
        self._address = address

    def rejection(self, request: HttpRequest) -> Rejection | None:
        """Return why a request is not answered; None if it is."""
        headers = request.headers
        foreign = _foreign_origin(headers)
        if foreign:
            return Rejection(HTTPStatus.FORBIDDEN, foreign)
        if self._token is not None:
            scheme, _, sent = headers.get("authorization", "").partition(" ")
            is_equal = hmac.compare_digest(sent.strip().encode(), self._token.encode())
            if is_equal and scheme.lower() == "bearer":
                return None
            right = "Authorization: Bearer TOKEN, with the token of --admin-token"
            return Rejection(HTTPStatus.UNAUTHORIZED, f"the token is missing or wrong; expected {right}")
        if not _is_loopback(request.address) or any(name in headers for name in _FORWARDED):
            right = "simzk serve --admin-token TOKEN, or a client on the server's machine"
            return Rejection(HTTPStatus.FORBIDDEN, f"a client on another machine needs a token; expected {right}")
        host = headers.get("host", "")
        if not self._is_own(host, request.local_address):
            return Rejection(HTTPStatus.FORBIDDEN, f"Host {host!r} is not this server; expected localhost")
        return None

    def _is_own(self, host: str, local_address: str) -> bool:
        """Return whether a Host names this server."""
        found = _AUTHORITY.fullmatch(host)
        name = "" if found is None else found[1].lower().strip("[]")
        if name and name in ("localhost", self._address.lower()):
            return True
        address = _address(name)
        # 0.0.0.0 reaches this machine, and is no name that could resolve to another address later.
        return address is not None and (
            address.is_unspecified or address.is_loopback or address == _address(local_address)
        )


def _foreign_origin(headers: Mapping[str, str]) -> str:
    """Return how a browser says that a page of another site sent a request; empty if it does not."""
    origin, site = headers.get("origin"), headers.get("sec-fetch-site", "").lower()
    if origin is not None:
        try:
            parts = urlsplit(origin.lower())
        except ValueError:
            return f"Origin {origin} is not this server"
        if parts.scheme not in ("http", "https") or parts.netloc != headers.get("host", "").lower() or not parts.netloc:
            return f"Origin {origin} is not this server"
    return f"Sec-Fetch-Site: {site}, a page of another site" if site in _FOREIGN_SITES else ""


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        found = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None
    mapped = found.ipv4_mapped if isinstance(found, ipaddress.IPv6Address) else None
    return mapped or found


def _is_loopback(text: str) -> bool:
    found = _address(text)
    return found is not None and found.is_loopback
