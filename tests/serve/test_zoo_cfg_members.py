"""Ensemble membership in one zoo.cfg and in several."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from simzk.errors import ConfigError
from simzk.serve.configuration.ensemble_plan import of_files
from simzk.serve.configuration.zoo_cfg import read_zoo_cfg

if TYPE_CHECKING:
    from pathlib import Path

    from simzk.serve.configuration.settings import Settings

LINES = "server.1=h:2888:3888;2181\nserver.2=h:2889:3889:observer;127.0.0.1:2182\nserver.30=h:2890:3890:participant\n"


def written(place: Path, server_id: int, more: str = "", lines: str = LINES, name: str = "") -> Path:
    """Write a server's file, and its dataDir with myid."""
    data = place / str(server_id)
    data.mkdir(exist_ok=True)
    (data / "myid").write_text(f"{server_id}\n")
    file = place / (name or f"zoo{server_id}.cfg")
    file.write_text(f"dataDir={data}\ninitLimit=7\nsyncLimit=3\nadmin.enableServer=false\n{more}{lines}")
    return file


def refused(file: Path) -> str:
    with pytest.raises(ConfigError) as error:
        read_zoo_cfg(file)
    return str(error.value).replace(str(file.parent), "DIR")


def test_the_lines_and_myid_say_who_is_who(tmp_path: Path) -> None:
    settings = read_zoo_cfg(written(tmp_path, 2))
    belonging = settings.belonging
    assert belonging is not None
    assert (settings.address, settings.port, settings.init_limit, settings.sync_limit) == ("127.0.0.1", 2182, 7, 3)
    membership = belonging.membership
    assert (belonging.server_id, sorted(membership.voters), sorted(membership.observers)) == (2, [1, 30], [2])
    assert read_zoo_cfg(written(tmp_path, 30, "clientPort=9\nclientPortAddress=::1\n")).port == 9
    assert read_zoo_cfg(written(tmp_path, 1)).address == ""
    assert read_zoo_cfg(written(tmp_path, 1, "clientPort=2181\nclientPortAddress=0.0.0.0\n")).port == 2181


def test_one_line_is_a_lone_servers(tmp_path: Path) -> None:
    file = written(tmp_path, 1, "clientPort=1\n", "server.1=h:1:2\n")
    assert read_zoo_cfg(file).belonging is None
    settings = read_zoo_cfg(written(tmp_path, 1, lines="server.1=localhost:2888:3888;2181\n"))
    assert (settings.belonging, settings.address, settings.port) == (None, "", 2181)
    alone = read_zoo_cfg(written(tmp_path, 1, "standaloneEnabled=false\n", "server.1=localhost:2888:3888;2181\n"))
    assert alone.belonging is not None
    assert of_files([alone]).membership == alone.belonging.membership


def test_a_lone_server_needs_myid_for_the_port_of_its_line(tmp_path: Path) -> None:
    file = written(tmp_path, 2, lines="server.1=localhost:2888:3888;2181\n")
    assert "clientPort is not set; expected clientPort=PORT, or one of the line server.N that myid" in refused(file)
    (tmp_path / "2" / "myid").write_text("two\n")
    assert refused(file) == "DIR/2/myid: invalid server number 'two'; expected one of 1"


def test_a_dynamic_file_has_the_lines_and_is_named_for_its_version(tmp_path: Path) -> None:
    dynamic = tmp_path / "zoo.cfg.dynamic.10000000a"
    dynamic.write_text(LINES)
    belonging = read_zoo_cfg(written(tmp_path, 1, f"dynamicConfigFile={dynamic}\n", "")).belonging
    assert belonging is not None
    assert (belonging.membership.version, len(belonging.membership.lines)) == (0x10000000A, 3)


@pytest.mark.parametrize(
    ("more", "lines", "said"),
    [
        ("clientPort=7\n", LINES, "DIR/zoo1.cfg:5: it differs from server.1; expected 0.0.0.0:2181"),
        ("", "server.1=h:1\nserver.2=h:3:4\n", "DIR/zoo1.cfg:5: invalid server.1: 'h:1'; expected HOST:PORT:PORT"),
        (
            "",
            "server.1=h:1:2:observer\n",
            "DIR/zoo1.cfg: an ensemble of observers only; expected 2 servers with a vote",
        ),
        ("", LINES + "weight.1=2\n", "DIR/zoo1.cfg:8: weight.1 is not supported; expected majority quorums"),
        (
            "",
            LINES + "server.255=h:1:2\n",
            "DIR/zoo1.cfg:8: invalid server number in server.255; expected server.0 to server.254",
        ),
        ("", LINES.replace(";2181", ""), "DIR/zoo1.cfg: clientPort is not set; expected clientPort=PORT"),
        (
            "dynamicConfigFile=none\n",
            LINES,
            "DIR/zoo1.cfg:6: server.1 is in the wrong file; expected in dynamicConfigFile",
        ),
        ("dynamicConfigFile=none\n", "", "DIR/zoo1.cfg:5: none cannot be read: No such file or directory"),
    ],
)
def test_what_cannot_be_is_said(tmp_path: Path, more: str, lines: str, said: str) -> None:
    assert refused(written(tmp_path, 1, more, lines)).startswith(said)


def test_myid_and_limits_must_be_there(tmp_path: Path) -> None:
    file = written(tmp_path, 1)
    file.write_text(file.read_text().replace("syncLimit=3\n", ""))
    assert refused(file).startswith("DIR/zoo1.cfg: syncLimit is not set")
    file = written(tmp_path, 1)
    (tmp_path / "1" / "myid").write_text("one")
    assert refused(file) == "DIR/1/myid: invalid server number 'one'; expected one of 1, 2, 30"
    (tmp_path / "1" / "myid").unlink()
    assert refused(file).startswith("DIR/1/myid: cannot be read: No such file")


def planned(*files: Path) -> list[Settings]:
    return [read_zoo_cfg(file) for file in files]


@pytest.mark.parametrize(
    ("second", "said"),
    [
        ({"more": "tickTime=17\n"}, "DIR/zoo2.cfg: its tickTime differs from that of DIR/zoo1.cfg; expected the same"),
        ({"lines": LINES.replace("3889", "3899")}, "DIR/zoo2.cfg: its servers differ from those of DIR/zoo1.cfg"),
    ],
)
def test_files_that_do_not_say_the_same_are_refused(tmp_path: Path, second: dict[str, str], said: str) -> None:
    files = planned(written(tmp_path, 1), written(tmp_path, 2, **second))
    with pytest.raises(ConfigError) as error:
        of_files(files)
    assert str(error.value).replace(str(tmp_path), "DIR").startswith(said)


def test_files_that_make_no_ensemble_are_refused(tmp_path: Path) -> None:
    first = read_zoo_cfg(written(tmp_path, 1))
    twice = read_zoo_cfg(written(tmp_path, 1, name="again.cfg"))
    lone = read_zoo_cfg(written(tmp_path, 5, "clientPort=1\n", ""))
    for files, said in (
        (
            [first],
            "one of 3 servers, which .*; expected one process with the files of all: simzk serve --config .*zoo1.cfg",
        ),
        ([first, twice], "again.cfg: it is for server 1, like .*zoo1.cfg"),
        ([first, lone], "a file of several is that of a single server"),
    ):
        with pytest.raises(ConfigError, match=said):
            of_files(files)
