"""Tools for the tests of others: the pytest plugin, Hypothesis strategies and machines."""
