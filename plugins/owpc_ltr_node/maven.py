"""Artifacts from a Maven repository, each checked against the sum that the repository publishes."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from owpc_ltr.errors import EngineUnavailable, UsageError
from owpc_ltr.text import redacted
from owpc_ltr_node.folders import Report, make_folder, write_readable, writing_to
from owpc_ltr_node.java import MISSING
from owpc_ltr_node.release import ELASTICSEARCH, OPENSEARCH, USUAL

if TYPE_CHECKING:
    import requests

CONNECTIONS = 8
ATTEMPTS = 3


class NotPublished(EngineUnavailable):
    """No repository has the artifact."""


@dataclass(frozen=True, order=True)
class Jar:
    """An artifact by its Maven coordinate."""

    group: str
    name: str
    version: str
    classifier: str = ""
    packaging: str = "jar"

    @property
    def identity(self) -> tuple[str, str, str]:
        """What must not be there twice: two versions of it would clash."""
        return self.group, self.name, self.classifier

    @property
    def filename(self) -> str:
        """As Maven names it."""
        classifier = f"-{self.classifier}" if self.classifier else ""
        return f"{self.name}-{self.version}{classifier}.{self.packaging}"

    @property
    def path(self) -> Path:
        """Its place in a Maven repository."""
        return Path(*self.group.split("."), self.name, self.version, self.filename)

    def __str__(self) -> str:
        return f"{self.group}:{self.name}:{self.version}"


class Maven:
    """A repository on this machine, filled from the remote ones that jgo is configured with.

    A file is in it whole and checked, or not at all, so an interrupted download is resumed.
    """

    def __init__(self, folder: Path, report: Report) -> None:
        self._report = report
        try:
            import requests
            from jgo.config import GlobalSettings
            from jgo.constants import MAVEN_CENTRAL_URL
            from jgo.maven import MavenContext, PythonResolver
        except ImportError as error:
            raise UsageError(MISSING) from error

        maven = self
        self.folder = folder
        self._session = requests.Session()
        self._session.mount("https://", requests.adapters.HTTPAdapter(pool_maxsize=CONNECTIONS))
        self._unreachable: tuple[type[Exception], ...] = (requests.RequestException,)
        self.faults: list[Exception] = []
        self._locks: dict[Path, threading.Lock] = {}
        self._registry = threading.Lock()
        self.remotes = list(
            {"central": MAVEN_CENTRAL_URL, **GlobalSettings.load().repositories}.values()
        )

        class CheckedResolver(PythonResolver):  # type: ignore[misc]
            """jgo's resolver; its own download only warns of a wrong sum."""

            def download(self, artifact: Any) -> Path:
                try:
                    return maven.fetch(_jar(artifact))
                except Exception as error:
                    maven.faults.append(error)
                    raise

        remove_unsound(folder)
        self._context = MavenContext(resolver=CheckedResolver(), repo_cache=folder)

    def resolve(self, coordinates: Sequence[str]) -> list[list[Jar]]:
        """Each artifact with all that it needs to run.

        Each is resolved by itself: together, they would change one another's versions.
        """
        with ThreadPoolExecutor(CONNECTIONS) as pool:
            return list(pool.map(self._resolve_one, coordinates))

    def fetch_all(self, jars: Iterable[Jar], task: str) -> None:
        """Have every one of these in the folder, checked."""
        distinct = sorted(set(jars))
        with ThreadPoolExecutor(CONNECTIONS) as pool:
            for done, _ in enumerate(pool.map(self.fetch, distinct), 1):
                self._report.advance(task, done, len(distinct))

    def fetch(self, jar: Jar, *, unsummed: bool = False) -> Path:
        """The file of one artifact, downloaded if it is not there yet.

        `unsummed`: taken, and said, also where the repository publishes no sum of it; the caller
        knows how to tell whether it is whole.

        Raises NotPublished, or EngineUnavailable where no repository can be reached.
        """
        path = self.folder / jar.path
        with self._registry:
            lock = self._locks.setdefault(path, threading.Lock())
        with lock:
            if not path.exists():
                self._download(jar, path, unsummed)
        return path

    def publishes(self, coordinate: str) -> bool:
        """Whether a repository has this artifact; EngineUnavailable where none can be asked."""
        group, name, version = coordinate.split(":")
        try:
            self.fetch(Jar(group, name, version, packaging="pom"))
        except NotPublished:
            return False
        return True

    def _resolve_one(self, coordinate: str) -> list[Jar]:
        self._report.advance(f"resolving {coordinate.split(':')[1]}", 0, 0)
        root = self._context.create_dependency(coordinate)
        itself, needed = self._context.resolver.resolve([root])
        if self.faults:
            # jgo takes some failures for a dependency without a POM, and goes on without it.
            raise self.faults[0]
        run = [each for each in needed if each.scope in ("compile", "runtime")]
        return [_jar(each.artifact) for each in (*itself, *run)]

    def _download(self, jar: Jar, path: Path, unsummed: bool) -> None:
        for remote in self.remotes:
            content = self._content(f"{remote}/{jar.path.as_posix()}", unsummed)
            if content is not None:
                with writing_to(self.folder):
                    make_folder(path.parent)
                    write_readable(_sum_file(path), _sha1(content).encode())
                    write_readable(path, content)
                return
        usual = USUAL[ELASTICSEARCH if "elasticsearch" in jar.group else OPENSEARCH]
        raise NotPublished(
            f"{jar} is not in any configured maven repository: name another --version, as {usual}"
        )

    def _content(self, url: str, unsummed: bool) -> bytes | None:
        """What is published there, with the right sum; None if nothing is."""
        for _ in range(ATTEMPTS):
            answer = self._get(url)
            if answer.status_code == 404:
                return None
            published = self._get(f"{url}.sha1")
            if answer.ok and published.ok and published.text.split()[:1] == [_sha1(answer.content)]:
                return bytes(answer.content)
            if unsummed and answer.ok and published.status_code == 404:
                digest = hashlib.sha256(answer.content).hexdigest()
                self._report.say(f"{url} has no published sum; its SHA-256 is {digest}")
                return bytes(answer.content)
        if answer.ok and published.ok:
            raise EngineUnavailable(
                f"cannot use {url}: its SHA-1 is {_sha1(answer.content)}, and the repository says "
                f"{published.text.strip()[:40] or 'nothing'}; something between changes downloads"
            )
        status = published.status_code if answer.ok else answer.status_code
        raise EngineUnavailable(f"cannot download {url}: HTTP {status}; try again later")

    def _get(self, url: str) -> requests.Response:
        fault: Exception | None = None
        for _ in range(ATTEMPTS):
            try:
                return self._session.get(url, timeout=(10, 30))
            except self._unreachable as error:
                fault = error
        raise EngineUnavailable(
            f"cannot reach the maven repository for {url}: {reason(fault)}; the first start "
            f"downloads about 60 MB: connect once, or copy {self.folder} from another machine"
        ) from fault


