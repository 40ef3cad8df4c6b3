"""Read hostile files in a process that may start nothing and write nowhere: a line a file.

python -m tests.faults.read_hostile FOLDER < cases.json
"""

from __future__ import annotations

import json
import os
import resource
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from owpc_ltr.errors import OwpcLtrError


def readers() -> dict[str, Callable[[Path], Any]]:
    """A reader for each kind of file, as commands and notebooks call it."""
    from owpc_ltr_clicks.judge_clicks import count_clicks

    from owpc_ltr.data.datasets import read_dataset
    from owpc_ltr.data.documents import DocumentFile
    from owpc_ltr.data.external_features import read_external_features
    from owpc_ltr.data.judgment_tables import read_queries
    from owpc_ltr.data.runs import read_run
    from owpc_ltr.features.feature_set import load_featureset
    from owpc_ltr.files.strict_json import read_json_object
    from owpc_ltr.host.judgment_lists import read_judgments
    from owpc_ltr.models.combined import load_model

    return {
        "clicks": lambda path: count_clicks(path, min_people=1),
        "joined": read_external_features,
        "letor": read_dataset,
        "judgments": read_judgments,
        "model": load_model,
        "featureset": load_featureset,
        "json": read_json_object,
        "documents": lambda path: DocumentFile(path).check(lambda _message, _done: None),
        "run": read_run,
        "queries": read_queries,
    }


def forbid(what: str, arguments: tuple[Any, ...]) -> None:
    """Refuse to start a program, to open a connection, and to write or remove a file."""
    if what in {"os.exec", "os.posix_spawn", "os.system", "subprocess.Popen", "socket.connect"}:
        raise AssertionError(f"{what} {arguments[0]}")
    if what in {"os.remove", "os.rename", "os.mkdir", "os.rmdir", "os.link", "os.symlink"}:
        raise AssertionError(f"{what} {arguments[0]}")
    if what == "open" and isinstance(arguments[2], int):
        writing = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
        if arguments[2] & writing:
            raise AssertionError(f"open {arguments[0]} for writing")


def main() -> None:
    """Read each file; print what came of it, and by how much memory had grown."""
    read = readers()
    cases = json.load(sys.stdin)
    for kind, path in cases["warm"]:
        read[kind](Path(path))
    sys.addaudithook(forbid)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for kind, path in cases["hostile"]:
        try:
            read[kind](Path(path))
            result: list[Any] = ["read", 0, ""]
        except OwpcLtrError as error:
            result = ["refused", error.exit_code, str(error)]
        except BaseException as error:  # noqa: BLE001 - whatever else is raised is what is looked for
            result = ["raised", 0, repr(error)[:300]]
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        print(json.dumps([*result, grown]), flush=True)


if __name__ == "__main__":
    main()
