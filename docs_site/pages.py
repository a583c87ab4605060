"""The generated pages of the site, by their paths below docs/."""

from __future__ import annotations

from typing import TYPE_CHECKING

from docs_site import api_pages, command_pages, difference_pages, kafka_pages, scenario_pages, zookeeper_pages

if TYPE_CHECKING:
    from collections.abc import Callable

PAGES: dict[str, Callable[[], str]] = {
    "reference/api_zookeeper.md": api_pages.zookeeper_page,
    "reference/api_kafka.md": api_pages.kafka_page,
    "reference/api_testing.md": api_pages.testing_page,
    "reference/api_errors.md": api_pages.errors_page,
    "reference/commands.md": command_pages.commands_page,
    "reference/requests.md": zookeeper_pages.requests_page,
    "reference/fault_kinds.md": zookeeper_pages.faults_page,
    "reference/zoo_cfg_keys.md": zookeeper_pages.zoo_cfg_page,
    "reference/scenario_schema.md": scenario_pages.scenarios_page,
    "reference/kafka_releases.md": kafka_pages.releases_page,
    "reference/kafka_znodes.md": kafka_pages.znodes_page,
    "reference/invariants.md": kafka_pages.invariants_page,
    "reference/differences.md": difference_pages.differences_page,
}
