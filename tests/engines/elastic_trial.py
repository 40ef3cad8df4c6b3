"""Elasticsearch's own classes, asked what they make of a trained model, in a Java of their own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from owpc_ltr_node.home import provide_home
from owpc_ltr_node.java import choose_java
from owpc_ltr_node.release import ELASTICSEARCH, Release

from owpc_ltr.arrays import Matrix
from owpc_ltr.errors import UsageError
from owpc_ltr.signatures import silent
from tests.session_node import cache_for

SOURCE = Path(__file__).with_name("TrainedModelTrial.java")
LOCKS = Path(__file__).with_name("locks")
"""Of the versions whose classes are asked here alone."""


@dataclass(frozen=True)
class Trial:
    """A model's id and body, and documents to score; NaN is a feature that did not match."""

    id: str
    body: dict[str, Any]
    names: tuple[str, ...]
    rows: Matrix

    def line(self) -> str:
        """As the Java program reads it."""
        rows = [
            {n: float(x) for n, x in zip(self.names, row, strict=True) if not np.isnan(x)}
            for row in self.rows
        ]
        return json.dumps({"id": self.id, "body": self.body, "rows": rows})


def compiler_for(release: Release) -> Path:
    """A whole JDK that this Elasticsearch runs on; the test is skipped where there is none."""
    homes = [os.environ.get("OWPC_LTR_TEST_JDK"), os.environ.get("JAVA_HOME")]
    homes += [str(Path(path).resolve().parents[1]) for path in [shutil.which("javac")] if path]
    homes += [str(path) for path in sorted(Path("/usr/lib/jvm").glob("*"))]
    for home in filter(None, homes):
        java = Path(home) / "bin" / "java"
        if java.is_file() and (java.parent / "javac").is_file():
            with suppress(UsageError):
                return choose_java(java, release, cache_for(release))
    pytest.skip(f"no JDK with a compiler for {release}: set OWPC_LTR_TEST_JDK to one")


def try_models(version: str, trials: list[Trial]) -> list[dict[str, Any]]:
    """What Elasticsearch of a version answers to each: its scores, or its error."""
    with pytest.MonkeyPatch.context() as patch:
        if (LOCKS / f"{ELASTICSEARCH}-{version}").is_file():
            patch.setattr("owpc_ltr_node.release.LOCKS", LOCKS)
        release = Release(ELASTICSEARCH, version)
        java = compiler_for(release)
        home = provide_home(release, cache_for(release), silent)
    path = f"{home}/lib/*:{home}/modules/x-pack-core/*"
    lines = "".join(f"{trial.line()}\n" for trial in trials)
    ran = subprocess.run(
        [java, "-Xmx512m", "-XX:+UseSerialGC", "-cp", path, SOURCE],
        input=lines,
        capture_output=True,
        text=True,
        check=False,
    )
    answers = [json.loads(line) for line in ran.stdout.splitlines() if line.startswith("{")]
    assert len(answers) == len(trials), ran.stderr[-2000:]
    return answers
