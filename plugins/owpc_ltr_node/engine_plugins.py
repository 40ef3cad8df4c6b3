"""Plugins of the local node: LTR, k-NN and neural search, from Maven, unpacked without trust."""

from __future__ import annotations

import os
import re
import zipfile
from collections.abc import Mapping
from pathlib import Path

from owpc_ltr.errors import BadInput, EngineUnavailable
from owpc_ltr_node.distribution import check_entries
from owpc_ltr_node.folders import make_folder, write_readable
from owpc_ltr_node.maven import Jar, Maven, NotPublished
from owpc_ltr_node.release import VECTORS, Release

GROUP, NAME = "org.opensearch", "ltr"
DESCRIPTOR = "plugin-descriptor.properties"
LARGEST = 200_000_000
VECTOR_PLUGINS = ("opensearch-knn", "neural-search")
"""Neural search extends k-NN. Their zips are without native libraries, so that of k-NN's engines
only `lucene` works."""


def artifact(version: str) -> Jar:
    """The plugin's zip for a version of OpenSearch."""
    return Jar(GROUP, NAME, f"{version}.0", packaging="zip")


def find_local(version: str, environ: Mapping[str, str] = os.environ) -> Path | None:
    """The plugin in the user's own Maven repository, where `mvn install` puts it."""
    repository = environ.get("M2_REPO")
    root = Path(repository) if repository else Path.home() / ".m2" / "repository"
    path = root / artifact(version).path
    return path if path.is_file() else None


def find_remote(version: str, maven: Maven) -> Path | None:
    """The plugin from the remote repositories, or None where none has it or can be reached."""
    try:
        return maven.fetch(artifact(version))
    except EngineUnavailable:
        return None  # the node does without: all that it needs is here already


def fetch_vector_plugins(release: Release, maven: Maven) -> list[Path]:
    """The zips of k-NN and neural search. Raises NotPublished where the release has none."""
    jars = [
        Jar("org.opensearch.plugin", name, f"{release.version}.0", packaging="zip")
        for name in VECTOR_PLUGINS
    ]
    try:
        # Some have no sum beside them; the sums of this package tell whether they are whole.
        return [maven.fetch(jar, unsummed=True) for jar in jars]
    except NotPublished as error:
        raise NotPublished(
            f"{release} has no k-NN and neural search in any configured maven repository: "
            f"name another --version, as {VECTORS}"
        ) from error


def inspect(archive: Path, opensearch: str) -> dict[str, str]:
    """What the zip says about the plugin in it; nothing is written.

    Raises BadInput for a zip that is damaged, made for another OpenSearch, or tries to write
    outside its folder.
    """
    try:
        with zipfile.ZipFile(archive) as files:
            check_entries(archive, files, LARGEST)
            damaged = files.testzip()
            about = _descriptor(archive, files)
    except (zipfile.BadZipFile, OSError) as error:
        raise BadInput(f"{archive} is not a sound zip file: {error}; remove it") from error
    if damaged:
        raise BadInput(f"{archive} is damaged at '{damaged}': remove it")
    if about.get("opensearch.version") != opensearch:
        raise BadInput(
            f"{archive} is for opensearch {about.get('opensearch.version')}, and the node is "
            f"{opensearch}: remove it, or start its version with --version"
        )
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]*", about.get("name", "")):
        raise BadInput(f"{archive} names its plugin '{about.get('name')}', which is no folder name")
    return about


def unpack(archive: Path, plugins: Path, opensearch: str) -> str:
    """Unpack a plugin's zip into its own folder under `plugins`; the plugin's version.

    Raises BadInput, before anything is written, where `inspect` does.
    """
    about = inspect(archive, opensearch)
    with zipfile.ZipFile(archive) as files:
        for entry in files.infolist():
            if not entry.is_dir():
                path = plugins / about["name"] / entry.filename
                make_folder(path.parent)
                write_readable(path, files.read(entry))
    return about.get("version", artifact(opensearch).version)


def _descriptor(archive: Path, files: zipfile.ZipFile) -> dict[str, str]:
    try:
        text = files.read(DESCRIPTOR).decode()
    except (KeyError, UnicodeDecodeError) as error:
        raise BadInput(
            f"{archive} is not an opensearch plugin: no readable {DESCRIPTOR}"
        ) from error
    lines = (line.partition("=") for line in text.splitlines() if not line.startswith("#"))
    return {key.strip(): value.strip() for key, equals, value in lines if equals}
