"""Options that belong together, as one parameter of a command.

    @dataclass(frozen=True)
    class Cluster:
        url: Annotated[str | None, typer.Option(help="The cluster.")] = None

    @grouped
    def index(documents: Path, *, cluster: Cluster) -> None: ...

The user types `--url`; the command gets a `Cluster`. A group may have groups among its fields.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar, get_type_hints

from owpc_ltr.cli.files import Reads, Writes, refuse_one_file
from owpc_ltr.errors import UsageError

NAMES = frozenset(
    ("featureset", "index", "id_field", "model", "name", "store", "store_kind", "url")
)
"""Options by which something is called: an empty one is nothing's name, and no default."""

_Mark = TypeVar("_Mark", Reads, Writes)


def grouped(command: Callable[..., None]) -> Callable[..., None]:
    """The command, with each dataclass among its parameters spread into its fields, in order.

    Files that it is marked to read (see `Reads`) are looked for before it begins, those that it
    will write (see `Writes`) are checked, of which no two may be one file, and names that are empty
    refused. Raises ValueError where two options would have one name.
    """
    hints = get_type_hints(command, include_extras=True)
    given = inspect.signature(command).parameters
    options = [
        option
        for name, parameter in given.items()
        for option in _spread(name, hints[name], parameter.default)
    ]

    read, written = _marked(options, Reads), _marked(options, Writes)

    @functools.wraps(command)
    def run(**values: Any) -> None:
        for name, value in values.items():
            if value == "" and name in NAMES:
                raise UsageError(
                    f"'{name.replace('_', '-')}' is empty: give it a name, or leave it out"
                )
        for name, mark in read.items():
            mark.check(values[name])
        inputs = [path for name, mark in read.items() for path in mark.files(values[name])]
        given_outputs = {name: values[name] for name in written if values[name]}
        outputs = [written[name].check(path, inputs) for name, path in given_outputs.items()]
        refuse_one_file(given_outputs)
        # What is written to standard output stands there alone.
        with contextlib.redirect_stdout(sys.stderr) if any(outputs) else contextlib.nullcontext():
            command(**{name: _gather(name, hints[name], values) for name in given})

    # typer makes its options from the signature and the annotations.
    vars(run)["__signature__"] = inspect.Signature(options)
    run.__annotations__ = {option.name: option.annotation for option in options}
    return run


def _marked(options: list[inspect.Parameter], kind: type[_Mark]) -> dict[str, _Mark]:
    """The options that have a mark of this kind, and their marks."""
    return {
        option.name: mark
        for option in options
        for mark in getattr(option.annotation, "__metadata__", ())
        if isinstance(mark, kind)
    }


def _spread(name: str, hint: Any, default: Any) -> Iterator[inspect.Parameter]:
    """The options that a parameter stands for: itself, or those of its group."""
    if not _is_group(hint):
        yield inspect.Parameter(
            name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=hint
        )
        return
    hints = _hints(hint)
    for field in dataclasses.fields(hint):
        missing = field.default is dataclasses.MISSING
        own = inspect.Parameter.empty if missing else field.default
        yield from _spread(field.name, hints[field.name], own)


def _gather(name: str, hint: Any, values: Mapping[str, Any]) -> Any:
    """The value of a parameter, made of the options that it stands for."""
    if not _is_group(hint):
        return values[name]
    hints = _hints(hint)
    return hint(**{inner: _gather(inner, hints[inner], values) for inner in hints})


def _is_group(hint: Any) -> bool:
    return isinstance(hint, type) and dataclasses.is_dataclass(hint)


@functools.cache
def _hints(group: type[Any]) -> dict[str, Any]:
    return get_type_hints(group, include_extras=True)
