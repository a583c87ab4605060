"""Virtual time: scheduler, seeded streams, processes, network, faults, history, invariants."""
