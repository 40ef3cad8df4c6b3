"""What naive judgments teach, and whether comparisons see it: on the packages of a Debian machine.

    python benchmarks/known_items.py --url http://127.0.0.1:9200 [--packages 60000] [--queries 800]

A query is the short description of a package with half of its words dropped; no document holds
the description. The truth, which the product never reads, grades every package: 3 for the package
itself, 1 for those built from the same source. The schemes below make judgments as teams do that
have none; the last one pools what rankers bring and grades it. A linear model and trees learn
from each. A row prints the true live effect on held-out queries, how many warnings training gave
and an upload repeats, and the verdict of `compare-live` by these judgments against the query alone,
and against a model of the best text score. A verdict contradicts the truth if it says
better where the model is worse, or worse where it is better: such rows are marked, and the exit
code is 1.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import shutil
import subprocess
import tempfile
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np

from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.data.datasets import read_dataset
from owpc_ltr.data.judgments import JudgedQuery, Judgments
from owpc_ltr.data.splits import HashSplit
from owpc_ltr.engine.cluster import Cluster
from owpc_ltr.engine.connect import connect
from owpc_ltr.engine.feature_log.log import run_log
from owpc_ltr.engine.feature_log.snapshot import LogOptions
from owpc_ltr.engine.index import index_documents
from owpc_ltr.engine.live_results.comparison import LiveComparison
from owpc_ltr.engine.staging_index import create_index, drop_index
from owpc_ltr.errors import OwpcLtrWarning, Refused
from owpc_ltr.features.feature_set import Feature, FeatureSet
from owpc_ltr.models.linear import LinearModel
from owpc_ltr.protocols import Model
from owpc_ltr.training.train import train

METRIC = "ndcg@10"
TEXTS = ("name", "tags", "depends")
"""What is searched. The description is what is asked, and stands in no document."""
QUERY: dict[str, Any] = {"multi_match": {"query": "{{keywords}}", "fields": list(TEXTS)}}
NAME = "packages-benchmark"
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
    name = hashlib.sha256(repr([q.doc_ids for q in judgments.queries[:5]]).encode()).hexdigest()
    out = folder / f"{name[:12]}.parquet"
    run_log(
        cluster.engine, cluster.store, featureset(), judgments, index=index, out=out,
        options=LogOptions(), progress=lambda _: None,
    )  # fmt: skip
    return read_dataset(out)


def trained(data: RankingDataset, *, trees: bool = False) -> tuple[Model, list[str]]:
    """A model of the training queries, linear or trees, and what training warned of."""
    how: dict[str, Any] = {}
    if trees:
        how = {"optimizer": "boosting", "settings": {"trees": 60, "depth": 4}}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", OwpcLtrWarning)
        model = train(
            SPLIT.part(data, "train"), validation=SPLIT.part(data, "validation"),
            metric=METRIC, **how,
        )  # fmt: skip
    return model, [str(one.message) for one in caught if one.category is OwpcLtrWarning]


def live(cluster: Cluster, index: str, model: Model, judgments: Judgments) -> LiveComparison:
    """What users get without and with the model."""
    return cluster.compare_live(
        [model], judgments=judgments, query_template=QUERY, metrics=[METRIC], index=index
    )


@dataclass(frozen=True)
class PackageWorld:
    """The catalogue, the queries, and the first packages of each by two rankers."""

    catalogue: Sequence[Package]
    known: Sequence[Known]
    shown: Mapping[str, list[str]]
    by_name: Mapping[str, list[str]]

    @cached_property
    def packages(self) -> dict[str, Package]:
        """By name."""
        return {package.name: package for package in self.catalogue}

    @cached_property
    def of_source(self) -> dict[str, list[str]]:
        """The packages that are built from each source."""
        found: dict[str, list[str]] = {}
        for package in self.catalogue:
            found.setdefault(package.source, []).append(package.name)
        return found

    def truth(self) -> Judgments:
        """Every relevant package of every query."""
        return self.judged(lambda one, _rng: self.graded(one, self.of_source[one.package.source]))

    def graded(self, one: Known, names: Iterable[str]) -> dict[str, float]:
        """The true grades of some packages."""
        return {name: _grade(one, self.packages[name]) for name in names}

    def clicked(self, one: Known, rng: np.random.Generator) -> int | None:
        """The rank, from 0, at which a user clicks who looks less the further down."""
        for rank, name in enumerate(self.shown[one.query_id][:10]):
            if _grade(one, self.packages[name]) > 0 and rng.random() < 1 / (1 + rank / 3):
                return rank
        return None

    def random(self, rng: np.random.Generator, number: int) -> list[str]:
        """Packages drawn from the catalogue."""
        places = rng.choice(len(self.catalogue), number, replace=False)
        return [self.catalogue[place].name for place in places]

    def judged(self, scheme: Scheme, seed: int = 0) -> Judgments:
        """The judgments that a scheme makes; queries for which it has none are left out."""
        rng = np.random.default_rng(seed)
        queries = []
        for one in self.known:
            grades = scheme(one, rng)
            if grades:
                values = np.array(list(grades.values()), np.float32)
                queries.append(judged_query(one, list(grades), values))
        return Judgments(queries)


Scheme = Callable[[Known, np.random.Generator], dict[str, float] | None]
"""Grades by package for a query; None where the scheme has no judgments of it."""


def schemes(world: PackageWorld) -> dict[str, Scheme]:
    """Naive schemes by name, and the pool at the end."""

    def negatives(names: Iterable[str], positives: Mapping[str, float]) -> dict[str, float]:
        return {**dict.fromkeys(names, 0.0), **positives}

    def clicks(choose: Callable[[list[str], int], list[str]]) -> Scheme:
        def scheme(one: Known, rng: np.random.Generator) -> dict[str, float] | None:
            rank, shown = world.clicked(one, rng), world.shown[one.query_id]
            return None if rank is None else negatives(choose(shown, rank), {shown[rank]: 1.0})

        return scheme

    def pool(one: Known) -> dict[str, float]:
        first = (world.shown[one.query_id][:20], world.by_name[one.query_id][:20])
        return world.graded(one, dict.fromkeys((*first[0], *first[1])))

    def shuffled(one: Known, rng: np.random.Generator) -> dict[str, float]:
        grades = pool(one)
        return dict(zip(grades, rng.permutation(list(grades.values())).tolist(), strict=True))

    def inverted(one: Known, rng: np.random.Generator) -> dict[str, float]:
        grades = pool(one)
        return grades if rng.random() < 0.5 else {name: 3.0 - g for name, g in grades.items()}

    def names_match(one: Known, _rng: np.random.Generator) -> dict[str, float]:
        words = set(one.text.lower().split())
        shown = world.shown[one.query_id][:20]
        return {name: float(bool(words & set(re.split(r"[^a-z0-9]+", name)))) for name in shown}

    return {
        "item, random negatives": lambda one, rng: negatives(
            world.random(rng, 10), {one.query_id: 1.0}
        ),
        "item, negatives that match": lambda one, _: negatives(
            world.shown[one.query_id][:10], {one.query_id: 1.0}
        ),
        "click, unclicked negative": clicks(lambda shown, _: shown[:10]),
        "click, next page negative": clicks(lambda shown, _: shown[10:20]),
        "click, skipped negative": clicks(lambda shown, rank: shown[:rank]),
        "first of the list positive": lambda one, _: negatives(
            world.shown[one.query_id][:10], dict.fromkeys(world.shown[one.query_id][:1], 1.0)
        ),
        "list positive, random negatives": lambda one, rng: negatives(
            world.random(rng, 10), dict.fromkeys(world.shown[one.query_id][:10], 1.0)
        ),
        "word in the name positive": names_match,
        "one ranker's list, graded": lambda one, _: world.graded(
            one, world.shown[one.query_id][:10]
        ),
        "another ranker's list, graded": lambda one, _: world.graded(
            one, world.by_name[one.query_id][:10]
        ),
        "pool, grades shuffled": shuffled,
        "pool, half of them inverted": inverted,
        "pool, graded": lambda one, _: pool(one),
    }  # fmt: skip


def first_documents(cluster: Cluster, index: str, known: Sequence[Known], query: Any) -> Any:
    """The first 30 packages that a query brings, by query id."""
    found = {}
    for one in known:
        body = json.dumps(query).replace("{{keywords}}", one.text.replace('"', " "))
        answer = cluster.engine.request(
            "POST", f"/{index}/_search",
            body={"query": json.loads(body), "size": 30, "_source": False},
        )  # fmt: skip
        found[one.query_id] = [hit["_id"] for hit in answer["hits"]["hits"]]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description="What naive judgments teach, and who sees it.")
    parser.add_argument("--url", default=None)
    parser.add_argument("--packages", type=int, default=100_000)
    parser.add_argument("--queries", type=int, default=800)
    parser.add_argument("--index", default="owpc-ltr-benchmark-packages")
    parser.add_argument("--only", help="One scheme, by its name.")
    given = parser.parse_args()
    if not available():
        raise SystemExit("this machine has no package lists: run it on Debian after apt-get update")
    cluster = connect(given.url, store="benchmark-packages")
    catalogue = packages(given.packages)
    index_packages(cluster, given.index, catalogue)
    cluster.store.prepare()
    cluster.store.put_featureset(featureset(), replace=True)
    known = known_items(catalogue, given.queries)
    names = {"match": {"name": "{{keywords}}"}}
    shown, by_name = (first_documents(cluster, given.index, known, q) for q in (QUERY, names))
    world = PackageWorld(catalogue, known, shown, by_name)
    print(f"{len(catalogue):,} packages, {len(known)} queries; {METRIC} throughout")
    print(
        _LINE.format(
            "judgments", "model", "true live effect", "warned, again", "over the query", "over text"
        )
    )
    try:
        with tempfile.TemporaryDirectory() as folder:
            wrong = [
                row
                for name, scheme in schemes(world).items()
                if given.only in {None, name}
                for row in _rows(cluster, given.index, world, (name, scheme), Path(folder))
            ]
    finally:
        _clean(cluster, given.index)
    if any(wrong):
        raise SystemExit(f"{sum(wrong)} verdicts contradict the truth")


_LINE = "{:32} {:7} {:26} {:13} {:26} {}"


def _rows(
    cluster: Cluster, index: str, world: PackageWorld, named: tuple[str, Scheme], folder: Path
) -> Iterator[int]:
    """Print both models of a scheme; how many verdicts of each contradict the truth."""
    name, scheme = named
    judged = world.judged(scheme)
    data = log(cluster, index, judged, folder)
    for kind in ("linear", "trees"):
        try:
            model, warned = trained(data, trees=kind == "trees")
        except Refused as refusal:
            print(_LINE.format(name, kind, f"not trained: {str(refusal)[:60]}", "", "", ""))
            continue
        upload = partial(
            cluster.upload, name=NAME, index=index, max_drift=1e9, unproven="a benchmark"
        )
        compare = partial(
            cluster.compare_live, judgments=judged, metrics=METRIC, index=index,
            query_template=QUERY,
        )  # fmt: skip
        yield _row(
            upload, compare, model, data, truth=live(cluster, index, model, world.truth()),
            told=(name, kind, warned),
        )  # fmt: skip


def _row(
    upload: Callable[..., Any],
    compare: Callable[..., Any],
    model: Model,
    data: RankingDataset,
    truth: LiveComparison,
    told: tuple[str, str, list[str]],
) -> int:
    """Print a row; how many verdicts contradict the truth."""
    name, kind, warned = told
    found = truth.pairs[0].comparison
    # What an application runs today: the text score that the query ranks by.
    weights = np.array([float(feature == "best") for feature in data.feature_names])
    best = LinearModel(data.feature_names, weights)
    verdicts = {
        name: _compared(partial(compare, {"new": model, "old": old}))
        for name, old in (("query", "query"), ("text", best))
    }
    _stored, repeated = _quietly(partial(upload, model, data=data))
    effect = found.mean_difference
    contradicts = sum(
        (effect <= 0 and verdict == "better") or (effect >= 0 and verdict == "worse")
        for verdict, _why in verdicts.values()
    )
    again = sum(any(one in line for line in repeated) for one in warned)
    figures = f"{effect:+.3f} [{found.low:+.3f}, {found.high:+.3f}]"
    outcomes = [verdict for verdict, _why in verdicts.values()]
    line = _LINE.format(name, kind, figures, f"{len(warned)}, {again}", *outcomes)
    print(line, "CONTRADICTS THE TRUTH" if contradicts else "", flush=True)
    for over, (verdict, why) in verdicts.items():
        if verdict != "better":
            print(f"    over {over}: {why[:160]}")
    return contradicts


def _compared(compare: Callable[[], Any]) -> tuple[str, str]:
    """The verdict of a live comparison, and what it said."""
    try:
        (found, _warned) = _quietly(compare)
    except Refused as refusal:
        return "refused", str(refusal)
    verdict = found.verdict("new", "old")
    return str(verdict.outcome), str(verdict)


def _quietly(upload: Callable[[], Any]) -> tuple[Any, list[str]]:
    """What a command returns, and what it warns of."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", OwpcLtrWarning)
        done = upload()
    return done, [str(one.message) for one in caught]


def _clean(cluster: Cluster, index: str) -> None:
    """Take out everything that was put into the cluster."""
    drop_index(cluster.engine, "owpc-ltr-store-benchmark-packages")
    drop_index(cluster.engine, index)


def _dumped() -> str:
    command = [shutil.which("apt-cache") or "/usr/bin/apt-cache", "dumpavail"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout  # noqa: S603


def _package(fields: Mapping[str, str]) -> Package:
    source = fields.get("Source", fields["Package"]).partition(" ")[0]
    tags = re.sub(r"[^a-z0-9]+", " ", fields.get("Tag", ""))
    depends = " ".join(re.findall(r"[a-z0-9.+-]{2,}", fields.get("Depends", ""))[:40])
    return Package(
        fields["Package"], source, fields["Description"].split("\n")[0], tags, depends=depends,
        section=fields.get("Section", ""), size=float(fields.get("Installed-Size", "0") or 0),
    )  # fmt: skip


def _grade(one: Known, package: Package) -> float:
    if package.name == one.query_id:
        return 3.0
    return float(package.source == one.package.source)


def _draw(name: str) -> bytes:
    return hashlib.sha256(f"packages\0{name}".encode()).digest()


if __name__ == "__main__":
    main()
