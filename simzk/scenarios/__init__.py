"""Scenario files: actions on a cluster and expectations of its state, as TOML.

`reader` parses and checks a file; `actions` and `expectations` define its steps; `player` plays them on a
`KafkaCluster`; `report_text` formats a run as text, `results` as JSON.
"""
