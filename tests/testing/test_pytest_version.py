"""Which pytest loads the plugin."""

from __future__ import annotations

import pytest

from simzk.testing.pytest_version import check_version


@pytest.mark.parametrize("version", ["7.0.0", "7.4.4", "8.2.0rc1", "9.2.0", "10.0.dev3"])
def test_a_newer_pytest_is_accepted(version: str) -> None:
    check_version(version)


@pytest.mark.parametrize("version", ["6.2.5", "5.4", "6.9"])
def test_an_older_pytest_is_named(version: str) -> None:
    said = rf"^simzk: the pytest plugin needs pytest 7\.0 or newer, not {version}; -p no:simzk switches the plugin off$"
    with pytest.raises(SystemExit, match=said):
        check_version(version)
