"""Write the lock of a release: `python -m owpc_ltr_node.make_lock opensearch-3.8.0`.

Maven has OpenSearch's server and modules by themselves: each is resolved with what it needs, and a
file whose SHA-1 is not the published one is refused. The SHA-256 sums in the lock are then those
that every home is checked against.
"""

from __future__ import annotations

import hashlib
import re
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path, PurePosixPath
from typing import Any

import requests
from jgo.maven import MavenContext, PythonResolver

from owpc_ltr_node.home import MODULES, repositories
from owpc_ltr_node.release import ELASTICSEARCH, LOCKS

# Which classes may end the process: a server from 3.0 on does not start without it.
BOOTSTRAP = "org.opensearch:opensearch-agent-bootstrap"
CLASSLOADER = "org.opensearch:opensearch-plugin-classloader"
# HTTP/3 in native code for every platform: 20 MB that a local node does not use.
UNUSED = "netty-codec-native-quic"
# Maven has these under the names of their clients.
CLIENTS = {"transport-netty4", "lang-mustache", "mapper-extras", "reindex"}
VECTOR_PLUGINS = ("opensearch-knn", "neural-search")


def files_of(name: str, context: Any) -> list[tuple[str, str]]:
    """Folder and path of each file of a release's home."""
    engine, version, *vectors = name.split("-")
    if engine == ELASTICSEARCH:
        group = "org.elasticsearch.distribution.integ-test-zip"
        return [(".", maven_path(group, engine, version, "zip"))]
    singles = [CLASSLOADER, BOOTSTRAP] if version >= "3" else [CLASSLOADER]
    server = resolve(f"org.opensearch:opensearch:{version}", context)
    api = next(each for each in server if each.artifactId == "log4j-api")
    singles = [f"{each}:{version}" for each in singles]
    singles.append(f"org.apache.logging.log4j:log4j-core:{api.version}")
    lib = server + [resolve(each, context)[0] for each in singles]
    files = [("lib", path_of(each)) for each in lib]
    shared = {identity(each) for each in lib}
    for module in MODULES:
        artifact = f"{module}-client" if module in CLIENTS else module
        jars = resolve(f"org.opensearch.plugin:{artifact}:{version}", context)
        # A module's class loader sees lib/ first: it keeps only what lib/ has not, in any version.
        own = [each for each in jars if identity(each) not in shared]
        files += [(f"modules/{module}", path_of(each)) for each in own]
    plugin_version = f"{version}.0"
    zips = VECTOR_PLUGINS if vectors else ()
    files += [
        ("plugins", maven_path("org.opensearch.plugin", zip_name, plugin_version, "zip"))
        for zip_name in zips
    ]
    return sorted({file for file in files if UNUSED not in file[1]})


def resolve(coordinate: str, context: Any) -> list[Any]:
    """An artifact and all that it needs to run; together, they would change others' versions."""
    root = context.create_dependency(coordinate)
    itself, needed = context.resolver.resolve([root])
    run = [each for each in needed if each.scope in ("compile", "runtime")]
    return [each.artifact for each in (*itself, *run)]


def identity(artifact: Any) -> tuple[str, str, str]:
    """What must not be there twice: two versions of it would clash."""
    return artifact.groupId, artifact.artifactId, artifact.classifier


def path_of(artifact: Any) -> str:
    """Its place in a Maven repository."""
    suffix = f"-{artifact.classifier}" * bool(artifact.classifier) + f".{artifact.packaging}"
    return maven_path(artifact.groupId, artifact.artifactId, artifact.version, suffix)


def maven_path(group: str, name: str, version: str, suffix: str) -> str:
    """The place of a file in a Maven repository."""
    suffix = suffix if suffix.startswith(("-", ".")) else f".{suffix}"
    folder = PurePosixPath(*group.split("."), name, version)
    return str(folder / f"{name}-{version}{suffix}")


def line_of(file: tuple[str, str], session: requests.Session) -> str:
    """A line of the lock, for a file whose published sum is right."""
    folder, path = file
    answer = session.get(f"{repositories()[0]}/{path}", timeout=120)
    answer.raise_for_status()
    sha1 = hashlib.sha1(answer.content, usedforsecurity=False).hexdigest()
    published = session.get(f"{repositories()[0]}/{path}.sha1", timeout=120)
    if published.status_code == 404:
        print(f"{path} has no published sum", file=sys.stderr)
    elif published.text.split()[:1] != [sha1]:
        raise SystemExit(f"{path} has the SHA-1 {sha1}, and {published.text[:40]!r} is published")
    return f"{folder} {path} {hashlib.sha256(answer.content).hexdigest()}\n"


def main(name: str) -> None:
    """Write the lock of one release."""
    if not re.fullmatch(r"(opensearch|elasticsearch)-\d+\.\d+\.\d+(-vectors)?", name):
        raise SystemExit("name a release, as opensearch-2.19.1-vectors")
    with tempfile.TemporaryDirectory() as folder, requests.Session() as session:
        resolver = PythonResolver()
        files = files_of(name, MavenContext(resolver=resolver, repo_cache=Path(folder)))
        with ThreadPoolExecutor(8) as pool:
            lines = list(pool.map(lambda file: line_of(file, session), files))
    Path(str(LOCKS), name).write_text("".join(lines))


if __name__ == "__main__":
    main(sys.argv[1])
