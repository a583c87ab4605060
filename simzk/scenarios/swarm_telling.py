"""What runs came to, as lines on a screen."""

from __future__ import annotations

from typing import TYPE_CHECKING

from simzk.scenarios.swarm import EVENTS, FAILED, HELD, SETTLED_MS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from simzk.scenarios.swarm import OutcomeRow
    from simzk.scenarios.telling import Line

_NUMBERS = {EVENTS: "events a run", SETTLED_MS: "expectations: held at, ms of virtual time"}
_HEADINGS = ("least", "median", "p90", "p99", "most", "seed")
_NAME_WIDTH, _WIDTH = 60, 9


def distribution(rows: Iterable[OutcomeRow]) -> list[Line]:
    """Tell how often each thing failed, and the order of each number over the runs; a seed that shows the most."""
    lines: list[Line] = []
    file, kind = "", ""
    for row in rows:
        if row.file != file:
            file, kind = row.file, ""
            lines.append([(f"{file}: {row.of:,} runs", "bold")])
        if row.kind in (HELD, FAILED):
            told, style = ("hold", "green") if row.kind == HELD else (f"fail in {row.name}, seed {row.seed}", "red")
            lines.append([(f"  {row.runs:,} ({row.runs / row.of:.2%}) {told}", style)])
            continue
        if row.kind != kind:
            kind = row.kind
            headings = "".join(heading.rjust(_WIDTH) for heading in _HEADINGS)
            lines.append([(f"  {_NUMBERS[kind]:<{_NAME_WIDTH}}{headings}", "bold")])
        numbers = (row.least, row.median, row.p90, row.p99, row.most, row.seed)
        name = row.name if len(row.name) < _NAME_WIDTH - 2 else f"{row.name[: _NAME_WIDTH - 5]}..."
        lines.append([(f"    {name:<{_NAME_WIDTH - 2}}{''.join(f'{number:>{_WIDTH},}' for number in numbers)}", "")])
    return lines
