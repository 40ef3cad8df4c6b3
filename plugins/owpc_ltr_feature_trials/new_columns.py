"""New features for the documents of a dataset: logged, joined to its columns, and written.

Old and new columns belong together only if they are of one state of the index: the manifests of
both logs tell of which they are.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from owpc_ltr.data.blocks import WARNING
from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.data.judgments import Judgments
from owpc_ltr.data.parquet import load_dataset, save_dataset
from owpc_ltr.engine.cluster import Cluster
from owpc_ltr.engine.feature_log.log import run_log
from owpc_ltr.engine.feature_log.snapshot import LogOptions
from owpc_ltr.engine.feature_sets import push
from owpc_ltr.engine.live_queries import judged_queries
from owpc_ltr.engine.profile import REPEAT, FeatureCost, Subject, feature_costs
from owpc_ltr.engine.stores import Absent
from owpc_ltr.errors import BadInput, Refused, UsageError
from owpc_ltr.features.feature_set import Feature, FeatureSet, lint, load_featureset
from owpc_ltr.inspection.measures import query_of_rows
from owpc_ltr.signatures import Progress


@dataclass(frozen=True)
class TrialLog:
    """How new features were logged.

    `left_out` counts the documents that are absent from the index, or rejected.
    `change` is what differs from when the data were logged. `milliseconds` is what each feature
    adds to a search, of those that the engine computes.
    """

    index: str
    features: tuple[str, ...]
    documents: int
    left_out: int
    seconds: float
    change: str
    milliseconds: Mapping[str, float]

    def sentences(self) -> Iterator[str]:
        """What was logged, and whether the index is in the state of the data."""
        counts = f"{self.documents:,} documents logged, {self.left_out:,} absent or rejected"
        yield f"{', '.join(self.features)}: {counts}, {self.seconds:.1f} s"
        costs = [f"{name} {cost:.2f} ms" for name, cost in self.milliseconds.items()]
        yield f"what they add to a search: {', '.join(costs) or 'not by the engine'}"
        yield (
            f"{WARNING}'{self.index}' is not in the state of the data ({self.change}): log "
            "everything again before you train on old and new features"
            if self.change
            else f"'{self.index}' is in the state in which the data were logged"
        )


def log_new(
    cluster: Cluster,
    new: FeatureSet | Path | str,
    data: RankingDataset,
    *,
    query: Any,
    keep: Path | str | None,
    progress: Progress,
) -> tuple[RankingDataset, TrialLog]:
    """Log the new features for the documents of the data, and write the result where `keep` says.

    Raises UsageError for data without documents, or without their feature set; BadInput for
    features that are no new ones; Refused where `keep` would join columns of two states of the
    index.
    """
    before: dict[str, Any] = data.manifest or {}
    judgments = Judgments(judged_queries(data))
    cluster = cluster.holding_set(before.get("featureset", {}).get("name"))
    where = cluster.the_index(before.get("index", {}).get("name"))
    stored = map(cluster.store.get_featureset, cluster.store.list_featuresets())
    old = next((each for each in stored if each.hash == data.featureset_hash), None)
    if old is None:
        raise UsageError("the feature set of the data is not in the cluster: push it there")
    given = new if isinstance(new, FeatureSet) else load_featureset(new)
    lint(given, "the feature set")
    names, needed = _new_in(given, old, data)
    params = [each.params for each in judgments.queries]
    with TemporaryDirectory() as folder, _stored(cluster, needed, where, params[0]) as featureset:
        report = run_log(
            *(cluster.engine, cluster.store, featureset, judgments, where),
            Path(folder, "log.parquet"),
            options=LogOptions(max_absent=1.0, allow_rejected=True),
            progress=lambda done: progress("logging features", done / judgments.n_judgments),
        )
        columns = load_dataset(report.path)
        subject = Subject(where, cluster.template(where, query)[0], featureset)
        costs = list[FeatureCost]()
        if not featureset.why_by_client and len(featureset.derived_from) < len(needed):
            costs, _ = feature_costs(cluster.engine, cluster.store, subject, params, repeat=REPEAT)
    log = TrialLog(
        where,
        names,
        columns.n_documents,
        left_out=data.n_documents - columns.n_documents,
        seconds=report.seconds,
        change=_change(before, report.manifest),
        milliseconds={cost.feature: cost.milliseconds for cost in costs if cost.feature in names},
    )
    added = [feature for feature in needed if feature.name in names]
    whole = FeatureSet("whole" if keep is None else Path(keep).stem, (*old.features, *added))
    joined = _joined(data, columns.select_features(names), whole)
    if keep is not None:
        _keep(cluster, joined, whole, log, keep)
    return joined, log


def _new_in(
    given: FeatureSet, old: FeatureSet, data: RankingDataset
) -> tuple[tuple[str, ...], list[Feature]]:
    """The names of the new features, and these together with what they are derived from."""
    names = tuple(each.name for each in given.features if each not in old.features)
    if taken := sorted({*names} & {*data.feature_names}):
        raise BadInput(
            f"'{taken[0]}' is another feature in the data: give the new one another name"
        )
    if not names:
        raise BadInput("there is nothing to try: every feature of `new` is in the data")
    wanted, more = set[str](), {*names}
    while more:
        wanted |= more
        more = {each for name in more for each in given.derived_from.get(name, ())} - wanted
    return names, [feature for feature in given.features if feature.name in wanted]


@contextmanager
def _stored(
    cluster: Cluster, features: list[Feature], index: str, params: Mapping[str, Any]
) -> Iterator[FeatureSet]:
    """Features that are tried on the index, in a set that is stored while the block lasts."""
    featureset = FeatureSet(f"owpc-ltr-trial-{uuid.uuid4().hex[:12]}", tuple(features))
    given = {name: params[name] for name in featureset.params if name in params}
    try:
        yield push(cluster, featureset, index=index, params=given)
    finally:
        with suppress(Absent):
            cluster.store.delete_featureset(featureset.name)


def _change(before: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """What is not as it was, by the manifests of two logs; empty where all is."""
    then, here = before.get("index", {}), now["index"]
    if "contents" not in then:
        return "the data do not tell their state of the index"
    same = {
        "another engine, or version": before["engine"] == now["engine"],
        "another index, mapping or analysis": then["indices"] == here["indices"],
        "documents were written or deleted": then["contents"] == here["contents"],
    }
    return ", ".join(what for what, is_same in same.items() if not is_same)


def _joined(data: RankingDataset, columns: RankingDataset, whole: FeatureSet) -> RankingDataset:
    """The documents that were logged, with the new columns; those of no set come last."""
    logged = pc.is_in(_keys(data), value_set=_keys(columns)).to_numpy(zero_copy_only=False)
    kept, names = data.select_documents(logged), (*data.feature_names, *columns.feature_names)
    return replace(
        kept,
        features=np.hstack((kept.features, columns.features)),
        feature_names=names,
        featureset_hash=whole.hash,
        feature_scales=None,
    ).select_features(sorted(names, key=lambda name: name not in whole.feature_names))


def _keys(data: RankingDataset) -> pa.Array:
    """A text for each document, unique in the data."""
    queries = data.query_ids.take(pa.array(query_of_rows(data)))
    return pc.binary_join_element_wise(queries, data.doc_ids, "\0")


def _keep(
    cluster: Cluster, data: RankingDataset, whole: FeatureSet, log: TrialLog, keep: Path | str
) -> None:
    """Store the feature set, then write the dataset, which needs it: each whole or not at all."""
    if why := log.change or (log.left_out and f"{log.left_out:,} documents absent or rejected"):
        raise Refused(
            f"`keep` writes all documents in one state of the index ({why}): push old and new "
            "features as one set, and log everything again"
        )
    missing = np.isnan(data.features).sum(axis=0).tolist()
    manifest = {
        **(data.manifest or {}),
        "featureset": {"name": whole.name, "hash": whole.hash},
        "missing": dict(zip(data.feature_names, missing, strict=True)),
    }
    cluster.store.put_featureset(whole)
    save_dataset(replace(data, manifest=manifest), keep)
