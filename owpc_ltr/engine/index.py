"""`index`: the documents of a file into an index, every one accounted for."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from owpc_ltr.errors import UsageError
from owpc_ltr.signatures import NO_STORE, Help, Progress, Reads, job, silent, spelled

if TYPE_CHECKING:
    from owpc_ltr.engine.cluster import Cluster
    from owpc_ltr.engine.indexing import IndexReport


@job
def index(
    cluster: Annotated[Cluster, NO_STORE],
    documents: Annotated[Path | str, Reads("One JSON document per line; also .gz, .xz or .zst.")],
    *,
    index: Annotated[str, Help("The index to make.", metavar="NAME")],
    id_field: Annotated[
        str | None,
        Help("The field that holds the document's id; default: the line number.", metavar="FIELD"),
    ] = None,
    settings: Annotated[
        Mapping[str, Any] | Path | str | None,
        Reads("Settings and mappings of the index (JSON).", cli=Path),
    ] = None,
    append: Annotated[bool, Help("Add to an index that exists.")] = False,
    recreate: Annotated[
        bool, Help("Replace an index of this name by the new one, once that is complete.")
    ] = False,
    progress: Progress = silent,
) -> IndexReport:
    """Index documents, every one accounted for.

    The file has one JSON object per line; the engine's count is compared with the file's.

    The whole file is read, in little memory, before an index is made. An index that cannot be
    completed is removed again. With --recreate the name becomes an alias of the new index in one
    step, and the old index's other aliases move with it; documents of an interrupted run are
    replaced too. With --append documents replace those of the same id, and are counted apart.

    Raises BadInput for a line that is not a document, or for two of one id, and Refused for an
    index that exists.
    """
    from owpc_ltr.engine.filling import fill_index
    from owpc_ltr.files.json_lines import DocumentFile
    from owpc_ltr.files.strict_json import read_json_object

    if append and recreate:
        raise UsageError(
            f"{spelled('append')} keeps the index, and {spelled('recreate')} deletes it: choose one"
        )
    body = read_json_object(Path(settings)) if isinstance(settings, Path | str) else settings
    return fill_index(
        cluster.engine,
        index,
        DocumentFile(Path(documents), id_field),
        body,
        existing="append" if append else "recreate" if recreate else "refuse",
        progress=progress,
    )
