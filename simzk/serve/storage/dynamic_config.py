"""Small files that are there whole or not at all.

Source: AtomicFileWritingIdiom.

What reconfigurations leave behind in the files of an ensemble's servers, so that they start again as they were.

Rules of this module:
  - where reconfigEnabled is set, the members stand in `zoo.cfg.dynamic.VERSION`, and zoo.cfg names that file; its own
    lines of members are gone from it, and so are its comments. As it was before it is kept as `zoo.cfg.bak`;
  - the new file is whole before zoo.cfg names it, so that whenever the process is killed either counts;
  - a server that is stopped learns of it when it starts.

Source: QuorumPeer.setQuorumVerifier, QuorumPeerConfig (writeDynamicConfig, editStaticConfig, backupOldConfig).
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from simzk.serve.configuration.members import DYNAMIC
from simzk.serve.configuration.properties import read_properties

if TYPE_CHECKING:
    from pathlib import Path

    from simzk.serve.configuration.members import Belonging
    from simzk.zookeeper.ensemble.membership import Membership


def write_whole(path: Path, text: str, *, fsync: bool = True) -> None:
    """Put a text in the place of what a file held; whoever reads it meanwhile sees either.

    Args:
        path: the file.
        text: of ISO 8859-1.
        fsync: whether it is to outlive the machine.

    Raises:
        OSError: it cannot be written.
    """
    partial = path.with_name(f".{path.name}.partial")
    with partial.open("w", encoding="latin-1", newline="") as stream:
        stream.write(text)
        stream.flush()
        if fsync:
            os.fsync(stream.fileno())
    partial.replace(path)


_OF_MEMBERS = ("server.", "group", "weight", DYNAMIC, "peerType")
_OF_CLIENTS = "clientPort"


class DynamicConfig:
    """The files of one server.

    Args:
        belonging: what its zoo.cfg said at the start.
    """

    def __init__(self, belonging: Belonging) -> None:
        self._file = belonging.file.absolute()
        self._server_id = belonging.server_id
        self._has_own_client_port = belonging.line is None or belonging.line.client is None
        self._version = belonging.membership.version

    def keep(self, membership: Membership) -> None:
        """Write down who belongs to the ensemble, unless that is written.

        Raises:
            OSError: the files cannot be written.
        """
        if membership.version == self._version:
            return
        dynamic = self._file.with_name(f"{self._file.name}.dynamic.{membership.version:x}")
        write_whole(dynamic, "\n".join(map(str, membership.lines)))
        text = self._file.read_text(encoding="latin-1")
        entries = read_properties(text, str(self._file))
        if DYNAMIC not in entries:
            write_whole(self._file.with_name(f"{self._file.name}.bak"), text)
        gone = _OF_MEMBERS if self._has_own_client_port else (*_OF_MEMBERS, _OF_CLIENTS)
        kept = "".join(f"{key}={entry.value}\n" for key, entry in entries.items() if not key.startswith(gone))
        write_whole(self._file, f"{kept}{DYNAMIC}={dynamic}\n")
        self._version = membership.version
