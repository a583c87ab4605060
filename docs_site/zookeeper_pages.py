"""Pages of ZooKeeper's requests and errors, of faults, and of the keys of zoo.cfg."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING

from msgspec import structs

from docs_site.markdown import arguments, code, description, page, table
from simzk.scenarios.faults.plan import PLAN_KINDS
from simzk.serve.configuration.keys import KEYS, Key, not_no, yes
from simzk.serve.configuration.settings import Settings, Storage, Throttle
from simzk.serve.configuration.zoo_cfg import parse_zoo_cfg
from simzk.simulation.request_faults import REQUEST_FAULTS
from simzk.zookeeper.acl import ADMIN, CREATE, DELETE, READ, WRITE
from simzk.zookeeper.config import ServerConfig
from simzk.zookeeper.operations import OPERATIONS, Kind
from simzk.zookeeper.replies import Code

if TYPE_CHECKING:
    from simzk.scenarios.faults.fault import Fault

_PERMISSIONS = {READ: "READ", WRITE: "WRITE", CREATE: "CREATE", DELETE: "DELETE", ADMIN: "ADMIN"}
_SETTINGS = {"settings": Settings, "server": ServerConfig, "storage": Storage, "throttle": Throttle}


def requests_page() -> str:
    """Return the page of ZooKeeper's requests and error codes."""
    rows = [
        (
            str(row.opcode),
            code(row.request.__name__),
            code(row.name),
            row.kind.value,
            " or ".join(word for bit, word in _PERMISSIONS.items() if row.permission & bit)
            + (f" on the {row.place}" if row.place else ""),
        )
        for row in OPERATIONS
    ]
    kinds = arguments(Kind)
    return page(
        "ZooKeeper requests",
        "The requests that simzk answers, and the error codes of its replies. The name is the `op` of fault rules and "
        "of `requests(...)`: kazoo's method, or the protocol's name. How each request is answered is in "
        "[the reference of ZooKeeper](zookeeper.md#15-opcodes).",
        "## Requests",
        table(["opcode", "request", "name", "kind", "permission"], rows),
        "## Kinds",
        table(["kind", "meaning"], [(kind.value, kinds[kind.name]) for kind in Kind]),
        "## Error codes",
        table(["code", "name"], [(str(int(error)), code(error.name)) for error in Code]),
    )


def faults_page() -> str:
    """Return the page of faults on requests, and of the random faults of a run."""
    rows = [
        (
            code(name),
            description(kind),
            code(f"{kind.parameter}: {kind.parameter_type.__name__}") if kind.parameter else "",
            code(f"POST /faults/{kind.endpoint or name}"),
        )
        for name, kind in REQUEST_FAULTS.items()
    ]
    return page(
        "Kinds of fault",
        "Faults on requests apply to any ZooKeeper of simzk, and random faults to the brokers of a simulated cluster. "
        "[Faults](../faults.md) shows how to use them.",
        "## Faults on requests",
        "Each is a method of `faults` with the name of the fault, and an endpoint of the AdminServer.",
        table(["fault", "effect", "parameter", "endpoint"], rows),
        "## Random faults of a run",
        "A plan file names these (`simzk run --plan`); a scenario with a table `[faults]` draws them from the "
        "seed, those of clients with `[faults.traffic]`.",
        table(
            ["kind", "effect", "keys beside `at`"],
            [(code(name), description(kind), _keys_of(kind)) for name, kind in PLAN_KINDS.items()],
        ),
    )


def _keys_of(kind: type[Fault]) -> str:
    """Return the keys of a kind of fault in a plan file, those with a default in brackets."""
    fields = [info for info in structs.fields(kind) if info.name not in ("kind", "at")]
    return ", ".join(
        code(info.encode_name) if info.required else f"[{code(info.encode_name)}]"
        for info in sorted(fields, key=lambda info: not info.required)
    )


def zoo_cfg_page() -> str:
    """Return the page of the keys of zoo.cfg with an effect: what each accepts, and its default."""
    plain = parse_zoo_cfg("dataDir=/data\nclientPort=2181\n")
    defaults = {"settings": plain, "server": plain.server, "storage": plain.storage, "throttle": Throttle()}
    rows = []
    for name, key in KEYS.items():
        is_known = key.of in defaults and name not in GIVEN
        default = _shown(getattr(defaults[key.of], key.name), key) if is_known else ""
        rows.append((code(name), _accepted(key), default, _meaning(name, key)))
    return page(
        "zoo.cfg keys",
        "The keys of zoo.cfg that have an effect, with what the reader of each value accepts and the default of a "
        "server that is started with `--config`. [zoo.cfg](../zoo_cfg.md) tells what they do, which keys are accepted "
        "without an effect, and which are refused.",
        table(["key", "accepts", "default", "setting"], rows),
    )


GIVEN = ("dataDir", "clientPort")
"""Keys that the file of the defaults must give."""


def _accepted(key: Key) -> str:
    """Return what the reader of a value accepts, from its docstring or its error."""
    text = inspect.getdoc(key.read) or ""
    if text.startswith("Read ") and key.read.__module__ == Key.__module__:
        return description(key.read).removeprefix("Read ").rstrip(".")
    try:
        key.read("\0true")
        key.read("true")
    except ValueError as error:
        return str(error)
    return "any text" if key.name else ""


def _shown(value: object, key: Key) -> str:
    """Return a default as the file would give it."""
    if value is None or value == "":
        return "none"
    if isinstance(value, bool):
        words = ("no", "yes") if key.read in (yes, not_no) else ("false", "true")
        return code(words[value])
    return code(value)


def _meaning(name: str, key: Key) -> str:
    holder = _SETTINGS.get(key.of)
    text = "" if holder is None else arguments(holder).get(key.name, "")
    return text.replace(f" ({name})", "").replace(f" (zookeeper.{name})", "")
