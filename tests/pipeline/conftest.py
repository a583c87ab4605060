"""One Spark session for all tests that need one: it takes seconds to start.

README's command installs no Spark, which is 400 MB: all tests of this folder and of `simzk/pipeline` are slow
(`PACKAGES_OF_SLOW_TESTS` in tests/conftest.py).
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

HERE = Path(__file__).resolve().parent
PACKAGE = HERE.parents[1] / "simzk" / "pipeline"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of Spark."""
    for item in items:
        if item.path.is_relative_to(HERE) or item.path.is_relative_to(PACKAGE):
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """An embedded Spark with two cores."""
    from simzk.pipeline.spark_session import spark_session

    with spark_session("local[2]", is_python_busy=True) as session:
        yield session
