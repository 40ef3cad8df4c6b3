"""`log_features`: the features of judged documents out of the engine, as a dataset."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from owpc_ltr.data.options import Columns, DuplicatePolicy, Labels, SkipUnjudged, Topics
from owpc_ltr.engine.feature_log.snapshot import MAX_ABSENT, MOST_DOCUMENTS, LogOptions
from owpc_ltr.engine.options import DEFAULT_WINDOW, ExtraFeatures, OnlyIndex
from owpc_ltr.errors import UsageError, give_warnings
from owpc_ltr.files.output import output_file
from owpc_ltr.signatures import (
    NO_FEATURE_SET,
    Argument,
    Help,
    Progress,
    Reads,
    Writes,
    job,
    silent,
)

if TYPE_CHECKING:
    from owpc_ltr.data.judgments import Judgments
    from owpc_ltr.engine.cluster import Cluster
    from owpc_ltr.engine.feature_log.log import LogReport
    from owpc_ltr.features.feature_set import FeatureSet


@job
def log_features(
    cluster: Cluster,
    *,
    judgments: Annotated[
        Judgments | Path | str,
        Reads("Judged queries: TSV, CSV, qrels …; also .gz or .xz.", project="judgments"),
    ],
    out: Annotated[
        Path | str,
        Writes(
            "The dataset to write (Parquet); a folder with `buckets`.",
            needs_folder=False,
            standard_output="unfinished work is stored beside `out`: name a file, not -",
            or_folder=True,
            project="data",
        ),
    ],
    index: OnlyIndex = None,
    featureset: Annotated[
        str | None,
        Help("A feature set of the cluster; default: the only one.", project="featureset"),
        Argument.NAME,
    ] = None,
    extra_features: ExtraFeatures = (),
    candidates: Annotated[
        FeatureSet | Mapping[str, Any] | Path | str | None,
        Reads(
            "Log the documents that these legs bring (see `fuse()`), those without a judgment as "
            "irrelevant, in place of the judged documents.",
            cli=Path,
            metavar="LEGS.json",
            absent=NO_FEATURE_SET,
            panel="Data",
        ),
    ] = None,
    window: Annotated[
        int | None,
        Help(
            f"How many documents each leg brings; default: {DEFAULT_WINDOW}.", min=1, panel="Data"
        ),
    ] = None,
    buckets: Annotated[
        int | None,
        Help(
            "Write a folder of parts, for data larger than memory; see `partition()`.", panel="Data"
        ),
    ] = None,
    columns: Columns = None,
    labels: Labels = None,
    topics: Topics = None,
    duplicates: DuplicatePolicy = "refuse",
    skip_unjudged: SkipUnjudged = False,
    in_flight: Annotated[
        int | None,
        Help(
            "How many searches at the same time at most; default: as many as the engine takes.",
            panel="Engine",
        ),
    ] = None,
    batch: Annotated[int, Help("At most so many documents per search.", panel="Engine")] = (
        MOST_DOCUMENTS
    ),
    max_absent: Annotated[
        float,
        Help("Fail if a larger share of judged documents is not in the index.", panel="Advanced"),
    ] = MAX_ABSENT,
    allow_rejected: Annotated[
        bool,
        Help(
            "Leave out documents that the engine cannot score or whose values are not finite.",
            panel="Advanced",
        ),
    ] = False,
    restart: Annotated[bool, Help("Discard the unfinished work of an earlier run.")] = False,
    progress: Progress = silent,
) -> LogReport:
    """Log the engine's features of judged documents.

    Judged = logged + absent from the index + rejected. All values are from one snapshot of the
    index. Unfinished work is kept in OUT.run: the same command resumes it, to the same bytes. With
    `candidates` a model learns to order what the legs of a hybrid search bring; then search with
    the query template that `fuse()` writes.

    Python: `extra_features` may also be data frames.
    """
    from owpc_ltr.data.external_features import read_external_features
    from owpc_ltr.engine.feature_log.log import run_log
    from owpc_ltr.engine.legs import brought_by_legs

    options = LogOptions(
        in_flight=in_flight,
        batch=batch,
        max_absent=max_absent,
        allow_rejected=allow_rejected,
        restart=restart,
    )
    tables = extra_features if isinstance(extra_features, list | tuple) else [extra_features]
    inputs = [path for path in (judgments, topics, *tables) if isinstance(path, Path | str)]
    target = output_file(out, inputs) if buckets is None else Path(out)
    if target is None:
        raise UsageError("unfinished work is stored beside `out`: name a file, not -")
    judged, source = _read(
        judgments,
        columns=columns,
        labels=labels,
        topics=topics,
        duplicates=duplicates,
        skip_unjudged=skip_unjudged,
    )
    where, holding = cluster.the_index(index), cluster.holding_set(featureset)
    features = holding.the_featureset(featureset)
    joined = read_external_features(tables) if tables else ()
    if candidates is not None:
        judged = brought_by_legs(
            cluster.engine, candidates, judged, where, window=window, progress=progress
        )
    elif window is not None:
        raise UsageError("`window` is of legs: name these with `candidates`, or leave it out")
    total = judged.n_judgments

    def accounted(done: int) -> None:
        progress(f"{done:,} of {total:,} judged documents", done / total)

    report = run_log(
        cluster.engine,
        holding.store,
        features,
        judged,
        index=where,
        out=target,
        source=source,
        options=options,
        joined=joined,
        buckets=buckets,
        progress=accounted,
    )
    give_warnings(report.warnings)
    return report


def _read(
    judgments: Judgments | Path | str,
    *,
    columns: Mapping[str, str] | None,
    labels: Mapping[str, float] | None,
    **how: Any,
) -> tuple[Judgments, str | None]:
    """The judgments, and the SHA-256 of their file, where they are in one."""
    if not isinstance(judgments, Path | str):
        for name, given in {"columns": columns, "labels": labels}.items():
            if given is not None:
                raise UsageError(f"`{name}` is for a file: these judgments are read")
        return judgments, None
    import hashlib

    from owpc_ltr.host.judgment_lists import read_judgments

    judged = read_judgments(judgments, columns=columns, labels=labels, **how)
    give_warnings(judged.notes)
    return judged, hashlib.sha256(Path(judgments).read_bytes()).hexdigest()
