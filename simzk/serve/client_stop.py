"""The end of kazoo clients, also of those with a callback that does not return.

`KazooClient.stop` joins the client's threads without a limit: with one blocked callback it never returns, and a test
that failed for it is never reported (kazoo issues 241 and 381 are such callbacks).

Rules of this module:
  - a client is stopped in a thread of its own, for which the caller waits a limited time;
  - a callback that waits for a reply gets an error instead of it, as at the end of a session, so most of them end then;
  - a thread that goes on is left alone: kazoo's threads are daemons. It is named in a warning.
"""

from __future__ import annotations

import atexit
import threading
import warnings
from typing import TYPE_CHECKING

from kazoo.exceptions import ConnectionLoss
from kazoo.handlers.threading import SequentialThreadingHandler

from simzk.serve.client_activity import ObservedHandler

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kazoo.client import KazooClient

PATIENCE_S = 5.0
"""Longest wall time in which the threads of a client end by themselves."""
_PATIENCE_AFTER_SETTLE_S = 0.1
"""The same if `settle` has waited for them in vain."""
_END_S = 1.0
"""Longest wall time in which they end once their requests have failed."""


def stop_clients(clients: Iterable[KazooClient]) -> list[str]:
    """Stop clients and close them; return a sentence about each whose threads do not end."""
    return [why for client in clients if (why := _stop(client))]


def warn_of_blocked(sentences: Iterable[str]) -> None:
    """Warn of clients whose threads did not end; last of all, for a filter may turn warnings into errors."""
    for sentence in sentences:
        warnings.warn(f"simzk: {sentence}; its thread was left running", RuntimeWarning, stacklevel=3)


def _fail_requests(client: KazooClient) -> None:
    """Fail the requests of a client that are not answered.

    They stay in kazoo's queues, which belong to its own thread: it may be reading the reply of one just now.
    """
    for _, result, *_ in (*client._pending.copy(), *client._queue.copy()):
        if result is not None and not result.ready():
            result.set_exception(ConnectionLoss())


def _stop(client: KazooClient) -> str:
    """Stop a client; return what its threads do if they do not end, else an empty text."""
    handler = client.handler
    if not isinstance(handler, SequentialThreadingHandler):  # gevent's and eventlet's belong to the present thread
        client.stop()
        client.close()
        return ""
    failures: list[BaseException] = []

    def stop() -> None:
        try:
            client.stop()
            client.close()
        except BaseException as error:  # of any kind: raised in the thread that waits
            failures.append(error)

    stopping = threading.Thread(target=stop, name="simzk-stop", daemon=True)
    stopping.start()
    is_observed = isinstance(handler, ObservedHandler)
    stopping.join(_PATIENCE_AFTER_SETTLE_S if is_observed and handler.is_blocked else PATIENCE_S)
    why = ""
    if stopping.is_alive():
        why = handler.why_busy(None) if is_observed else ""
        _fail_requests(client)
        stopping.join(_END_S)
    if stopping.is_alive():
        atexit.unregister(handler.stop)  # it would wait for the same threads once more, at the end of the process
        return why or "a callback of a client does not return"
    if failures:
        raise failures[0]
    return ""
