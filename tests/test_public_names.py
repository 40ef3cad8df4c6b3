"""The names of the package: imported when they are asked for, and not before."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

import owpc_ltr

HEAVY = ("numpy", "numba", "pyarrow", "scipy", "xgboost", "pluggy", "pandas")


def imported_by(statements: str) -> list[str]:
    """The heavy modules that a fresh interpreter has after these statements."""
    code = f"{statements}\nimport json, sys\nprint(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return [name for name in HEAVY if name in json.loads(done.stdout)]


def test_importing_the_package_imports_nothing_heavy() -> None:
    assert imported_by("import owpc_ltr") == []
    assert imported_by("from owpc_ltr import hookimpl") == ["pluggy"]
    assert imported_by("from owpc_ltr import read_dataset") == []
    assert {"numpy", "pyarrow"} <= set(imported_by("from owpc_ltr import make_dataset"))


@pytest.mark.parametrize("name", owpc_ltr.__all__)
def test_every_public_name_is_there(name: str) -> None:
    assert getattr(owpc_ltr, name) is getattr(owpc_ltr, name)
    assert name in dir(owpc_ltr)


def test_the_table_has_just_the_public_names() -> None:
    assert set(owpc_ltr._HOMES) | {"__version__"} == set(owpc_ltr.__all__)
    assert list(owpc_ltr.__all__) == sorted(owpc_ltr.__all__)


def test_a_name_that_there_is_not_is_no_attribute() -> None:
    with pytest.raises(AttributeError, match="module 'owpc_ltr' has no attribute 'nothing'"):
        _ = owpc_ltr.nothing
