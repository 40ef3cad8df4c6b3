"""The build hook: compiled code for the wheel, and a tag that says whose platform it is for."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.builders.wheel import WheelBuilderConfig


class CompiledCode(BuildHookInterface[WheelBuilderConfig]):
    """Code of all that is compiled on first use, made by a process that does small jobs with it."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, and add what was compiled to the wheel; editable installs get nothing."""
        if version == "editable" or os.environ.get("OWPC_LTR_PURE_WHEEL"):
            return
        self._folder = tempfile.TemporaryDirectory()
        code, names = Path(self._folder.name, "code"), Path(self._folder.name, "names")
        code.mkdir()
        self._write_metadata(names)
        done = _ship(Path(self.root), code, names)
        build_data["pure_python"] = False
        build_data["infer_tag"] = True
        manylinux = os.environ.get("AUDITWHEEL_PLAT")
        if manylinux:
            # The code calls numba's own functions and no system library: it runs where numba does.
            python = f"cp{sysconfig.get_config_var('py_version_nodot')}"
            build_data["tag"] = f"{python}-{python}-{manylinux}"
        build_data["force_include"][str(code)] = "owpc_ltr/compiling/shipped_code"
        self.app.display_info(
            f"compiled {done['functions']} functions in {done['seconds']} s, for "
            f"{done['baseline']} and numba {done['numba']}"
        )

    def finalize(self, *_build: Any) -> None:
        """Take the folder away."""
        folder = getattr(self, "_folder", None)
        if folder is not None:
            folder.cleanup()

    def _write_metadata(self, folder: Path) -> None:
        """The version and the plugins, as an installation has them, which this is not yet."""
        core = self.metadata.core
        inside = folder / f"owpc_ltr-{self.metadata.version}.dist-info"
        inside.mkdir(parents=True)
        inside.joinpath("METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {core.name}\nVersion: {self.metadata.version}\n"
        )
        lines = [f"{name} = {place}\n" for name, place in core.entry_points["owpc_ltr"].items()]
        inside.joinpath("entry_points.txt").write_text("".join(["[owpc_ltr]\n", *lines]))


def _ship(root: Path, code: Path, names: Path) -> dict[str, Any]:
    sources = (names, root, root / "plugins")
    ended = subprocess.run(  # noqa: S603 - this Python, with a module of this project
        [sys.executable, "-m", "owpc_ltr.api.shipping", str(code)],
        cwd=root,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(map(str, sources)),
            "PYTHONDONTWRITEBYTECODE": "1",
            "OMP_NUM_THREADS": "1",
        },
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    done: dict[str, Any] = json.loads(ended.stdout) if ended.returncode == 0 else {}
    failures = done.get("failures", [f"its process ended with code {ended.returncode}"])
    if failures:
        raise RuntimeError(
            f"the wheel's code could not be compiled: {'; '.join(failures)}; "
            "OWPC_LTR_PURE_WHEEL=1 makes a wheel without it"
        )
    return done
