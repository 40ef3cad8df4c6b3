"""RankLib as a tool that is run: fetched when it is asked for, and checked.

The paper's version, 2.1-patched, is in no Maven repository. What is fetched is RankyMcRankFace, the
fork that the LTR plugins of Elasticsearch and OpenSearch use; its learners have the same defaults.
"""

from __future__ import annotations

import hashlib
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from owpc_ltr_node.folders import find_places
from owpc_ltr_node.java import choose_java
from owpc_ltr_node.maven import Jar, Maven

from owpc_ltr.errors import Refused

JAR = Jar("com.o19s", "RankyMcRankFace", "0.1.1")
SHA256 = "50a55ef02ead9a9f1c0dd69dd324ca935fcb854c28cfdb857dcdd9e3575ae9b5"
MAIN = "ciir.umass.edu.eval.Evaluator"


@dataclass(frozen=True)
class RankLib:
    """The program and what runs it."""

    java: Path
    jar: Path

    def run(self, *words: str) -> None:
        """Run its command line. Raises Refused with the end of what it said where it fails."""
        command = [str(self.java), "-Xmx1g", "-cp", str(self.jar), MAIN, *words]
        ran = subprocess.run(  # noqa: S603
            command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL
        )
        # It ends with 0 after most errors.
        if ran.returncode or "Exception" in ran.stderr or "Error in" in ran.stdout:
            said = (ran.stderr + ran.stdout).strip().splitlines() or ["nothing"]
            raise Refused(f"RankLib failed on {' '.join(words[:4])}: {said[0][:200]}")


def fetch_ranklib(say: Callable[[str], None]) -> RankLib:
    """RankLib on this machine, downloaded once; `say` is told what is fetched.

    Raises EngineUnavailable where Java or the repository cannot be had, Refused where the file is
    another one than was pinned.
    """
    places = find_places(None)
    folder = places.cache / "ranklib"
    if not (folder / JAR.path).exists():
        say(f"fetching {JAR} from Maven (180 kB; Apache License 2.0, parts of RankLib: BSD)")
    jar = Maven(folder, _Told(say)).fetch(JAR)
    found = hashlib.sha256(jar.read_bytes()).hexdigest()
    if found != SHA256:
        raise Refused(
            f"{jar} is not the {JAR} that was pinned: its SHA-256 is {found}; delete it, and ask "
            "who serves it"
        )
    java = choose_java(None, None, places.runtimes, _Told(say))
    return RankLib(java.program, jar)


@dataclass(frozen=True)
class _Told:
    """News of a download, as lines."""

    line: Callable[[str], None]

    def say(self, line: str) -> None:
        """Pass a line on."""
        self.line(line)

    def advance(self, task: str, done: float, total: float) -> None:
        """Drop a figure: one small file is fetched."""
