"""What is wrong with a file on disk, as a value: the reader stops there, and keeps what came before."""

from __future__ import annotations

from enum import Enum

from simzk.tuples import NamedTuple


class DamageKind(Enum):
    """Why a file cannot be read further."""

    EMPTY = "the file is empty"
    FOREIGN = "it does not start as such a file does"
    VERSION = "the file is of another format version"
    TORN = "the file ends inside an entry"
    HOLE = "data stands behind the end of the log"
    LENGTH = "an entry has an absurd length"
    CHECKSUM = "the checksum does not fit"
    RECORD = "an entry cannot be understood"


class Damage(NamedTuple):
    """Where a file stops making sense.

    Args:
        kind: why.
        offset: of the first byte that is not whole: the start of the entry, in bytes from the start of the file.
        last_zxid: of the last whole transaction before it in the same file, None where there is none.

    >>> print(Damage(DamageKind.TORN, 4096, 0x17))
    the file ends inside an entry, at byte 4096; whole up to zxid 0x17
    """

    kind: DamageKind
    offset: int
    last_zxid: int | None

    @property
    def is_crash(self) -> bool:
        """Whether a server killed while it wrote leaves such a file; the real server passes over it.

        Everything else it refuses to start from (FileTxnLog.FileTxnIterator.next).
        """
        return self.kind in (DamageKind.EMPTY, DamageKind.TORN, DamageKind.HOLE)

    def __str__(self) -> str:
        whole = "nothing before it" if self.last_zxid is None else f"whole up to zxid 0x{self.last_zxid:x}"
        return f"{self.kind.value}, at byte {self.offset}; {whole}"
