"""Each plugin that is a capability can be deleted with its tests: the rest does without it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.without_plugins import ABSENT, PLUGINS, Checkout, checkout_without

pytestmark = pytest.mark.skipif(bool(ABSENT), reason="is itself such a copy")

LOAD_ALL = """
import importlib, pkgutil, sys
from pathlib import Path
import owpc_ltr, owpc_ltr.types, owpc_ltr.plugin_checks
from owpc_ltr.cli.commands import COMMANDS
from owpc_ltr.host.commands import plugin_commands
from owpc_ltr.host.registry import load

for module in (owpc_ltr, owpc_ltr.types, owpc_ltr.plugin_checks):
    for name in dir(module):
        getattr(module, name)
found = plugin_commands()
for command in (*COMMANDS, *found.commands):
    if command.function:
        command.load()
plugins = load()
assert plugins.all() and not found.failures and not plugins.failures
packages = ["owpc_ltr", *(path.name for path in Path("plugins").glob("owpc_ltr_*"))]
for package in packages:
    place = importlib.import_module(package)
    assert Path(place.__file__).is_relative_to(Path.cwd()), place
    for module in pkgutil.walk_packages(place.__path__, package + "."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
print(*{name.partition(".")[0] for name in sys.modules if name.startswith("owpc_ltr_")})
"""
"""Imports whatever there is: public names, commands, plugins, and every module."""

CORE = (
    *("cli/test_cli.py", "cli/test_cli_formats.py", "data/test_judgments.py"),
    *("data/test_parameters.py", "host/test_settings.py"),
)
"""Tests of a few seconds, of several rooms."""


def check_works(checkout: Checkout, *deleted: str) -> None:
    """Everything that is left can be imported, and the help pages are printed."""
    loaded = checkout.python("-c", LOAD_ALL)
    assert loaded.returncode == 0, loaded.stderr[-3000:]
    packages = set(loaded.stdout.split())
    assert packages == {path.name for path in (checkout.root / "plugins").glob("owpc_ltr_*")}
    assert packages.isdisjoint(f"owpc_ltr_{plugin}" for plugin in deleted)
    for words in (["--help"], ["train", "--help-all"], ["models", "--help"]):
        page = checkout.python("-m", "owpc_ltr", *words)
        assert page.returncode == 0, page.stderr[-3000:]
        assert "Usage: owpc-ltr" in page.stdout


@pytest.mark.thorough(sample=1)
@pytest.mark.parametrize("plugin", PLUGINS)
def test_what_is_left_without_a_plugin_works(plugin: str, tmp_path: Path) -> None:
    check_works(checkout_without([plugin], tmp_path), plugin)


def test_the_core_works_without_any_of_them(tmp_path: Path) -> None:
    check_works(checkout_without(PLUGINS, tmp_path), *PLUGINS)


@pytest.mark.thorough
def test_tests_of_the_core_pass_without_any_of_them(tmp_path: Path) -> None:
    files = [str(Path("tests", name)) for name in CORE]
    run = checkout_without(PLUGINS, tmp_path).python(
        "-m", "pytest", "-q", "-p", "no:cacheprovider", *files
    )
    assert run.returncode == 0, run.stdout[-3000:] + run.stderr[-3000:]


@pytest.mark.thorough
def test_every_test_of_the_core_is_there_without_any_of_them(tmp_path: Path) -> None:
    run = checkout_without(PLUGINS, tmp_path).python(
        "-m", "pytest", "-q", "--collect-only", "tests"
    )
    assert run.returncode == 0, run.stdout[-3000:] + run.stderr[-3000:]
