"""`simzk run`: play scenario files and report whether their expectations held.

Exit status: 0 if all expectations held; 1 if one failed (the command that replays the run is printed); 2 for invalid
input: all files are read and checked before the first run; 130 after Ctrl-C, which keeps and prints the finished runs.
"""

from __future__ import annotations

import signal
import time
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from simzk.cli.commands import complete_release, complete_scenario
from simzk.cli.console import JsonOut, Progress, exit_interrupted, show, text_output, writable, write_json, write_text
from simzk.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from simzk.report.run_page import Comparison
    from simzk.scenarios.faults.plan import FaultPlan
    from simzk.scenarios.player import Play
    from simzk.scenarios.reader import Scenario
    from simzk.scenarios.report_text import Line
    from simzk.scenarios.results import Result
    from simzk.scenarios.search import Searched
    from simzk.scenarios.swarm import Run

SHRINK_SECONDS = 60.0
"""Wall time for shrinking a plan."""


Files = Annotated[
    list[str],
    typer.Argument(
        help="Scenario files (TOML), or names that simzk examples lists.",
        metavar="FILE...",
        autocompletion=complete_scenario,
    ),
]
Seed = Annotated[int | None, typer.Option(help="Seed of the run.", show_default="the seed of the file")]
Seeds = Annotated[
    int | None,
    typer.Option(help="Run N times with consecutive seeds, starting at --seed (or 1).", metavar="N", min=1),
]
Jobs = Annotated[int, typer.Option(help="Number of worker processes.", metavar="N", min=1)]
HtmlOut = Annotated[
    Path | None,
    typer.Option("--html", help="File for an HTML page of all runs; - for stdout.", metavar="OUT", callback=writable),
]
KafkaVersions = Annotated[
    list[str] | None,
    typer.Option(
        help="Kafka version of all brokers. Repeatable, to compare versions side by side: "
        "--kafka-version 1.1 --kafka-version 3.9.",
        show_default="the versions of the file",
        metavar="V",
        autocompletion=complete_release,
    ),
]
Master = Annotated[
    str | None,
    typer.Option(
        help="Master URL of Spark, such as local[4]; a cluster needs the files at the same paths.",
        show_default="run in this process",
    ),
]
PlanIn = Annotated[
    Path | None,
    typer.Option(
        help="Play the faults of this plan file instead of drawing them; its seed and Kafka version, unless given.",
        metavar="PLAN",
    ),
]
PlanOut = Annotated[
    Path | None,
    typer.Option(
        help="File for the plan of the run's faults, or of the shrunk plan; - for stdout.",
        metavar="OUT",
        callback=writable,
    ),
]
UntilFailure = Annotated[
    bool, typer.Option("--until-failure", help="Play seeds, and plans bred from them, until a run fails.")
]
TimeBudget = Annotated[
    float | None,
    typer.Option(
        help="Play seeds, or after --seeds of them bred plans, for this long, in seconds.",
        metavar="SECONDS",
        min=0.1,
    ),
]
Shrink = Annotated[
    bool | None,
    typer.Option(
        "--shrink/--no-shrink",
        help="Cut the plan of the first failed run down to few faults, for a minute at most.",
        show_default="--shrink with --until-failure",
    ),
]
TablesOut = Annotated[
    Path | None,
    typer.Option("--out", "-o", help="Directory for tables (Parquet) of all runs and their results.", metavar="DIR"),
]


def run(
    files: Files,
    seed: Seed = None,
    seeds: Seeds = None,
    jobs: Jobs = 1,
    json_out: JsonOut = None,
    html_out: HtmlOut = None,
    kafka_version: KafkaVersions = None,
    master: Master = None,
    plan: PlanIn = None,
    save_plan: PlanOut = None,
    until_failure: UntilFailure = False,
    time_budget: TimeBudget = None,
    shrink: Shrink = None,
    out: TablesOut = None,
) -> None:
    """Play scenario files on a simulated Kafka cluster."""
    versions = kafka_version or [""]
    documented = json_out is not None or html_out is not None
    with text_output(json_out, html_out, save_plan):
        runs = Runs(files, seed, seeds, versions[0], jobs, master, documented)
        runs = runs if plan is None else _with_plan(runs, plan)
        if until_failure or time_budget is not None or shrink:
            _require_one_file(runs, versions, out)
            goal = Goal(until_failure, time_budget, until_failure if shrink is None else shrink, save_plan)
            played = search(runs, goal)
        else:
            played = _play(runs, versions, out, save_plan)
    _write(played, json_out, html_out)
    if played.planned is not None and len(played.results) < played.planned:
        exit_interrupted(f"{len(played.results):,} of {played.planned:,} runs are done")
    if not all(result.held for result in played.results):
        raise typer.Exit(1)


