"""Several servers with one history: who leads, who lags, who is cut off (§7)."""

from simzk.zookeeper.ensemble.config import EnsembleConfig
from simzk.zookeeper.ensemble.ensemble import Ensemble
from simzk.zookeeper.ensemble.member import Member
from simzk.zookeeper.ensemble.place import Role

__all__ = ["Ensemble", "EnsembleConfig", "Member", "Role"]
