"""Reference for docs/reference/kafka.md §2 and §3: one partition at a time, with plain lists.

Slow and obvious on purpose. It shares nothing with simzk.partitions, so that batch functions can be compared with it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Version = tuple[int, int, int]

# One version on each side of every change of rules.
VERSIONS: list[Version] = [
    (0, 8, 0),
    (0, 8, 1),
    (0, 8, 2),
    (0, 9, 0),
    (0, 10, 0),
    (1, 0, 2),
    (1, 1, 0),
    (2, 2, 2),
    (2, 3, 0),
    (3, 1, 0),
    (3, 2, 0),
    (3, 9, 1),
]


class Elected(NamedTuple):
    leader: int
    isr: list[int]
    unclean: bool = False


@dataclass(frozen=True)
class State:
    leader: int
    leader_epoch: int
    isr: list[int]
    controller_epoch: int
    version: int
    recovering: bool = False


def initialise(replicas: Sequence[int], live: set[int]) -> Elected | None:
    """§2.5: leader the first live replica in AR order, ISR all live replicas in AR order."""
    alive = [r for r in replicas if r in live]
    return Elected(alive[0], alive) if alive else None


def offline(
    version: Version, replicas: Sequence[int], isr: Sequence[int], live: set[int], unclean: bool
) -> Elected | None:
    """§2.6, rows "Offline" and "Offline, no live ISR member"."""
    live_isr = [r for r in isr if r in live]
    live_ar = [r for r in replicas if r in live]
    if version < (0, 8, 2):
        if live_isr:
            return Elected(live_isr[0], live_isr)
        return Elected(live_ar[0], [live_ar[0]], True) if live_ar else None
    if live_isr:
        in_ar_order = [r for r in replicas if r in live_isr]
        return Elected(in_ar_order[0], live_isr) if in_ar_order else None
    return Elected(live_ar[0], [live_ar[0]], True) if live_ar and unclean else None


def preferred(replicas: Sequence[int], isr: Sequence[int], leader: int, live: set[int]) -> Elected | None:
    """§2.6, row "Preferred"; None also where no election is needed."""
    head = replicas[0]
    if head == leader or head not in live or head not in isr:
        return None
    return Elected(head, list(isr))


def reassign(version: Version, target: Sequence[int], isr: Sequence[int], live: set[int]) -> Elected | None:
    """§2.6, rows "Reassign"."""
    for r in target:
        if r in live and (version < (0, 8, 1) or r in isr):
            return Elected(r, list(isr))
    return None


def controlled_shutdown(
    version: Version, replicas: Sequence[int], isr: Sequence[int], leader: int, registered: set[int], leaving: set[int]
) -> Elected | None:
    """§2.6, rows "Controlled shutdown"."""
    new_isr = [r for r in isr if r not in leaving]
    if version < (0, 8, 1):
        new_isr = [r for r in new_isr if r != leader]
    if version < (0, 10, 0):
        return Elected(new_isr[0], new_isr) if new_isr else None
    for r in replicas:
        if r in registered and r in isr and r not in leaving:
            return Elected(r, new_isr)
    return None


def remove(version: Version, state: State, broker: int, controller_epoch: int, unclean: bool) -> State:
    """Apply §2.6 "Remove a replica from the ISR"; return the same object if nothing is written."""
    if broker not in state.isr:
        return state
    rest = [r for r in state.isr if r != broker]
    if not rest:
        keeps_last = version >= (1, 1, 0) or (version >= (0, 8, 2) and not unclean)
        rest = [broker] if keeps_last else []
    leader = -1 if state.leader == broker else state.leader
    return replace(
        state,
        leader=leader,
        isr=rest,
        leader_epoch=state.leader_epoch + 1,
        version=state.version + 1,
        controller_epoch=controller_epoch,
    )


def elect(
    version: Version, replicas: Sequence[int], state: State, live: set[int], controller_epoch: int, unclean: bool
) -> State:
    """§2.5 "Elect loop" by the Offline strategy."""
    elected = offline(version, replicas, state.isr, live, unclean)
    if elected is None:
        return state
    return State(
        elected.leader,
        state.leader_epoch + 1,
        elected.isr,
        controller_epoch,
        state.version + 1,
        state.recovering or (elected.unclean and version >= (3, 2, 0)),
    )


def broker_failure(
    version: Version,
    replicas: Sequence[int],
    state: State,
    dead: Sequence[int],
    live: set[int],
    controller_epoch: int,
    unclean: bool,
) -> State:
    """§2.7 onBrokerFailure, steps 2 to 4."""
    if state.leader == -1 or state.leader in dead:
        state = elect(version, replicas, state, live, controller_epoch, unclean)
    for broker in dead:
        if broker in replicas:
            state = remove(version, state, broker, controller_epoch, unclean)
    return state


def failover(
    version: Version,
    replicas: Sequence[int],
    state: State,
    dead: Sequence[int],
    live: set[int],
    controller_epoch: int,
    unclean: bool,
) -> State:
    """§2.3 steps 6 and 7, §2.4 Start, §2.5 Start."""
    if version >= (2, 3, 0):
        for broker in dead:
            if broker in replicas:
                state = remove(version, state, broker, controller_epoch, unclean)
    if state.leader not in live:
        state = elect(version, replicas, state, live, controller_epoch, unclean)
    return state


def start(
    version: Version, replicas: Sequence[int], state: State | None, live: set[int], controller_epoch: int, unclean: bool
) -> State | None:
    """§2.7 onBrokerStartup, step 4; §2.5 Initialise for a partition without a state."""
    if state is None:
        first = initialise(replicas, live)
        return first and State(first.leader, 0, first.isr, controller_epoch, 0)
    return elect(version, replicas, state, live, controller_epoch, unclean) if state.leader == -1 else state


def shut_down(
    version: Version,
    replicas: Sequence[int],
    state: State,
    broker: int,
    registered: set[int],
    leaving: set[int],
    controller_epoch: int,
    unclean: bool,
) -> State:
    """Apply the controller's part of §2.14; `leaving` are all brokers that shut down, including `broker`."""
    if len(replicas) == 1:
        return state
    if state.leader != broker:
        return remove(version, state, broker, controller_epoch, unclean)
    elected = controlled_shutdown(version, replicas, state.isr, state.leader, registered, leaving)
    return state if elected is None else rewritten(state, elected, controller_epoch)