def _write(played: Played, json_out: Path | None, html_out: Path | None) -> None:
    """Write the results as JSON and as a page, where they are asked for."""
    from simzk.scenarios.swarm import probes_of, records_of

    logged = [result.znodes for result in played.results if result.znodes is not None]  # of a single run
    document = {
        "runs": [result.document for result in played.results if result.document is not None],
        "probes": probes_of(played.results) if played.probes is None else played.probes,
        "records": records_of(played.results) if played.records is None else played.records,
        **({} if played.searched is None else {"search": played.searched}),
    }
    write_json(json_out, {**document, "znodes": logged[0]} if logged else document)
    if html_out is not None:
        write_text(html_out, _page(played.results, played.comparisons))


class Played(NamedTuple):
    """Finished runs.

    Args:
        results: the runs; of a search those that failed.
        planned: number of planned runs; None for a search.
        comparisons: comparisons of versions if several were played.
        probes: number of runs that reached each probe; None to count them in the results.
        records: what became of the records of all runs; None to sum the results.
        searched: numbers of a search, and the shrunk plan; None without a search.
    """

    results: list[Result]
    planned: int | None
    comparisons: list[Comparison]
    probes: dict[str, int] | None = None
    records: dict[str, int] | None = None
    searched: dict[str, object] | None = None


def _with_plan(runs: Runs, path: Path) -> Runs:
    """Return the same runs with the faults of a plan file, and with its seed and version unless others are given.

    Raises:
        ConfigError: there is more than one scenario, or Spark is to play them.
        ScenarioError: the plan is invalid for the scenario.
    """
    from simzk.scenarios.faults.plan_file import PlanFile
    from simzk.scenarios.player import setting_of
    from simzk.scenarios.reader import read_scenario

    if len(runs.files) > 1 or runs.master is not None:
        raise ConfigError(
            "a plan is for one scenario in local processes", where="--plan", right="one FILE, no --master"
        )
    scenario = read_scenario(runs.files[0])
    file = PlanFile(path)
    seed = file.seed if runs.seed is None else runs.seed
    version = runs.version or file.version
    plan = file.plan(setting_of(scenario, version))
    return runs._replace(seed=seed, version=version, plan=plan, plan_file=str(path))


def _play(runs: Runs, versions: list[str], out: Path | None, save_plan: Path | None) -> Played:
    """Play everything, and print it.

    Raises:
        ConfigError: two options exclude each other.
    """
    many = runs.seeds is not None or runs.jobs > 1 or runs.master is not None or out is not None
    if runs.master is not None and runs.jobs > 1:
        raise ConfigError(
            "--jobs and --master exclude each other", right="--jobs for local processes or --master for Spark"
        )
    if save_plan is not None and (many or len(versions) > 1 or len(runs.files) > 1):
        right = "one FILE with one seed and one version"
        raise ConfigError("a plan belongs to one run", where="--save-plan", right=right)
    if len(versions) > 1:
        if many or runs.plan is not None:
            right = "neither --seeds, --jobs, --master, --plan nor --out"
            raise ConfigError("several versions are compared for one seed", where="--kafka-version", right=right)
        return _play_side_by_side(runs.files, runs.seed, versions)
    if len(runs.files) == 1 and not many:
        return Played([_play_one(runs, save_plan)], 1, [])
    return _play_many(runs, out)


def _play_one(runs: Runs, save_plan: Path | None) -> Result:
    """Play one run, and print its heading with the plan of its faults before it."""
    from simzk.scenarios import report_text
    from simzk.scenarios.player import Play
    from simzk.scenarios.reader import read_scenario
    from simzk.scenarios.results import result_of

    scenario = read_scenario(runs.files[0])
    play = Play(
        scenario,
        seed=scenario.seed if runs.seed is None else runs.seed,
        version=runs.version,
        logs_znodes=runs.documented,
        plan=runs.plan,
        plan_file=runs.plan_file,
    )
    with closing(play):
        show(report_text.heading(play))
        if save_plan is not None:
            _save_plan(save_plan, play, runs.version)
        with Progress() as progress:
            whole_us = max(scenario.longest_us, 1)
            try:
                play.run(
                    lambda now_us: progress.show(f"{now_us // 1_000_000} s of virtual time", min(now_us / whole_us, 1))
                )
            except KeyboardInterrupt:
                show(report_text.timeline_of(play))
                exit_interrupted(f"{play.cluster.scheduler.now_us / 1e6:,.3f} s of virtual time are played")
        result = result_of(play, runs.version, documented=True)
        show([*report_text.timeline_of(play), *report_text.closing(play), *report_text.verdicts(play)])
        show(report_text.conclusion(play, result.replay))
    return result


