"""The AdminServer's commands that are about a server's place in an ensemble (§5).

Rules of this module:
  - names are not looked up: a host is told as its members' lines have it.

Source: org.apache.zookeeper.server.admin.Commands (LeaderCommand, ObserversCommand, VotingViewCommand,
ZabStateCommand), QuorumVerifier's and QuorumServer's getters as Jackson finds them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from simzk.wire.statistics import Report
    from simzk.zookeeper.ensemble.membership import Endpoint
    from simzk.zookeeper.ensemble.place import Learner

Answer = dict[str, Any]

_NO_LEADER = "server is not initialized"
_COUNTER_BITS = 32


def leader(report: Report) -> Answer:
    """Who leads."""
    place = report.place
    if place is None or place.leader is None:
        return {"error": _NO_LEADER}
    return {"is_leader": place.leads, "leader_id": place.leader.server_id, "leader_ip": place.leader.peer.host}


def proposals(report: Report) -> Answer:
    """What the commands server_stats and stats tell of a leader beside all else."""
    place = report.place
    if place is None or not place.leads:
        return {}
    tally = place.tally
    return {
        "proposal_stats": {
            "last_buffer_size": tally.last_bytes,
            "min_buffer_size": tally.least_bytes,
            "max_buffer_size": tally.greatest_bytes,
        }
    }


def observers(report: Report) -> Answer:
    """Which observers follow this leader."""
    learners = [] if report.place is None else [learner for learner in report.place.learners if learner.observes]
    return {"synced_observers": len(learners), "observers": [_observer(learner) for learner in learners]}


def _observer(learner: Learner) -> Answer:
    return {
        "remote_socket_address": f"/{learner.line.peer}",
        "sid": learner.line.server_id,
        "established": learner.since_ms,
        "queued_packets": 0,
        "queued_packets_size": 0,
        "packets_received": learner.forwarded,
        "packets_sent": learner.learned,
        "requests": learner.forwarded,
        "last_zxid": learner.zxid,
    }


def voting_view(report: Report) -> Answer:
    """Who has a vote."""
    place = report.place
    if place is None or place.leader is None:
        return {"current_config": {}}
    return {
        "current_config": {
            str(line.server_id): {
                "server_addresses": [str(line.peer)],
                "election_addresses": [str(line.election)],
                "client_address": "" if line.client is None else str(line.client),
                "learner_type": "participant",
            }
            for line in (place.line if one.server_id == place.line.server_id else one for one in place.membership.lines)
            if not line.observes
        }
    }


def zab_state(report: Report) -> Answer:
    """How far it is with the history."""
    place = report.place
    if place is None or place.leader is None:
        return {"voting": False, "zabstate": ""}
    line, zxid = place.line, report.server.zxid
    return {
        "myid": line.server_id,
        "is_leader": place.leads,
        "quorum_address": _addresses(line.peer),
        "election_address": _addresses(line.election),
        "client_address": "" if line.client is None else str(line.client),
        "voting": place.votes,
        "last_zxid": f"0x{zxid:x}",
        "zab_epoch": zxid >> _COUNTER_BITS,
        "zab_counter": zxid & ((1 << _COUNTER_BITS) - 1),
        "zabstate": "broadcast",
    }


def _addresses(endpoint: Endpoint) -> Answer:
    """An address as MultipleAddresses, which hold one."""
    address = str(endpoint)
    return {
        "empty": False,
        "all_addresses": [address],
        "wildcard_addresses": [f"0.0.0.0:{endpoint.port}"],
        "all_ports": [endpoint.port],
        "all_host_strings": [endpoint.host],
        "reachable_address": address,
        "all_reachable_addresses": [address],
        "all_reachable_addresses_or_all": [address],
        "reachable_or_one": address,
        "one": address,
    }
