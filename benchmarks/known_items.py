"""Whether judgments of known items mislead, on the packages of a Debian machine.

    python benchmarks/known_items.py --url http://127.0.0.1:9200 [--packages 60000] [--queries 800]

A query is the short description of a package with half of its words dropped; the package is the
one relevant document. Trained on it beside negatives drawn at random, a model looks perfect on
held-out queries of the same kind. Printed is what is warned of, what users would get, and what a
model gets that was trained on pooled documents: those that rankers bring, graded by a rule that
knows the truth (3 for the package itself, 1 for those built from the same source).
"""

from __future__ import annotations

import argparse
import hashlib
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from owpc_ltr.api.cluster import Cluster, connect
from owpc_ltr.api.live import LiveProof
from owpc_ltr.api.training import train
from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.data.judgments import JudgedQuery, Judgments
from owpc_ltr.data.parquet import read_dataset
from owpc_ltr.data.splits import HashSplit
from owpc_ltr.engine.deployment.aliases import INDEX as ALIASES
from owpc_ltr.engine.feature_log import LogOptions, log_features
from owpc_ltr.engine.indexing import create_index, drop_index, index_documents
from owpc_ltr.engine.search.live_evaluation import LiveEvaluation
from owpc_ltr.errors import OwpcLtrWarning, Refused
from owpc_ltr.evaluation.evaluate import compare, measure
from owpc_ltr.evaluation.judgment_checks import judgment_findings
from owpc_ltr.features.feature_set import Feature, FeatureSet
from owpc_ltr.features.text_scores import text_scores
from owpc_ltr.metrics import parse_metric
from owpc_ltr.protocols import Model

METRIC = "ndcg@10"
TEXTS = ("name", "tags", "depends")
"""What is searched. The description is what is asked, and stands in no document."""
QUERY: dict[str, Any] = {"multi_match": {"query": "{{keywords}}", "fields": list(TEXTS)}}
NAMES = ("packages-known-items", "packages-pooled")
SPLIT = HashSplit()


@dataclass(frozen=True)
class Package:
    """A package as the machine's package lists have it."""

    name: str
    source: str
    description: str
    tags: str
    depends: str
    section: str
    size: float

    def document(self) -> dict[str, Any]:
        """What is indexed."""
        words = {"name": re.sub(r"[^a-z0-9]+", " ", self.name), "description": self.description}
        return {
            **words, "tags": self.tags, "depends": self.depends, "section": self.section,
            "size": self.size, "length": len(self.name),
        }  # fmt: skip


@dataclass(frozen=True)
class Known:
    """A query, and the package that it was made from."""

    query_id: str
    text: str
    package: Package


def available() -> bool:
    """Whether this machine has package lists."""
    if shutil.which("apt-cache") is None:
        return False
    return len(_dumped()) > 1_000_000


def packages(most: int) -> list[Package]:
    """The packages of this machine's lists, a sample by the hash of their names."""
    found = {}
    for block in _dumped().split("\n\n"):
        fields = dict(re.findall(r"^([A-Za-z-]+): ?((?:.*)(?:\n .*)*)", block, re.MULTILINE))
        if len(fields.get("Description", "").split()) >= 2:
            found[fields["Package"]] = _package(fields)
    return sorted(found.values(), key=lambda package: _draw(package.name))[:most]


