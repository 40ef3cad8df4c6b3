"""Imported by the server that children are forked from: everything is loaded and compiled here."""

import tempfile
from pathlib import Path

import owpc_ltr.cli.app  # noqa: F401
from tests.faults.learning import write_letor
from tests.faults.running import run

with tempfile.TemporaryDirectory() as name:
    folder = Path(name)
    write_letor(folder / "t.letor")
    run(("train", "t.letor", "--out", "m.json", "--grid", "C=1"), folder)
    run(("select", "t.letor", "--folds", "3", "--loss", "pairwise", "--grid", "C=1"), folder)
