"""`simzk run`: play scenario files and say whether what they expect held.

Exit status: 0 everything held; 1 something did not, and the command that shows it again is printed; 2 bad input, and
nothing was played: all files are read and checked before the first run.
"""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from pathlib import Path  # noqa: TC003 (typer reads the annotation)
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from simzk.cli.console import Progress, show
from simzk.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from simzk.report.run_page import Comparison
    from simzk.scenarios.report_text import Line
    from simzk.scenarios.results import Result
    from simzk.scenarios.swarm import Run


def run(
    files: Annotated[list[str], typer.Argument(help="Scenario files (TOML).", metavar="FILE...")],
    seed: Annotated[int | None, typer.Option(help="The seed; the file's own if none is given.")] = None,
    seeds: Annotated[int | None, typer.Option(help="Play so many seeds, from --seed (or 1) on.", min=1)] = None,
    jobs: Annotated[int, typer.Option(help="Play in so many processes.", min=1)] = 1,
    json_out: Annotated[
        Path | None, typer.Option("--json", help="Write all runs to this file as JSON.", metavar="OUT")
    ] = None,
    html_out: Annotated[
        Path | None, typer.Option("--html", help="Write a page of all runs to this file.", metavar="OUT")
    ] = None,
    kafka_version: Annotated[
        list[str] | None,
        typer.Option(help="Play with this version of Kafka; given again, with each, side by side.", metavar="V"),
    ] = None,
    master: Annotated[
        str | None,
        typer.Option(help="Play on Spark: its master; a cluster must see the files at the same paths."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Write runs, and what they came to, to this directory.", metavar="DIR"),
    ] = None,
) -> None:
    """Play scenario files on a simulated Kafka cluster."""
    versions = kafka_version or [""]
    comparisons: list[Comparison] = []
    many = seeds is not None or jobs > 1 or master is not None or out is not None
    if master is not None and jobs > 1:
        raise ConfigError("--jobs and --master: which of them?", right="processes of this machine, or tasks of Spark")
    if len(versions) > 1:
        if many:
            right = "no --seeds, --jobs, --master or --out"
            raise ConfigError("versions stand side by side for one seed", right=right)
        results, comparisons = _play_side_by_side(files, seed, versions)
    elif len(files) == 1 and not many:
        results = [_play_aloud(files[0], seed, versions[0])]
    else:
        documented = json_out is not None or html_out is not None
        results = _play_many(Runs(files, seed, seeds, versions[0], jobs, master, documented), out)
    if json_out is not None:
        document = {"runs": [result.document for result in results]}
        _write(json_out, json.dumps(document, indent=1) + "\n")
    if html_out is not None:
        _write(html_out, _page(results, comparisons))
    if not all(result.held for result in results):
        raise typer.Exit(1)


def _play_aloud(file: str, seed: int | None, version: str) -> Result:
    """Play one run, and show its heading, with the plan of its faults, before it."""
    from simzk.scenarios import report_text as telling
    from simzk.scenarios.player import Play
    from simzk.scenarios.reader import read_scenario
    from simzk.scenarios.results import result_of

    scenario = read_scenario(file)
    play = Play(scenario, seed=scenario.seed if seed is None else seed, version=version)
    progress = Progress()
    try:
        show(telling.heading(play))
        play.run(lambda now_us: progress.tell(f"{now_us // 1_000_000} s of virtual time"))
        progress.close()
        result = result_of(play, version, documented=True)
        show([*telling.timeline(list(play.history)), *telling.closing(play), *telling.verdicts(play)])
        show(telling.conclusion(play, result.replay))
    finally:
        progress.close()
        play.close()
    return result


def _play_side_by_side(
    files: list[str], seed: int | None, versions: list[str]
) -> tuple[list[Result], list[Comparison]]:
    """Play every file once a version, and show the versions' histories beside each other."""
    from simzk.scenarios import report_text as telling
    from simzk.scenarios.player import Play
    from simzk.scenarios.reader import read_scenario
    from simzk.scenarios.results import result_of
    from simzk.scenarios.side_by_side import comparison, side_by_side

    again = next((version for index, version in enumerate(versions) if version in versions[:index]), None)
    if again is not None:
        raise ConfigError(f"version {again} twice", where="--kafka-version", right="each version once")
    scenarios = [read_scenario(file) for file in files]  # all are checked before the first is played
    groups: list[list[Play]] = []
    results: list[Result] = []
    comparisons: list[Comparison] = []
    progress = Progress()
    try:
        for scenario in scenarios:
            number = scenario.seed if seed is None else seed
            groups.append([])
            for version in versions:
                groups[-1].append(Play(scenario, seed=number, version=version))
        for plays in groups:
            show(telling.heading(*plays))
            for play in plays:
                progress.tell(f"{play.scenario.path}, Kafka {play.version}")
                play.run()
            progress.close()
            of_file = [result_of(play, version, documented=True) for play, version in zip(plays, versions, strict=True)]
            for play in plays:
                play.run_until_quiet()
            show(side_by_side(plays))
            for play, result in zip(plays, of_file, strict=True):
                first, *more = telling.conclusion(play, result.replay)
                show([[(f"Kafka {play.version}: ", "bold"), *first], *more])
            results.extend(of_file)
            comparisons.append(comparison(plays))
    finally:
        progress.close()
        for plays in groups:
            for play in plays:
                play.close()
    return results, comparisons


class Runs(NamedTuple):
    """Many runs, and who plays them.

    Args:
        files: the scenarios.
        seed, seeds, version: as of `simzk.scenarios.swarm.plan_runs`.
        jobs: so many processes of this machine play them,
        master: or Spark, where one is named.
        documented: whether they are wanted whole.
    """

    files: list[str]
    seed: int | None
    seeds: int | None
    version: str
    jobs: int
    master: str | None
    documented: bool


def _play_many(runs: Runs, out: Path | None) -> list[Result]:
    """Play every file with every seed, and show one line a run that failed and one a file."""
    from simzk.scenarios import swarm as swarm_telling
    from simzk.scenarios.swarm import outcomes_of, plan_runs

    if out is not None:
        from simzk.pipeline.swarms.swarm import require_free, write_swarm

        require_free(out)
    planned = plan_runs(runs.files, runs.seed, runs.seeds, runs.version)  # all are checked before the first is played
    progress = Progress()
    results: list[Result] = []
    failed = 0
    try:
        for result in _results(runs, planned, progress):
            results.append(result)
            failed += not result.held
            progress.tell(f"{len(results)}/{len(planned)} runs, {failed} failed")
    finally:
        progress.close()
    show(_summary(runs.files, results))
    if out is not None:
        outcomes = outcomes_of(results)
        write_swarm(out, results, outcomes)
        show(swarm_telling.distribution(outcomes))
    return results


def _results(runs: Runs, planned: list[Run], progress: Progress) -> Iterator[Result]:
    if runs.master is not None:
        from simzk.pipeline.spark.session import spark_session
        from simzk.pipeline.swarms.swarm import play_on_spark

        progress.tell("starting Spark")
        with spark_session(runs.master) as spark:
            yield from play_on_spark(
                spark,
                runs.files,
                runs.seed,
                runs.seeds,
                runs.version,
                documented=runs.documented,
                progress=lambda share: progress.tell(f"{round(share * len(planned))}/{len(planned)} runs"),
            )
        return
    from simzk.scenarios.swarm import play_run

    play = partial(play_run, documented=runs.documented)
    if runs.jobs == 1:
        yield from map(play, planned)
        return
    from concurrent.futures import ProcessPoolExecutor

    with ProcessPoolExecutor(max_workers=runs.jobs) as pool:
        yield from pool.map(play, planned)


def _summary(files: list[str], results: list[Result]) -> list[Line]:
    lines: list[Line] = []
    for file in dict.fromkeys(files):
        of_file = [result for result in results if result.file == file]
        failed = [result for result in of_file if not result.held]
        told = f"seed {of_file[0].seed}" if len(of_file) == 1 else f"{len(of_file)} seeds"
        if failed:
            count = told if len(of_file) == 1 else f"{len(failed)} of {told} failed"
            lines.append([("FAILED  ", "bold red"), (f"{file}: {count}", "")])
        else:
            lines.append([("holds   ", "green"), (f"{file}: {told}", "")])
        for result in failed:
            lines.append([(f"    seed {result.seed}: {result.first_failure}", "red")])
            lines.append([("    play it again with: ", ""), (result.replay, "bold")])
    return lines


def _page(results: list[Result], comparisons: list[Comparison]) -> str:
    from simzk.report import run_page
    from simzk.scenarios.run_tables import tables_of

    tables = [tables_of(result.document) for result in results if result.document is not None]
    if comparisons:
        tables = [
            replace(run, title=f"{run.title}, Kafka {result.version}")
            for run, result in zip(tables, results, strict=True)
        ]
    return run_page.to_html(tables, comparisons)


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"cannot write it: {error.strerror}", where=str(path)) from None