def known_items(catalogue: Sequence[Package], queries: int, seed: int = 0) -> list[Known]:
    """Descriptions with half of their words dropped, of packages with enough of them."""
    rng = np.random.default_rng(seed)
    asked = []
    for package in catalogue:
        words = re.findall(r"\w+", package.description)
        if len(words) >= 6:
            kept = np.sort(rng.permutation(len(words))[: len(words) // 2])
            text = " ".join(words[place] for place in kept)
            asked.append(Known(package.name, text, package))
    return asked[:queries]


def judged_query(one: Known, documents: list[str], grades: Any) -> JudgedQuery:
    """The query with its documents."""
    return JudgedQuery(one.query_id, {"keywords": one.text, "query": one.text}, documents, grades)


def random_negatives(
    known: Sequence[Known], catalogue: Sequence[Package], negatives: int = 10, seed: int = 0
) -> Judgments:
    """The known item beside documents drawn from the catalogue."""
    rng = np.random.default_rng(seed)
    judged = []
    for one in known:
        drawn = rng.choice(len(catalogue), negatives + 1, replace=False)
        others = [catalogue[n].name for n in drawn if catalogue[n].name != one.query_id]
        documents = [one.query_id, *others[:negatives]]
        grades = np.array([1.0] + [0.0] * (len(documents) - 1), np.float32)
        judged.append(judged_query(one, documents, grades))
    return Judgments(judged)


def graded(
    pooled: Sequence[JudgedQuery], known: Iterable[Known], by_name: Mapping[str, Package]
) -> Judgments:
    """Pooled documents by a rule that knows the truth: 3 for the item, 1 for its kin."""
    truth = {one.query_id: one for one in known}
    judged = []
    for query in pooled:
        one = truth[query.query_id]
        grades = [_grade(one, by_name[name]) for name in query.document_ids]
        judged.append(replace(query, grades=np.array(grades, np.float32)))
    return Judgments(judged)


def featureset() -> FeatureSet:
    """Text scores of each field, some stricter matches, and facts of a package."""
    said = ("keywords",)
    features = [Feature(name, said, {"match": {name: "{{keywords}}"}}) for name in TEXTS]
    for field in ("name", "tags"):
        every = {"match": {field: {"query": "{{keywords}}", "operator": "and"}}}
        features.append(Feature(f"{field}_all", said, every))
        found = {"constant_score": {"filter": {"match": {field: "{{keywords}}"}}}}
        features.append(Feature(f"{field}_any", said, found))
    best = {"multi_match": {"query": "{{keywords}}", "fields": list(TEXTS)}}
    features.append(Feature("best", said, best))
    for field in ("size", "length"):
        value = {"field": field, "modifier": "ln1p", "missing": 0}
        score = {"query": {"match_all": {}}, "field_value_factor": value, "boost_mode": "replace"}
        features.append(Feature(field, (), {"function_score": score}))
    return FeatureSet("packages", tuple(features))


def index_packages(cluster: Cluster, index: str, catalogue: Sequence[Package]) -> None:
    """All packages, in an index made anew."""
    text = {"type": "text", "analyzer": "english"}
    number = {"type": "float"}
    properties = dict.fromkeys(TEXTS, text) | {"section": {"type": "keyword"}}
    mappings = {"properties": {**properties, "size": number, "length": number}}
    settings = {"number_of_shards": 1, "number_of_replicas": 0}
    body = {"settings": settings, "mappings": mappings}
    drop_index(cluster.engine, index)
    create_index(cluster.engine, index, body)
    rows = ((package.name, package.document()) for package in catalogue)
    index_documents(cluster.engine, index, rows, lambda *_: None)


def log(cluster: Cluster, index: str, judgments: Judgments, folder: Path) -> RankingDataset:
    """The features of judged documents."""
    name = hashlib.sha256(
        repr([q.document_ids for q in judgments.queries[:5]]).encode()
    ).hexdigest()
    out = folder / f"{name[:12]}.parquet"
    log_features(
        cluster.engine, cluster.store, featureset(), judgments, index, out,
        options=LogOptions(), progress=lambda _: None,
    )  # fmt: skip
    return read_dataset(out)


def trained(data: RankingDataset) -> Model:
    """A linear model of the training queries; the warnings are the caller's to look for."""
    import warnings

    source = {"fingerprint": data.fingerprint, "split": SPLIT.as_dict()}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OwpcLtrWarning)
        return train(
            SPLIT.part(data, "train"), validation=SPLIT.part(data, "validation"),
            select=METRIC, source=source,
        )  # fmt: skip


def offline(model: Model, data: RankingDataset, column: str) -> tuple[float, float, float]:
    """The metric on held-out judged documents: of one feature, of the model, and p."""
    held_out = SPLIT.part(data, "test")
    one = held_out.features[:, data.feature_names.index(column)]
    alone = np.nan_to_num(one, nan=0.0).astype(np.float64)
    both = [
        measure(scores, held_out, [parse_metric(METRIC)])[0]
        for scores in (model.score(held_out.features), alone)
    ]
    found = compare(both[0], both[1])
    return found.mean_b, found.mean_a, found.p_permutation


def live(cluster: Cluster, index: str, model: Model, judgments: Judgments) -> LiveEvaluation:
    """What users get without and with the model."""
    return cluster.evaluate_live(model, LiveProof(judgments, QUERY), [METRIC], index=index)


def main() -> None:
    parser = argparse.ArgumentParser(description="Whether judgments of known items mislead.")
    parser.add_argument("--url", default=None)
    parser.add_argument("--packages", type=int, default=100_000)
    parser.add_argument("--queries", type=int, default=800)
    parser.add_argument("--index", default="owpc-ltr-benchmark-packages")
    given = parser.parse_args()
    if not available():
        raise SystemExit("this machine has no package lists: run it on Debian after apt-get update")
    cluster = connect(given.url)
    catalogue = packages(given.packages)
    index_packages(cluster, given.index, catalogue)
    cluster.store.prepare()
    cluster.store.put_featureset(featureset(), replace=True)
    known = known_items(catalogue, given.queries)
    try:
        with tempfile.TemporaryDirectory() as folder:
            _tell(cluster, given.index, catalogue, known, Path(folder))
    finally:
        _clean(cluster, given.index)


def _tell(
    cluster: Cluster, index: str, catalogue: Sequence[Package], known: Sequence[Known], folder: Path
) -> None:
    by_name = {package.name: package for package in catalogue}
    print(f"{len(catalogue):,} packages, {len(known)} queries; {METRIC} throughout")
    print("\nknown items beside random documents:")
    items = random_negatives(known, catalogue)
    data = log(cluster, index, items, folder)
    for finding in judgment_findings(data, text_scores(featureset())):
        print(f"  warning: {finding}")
    misled = trained(data)
    before, after, p = offline(misled, data, "best")
    print(f"  held-out judged documents: BM25 {before:.3f}, model {after:.3f} (p = {p:.2g})")
    _tell_live(live(cluster, index, misled, items))
    _tell_upload(partial(cluster.upload, misled, NAMES[0], index=index), items)
    print("\npooled documents, graded:")
    asked = [judged_query(one, [], np.zeros(0, np.float32)) for one in known]
    names = {"match": {"name": "{{keywords}}"}}
    pooled = cluster.pool(asked, [QUERY, names], index=index, depth=20)
    judged = graded(pooled.queries, known, by_name)
    data = log(cluster, index, judged, folder)
    for finding in judgment_findings(data, text_scores(featureset())):
        print(f"  warning: {finding}")
    good = trained(data)
    before, after, p = offline(good, data, "best")
    print(f"  held-out judged documents: BM25 {before:.3f}, model {after:.3f} (p = {p:.2g})")
    _tell_live(live(cluster, index, good, judged))
    _tell_upload(partial(cluster.upload, good, NAMES[1], index=index), judged)
    print("  and the model of known items by these judgments:")
    _tell_live(live(cluster, index, misled, judged))


def _clean(cluster: Cluster, index: str) -> None:
    """Take out everything that was put into the cluster."""
    uploaded = [alias for alias in cluster.models.aliases() if alias.name in NAMES]
    for alias in uploaded:
        cluster.engine.request(
            "DELETE", f"/{ALIASES}/_doc/{alias.name}", params={"refresh": "true"}
        )
        cluster.models.prune(sorted(alias.models))
    cluster.store.delete_featureset("packages")
    cluster.engine.request("DELETE", f"/{index}")


def _tell_live(found: LiveEvaluation) -> None:
    one, (before, after) = found.measured[0], found.judged
    plain, condensed = one.comparison, one.condensed
    print(
        f"  live, {found.n_queries} held-out queries: {plain.mean_b:.3f} → {plain.mean_a:.3f}, "
        f"[{plain.low:+.3f}, {plain.high:+.3f}]; unjudged left out {condensed.mean_b:.3f} → "
        f"{condensed.mean_a:.3f}; judged@10 {before:.0%} → {after:.0%}; recall of the window "
        f"{found.recall:.0%}"
    )
    for line in found.warnings:
        print(f"  warning: {line}")


def _tell_upload(upload: Any, judgments: Judgments) -> None:
    try:
        done = upload(require_gain=METRIC, over="query", live=LiveProof(judgments, QUERY))
        print(f"  uploaded: {done.model}")
    except Refused as refusal:
        print(f"  refused: {refusal}")


def _dumped() -> str:
    command = [shutil.which("apt-cache") or "/usr/bin/apt-cache", "dumpavail"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout  # noqa: S603


def _package(fields: Mapping[str, str]) -> Package:
    source = fields.get("Source", fields["Package"]).partition(" ")[0]
    tags = re.sub(r"[^a-z0-9]+", " ", fields.get("Tag", ""))
    depends = " ".join(re.findall(r"[a-z0-9.+-]{2,}", fields.get("Depends", ""))[:40])
    return Package(
        fields["Package"], source, fields["Description"].split("\n")[0], tags, depends,
        fields.get("Section", ""), float(fields.get("Installed-Size", "0") or 0),
    )  # fmt: skip


def _grade(one: Known, package: Package) -> float:
    if package.name == one.query_id:
        return 3.0
    return float(package.source == one.package.source)


def _draw(name: str) -> bytes:
    return hashlib.sha256(f"packages\0{name}".encode()).digest()


if __name__ == "__main__":
    main()
