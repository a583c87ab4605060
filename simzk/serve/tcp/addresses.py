"""Addresses of listeners and clients, in the form of Java's server.

Rules of this module:
  - a listener on all interfaces accepts IPv4 and IPv6, and is named 0.0.0.0;
  - an IPv4 client of such a listener has its IPv4 address; an IPv6 address is written as eight groups.

Source of the behaviour: java.net's dual-stack sockets, InetAddress.getHostAddress, InetSocketAddress.toString.
"""

from __future__ import annotations

import errno
import os
import socket
from typing import TYPE_CHECKING

from simzk.errors import ConfigError

if TYPE_CHECKING:
    import asyncio

ANY_HOST = "0.0.0.0"
_ANY_HOST_6 = "::"
_EVERYWHERE = frozenset({"", ANY_HOST, _ANY_HOST_6})
_MAPPED = "::ffff:"


def bind(address: str, port: int, backlog: int) -> socket.socket:
    """Return a listening socket; an empty address stands for all interfaces.

    Raises:
        ConfigError: the port is in use, or the address does not belong to this machine.
    """
    dual = address in _EVERYWHERE and socket.has_dualstack_ipv6()
    host = _ANY_HOST_6 if dual else address
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=backlog, dualstack_ipv6=dual)
    except (OverflowError, OSError) as error:
        raise not_listening(error, f"{address or ANY_HOST}:{port}") from error


def not_listening(error: OverflowError | OSError, where: str) -> ConfigError:
    """Return the error of an address at which nobody can listen."""
    if isinstance(error, OverflowError):
        return ConfigError(f"cannot listen: {error}", where=where)
    # socket appends the address to the reason; an unknown host name has no positive errno.
    text = str(error.strerror or error).partition(" (while")[0]
    reason = os.strerror(error.errno) if error.errno is not None and error.errno > 0 else text
    right = "a free port, or 0 for any" if error.errno == errno.EADDRINUSE else ""
    return ConfigError(f"cannot listen: {reason}", where=where, right=right)


def name_of(listener: socket.socket) -> str:
    """Return the address of a listener, as clients write it."""
    address, port = listener.getsockname()[:2]
    return written((ANY_HOST if address == _ANY_HOST_6 else address, port))


def addresses_of(host: str) -> frozenset[str] | None:
    """Return the addresses of an interface or host of this machine, in Java's form; None for all interfaces.

    >>> addresses_of("127.0.0.1"), addresses_of("0.0.0.0")
    (frozenset({'127.0.0.1'}), None)
    """
    if host in _EVERYWHERE:
        return None
    try:
        found = socket.getaddrinfo(host, None)
    except OSError as error:
        raise ConfigError(f"unknown address: {error.strerror}", where=host) from error
    return frozenset(as_java(str(address[0])) for *_, address in found)


def peer_of(transport: asyncio.BaseTransport) -> tuple[str, int]:
    """Return the address and port of a client."""
    address, port = transport.get_extra_info("peername")[:2]
    return as_java(address), port


def as_java(address: str) -> str:
    """Return an address in the form of a Java server.

    >>> as_java("127.0.0.1"), as_java("::ffff:127.0.0.1"), as_java("::1")
    ('127.0.0.1', '127.0.0.1', '0:0:0:0:0:0:0:1')
    """
    if ":" not in address:
        return address
    if address.startswith(_MAPPED) and "." in address:
        return address.removeprefix(_MAPPED)
    # Imported late: most servers have only IPv4 clients.
    from simzk.zookeeper.ensemble.membership import as_java

    return as_java(address)


def written(peer: tuple[str, int]) -> str:
    """Return an address and port in the form of Java's InetSocketAddress.

    >>> written(("0:0:0:0:0:0:0:1", 40)), written(("127.0.0.1", 40))
    ('[0:0:0:0:0:0:0:1]:40', '127.0.0.1:40')
    """
    address, port = peer
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
