"""Feature sets from files, or from JSON text."""

from __future__ import annotations

import json
from pathlib import Path

from owpc_ltr.errors import BadInput
from owpc_ltr.features.feature_set import FeatureSet, parse_featureset
from owpc_ltr.features.lint import lint
from owpc_ltr.files.regular_file import read_regular
from owpc_ltr.files.strict_json import each_once

_LARGEST_FILE = 50_000_000


def load_featureset(source: Path | str, name: str | None = None) -> FeatureSet:
    """A feature set from a file, or from JSON text; `name` overrides the one that it has.

    A text is JSON where it begins with a bracket or is blank, else the file's path. The content
    is what the LTR plugin's `_featureset` takes; a set without a name gets its file's. Everything
    is checked that the engine would accept in silence, or only refuse later. Raises BadInput
    naming the file, the feature and what is wrong.
    """
    if isinstance(source, str) and source.strip() and not source.lstrip().startswith(("{", "[")):
        source = Path(source)
    place, text = _read(source)
    try:
        content = json.loads(text, object_pairs_hook=each_once)
    except RecursionError as error:
        raise BadInput(f"{place} is no feature set: it is nested too deep") from error
    except json.JSONDecodeError as error:
        raise BadInput(
            f"{place}, line {error.lineno}: not JSON ({error.msg}); fix it there"
        ) from error
    except ValueError as error:
        raise BadInput(f"{place}: {error}") from error
    usual = source.stem if isinstance(source, Path) else None
    featureset = parse_featureset(content, place, name=name, default_name=usual)
    lint(featureset, place)
    return featureset


def _read(source: Path | str) -> tuple[str, str]:
    if isinstance(source, str):
        return "the feature set", source
    try:
        raw = read_regular(source, _LARGEST_FILE, "cannot read the feature set", "a feature set")
        return str(source), raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise BadInput(f"{source} is not UTF-8 text: not a feature set") from error
