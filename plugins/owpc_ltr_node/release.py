"""Releases: the engines that a local node can be, each with a lock file of what it is made of.

A line of a lock is `FOLDER PATH SHA256`: the folder of the home, the path in a Maven repository,
and the sum that the file must have. `make_lock.py` writes the lock of another release.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import NamedTuple

from owpc_ltr.errors import EngineUnavailable, UsageError
from owpc_ltr.files.input import state_folder
from owpc_ltr.files.output import LockHeld, lock_file
from owpc_ltr.text import printable


class Places(NamedTuple):
    """`cache` can be thrown away, and comes back by downloading; `nodes` has records and data."""

    cache: Path
    nodes: Path


def find_places() -> Places:
    """OWPC_LTR_HOME if set, else the platform's folders."""
    import platformdirs

    cache = platformdirs.user_cache_path("owpc-ltr", appauthor=False)
    if home := os.environ.get("OWPC_LTR_HOME"):
        cache = Path(home).expanduser().absolute() / "cache"
    return Places(cache, state_folder() / "nodes")


@contextmanager
def locked_file(path: Path, what: str, patience: float = 900.0) -> Iterator[None]:
    """Hold the lock file; wait, and say so, while another process does.

    Raises EngineUnavailable when it is still held after `patience` seconds.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = _acquire(path, what, patience)
    try:
        yield
    finally:
        os.close(descriptor)  # which also unlocks


def _acquire(path: Path, what: str, patience: float) -> int:
    give_up = time.monotonic() + patience
    waiting = False
    while True:
        try:
            return lock_file(path)
        except LockHeld as held:
            if time.monotonic() > give_up:
                raise EngineUnavailable(
                    f"{what} is still under way in {held.holder} after {patience:.0f} s: try again "
                    "when it is done, or end it"
                ) from held
            if not waiting:
                print_notice(f"{what} is under way in {held.holder}; waiting for it")
            waiting = True
        time.sleep(0.1)


def print_notice(line: str) -> None:
    """Print what the user should know, on standard error."""
    print(printable(line), file=sys.stderr)


OPENSEARCH, ELASTICSEARCH = "opensearch", "elasticsearch"
USUAL = {OPENSEARCH: "3.8.0", ELASTICSEARCH: "9.2.4"}
"""The engines, each with the version that is meant where none is named."""
VECTORS = "2.19.1"
"""The OpenSearch with k-NN and neural search."""
LICENCE = (
    "Elastic's own licences (the Elastic License 2.0; some parts also SSPL 1.0 or AGPL 3.0): read "
    "LICENSE.txt and NOTICE.txt in its folder"
)
LOCKS = resources.files("owpc_ltr_node") / "locks"


@dataclass(frozen=True)
class Artifact:
    """A file in a Maven repository, its place in a home, and its SHA-256."""

    folder: str
    path: str
    sha256: str


@dataclass(frozen=True)
class Release:
    """An engine in one version. Raises UsageError for one without a lock."""

    engine: str = OPENSEARCH
    version: str = USUAL[OPENSEARCH]
    vectors: bool = field(default=False, kw_only=True)

    def __post_init__(self) -> None:
        if self.engine not in USUAL:
            raise UsageError(f"`engine` {self.engine[:40]} is not one of {', '.join(USUAL)}")
        if self.vectors and self.engine != OPENSEARCH:
            raise UsageError(
                f"`with_vectors` brings plugins of {OPENSEARCH}: leave it out, "
                f"since {self.engine} has dense_vector and knn by itself"
            )
        known = known_versions(self.engine, vectors=self.vectors)
        if self.version not in known:
            raise UsageError(
                f"`version` {self.version[:40]} of {self.engine}"
                f"{' with vectors' * self.vectors} cannot be assembled, only {', '.join(known)}: "
                "start another one yourself, and name it by OWPC_LTR_URL"
            )

    def __str__(self) -> str:
        return f"{self.engine} {self.version}{' with vectors' * self.vectors}"

    @property
    def name(self) -> str:
        """The name of its lock and of its home."""
        return f"{self.engine}-{self.version}{'-vectors' * self.vectors}"

    @property
    def numbers(self) -> tuple[int, ...]:
        """The version, for comparisons."""
        return tuple(map(int, self.version.split(".")))

    @property
    def oldest_java(self) -> int:
        """The first Java that it runs on."""
        return 21 if self.numbers >= ((3,) if self.engine == OPENSEARCH else (9,)) else 17

    @property
    def newest_java(self) -> int | None:
        """The newest Java it runs on: Java 24 has no security manager, which older releases set."""
        return None if self.numbers >= ((3,) if self.engine == OPENSEARCH else (8, 19)) else 23

    def runs_on(self, java: int) -> bool:
        """Whether a version of Java will do."""
        return self.oldest_java <= java <= (self.newest_java or java)

    @property
    def artifacts(self) -> list[Artifact]:
        """What a home is made of."""
        lines = (LOCKS / self.name).read_text().splitlines()
        return [Artifact(*line.split()) for line in lines]


def known_versions(engine: str, *, vectors: bool = False) -> list[str]:
    """The versions that have a lock, the oldest first."""
    names = [lock.name.split("-") for lock in LOCKS.iterdir()]
    versions = [name[1] for name in names if name[0] == engine and (len(name) == 3) == vectors]
    return sorted(versions, key=lambda version: [int(part) for part in version.split(".")])


def usual_release(
    engine: str = OPENSEARCH, version: str | None = None, *, with_vectors: bool = False
) -> Release:
    """The release asked for; of an engine alone, its usual version."""
    usual = VECTORS if with_vectors else USUAL.get(engine, "")
    return Release(engine, version or usual, vectors=with_vectors)
