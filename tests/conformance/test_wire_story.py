"""The recorded story of requests, asked over TCP again by the program that recorded it, at brokers of ten releases.

    SIMZK_ORACLE_WIRE=FOLDER SIMZK_WIRE_STORY=FOLDER KAFKA_MESSAGES=JAR pytest tests/conformance/test_wire_story.py -rP

with the folder of the recordings, that of the program, and the jar of kafka-clients 3.9 with the message definitions
that the program reads. It takes two minutes for each release, mostly waiting; `-n 2` plays two at a time, `-k 3.9` one.
SIMZK_WIRE_PLAYED names a folder with what `wire_story.py` has played before, which is compared and not played again.

An exchange is equal, or `wire_story_differences.py` explains each place that differs. What the table allows depends on
moments: a busy machine may differ in a step that no row names. Play it again before you believe that.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.conformance.wire_story import MESSAGES, PASSES, PROGRAM, RECORDINGS
from tests.conformance.wire_story_comparison import Difference, compare, read, timelines
from tests.conformance.wire_story_differences import ENDS, Cause, Row, cause_of, unexplained
from tests.kafka.client_requests.recorded import RELEASES

PLAYED = "SIMZK_WIRE_PLAYED"
ROOT = Path(__file__).resolve().parents[2]
LIMIT_S = 900
SHOWN = 20
"""Differences that a failure shows."""


@pytest.mark.by_hand(RECORDINGS)
@pytest.mark.by_hand(PROGRAM)
@pytest.mark.timeout(LIMIT_S)
@pytest.mark.parametrize("number", PASSES)
@pytest.mark.parametrize("release", RELEASES)
def test_brokers_answer_as_recorded(release: str, number: int, tmp_path: Path) -> None:
    name = PASSES[number]
    folder = Path(os.environ[PLAYED]) / release if PLAYED in os.environ else tmp_path
    if PLAYED not in os.environ:
        assert os.environ.get(MESSAGES), f"{MESSAGES} names no jar with message definitions"
        # In a process of its own, because the program leaves connections open.
        words = [sys.executable, "-m", "tests.conformance.wire_story", release, str(number), str(folder)]
        subprocess.run(words, cwd=ROOT, check=True)
    (file,) = (Path(os.environ[RECORDINGS]) / release).glob(f"{name}.jsonl*")
    recorded, played = read(file), read(folder / f"{name}.jsonl")
    equal, found = compare(recorded, played)
    causes = Counter(cause_of(release, one) for one in found)
    wanted, shown = timelines(recorded), timelines(played)
    ends = [key for key, states in wanted.items() if shown[key][-1:] != states[-1:]]
    same = sum(shown[key] == states for key, states in wanted.items())
    print(f"{release}, {name}: {equal} of {equal + len(found)} exchanges are equal")
    for cause, count in causes.most_common():
        print(f"  {count} {cause.name if cause else 'not explained'}")
    print(f"  {len(wanted) - len(ends)} of {len(wanted)} timelines end alike, {same} are the same")
    left = [one for one in found if cause_of(release, one) is None]
    assert left == [], "\n".join(_text(release, one) for one in left[:SHOWN])
    assert [key for key in ends if (release, key[0]) not in ENDS] == []


def _text(release: str, difference: Difference) -> str:
    step, role, api, version, place = difference.key
    places = [f"\n  {path}: recorded {old}, simulated {new}" for path, old, new in unexplained(release, difference)]
    return f"{step} | {role} | {api} v{version} #{place}" + "".join(places)[:1000]


def test_a_place_that_no_row_explains_leaves_the_exchange_unexplained() -> None:
    key = ("down: produce", 1, "Produce", 11, 1)
    explained = ("response.Responses[m0].PartitionResponses[0].ErrorCode", 0, 7)
    other = ("response.Responses[m0].PartitionResponses[0].BaseOffset", 4, 5)
    assert cause_of("3.9.1", Difference(key, [explained], None, None)) == Cause.ELECTION
    assert cause_of("3.9.1", Difference(key, [explained, other], None, None)) is None
    assert unexplained("3.9.1", Difference(key, [explained, other], None, None)) == [other]


def test_rows_are_compared_with_whole_texts() -> None:
    step = ("before: fetch", 1, "Fetch", 11, 1)
    place = ("response.Responses[m0].Partitions[0].HighWatermark", 4, 5)
    assert cause_of("3.9.1", Difference(step, [place], None, None)) == Cause.WATERMARK
    assert cause_of("3.9.1", Difference(("x " + step[0], *step[1:]), [place], None, None)) is None
    assert Row(Cause.WATERMARK, "a", "b").path == ".*"


def _line(step: str, response: object, **more: object) -> dict[str, object]:
    return {"step": step, "broker": 1, "api": "Metadata", "version": 9, "response": response, "request": {}, **more}


def test_exchanges_are_paired_and_compared_without_chance() -> None:
    def metadata(host: str, topic_id: str, error: int, order: int) -> dict[str, object]:
        brokers = [{"NodeId": 1, "Host": host}, {"NodeId": 2, "Host": host}][::order]
        partition = {"ErrorCode": error, "PartitionIndex": 0, "LeaderId": 1, "ReplicaNodes": [1, 2], "IsrNodes": [1]}
        return {"Brokers": brokers, "Topics": [{"Name": "m0", "TopicId": topic_id, "Partitions": [partition]}]}

    recorded = [_line("metadata: all", metadata("a", "i" * 22, 0, 1)), _line("metadata: all", {"Topics": []})]
    same = [_line("metadata: all", metadata("b", "j" * 22, 0, -1))]
    other = [_line("metadata: all", metadata("b", "j" * 22, 5, -1))]
    equal, found = compare(recorded, same)
    assert (equal, [one.places for one in found]) == (1, [[("", {"response": {"Topics": []}}, "not asked")]])
    _, found = compare(recorded[:1], other)
    assert [one.places for one in found] == [[("response.Topics[m0].Partitions[0].ErrorCode", 0, 5)]]
    assert timelines([_line("watch it", metadata("a", "i" * 22, 0, 1))] * 2) == {
        ("watch it", 1): [[["m0", 0, 1, [1], [1, 2], 0]]]
    }
