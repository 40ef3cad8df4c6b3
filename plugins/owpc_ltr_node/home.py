"""An assembled engine: put together from the artifacts of its lock, whole or not there."""

from __future__ import annotations

import hashlib
import os
import zipfile
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

from owpc_ltr.errors import EngineUnavailable
from owpc_ltr.files.output import disk_faults, sync_folder
from owpc_ltr.redaction import redacted_trace
from owpc_ltr.signatures import Progress
from owpc_ltr_node.release import (
    ELASTICSEARCH,
    LICENCE,
    OPENSEARCH,
    Artifact,
    Release,
    locked_file,
    print_notice,
)

if TYPE_CHECKING:
    import requests

LAYOUT = 2
"""Raised with every change to what is put into a home."""
MODULES = {
    "transport-netty4": "transport.Netty4",
    "lang-painless": "painless.Painless",
    "lang-mustache": "script.mustache.Mustache",
    "analysis-common": "analysis.common.CommonAnalysis",
    "mapper-extras": "index.mapper.MapperExtras",
    "reindex": "index.reindex.Reindex",
}
"""The classes of OpenSearch's modules, whose descriptors only the distribution has ready-made."""
# Before 3.0 a security manager watches every class; a local node needs no wall within itself.
_POLICY = "grant {\n  permission java.security.AllPermission;\n};\n"
# What Elasticsearch reads of its distribution; the rest is start scripts and example settings.
_KEPT = ("lib/", "modules/", "LICENSE.txt", "NOTICE.txt")
_CONNECTIONS = 8
_ATTEMPTS = 3


def provide_home(release: Release, cache: Path, progress: Progress) -> Path:
    """The home of a release, downloaded and assembled if it is not there.

    An LTR plugin in the own Maven repository, where `mvn install` puts it, is put into it.
    """
    plugin = _local_plugin(release)
    home = cache / "homes" / f"{release.name}{'-ltr' * bool(plugin)}.{LAYOUT}"
    if home.is_dir():
        return home
    lock = home.with_name(f"{home.name}.lock")
    with disk_faults(home), locked_file(lock, f"another download of {release}"):
        if not home.is_dir():
            _assemble(release, plugin, home, progress)
            print_notice(f"assembled {release} in {home}")
    return home


def _local_plugin(release: Release) -> Path | None:
    root = Path(os.environ.get("M2_REPO") or Path.home() / ".m2" / "repository")
    version = f"{release.version}.0"
    path = root / "org" / "opensearch" / "ltr" / version / f"ltr-{version}.zip"
    return path if release.engine == OPENSEARCH and path.is_file() else None


def _assemble(release: Release, plugin: Path | None, home: Path, progress: Progress) -> None:
    """Make the home, which appears when it is complete.

    The partial one is kept where this is interrupted, and the next start goes on with it.
    """
    if release.engine == ELASTICSEARCH:
        print_notice(f"{release} is under {LICENCE}")
    partial = home.with_name(f"{home.name}.partial")
    # The server looks for these at its start.
    for name in ("bin", "plugins"):
        (partial / name).mkdir(parents=True, exist_ok=True)
    _download(release.artifacts, partial, str(release), progress)
    for archive in partial.glob("elasticsearch-*.zip"):
        _unpack(archive, partial, kept=_KEPT)
        archive.unlink()
    for module in partial.glob("modules/*") if release.engine == OPENSEARCH else ():
        _describe(module, release)
    if release.engine == OPENSEARCH:
        thai = resources.files("owpc_ltr_node") / "thai" / "thai-locale.jar"
        (partial / "lib" / "thai-locale.jar").write_bytes(thai.read_bytes())
    for archive in partial.glob("plugins/*.zip"):
        _unpack(archive, archive.with_suffix(""))
        archive.unlink()
    if plugin is not None:
        _unpack(plugin, partial / "plugins" / "ltr")
    os.sync()
    partial.rename(home)
    sync_folder(home.parent)


