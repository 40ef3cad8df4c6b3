"""Completion on the shell: names of features that a file on the same line knows.

What stands in the way is no error here: nothing is offered, and the shell completes file names.
Nothing is printed on the terminal that the user types on.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

_RANKER = "feature:"
_SPLIT = re.compile(r"\n?([:=])\n?")


@contextlib.contextmanager
def quiet_completion() -> Iterator[None]:
    """Around a completion: errors are not printed, and bash gets the part of a word it asks for."""
    out, cut = sys.stdout, _join_words(os.environ)
    with open(os.devnull, "w") as nowhere, contextlib.redirect_stderr(nowhere):  # noqa: PTH123
        try:
            with contextlib.redirect_stdout(io.StringIO()) as caught:
                yield
        finally:
            lines = caught.getvalue().splitlines(keepends=True)
            out.writelines(line.removeprefix(cut) for line in lines)


def _join_words(environ: Any) -> str:
    """Join the words that bash cuts at colons and equals signs, as those of an address.

    Returns what bash takes for an earlier word, as `feature:` of `feature:title`.
    """
    if "COMP_WORDS" not in environ or not environ.get("COMP_CWORD", "").isdigit():
        return ""
    words = environ["COMP_WORDS"].split("\n")[: int(environ["COMP_CWORD"]) + 1]
    joined = _SPLIT.sub(r"\1", "\n".join(words)).split("\n")
    environ["COMP_WORDS"], environ["COMP_CWORD"] = "\n".join(joined), str(len(joined) - 1)
    cut = words[-2:] != joined[-2:] and _RANKER in joined[-1]
    return joined[-1][: joined[-1].index(":") + 1] if cut else ""


def names_for(kind: str, ctx: Any) -> list[str]:
    """Names of a kind (see `Help.names`), of which typer keeps those that fit."""
    with contextlib.suppress(Exception):
        # After an option that still lacks its value, arguments have not been assigned.
        return _KINDS[kind]({**ctx.params, "arguments": ctx.args})
    return []


def _features(values: Mapping[str, Any]) -> list[str]:
    """The features of the models and datasets that the line names."""
    words = [
        word
        for value in values.values()
        for word in (value if isinstance(value, list | tuple) else [value])
    ]
    files = [Path(word) for word in words if isinstance(word, str | Path) and Path(word).exists()]
    return list(dict.fromkeys(name for file in files for name in _features_of(file)))


def _features_of(file: Path) -> list[str]:
    with contextlib.suppress(Exception):
        if file.suffix == ".json":
            return list(json.loads(file.read_bytes())["feature_names"])
        if file.is_dir():
            from owpc_ltr.data.partitioned.writing import read_manifest

            return list(read_manifest(file).features)
        from owpc_ltr.data.parquet.reading import Parts, opened

        with opened(file) as parquet:
            return list(Parts(file, parquet).about["features"])
    return []


_KINDS: Mapping[str, Callable[[Mapping[str, Any]], list[str]]] = {
    "feature": _features,
    "ranker": lambda given: [f"{_RANKER}{name}" for name in _features(given)],
}
