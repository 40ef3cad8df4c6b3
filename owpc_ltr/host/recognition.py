"""Judgment readers chosen: by the name of the format, or by what a file begins with."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from owpc_ltr.data.judgments.topics import begins_topics
from owpc_ltr.errors import BadInput, PluginError, UsageError
from owpc_ltr.files.text import first_lines, read_head
from owpc_ltr.host.registry import Registry
from owpc_ltr.protocols import JudgmentReader

KIND = "judgment-reader"


def judgment_readers(registry: Registry) -> list[JudgmentReader]:
    """All readers, the last to be asked first."""
    readers: list[JudgmentReader] = [plugin.cls() for plugin in registry.all(KIND)]
    return sorted(readers, key=lambda reader: -reader.precedence)


def reader_of_format(registry: Registry, name: str) -> JudgmentReader:
    """The reader of a format. Raises UsageError, naming the formats that there are."""
    readers = judgment_readers(registry)
    for reader in readers:
        if reader.name == name:
            return reader
    known = ", ".join(reader.name for reader in readers) or "none, for none is installed"
    raise UsageError(f"there is no format '{name}': use {known}{_failed(registry)}")


def reader_of_file(registry: Registry, path: Path) -> JudgmentReader:
    """The reader that recognises a file by its content.

    Raises BadInput where it is empty, has topics in it, or is of no format that is known.
    """
    head = read_head(path)
    lines = first_lines(head)
    if not lines:
        raise BadInput(f"cannot read {path}: it is empty")
    if begins_topics(lines[0]):
        raise BadInput(
            f"cannot read {path}: these are topics, which have no grades: name the judgments, and "
            "this file as their topics"
        )
    readers = judgment_readers(registry)
    reader = first_to_recognise(readers, path, head)
    if reader is None:
        known = ", ".join(reader.name for reader in readers) or "none"
        raise BadInput(
            f"cannot read {path}: it is of no format that an installed judgment reader knows: "
            f"{known}{_failed(registry)}"
        )
    return reader


def first_to_recognise(
    readers: Iterable[JudgmentReader], path: Path, head: bytes
) -> JudgmentReader | None:
    """The reader of lowest precedence that recognises the file.

    Raises BadInput where two of one precedence do, PluginError for a reader that breaks.
    """
    chosen: JudgmentReader | None = None
    for reader in sorted(readers, key=lambda reader: reader.precedence):
        if chosen is not None and reader.precedence > chosen.precedence:
            break
        if _recognises(reader, path, head):
            if chosen is not None:
                raise BadInput(
                    f"cannot read {path}: it looks like {chosen.name} and like {reader.name}: "
                    "name its format"
                )
            chosen = reader
    return chosen


def _recognises(reader: JudgmentReader, path: Path, head: bytes) -> bool:
    try:
        return bool(reader.recognises(path, head))
    except Exception as error:
        where = f"{type(reader).__module__}.{type(reader).__qualname__}"
        why = (str(error).splitlines() or [""])[0]
        raise PluginError(
            f"judgment reader '{reader.name}' ({where}) failed to tell whether {path} is of its "
            f"format: {type(error).__name__}: {why}: name the format, or uninstall the reader"
        ) from error


def _failed(registry: Registry) -> str:
    return "".join(
        f"; plugin '{failure.plugin}' ({failure.source}) failed to load: {failure.reason}"
        for failure in registry.failures_of(KIND)
    )
