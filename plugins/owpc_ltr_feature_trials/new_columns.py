"""New features for the documents of a dataset: logged, joined to its columns, and written.

Old and new columns belong together only if they are of one state of the index. The manifest tells
of which the old ones are; besides, old features of some queries are logged again, whose values must
be the same. The time that this takes tells what logging all of them would take.
"""

from __future__ import annotations

import json
import uuid
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.data.judgments import Judgments
from owpc_ltr.data.parquet import load_dataset, save_dataset
from owpc_ltr.engine.cluster import Cluster
from owpc_ltr.engine.feature_log.log import run_log
from owpc_ltr.engine.feature_log.snapshot import LogOptions
from owpc_ltr.engine.feature_sets import push
from owpc_ltr.engine.live_queries import judged_queries
from owpc_ltr.engine.profile import REPEAT, Subject, computed, feature_costs
from owpc_ltr.engine.stores import Absent
from owpc_ltr.errors import BadInput, OwpcLtrError, Refused, UsageError, give_warning
from owpc_ltr.features.feature_set import FeatureSet, load_featureset
from owpc_ltr.files.output import check_output, write_output
from owpc_ltr.inspection.measures import query_of_rows
from owpc_ltr.names import check_name
from owpc_ltr.signatures import Progress

PREFIX = "owpc-ltr-trial-"
"""How the names of feature sets on trial begin, also of those that killed processes left."""
_CHECKED = 50
"""Queries whose old features are logged again."""
_OPTIONS = LogOptions(max_absent=1.0, allow_rejected=True)
"""What is left out is counted."""


@dataclass(frozen=True)
class TrialLog:
    """How new features were logged.

    `left_out` counts documents by reason; `old_seconds` is what the `old` features of all documents
    would take, None where that is not known. `change` is what differs from when these were logged.
    `milliseconds` is what each adds to a search, of those that the engine computes.
    """

    index: str
    features: tuple[str, ...]
    documents: int
    left_out: Mapping[str, int]
    seconds: float
    old: int
    old_seconds: float | None
    change: str
    milliseconds: Mapping[str, float]


def log_new(
    cluster: Cluster,
    new: FeatureSet | Path | str,
    data: RankingDataset,
    *,
    index: str | None,
    query_template: Any,
    allow_unmapped: bool,
    keep: Path | str | None,
    progress: Progress,
) -> tuple[RankingDataset, TrialLog]:
    """Log the new features for the documents of the data, and write the result where `keep` says.

    Raises UsageError for data without documents, BadInput for features that are no new ones,
    Refused where `keep` would join columns of two states of the index.
    """
    before: dict[str, Any] = data.manifest or {}
    judgments = Judgments(judged_queries(data))
    cluster = cluster.holding_set(before.get("featureset", {}).get("name"))
    where = cluster.the_index(index or before.get("index", {}).get("name"))
    old = None
    with suppress(UsageError):  # none has the hash of the data
        old = cluster.the_featureset(None, data.featureset_hash or "no hash")
    whole, names = _with_new(new, data, old)
    change, then, old_seconds = "their feature set is not in the cluster", before, None
    with TemporaryDirectory(prefix="owpc-ltr-") as folder:
        out = Path(folder, "log.parquet")
        log = partial(run_log, cluster.engine, cluster.store, index=where, out=out)
        if old is not None:
            every = np.unique(np.linspace(0, data.n_queries - 1, _CHECKED).astype(int))
            some = Judgments([judgments.queries[number] for number in every.tolist()])
            again = log(old, some, options=_OPTIONS)
            was = data.select(every).select_features(old.feature_names)
            same = np.array_equal(load_dataset(out).features, was.features, equal_nan=True)
            then = again.manifest
            change = _change(before, then) or ("" if same else "old features have other values")
            old_seconds = again.seconds * data.n_documents / some.n_judgments
        if keep is not None:
            whole = replace(whole, name=Path(keep).stem)
            _check_keep(keep, whole, change)

        def logged(done: int) -> None:
            progress("logging the new features", done / judgments.n_judgments)

        params = judgments.queries[0].params
        with _stored(cluster, _needed(whole, names), where, params, allow_unmapped) as featureset:
            report = log(featureset, judgments, options=_OPTIONS, progress=logged)
            subject = Subject(where, cluster.template(where, query_template)[0], featureset)
            costs = _costs(cluster, subject, judgments)
        columns = load_dataset(out)
    left_out = {"not in the index": report.counts.absent, **report.counts.rejected}
    change = change or _change(then, report.manifest)
    joined = _joined(data, columns, whole, names)
    log_facts = TrialLog(
        index=where,
        features=names,
        documents=report.counts.judged,
        left_out={reason: count for reason, count in left_out.items() if count},
        seconds=report.seconds,
        old=0 if old is None else len(old.features),
        old_seconds=old_seconds,
        change=change,
        milliseconds=costs,
    )
    if keep is not None:
        _refuse_change(change)
        _write(joined, log_facts, whole, keep)
    return joined, log_facts


def _with_new(
    new: FeatureSet | Path | str, data: RankingDataset, old: FeatureSet | None
) -> tuple[FeatureSet, tuple[str, ...]]:
    """The feature set of old and new features, and the names of the new ones."""
    base = () if old is None else old.features
    text = json.dumps(new.to_body()) if isinstance(new, FeatureSet) else new
    whole = load_featureset(text, base=base)
    names = whole.feature_names[len(base) :]
    if taken := sorted({*names} & {*data.feature_names}):
        raise BadInput(
            f"'{taken[0]}' is in the data, and not in a feature set of the cluster that they were "
            "logged with: give the new feature another name, or push that set"
        )
    if not names:
        raise BadInput("there is nothing to try: every feature of `new` is in the data")
    return whole, names


