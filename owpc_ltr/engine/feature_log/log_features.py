"""`log_features`: the features of judged documents out of the engine, as a dataset."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from owpc_ltr.data.options import DEFAULT_BUCKETS, Columns, DuplicatePolicy, SkipUnjudged, Topics
from owpc_ltr.engine.feature_log.request_options import LogOptions
from owpc_ltr.engine.options import DEFAULT_WINDOW, ExtraFeatures, SearchIndex
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
    option_name,
    silent,
)

if TYPE_CHECKING:
    from owpc_ltr.data.judgments.grouping import Judgments
    from owpc_ltr.engine.cluster import Cluster
    from owpc_ltr.engine.feature_log.log import LogReport
    from owpc_ltr.engine.feature_log.remote import RemoteWorkers
    from owpc_ltr.engine.feature_log.run_folder import PartitionedOutput
    from owpc_ltr.features.feature_set import FeatureSet


@job
def log_features(
    cluster: Cluster,
    *,
    judgments: Annotated[
        Judgments | Path | str, Reads("Judged queries: TSV, CSV, qrels …; also .gz or .xz.")
    ],
    out: Annotated[
        Path | str,
        Writes(
            "The dataset to write (Parquet); a folder with --buckets or --part.",
            needs_folder=False,
            standard_output="unfinished work is stored beside --out: name a file, not -",
            or_folder=True,
        ),
    ],
    index: SearchIndex = None,
    featureset: Annotated[
        str | None,
        Help("A feature set of the cluster; default: the only one."),
        Argument.NAME,
    ] = None,
    extra_features: ExtraFeatures = (),
    candidates: Annotated[
        FeatureSet | Mapping[str, Any] | Path | str | None,
        Reads(
            "Log the documents that these legs bring (see fuse), those without a judgment as "
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
        Help("Write a folder of parts, for data larger than memory; see partition.", panel="Data"),
    ] = None,
    part: Annotated[
        str | None,
        Help(
            "Log only one part of such a folder, as 3/16; other parts may run at the same time.",
            panel="Data",
            metavar="K/N",
        ),
    ] = None,
    columns: Columns = None,
    topics: Topics = None,
    duplicates: DuplicatePolicy = "refuse",
    skip_unjudged: SkipUnjudged = False,
    options: Annotated[
        LogOptions | None,
        Argument.OPTIONS,
        "How many searches, how fast and when, and which documents may be missing.",
    ] = None,
    workers: Annotated[
        RemoteWorkers | str | None,
        Help(
            "Dask workers that search: local:4 (processes here), tcp://HOST:8786.",
            flag="--dask",
            cli=str,
            panel="Advanced",
            metavar="PLACE",
        ),
    ] = None,
    progress: Progress = silent,
) -> LogReport:
    """Log the engine's features of judged documents.

    Judged = logged + absent from the index + rejected. All values are from one snapshot of the
    index. Unfinished work is kept in OUT.run: the same command resumes it, to the same bytes. With
    --candidates a model learns to order what the legs of a hybrid search bring; then search with
    the query template that fuse writes.

    Python: `extra_features` may also be data frames.
    """
    from owpc_ltr.data.external_features.table import read_external_features
    from owpc_ltr.engine.feature_log.log import run_log
    from owpc_ltr.engine.legs import brought_by_legs

    tables = extra_features if isinstance(extra_features, list | tuple) else [extra_features]
    inputs = [path for path in (judgments, topics, *tables) if isinstance(path, Path | str)]
    parted = output_parts(buckets, part)
    target = Path(out) if parted else output_file(out, inputs)
    if target is None:
        raise UsageError(
            f"unfinished work is stored beside {option_name('out')}: name a file, not -"
        )
    judged, source = _read(judgments, topics, duplicates, skip_unjudged, columns)
    where, holding = cluster.the_index(index), cluster.holding_set(featureset)
    features = holding.the_featureset(featureset)
    joined = read_external_features(tables) if tables else ()
    if candidates is not None:
        judged = brought_by_legs(
            cluster.engine, candidates, judged, where, window=window, progress=progress
        )
    elif window is not None:
        raise UsageError(
            f"{option_name('window')} is of legs: name these with {option_name('candidates')}, or "
            "leave it "
            "out"
        )
    total = (judged if parted is None else parted.own(judged)).n_judgments

    def accounted(done: int) -> None:
        progress(f"{done:,} of {total:,} judged documents", done / total)

    with _started(workers) as remote:
        report = run_log(
            cluster.engine, holding.store, features, judged, index=where, out=target,
            source=source, options=options, joined=joined, parted=parted,
            workers=remote, progress=accounted,
        )  # fmt: skip
    give_warnings(report.warnings)
    return report


def output_parts(buckets: int | None, part: str | None) -> PartitionedOutput | None:
    """A folder of so many buckets, and the part of it that is meant; None where none is.

    Raises UsageError for a text that does not name a part.

    >>> output_parts(None, "3/16").share
    Share(number=3, of=16)
    """
    if buckets is None and part is None:
        return None
    from owpc_ltr.data.partitioned.writing import Share
    from owpc_ltr.engine.feature_log.run_folder import PartitionedOutput

    share = Share()
    if part is not None:
        number, slash, of = part.partition("/")
        if not (slash and number.isdecimal() and of.isdecimal() and 1 <= int(number) <= int(of)):
            raise UsageError(f"'{part[:40]}' is not a part: write it as 3/16, the third of sixteen")
        share = Share(int(number), int(of))
    return PartitionedOutput(DEFAULT_BUCKETS if buckets is None else buckets, share)


def _read(
    judgments: Judgments | Path | str,
    topics: Mapping[str, str] | Path | str | None,
    duplicates: Any,
    skip_unjudged: bool,
    columns: Mapping[str, str] | None,
) -> tuple[Judgments, str | None]:
    """The judgments, and the SHA-256 of their file, where they are in one."""
    if not isinstance(judgments, Path | str):
        if columns is not None:
            raise UsageError(
                f"{option_name('columns')} names columns of a file: these judgments are read"
            )
        return judgments, None
    import hashlib

    from owpc_ltr.host.judgment_lists import read_judgments

    judged = read_judgments(
        judgments,
        topics=topics,
        duplicates=duplicates,
        skip_unjudged=skip_unjudged,
        columns=columns,
    )
    give_warnings(judged.notes)
    return judged, hashlib.sha256(Path(judgments).read_bytes()).hexdigest()


def _started(workers: RemoteWorkers | str | None) -> Any:
    """The workers as a context: those that are there, or started at a place."""
    if not isinstance(workers, str):
        return nullcontext(workers)
    from owpc_ltr.host.commands import plugin_answer

    use_workers = plugin_answer("ltr_workers")
    if use_workers is None:
        raise UsageError(f"no plugin offers workers: leave out {option_name('workers')}")
    return use_workers(workers)
