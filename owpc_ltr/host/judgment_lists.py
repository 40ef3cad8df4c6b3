"""Judgment lists of every installed format: recognised, read, written, converted; and topics."""

from __future__ import annotations

import inspect
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, get_args

from owpc_ltr.data.options import DEFAULT_FORMAT, ROLES, Duplicates, checked_columns
from owpc_ltr.errors import BadInput, PluginError, UsageError, give_warnings
from owpc_ltr.files.input import first_lines, read_head, read_text, shown
from owpc_ltr.files.output import write_output
from owpc_ltr.signatures import public

if TYPE_CHECKING:
    from owpc_ltr.data.judgments import JudgmentLines, Judgments
    from owpc_ltr.host.registry import Registry
    from owpc_ltr.protocols import JudgmentReader

KIND = "judgment-reader"


@public
def read_judgments(
    path: Path | str,
    *,
    format: str | None = None,  # noqa: A002 - the user's word
    topics: Mapping[str, str] | Path | str | None = None,
    duplicates: Duplicates = "refuse",
    skip_unjudged: bool = False,
    columns: Mapping[str, str] | None = None,
    labels: Mapping[str, float] | None = None,
    registry: Registry | None = None,
) -> Judgments:
    """The judgments in a file (plain, gzip, xz or zstandard), its format told by content.

    `format` names a judgment reader of the registry (without one, of what is installed), where
    content is not to tell: csv, tsv, qrels, ranklib, parquet … `topics` is a file of the queries'
    texts (TREC's, or id TAB text), or these by id, for formats that do not have them. `columns`
    names columns of a table by their roles, as `{"query": "q", "doc_id": "sku"}`; where each judge
    has a column, `{"grade": "ann,bob"}`. `labels` are the grades of labels that are words, as
    `{"Exact": 2, "Irrelevant": 0}`.

    Lines with an empty grade are not judged yet: `skip_unjudged` leaves them out, and counts them.
    A query's lines may lie apart. Raises BadInput, naming file, line and value, for anything that
    is not as the format says, and for a document that is judged twice unless `duplicates` names
    what to do.
    """
    from owpc_ltr.data.judgments import with_labels
    from owpc_ltr.host.registry import installed

    path, registry = Path(path), registry or installed()
    reader = None if format is None else reader_of_format(registry, format)
    check_policy(duplicates)
    reader = reader or reader_of_file(registry, path)
    texts = read_topics(Path(topics)) if isinstance(topics, Path | str) else topics
    lines = lines_of(reader, path, texts, columns)
    if labels is not None:
        lines = with_labels(lines, labels)
    judgments = judgments_of(lines, duplicates, skip_unjudged)
    idle = len((texts or {}).keys() - {query.query_id for query in judgments.queries})
    notes = (f"{idle} topics have no judgment",) if idle else ()
    return replace(judgments, notes=judgments.notes + notes)


def lines_of(
    reader: JudgmentReader,
    path: Path,
    topics: Mapping[str, str] | None = None,
    columns: Mapping[str, str] | None = None,
) -> JudgmentLines:
    """The lines of a file. Raises UsageError where its format has no `columns` to name."""
    if not columns:
        return reader.read(path, topics)
    if "columns" not in inspect.signature(reader.read).parameters:
        raise UsageError(
            f"{path} is of the format {reader.name}, which has no columns to name: leave out "
            "`columns`"
        )
    options: dict[str, Any] = {"columns": checked_columns(columns)}
    return reader.read(path, topics, **options)


def judgments_of(
    lines: JudgmentLines, duplicates: Duplicates = "refuse", skip_unjudged: bool = False
) -> Judgments:
    """The judgments of lines that a reader has read; see `read_judgments`."""
    from owpc_ltr.data.judgments import group_judgments, judged_lines

    judged, left_out = judged_lines(lines, skip=skip_unjudged)
    judgments = group_judgments(judged, duplicates)
    return replace(judgments, notes=(*judgments.notes, *left_out))


def check_policy(duplicates: str) -> None:
    """Raise UsageError for an unknown policy of duplicates, naming those that there are."""
    if duplicates not in get_args(Duplicates):
        known = ", ".join(get_args(Duplicates))
        raise UsageError(f"unknown policy for duplicates '{duplicates}': use {known}")


