"""A log that grows in pieces of any size, over restarts, splits and purges: each transaction is read once."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simzk.errors import ConfigError
from simzk.pipeline.logs.files import logs_in_folder, opened
from simzk.pipeline.logs.sources import BEFORE_ALL, LogFollower, LogStretch, stretch_rows
from simzk.pipeline.logs.tables import Wanted, log_rows
from simzk.zookeeper.persistence.transaction_log import LOG_HEADER, scan

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

KAFKA = Path(__file__).parent / "data" / "kafka-3.6.2" / "version-2" / "log.1"
PADDING = bytes(4096)

Row = tuple[object, ...]


def entries_of(path: Path) -> list[tuple[int, bytes]]:
    """The zxids and bytes of a log's entries."""
    data = path.read_bytes().rstrip(b"\0")
    with path.open("rb") as stream:
        found = [(offset, entry.transaction.zxid) for offset, entry in scan(stream)]  # type: ignore[union-attr]
    ends = [*(offset for offset, _ in found[1:]), len(data)]
    return [(zxid, data[offset:end]) for (offset, zxid), end in zip(found, ends, strict=True)]


ENTRIES = entries_of(KAFKA)[:60]


def read(stretches: Iterable[LogStretch]) -> list[Row]:
    rows: list[Row] = []
    for stretch in stretches:
        if stretch.gone:
            rows.append((stretch.gone,))
            continue
        with opened(Path(stretch.path)) as stream:
            rows += stretch_rows(stretch, stream)
    return rows


def whole_log(folder: Path) -> list[Row]:
    """Return the rows of the batch form for a folder."""
    rows: list[Row] = []
    for file in logs_in_folder(str(folder)):
        with opened(file.path) as stream:
            rows += log_rows(str(file.path), stream, 0, None, Wanted())
    return rows


class Writer:
    """A server that writes its log: some bytes at a time, into one file after the other."""

    def __init__(self, folder: Path, starts: Sequence[int], padded: bool) -> None:
        bounds = sorted({0, *starts})
        self._files = [
            (folder / f"log.{ENTRIES[start][0]:x}", LOG_HEADER + b"".join(data for _, data in ENTRIES[start:stop]))
            for start, stop in zip(bounds, [*bounds[1:], len(ENTRIES)], strict=True)
        ]
        self._padded = padded
        self._written = 0

    @property
    def is_done(self) -> bool:
        return not self._files

    def write(self, count: int) -> None:
        """The next bytes; the end of a file ends the piece."""
        path, data = self._files[0]
        self._written = min(self._written + count, len(data))
        path.write_bytes(data[: self._written] + (PADDING if self._padded else b""))
        if self._written == len(data):
            del self._files[0]
            self._written = 0


@settings(max_examples=60, deadline=None)
@given(
    starts=st.lists(st.integers(1, len(ENTRIES) - 1), max_size=3),
    pieces=st.lists(st.tuples(st.integers(1, 4000), st.booleans(), st.booleans()), min_size=1, max_size=25),
    split_bytes=st.sampled_from([500, 3000, 1 << 20]),
    padded=st.booleans(),
)
def test_each_transaction_of_a_growing_log_appears_once(
    tmp_path_factory: pytest.TempPathFactory,
    starts: list[int],
    pieces: list[tuple[int, bool, bool]],
    split_bytes: int,
    padded: bool,
) -> None:
    folder = tmp_path_factory.mktemp("log")
    writer, follower = Writer(folder, starts, padded), LogFollower(str(folder))
    after, rows = follower.first_zxid(), list[Row]()
    assert after == BEFORE_ALL
    steps = iter(pieces)
    while not writer.is_done:
        count, looks, restarts = next(steps, (100_000, True, False))
        writer.write(count)
        looks |= writer.is_done
        if restarts:
            follower = LogFollower(str(folder))
        if looks:
            until = follower.last_zxid()
            assert until >= after
            stretches = follower.stretches(after, until, split_bytes)
            batch = read(stretches)
            # Whoever reads the batch again, without what this follower remembers, reads the same.
            assert read(LogFollower(str(folder)).stretches(after, until, split_bytes)) == batch
            rows += batch
            after = until
            follower.forget_before(after)
    assert rows == whole_log(folder)
    assert after == ENTRIES[-1][0]


def write(folder: Path, start: int, stop: int, change: int | None = None, cut: int = 0) -> Path:
    """Some entries as a file; the byte at `change` is another one, the last `cut` are missing."""
    data = bytearray(LOG_HEADER + b"".join(data for _, data in ENTRIES[start:stop]))
    if change is not None:
        data[change] ^= 1
    path = folder / f"log.{ENTRIES[start][0]:x}"
    path.write_bytes(bytes(data[: len(data) - cut]))
    return path


