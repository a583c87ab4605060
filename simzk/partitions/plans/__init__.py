"""Reassignment plans over a layout: the diff, the phases of the move, and reports about them."""