def rewritten(state: State, elected: Elected, controller_epoch: int) -> State:
    """§2.6 "Counters"."""
    return replace(
        state,
        leader=elected.leader,
        isr=elected.isr,
        leader_epoch=state.leader_epoch + 1,
        version=state.version + 1,
        controller_epoch=controller_epoch,
    )


def begin(
    version: Version, moving: Moving, state: State | None, target: Sequence[int], controller_epoch: int, unclean: bool
) -> tuple[Moving, State | None]:
    """§2.11 KIP-455, U and A."""
    new = reassignment(moving, target)
    if new == moving or state is None:
        return new, state
    for broker in moving.replicas:
        if broker not in new.replicas:
            state = remove(version, state, broker, controller_epoch, unclean)
    if not set(target) <= set(state.isr):
        state = rewritten(state, Elected(state.leader, state.isr), controller_epoch)
    return new, state


def complete(
    version: Version, moving: Moving, state: State | None, live: set[int], controller_epoch: int, unclean: bool
) -> tuple[Moving, State | None]:
    """Apply §2.11 KIP-455, B; return the same objects if the target is not in sync."""
    target = [r for r in moving.replicas if r not in moving.removing]
    under_way = moving.adding or moving.removing
    if state is None or not under_way or not set(target) <= set(state.isr):
        return moving, state
    if state.leader in target and state.leader in live:
        state = rewritten(state, Elected(state.leader, state.isr), controller_epoch)
    else:
        elected = reassign(version, target, state.isr, live)
        state = state if elected is None else rewritten(state, elected, controller_epoch)
    for broker in moving.removing:
        state = remove(version, state, broker, controller_epoch, unclean)
    return Moving(target, [], []), state


