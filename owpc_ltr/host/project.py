"""The project file, `owpc-ltr.toml` beside the data: it says once what commands repeat.

A command takes a value where the `Help` of a parameter has its key as `project`, and the parameter
is not given. The functions of Python, and tools for agents, take none.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from owpc_ltr.errors import BadInput
from owpc_ltr.text import printable

PROJECT_FILE = "owpc-ltr.toml"

_SECRET = re.compile(r"pass(word|wd|phrase)?|.*token|.*secret|api_?key|user(name)?|credentials?")
_OF_FILES = {"judgments", "columns", "judged_by", "metric", "data", "model"}
"""Keys that apply to commands without a cluster, too."""
_WITH = {"columns": "judgments", "judged_by": "judgments"}
"""Keys of what another key names: they apply where that is taken, too."""
_WITHOUT = {"alias": "reranker", "judged_by": "proxy_labels"}
"""Keys that do not apply where a parameter is given that takes their place, or that they blur."""


@dataclass(frozen=True, kw_only=True)
class Project:
    """What the file may say. Paths are relative to it; `keep` is the rest of the plan of `keep`.

    `data` is the dataset that log-features writes and train reads, `model` the file that train
    writes and upload reads. `columns` and `judged_by` are those of `judgments`.
    """

    url: str | None = None
    index: str | None = None
    alias: str | None = None
    featureset: str | None = None
    query_template: str | None = None
    window: int | None = None
    title_field: str | None = None
    judgments: str | None = None
    columns: dict[str, str] | None = None
    judged_by: str | None = None
    metric: str | None = None
    data: str | None = None
    model: str | None = None
    keep: dict[str, Any] | None = None


KEYS = tuple(field.name for field in fields(Project))


def read_project(path: Path | str = PROJECT_FILE) -> dict[str, Any]:
    """The values of a project file by key.

    Raises BadInput for what none says, with the line where it is no TOML; of a secret, or an
    address that may hold one, the value is never shown.
    """
    from owpc_ltr.files.typed_table import read_table, read_toml

    content = read_toml(path)
    keep = content.get("keep")
    for key in (*content, *(keep if isinstance(keep, dict) else ())):
        if key not in KEYS and _SECRET.fullmatch(key.lower().replace("-", "_")):
            raise BadInput(
                f"{path}: '{key}' is a secret, which many read here: take it out, and set "
                "OWPC_LTR_USER and OWPC_LTR_PASSWORD, or OWPC_LTR_API_KEY"
            )
    url = content.get("url", "")
    if not isinstance(url, str):
        raise BadInput(f"{path}: url must be a text")
    if "@" in url or "%40" in url:
        raise BadInput(
            f"{path}: url carries a user or password, which many read here: take them out, and set "
            "OWPC_LTR_USER and OWPC_LTR_PASSWORD"
        )
    read_table(Project, content, str(path))
    for key, value in content.items():
        if value in ("", {}) and key != "keep":
            raise BadInput(f"{path}: {key} is empty: give it a value, or leave it out")
    return content


def project_values(keys: Mapping[str, str]) -> dict[str, Any]:
    """The values of the file in this folder by parameter; none without a file.

    `keys` are those of a command's parameters. The environment's address comes before the file's.
    """
    # A link that leads nowhere is a file that cannot be read, and not one that is absent.
    if not keys or not os.path.lexists(PROJECT_FILE):
        return {}
    content = read_project()
    if os.environ.get("OWPC_LTR_URL"):
        content.pop("url", None)
    return {name: content[key] for name, key in keys.items() if key in content}


def applying(
    taken: Mapping[str, str], given: Mapping[str, Any], *, connects: bool
) -> Iterator[tuple[str, str]]:
    """The parameters, with their keys, whose values from the file apply to a command.

    `given` has the arguments that were typed; `connects` says whether these need a cluster.
    """
    for name, key in taken.items():
        of = _WITH.get(key)
        if not (
            (key not in _OF_FILES and not connects)
            or (of is not None and of not in taken.values())
            or _WITHOUT.get(key) in given
        ):
            yield name, key


def in_words(key: str, value: Any) -> str:
    """A key and its value, as the line says it that tells what was taken."""
    if isinstance(value, Mapping):
        value = [f"{name}={part}" for name, part in value.items()]
    return f"{key} {','.join(map(str, value)) if isinstance(value, list) else value}"


def project_text(values: Mapping[str, tuple[Any, str]]) -> str:
    """A project file: each value by its key, with a comment; a key without a value is a comment."""
    lines = [
        "# What commands of owpc-ltr take where no option says otherwise. Paths are relative to",
        "# this file. Passwords and keys do not belong here: set OWPC_LTR_PASSWORD or the like.",
        "",
    ]
    for key, (value, comment) in values.items():
        text = json.dumps(value, ensure_ascii=False)
        line = f"# {key} =" if value is None else f"{key} = {text}"
        lines.append(f"{line:<39} # {printable(comment)}" if comment else line)
    return "\n".join([*lines, ""])
