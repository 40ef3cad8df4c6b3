"""Where external features are from, as a dataset's manifest and a model's record say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from owpc_ltr.errors import BadInput
from owpc_ltr.files.text import shown

KEY = "joined_tables"
"""Where it stands in a manifest, in a record, and beside the content of a stored model."""


@dataclass(frozen=True)
class ExternalSource:
    """A table whose columns are features: its file's name, the digest of it, and its columns.

    `keys` are `query_id` or `query`, and `document_id`: those that its rows are found by.
    """

    file: str
    sha256: str
    keys: tuple[str, ...]
    features: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        """The source as JSON."""
        return {
            "file": self.file,
            "sha256": self.sha256,
            "keys": list(self.keys),
            "features": list(self.features),
        }


def sources_in(content: Mapping[str, Any] | None, place: str = "it") -> tuple[ExternalSource, ...]:
    """The sources that a manifest, record or definition names. Raises BadInput for what is none."""
    told = (content or {}).get(KEY) or ()
    try:
        if not isinstance(told, list | tuple):
            raise TypeError("no list")
        return tuple(
            ExternalSource(
                _text(one["file"]), _text(one["sha256"]), _texts(one["keys"]),
                _texts(one["features"]),
            )
            for one in told
        )  # fmt: skip
    except (KeyError, TypeError, AttributeError) as error:
        raise BadInput(f"{place} is damaged: its '{KEY}' are no sources of columns") from error


def external_names(sources: Sequence[ExternalSource]) -> tuple[str, ...]:
    """The names of all joined columns, in order, each once."""
    return tuple(dict.fromkeys(name for source in sources for name in source.features))


def external_entry(sources: Sequence[ExternalSource]) -> dict[str, Any]:
    """The entry of a record; nothing where no column is joined."""
    return {KEY: [source.as_dict() for source in sources]} if sources else {}


def in_words(names: Sequence[str], sources: Sequence[ExternalSource]) -> str:
    """Some joined features, and what each is from: `'ctr' (joined from ctr.parquet)`."""
    files = {name: source.file for source in sources for name in source.features}
    told = [f"'{name}' (joined from {files[name]})" for name in names[:3]]
    return ", ".join(told) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def refuse_taken(features: Sequence[str], file: str, taken: Sequence[str], whose: str) -> None:
    """Refuse a column whose name another feature has."""
    both = next((name for name in features if name in set(taken)), None)
    if both is not None:
        raise BadInput(
            f"cannot join {file}: {whose} has a feature {shown(both)} too: rename the column"
        )


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("no text")
    return value


def _texts(values: Any) -> tuple[str, ...]:
    if not isinstance(values, list | tuple):
        raise TypeError("no list")
    return tuple(map(_text, values))