def begin_legacy(
    moving: Moving, state: State | None, target: Sequence[int], controller_epoch: int
) -> tuple[Moving, State | None]:
    """Apply §2.11 Legacy of 0.8.1 to 2.3, steps 1 and 2; up to four replicas in all, so that sets keep order."""
    if state is not None and set(target) <= set(state.isr):
        return moving, state
    both = [*target, *(r for r in moving.replicas if r not in target)]
    return Moving(both, [], []), state and rewritten(state, Elected(state.leader, state.isr), controller_epoch)


def complete_legacy(
    version: Version,
    moving: Moving,
    state: State | None,
    target: Sequence[int],
    live: set[int],
    controller_epoch: int,
    unclean: bool,
) -> tuple[Moving, State | None]:
    """Apply §2.11 Legacy, steps 5 to 10; 0.8.0 raises no epoch of a leader that stays."""
    if state is None or not set(target) <= set(state.isr) or moving.replicas == list(target):
        return moving, state
    if state.leader not in target or state.leader not in live:
        elected = reassign(version, target, state.isr, live)
        state = state if elected is None else rewritten(state, elected, controller_epoch)
    elif version >= (0, 8, 1):
        state = rewritten(state, Elected(state.leader, state.isr), controller_epoch)
    for broker in moving.replicas:
        if broker not in target:
            state = remove(version, state, broker, controller_epoch, unclean)
    return Moving(list(target), [], []), state


def by_leader(state: State, isr: Sequence[int]) -> State:
    """Apply §2.8: a write of the partition leader."""
    return replace(state, isr=list(isr), version=state.version + 1, recovering=False)


def java_ints(seed: int, bound: int, count: int) -> list[int]:
    """§3.4 `java.util.Random.nextInt(bound)`, `count` times."""
    state = (seed ^ 0x5DEECE66D) % 2**48
    drawn: list[int] = []
    while len(drawn) < count:
        state = (state * 0x5DEECE66D + 0xB) % 2**48
        r = state // 2**17
        if bound in [2**power for power in range(31)]:
            drawn.append(bound * r // 2**31)
        elif r - r % bound + bound - 1 < 2**31:
            drawn.append(r % bound)
    return drawn


def assign(
    brokers: Sequence[int],
    racks: Mapping[int, str],
    partitions: int,
    factor: int,
    start: int,
    shift: int,
    first_partition: int,
) -> dict[int, list[int]]:
    """§3.1 and §3.2, partition by partition; `racks` empty for the rack-unaware rule."""
    listed = list(brokers)
    if racks:
        queues = [sorted(b for b in brokers if racks[b] == rack) for rack in sorted({racks[b] for b in brokers})]
        listed = []
        while any(queues):
            listed += [queue.pop(0) for queue in queues if queue]
    n = len(listed)
    rack_count = len({racks[b] for b in brokers}) if racks else 0
    result: dict[int, list[int]] = {}
    for p in range(first_partition, first_partition + partitions):
        if p > 0 and p % n == 0:
            shift += 1
        i0 = (p + start) % n
        chosen = [listed[i0]]
        k = 0
        while len(chosen) < factor:
            if not racks:
                chosen.append(listed[(i0 + 1 + (shift + k) % (n - 1)) % n])
                k += 1
                continue
            candidate = listed[(i0 + 1 + (shift * rack_count + k) % (n - 1)) % n]
            k += 1
            used_racks = {racks[b] for b in chosen}
            rack_ok = racks[candidate] not in used_racks or len(used_racks) == rack_count
            broker_ok = candidate not in chosen or len(chosen) == n
            if rack_ok and broker_ok:
                chosen.append(candidate)
        result[p] = chosen
    return result


class Moving(NamedTuple):
    """RS, AR and RR of §2.11."""

    replicas: list[int]
    adding: list[int]
    removing: list[int]


def reassignment(moving: Moving, target: Sequence[int]) -> Moving:
    """§2.11 "New target"."""
    origin = [r for r in moving.replicas if r not in moving.adding]
    return Moving(
        list(target) + [r for r in origin if r not in target],
        [r for r in target if r not in origin],
        [r for r in origin if r not in target],
    )
