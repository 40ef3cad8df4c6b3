"""Judgment lists of every installed format, read and written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import cast, get_args

from owpc_ltr.data.judgments.grouping import group_judgments, what_is_lost
from owpc_ltr.data.judgments.lines import JudgmentLines, judged_lines
from owpc_ltr.data.judgments.topics import read_topics
from owpc_ltr.data.judgments.types import Duplicates, Judgments
from owpc_ltr.errors import BadInput, UsageError, give_warnings
from owpc_ltr.files.output import write_output
from owpc_ltr.host.recognition import judgment_readers, reader_of_file, reader_of_format
from owpc_ltr.host.registry import Registry, installed
from owpc_ltr.protocols import JudgmentReader, JudgmentWriter


def read_judgments(
    path: Path | str,
    *,
    format: str | None = None,  # noqa: A002 - the user's word
    topics: Mapping[str, str] | Path | str | None = None,
    duplicates: Duplicates = "refuse",
    skip_unjudged: bool = False,
    registry: Registry | None = None,
) -> Judgments:
    """The judgments in a file (plain, gzip, xz or zstandard), its format told by content.

    `format` names a judgment reader of the registry (without one, of what is installed), where
    content is not to tell: csv, tsv, qrels, ranklib, parquet … `topics` is a file of the queries'
    texts (TREC's, or id TAB text), or these by id, for formats that do not have them.

    Lines with an empty grade are not judged yet: `skip_unjudged` leaves them out, and counts them.
    A query's lines may lie apart. Raises BadInput, naming file, line and value, for anything that
    is not as the format says, and for a document that is judged twice unless `duplicates` names
    what to do.
    """
    path, registry = Path(path), registry or installed()
    reader = None if format is None else reader_of_format(registry, format)
    known_policy(duplicates)
    reader = reader or reader_of_file(registry, path)
    texts = read_topics(Path(topics)) if isinstance(topics, Path | str) else topics
    judgments = judgments_of(reader.read(path, texts), duplicates, skip_unjudged)
    if texts is None:
        return judgments
    judged = {query.query_id for query in judgments.queries}
    idle = len(texts.keys() - judged)
    notes = (f"{idle} topics have no judgment",) if idle else ()
    return replace(judgments, notes=judgments.notes + notes)


def judgments_of(
    lines: JudgmentLines, duplicates: Duplicates = "refuse", skip_unjudged: bool = False
) -> Judgments:
    """The judgments of lines that a reader has read; see `read_judgments`."""
    judged, left_out = judged_lines(lines, skip=skip_unjudged)
    judgments = group_judgments(judged, duplicates)
    return replace(judgments, notes=(*judgments.notes, *left_out))


def known_policy(duplicates: str) -> Duplicates:
    """What becomes of duplicates, from text. Raises UsageError, naming what there is."""
    for policy in get_args(Duplicates):
        if policy == duplicates:
            return cast(Duplicates, policy)
    known = ", ".join(get_args(Duplicates))
    raise UsageError(f"there is no policy for duplicates '{duplicates}': use {known}")


def write_judgments(
    judgments: Judgments,
    path: Path | str,
    *,
    format: str = "tsv",  # noqa: A002 - the user's word
    registry: Registry | None = None,
) -> None:
    """Write judgments as a format that a judgment reader of the registry can write.

    What is written is read again before it is published. Warns of what the format cannot hold.
    Raises UsageError for a format that is read alone, BadInput where documents or grades would be
    others.
    """
    registry = registry or installed()
    writer = reader_of_format(registry, format)
    if not isinstance(writer, JudgmentWriter):
        known = ", ".join(
            one.name for one in judgment_readers(registry) if isinstance(one, JudgmentWriter)
        )
        raise UsageError(f"the format '{format}' is read, not written: use {known}")
    try:
        content = writer.to_bytes(judgments)
    except BadInput as error:
        raise BadInput(f"cannot write {path}: {error}") from error
    again, lacking = _read_again(writer, content, judgments)
    lost = what_is_lost(judgments, again, format)
    write_output(path, content)
    give_warnings([*lost, *lacking])


def _read_again(
    reader: JudgmentReader, content: bytes, judgments: Judgments
) -> tuple[Judgments, list[str]]:
    """What the file says, and that it needs the queries' texts beside it, where it does."""
    texts = {query.query_id: query.params.get("query", "") for query in judgments.queries}
    with TemporaryDirectory() as folder:
        path = Path(folder) / "judgments"
        path.write_bytes(content)
        try:
            return group_judgments(reader.read(path)), []
        except BadInput:
            again = group_judgments(reader.read(path, texts))
    return again, [
        f"the format {reader.name} does not hold the texts of queries: give them as topics"
    ]
