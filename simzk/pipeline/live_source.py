"""The Spark data source `zookeeper`: a live server's tree to rows, in the columns of `zookeeper_snapshot`.

Options: `hosts`, as clients write them; `chroot`; the topmost znode (`load(path)`, `/` where not given); `auth`, as
`SCHEME:CREDENTIAL`; `numPartitions` (tasks, each with a session of its own, 4), `maxInFlight` (requests under way at
once in a task, 32) and `pauseMs` (waited after each such lot, 0); `mode` for znodes that may not be read. Filters on
`path`, equal or by its beginning, leave out subtrees.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceReader, EqualTo, Filter, In, InputPartition, StringStartsWith
from pyspark.sql.pandas.types import from_arrow_schema

from simzk.errors import ConfigError
from simzk.pipeline.columns import batches
from simzk.pipeline.live_tree import IN_FLIGHT, Guest, Portion, is_there, session, split, tree_rows
from simzk.pipeline.options import mode_of, number, sound
from simzk.pipeline.snapshot_table import snapshot_schema
from simzk.tuples import NamedTuple
from simzk.zookeeper.paths import is_valid_path

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import pyarrow as pa
    from kazoo.client import KazooClient
    from pyspark.sql.types import StructType

TASKS = 4
"""Sessions that read at once where `numPartitions` is not given: a guest does not come with a crowd."""


class Manners(NamedTuple):
    """Whom to ask and how: a reader's options.

    Args:
        hosts: with the chroot.
        auth: `SCHEME:CREDENTIAL`, or empty.
        root: the topmost znode.
        tasks: the most sessions at once.
        in_flight: requests under way at once in each.
        pause_ms: waited after each such lot.
        mode: what is done with a znode that may not be read.
    """

    hosts: str
    auth: str
    root: str
    tasks: int
    in_flight: int
    pause_ms: int
    mode: str


class LiveSource(DataSource):
    """`spark.read.format("zookeeper")`."""

    @classmethod
    def name(cls) -> str:
        """The format's name."""
        return "zookeeper"

    def schema(self) -> StructType:
        """The columns of `simzk.pipeline.snapshot_table.snapshot_schema`."""
        return from_arrow_schema(snapshot_schema())

    def reader(self, schema: StructType) -> DataSourceReader:
        """A reader of the server that the options name."""
        hosts, chroot = self.options.get("hosts"), self.options.get("chroot", "")
        root, auth = self.options.get("path", "/"), self.options.get("auth", "")
        if hosts is None:
            raise ConfigError("zookeeper reads a live server", right='option("hosts", "HOST:PORT,HOST:PORT")')
        if chroot and "/" in hosts:
            raise ConfigError(f"{hosts!r} has a chroot already", where="chroot", right="one of them")
        for name, text in (("chroot", chroot), ("path", root)):
            if text and (not text.startswith("/") or (text.endswith("/") and text != "/")):
                raise ConfigError(f"{text!r} is no znode's path", where=name, right='a path such as "/brokers"')
        if auth and ":" not in auth:
            raise ConfigError("it has no scheme", where="auth", right="SCHEME:CREDENTIAL, such as digest:user:password")
        return LiveReader(
            Manners(
                hosts=f"{hosts}{chroot}",
                auth=auth,
                root=root,
                tasks=number(self.options, "numPartitions", TASKS),
                in_flight=number(self.options, "maxInFlight", IN_FLIGHT),
                pause_ms=number(self.options, "pauseMs", 0, least=0),
                mode=mode_of(self.options),
            )
        )


class SomeZnodes(InputPartition):
    """One task: a portion of the tree."""

    def __init__(self, portion: Portion) -> None:
        super().__init__(portion)
        self.portion = portion


class LiveReader(DataSourceReader):
    """Looks at the upper levels of the tree, deals its subtrees, and reads a portion where it is told to."""

    def __init__(self, manners: Manners) -> None:
        self.manners = manners
        self.prefix = ""
        self.paths: frozenset[str] | None = None

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802  # Spark's name
        """Take in what leaves out subtrees; Spark applies all of them once more."""
        for one in filters:
            match one:
                case EqualTo(("path",), str(path)):
                    self._narrow({path})
                case In(("path",), paths):
                    self._narrow({str(path) for path in paths})
                case StringStartsWith(("path",), str(prefix)):
                    self.prefix = max(self.prefix, prefix, key=len)
                case _:
                    pass
            yield one

    def _narrow(self, paths: set[str]) -> None:
        self.paths = frozenset(paths if self.paths is None else self.paths & paths)

    def partitions(self) -> Sequence[InputPartition]:
        """Portions of the tree; one at least, for Spark starts no job without."""
        with session(self.manners.hosts, self.manners.auth) as client:
            portions = self._portions(self._guest(client))
        return [SomeZnodes(portion) for portion in portions or [Portion((), ())]]

    def _portions(self, guest: Guest) -> list[Portion]:
        root = self.manners.root
        if self.paths is not None:
            wanted = [path for path in sorted(self.paths) if path.startswith(self.prefix) and is_valid_path(path)]
            inside = [path for path in wanted if _is_in(path, root)]
            return [Portion(tuple(inside), ())] if inside else []
        # What the prefix names last may be the beginning of a name; what stands before it is a znode.
        above = self.prefix.rpartition("/")[0] or "/"
        if not self.prefix or _is_in(root, above):
            begins = self.prefix if root == above else ""
            return split(guest, root, self.manners.tasks, begins) if root.startswith(self.prefix) or begins else []
        if not _is_in(above, root) or not is_there(guest, above):
            return []
        return split(guest, above, self.manners.tasks, self.prefix)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one portion."""
        assert isinstance(partition, SomeZnodes)
        with session(self.manners.hosts, self.manners.auth) as client:
            rows = tree_rows(self._guest(client), self.manners.hosts, partition.portion)
            yield from batches(sound(rows, self.manners.mode), snapshot_schema())

    def _guest(self, client: KazooClient) -> Guest:
        return Guest(client, self.manners.in_flight, self.manners.pause_ms / 1000)


def _is_in(path: str, root: str) -> bool:
    """Whether a znode is in a subtree.

    >>> _is_in("/a/b", "/a"), _is_in("/ab", "/a"), _is_in("/a", "/")
    (True, False, True)
    """
    return path == root or path.startswith(f"{root.rstrip('/')}/")
