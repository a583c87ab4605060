"""Ensemble of servers with one history: leader, followers, observers, lag and partitions (§7)."""

from simzk.zookeeper.ensemble.ensemble import Ensemble
from simzk.zookeeper.ensemble.member import Member
from simzk.zookeeper.ensemble.membership import EnsembleConfig
from simzk.zookeeper.ensemble.roles import Role

__all__ = ["Ensemble", "EnsembleConfig", "Member", "Role"]
