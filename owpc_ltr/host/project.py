"""The project file, `owpc-ltr.toml` beside the data: it says once what commands repeat.

A command takes a value where the `Help` of a parameter has its key as `project`, and the parameter
is not given. The functions of Python, and tools for agents, take none.

Tables of TOML or JSON as frozen dataclasses: each mistake names the file, the table and the key. A
field may be text, a number, true or false, a table (another dataclass, or a mapping), or a list (a
tuple) of one of these; None stands for a key that is left out.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from pathlib import Path
from types import NoneType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from owpc_ltr.errors import BadInput
from owpc_ltr.files.input import read_text
from owpc_ltr.names import did_you_mean
from owpc_ltr.text import printable

T = TypeVar("T")

_LARGEST = 1 << 20
_TYPES = {str: "a text", bool: "true or false", int: "a whole number", float: "a number"}


def read_toml(path: Path | str) -> dict[str, Any]:
    """The content of a TOML file. Raises BadInput, with the line where the syntax is wrong."""
    import tomllib

    try:
        return tomllib.loads(read_text(Path(path), _LARGEST))
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise BadInput(f"cannot read {path}: {error}") from error


def read_table(kind: type[T], content: Mapping[str, Any], place: str, table: str = "") -> T:
    """A table as an object of this class; `table` is its name in the file, or its document.

    Raises BadInput for what no such table has.
    """
    types, where = get_type_hints(kind), _where(place, table)
    refuse_unknown(content, types, where)
    for key in fields(kind):  # type: ignore[arg-type]
        required = key.default is MISSING and key.default_factory is MISSING
        if required and key.name not in content:
            raise BadInput(f"{where} lacks the key '{key.name}'")
    return kind(
        **{key: _value(types[key], value, place, table, key) for key, value in content.items()}
    )


def refuse_unknown(content: Mapping[str, Any], names: Collection[str], place: str) -> None:
    """Raise BadInput for a key that is none of these names."""
    for key in content:
        if key not in names:
            advice = did_you_mean(key, names, f"use {', '.join(sorted(names))}")
            raise BadInput(f"{place}: there is no key '{key}': {advice}")


def _where(place: str, table: str) -> str:
    return f"{place}, [{table}]" if table else place


def _value(annotation: Any, value: Any, place: str, table: str, key: str) -> Any:
    """A value of the annotated type, which may be optional."""
    options, where = get_args(annotation), _where(place, table)
    if annotation is Any or (value is None and NoneType in options):
        return value
    if NoneType in options:
        annotation = next(option for option in options if option is not NoneType)
    kind = get_origin(annotation) or annotation
    if kind is dict or is_dataclass(kind):
        inner = f"{table}.{key}" if table else key
        if not isinstance(value, dict):
            raise BadInput(f"{where}: '{key}' is a table: write [{inner}]")
        if kind is not dict:
            return read_table(annotation, value, place, inner)
        element = get_args(annotation)[1]
        return {name: _value(element, part, place, inner, name) for name, part in value.items()}
    if kind is tuple:
        if not isinstance(value, list):
            raise BadInput(f'{where}: {key} = {value!r} must be a list, as ["a", "b"]')
        element = get_args(annotation)[0]
        name = f"{key} {{}}" if is_dataclass(element) else f"an element of {key}"
        return tuple(
            _value(element, part, place, table, name.format(number))
            for number, part in enumerate(value, 1)
        )
    if kind is float and type(value) is int:
        return float(value)
    if type(value) is not kind:
        raise BadInput(f"{where}: {key} = {value!r} must be {_TYPES[kind]}")
    return value


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
