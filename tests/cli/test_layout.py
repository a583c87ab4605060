"""`simzk layout make`, `import` and `show`, as typed."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from simzk.partitions.layouts import brokers_in_racks, generate_layout, read_layout, summarize
from tests.partitions.layout_strategies import rows_of

if TYPE_CHECKING:
    from tests.cli.commands import Simzk

RECORDED = Path(__file__).parents[2] / "scenarios" / "layouts" / "kafka-3.9.1" / "dumps.json"

MAKE = [
    "layout",
    "make",
    "--brokers",
    "6",
    "--racks",
    "3",
    "--topics",
    "2",
    "--partitions",
    "40",
    "--rf",
    "3",
    "--seed",
    "7",
    "--min-insync-replicas",
    "2",
]


@pytest.mark.parametrize("form", [".parquet", ".json"])
def test_make_draws_what_it_is_asked_for(simzk: Simzk, tmp_path: Path, form: str) -> None:
    out = tmp_path / f"made{form}"
    assert simzk(*MAKE, "--out", out) == (0, f"wrote {out}: 40 partitions on 6 brokers\n", "")
    drawn = generate_layout(
        brokers_in_racks(6, 3), topics=2, partitions=40, replication_factor=3, seed=7, min_insync_replicas=2
    )
    assert rows_of(read_layout(out)) == rows_of(drawn)


def test_make_takes_what_a_cluster_can_be(simzk: Simzk, tmp_path: Path) -> None:
    """Uneven topics of several replication factors, gaps in ISRs, and a release that knows no racks."""
    out = tmp_path / "made.parquet"
    more = ["--rf", "3,2", "--topic-skew", "1", "--isr-gaps", "0.3", "--kafka-version", "0.9"]
    assert simzk(*MAKE, *more, "--out", out).status == 0
    drawn = generate_layout(
        brokers_in_racks(6, 3),
        topics=2,
        partitions=40,
        replication_factor=[3, 2],
        seed=7,
        min_insync_replicas=2,
        topic_skew=1.0,
        isr_gaps=0.3,
        rack_aware=False,
    )
    assert rows_of(read_layout(out)) == rows_of(drawn)
    facts = {" ".join(line.split()) for line in simzk("layout", "show", out).out.splitlines()}
    short = summarize(drawn).under_replicated
    assert 0 < short < 40
    assert {"replication factor 2 (14), 3 (26)", f"under-replicated {short} of 40 ({short / 40:.1%})"} <= facts, facts
    assert any(re.fullmatch(r"rack violations [1-9].*", fact) for fact in facts)


def test_the_same_seed_gives_the_same_bytes_in_any_process(tmp_path: Path) -> None:
    for name, hash_seed in (("one", "1"), ("two", "2")):
        subprocess.run(
            [
                sys.executable,
                "-c",
                "from simzk.cli import main; main()",
                *MAKE,
                "--out",
                str(tmp_path / f"{name}.parquet"),
            ],
            env={"PYTHONHASHSEED": hash_seed, "PATH": "/usr/bin:/bin"},
            check=True,
        )
    for suffix in (".parquet", ".brokers.parquet"):
        assert (tmp_path / f"one{suffix}").read_bytes() == (tmp_path / f"two{suffix}").read_bytes()


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--rf", "9"], "replication factor 9 is larger than the 6 available brokers"),
        (["--rf", "3,x"], "--rf: '3,x' is not a replication factor; expected a number, or a list such as 3,3,2"),
        (["--topic-skew", "11"], "topic skew 11 is out of range; expected 0 (even) to 10"),
        (["--isr-gaps", "2"], "share of partitions with ISR gaps 2 is out of range"),
        (["--kafka-version", "5"], "Kafka '5' is not simulated"),
        (["--partitions", "0"], "number of partitions 0 is out of range"),
        (["--racks", "7"], "number of racks 7 is out of range; expected 0 (no racks) to 6, one per broker"),
        (["--out", "made.csv"], "made.csv: unknown format '.csv' of a layout file; expected .parquet, .arrow or .json"),
    ],
)
def test_make_refuses_what_cannot_be(
    simzk: Simzk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: list[str], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    status, out, err = simzk(*MAKE, *more)
    assert (status, out) == (2, "")
    assert err.startswith("simzk: error: ")
    assert message in err
    assert err.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_import_reads_the_last_step_or_the_one_named(simzk: Simzk, tmp_path: Path) -> None:
    out = tmp_path / "real.json"
    last = simzk("layout", "import", "--dump", RECORDED, "--out", out)
    assert last.status == 0
    assert last.out == f"wrote {out}: 6 partitions on 3 brokers, as of step n-sigterm-noncontroller-broker3\n"
    early = simzk("layout", "import", "--dump", RECORDED, "--step", "d-kill9-controller-broker1", "--out", out)
    assert early.out.endswith("as of step d-kill9-controller-broker1\n")
    brokers = {row["broker"]: row["live"] for row in json.loads(out.read_text())["brokers"]}
    assert brokers == {1: False, 2: True, 3: True}


def test_import_refuses_a_step_or_a_file_that_is_not_there(simzk: Simzk, tmp_path: Path) -> None:
    out = tmp_path / "real.json"
    status, _, err = simzk("layout", "import", "--dump", RECORDED, "--step", "z", "--out", out)
    assert status == 2
    assert "has no step 'z'; expected one of a0-empty, a1-boot-broker1," in err
    status, _, err = simzk("layout", "import", "--dump", tmp_path / "none.json", "--out", out)
    assert status == 2
    assert "none.json: cannot be read: No such file or directory" in err
    assert not out.exists()


def test_import_names_the_znode_that_is_no_json(simzk: Simzk, tmp_path: Path) -> None:
    dump, state = tmp_path / "dumps.json", "/brokers/topics/t1/partitions/0/state"
    steps = json.loads(RECORDED.read_text())
    for step in steps:
        for path, znode in step.get("changed", {}).items():
            if path == state:
                znode["data"] = '{"leader":'
    dump.write_text(json.dumps(steps))
    status, _, err = simzk("layout", "import", "--dump", dump, "--out", tmp_path / "real.json")
    assert status == 2
    assert f"{dump}, step n-sigterm-noncontroller-broker3, {state}" in err
    assert not (tmp_path / "real.json").exists()


def test_show_tells_what_an_operator_looks_for(simzk: Simzk, tmp_path: Path) -> None:
    out = tmp_path / "real.parquet"
    simzk("layout", "import", "--dump", RECORDED, "--out", out)
    status, text, err = simzk("layout", "show", out)
    assert (status, err) == (0, "")
    facts = {" ".join(line.split()) for line in text.splitlines()}
    assert {
        "brokers 3, 1 of them down",
        "partitions 6",
        "replication factor 2 (2), 3 (4)",
        "preferred leaders 3 of 6 (50.0%)",
        "offline 0",
        "under-replicated 5 of 6 (83.3%)",
        "one in sync 1 of 6 (16.7%), 1 of them on broker 2",
        f"│ rack1 │ 1 │ 5 │ 3 │ 1 of 2 (50.0%) │ 0 │ {'█' * 20 + '▒' * 13} │",
        f"│ 2 │ rack2 │ 6 │ 3 │ 2 of 2 (100.0%) │ 0 │ {'█' * 20 + '▒' * 20} │",
        f"│ 3 down │ - │ 5 │ 0 │ 0 of 2 (0.0%) │ 5 │ {'░' * 33} │",
        "█ leads ▒ follows ░ out of sync",
    } <= facts, text


def test_many_brokers_are_a_histogram_and_the_extremes_or_all_of_them(simzk: Simzk, tmp_path: Path) -> None:
    out = tmp_path / "many.json"
    simzk("layout", "make", "--brokers", 50, "--racks", 0, "--partitions", 120, "--out", out)
    few, every = simzk("layout", "show", out).out, simzk("layout", "show", out, "--all-brokers").out
    assert "Brokers with the most (5) and the fewest (5) leaders" in few
    assert "--all-brokers lists all brokers" in few
    assert "racks               unknown" in few
    assert "rack violations" not in few
    loads = [line.split("│")[1:3] for line in few.partition("partitions that they lead")[2].splitlines() if "│" in line]
    assert sum(int(count) for _, count in loads[:-10]) == 2 * 50, "two histograms, each of all brokers"
    assert [line.split()[1] for line in every.splitlines() if line.startswith("│")] == [str(at) for at in range(50)]
    assert "Live brokers by number of partitions" not in every


@pytest.mark.parametrize("width", [120, 89, 60, 40])
def test_a_narrow_terminal_has_bars_too(
    simzk: Simzk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", str(width))
    simzk("layout", "import", "--dump", RECORDED, "--out", tmp_path / "real.json")
    text = re.sub(r"\x1b\[[0-9;]*m", "", simzk("layout", "show", tmp_path / "real.json").out)
    assert max(map(len, text.splitlines())) <= width
    row = [line for line in text.splitlines() if re.match(r"│ +2 │", line)][-1]
    assert ("2 of 2" in row) == (width == 120)
    leads, follows = row.count("█"), row.count("▒")
    assert abs(leads - follows) <= 1, "it leads half of what it holds"
    assert leads + follows == min(row.rindex("│") - row.index("█") - 1, 40)
    assert leads >= 1


def test_a_screen_without_blocks_has_letters(tmp_path: Path) -> None:
    words = ["layout", "import", "--dump", str(RECORDED), "--out", str(tmp_path / "real.json")]
    subprocess.run([sys.executable, "-m", "simzk", *words], check=True, capture_output=True)
    said = subprocess.run(
        [sys.executable, "-m", "simzk", "layout", "show", str(tmp_path / "real.json")],
        check=True,
        capture_output=True,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
    ).stdout.decode("ascii")
    assert "# leads = follows . out of sync" in said
    assert f"| {'#' * 20}{'=' * 20} |" in said


@pytest.mark.parametrize(
    ("brokers", "message"),
    [
        ([], ["brokers             0", "partitions          0", "preferred leaders   none"]),
        (
            [{"broker": 7, "rack": None, "live": True}],
            ["brokers             1", "│      7 │ -    │          0 │     0 │"],
        ),
        ([{"broker": 7, "rack": "a", "live": False}], ["1 of them down", "│ a    │       1 │          0 │     0 │"]),
    ],
)
def test_a_layout_without_partitions(
    simzk: Simzk, tmp_path: Path, brokers: list[dict[str, object]], message: list[str]
) -> None:
    path = tmp_path / "empty.json"
    path.write_text(json.dumps({"brokers": brokers, "partitions": []}))
    status, text, err = simzk("layout", "show", path)
    assert (status, err) == (0, "")
    assert all(words in text for words in message), text


def test_as_many_racks_as_brokers(simzk: Simzk, tmp_path: Path) -> None:
    simzk("layout", "make", "--brokers", 300, "--racks", 300, "--partitions", 900, "--out", tmp_path / "l.json")
    text = simzk("layout", "show", tmp_path / "l.json").out
    assert len(text.splitlines()) < 90
    assert "Racks with the most (5) and the fewest (5) leaders" in text


@pytest.mark.parametrize("brokers", [6, 300])
def test_show_writes_a_page_that_fetches_nothing(simzk: Simzk, tmp_path: Path, brokers: int) -> None:
    out, page = tmp_path / "l.parquet", tmp_path / "l.html"
    simzk("layout", "make", "--brokers", brokers, "--racks", 3, "--partitions", 2000, "--isr-gaps", "0.1", "--out", out)
    assert simzk("layout", "show", out, "--html", page).out == simzk("layout", "show", out).out
    html = page.read_text()
    assert 'id="racks"' in html
    assert 'id="brokers"' in html
    assert ('id="spread-replicate"' in html) == (brokers == 300)
    assert re.search(r'<tr class="bad"><td>under-replicated</td><td>[12]\d\d of 2,000', html)
    assert not re.search(r"<(script|link|img)[^>]+(src|href)=", html)


def test_a_page_that_cannot_be_written(simzk: Simzk, tmp_path: Path) -> None:
    simzk("layout", "make", "--out", tmp_path / "l.json")
    status, out, err = simzk("layout", "show", tmp_path / "l.json", "--html", tmp_path / "no" / "l.html")
    assert (status, out) == (2, "")
    assert "l.html: cannot write the file: No such file or directory" in err


def test_show_keeps_a_name_that_looks_like_markup(simzk: Simzk, tmp_path: Path) -> None:
    path = tmp_path / "odd.json"
    path.write_text('{"brokers":[{"broker":1,"rack":"[red]a[/red]","live":true}],"partitions":[]}')
    assert simzk("layout", "show", path).out.count("[red]a[/red]") == 2


def test_show_refuses_a_layout_that_cannot_be(simzk: Simzk, tmp_path: Path) -> None:
    path = tmp_path / "bad.json"
    row = {"topic": "t", "partition": 0, "replicas": [9], "isr": [], "leader": -1, "leader_epoch": 0}
    path.write_text(json.dumps({"brokers": [], "partitions": [row]}))
    status, out, err = simzk("layout", "show", path)
    assert (status, out) == (2, "")
    message = "row 0 (t-0): replica on unknown broker 9; expected a broker of the layout, which has none"
    assert err == f"simzk: error: {path}: 1 invalid partition:\n  {message}\n"


def test_help_loads_nothing_heavy() -> None:
    script = (
        "import sys; sys.argv = ['simzk', 'layout', 'show', '--help']\n"
        "from simzk.cli import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "print([name for name in ('numpy', 'pyarrow', 'pandas', 'pyspark') if name in sys.modules])"
    )
    said = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert said.stdout.splitlines()[-1] == "[]"


def test_a_layout_is_imported_from_a_live_zookeeper_without_spark() -> None:
    code = "import sys; sys.modules['pyspark'] = None; import simzk.cli.layout.sources"
    subprocess.run([sys.executable, "-c", code], check=True)
