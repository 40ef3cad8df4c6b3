"""Judgment lists of every installed format → judgments."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import get_args

from owpc_ltr.data.judgments.grouping import group_judgments
from owpc_ltr.data.judgments.topics import read_topics
from owpc_ltr.data.judgments.types import Duplicates, Judgments
from owpc_ltr.data.judgments.unjudged import judged_lines
from owpc_ltr.errors import UsageError
from owpc_ltr.host.recognition import reader_of_file, reader_of_format
from owpc_ltr.host.registry import Registry, installed


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
    if duplicates not in get_args(Duplicates):
        known = ", ".join(get_args(Duplicates))
        raise UsageError(f"there is no policy for duplicates '{duplicates}': use {known}")
    reader = reader or reader_of_file(registry, path)
    texts = read_topics(Path(topics)) if isinstance(topics, Path | str) else topics
    lines, left_out = judged_lines(reader.read(path, texts), skip=skip_unjudged)
    judgments = group_judgments(lines, duplicates)
    judgments = replace(judgments, notes=(*judgments.notes, *left_out))
    if texts is None:
        return judgments
    judged = {query.query_id for query in judgments.queries}
    idle = len(texts.keys() - judged)
    notes = (f"{idle} topics have no judgment",) if idle else ()
    return replace(judgments, notes=judgments.notes + notes)
