"""Replay of a recorded real cluster on the simulation, and a comparison step by step."""
