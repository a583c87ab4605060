"""The records that both the wire and the files on disk are made of (§1.1, §6)."""

from __future__ import annotations

from simzk.zookeeper.jute import INT, TEXT, Codec, packed, record, vector
from simzk.zookeeper.replies import Stat
from simzk.zookeeper.requests import ACL, OPEN_ACL, Id

STAT_LAYOUT = "qqqqiiiqiiq"
STAT: Codec[Stat] = packed(Stat, ">" + STAT_LAYOUT)

_ACL_VECTOR = vector(record(ACL, INT, record(Id, TEXT, TEXT)))
# As _ACL_VECTOR would write it, which need not be compiled before there is another.
_OPEN_ACL_BYTES = INT.encode(len(OPEN_ACL)) + b"".join(
    INT.encode(perms) + TEXT.encode(scheme) + TEXT.encode(identity) for perms, (scheme, identity) in OPEN_ACL
)


def _read_acl(data: bytes, at: int) -> tuple[tuple[ACL, ...] | None, int]:
    end = at + len(_OPEN_ACL_BYTES)
    if data[at:end] == _OPEN_ACL_BYTES:
        # Nearly every node has this one; the store knows it by identity.
        return OPEN_ACL, end
    return _ACL_VECTOR.read(data, at)


ACLS: Codec[tuple[ACL, ...] | None] = Codec(_read_acl, _ACL_VECTOR.write)
