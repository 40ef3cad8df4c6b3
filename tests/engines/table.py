"""`make test-engines`: the tests of other engines on each of them, and the table that they make.

One node at a time. What the tests record becomes the block of docs/engines.md; it is only written
where every engine was run. Names of engines as arguments run those alone; `--half` runs the suite's
plugin-free half on each, too.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET
from pathlib import Path

from owpc_ltr_node.release import ELASTICSEARCH, OPENSEARCH, known_versions

ENGINES = [
    f"{engine}:{version}"
    for engine in (ELASTICSEARCH, OPENSEARCH)
    for version in known_versions(engine)
]
HALF = (
    *("plugin_free_trees", "deployment", "feature_values", "bulk_load", "switch", "workflows"),
    *("live_reranking", "log_on_node", "model_lifecycle", "plugin_free", "profiling"),
    *("featureset_push", "search", "stores", "verify"),
)
ROWS = ("capabilities", "workflow")
HERE = Path(__file__).resolve().parent
PAGE = HERE.parents[1] / "docs" / "engines.md"
BEGIN = "<!-- The table: made by make test-engines; do not edit. -->"
END = "<!-- The end of the table. -->"
Cells = dict[str, str]


def main(arguments: list[str]) -> int:
    """Run what is asked for, and write the table; 1 where a test failed."""
    half = "--half" in arguments
    chosen = [each for each in arguments if not each.startswith("--")] or ENGINES
    columns: dict[str, Cells] = {}
    failed = False
    with tempfile.TemporaryDirectory() as folder:
        for engine in chosen:
            report = Path(folder) / f"{engine.replace(':', '-')}.xml"
            rows = [str(HERE / f"test_{name}.py") for name in ROWS]
            failed |= run(engine, rows, report) != 0
            columns[engine] = cells_of(report.read_text())
            if engine.startswith(ELASTICSEARCH):  # on a node of its own, with security
                failed |= run(engine, [str(HERE / "test_least_rights.py")]) != 0
            if half:
                files = [str(HERE.parent / "engine" / f"test_{name}.py") for name in HALF]
                failed |= run(engine, files) != 0
    if not failed and set(ENGINES) <= columns.keys():
        PAGE.write_text(with_table(PAGE.read_text(), table(columns)))
    else:
        print(table(columns))
    return int(failed)


def run(engine: str, files: list[str], report: Path | None = None) -> int:
    """Pytest on one engine, whose node ends with it."""
    settings = {
        "OWPC_LTR_TEST_ENGINE": engine,
        "OWPC_LTR_TEST_ENGINES": "1",
        "OMP_NUM_THREADS": "1",
    }
    environ = {**os.environ, **settings, "OWPC_LTR_TESTS": "all"}
    # Other families of JUnit's form have no place for what a test records.
    written = [f"--junitxml={report}", "-o", "junit_family=legacy"] if report else []
    line = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *files, *written]
    # An engine without scripts leaves some models to the client, and stores no search templates.
    line += ["-W", "ignore:the client scores", "-W", "ignore:no search template is stored"]
    print(f"== {engine}", flush=True)
    return subprocess.run(line, env=environ, check=False).returncode


def cells_of(report: str) -> Cells:
    """By capability, what the tests of one engine recorded of it."""
    cells: Cells = {}
    for case in ET.fromstring(report).iter("testcase"):  # noqa: S314
        properties = {each.get("name"): each.get("value") or "" for each in case.iter("property")}
        if "capability" in properties:
            fault = case.find("failure") is not None or case.find("error") is not None
            skipped = case.find("skipped") is not None
            word = "failed" if fault else "not run" if skipped else properties.get("figure", "yes")
            cells.setdefault(properties["capability"], word)
            if fault:
                cells[properties["capability"]] = word
    return cells


def table(columns: dict[str, Cells]) -> str:
    """Capabilities by engines, in the order in which the tests stand."""
    rows = list(dict.fromkeys(name for cells in columns.values() for name in cells))
    names = {"elasticsearch": "Elasticsearch", "opensearch": "OpenSearch"}
    heads = [f"{names[e.partition(':')[0]]} {e.partition(':')[2]}" for e in columns]
    lines = ["| | " + " | ".join(heads) + " |", "|---" * (len(heads) + 1) + "|"]
    for row in rows:
        words = [cells.get(row, "not run") for cells in columns.values()]
        lines.append(f"| {row} | " + " | ".join(words) + " |")
    return "\n".join(lines)


def with_table(page: str, made: str) -> str:
    """The page with this table in place of the one that it has."""
    before, rest = page.split(BEGIN)
    return f"{before}{BEGIN}\n\n{made}\n\n{END}{rest.split(END)[1]}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
