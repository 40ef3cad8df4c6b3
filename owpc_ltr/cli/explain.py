"""`owpc-ltr explain`: why documents are where they are, and what would change that."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from owpc_ltr.cli.cluster import StoreOptions
from owpc_ltr.cli.explanations import print_explanation
from owpc_ltr.cli.files import A_MODEL, Reads
from owpc_ltr.cli.groups import grouped
from owpc_ltr.cli.options import (
    FieldSource,
    Index,
    Join,
    Json,
    PluginFiles,
    Reordering,
    Report,
    UploadedModel,
)
from owpc_ltr.cli.output import print_json
from owpc_ltr.cli.queries import Question
from owpc_ltr.errors import UsageError
from owpc_ltr.host.report import write_report

if TYPE_CHECKING:
    from owpc_ltr.api.results import Explanation


@dataclass(frozen=True)
class Ranked:
    """What ranked the documents: a stored model, or a reordering in a file."""

    model: UploadedModel = None
    reranker: Reordering = None
    plugin: PluginFiles = None


@grouped
def explain(
    asked: Annotated[
        str, typer.Argument(metavar="QUERY", help="What the user types; with --data, MODEL.json.")
    ],
    document: Annotated[
        str | None, typer.Argument(metavar="DOC", help="The id of one document, for all of it.")
    ] = None,
    *,
    above: Annotated[
        str | None, typer.Option(help="The document that DOC is to pass; default: the next one.")
    ] = None,
    index: Index = None,
    ranked: Ranked,
    question: Question,
    join: Join = None,
    title: Annotated[str | None, typer.Option(help="The field to show.")] = None,
    data: Annotated[
        Path | None, Reads(), typer.Option(help="Explain a query of this dataset; no engine.")
    ] = None,
    query_id: Annotated[
        str | None, typer.Option(help="The query of --data; else what tables by query_id call it.")
    ] = None,
    fields: FieldSource,
    report: Report = None,
    place: StoreOptions,
    as_json: Json = False,
) -> None:
    """Say why documents are where they are.

    The best hits, with what each feature adds to their scores; or one document fully, with what
    would have to change for it to be above the next.
    """
    if above is not None and document is None:
        raise UsageError("--above says what one document is to pass: give its id, DOC, too")
    if data is not None:
        found = _of_data(asked, document, above, data, query_id, ranked, question, fields)
    else:
        found = _of_search(
            asked, document, above, index, ranked, question, join, title, query_id, place
        )
    write_report(found, report)
    if as_json:
        print_json(found.as_dict())
    else:
        print_explanation(found)


def _of_data(
    model: str,
    document: str | None,
    above: str | None,
    data: Path,
    query_id: str | None,
    ranked: Ranked,
    question: Question,
    fields: FieldSource,
) -> Explanation:
    if query_id is None:
        raise UsageError("say which query of --data: give --query-id ID")
    if ranked.model is not None or ranked.reranker is not None:
        raise UsageError("with --data the file of the model comes first: explain MODEL.json [DOC]")
    A_MODEL.check(None if model.startswith("feature:") else model)
    from owpc_ltr.api.explaining import explain as explain_query
    from owpc_ltr.api.partitions import open_or_read

    return explain_query(
        model,
        open_or_read(data),
        document,
        query_id=query_id,
        size=question.size or 10,
        above=above,
        documents=fields.documents,
        id_field=fields.id_field,
        plugins=ranked.plugin or (),
    )


def _of_search(
    keywords: str,
    document: str | None,
    above: str | None,
    index: str | None,
    ranked: Ranked,
    question: Question,
    join: list[Path] | None,
    title: str | None,
    query_id: str | None,
    place: StoreOptions,
) -> Explanation:
    reranker = None
    if ranked.reranker is not None:
        if ranked.model is not None:
            raise UsageError("give one of --model NAME and --reranker FILE")
        from owpc_ltr.api.models import load_reordering

        reranker = load_reordering(ranked.reranker, ranked.plugin or ())
    return place.connect().explain(
        keywords,
        document,
        model=ranked.model,
        reranker=reranker,
        index=index,
        above=above,
        title=title,
        join=join,
        query_id=query_id,
        **question.asked(),
    )
