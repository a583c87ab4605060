"""Code blocks of a documentation page, and their run in the order of the page.

Rules of this module:
  - a block with `title="NAME"` is a file, written to the page's folder;
  - `python` is a doctest (`>>>`), a test module (with tests), or a script; doctests and scripts of a page share their
    names; test modules without a title run at the end of the page, in one pytest;
  - `sh` must succeed; `simzk serve`, `simzk kafka` and `simzk clusters` in it go on until the page ends or serves
    again;
  - `console` shows commands (`$ `) and their output, where `...` stands for anything;
  - ports are replaced by free ones, the same on the whole page;
  - `<!-- not run: REASON -->` above a block exempts it.
"""

from __future__ import annotations

import contextlib
import doctest
import os
import random
import re
import shlex
import socket
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType
    from typing import Self

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
_FENCE = re.compile(r"^(?:<!-- not run: ([^\n]+) -->\n)?```(\w*)([^\n]*)\n(.*?)^```$", flags=re.MULTILINE | re.DOTALL)
_PORTS = re.compile(r"\b(218\d|808\d)\b")
_TESTS = re.compile(r"^ *(?:async )?def test_", flags=re.MULTILINE)
_SERVERS = ("simzk serve", "simzk kafka", "simzk clusters")
_FIRST_PORT, _FIRST_GIVEN_PORT = 15_000, 32_768
"""From the second on, Linux gives ports to connections, which could take one between the choice and its use."""
_READY_TIMEOUT_S = 60


class Snippet(NamedTuple):
    """A code block.

    Attributes:
        language: the language of the block; empty for none.
        title: name of the file that it is; empty for none.
        text: its text.
        line: line of the page on which it begins.
        exempt: why it is not run; empty if it is.
    """

    language: str
    title: str
    text: str
    line: int
    exempt: str


def snippets(page: Path) -> list[Snippet]:
    """Return the code blocks of a page."""
    text = page.read_text()
    return [
        Snippet(
            language=block[2],
            title="".join(re.findall(r'title="([^"]+)"', block[3])),
            text=block[4],
            line=text.count("\n", 0, block.start()) + 1,
            exempt=block[1] or "",
        )
        for block in _FENCE.finditer(text)
    ]


def is_run(snippet: Snippet) -> bool:
    """Return whether a block is code that runs, or a file that other blocks use."""
    return not snippet.exempt and (snippet.language in ("python", "sh", "console") or bool(snippet.title))


def pages_with_code(*, doctests: bool) -> list[str]:
    """Return the paths below docs/ of the pages with blocks that run: those with doctests, or the others."""
    return [
        str(page.relative_to(DOCS))
        for page in sorted(DOCS.rglob("*.md"))
        if any(map(is_run, snippets(page))) and (">>> " in page.read_text()) == doctests
    ]


def _free_ports(count: int) -> int:
    """Return the first of several consecutive ports that are free, and that the kernel gives to no connection."""
    while True:
        first = random.randrange(_FIRST_PORT, _FIRST_GIVEN_PORT - count)
        try:
            for port in range(first, first + count):
                socket.create_server(("127.0.0.1", port)).close()
        except OSError:
            continue
        return first