@public
def write_judgments(
    judgments: Judgments,
    path: Path | str,
    *,
    format: str = DEFAULT_FORMAT,  # noqa: A002 - the user's word
    registry: Registry | None = None,
) -> None:
    """Write judgments as a format that a judgment reader of the registry can write.

    What is written is read again before it is published. Warns of what the format cannot hold.
    Raises UsageError for a format that is read alone, BadInput where documents or grades would be
    others.
    """
    from owpc_ltr.data.judgments import what_is_lost
    from owpc_ltr.host.registry import installed
    from owpc_ltr.protocols import JudgmentWriter

    registry = registry or installed()
    writer = reader_of_format(registry, format)
    if not isinstance(writer, JudgmentWriter):
        readers = judgment_readers(registry)
        known = [reader.name for reader in readers if isinstance(reader, JudgmentWriter)]
        raise UsageError(f"the format '{format}' is read, not written: use {', '.join(known)}")
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
    from owpc_ltr.data.judgments import group_judgments

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


def judgment_readers(
    registry: Registry, shipped: Collection[str] | None = None
) -> list[JudgmentReader]:
    """All readers, lowest precedence last; with `shipped`, only these of the shipped ones."""
    readers: list[JudgmentReader] = [plugin.cls() for plugin in registry.all(KIND, shipped)]
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
    from owpc_ltr.data.judgment_tables import table_formats

    head = read_head(path)
    lines = first_lines(head)
    if not lines:
        raise BadInput(f"cannot read {path}: it is empty")
    if _OPENING.match(lines[0]):
        raise BadInput(
            f"cannot read {path}: these are topics, which have no grades: name the judgments, and "
            "this file as their topics"
        )
    reader = first_to_recognise(judgment_readers(registry, table_formats(head)), path, head)
    if reader is None:
        readers = judgment_readers(registry)
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
    return "".join(f"; {failure}" for failure in registry.failures_of(KIND))


_OPENING = re.compile(r"<top(?:ic)?\b", re.IGNORECASE)
_TOPIC = re.compile(r"<top(?:ic)?\b([^>]*)>(.*?)</top(?:ic)?>", re.DOTALL | re.IGNORECASE)
_NUMBER = re.compile(r"<num>\s*(?:Number:)?\s*([^\s<]+)", re.IGNORECASE)
_ATTRIBUTE = re.compile(r"\b(?:number|id)\s*=\s*[\"']([^\"']+)[\"']", re.IGNORECASE)
_TITLE = re.compile(r"<(?:title|query)>\s*(?:Topic:)?\s*([^<]*)", re.IGNORECASE)


def read_topics(path: Path) -> dict[str, str]:
    """Query texts by id: TREC `<top>` topics (their titles), `id TAB text` lines, or a table.

    A table's header names `query_id` and `query`. Raises BadInput where an id has two texts, or a
    topic lacks one.
    """
    from owpc_ltr.data.judgment_tables import header_names, read_queries

    text = read_text(path)
    names = set(header_names(text))
    if names & set(ROLES["query_id"]) and names & set(ROLES["query"]):
        return {query.query_id: query.params["query"] for query in read_queries(path)}
    lines = _tagged if _OPENING.search(text) else _tabbed
    topics: dict[str, str] = {}
    for line, query, content in lines(text, path):
        if topics.setdefault(query, content) != content:
            raise BadInput(
                f"cannot read {path}, line {line}: query {shown(query)} has a second text, "
                f"{shown(content)}: keep one"
            )
    if not topics:
        raise BadInput(f"cannot read {path}: it has no topics")
    return topics


def _tagged(text: str, path: Path) -> Iterator[tuple[int, str, str]]:
    matches = list(_TOPIC.finditer(text))
    for match in matches:
        line = text.count("\n", 0, match.start()) + 1
        number = _NUMBER.search(match.group(2)) or _ATTRIBUTE.search(match.group(1))
        title = _TITLE.search(match.group(2))
        if number is None or title is None or not title.group(1).strip():
            raise BadInput(
                f"cannot read {path}, line {line}: the topic has no "
                f"{'number' if number is None else 'title'}"
            )
        yield line, number.group(1), " ".join(title.group(1).split())
    if len(matches) != len(_OPENING.findall(text)):
        raise BadInput(f"cannot read {path}: a topic is not closed by </top>: is the file cut?")


def _tabbed(text: str, path: Path) -> Iterator[tuple[int, str, str]]:
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        query, tab, content = line.partition("\t")
        if not tab or not query.strip() or not content.strip():
            raise BadInput(
                f"cannot read {path}, line {number}: {shown(line)} is not an id, a tab and a text"
            )
        yield number, query.strip(), content.strip()
