"""A file that is not there is told before anything slow is imported, in its reader's own words."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from enum import StrEnum
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

import pytest
import typer
from owpc_ltr_clicks.log_files import read_events
from owpc_ltr_papers.folders import find_collections
from typer.models import ArgumentInfo, ParameterInfo

from owpc_ltr.cli.app import COMMANDS as TABLE
from owpc_ltr.cli.app import app
from owpc_ltr.cli.generator import callback_of
from owpc_ltr.data.datasets import read_dataset
from owpc_ltr.data.external_features.reading import read_external_features
from owpc_ltr.errors import BadInput, OwpcLtrError
from owpc_ltr.features.loading import load_featureset
from owpc_ltr.files.json_lines import read_json_lines
from owpc_ltr.files.strict_json import read_json_object
from owpc_ltr.files.text import read_text
from owpc_ltr.formats.engine_versions import serving_profile
from owpc_ltr.formats.model_reader import Columns, import_with
from owpc_ltr.formats.upgrade_report import read_deployed
from owpc_ltr.host import registry
from owpc_ltr.host.judgment_lists import read_judgments
from owpc_ltr.models.model_file import load_scoring_model
from owpc_ltr.models.reordering import load_model
from owpc_ltr.signatures import Reads

MISSING = "there-is-none"
NOT_READ = {
    *("run", "files", "out", "per_query", "journal", "report", "latex", "folder", "home", "java"),
    "ca",
}
"""Paths that are written, or that no command reads as its input."""

READERS: dict[str, Callable[[Path], object]] = {
    "data": read_dataset,
    "validation": read_dataset,
    "model": load_scoring_model,
    "models": load_scoring_model,
    "base": load_scoring_model,
    "baseline": load_model,
    "reranker": load_model,
    "featureset": load_featureset,
    "feature_names": read_text,
    "features": read_text,
    "judgments": read_judgments,
    "judged": read_judgments,
    "queries": read_judgments,
    "topics": read_text,
    "cheap": read_dataset,
    "human": read_judgments,
    "strata": read_text,
    "proxy_labels": read_dataset,
    "human_labels": read_judgments,
    "query": read_json_object,
    "query_template": read_json_object,
    "extra_features": read_external_features,
    "settings": read_json_object,
    "feature_cost": read_json_object,
    "events": lambda path: next(read_events(path, {})),
    "documents": lambda path: next(read_json_lines(path)),
    "plugin": lambda path: registry.load([path]),
    "plugins": lambda path: registry.load([path]),
    "letor": find_collections,
    "push file": load_featureset,
    "import path": lambda path: import_with(path, Columns()),
    "upgrade-check model": lambda path: read_deployed(
        path, serving_profile("opensearch", "3.0"), None
    ),
}
"""What reads the file of a parameter, by its name, or by its command and its name."""

RUN_ALL = """
import io, json, sys
from contextlib import redirect_stderr
from owpc_ltr import cli

for words in json.load(sys.stdin):
    sys.argv, error = ["owpc-ltr", *words], io.StringIO()
    with redirect_stderr(error):
        try:
            cli.main()
        except SystemExit as ended:
            code = ended.code
    slow = [name for name in ("numba", "pyarrow", "scipy", "xgboost") if name in sys.modules]
    print(json.dumps([code, error.getvalue(), slow]))
"""


def commands(group: typer.Typer, *path: str) -> Iterator[tuple[tuple[str, ...], Any]]:
    for command in group.registered_commands:
        assert command.callback is not None
        name = command.name or command.callback.__name__.replace("_", "-")
        yield (*path, name), command.callback
    for inner in group.registered_groups:
        assert inner.typer_instance is not None
        yield from commands(inner.typer_instance, *path, str(inner.name))


def of_all(hint: Any) -> set[Any]:
    """What a type is made of: list[Path] | None of Path, too."""
    return {part for each in get_args(hint) for part in (each, *of_all(each))}


COMMANDS = dict(commands(app)) | {
    tuple(command.name.split()): callback_of(command) for command in TABLE if command.function
}


def options(path: tuple[str, ...]) -> dict[str, Any]:
    """The types of a command's options and arguments, without their extras, by name."""
    return get_type_hints(COMMANDS[path])