def _download(artifacts: list[Artifact], home: Path, task: str, progress: Progress) -> None:
    import requests

    with requests.Session() as session, ThreadPoolExecutor(_CONNECTIONS) as pool:
        session.mount("https://", requests.adapters.HTTPAdapter(pool_maxsize=_CONNECTIONS))
        fetching = pool.map(lambda artifact: _fetch(artifact, home, session), artifacts)
        for number, _ in enumerate(fetching, 1):
            progress(task, number / len(artifacts))


def _fetch(artifact: Artifact, home: Path, session: requests.Session) -> None:
    """Download an artifact into a home, unless an earlier start has completed it."""
    target = home / artifact.folder / Path(artifact.path).name
    if target.is_file() and hashlib.sha256(target.read_bytes()).hexdigest() == artifact.sha256:
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(fetch_artifact(artifact, session))


def repositories() -> list[str]:
    """Maven Central, and the repositories that jgo is configured with."""
    from jgo.config import GlobalSettings
    from jgo.constants import MAVEN_CENTRAL_URL

    return list({"central": MAVEN_CENTRAL_URL, **GlobalSettings.load().repositories}.values())


def fetch_artifact(artifact: Artifact, session: requests.Session) -> bytes:
    """An artifact from a Maven repository.

    Raises EngineUnavailable where none has it, none can be reached, or its sum is not the recorded
    one.
    """
    fault = ""
    for repository in repositories() * _ATTEMPTS:
        url = f"{repository}/{artifact.path}"
        try:
            answer = session.get(url, timeout=(10, 30))
            answer.raise_for_status()
        except OSError as error:  # as all errors of requests are
            fault = (
                f"cannot download {redacted_trace(url)}: {reason(error)}; the first start "
                "downloads 60 to 110 MB: connect once, or name another repository in jgo's settings"
            )
            continue
        digest = hashlib.sha256(answer.content).hexdigest()
        if digest == artifact.sha256:
            return answer.content
        fault = (
            f"{redacted_trace(url)} has the SHA-256 {digest[:12]}…, and was released with "
            f"{artifact.sha256[:12]}…: something between changes downloads"
        )
    raise EngineUnavailable(fault)


def reason(fault: BaseException) -> str:
    """The innermost cause, in a few words.

    >>> reason(OSError(111, "Connection refused"))
    'Connection refused'
    """
    inner: object = fault
    while isinstance(inner, BaseException):
        fault = inner
        arguments = (arg for arg in fault.args if isinstance(arg, BaseException))
        inner = getattr(fault, "reason", None) or next(arguments, None) or fault.__context__
    # A proxy's address can carry a password.
    return redacted_trace(getattr(fault, "strerror", None) or (str(fault).splitlines() or [""])[0])


def _unpack(archive: Path, folder: Path, kept: Iterable[str] = ()) -> None:
    """Unpack a zip, which never leaves the folder; of its one folder, only what is `kept`."""
    try:
        with zipfile.ZipFile(archive) as files:
            for entry in files.infolist():
                if kept:
                    entry.filename = entry.filename.partition("/")[2]
                if not kept or entry.filename.startswith(tuple(kept)):
                    files.extract(entry, folder)
    except (zipfile.BadZipFile, OSError) as error:
        raise EngineUnavailable(f"cannot unpack {archive}: {error}; remove it") from error


def _describe(module: Path, release: Release) -> None:
    """Write the descriptor of a module of OpenSearch."""
    since_3 = release.numbers >= (3,)
    lines = {
        "name": module.name,
        "description": f"the {module.name} module",
        "version": release.version,
        "opensearch.version": release.version,
        "java.version": "21" if since_3 else "11",
        "classname": f"org.opensearch.{MODULES[module.name]}{'Module' * since_3}Plugin",
        "has.native.controller": "false",
    }
    if module.name == "analysis-common":
        lines["extended.plugins"] = "lang-painless"
    text = "".join(f"{key}={value}\n" for key, value in lines.items())
    (module / "plugin-descriptor.properties").write_text(text)
    if not since_3:
        (module / "plugin-security.policy").write_text(_POLICY)
