"""What monitoring tells of a server's place in an ensemble, beside what every server tells (§5).

Source: LeaderZooKeeperServer, FollowerZooKeeperServer, ObserverZooKeeperServer (dumpMonitorValues, registerMetrics),
QuorumPeer, LearnerHandler, LearnerSessionTracker.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from simzk.zookeeper.summary import Summary

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from simzk.wire.statistics import Report
    from simzk.zookeeper.ensemble.place import Place
    from simzk.zookeeper.server import Server
    from simzk.zookeeper.sessions import Session

_QUEUE_SIZES = "learner_handler_qp_size"
QUEUE_TIMES = "learner_handler_qp_time_ms"


def place_values(place: Place) -> dict[str, str | int | float]:
    """What comes before all other gauges."""
    assert place.leader is not None, "who serves no sessions of the ensemble has no place in it"
    values: dict[str, str | int | float] = {"peer_state": place.peer_state}
    if place.observes:
        values["observer_master_id"] = place.leader.server_id
    return values


def gauges(place: Place, now_ms: int) -> dict[str, str | int | float]:
    """How things stand in the ensemble at this moment."""
    values: dict[str, str | int | float] = {"quorum_size": len(place.membership.voters)}
    if not place.leads:
        return values
    observers = sum(learner.observes for learner in place.learners)
    return {
        **values,
        "last_proposal_size": place.tally.last_bytes,
        "min_proposal_size": place.tally.least_bytes,
        "max_proposal_size": place.tally.greatest_bytes,
        "learners": len(place.learners),
        "synced_followers": len(place.learners) - observers,
        "synced_non_voting_followers": sum(not learner.votes and not learner.observes for learner in place.learners),
        "synced_observers": observers,
        "pending_syncs": 0,
        "leader_uptime": now_ms - place.since_ms,
    }


def counters(place: Place) -> dict[str, int]:
    """What this server counts of the history; to an observer nothing is proposed, it is told what is committed."""
    tally = place.tally
    return {
        "commit_count": tally.proposed,
        "learner_commit_received_count": tally.learned,
        "learner_proposal_received_count": 0 if place.observes else tally.learned,
        "looking_count": tally.looked,
        "proposal_count": tally.proposed,
        "sync_processor_request_queued": tally.proposed + tally.learned,
    }


def queue_summaries(place: Place) -> tuple[dict[str, Summary], dict[str, Summary]]:
    """Of a leader, what waits for each of its learners, without percentiles and with them: nothing ever does."""
    ids = [learner.line.server_id for learner in place.learners]
    empty = Summary()
    return {f"{one}_{_QUEUE_SIZES}": empty for one in ids}, {f"{one}_{QUEUE_TIMES}": empty for one in ids}


def follows(report: Report) -> bool:
    """Whether the server leaves it to another to say which sessions expire; a read-only one too."""
    return report.place is not None and not report.place.leads


def session_dump(report: Report, sets: Callable[[str, Sequence[Session]], list[str]]) -> list[str]:
    """The lines of the word dump on sessions.

    Args:
        report: of a server of an ensemble or of none.
        sets: the lines on sessions by when they expire, under a heading.
    """
    place, tracker = report.place, report.server.sessions
    sessions = [session for session in map(tracker.get, tracker.ids()) if session is not None]
    if place is None or not place.has_local:
        return _global_sessions(report.server) if follows(report) else sets("Session Sets", sessions)
    local = sets("Local Session Sets", place.local)
    if follows(report):
        return [*local, *_global_sessions(report.server)]
    return [*local, *sets("Global Session Sets", [session for session in sessions if session not in place.local])]


def _global_sessions(server: Server) -> list[str]:
    """Of a server that follows: who there is, and for how long without a sign."""
    timeouts = dict(server.sessions.timeouts_ms())
    return [
        f"Global Sessions({len(timeouts)}):",
        *(f"0x{session_id:x}\t{timeouts[session_id]}ms" for session_id in sorted(timeouts)),
    ]


def proposal_sizes(report: Report) -> str:
    """The line that srvr and stat of a leader end with."""
    if report.place is None or not report.place.leads:
        return ""
    tally = report.place.tally
    return f"Proposal sizes last/min/max: {tally.last_bytes}/{tally.least_bytes}/{tally.greatest_bytes}\n"
