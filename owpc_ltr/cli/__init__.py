"""The command line `owpc-ltr`, whose commands are generated from public functions."""

from owpc_ltr.cli.program import main as main