class PageRun:
    """A folder in which the blocks of a page run one after the other; servers that they start end with it."""

    def __init__(self, page: Path, folder: Path) -> None:
        self.page, self.folder = page, folder
        self._tests: dict[str, str] = {}
        self._names: dict[str, object] = {"__name__": "shown"}
        self._bases = {"218": _free_ports(10), "808": _free_ports(10)}
        self._server: subprocess.Popen[str] | None = None
        self._environment = {
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT),
            "PYTEST_ADDOPTS": "-p no:randomly -p no:cacheprovider -p no:xdist",
            "COLUMNS": "120",
            "CURL_HOME": str(folder),
        }

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop_server()

    def run(self) -> None:
        """Run every block of the page."""
        (self.folder / ".curlrc").write_text("fail\nsilent\nshow-error\n")  # an HTTP error fails the command
        for snippet in filter(is_run, snippets(self.page)):
            text = _PORTS.sub(lambda port: str(self._bases[port[1][:3]] + int(port[1][3])), snippet.text)
            if snippet.title:
                (self.folder / snippet.title).write_text(text)
                continue
            place = f"{self.page.name}:{snippet.line}"
            if snippet.language == "sh":
                self._run_shell(text, place)
            elif snippet.language == "console":
                self._run_console(text, place)
            elif ">>> " in text:
                self._run_doctest(text, place)
            elif _TESTS.search(text):
                self._tests[f"test_line_{snippet.line}.py"] = text
            else:
                self._run_script(text, place)
        self._run_tests()

    def _run_doctest(self, text: str, place: str) -> None:
        test = doctest.DocTestParser().get_doctest(text, self._names, place, place, 0)
        runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
        shown: list[str] = []
        runner.run(test, out=shown.append, clear_globs=False)
        self._names.update(test.globs)
        assert runner.summarize(verbose=False).failed == 0, "".join(shown)

    def _run_tests(self) -> None:
        """Run all test modules of the page that have no name, at once."""
        if not self._tests:
            return
        for name, text in self._tests.items():
            (self.folder / name).write_text(text)
        # kafka-python reads its resources by functions that Python 3.11 calls deprecated.
        ignored = " ".join(f"-W 'ignore:{name}_text is deprecated:DeprecationWarning'" for name in ("read", "open"))
        done = self._bash(f"pytest -q -W error {ignored} {' '.join(self._tests)}")
        passed = re.search(r"^(\d+) passed", done.stdout, flags=re.MULTILINE)
        assert done.returncode == 0, f"{self.page.name}\n{done.stdout}{done.stderr}"
        assert passed, f"{self.page.name}\n{done.stdout}{done.stderr}"
        assert int(passed[1]) >= sum(len(_TESTS.findall(text)) for text in self._tests.values()), done.stdout

    def _run_script(self, text: str, place: str) -> None:
        """Run a script with the names of the scripts and doctests above it."""
        modules = set(sys.modules)
        sys.path.insert(0, str(self.folder))
        try:
            with contextlib.chdir(self.folder), warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)  # of the packages that it imports
                exec(compile(text, place, "exec"), self._names)
        except Exception as error:
            raise AssertionError(f"{place}: {error!r}") from error
        finally:
            sys.path.remove(str(self.folder))
            for name in sys.modules.keys() - modules:
                if str(self.folder) in str(getattr(sys.modules[name], "__file__", "")):
                    del sys.modules[name]

    def _run_shell(self, text: str, place: str) -> None:
        for command in _commands(text):
            if command.startswith(_SERVERS):
                self._serve(command, place)
                continue
            done = self._bash(command)
            assert done.returncode == 0, f"{place}: {command}\n{done.stdout}{done.stderr}"

    def _run_console(self, text: str, place: str) -> None:
        for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
            command, _, expected = part.partition("\n")
            done = self._bash(command)
            shown = done.stdout + done.stderr
            is_equal = doctest.OutputChecker().check_output(
                expected, shown, doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
            )
            assert is_equal, f"{place}: {command}\nexpected:\n{expected}\ngot:\n{shown}"

    def _bash(self, command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["bash", "-euo", "pipefail", "-c", command],
            cwd=self.folder,
            env=self._environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )

    def _serve(self, command: str, place: str) -> None:
        self._stop_server()
        self._server = subprocess.Popen(
            shlex.split(command, comments=True),
            cwd=self.folder,
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert self._server.stdout is not None
        deadline = time.monotonic() + _READY_TIMEOUT_S
        shown = ""
        while not shown.startswith("listening on") and time.monotonic() < deadline and self._server.poll() is None:
            shown = self._server.stdout.readline()
        assert shown.startswith("listening on"), f"{place}: {command}\n{shown}"

    def _stop_server(self) -> None:
        if self._server is not None:
            self._server.terminate()
            self._server.communicate(timeout=30)
            self._server = None


def _commands(text: str) -> Iterator[str]:
    """Yield the parts of a script that run on their own: each `simzk serve` in the foreground, and what is between."""
    script: list[str] = []
    for line in text.splitlines():
        if line.startswith(_SERVERS) and not line.rstrip().endswith("&"):
            if "".join(script).strip():
                yield "\n".join(script)
            yield line
            script = []
        else:
            script.append(line)
    if "".join(script).strip():
        yield "\n".join(script)
