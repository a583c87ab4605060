"""Spark data source `zookeeper`: the tree of a live server as rows with the columns of `zookeeper_snapshot`.

Options: `hosts`; `chroot`; the topmost znode (`load(path)`, default `/`); `auth` as `SCHEME:CREDENTIAL`;
`numPartitions` (tasks with one session each, default 4), `maxInFlight` (requests in flight per task, default 32) and
`pauseMs` (pause between batches, default 0); `mode` for unreadable znodes. Filters on `path`, by equality or prefix,
skip other subtrees. The rules of the reads are those of `live_tree`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql.datasource import DataSource, DataSourceReader, EqualTo, Filter, In, InputPartition, StringStartsWith
from pyspark.sql.pandas.types import from_arrow_schema

from simzk.errors import ConfigError
from simzk.pipeline.data_source import batches, mode_of, number, sound
from simzk.pipeline.logs.live_tree import IN_FLIGHT, Guest, Portion, is_there, session, split, tree_rows
from simzk.pipeline.logs.tables import snapshot_schema
from simzk.zookeeper.znode import is_valid_path

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import pyarrow as pa
    from kazoo.client import KazooClient
    from pyspark.sql.types import StructType

TASKS = 4
"""Default number of concurrent sessions, small to limit the load on the server."""


class Options(NamedTuple):
    """Options of a reader: the server and the limits on requests.

    Args:
        hosts: hosts with the chroot.
        auth: `SCHEME:CREDENTIAL`, or empty.
        root: the topmost znode.
        tasks: maximum number of concurrent sessions.
        in_flight: requests in flight per session.
        pause_ms: pause between batches.
        mode: treatment of unreadable znodes.
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
        """Return the name of the format."""
        return "zookeeper"

    def schema(self) -> StructType:
        """Return the columns of `simzk.pipeline.logs.tables.snapshot_schema`."""
        return from_arrow_schema(snapshot_schema())

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return a reader of the server named by the options."""
        hosts, chroot = self.options.get("hosts"), self.options.get("chroot", "")
        root, auth = self.options.get("path", "/"), self.options.get("auth", "")
        if hosts is None:
            raise ConfigError("zookeeper reads a live server", right='option("hosts", "HOST:PORT,HOST:PORT")')
        if chroot and "/" in hosts:
            raise ConfigError(f"{hosts!r} already contains a chroot", where="chroot", right="one of them")
        for name, text in (("chroot", chroot), ("path", root)):
            if text and (not text.startswith("/") or (text.endswith("/") and text != "/")):
                raise ConfigError(f"{text!r} is no znode's path", where=name, right='a path such as "/brokers"')
        if auth and ":" not in auth:
            raise ConfigError("it has no scheme", where="auth", right="SCHEME:CREDENTIAL, such as digest:user:password")
        return LiveReader(
            Options(
                hosts=f"{hosts}{chroot}",
                auth=auth,
                root=root,
                tasks=number(self.options, "numPartitions", TASKS),
                in_flight=number(self.options, "maxInFlight", IN_FLIGHT),
                pause_ms=number(self.options, "pauseMs", 0, least=0),
                mode=mode_of(self.options),
            )
        )


class LiveReader(DataSourceReader):
    """Reader that splits the tree by its upper levels and reads one portion per task."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.prefix = ""
        self.paths: frozenset[str] | None = None

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802  # Spark's name
        """Use the filters that skip subtrees; Spark applies all filters again."""
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
        """Return the portions of the tree, at least one because Spark starts no job without."""
        with session(self.options.hosts, self.options.auth) as client:
            portions = self._portions(self._guest(client))
        return [InputPartition(portion) for portion in portions or [Portion((), ())]]

    def _portions(self, guest: Guest) -> list[Portion]:
        root = self.options.root
        if self.paths is not None:
            wanted = [path for path in sorted(self.paths) if path.startswith(self.prefix) and is_valid_path(path)]
            inside = [path for path in wanted if _is_in(path, root)]
            return [Portion(tuple(inside), ())] if inside else []
        # What the prefix names last may be the beginning of a name; what stands before it is a znode.
        above = self.prefix.rpartition("/")[0] or "/"
        if not self.prefix or _is_in(root, above):
            begins = self.prefix if root == above else ""
            return split(guest, root, self.options.tasks, begins) if root.startswith(self.prefix) or begins else []
        if not _is_in(above, root) or not is_there(guest, above):
            return []
        return split(guest, above, self.options.tasks, self.prefix)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one portion."""
        with session(self.options.hosts, self.options.auth) as client:
            rows = tree_rows(self._guest(client), self.options.hosts, partition.value)
            yield from batches(sound(rows, self.options.mode), snapshot_schema())

    def _guest(self, client: KazooClient) -> Guest:
        return Guest(client, self.options.in_flight, self.options.pause_ms / 1000)


def _is_in(path: str, root: str) -> bool:
    """Return whether a znode is in a subtree.

    >>> _is_in("/a/b", "/a"), _is_in("/ab", "/a"), _is_in("/a", "/")
    (True, False, True)
    """
    return path == root or path.startswith(f"{root.rstrip('/')}/")
