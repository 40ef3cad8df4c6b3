"""A copy of the checkout without some plugins: their packages, entry points and tests."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tomllib
from collections.abc import Collection
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).parents[1]
PLUGINS = (
    *("clicks", "dask", "demo", "experiment", "feature_trials", "keep", "mcp", "node", "papers"),
    *("rating", "report", "serve", "tune"),
)
"""Plugins that can be deleted: `plugins/owpc_ltr_NAME` with `tests/NAME`."""
ABSENT = tuple(name for name in PLUGINS if find_spec(f"owpc_ltr_{name}") is None)
_COPIED = ("owpc_ltr", "plugins", "tests", "benchmarks", "docs", "featuresets")
_DISTRIBUTION = "owpc_ltr-0.0.dist-info"


@dataclass(frozen=True)
class Checkout:
    """A copy of the checkout, whose Python finds its packages and those of the environment."""

    root: Path

    def python(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run Python in it. Warnings are errors, as in tests."""
        places = sysconfig.get_path("purelib"), sysconfig.get_path("platlib")
        path = os.pathsep.join(map(str, (self.root, self.root / "plugins", *places)))
        environ = {name: text for name, text in os.environ.items() if name != "OWPC_LTR_TESTS"}
        # Without `site` nothing is found where the checkout itself is installed.
        return subprocess.run(
            [sys.executable, "-S", *words],
            cwd=self.root, env={**environ, "PYTHONPATH": path},
            capture_output=True, text=True, check=False,
        )  # fmt: skip


def checkout_without(plugins: Collection[str], folder: Path) -> Checkout:
    """A copy of the checkout in `folder` without these plugins, as `serve`."""
    packages = {f"owpc_ltr_{plugin}" for plugin in plugins}

    def left_out(parent: str, names: list[str]) -> set[str]:
        place = Path(parent).relative_to(ROOT).as_posix()
        return {
            name
            for name in names
            if (place == "plugins" and name in packages) or (place == "tests" and name in plugins)
        }

    for name in _COPIED:
        shutil.copytree(ROOT / name, folder / name, ignore=left_out)
    text = (ROOT / "pyproject.toml").read_text("utf-8")
    project = tomllib.loads(text)["project"]
    (folder / "pyproject.toml").write_text(_without_entries(text, packages), "utf-8")
    for path in (*ROOT.glob("*.md"), ROOT / "Makefile"):
        shutil.copyfile(path, folder / path.name)
    lines = []
    for group, entries in project["entry-points"].items():
        lines.append(f"[{group}]")
        lines += [
            f"{name} = {module}"
            for name, module in entries.items()
            if module.partition(".")[0] not in packages
        ]
    about = folder / _DISTRIBUTION
    about.mkdir()
    (about / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    )
    (about / "entry_points.txt").write_text("\n".join(lines) + "\n")
    return Checkout(folder)


def _without_entries(text: str, packages: Collection[str]) -> str:
    """pyproject.toml without lines that name one of the packages."""
    named = re.compile(rf'"(plugins/)?({"|".join(packages)})(\.[a-z_.]+)?",?$')
    return "".join(
        line for line in text.splitlines(keepends=True) if not named.search(line.rstrip())
    )
