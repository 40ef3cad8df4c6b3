"""The wheel, built as pip builds it: isolated, pure, and complete."""

from __future__ import annotations

import json
import os
import subprocess
import sysconfig
import venv
from pathlib import Path

import pytest

pytestmark = pytest.mark.thorough

ROOT = Path(__file__).resolve().parents[1]


def test_pip_builds_and_installs_a_wheel_that_works(tmp_path: Path) -> None:
    """In a fresh environment, whose build has no package but those that pyproject.toml names."""
    venv.create(tmp_path / "fresh", with_pip=True)
    python = tmp_path / "fresh" / "bin" / "python"
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            words, cwd=tmp_path, env=environ, capture_output=True, text=True, check=False
        )

    made = run(str(python), "-m", "pip", "wheel", "--no-deps", "--wheel-dir", "dist", str(ROOT))
    if "No matching distribution found for hatchling" in made.stderr:
        pytest.skip("no network to fetch the build backend from")
    assert made.returncode == 0, made.stderr
    (wheel,) = (tmp_path / "dist").iterdir()
    assert wheel.name.endswith("-py3-none-any.whl")
    # The dependencies are those of this environment: to install them would take minutes.
    (site,) = (tmp_path / "fresh" / "lib").glob("python*/site-packages")
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib"))
    install = ("-m", "pip", "install", "--no-deps", "--force-reinstall")
    installed = run(str(python), *install, str(wheel))
    assert installed.returncode == 0, installed.stderr
    code = "import owpc_ltr, owpc_ltr_losses; print(owpc_ltr.__file__, owpc_ltr_losses.__file__)"
    places = run(str(python), "-c", code).stdout.split()
    assert all(Path(place).is_relative_to(site) for place in places)
    completed = run(str(python.with_name("owpc-ltr")), "plugins", "--json")
    assert completed.returncode == 0, completed.stderr
    names = {(plugin["kind"], plugin["name"]) for plugin in json.loads(completed.stdout)["plugins"]}
    assert {("loss", "owpc"), ("optimizer", "larank"), ("metric", "ndcg")} <= names
    inside = {path.name for path in (site / "owpc_ltr" / "featuresets").iterdir()}
    assert inside >= {path.name for path in (ROOT / "featuresets").glob("*.json")}
