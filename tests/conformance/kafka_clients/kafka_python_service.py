"""Stand-in for `test.service` of kafka-python, which its source distribution lacks: a broker that runs already."""

from __future__ import annotations


class ExternalService:
    """Broker that somebody else starts and stops."""

    def __init__(self, host: str, port: int) -> None:
        self.address = f"{host}:{port}"

    def dump_logs(self) -> None:
        """Print nothing."""

    def stop(self) -> None:
        """Do nothing."""


class SpawnedService:
    """Process of a broker, which is never started here."""

    def __init__(self, arguments: list[str], environment: dict[str, str]) -> None:
        raise NotImplementedError(f"no process is started: {arguments}, {len(environment)} variables")
