"""An Elasticsearch home's parts: the distribution that Elastic publishes for integration tests."""

from __future__ import annotations

import zipfile
from dataclasses import dataclass
from pathlib import Path

from owpc_ltr.errors import BadInput
from owpc_ltr.files.output import write_atomically
from owpc_ltr_node.archive import check_entries
from owpc_ltr_node.maven import Jar, Maven
from owpc_ltr_node.places import make_folder
from owpc_ltr_node.release import Release
from owpc_ltr_node.report import Report

LARGEST = 1_000_000_000
# What the server reads; the rest is start scripts and example settings.
KEPT = ("lib/", "modules/", "LICENSE.txt", "NOTICE.txt")


@dataclass(frozen=True)
class ElasticsearchParts:
    """The distribution's zip in the local repository: server, x-pack core and security.

    It has no english analysis, no scripts and no machine learning: those are not on Maven.
    """

    release: Release
    archive: Path

    def put_into(self, home: Path) -> None:
        """Unpack what is needed of it. Raises BadInput for a damaged or hostile zip."""
        top = f"elasticsearch-{self.release.version}/"
        try:
            with zipfile.ZipFile(self.archive) as files:
                check_entries(self.archive, files, LARGEST)
                # Each entry's own sum is checked as it is read.
                for entry in files.infolist():
                    name = entry.filename.removeprefix(top)
                    if name.startswith(KEPT) and not entry.is_dir():
                        make_folder((home / name).parent)
                        write_atomically(home / name, files.read(entry))
        except (zipfile.BadZipFile, OSError) as error:
            raise BadInput(f"{self.archive} is not a sound zip file: {error}; remove it") from error
        if not (home / "lib").is_dir():
            raise BadInput(f"{self.archive} holds no {top}lib: it is no {self.release}; remove it")
        # The server looks for it at its start.
        make_folder(home / "plugins")


def distribution(release: Release) -> Jar:
    """Where Maven has it."""
    group = "org.elasticsearch.distribution.integ-test-zip"
    return Jar(group, "elasticsearch", release.version, packaging="zip")


def elasticsearch_parts(release: Release, maven: Maven, report: Report) -> ElasticsearchParts:
    """Have the distribution in the local repository; its licence is said before it is fetched."""
    report.say(f"{release} is under {release.licence}")
    report.advance(str(release), 0, 0)
    return ElasticsearchParts(release, maven.fetch(distribution(release), unsummed=True))