CASES = [
    (path, name)
    for path in COMMANDS
    for name, hint in options(path).items()
    if (Path in {hint, *of_all(hint)} and name not in NOT_READ and path[0] != "engine")
    or (path[-1], name) in {("evaluate", "baseline"), ("train-reranker", "base")}
]


def words_of(path: tuple[str, ...], absent: str) -> list[str]:
    """The shortest command line that gives all that is needed, one file of it absent."""
    words = list(path)
    extras = get_type_hints(COMMANDS[path], include_extras=True)
    for name, parameter in inspect.signature(COMMANDS[path]).parameters.items():
        if not (parameter.default is inspect.Parameter.empty or name == absent):
            continue
        (info,) = (each for each in extras[name].__metadata__ if isinstance(each, ParameterInfo))
        hint, value = options(path)[name], "is-there"
        if name == absent:
            value = MISSING
        elif name == "out":
            value = "out.json"
        elif isinstance(hint, type) and issubclass(hint, StrEnum):
            value = next(iter(hint)).value
        elif get_origin(hint) is Literal:
            value = get_args(hint)[0]
        option = [] if isinstance(info, ArgumentInfo) else [_option(info, name)]
        words += [*option, value]
    return words


def _option(info: ParameterInfo, name: str) -> str:
    # typer keeps the first name that an annotation gives as if it were a default.
    given = [info.default, *(info.param_decls or ())]
    return next((each for each in given if isinstance(each, str)), f"--{name.replace('_', '-')}")


def said_by_reader(path: tuple[str, ...], name: str) -> tuple[int, str]:
    reader = READERS.get(f"{path[-1]} {name}") or READERS[name]
    with pytest.raises(OwpcLtrError) as caught:
        reader(Path(MISSING))
    return caught.value.exit_code, f"owpc-ltr: {caught.value}\n"


def test_every_command_tells_an_absent_file_as_its_reader_does_before_slow_imports(
    tmp_path: Path,
) -> None:
    (tmp_path / "is-there").write_text("{}")
    asked = json.dumps([words_of(*case) for case in CASES])
    ran = subprocess.run(
        [sys.executable, "-c", RUN_ALL],
        input=asked,
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={"PATH": "", "HOME": str(tmp_path), "OWPC_LTR_URL": "http://127.0.0.1:1"},
        check=True,
    )
    found = [json.loads(line) for line in ran.stdout.splitlines()]
    assert len(found) == len(CASES) >= 30
    expected = [[*said_by_reader(*case), []] for case in CASES]
    assert dict(zip(CASES, found, strict=True)) == dict(zip(CASES, expected, strict=True))
    assert sorted(file.name for file in tmp_path.iterdir()) == ["is-there"]


@pytest.mark.parametrize("given", [None, [], "feature:bm25", ["is-there", None], Path("is-there")])
def test_what_is_there_or_is_no_file_passes(
    given: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("is-there").touch()
    Reads("A file.", unless="feature:").check(given)


def test_the_first_absent_file_of_several_is_named() -> None:
    with pytest.raises(BadInput, match=r"^no none-1$"):
        Reads("Files.", absent="no {path}").check([Path(__file__), Path("none-1"), Path("none-2")])


@pytest.mark.parametrize("name", [f"{__file__}/below-a-file", "nul\0", "x" * 5000])
def test_other_faults_of_a_file_are_left_to_its_reader(name: str) -> None:
    Reads("A file.").check(Path(name))
    with pytest.raises(BadInput):
        read_dataset(name)


def test_folds_that_are_not_there_are_told_before_slow_imports(tmp_path: Path) -> None:
    asked = json.dumps([["select", "none-1", "none-2"]])
    command = [sys.executable, "-c", RUN_ALL]
    ran = subprocess.run(
        command, input=asked, capture_output=True, text=True, cwd=tmp_path, check=True
    )
    message = "owpc-ltr: cannot read none-1: no such file or directory; check the name\n"
    assert json.loads(ran.stdout) == [3, message, []]
