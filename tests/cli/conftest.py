"""The fixture `simzk`: a command run in this process, as a shell would see it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from simzk.cli import main
from tests.cli.commands import Finished

if TYPE_CHECKING:
    from tests.cli.commands import Simzk


@pytest.fixture
def simzk(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Simzk:
    """`simzk("layout", "show", path)` runs that command."""

    def run(*arguments: object) -> Finished:
        monkeypatch.setattr("sys.argv", ["simzk", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        said = capsys.readouterr()
        return Finished(ended.value.code or 0, said.out, said.err)

    return run
