"""The pairs of query and document of a grading sheet, as `judge pool` and `judge sample` write it.

Columns that begin with `document:` show the document, in their order. `information_need` is what
the user wants to know; all other columns say nothing to a rater.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

from owpc_ltr.data.judgments.tables import SHOWN, find_roles, header_delimiter, table_rows
from owpc_ltr.errors import BadInput
from owpc_ltr.files.input import read_text, why_no_id
from owpc_ltr.files.output import digest_of
from owpc_ltr.signatures import Reads

NEED = "information_need"
"""The column that says what the user of a query wants to know."""


@dataclass(frozen=True)
class Pair:
    """A query and a document to grade; `fields` are the document's, in the sheet's order."""

    query_id: str
    query: str
    doc_id: str
    fields: Mapping[str, str]
    need: str = ""

    @property
    def key(self) -> tuple[str, str]:
        """The ids of both."""
        return self.query_id, self.doc_id


@dataclass(frozen=True)
class Sheet:
    """The pairs of a sheet, each once; `graded` ones have a grade in the sheet already.

    The digest is that of the pairs: it is the same with grades in the sheet, and whichever fields
    are shown.
    """

    path: Path
    pairs: tuple[Pair, ...]
    graded: int

    @property
    def digest(self) -> str:
        """The first 16 hex digits of the SHA-256 of the pairs."""
        return digest_of([[*pair.key, pair.query] for pair in self.pairs])[:16]


SheetFile = Annotated[
    Path | str, Reads("The sheet that judge pool or judge sample wrote (CSV).", cli=Path)
]
Documents = Annotated[
    Path | str | None,
    Reads(
        "Another sheet that shows these documents (judge pool --fields), where SHEET does not, as "
        "that of judge sample."
    ),
]


def read_sheet(path: Path | str, documents: Path | str | None = None) -> Sheet:
    """The pairs of a sheet (CSV or TSV), their documents as another sheet shows them, if given.

    Raises BadInput, naming the line of what is wrong.
    """
    path = Path(path)
    if documents is not None:
        sheet = read_sheet(path)
        fields_of = {pair.doc_id: pair.fields for pair in read_sheet(documents).pairs}
        absent = next((pair for pair in sheet.pairs if pair.doc_id not in fields_of), None)
        if absent is not None:
            raise BadInput(f"{documents} does not show document '{absent.doc_id}' of {path}")
        pairs = tuple(replace(pair, fields=fields_of[pair.doc_id]) for pair in sheet.pairs)
        return replace(sheet, pairs=pairs)
    text = read_text(path)
    if not text.strip():
        raise BadInput(f"cannot read {path}: it is empty; judge pool writes such a sheet")
    header, fields, lines, _ = table_rows(text, path, header_delimiter(text))
    rows = zip(*(fields[place :: len(header)] for place in range(len(header))), strict=True)
    roles = find_roles(header, path, with_topics=False)
    columns = {
        name.removeprefix(SHOWN): place
        for place, name in enumerate(header)
        if name.startswith(SHOWN)
    }
    need = header.index(NEED) if NEED in header else None
    pairs_by_key: dict[tuple[str, str], Pair] = {}
    graded = 0
    for line, row in zip(lines, rows, strict=True):
        query, document = row[roles["query"]], row[roles["doc_id"]]
        pair = Pair(
            row[roles.get("query_id", roles["query"])],
            query,
            document,
            {name: row[place] for name, place in columns.items()},
            "" if need is None else row[need],
        )
        why = why_no_id(document) or why_no_id(pair.query_id, typed=pair.query_id == query)
        if why or not query.strip():
            raise BadInput(f"cannot read {path}, line {line}: an id {why or 'has no query text'}")
        if pair.key in pairs_by_key:
            raise BadInput(
                f"cannot read {path}, line {line}: document '{document}' of query "
                f"'{pair.query_id}' is in the sheet twice: leave one line out"
            )
        pairs_by_key[pair.key] = pair
        graded += bool(row[roles["grade"]].strip())
    if not pairs_by_key:
        raise BadInput(f"cannot read {path}: the sheet has no document to grade")
    return Sheet(path, tuple(pairs_by_key.values()), graded)
