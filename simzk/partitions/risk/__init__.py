"""What an assignment of replicas risks, from rates of failure and repair: docs/risk.md defines each figure.

`rates` holds the rates, `cut_sets` what is exact of every set of replicas by itself, `unions` what many of them risk
together (`union_exact` by enumeration, `union_sampled` by draws of `minimal_cuts`), `assess` the figures of topics and
of a cluster.
"""
