"""One Spark session for all tests that need one: it takes seconds to start."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from simzk.pipeline.spark_session import spark_session

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """An embedded Spark with two cores."""
    with spark_session("local[2]", is_python_busy=True) as session:
        yield session
