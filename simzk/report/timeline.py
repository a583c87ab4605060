"""What held from when to when, as a heat map: a row a thing, a colour a state, time to the right.

A table of spans has the columns `row`, `from_s`, `until_s` (of virtual time, or since 1970), `state` (what decides the
colour) and `told` (what a reader sees who points at it). Spans of one row do not overlap; where a
row has none, there is nothing.
"""

from __future__ import annotations

from bisect import bisect_left
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from simzk.report.table import length

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from simzk.report.table import Columns

PALETTE = ("#4c78a8", "#72b7b2", "#54a24b", "#b279a2", "#eeca3b", "#9d755d", "#f58518", "#79706e", "#ff9da6", "#d67195")
"""The colours of states that have none of their own, in turn."""

ROW_PX, AROUND_PX, LEGEND_PX = 22, 110, 60


def to_date(at_s: float) -> str:
    """Seconds since 1970 as plotly takes an instant.

    >>> to_date(1.5)
    '1970-01-01 00:00:01.500'
    """
    return datetime.fromtimestamp(at_s, UTC).isoformat(" ", "milliseconds").removesuffix("+00:00")


def to_html(spans: Columns, *, name: str, colours: Mapping[str, str], dated: bool = False) -> str:
    """Spans as a heat map, to be shown in a page that has plotly's script.

    Args:
        spans: the table.
        name: of the plot, unique in its page.
        colours: of states; others take the next of `PALETTE`, in the order in which they come.
        dated: whether the times are since 1970.
    """
    from plotly import graph_objects

    if not length(spans):
        return ""
    rows = list(dict.fromkeys(map(str, spans["row"])))
    states = _colours([str(state) for state in spans["state"]], colours)
    edges = sorted({float(str(at)) for column in ("from_s", "until_s") for at in spans[column]})
    z, told = _bricks(spans, rows, list(states), edges, to_date if dated else _virtual)
    count = len(states)
    # One step a state, from edge to edge, so that no two colours mix.
    scale = [(edge / count, colour) for at, colour in enumerate(states.values()) for edge in (at, at + 1)]
    heatmap = graph_objects.Heatmap(
        x=[to_date(edge) for edge in edges] if dated else edges,
        y=rows,
        z=z,
        text=told,
        hovertemplate="%{y}<br>%{text}<extra></extra>",
        hoverongaps=False,
        colorscale=scale,
        zmin=-0.5,
        zmax=count - 0.5,
        colorbar={
            "tickvals": list(range(count)),
            "ticktext": list(states),
            "lenmode": "pixels",
            "len": 60 + 22 * count,
        },
        ygap=2,
    )
    figure = graph_objects.Figure(heatmap)
    figure.update_layout(
        height=AROUND_PX + max(ROW_PX * len(rows), LEGEND_PX + ROW_PX * count),
        margin={"l": 10, "r": 10, "t": 10, "b": 40},
        xaxis_title="time, UTC" if dated else "virtual time, s",
        yaxis={"type": "category", "autorange": "reversed", "automargin": True},
        template="none",
    )
    html: str = figure.to_html(full_html=False, include_plotlyjs=False, div_id=name, config={"displaylogo": False})
    return html


def _colours(states: Sequence[str], given: Mapping[str, str]) -> dict[str, str]:
    found = dict.fromkeys(states)
    free = [state for state in found if state not in given]
    own = {state: PALETTE[at % len(PALETTE)] for at, state in enumerate(sorted(free))}
    return {state: given.get(state) or own[state] for state in sorted(found)}


def _virtual(at_s: float) -> str:
    return f"{at_s:.3f} s"


def _bricks(
    spans: Columns, rows: list[str], states: list[str], edges: list[float], instant: Callable[[float], str]
) -> tuple[list[list[int | None]], list[list[str]]]:
    """The number of the state, and what is told, by row and by the time between two edges."""
    wide = max(len(edges) - 1, 0)
    z: list[list[int | None]] = [[None] * wide for _ in rows]
    told = [[""] * wide for _ in rows]
    at_row = {row: at for at, row in enumerate(rows)}
    at_state = {state: at for at, state in enumerate(states)}
    columns = (spans[name] for name in ("row", "from_s", "until_s", "state", "told"))
    for row, from_s, until_s, state, said in zip(*columns, strict=True):
        begin, end = float(str(from_s)), float(str(until_s))
        first, last = bisect_left(edges, begin), bisect_left(edges, end)
        when = f"{instant(begin)} to {instant(end)}: {said}"
        for at in range(first, last):
            z[at_row[str(row)]][at] = at_state[str(state)]
            told[at_row[str(row)]][at] = when
    return z, told
