"""Imported by the server that children are forked from: everything is loaded and compiled here."""

import pkgutil
import tempfile
from importlib import import_module
from pathlib import Path

import owpc_ltr
from tests.faults.learning import write_letor
from tests.faults.running import run

for module in pkgutil.walk_packages(owpc_ltr.__path__, "owpc_ltr."):
    if not module.name.endswith(("__main__", "thai.build")):
        import_module(module.name)
with tempfile.TemporaryDirectory() as name:
    folder = Path(name)
    write_letor(folder / "t.letor")
    run(("train", "t.letor", "--out", "m.json", "--grid", "C=1"), folder)
    run(("select", "t.letor", "--folds", "3", "--loss", "pairwise", "--grid", "C=1"), folder)
    run(("evaluate", "m.json", "--data", "t.letor"), folder)
