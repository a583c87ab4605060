"""The documentation site: links between the repository's files, and the pages that are generated from the code."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING

import pytest

from docs_site.links import ROOT, resolve_links
from docs_site.pages import PAGES
from simzk.cli.commands import COMMANDS
from simzk.kafka.observation.beliefs import BELIEFS
from simzk.kafka.observation.invariants import INVARIANTS
from simzk.kafka.releases.profile import BrokerRules, ControllerRules, ZnodeRules
from simzk.kafka.releases.versions import VERSIONS
from simzk.scenarios.actions import ACTIONS
from simzk.scenarios.expectations import EXPECTATIONS
from simzk.scenarios.faults.plan import FAULT_KINDS
from simzk.serve.configuration.keys import KEYS
from simzk.simulation.request_faults import REQUEST_FAULTS
from simzk.zookeeper.operations import OPERATIONS
from tests.conformance.differences import DIFFERENCES

if TYPE_CHECKING:
    from collections.abc import Iterable

DOCS = ROOT / "docs"
page = cache(lambda name: PAGES[f"reference/{name}.md"]())


@pytest.mark.parametrize(
    ("markdown", "name", "resolved"),
    [
        ("[a](docs/testing.md#fixtures)", "index.md", "[a](testing.md#fixtures)"),
        ("[a](../README.md)", "testing.md", "[a](index.md)"),
        ("[a](../scenarios.md)", "guides/swarm.md", "[a](../scenarios.md)"),
        ("[a](../../tests/README.md)", "guides/swarm.md", "[a](../tests.md)"),
        ("[`code`](../simzk/api.py), [b](https://example.org)", "faults.md", "`code`, [b](https://example.org)"),
        ("[a](missing.md) and [b](#here)", "faults.md", "[a](missing.md) and [b](#here)"),
        ("![a](docs/images/run.png)", "index.md", "![a](images/run.png)"),
        ("```\n[a](../simzk/api.py)\n```", "faults.md", "```\n[a](../simzk/api.py)\n```"),
    ],
)
def test_links_are_resolved(markdown: str, name: str, resolved: str) -> None:
    assert resolve_links(markdown, name) == resolved


@pytest.mark.parametrize("name", PAGES)
def test_tables_have_equal_rows_and_no_empty_text(name: str) -> None:
    text = PAGES[name]()
    assert text.startswith("# ")
    for table in re.findall(r"(?:^\|.*\n)+", text, flags=re.MULTILINE):
        cells = {len(re.findall(r"(?<!\\)\|", row)) for row in table.splitlines()}
        assert len(cells) == 1, table[:200]
        assert len(table.splitlines()) > 2, table
    assert re.findall(r"^(?:None|\(None\)|\s*:::\s*)$", text, flags=re.MULTILINE) == []


def missing(text: str, words: Iterable[str]) -> list[str]:
    """Return the words that a page does not have as code."""
    return [word for word in words if f"`{word}`" not in text]


def test_each_row_of_the_code_is_on_its_page() -> None:
    assert missing(page("requests"), [row.name for row in OPERATIONS]) == []
    assert missing(page("requests"), [row.request.__name__ for row in OPERATIONS]) == []
    assert missing(page("fault_kinds"), [*REQUEST_FAULTS, *FAULT_KINDS]) == []
    assert missing(page("zoo_cfg_keys"), KEYS) == []
    assert [one.name for one in INVARIANTS if one.name not in page("invariants")] == []
    assert [one.name for one in BELIEFS if one.name not in page("invariants")] == []
    assert [one.name for one in DIFFERENCES if f"| {one.name} |" not in page("differences")] == []
    steps = [f'action = "{name}"' for name in ACTIONS] + [f'expect = "{name}"' for name in EXPECTATIONS]
    assert [step for step in steps if f"### {step}\n" not in page("scenario_schema")] == []
    assert [name for name in COMMANDS if f"## simzk {name}\n" not in page("commands")] == []


def test_the_page_of_releases_has_each_field_with_its_meaning() -> None:
    names = [name for part in (ZnodeRules, ControllerRules, BrokerRules) for name in part.rows]
    rows = dict(re.findall(r"^\| `(\w+)` \| (.*?) \|", page("kafka_releases"), flags=re.MULTILINE))
    assert [name for name in names if not rows.get(name)] == []
    assert missing(page("kafka_releases"), VERSIONS["3.9"].defaults) == []


def test_the_page_of_releases_says_from_when_a_rule_holds() -> None:
    assert re.search(r"^\| `has_topic_ids` \|.*\| from 2.8 \|$", page("kafka_releases"), flags=re.MULTILINE)
    assert re.search(r"^\| `fails_on_invalid_json` \|.*\| before 1.1 \|$", page("kafka_releases"), flags=re.MULTILINE)
    assert "| `replica.lag.time.max.ms` | 0.8.0: `10000`<br>2.5: `30000` |" in page("kafka_releases")


def test_the_page_of_znodes_has_each_form_once() -> None:
    row = re.search(r"^\| `/controller` \| all \| (.*) \|$", page("kafka_znodes"), flags=re.MULTILINE)
    assert row is not None
    assert re.findall(r"([\d.]+): `", row[1]) == ["0.8.0", "0.8.1", "3.4"]
    assert '"kraftControllerEpoch":-1' in row[1]


def test_a_command_is_shown_with_its_options() -> None:
    assert "| `--seeds N` | Run N times with consecutive seeds" in page("commands")
    assert "| `--servers N` | number of servers of the ensemble" in page("commands")
    assert "### simzk layout import\n" in page("commands")
