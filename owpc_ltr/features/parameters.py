"""Parameters of queries and features, as Python calls and commands give them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any

from owpc_ltr.errors import BadInput, UsageError
from owpc_ltr.signatures import Help

_LARGEST = 10_000_000


def named_params(texts: Iterable[str]) -> dict[str, Any]:
    """Parameters by name from texts as `year=1979`, `keywords=alien` or `tags=["a", "b"]`.

    What is a number, a list, an object, true or false in JSON is that, all else the text itself;
    `vector=@FILE` is what the file holds as JSON. In quotes, anything is a text. Raises UsageError
    for what has no name or is named twice, BadInput for a file that is no JSON.

    >>> named_params(["year=1979", "words=the thing", 'tags=["a", "b"]', 'quoted="1979"'])
    {'year': 1979, 'words': 'the thing', 'tags': ['a', 'b'], 'quoted': '1979'}
    """
    params: dict[str, Any] = {}
    for text in texts:
        name, sign, value = text.partition("=")
        if not name or not sign:
            raise UsageError(
                f"cannot read the parameter '{text[:60]}': write it as NAME=VALUE, as year=1979"
            )
        if name in params:
            raise UsageError(f"--param {name} is given twice: give it one value")
        params[name] = _held_by(value[1:], name) if value.startswith("@") else _value(value)
    return params


Params = Annotated[
    "Mapping[str, Any] | None",
    Help(
        "A parameter of the features, NAME=VALUE: a number, a list or true as in JSON, else text; "
        "NAME=@FILE for what a file holds as JSON; may be repeated.",
        flag="--param",
        cli=list[str],
        parse=named_params,
    ),
]


def plain_params(params: Mapping[str, Any] | None) -> dict[str, Any]:
    """Parameters as JSON holds them: arrays as lists, and no number that is not finite.

    >>> import numpy as np
    >>> plain_params({"vector": np.array([0.5, 1]), "year": np.int64(1979)})
    {'vector': [0.5, 1.0], 'year': 1979}
    """
    from owpc_ltr.files.strict_json import not_finite

    plain = {name: _plain(value) for name, value in (params or {}).items()}
    for name, value in plain.items():
        number = not_finite(value)
        if number is not None:
            raise BadInput(
                f"the parameter '{name}' holds {number}, which is not a finite number: fix it"
            )
    return plain


def _plain(value: Any) -> Any:
    """The value itself, or what an array or a number of NumPy's is as Python's own."""
    return value.tolist() if hasattr(value, "tolist") else value


def _value(text: str) -> Any:
    from owpc_ltr.files.strict_json import read_json_value

    try:
        decoded = read_json_value(text)
    except ValueError:
        return text
    return text if decoded is None else decoded


def _held_by(file: str, name: str) -> Any:
    from owpc_ltr.files.input import read_text
    from owpc_ltr.files.strict_json import read_json_value

    try:
        value = read_json_value(read_text(Path(file), largest=_LARGEST))
    except ValueError as error:
        raise BadInput(
            f"cannot read {file}, which --param {name} names: it is not JSON ({error})"
        ) from error
    except BadInput as error:
        raise BadInput(
            f"{error}; where @ begins the text itself, write --param '{name}=\"@{file[:40]}\"'"
        ) from error
    if value is None:
        raise BadInput(f"{file}, which --param {name} names, holds null, which is no value")
    return value
