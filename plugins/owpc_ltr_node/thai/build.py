"""Compile the Java sources beside this file into `thai-locale.jar`; needs a JDK 17 or later.

The jar is shipped compiled because the bundled runtime has no compiler. Run after each change:
`python plugins/owpc_ltr_node/thai/build.py`.
"""

import hashlib
import shutil
import subprocess
import tempfile
import zipfile
from pathlib import Path

FOLDER = Path(__file__).parent
JAR = FOLDER / "thai-locale.jar"
SERVICE = "META-INF/services/java.text.spi.BreakIteratorProvider"


def sources() -> list[Path]:
    """The Java files that the jar is built from."""
    return sorted(FOLDER.rglob("*.java"))


def manifest() -> str:
    """The jar's manifest, which names the sources it was built from."""
    together = b"".join(path.read_bytes() for path in sources())
    # A manifest line has 72 bytes at most.
    return f"Manifest-Version: 1.0\nX-Source: {hashlib.sha256(together).hexdigest()[:40]}\n"


def build() -> None:
    """Compile, and pack with fixed dates so that the same source gives the same jar."""
    javac = shutil.which("javac")
    if javac is None:
        raise SystemExit("javac is not on PATH: install a JDK 17 or later")
    with tempfile.TemporaryDirectory() as scratch:
        command = [javac, "--release", "17", "-g:none", "-encoding", "UTF-8", "-d", scratch]
        subprocess.run([*command, *sources()], check=True)  # noqa: S603
        classes = sorted(Path(scratch).rglob("*.class"))
        with zipfile.ZipFile(JAR, "w", zipfile.ZIP_DEFLATED) as jar:
            _add(jar, "META-INF/MANIFEST.MF", manifest().encode())
            _add(jar, SERVICE, b"owpcltr.locale.ThaiBreakIteratorProvider\n")
            for path in classes:
                _add(jar, path.relative_to(scratch).as_posix(), path.read_bytes())


def _add(jar: zipfile.ZipFile, name: str, content: bytes) -> None:
    entry = zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))
    entry.compress_type = zipfile.ZIP_DEFLATED
    jar.writestr(entry, content)


if __name__ == "__main__":
    build()
