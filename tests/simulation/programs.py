"""A small simulated run that uses every part; a program, so that it can be run under other hash seeds."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from simzk.simulation import History, Network, Process, Queue, Scheduler

ROOT = Path(__file__).parents[2]


def run_in_new_process(module: str, hash_seed: str) -> str:
    """Return what `python -m module` prints when strings hash by that seed."""
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    done = subprocess.run(
        [sys.executable, "-m", module], cwd=ROOT, env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout


def ping_pong(seed: int, members: int = 4) -> History:
    """Members send each other messages while random faults break them; return what happened."""
    scheduler = Scheduler(seed)
    history = History(scheduler)
    network = Network(scheduler, latency_us=(100, 5_000))
    processes = {member: Process(scheduler, f"member {member}") for member in range(members)}
    inboxes: dict[int, Queue[str]] = {member: Queue() for member in processes}

    def post(source: Process, target: int, text: str) -> None:
        receiver = processes[target]
        network.send(source.name, receiver.name, lambda: receiver.deliver(lambda: inboxes[target].put(text)))

    async def talk(member: int) -> None:
        process = processes[member]
        stream = scheduler.stream(process.name)
        while True:
            await process.sleep(stream.between(1, 50_000))
            target = stream.below(members)
            post(process, target, f"{member}/{scheduler.now_us}")

    async def listen(member: int) -> None:
        while True:
            text = await inboxes[member].get()
            history.record(f"member {member}", "got", text)

    def start(member: int) -> None:
        processes[member].spawn(talk(member))
        processes[member].spawn(listen(member))

    def restart(member: int) -> None:
        processes[member].restart()
        inboxes[member] = Queue()
        history.record(f"member {member}", "restarted")
        start(member)

    for member in processes:
        start(member)
    faults = scheduler.stream("faults")
    for at_us in range(0, 30_000_000, 1_500_000):

        def strike() -> None:
            member, duration_us = faults.below(members), faults.between(1, 1_400_000)
            kind = faults.choice(("kill", "pause", "cut"))
            history.record(f"member {member}", kind)
            if kind == "kill":
                processes[member].kill()
                scheduler.call_later(duration_us, "faults", lambda: restart(member))
            elif kind == "pause":
                processes[member].pause(duration_us)
            elif kind == "cut":
                for other in processes:
                    network.cut(f"member {member}", f"member {other}")
                scheduler.call_later(duration_us, "faults", network.heal_all)

        scheduler.call_at(at_us, "faults", strike)
    for second in range(1, 31):
        scheduler.run_until(second * 1_000_000)
        scheduler.check()
        network.check()
        for member, process in processes.items():
            process.check()
            inboxes[member].check()
    history.check()
    return history


if __name__ == "__main__":
    sys.stdout.write(ping_pong(seed=11).to_text() + "\n")
