"""Elasticsearch's process: its own launcher, which starts the server and ends with it."""

from __future__ import annotations

from pathlib import Path

from owpc_ltr_node.java import Java

MAIN_CLASS = "org.elasticsearch.launcher.CliToolLauncher"
SERVER_LAUNCHER = "lib/tools/server-launcher"
"""Where later releases (9.5 has it) keep a launcher for the server alone: of these, the command
line tools' launcher only prints how the server is to be started."""
SERVER_CLASS = "org.elasticsearch.server.launcher.ServerLauncher"


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
    """The launcher's command line, as bin/elasticsearch of this version would give it.

    The server speaks with it over a pipe: it ends when the launcher does, however that ends.
    """
    small = ["-Xms4m", "-Xmx64m", "-XX:+UseSerialGC", f"-Dowpc_ltr.node={token}"]
    if (home / SERVER_LAUNCHER).is_dir():
        return [str(java.program), *small, "-cp", f"{home / SERVER_LAUNCHER}/*", SERVER_CLASS]
    return [
        str(java.program),
        *small,
        "-Dcli.name=server",
        f"-Dcli.script={home}/bin/elasticsearch",
        "-Dcli.libs=lib/tools/server-cli",
        f"-Des.path.home={home}",
        f"-Des.path.conf={folder}/config",
        "-Des.distribution.type=zip",
        "-Des.java.type=owpc-ltr",
        "-cp",
        f"{home}/lib/*:{home}/lib/cli-launcher/*",
        MAIN_CLASS,
    ]


def elasticsearch_environment(java: Java, home: Path, folder: Path) -> dict[str, str]:
    """What bin/elasticsearch exports; releases without a launcher of their own do not read it."""
    return {
        "JAVA": str(java.program),
        "JAVA_TYPE": "ES_JAVA_HOME",
        "ES_JAVA_HOME": str(java.program.parent.parent),
        "ES_HOME": str(home),
        "ES_PATH_CONF": str(folder / "config"),
        "ES_DISTRIBUTION_TYPE": "zip",
        "CLI_JAVA_OPTS": "-Xms4m -Xmx64m -XX:+UseSerialGC",
    }
