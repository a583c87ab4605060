"""Iteration orders against what real scala-library versions gave: 120 cases for each of four versions."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import pytest

from simzk.partitions.scala_order import Scala, immutable_order, mutable_order

DATA = Path(__file__).parent / "data"
RELEASES: dict[Scala, str] = {"2.10": "2.10.6", "2.11": "2.11.12", "2.12": "2.12.10", "2.13": "2.13.14"}


def cases(scala: Scala) -> list[tuple[str, list[str], list[str]]]:
    inserted = (DATA / "map_order_cases.txt").read_text().splitlines()
    iterated = (DATA / f"map_order_{RELEASES[scala]}.txt").read_text().splitlines()
    return [
        (kind, keys.split(","), order.split(","))
        for (kind, _, keys), order in zip((line.partition("|") for line in inserted), iterated, strict=True)
    ]


@pytest.mark.parametrize("scala", get_args(Scala))
def test_orders_are_those_of_the_real_library(scala: Scala) -> None:
    assert {kind for kind, _, _ in cases(scala)} == {"imm", "mut", "setI"}
    for kind, keys, expected in cases(scala):
        match kind:
            case "imm":
                assert immutable_order(keys, scala) == expected
            case "mut":
                assert mutable_order(keys, scala) == expected
            case "setI":
                assert [str(key) for key in immutable_order(map(int, keys), scala)] == expected
