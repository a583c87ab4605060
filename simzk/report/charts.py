"""Charts of a page: heat maps of states over time, bars and areas.

A table of spans has the columns `row`, `from_s`, `until_s` (of virtual time, or since 1970), `state` (what decides the
colour) and `label` (the text shown for the span under the pointer). Spans of one row do not overlap; where a
row has none, there is nothing.

Bars and areas: numbers beside each other, and numbers over time; plotly's, to be shown in a page with its script.
"""

from __future__ import annotations

from bisect import bisect_left
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from simzk.report.table import length

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from simzk.report.table import Columns

PALETTE = ("#4c78a8", "#72b7b2", "#54a24b", "#b279a2", "#eeca3b", "#9d755d", "#f58518", "#79706e", "#ff9da6", "#d67195")
"""Colours for states without a colour of their own, in turn."""

ROW_PX, AROUND_PX, LEGEND_PX = 22, 110, 60


def to_date(at_s: float) -> str:
    """Return seconds since 1970 as a date for plotly.

    >>> to_date(1.5)
    '1970-01-01 00:00:01.500'
    """
    return datetime.fromtimestamp(at_s, UTC).isoformat(" ", "milliseconds").removesuffix("+00:00")


def to_html(spans: Columns, *, name: str, colours: Mapping[str, str], dated: bool = False) -> str:
    """Return spans as a heat map, for a page with plotly's script.

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
    z, labels = _bricks(spans, rows, list(states), edges, to_date if dated else _virtual)
    count = len(states)
    # One step a state, from edge to edge, so that no two colours mix.
    scale = [(edge / count, colour) for at, colour in enumerate(states.values()) for edge in (at, at + 1)]
    heatmap = graph_objects.Heatmap(
        x=[to_date(edge) for edge in edges] if dated else edges,
        y=rows,
        z=z,
        text=labels,
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
    return _html(figure, name)


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
    """Return the number of the state and its text, by row and by interval between two edges."""
    wide = max(len(edges) - 1, 0)
    z: list[list[int | None]] = [[None] * wide for _ in rows]
    labels = [[""] * wide for _ in rows]
    at_row = {row: at for at, row in enumerate(rows)}
    at_state = {state: at for at, state in enumerate(states)}
    columns = (spans[name] for name in ("row", "from_s", "until_s", "state", "label"))
    for row, from_s, until_s, state, said in zip(*columns, strict=True):
        begin, end = float(str(from_s)), float(str(until_s))
        first, last = bisect_left(edges, begin), bisect_left(edges, end)
        when = f"{instant(begin)} to {instant(end)}: {said}"
        for at in range(first, last):
            z[at_row[str(row)]][at] = at_state[str(state)]
            labels[at_row[str(row)]][at] = when
    return z, labels


BAR_PX, UPRIGHT_PX = 24, 340

MOST_UPRIGHT = 60
"""Maximum number of rows shown as vertical bars; more are lines."""


class Bars(NamedTuple):
    """Bar chart: one bar or several side by side for each row of a table.

    Args:
        columns: the table.
        name: of the plot, unique in its page.
        label: the column that says what each row is.
        series: columns of numbers, in order, with their colours; `X_low` and `X_high` beside `X` are its interval.
        axis: what the numbers are, with their unit.
        upright: whether the bars stand, which many rows fit in; else they lie, and labels can be long.
        log: whether the axis is logarithmic; what is not above zero has no bar then.
        stacked: whether the series of a row add up.
    """

    columns: Columns
    name: str
    label: str
    series: Mapping[str, str]
    axis: str
    upright: bool = False
    log: bool = False
    stacked: bool = False

    def to_html(self) -> str:
        """Return the HTML; empty for a table without rows."""
        from plotly import graph_objects

        rows = length(self.columns)
        if not rows:
            return ""
        labels = [str(label) for label in self.columns[self.label]]
        as_lines = self.upright and rows > MOST_UPRIGHT
        draw = self._line if as_lines else self._bar
        figure = graph_objects.Figure([draw(graph_objects, name, labels) for name in self.series])
        numbers: dict[str, Any] = {
            "title": self.axis,
            "type": "log" if self.log else "linear",
            "rangemode": "normal" if as_lines else "tozero",
        }
        if self.log:
            numbers |= {"exponentformat": "power", "dtick": 1}
        names: dict[str, Any] = {"type": "category", "automargin": True}
        if self.upright:
            names |= {"title": self.label, "nticks": 30}
        else:
            names["autorange"] = "reversed"
        lying_px = AROUND_PX + BAR_PX * rows * (1 if self.stacked else len(self.series))
        figure.update_layout(
            height=UPRIGHT_PX if self.upright else lying_px,
            xaxis=names if self.upright else numbers,
            yaxis=numbers if self.upright else names,
            barmode="stack" if self.stacked else "group",
            bargap=0.25,
            **_LOOKS,
        )
        return _html(figure, self.name)

    def _bar(self, graph_objects: Any, name: str, labels: Sequence[str]) -> Any:
        values = [value if value or not self.log else None for value in self.columns[name]]
        lying = {} if self.upright else {"orientation": "h"}
        x, y = (labels, values) if self.upright else (values, labels)
        hover = "%{x}: %{y:,.4~g}" if self.upright else "%{y}: %{x:,.4~g}"
        bar = graph_objects.Bar(
            x=x,
            y=y,
            name=name,
            marker={"color": self.series[name]},
            hovertemplate=f"{hover} {name}<extra></extra>",
            **lying,
        )
        if f"{name}_low" in self.columns:
            low, high = (_floats(self.columns[f"{name}_{end}"]) for end in ("low", "high"))
            at = _floats(self.columns[name])
            interval = {
                "type": "data",
                "symmetric": False,
                "array": [most - value for value, most in zip(at, high, strict=True)],
                "arrayminus": [value - least for value, least in zip(at, low, strict=True)],
            }
            bar.update({"error_y" if self.upright else "error_x": interval})
        return bar

    def _line(self, graph_objects: Any, name: str, labels: Sequence[str]) -> Any:
        return graph_objects.Scatter(
            x=labels,
            y=list(self.columns[name]),
            name=name,
            mode="lines",
            line={"shape": "hvh", "width": 1.5, "color": self.series[name]},
            hovertemplate=f"%{{x}}: %{{y:,.4~g}} {name}<extra></extra>",
        )


class Areas(NamedTuple):
    """Stacked areas of numbers over time, constant from one row to the next.

    Args:
        columns: the table; `at_s` are seconds since 1970.
        name: of the plot, unique in its page.
        series: columns of numbers, the lowest first, with their colours.
        axis: what the numbers are, with their unit.
    """

    columns: Columns
    name: str
    series: Mapping[str, str]
    axis: str

    def to_html(self) -> str:
        """Return the HTML; empty for a table without rows."""
        from plotly import graph_objects

        if not length(self.columns):
            return ""
        times = [to_date(at_s) for at_s in _floats(self.columns["at_s"])]
        areas = [
            graph_objects.Scatter(
                x=times,
                y=list(self.columns[name]),
                name=name,
                stackgroup="one",
                line={"shape": "hv", "width": 1, "color": colour},
                fillcolor=colour,
                hovertemplate=f"%{{y:,.4~g}} {name}<extra></extra>",
            )
            for name, colour in self.series.items()
        ]
        figure = graph_objects.Figure(areas)
        figure.update_layout(
            height=UPRIGHT_PX,
            xaxis={"title": "time, UTC", "type": "date"},
            yaxis={"title": self.axis, "rangemode": "tozero"},
            hovermode="x unified",
            **_LOOKS,
        )
        return _html(figure, self.name)


_LOOKS: Mapping[str, Any] = {
    "margin": {"l": 60, "r": 10, "t": 30, "b": 50},
    "legend": {"orientation": "h", "x": 0, "y": 1, "yanchor": "bottom", "traceorder": "normal"},
    "showlegend": True,
    "template": "none",
}


def _floats(column: Sequence[object]) -> list[float]:
    return [float(str(value)) for value in column]


def _html(figure: Any, name: str) -> str:
    html: str = figure.to_html(full_html=False, include_plotlyjs=False, div_id=name, config={"displaylogo": False})
    return html