def remove_unsound(folder: Path) -> list[Path]:
    """Take out what is not as it was when its sum was checked, or was left half-written."""
    unsound = [path for path in folder.rglob("*") if path.is_file() and not _is_sound(path)]
    for path in unsound:
        path.unlink()
    return unsound


def reason(fault: BaseException | None) -> str:
    """The innermost cause, in a few words.

    >>> reason(OSError(111, "Connection refused"))
    'Connection refused'
    """
    while fault is not None:
        inner = getattr(fault, "reason", None) or fault.__cause__ or fault.__context__
        if not isinstance(inner, BaseException):
            inner = next((arg for arg in fault.args if isinstance(arg, BaseException)), None)
        if inner is None:
            break
        fault = inner
    # A proxy's address can carry a password.
    return redacted(getattr(fault, "strerror", None) or (str(fault).splitlines() or [""])[0])


def _is_sound(path: Path) -> bool:
    if path.suffix == ".sha1":
        return not path.name.startswith(".")
    recorded = _sum_file(path)
    return recorded.is_file() and recorded.read_text() == _sha1(path.read_bytes())


def _jar(artifact: Any) -> Jar:
    group, name, version = artifact.groupId, artifact.artifactId, artifact.version
    return Jar(group, name, version, artifact.classifier, artifact.packaging)


def _sum_file(path: Path) -> Path:
    return path.with_name(f"{path.name}.sha1")


def _sha1(content: bytes) -> str:
    return hashlib.sha1(content, usedforsecurity=False).hexdigest()
