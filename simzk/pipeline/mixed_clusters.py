"""Files of different clusters among those that are read together: found by what cannot be in one history, and left out.

Rules of this module:
  - of one cluster a zxid is one transaction and has one time, in every server's log, and in every snapshot as the time
    at which a znode was made or last set; and Kafka's `/cluster/id` is the one that was written, until it is removed or
    another is set: a cluster made anew on the same ZooKeeper goes on in its history;
  - what stands below `/zookeeper` does not count: a server sets its configuration there by its own clock;
  - whole folders are left out where the files of two contradict each other, single files within a folder: first who
    contradicts most, then who was named last.
"""

from __future__ import annotations

from itertools import combinations
from pathlib import PurePath
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812  # as everybody calls it

from simzk.tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame

Contradictions = dict[tuple[str, str], str]
"""Two files, in either order, and what is said differently in the one than in the other."""


class Stranger(NamedTuple):
    """A folder or a file that is of another cluster than the rest, and why."""

    path: str
    why: str
    files: tuple[str, ...]


def strangers(log: DataFrame, snapshots: DataFrame | None, files: Sequence[str], chroot: str) -> list[Stranger]:
    """Who is to be left out, so that what remains may be of one cluster.

    Args:
        log, snapshots: the tables of those names, without what is damaged; None where there is no snapshot.
        files: all, in the order in which they were named.
        chroot: where Kafka's znodes are.
    """
    if len(files) < 2:
        return []
    found = of_ids(_cluster_ids(log, snapshots, chroot)) | _of_times(_witnesses(log, snapshots))
    return left_out(found, files)


def left_out(contradictions: Contradictions, files: Sequence[str]) -> list[Stranger]:
    """Who is to be left out.

    >>> files = ["a/log.1", "b/log.1", "b/log.9"]
    >>> [stranger.path for stranger in left_out({("a/log.1", "b/log.1"): "why"}, files)]
    ['b']
    >>> [stranger.path for stranger in left_out({("b/log.1", "b/log.9"): "why"}, files)]
    ['b/log.9']
    """
    folders = list(dict.fromkeys(_folder(file) for file in files))
    between = {
        (_folder(one), _folder(other)): why
        for (one, other), why in contradictions.items()
        if _folder(one) != _folder(other)
    }
    gone = _fewest(between, folders)
    within = {pair: why for pair, why in contradictions.items() if _folder(pair[0]) == _folder(pair[1]) not in gone}
    out = [
        Stranger(folder, why, tuple(file for file in files if _folder(file) == folder)) for folder, why in gone.items()
    ]
    return [*out, *(Stranger(file, why, (file,)) for file, why in _fewest(within, files).items())]


def _fewest(contradictions: Contradictions, names: Sequence[str]) -> dict[str, str]:
    """Names without which nothing is contradicted, and whom each contradicts."""
    left = dict(contradictions)
    gone: dict[str, str] = {}
    while left:
        worst = max(
            {name for pair in left for name in pair},
            key=lambda name: (sum(name in pair for pair in left), names.index(name)),
        )
        pair, why = next((pair, why) for pair, why in sorted(left.items()) if worst in pair)
        other = pair[0] if worst == pair[1] else pair[1]
        gone[worst] = f"it is of another cluster than {other}: {why}"
        left = {pair: why for pair, why in left.items() if worst not in pair}
    return gone


def _folder(file: str) -> str:
    return str(PurePath(file).parent)


def _witnesses(log: DataFrame, snapshots: DataFrame | None) -> DataFrame:
    """Which file says which time of which zxid."""
    told = log.select("zxid", "time", "file")
    if snapshots is None:
        return told
    counted = snapshots.where("path not like '/zookeeper%'")
    for zxid, time in (("czxid", "ctime"), ("mzxid", "mtime")):
        seen = counted.where(F.col(zxid) > 0)
        told = told.unionByName(seen.select(F.col(zxid).alias("zxid"), F.col(time).alias("time"), "file"))
    return told


def _of_times(witnesses: DataFrame) -> Contradictions:
    times = witnesses.groupBy("zxid").agg(F.min("time").alias("first"), F.max("time").alias("last"))
    twofold = times.where("first != last").select("zxid")
    if twofold.isEmpty():
        return {}  # as it should be: nothing more is computed
    told = witnesses.join(twofold, "zxid").distinct()
    other = told.select("zxid", F.col("time").alias("other_time"), F.col("file").alias("other"))
    pairs = told.join(other, "zxid").where("file < other and time != other_time").groupBy("file", "other")
    found = pairs.agg(F.countDistinct("zxid").alias("count"), F.min("zxid").alias("first")).collect()
    return {
        (row["file"], row["other"]): f"{row['count']:,} zxids have another time there, from 0x{row['first']:x} on"
        for row in found
    }


class ClusterIds(NamedTuple):
    """What some files say of Kafka's `/cluster/id`.

    Args:
        written: by file, the zxids at which an id was written, and the ids.
        renewed: the zxids at which the znode was removed, or another id was set: from there on another one holds.
    """

    written: dict[str, set[tuple[int, str]]]
    renewed: frozenset[int]


def _cluster_ids(log: DataFrame, snapshots: DataFrame | None, chroot: str) -> ClusterIds:
    at_path = F.col("path") == f"{chroot}/cluster/id"
    cluster_id = F.get_json_object(F.col("data").cast("string"), "$.id").alias("id")
    rows = log.where(at_path & F.col("applied")).select("file", "zxid", "operation", cluster_id).collect()
    renewed = {row["zxid"] for row in rows if row["operation"] in ("delete", "deleteContainer", "setData")}
    if snapshots is not None:
        kept = snapshots.where(at_path).select("file", F.col("mzxid").alias("zxid"), "czxid", cluster_id).collect()
        renewed |= {row["zxid"] for row in kept if row["zxid"] > row["czxid"]}
        rows += kept
    written: dict[str, set[tuple[int, str]]] = {}
    for row in rows:
        if row["id"] is not None:
            written.setdefault(row["file"], set()).add((row["zxid"], row["id"]))
    return ClusterIds(written, frozenset(renewed))


def of_ids(ids: ClusterIds) -> Contradictions:
    """Files that name different ids between which none was renewed.

    >>> first, second = {(5, "A")}, {(90, "B")}
    >>> of_ids(ClusterIds({"log.1": first, "log.50": second}, frozenset()))
    {('log.1', 'log.50'): 'their ids are A, B'}
    >>> of_ids(ClusterIds({"log.1": first, "log.50": second}, frozenset({80})))
    {}
    """
    found = {}
    for one, other in combinations(sorted(ids.written), 2):
        first, second = ids.written[one], ids.written[other]
        if _names(first).isdisjoint(_names(second)):
            pairs = [sorted((zxid, another)) for zxid, _ in first for another, _ in second]
            if not all(any(begin < zxid <= end for zxid in ids.renewed) for begin, end in pairs):
                found[one, other] = f"their ids are {', '.join(sorted(_names(first | second)))}"
    return found


def _names(written: set[tuple[int, str]]) -> set[str]:
    return {name for _, name in written}
