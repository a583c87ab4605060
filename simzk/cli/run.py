"""`simzk run`: play scenario files and say whether what they expect held.

Exit status: 0 everything held; 1 something did not, and the command that shows it again is printed; 2 bad input, and
nothing was played: all files are read and checked before the first run.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path  # noqa: TC003 (typer reads the annotation)
from typing import TYPE_CHECKING, Annotated

import typer

from simzk.cli.paper import Progress, show
from simzk.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from simzk.report.run_page import Comparison
    from simzk.scenarios.results import Result
    from simzk.scenarios.telling import Line


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
) -> None:
    """Play scenario files on a simulated Kafka cluster."""
    versions = kafka_version or [""]
    comparisons: list[Comparison] = []
    if len(versions) > 1:
        if seeds is not None or jobs > 1:
            raise ConfigError("versions stand side by side for one seed", right="no --seeds and no --jobs")
        results, comparisons = _play_side_by_side(files, seed, versions)
    elif seeds is None and jobs == 1 and len(files) == 1:
        results = [_play_aloud(files[0], seed, versions[0])]
    else:
        results = _play_many(files, seed, seeds, jobs, versions[0])
    if json_out is not None:
        document = {"runs": [result.document for result in results]}
        _write(json_out, json.dumps(document, indent=1) + "\n")
    if html_out is not None:
        _write(html_out, _page(results, comparisons))
    if not all(result.held for result in results):
        raise typer.Exit(1)


def _play_aloud(file: str, seed: int | None, version: str) -> Result:
    """Play one run, and show its heading, with the plan of its faults, before it."""
    from simzk.scenarios import telling
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
        result = result_of(play, version)
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
    from simzk.scenarios import telling
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
            of_file = [result_of(play, version) for play, version in zip(plays, versions, strict=True)]
            for play in plays:
                play.settle()
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


def _play_many(files: list[str], seed: int | None, seeds: int | None, jobs: int, version: str) -> list[Result]:
    """Play every file with every seed, and show one line a run that failed and one a file."""
    from simzk.scenarios.reader import read_scenario

    runs: list[tuple[str, int | None, str]] = []
    for file in files:
        scenario = read_scenario(file)  # all are checked before the first is played
        if seeds is None:
            runs.append((file, scenario.seed if seed is None else seed, version))
        else:
            first = 1 if seed is None else seed
            runs.extend((file, number, version) for number in range(first, first + seeds))
    progress = Progress()
    results: list[Result] = []
    try:
        for result in _results(runs, jobs):
            results.append(result)
            failed = sum(not one.held for one in results)
            progress.tell(f"{len(results)}/{len(runs)} runs, {failed} failed")
    finally:
        progress.close()
    show(_summary(files, results))
    return results


def _results(runs: list[tuple[str, int | None, str]], jobs: int) -> Iterator[Result]:
    from simzk.scenarios.results import play_file

    if jobs == 1:
        yield from (play_file(*run) for run in runs)
        return
    from concurrent.futures import ProcessPoolExecutor

    with ProcessPoolExecutor(max_workers=jobs) as pool:
        yield from pool.map(play_file, *zip(*runs, strict=True))


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

    tables = [tables_of(result.document) for result in results]
    if comparisons:
        tables = [
            replace(run, title=f"{run.title}, Kafka {result.document['kafka_version']}")
            for run, result in zip(tables, results, strict=True)
        ]
    return run_page.to_html(tables, comparisons)


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"cannot write it: {error.strerror}", where=str(path)) from None
