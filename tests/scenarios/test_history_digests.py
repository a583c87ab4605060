"""The command that compares what random runs of two trees come to."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.scenarios.history_digests import PARTS, differences, main, play_to_the_end

if TYPE_CHECKING:
    from pathlib import Path

LINE = "anything_breaks 3.9 1 700 aa bb cc dd"


@pytest.mark.parametrize("place", range(len(PARTS)))
def test_each_part_that_differs_is_named(place: int) -> None:
    words = LINE.split()
    words[4 + place] = "ee"
    assert differences(LINE, " ".join(words)) == [f"anything_breaks 3.9 seed 1: {PARTS[place]}"]


def test_a_difference_fails_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = [tmp_path / name for name in ("old", "same", "new", "empty")]
    for file, text in zip(files, (LINE, LINE, LINE.replace("700", "701"), ""), strict=True):
        file.write_text(text)
    old, same, new, empty = map(str, files)
    assert main(["compare", old, same]) == 0
    assert main(["compare", old, new]) == 1
    assert main(["compare", old, empty]) == 1
    assert main(["compare", empty, empty]) == 1, "no runs were compared"
    assert "events 700 -> 701" in capsys.readouterr().out


@pytest.mark.slow
def test_no_part_of_a_run_is_empty() -> None:
    events, parts = play_to_the_end("anything_breaks_records", "3.9", 1)
    assert len(parts["history"].splitlines()) == events > 0
    assert all(len(text.splitlines()) > 4 for text in parts.values())
    assert "RecordBatch(" in parts["logs"]
