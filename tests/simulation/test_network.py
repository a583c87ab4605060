"""Links keep the order of messages, and fail exactly as the fault plan says."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from simzk.simulation import Network, RandomStream, Scheduler
from simzk.simulation.network import UniformLatency


class Wire:
    """A network of one link, and what arrived over it."""

    def __init__(self, seed: int = 1, latency_us: tuple[int, int] = (100, 900)) -> None:
        self.scheduler = Scheduler(seed)
        self.network = Network(self.scheduler, latency_us=latency_us)
        self.arrived: list[tuple[str, int]] = []

    def send(self, text: str, source: str = "a", target: str = "b") -> None:
        self.network.send(source, target, lambda: self.arrived.append((text, self.scheduler.now_us)))

    def run(self, duration_us: int = 10_000) -> list[str]:
        self.scheduler.run_until(self.scheduler.now_us + duration_us)
        self.network.check()
        return [text for text, _ in self.arrived]


@given(st.integers(0, 2**32), st.lists(st.integers(0, 300), max_size=30), st.integers(0, 500), st.integers(0, 500))
def test_a_link_is_first_in_first_out(seed: int, gaps_us: list[int], low_us: int, span_us: int) -> None:
    wire = Wire(seed, (low_us, low_us + span_us))
    sent_us: list[int] = []
    for index, gap_us in enumerate(gaps_us):
        wire.scheduler.run_until(wire.scheduler.now_us + gap_us)
        sent_us.append(wire.scheduler.now_us)
        wire.send(str(index))
    assert wire.run() == [str(index) for index in range(len(gaps_us))]
    latencies = RandomStream(seed, "network/a->b")
    expected_us = 0
    for (_, arrived_us), at_us in zip(wire.arrived, sent_us, strict=True):
        expected_us = max(expected_us, at_us + latencies.between(low_us, low_us + span_us))
        assert arrived_us == expected_us


def test_traffic_on_one_link_changes_no_latency_of_another() -> None:
    alone, busy = Wire(), Wire()
    for index in range(10):
        busy.send("noise", "c", "b")
        alone.send(str(index))
        busy.send(str(index))
    alone.run()
    busy.run()
    assert [entry for entry in busy.arrived if entry[0] != "noise"] == alone.arrived


def test_a_cut_loses_what_is_under_way_and_what_is_sent() -> None:
    wire = Wire()
    wire.send("under way")
    wire.network.cut("a", "b")
    assert wire.network.is_cut("a", "b")
    assert wire.network.is_cut("b", "a")
    wire.send("sent")
    assert wire.run() == []
    wire.network.heal("a", "b")
    assert not wire.network.is_cut("a", "b")
    wire.send("after")
    assert wire.run() == ["after"]


def test_one_end_or_no_end_heals_all_its_links() -> None:
    network = Wire().network
    for source, target in (("a", "b"), ("b", "c"), ("c", "d")):
        network.cut(source, target)
    network.heal("b")
    pairs = (("a", "b"), ("b", "a"), ("c", "b"), ("c", "d"))
    assert [network.is_cut(*pair) for pair in pairs] == [False, False, False, True]
    network.heal()
    assert not network.is_cut("d", "c")
    assert network.is_undisturbed


def test_what_is_sent_after_a_heal_takes_its_own_time() -> None:
    wire = Wire(latency_us=(500, 500))
    wire.send("lost")
    wire.scheduler.run_until(100)
    wire.network.cut("a", "b")
    wire.network.heal("a", "b")
    wire.send("kept")
    wire.run()
    assert wire.arrived == [("kept", 600)]


def test_a_cut_of_one_direction_leaves_the_other() -> None:
    wire = Wire()
    wire.network.cut("a", "b", both=False)
    wire.send("there")
    wire.send("back", "b", "a")
    assert wire.run() == ["back"]


def test_a_hold_keeps_order_and_loses_nothing() -> None:
    wire = Wire()
    wire.send("1")
    wire.network.hold("a", "b")
    wire.send("2")
    wire.send("3")
    assert wire.run() == ["1"]
    wire.network.release("a", "b")
    wire.send("4")
    assert wire.run() == ["1", "2", "3", "4"]


def test_drop_next_loses_so_many() -> None:
    wire = Wire()
    wire.network.drop_next("a", "b", 2)
    for text in "123":
        wire.send(text)
    assert wire.run() == ["3"]


def test_heal_all_ends_every_fault() -> None:
    wire = Wire()
    wire.network.cut("a", "b")
    wire.network.hold("c", "b")
    wire.network.drop_next("d", "b")
    wire.send("held", "c")
    wire.network.heal_all()
    wire.send("a")
    wire.send("d", "d")
    assert sorted(wire.run()) == ["a", "d", "held"]


def test_a_message_in_flight_keeps_its_latency_when_a_slow_link_is_healed() -> None:
    """As in the queue of Linux's netem; what is sent later arrives behind it, as over TCP."""
    scheduler = Scheduler(1)
    network = Network(scheduler, latency_us=(100, 100))
    arrived: list[tuple[int, str]] = []
    network.slow("a", "b", UniformLatency(5_000, 5_000))
    network.send("a", "b", lambda: arrived.append((scheduler.now_us, "slow")))
    scheduler.run_until(1_000)
    network.heal("a", "b")
    network.send("a", "b", lambda: arrived.append((scheduler.now_us, "behind")))
    scheduler.run_until(6_000)
    network.send("a", "b", lambda: arrived.append((scheduler.now_us, "fast")))
    scheduler.run_until(7_000)
    assert arrived == [(5_000, "slow"), (5_000, "behind"), (6_100, "fast")]
