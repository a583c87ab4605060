"""Commands of docs/proofs.md and docs/benchmarks.md: each names tests or modules that exist."""

from __future__ import annotations

import importlib.util
import re
import shlex
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGES = ("docs/proofs.md", "docs/benchmarks.md", "tests/README.md")


def commands_of(page: str) -> list[list[str]]:
    """Return the words of each command in backticks, without assignments of environment variables."""
    found = []
    for quoted in re.findall(r"`([^`\n]+)`", (ROOT / page).read_text()):
        for part in quoted.split(" && "):
            try:
                words = shlex.split(part)
            except ValueError:  # a piece of text, not a command
                continue
            while words and re.match(r"[A-Z_]+=", words[0]):
                words = words[1:]
            if words[:1] in (["pytest"], ["python"]):
                found.append(words)
    return found


def names_of_tests(place: Path) -> str:
    """Return what `-k` compares with: names of files, and of functions and parameters as far as the source shows."""
    files = [place] if place.is_file() else sorted(place.rglob("test_*.py"))
    return "\n".join(f"{file.name}\n{file.read_text()}" for file in files)


COMMANDS = [(page, words) for page in PAGES for words in commands_of(page)]


@pytest.mark.parametrize(("page", "words"), COMMANDS, ids=[" ".join(words) for _, words in COMMANDS])
def test_a_command_names_what_exists(page: str, words: list[str]) -> None:
    places = [ROOT / word.split("::")[0] for word in words if word.startswith(("tests/", "benchmarks/"))]
    for place in places:
        assert place.exists(), f"{page}: {place.relative_to(ROOT)} does not exist"
    if "-m" in words and words[0] == "python":
        module = words[words.index("-m") + 1]
        assert module == "pytest" or importlib.util.find_spec(module) is not None, f"{page}: no module {module}"
    if "-k" in words and places:
        selected = words[words.index("-k") + 1]
        text = "\n".join(names_of_tests(place) for place in places)
        assert selected in text, f"{page}: -k {selected} selects no test"


def test_commands_are_found() -> None:
    assert len(COMMANDS) > 50
