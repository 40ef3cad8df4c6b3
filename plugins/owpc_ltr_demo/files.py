"""The demo as files: what a stranger needs to walk the same road, command by command."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from owpc_ltr.files.output import write_output
from owpc_ltr_demo.corpus import Document, index_body, read_corpus
from owpc_ltr_demo.judged import Pool, make_queries, pools
from owpc_ltr_demo.narration import Narrator, Progress
from owpc_ltr_demo.preparing import featureset_file, judgments_of
from owpc_ltr_demo.walk import INDEX

if TYPE_CHECKING:
    from owpc_ltr.engine.client.engine import Engine

_SCRATCH = f"{INDEX}-candidates"


@dataclass(frozen=True)
class DemoFiles:
    """What was written: corpus, index settings, feature set, judgments, an application's query."""

    folder: Path
    documents: int
    queries: int
    judged: int
    new_queries: int

    @property
    def corpus(self) -> Path:
        """One JSON document a line; the ids are the field `id`."""
        return self.folder / f"{INDEX}.jsonl"

    @property
    def settings(self) -> Path:
        """Settings and mapping of the index."""
        return self.folder / f"{INDEX}-index.json"

    @property
    def featureset(self) -> Path:
        """The feature set."""
        return self.folder / f"{INDEX}-features.json"

    @property
    def judgments(self) -> Path:
        """Query, document and grade, a line each."""
        return self.folder / f"{INDEX}-judgments.tsv"

    @property
    def new_judgments(self) -> Path:
        """Judgments of further queries, such as come in by next week."""
        return self.folder / f"{INDEX}-judgments-new.tsv"

    @property
    def query(self) -> Path:
        """The query that finds candidates, with {{keywords}} where the user's words go."""
        return self.folder / f"{INDEX}-query.json"


def write_files(engine: Engine, folder: Path, queries: int, narrator: Narrator) -> DemoFiles:
    """Write the demo's corpus, settings, feature set, judgments and query.

    Candidates are found by the engine, in an index that is deleted again: whoever walks the road
    makes the index from the files.
    """
    from owpc_ltr.data.judgments import write_judgments

    with narrator.working() as show:
        show("reading the standard library", None)
        documents = read_corpus()
        found = _candidates(engine, documents, queries, show)
    held_back = len(found) // 5
    judged, new = judgments_of(found[held_back:]), judgments_of(found[:held_back])
    files = DemoFiles(
        folder, len(documents), len(judged.queries), judged.n_judgments, len(new.queries)
    )
    write_judgments(judged, files.judgments)
    write_judgments(new, files.new_judgments)
    lines = (json.dumps(document.source(), ensure_ascii=False) for document in documents)
    _write(files.corpus, "\n".join(lines))
    _write(files.settings, json.dumps(index_body(), indent=2))
    _write(files.featureset, featureset_file().read_text(encoding="utf-8").rstrip("\n"))
    _write(files.query, json.dumps(application_query(), indent=2))
    for path, what in (
        (files.corpus, f"{files.documents} documents, their ids in the field id"),
        (files.settings, "settings and mapping of the index"),
        (files.featureset, "the feature set"),
        (files.judgments, f"{files.queries} queries, {files.judged} judged documents"),
        (files.new_judgments, f"{files.new_queries} queries more, for next week"),
        (files.query, "an application's query"),
    ):
        narrator.line(f"{path}: {what}")
    return files


def application_query() -> dict[str, object]:
    """The query that an application would send, with a place for what the user types."""
    from owpc_ltr_demo.judged import pool_query

    return pool_query("{{keywords}}")


def _candidates(
    engine: Engine, documents: tuple[Document, ...], size: int, show: Progress
) -> list[Pool]:
    from owpc_ltr.engine.index import index_documents
    from owpc_ltr.engine.staging_index import create_index, drop_index

    drop_index(engine, _SCRATCH)
    create_index(engine, _SCRATCH, index_body())
    try:
        sources = ((document.id, document.source()) for document in documents)
        index_documents(engine, _SCRATCH, sources, show)
        found = pools(engine, _SCRATCH, make_queries(documents, size), show)
    finally:
        drop_index(engine, _SCRATCH)
    return [pool for pool in found if pool.document_ids]


def _write(path: Path, text: str) -> None:
    write_output(path, f"{text}\n".encode())