def _save_plan(path: Path, play: Play, version: str) -> None:
    """Write the plan of a run.

    Raises:
        ConfigError: the run has no faults, or the file cannot be written.
    """
    from simzk.scenarios.faults.plan_file import SavedPlan, write_plan

    if play.plan is None:
        raise ConfigError("the scenario has no faults", where="--save-plan", right="a scenario with [faults]")
    comment = f"Faults of {play.scenario.path}, seed {play.seed}, from the end of its steps on. Play them again with:"
    command = f"  simzk run {play.scenario.path} --plan {path}"
    write_text(path, write_plan(SavedPlan(play.seed, version, play.plan), [comment, command]))


def _play_side_by_side(files: list[str], seed: int | None, versions: list[str]) -> Played:
    """Play every file with every version, and print the histories side by side."""
    from simzk.scenarios import report_text
    from simzk.scenarios.player import Play
    from simzk.scenarios.reader import read_scenarios
    from simzk.scenarios.results import result_of
    from simzk.scenarios.side_by_side import comparison, side_by_side

    repeated = next((version for index, version in enumerate(versions) if version in versions[:index]), None)
    if repeated is not None:
        raise ConfigError(f"version {repeated} is given twice", where="--kafka-version", right="each version once")
    scenarios = read_scenarios(files)  # all are checked before the first is played
    results: list[Result] = []
    comparisons: list[Comparison] = []
    with ExitStack() as opened:
        groups = [
            [
                opened.enter_context(
                    closing(Play(scenario, seed=scenario.seed if seed is None else seed, version=version))
                )
                for version in versions
            ]
            for scenario in scenarios
        ]
        for plays in groups:
            show(report_text.heading(*plays))
            with Progress() as progress:
                for play in plays:
                    progress.show(f"{play.scenario.path}, Kafka {play.version}")
                    play.run()
            of_file = [result_of(play, version, documented=True) for play, version in zip(plays, versions, strict=True)]
            for play in plays:
                play.run_until_quiet()
            show(side_by_side(plays))
            for play, result in zip(plays, of_file, strict=True):
                first, *more = report_text.conclusion(play, result.replay)
                show([[(f"Kafka {play.version}: ", "bold"), *first], *more])
            results.extend(of_file)
            comparisons.append(comparison(plays))
    return Played(results, len(results), comparisons)


class Runs(NamedTuple):
    """Many runs, and the workers that play them.

    Args:
        files: the scenarios.
        seed, seeds, version: as in `simzk.scenarios.swarm.plan_runs`.
        jobs: number of processes on this machine.
        master: master URL of Spark; None for processes.
        documented: whether results include the whole run.
        plan: the faults of every run; None to draw them from each seed.
        plan_file: the file of the plan; empty for none.
    """

    files: list[str]
    seed: int | None
    seeds: int | None
    version: str
    jobs: int
    master: str | None
    documented: bool
    plan: FaultPlan | None = None
    plan_file: str = ""


def _play_many(runs: Runs, out: Path | None) -> Played:
    """Play every file with every seed, and print one line per file and per failed run; Ctrl-C ends it early."""
    from simzk.scenarios.report_text import record_lines
    from simzk.scenarios.swarm import distribution, outcomes_of, plan_runs, probe_lines, probes_of, records_of

    if out is not None:
        from simzk.pipeline.swarms import require_free, write_swarm

        require_free(out)
    # All files are checked before the first run is played.
    planned = [
        run._replace(plan=runs.plan, plan_file=runs.plan_file)
        for run in plan_runs(runs.files, runs.seed, runs.seeds, runs.version)
    ]
    results: list[Result] = []
    failed = 0
    with Progress() as progress, suppress(KeyboardInterrupt):
        for result in _results(runs, planned, progress):
            results.append(result)
            failed += not result.held
            progress.show(f"{len(results)}/{len(planned)} runs, {failed} failed", len(results) / len(planned))
    show(_summary(runs.files, results))
    show([*record_lines(records_of(results)), *probe_lines(probes_of(results), len(results))])
    if out is not None:
        outcomes = outcomes_of(results)
        write_swarm(out, results, outcomes)
        show(distribution(outcomes))
    return Played(results, len(planned), [])


