"""Risk of an assignment of replicas, from rates of failure and repair; docs/risk.md defines each figure.

`rates` contains the rates, `cut_sets` exact figures of single sets of replicas and of unions by enumeration, `sampled`
estimates of larger unions, `assess` the figures of topics and of a cluster, `alternatives` other assignments.
"""
