"""Layouts: the metadata of a cluster at one instant, as files that other tools read too.

A layout has partitions with replicas, ISR, leader and leader epoch, and brokers with racks. docs/layout.md defines the
file formats.
"""

from simzk.partitions.layouts.files import read_brokers, read_layout, write_layout
from simzk.partitions.layouts.generate import brokers_in_racks, generate_layout
from simzk.partitions.layouts.layout import Brokers, Layout, elect_offline_leaders
from simzk.partitions.layouts.summary import BrokerLoad, Exposure, LayoutSummary, breaks_rack_rule, exposure, summarize

__all__ = [
    "BrokerLoad",
    "Brokers",
    "Exposure",
    "Layout",
    "LayoutSummary",
    "breaks_rack_rule",
    "brokers_in_racks",
    "elect_offline_leaders",
    "exposure",
    "generate_layout",
    "read_brokers",
    "read_layout",
    "summarize",
    "write_layout",
]