def test_a_torn_tail_is_reported_when_the_next_file_exists(tmp_path: Path) -> None:
    write(tmp_path, 0, 10, cut=5)
    follower = LogFollower(str(tmp_path))
    assert follower.last_zxid() == ENTRIES[8][0]
    first = read(follower.stretches(BEFORE_ALL, ENTRIES[8][0], 1 << 20))
    assert [row[-1] for row in first] == [None] * len(first)
    # The server was killed, and begins the next file with the transaction that it had not written.
    write(tmp_path, 9, 20)
    assert follower.last_zxid() == ENTRIES[19][0]
    second = read(follower.stretches(ENTRIES[8][0], ENTRIES[19][0], 1 << 20))
    assert str(second[0][-1]).startswith("the file ends inside an entry")
    assert [row[-1] for row in second[1:]] == [None] * (len(second) - 1)
    assert first + second == whole_log(tmp_path)


def test_damage_in_the_middle_is_reported_once_wherever_a_batch_ends(tmp_path: Path) -> None:
    write(tmp_path, 0, 30, change=len(LOG_HEADER) + sum(len(data) for _, data in ENTRIES[:12]) + 40)
    expected = whole_log(tmp_path)
    assert sum(row[-1] is not None for row in expected) == 1
    for end in range(5, 20):
        for split_bytes in (200, 1 << 20):
            follower, until = LogFollower(str(tmp_path)), ENTRIES[end][0]
            last = follower.last_zxid()
            rows = read(follower.stretches(BEFORE_ALL, until, split_bytes))
            assert rows + read(follower.stretches(until, last, split_bytes)) == expected


def test_files_that_were_removed_after_they_were_read_are_not_missed(tmp_path: Path) -> None:
    old = write(tmp_path, 0, 10)
    follower = LogFollower(str(tmp_path))
    after = follower.last_zxid()
    write(tmp_path, 10, 20)
    old.unlink()
    rows = read(follower.stretches(after, follower.last_zxid(), 1 << 20))
    assert rows == whole_log(tmp_path)


def test_files_removed_before_they_were_read_are_reported(tmp_path: Path) -> None:
    write(tmp_path, 20, 30)
    for after in (ENTRIES[9][0], ENTRIES[18][0]):
        reported, *rows = read(LogFollower(str(tmp_path)).stretches(after, ENTRIES[29][0], 1 << 20))
        gone = f"transactions 0x{after + 1:x} to 0x{ENTRIES[20][0] - 1:x} are gone: "
        assert str(reported[0]).startswith(gone)
        assert rows == whole_log(tmp_path)
    # A batch that was planned before, of which nothing is left.
    (reported,) = read(LogFollower(str(tmp_path)).stretches(ENTRIES[3][0], ENTRIES[9][0], 1 << 20))
    assert f"to 0x{ENTRIES[9][0]:x} are gone" in str(reported[0])


def test_between_two_epochs_only_the_new_one_is_known_to_have_a_gap(tmp_path: Path) -> None:
    follower = LogFollower(str(tmp_path))
    (tmp_path / "log.200000001").write_bytes(LOG_HEADER)
    assert not any(stretch.gone for stretch in follower.stretches(0x100000007, 0x200000009, 1 << 20))
    (tmp_path / "log.200000001").rename(tmp_path / "log.200000005")
    reported = next(stretch.gone for stretch in follower.stretches(0x100000007, 0x200000009, 1 << 20) if stretch.gone)
    assert reported.startswith("transactions 0x200000001 to 0x200000004 are gone")


def test_a_transaction_in_two_files_is_read_from_the_newer(tmp_path: Path) -> None:
    write(tmp_path, 0, 12)
    write(tmp_path, 9, 20)
    follower = LogFollower(str(tmp_path))
    rows = read(follower.stretches(BEFORE_ALL, follower.last_zxid(), 1 << 20))
    zxids = list(dict.fromkeys(row[2] for row in rows))
    assert zxids == [zxid for zxid, _ in ENTRIES[:20]]


def test_a_log_that_was_packed_meanwhile_is_the_same_log(tmp_path: Path) -> None:
    plain = write(tmp_path, 0, 10)
    write(tmp_path, 10, 20)
    follower = LogFollower(str(tmp_path))
    before = read(follower.stretches(BEFORE_ALL, follower.last_zxid(), 1 << 20))
    packed = tmp_path / f"{plain.name}.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    again = LogFollower(str(tmp_path))
    assert read(again.stretches(BEFORE_ALL, again.last_zxid(), 1 << 20)) == before
    plain.unlink()
    after = read(again.stretches(BEFORE_ALL, again.last_zxid(), 1 << 20))
    assert [row[1:] for row in after] == [row[1:] for row in before]


def test_padding_is_not_read_over_and_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path, 0, 10)
    path.write_bytes(path.read_bytes() + PADDING)
    follower = LogFollower(str(tmp_path))
    last = follower.last_zxid()
    monkeypatch.setattr("simzk.pipeline.logs.sources.scan", None)  # nobody scans
    assert follower.last_zxid() == last


def test_a_folder_that_is_none_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="nowhere: it is no folder; expected one data directory"):
        LogFollower(str(tmp_path / "nowhere"))
    (tmp_path / "version-2").mkdir()
    follower = LogFollower(str(tmp_path))
    assert (follower.first_zxid(), follower.last_zxid()) == (BEFORE_ALL, BEFORE_ALL)
