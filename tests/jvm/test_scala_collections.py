"""Iteration orders against what real scala-library versions gave: 120 cases for each of four versions."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import pytest

from simzk.jvm.hash_codes import product_hash, string_hash
from simzk.jvm.scala_collections import Scala, immutable_order, long_map_order, mutable_order

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


def test_a_long_map_iterates_as_scalas_own() -> None:
    """Sizes and keys drawn, orders from `scala.collection.mutable.LongMap` of scala-library 2.13.18."""
    for line in (DATA / "long_map_2.13.18.txt").read_text().splitlines():
        size, keys, order = line.split(" | ")
        assert long_map_order([int(key) for key in keys.split()], int(size)) == [int(key) for key in order.split()]


@pytest.mark.parametrize(
    ("fields", "class_name", "plain", "named"),
    [
        ((1, 2), "Tuple2", 1411956066, 1316541600),
        ((string_hash("t1"), 0, 3), "Tuple3", -1827422028, -153649181),
        ((string_hash("orders"), -7), "Tuple2", -1633560911, 447006512),
    ],
)
def test_hashes_of_case_classes(fields: tuple[int, ...], class_name: str, plain: int, named: int) -> None:
    """As scala-library 2.13.18 computes productHash of the tuples, without and with the class's name."""
    assert product_hash(*fields) == plain
    assert product_hash(*fields, class_name=class_name) == named
