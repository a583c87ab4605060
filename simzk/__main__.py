"""`python -m simzk`: the command line."""

from simzk.cli import main

main()
