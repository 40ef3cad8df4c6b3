"""`owpc-ltr judge next`: which queries people should judge, to tell two rankers apart."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from owpc_ltr.cli.files import Reads, Writes
from owpc_ltr.cli.groups import grouped
from owpc_ltr.cli.options import Json, PluginFiles, Seed, Unweighted
from owpc_ltr.cli.output import print_json, print_table


@grouped
def judge_next(
    rankers: Annotated[
        list[str],
        Reads(None),
        typer.Argument(help="The two rankers: files of models or TREC runs, feature:NAME."),
    ],
    *,
    cheap: Annotated[
        Path,
        Reads(),
        typer.Option(help="Cheap judgments (clicks, a language model) of all queries."),
    ],
    human: Annotated[
        Path | None,
        Reads(),
        typer.Option(help="People's judgments so far, of a random sample of them."),
    ] = None,
    data: Annotated[
        Path | None,
        Reads(),
        typer.Option(help="The documents with their features, where --cheap is a list."),
    ] = None,
    out: Annotated[
        Path,
        Writes(standard_output="the sheet has its strata beside it: name a file, not -"),
        typer.Option(help="The sheet to fill in (CSV)."),
    ],
    strata: Annotated[
        Path | None,
        Reads(),
        typer.Option(
            help="The strata of an earlier round; default: new ones, written beside --out."
        ),
    ] = None,
    n: Annotated[int, typer.Option("--n", min=1, help="How many queries.")] = 50,
    depth: Annotated[int, typer.Option(min=1, help="How many of each ranker's documents.")] = 10,
    metric: Annotated[str, typer.Option(help="In which metric they are told apart.")] = "ndcg@10",
    queries: Annotated[
        str,
        typer.Option(help="auto (those that no ranker was trained on), all, test, train, …"),
    ] = "auto",
    unweighted: Unweighted = False,
    seed: Seed = 0,
    plugin: PluginFiles = None,
    as_json: Json = False,
) -> None:
    """Draw the queries whose judgment by people tells most.

    More are drawn of those in which the rankers differ much by the cheap judgments, and all by
    chance: what is judged in the end is a random sample of each stratum. The strata stand beside
    the sheet (OUT.strata.csv): give them with --strata to compare and upload, and to the next
    round. Judge the whole sheet, or its first queries.
    """
    from owpc_ltr.api.judging_next import judge_next as draw

    found = draw(
        rankers, cheap, human, out, data=data, strata=strata, metric=metric, n=n, depth=depth,
        queries=queries, unweighted=unweighted, seed=seed, plugins=plugin or (),
    )  # fmt: skip
    beside = strata or out.with_suffix(".strata.csv")
    if as_json:
        print_json({
            "sheet": str(out), "strata_file": str(beside), "queries": len(found.queries),
            "documents": found.n_documents,
            "strata": [
                {
                    "name": one.name, "largest": one.largest, "queries": one.queries,
                    "judged": one.judged, "to_judge": one.to_judge, "probability": one.probability,
                }
                for one in found.strata
            ],
        })  # fmt: skip
        return
    print_table(
        ["STRATUM", "DIFFERENCE UP TO", "QUERIES", "JUDGED", "TO JUDGE"],
        [(one.name, one.largest, one.queries, one.judged, one.to_judge) for one in found.strata],
    )
    typer.echo(
        f"wrote {out}: {found.n_documents:,} documents of {len(found.queries):,} queries to grade; "
        f"strata: {beside}"
    )