def _results(runs: Runs, planned: list[Run], progress: Progress) -> Iterator[Result]:
    if runs.master is not None:
        from simzk.pipeline.spark_session import spark_session
        from simzk.pipeline.swarms import play_on_spark

        progress.show("starting Spark")
        with spark_session(runs.master) as spark:
            yield from play_on_spark(
                spark,
                planned,
                documented=runs.documented,
                progress=lambda share: progress.show(f"{round(share * len(planned))}/{len(planned)} runs", share),
            )
        return
    from simzk.scenarios.swarm import play_run

    play = partial(play_run, documented=runs.documented)
    if runs.jobs == 1:
        yield from map(play, planned)
        return
    from concurrent.futures import ProcessPoolExecutor

    with ProcessPoolExecutor(max_workers=runs.jobs, initializer=_ignore_interrupts) as pool:
        yield from pool.map(play, planned)


class Goal(NamedTuple):
    """Goal of a search.

    Args:
        until_failure: stop at the first run that fails.
        seconds: wall time after which no run is begun; None for no limit.
        shrinks: cut the plan of the first failed run down.
        save_plan: file for the shrunk plan; None for a name made of the scenario and the seed.
    """

    until_failure: bool
    seconds: float | None
    shrinks: bool
    save_plan: Path | None


def search(runs: Runs, goal: Goal) -> Played:
    """Search for runs that fail, print them, and shrink the first; Ctrl-C ends the search early.

    Raises:
        ConfigError: the scenario has no faults to shrink, or the file of the plan cannot be written.
    """
    from simzk.scenarios.reader import read_scenario
    from simzk.scenarios.report_text import record_lines
    from simzk.scenarios.search import Search
    from simzk.scenarios.swarm import plan_runs, probe_lines, probes_of, records_of

    scenario = read_scenario(runs.files[0])
    if goal.shrinks and scenario.faults is None and runs.plan is None:
        right = "a scenario with [faults], or --plan"
        raise ConfigError("the scenario has no faults to shrink", where="--shrink", right=right)
    is_bounded = runs.seeds is not None or not (goal.until_failure or goal.seconds)
    first_seed = runs.seed if runs.seed is not None else scenario.seed if is_bounded and runs.seeds is None else 1
    (planned,) = plan_runs(runs.files, first_seed, None, runs.version)
    first = planned._replace(plan=runs.plan, plan_file=runs.plan_file)
    found = Search(
        scenario, first, (runs.seeds or 1) if is_bounded else None, breeds=goal.seconds is not None or not is_bounded
    )
    ends_s = None if goal.seconds is None else time.monotonic() + goal.seconds
    failed: list[Searched] = []
    results: list[Result] = []

    def goes_on() -> bool:
        return not (goal.until_failure and failed) and (ends_s is None or time.monotonic() < ends_s)

    with Progress() as progress, _player(runs) as play, suppress(KeyboardInterrupt):
        for searched in found.run(play, goes_on):
            results.append(searched.result if not searched.result.held else replace(searched.result, document=None))
            if not searched.result.held:
                failed.append(searched)
                if searched.run.plan_file != runs.plan_file:
                    _save_bred(searched)
            progress.show(f"{len(results):,} runs, {found.bred:,} of them bred, {len(failed):,} failed")
    show(_found(runs.files[0], results, found.bred))
    probes = probes_of(results)
    show([*record_lines(records_of(results)), *probe_lines(probes, len(results))])
    numbers: dict[str, object] = {"runs": len(results), "bred": found.bred, "failed": len(failed)}
    if goal.shrinks and failed:
        plan = found.plan_of(failed[0].run)
        assert plan is not None, "only a scenario with faults is shrunk"
        numbers["shrunk"] = _shrink(scenario, failed[0], plan, goal.save_plan)
    return Played([one.result for one in failed], None, [], probes, records_of(results), numbers)


def _require_one_file(runs: Runs, versions: list[str], out: Path | None) -> None:
    if len(runs.files) > 1 or len(versions) > 1 or runs.master is not None or out is not None:
        right = "one FILE and one version, without --master and --out"
        raise ConfigError("a search is of one scenario", where="--until-failure, --time-budget, --shrink", right=right)


@contextmanager
def _player(runs: Runs) -> Iterator[Callable[[Sequence[Run]], Iterable[Result]]]:
    """Yield a function that plays runs in the processes of this machine, and returns their results in order."""
    from simzk.scenarios.swarm import play_run

    play = partial(play_run, documented=runs.documented)
    if runs.jobs == 1:
        yield partial(map, play)
        return
    from concurrent.futures import ProcessPoolExecutor

    with ProcessPoolExecutor(max_workers=runs.jobs, initializer=_ignore_interrupts) as pool:
        yield partial(pool.map, play)


