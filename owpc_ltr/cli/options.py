"""Options that several commands share, each defined once; groups of them are beside this file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from owpc_ltr.cli.files import A_MODEL, A_PLUGIN, Reads, Writes

Cluster = Annotated[
    str | None,
    typer.Option(
        "--dask",
        help="Dask workers for a folder of parts: local:4 (processes here), tcp://HOST:8786.",
    ),
]
Documents = Annotated[
    Path | None,
    Reads(),
    typer.Option(help="The file that was indexed, for rerankers that read fields of documents."),
]
Grid = Annotated[
    list[str] | None,
    typer.Option(
        help="Values to choose among: C=1e-3..1e3, loss.generator=constant,inverse; may be "
        "repeated."
    ),
]
IdField = Annotated[
    str | None, typer.Option(help="The field of --documents with their ids; default: line numbers.")
]
Index = Annotated[
    str | None,
    typer.Option(help="The index (or alias) to search; default: what the model or cluster knows."),
]
ExtraFeatures = Annotated[
    list[Path] | None,
    Reads(),
    typer.Option(
        "--extra-features",
        help="Features from outside the index (Parquet), by query_id or query, document_id, or "
        "both; may be repeated.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
MaxFeatures = Annotated[
    int | None,
    typer.Option(min=1, help="The most features of LETOR text; default: 10000, more may be ids."),
]
Memory = Annotated[
    str | None,
    typer.Option(
        help="How much of a folder of parts stays in memory, as 4G; 4G:float16: values "
        "rounded to 11 bits, twice as many; default: 512M."
    ),
]
Metrics = Annotated[
    list[str] | None,
    typer.Option("--metric", help="As ndcg@10, map, mrr, precision@5; may be repeated."),
]
ModelFile = Annotated[Path, Writes(), typer.Option(help="Where the model goes (JSON).")]
Params = Annotated[
    list[str] | None,
    typer.Option(
        "--param",
        help="A parameter of the features, NAME=VALUE: a number, a list or true as in JSON, else "
        "text; NAME=@FILE for what a file holds as JSON; may be repeated.",
    ),
]
PluginFiles = Annotated[
    list[Path] | None,
    A_PLUGIN,
    typer.Option("--plugin", help="Also load this plugin file (FILE.py); may be repeated."),
]
MinProofCoverage = Annotated[
    float,
    typer.Option(
        min=0,
        max=1,
        help="The least share of the model's judged documents, and queries, found in the index; 0: "
        "any.",
    ),
]
Reordering = Annotated[
    Path | None,
    A_MODEL,
    typer.Option(help="A reordering, FILE.json: the client reorders the engine's window."),
]
Latex = Annotated[
    Path | None,
    Writes(),
    typer.Option("--latex", help="Also write the means as a LaTeX table (booktabs)."),
]
Report = Annotated[
    Path | None,
    Writes(standard_output="--report writes a page to open in a browser: name a file, not -"),
    typer.Option("--report", help="Also write an HTML page to show to others, to this file."),
]
Seed = Annotated[int, typer.Option(help="Makes the run repeatable, bit for bit.")]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set", help="A setting, as loss.generator=top or optimizer.C=10; may be repeated."
    ),
]
Threads = Annotated[int, typer.Option(min=1, help="Threads; more than free cores only slow down.")]
Tolerance = Annotated[
    float,
    typer.Option(
        help="The largest difference of scores that is accepted; relative error for scores above 1."
    ),
]
Unweighted = Annotated[bool, typer.Option("--unweighted", help="Let every query count the same.")]
UploadedModel = Annotated[
    str | None, typer.Option(help="The name that a model was uploaded under.")
]
UploadedName = Annotated[str, typer.Argument(help="The name that applications use.")]


@dataclass(frozen=True)
class FieldSource:
    """The file of documents whose fields rerankers read, and where their ids stand."""

    documents: Documents = None
    id_field: IdField = None
