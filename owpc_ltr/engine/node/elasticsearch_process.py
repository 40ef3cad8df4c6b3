"""Elasticsearch's process: its own launcher, which starts the server and ends with it."""

from __future__ import annotations

from pathlib import Path

from owpc_ltr.engine.node.java import Java

MAIN_CLASS = "org.elasticsearch.launcher.CliToolLauncher"


def jvm_options(heap: str, collector: str, folder: Path) -> str:
    """The server's jvm.options; the launcher adds those that its version needs."""
    lines = (
        f"-Xms{heap}",
        f"-Xmx{heap}",
        collector,
        "-XX:+ExitOnOutOfMemoryError",
        f"-XX:ErrorFile={folder}/logs/java-crash-%p.log",
        f"-Djava.io.tmpdir={folder / 'tmp'}",
        f"-Djna.tmpdir={folder / 'tmp'}",
    )
    return "".join(f"{line}\n" for line in lines)


def elasticsearch_command(java: Java, home: Path, folder: Path, token: str) -> list[str]:
    """The launcher's command line, as bin/elasticsearch would give it.

    The server speaks with it over a pipe: it ends when the launcher does, however that ends.
    """
    return [
        str(java.program),
        "-Xms4m",
        "-Xmx64m",
        "-XX:+UseSerialGC",
        "-Dcli.name=server",
        f"-Dcli.script={home}/bin/elasticsearch",
        "-Dcli.libs=lib/tools/server-cli",
        f"-Des.path.home={home}",
        f"-Des.path.conf={folder}/config",
        "-Des.distribution.type=zip",
        "-Des.java.type=owpc-ltr",
        f"-Dowpc_ltr.node={token}",
        "-cp",
        f"{home}/lib/*:{home}/lib/cli-launcher/*",
        MAIN_CLASS,
    ]