def _save_bred(searched: Searched) -> None:
    """Write the plan of a failed run that was bred: no seed draws it."""
    from simzk.scenarios.faults.plan_file import SavedPlan, write_plan

    run, result = searched
    assert run.plan is not None
    comments = [f"Bred by a search; fails in: {result.failed[0]}", f"  {result.replay}"]
    write_text(Path(run.plan_file), write_plan(SavedPlan(run.seed, run.version, run.plan), comments))


def _found(file: str, results: list[Result], bred: int) -> list[Line]:
    """Return what a search found: its runs, and each failed one with the command that replays it."""
    failed = [result for result in results if not result.held]
    runs = f"{len(results):,} run{'s' * (len(results) != 1)}, {bred:,} of them of bred plans"
    if not failed:
        return [[("holds   ", "green"), (f"{file}: {runs}", "")]]
    lines: list[Line] = [[("FAILED  ", "bold red"), (f"{file}: {len(failed):,} of {runs}", "")]]
    for result in failed:
        lines.append([(f"    seed {result.seed}: {result.first_failure}", "red")])
        lines.append([("    replay with: ", ""), (result.replay, "bold")])
    return lines


def _shrink(scenario: Scenario, searched: Searched, plan: FaultPlan, save_plan: Path | None) -> dict[str, object]:
    """Shrink the plan of a failed run, write and print it; return it as JSON values."""
    from simzk.scenarios.faults.plan_file import SavedPlan, write_plan
    from simzk.scenarios.report_text import fault_lines
    from simzk.scenarios.results import plan_document, replay_command
    from simzk.scenarios.search import shrink_run

    run, result = searched
    ends_s = time.monotonic() + SHRINK_SECONDS
    tried = 0
    with Progress() as progress:

        def is_over() -> bool:
            nonlocal tried
            tried += 1
            progress.show(f"shrinking, {tried} runs", min(1 - (ends_s - time.monotonic()) / SHRINK_SECONDS, 1))
            return time.monotonic() > ends_s

        shrunk = shrink_run(scenario, run, plan, result, is_over)
    path = Path(f"{scenario.path.stem}-seed{run.seed}-shrunk.plan.toml") if save_plan is None else save_plan
    replay = replay_command(scenario, run.seed, run.version, str(path))
    comments = [f"Fails in: {result.failed[0]}", f"  {replay}"]
    write_text(path, write_plan(SavedPlan(run.seed, run.version, shrunk.plan), comments))
    faults = len(shrunk.plan.faults)
    early = "" if shrunk.is_complete else f"; not complete after {SHRINK_SECONDS:.0f} s"
    what = f"shrunk to {faults} of {shrunk.before} faults in {shrunk.runs} runs{early}:"
    lines: list[Line] = [[(what, "bold")], *fault_lines(shrunk.plan)]
    show([*lines, [("replay with: ", ""), (replay, "bold")]])
    return {
        "faults": faults,
        "before": shrunk.before,
        "runs": shrunk.runs,
        "replay": replay,
        "plan": plan_document(shrunk.plan),
    }


def _ignore_interrupts() -> None:
    """Ignore Ctrl-C in a worker process: a terminal sends it to all processes, and the main one ends the workers."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _summary(files: list[str], results: list[Result]) -> list[Line]:
    lines: list[Line] = []
    for file in dict.fromkeys(files):
        of_file = [result for result in results if result.file == file]
        if not of_file:
            continue  # interrupted before its first run was done
        failed = [result for result in of_file if not result.held]
        seeds = f"seed {of_file[0].seed}" if len(of_file) == 1 else f"{len(of_file):,} seeds"
        if failed:
            count = seeds if len(of_file) == 1 else f"{len(failed):,} of {seeds} failed"
            lines.append([("FAILED  ", "bold red"), (f"{file}: {count}", "")])
        else:
            lines.append([("holds   ", "green"), (f"{file}: {seeds}", "")])
        for result in failed:
            lines.append([(f"    seed {result.seed}: {result.first_failure}", "red")])
            lines.append([("    replay with: ", ""), (result.replay, "bold")])
    return lines


def _page(results: list[Result], comparisons: list[Comparison]) -> str:
    from simzk.report.run_page import runs_page
    from simzk.scenarios.run_tables import tables_of

    tables = [tables_of(result.document, result.znodes) for result in results if result.document is not None]
    if comparisons:
        tables = [
            replace(run, title=f"{run.title}, Kafka {result.version}")
            for run, result in zip(tables, results, strict=True)
        ]
    return runs_page(tables, comparisons)