def _needed(whole: FeatureSet, names: tuple[str, ...]) -> FeatureSet:
    """The new features, and those that they are derived from."""
    wanted, waiting = set[str](), [*names]
    while waiting:
        wanted.add(name := waiting.pop())
        waiting += {*whole.derived_from.get(name, ())} - wanted
    features = tuple(feature for feature in whole.features if feature.name in wanted)
    return FeatureSet(f"{PREFIX}{uuid.uuid4().hex[:12]}", features)


def _costs(cluster: Cluster, subject: Subject, judgments: Judgments) -> dict[str, float]:
    """Milliseconds that each feature adds to a search, of those that the engine computes."""
    if subject.featureset.why_by_client or not computed(cluster.store, subject):
        return {}
    params = [query.params for query in judgments.queries]
    costs, _ = feature_costs(cluster.engine, cluster.store, subject, params, repeat=REPEAT)
    return {cost.feature: cost.milliseconds for cost in costs}


def _joined(
    data: RankingDataset, columns: RankingDataset, whole: FeatureSet, names: tuple[str, ...]
) -> RankingDataset:
    """The documents that were logged, with the new columns."""
    logged = pc.is_in(_keys(data), value_set=_keys(columns)).to_numpy(zero_copy_only=False)
    # Columns from outside the index stand behind those of the set.
    order = [name for name in whole.feature_names if name in {*data.feature_names, *names}]
    order += [name for name in data.feature_names if name not in order]
    kept = data.select_documents(logged)
    return replace(
        kept,
        features=np.hstack((kept.features, columns.select_features(names).features)),
        feature_names=(*data.feature_names, *names),
        featureset_hash=whole.hash,
        feature_scales=None,
    ).select_features(order)


def _keys(data: RankingDataset) -> pa.Array:
    """A text for each document, unique in the data."""
    queries = data.query_ids.take(pa.array(query_of_rows(data)))
    return pc.binary_join_element_wise(queries, data.doc_ids, "\0")


@contextmanager
def _stored(
    cluster: Cluster,
    featureset: FeatureSet,
    index: str,
    params: Mapping[str, Any],
    allow_unmapped: bool,
) -> Iterator[FeatureSet]:
    """A feature set that is tried on the index, and stored while the block lasts."""
    name = featureset.name
    given = {param: params[param] for param in featureset.params if param in params}
    try:
        yield push(cluster, featureset, index=index, params=given, allow_unmapped=allow_unmapped)
    finally:
        try:
            with suppress(Absent):
                cluster.store.delete_featureset(name)
        except OwpcLtrError as error:
            give_warning(
                f"the feature set '{name}' of this trial could not be deleted ({error}): delete it "
                f"later (`featuresets.delete('{name}')`)"
            )


def _change(before: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """What is not as it was, by the manifests of two logs; empty where all is."""
    then, here = before.get("index", {}), now["index"]
    if "contents" not in then:
        return "the data do not tell their state of the index"
    if before["engine"] != now["engine"]:
        was, is_now = (" ".join(map(str, of["engine"].values())) for of in (before, now))
        return f"the engine was {was}, and is {is_now}"
    if then["indices"] != here["indices"]:
        names = {name for of in (then, here) for name in of["indices"]}
        return f"another index, mapping or analysis ({', '.join(sorted(names))})"
    if then["contents"] != here["contents"]:
        counts = [sum(shard["documents"] for shard in of["contents"]) for of in (then, here)]
        return f"documents were written or deleted ({counts[0]:,} then, {counts[1]:,} now)"
    return ""


def _beside(keep: Path | str) -> Path:
    return Path(keep).with_name(f"{Path(keep).stem}-features.json")


def _check_keep(keep: Path | str, whole: FeatureSet, change: str) -> None:
    """Refuse what cannot be kept, before the new features are logged."""
    _refuse_change(change)
    check_name("feature set", whole.name)
    check_output(_beside(keep), [], needs_folder=True)
    same = not _beside(keep).exists()
    with suppress(BadInput):
        same = same or load_featureset(_beside(keep)).hash == whole.hash
    if not same:
        raise UsageError(f"{_beside(keep)} holds something else: name another `keep`")


def _refuse_change(change: str) -> None:
    if change:
        raise Refused(
            f"`keep` writes columns of one state of the index, and that of the data is not known "
            f"to be here ({change}): push old and new features as one set, and log everything "
            "again; without `keep` the features can be tried"
        )


def _write(data: RankingDataset, log: TrialLog, whole: FeatureSet, keep: Path | str) -> None:
    """Write the feature set, then the dataset, which needs it: each whole or not at all."""
    before: dict[str, Any] = data.manifest or {}
    rejected = Counter(before["rejected"]) + Counter(log.left_out)
    missing = np.isnan(data.features).sum(axis=0).tolist()
    manifest = {
        **before,
        "logged": data.n_documents,
        "rejected": dict(sorted(rejected.items())),
        "queries": {**before["queries"], "logged": data.n_queries},
        "featureset": {"name": whole.name, "hash": whole.hash},
        "logged_before": before["featureset"],
        "logged_later": list(log.features),
        "missing": dict(zip(data.feature_names, missing, strict=True)),
    }
    body = json.dumps(whole.to_body(), indent=1, ensure_ascii=False)
    write_output(_beside(keep), f"{body}\n".encode())
    save_dataset(replace(data, manifest=manifest), keep)
