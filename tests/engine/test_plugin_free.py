"""Without the plugin, on a real node: every feature and every kind of model, score by score."""

from __future__ import annotations

import json
import uuid
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from owpc_ltr.data.parquet import load_dataset
from owpc_ltr.engine.client.engine import Engine
from owpc_ltr.engine.client.settings import ConnectionSettings
from owpc_ltr.engine.stores import Search, plugin_free
from owpc_ltr.engine.stores.feature_queries import (
    check_clauses,
    compile_featureset,
    count_clauses,
    linear_rescorers,
    named,
)
from owpc_ltr.engine.stores.ltr_plugin import LtrPluginStore
from owpc_ltr.engine.stores.plugin_free import PluginFreeStore
from owpc_ltr.errors import BadInput, Refused, UsageError
from owpc_ltr.features.feature_set import Feature, FeatureSet
from owpc_ltr.features.mustache import scoring
from owpc_ltr.formats.ltr_plugin import export_linear
from owpc_ltr.formats.stored_model import StoredModel
from owpc_ltr.models.linear import LinearModel, Normaliser
from owpc_ltr.models.model_file import load_scoring_model
from tests.commands import Run, commands_in
from tests.engine.documents import KW, PARAMS, QUERIES, Docs, featureset_of, fill, hits_of, logged
from tests.engine.small_cluster import WORDS, Small, shared_cluster


@pytest.fixture(scope="module", params=[1, 3], ids=["one shard", "three shards"])
def docs(engine: Engine, request: pytest.FixtureRequest) -> Iterator[Docs]:
    index = f"stores-{uuid.uuid4().hex[:8]}"
    yield fill(engine, index, request.param)
    engine.request("DELETE", f"/{index}")


# --- features


def test_each_value_is_the_querys_own_score_bit_for_bit(docs: Docs, free: PluginFreeStore) -> None:
    featureset = featureset_of(QUERIES)
    values = logged(docs, free, featureset)
    text = str(PARAMS["keywords"])
    for column, (name, query) in enumerate(QUERIES.items()):
        rendered = _filled(query, {"{{keywords}}": text, "{{tag}}": PARAMS["tag"]})
        body = {"query": rendered, "size": 200, "_source": False, "track_total_hits": True}
        scores = {hit["_id"]: hit["_score"] for hit in hits_of(docs, Search(body))}
        expected = np.array([scores.get(d, np.nan) for d in docs.ids], dtype=np.float32)
        np.testing.assert_array_equal(values[:, column], expected, err_msg=name)
    matched = dict(zip(QUERIES, np.isfinite(values).sum(axis=0), strict=True))
    assert matched.pop("nothing") == 0
    assert min(matched.values()) > 0


def _filled(tree: Any, values: dict[str, str]) -> Any:
    """Plain replacement, an independent way to put parameters in."""
    if isinstance(tree, dict):
        return {key: _filled(value, values) for key, value in tree.items()}
    if isinstance(tree, list):
        return [_filled(part, values) for part in tree]
    for tag, value in values.items():
        tree = tree.replace(tag, value) if isinstance(tree, str) else tree
    return tree


def test_documents_that_are_not_there_are_not_found(docs: Docs, free: PluginFreeStore) -> None:
    search = free.log_search(featureset_of(QUERIES), PARAMS, ["3", "nosuch"])
    assert [hit["_id"] for hit in hits_of(docs, search)] == ["3"]


def test_a_document_that_matches_nothing_has_no_value_at_all(
    docs: Docs, free: PluginFreeStore
) -> None:
    featureset = featureset_of({"nothing": QUERIES["nothing"], "zero": QUERIES["zero"]})
    values = logged(docs, free, featureset)
    assert np.isnan(values[:, 0]).all()
    assert set(values[~np.isnan(values[:, 1]), 1]) == {0.0}


def test_derived_features_are_computed_from_the_others(docs: Docs, free: PluginFreeStore) -> None:
    derived = Feature("derived", (), "match * 2 + ln(1 + popularity)", "derived_expression")
    plain = featureset_of({name: QUERIES[name] for name in ("match", "popularity")})
    values = logged(docs, free, FeatureSet("fs", (*plain.features, derived)))
    first = np.nan_to_num(values[:, :2]).astype(np.float64)
    np.testing.assert_array_equal(
        values[:, 2], (first[:, 0] * 2 + np.log(1 + first[:, 1])).astype(np.float32)
    )


@pytest.mark.parametrize(
    "hit",
    [
        {"_id": "1", "matched_queries": ["match"]},
        {"_id": "1", "matched_queries": {"match": 1.0, "foreign": 2.0}},
    ],
)
def test_an_answer_with_other_names_or_without_scores_is_refused(hit: dict[str, Any]) -> None:
    store = PluginFreeStore(Engine(ConnectionSettings("http://127.0.0.1:1")))
    with pytest.raises(Refused):
        store.features_of(featureset_of({"match": QUERIES["match"]}), hit)


def test_too_many_leaves_are_refused_before_the_engine_does() -> None:
    wide = {"multi_match": {"query": "a", "fields": [f"f{i}" for i in range(100)]}}
    ten, eleven = (count_clauses([named(wide, str(i)) for i in range(n)]) for n in (10, 11))
    check_clauses(ten, 1024, "fs")
    check_clauses(eleven, None, "fs")
    with pytest.raises(Refused, match="1100 clauses"):
        check_clauses(eleven, 1024, "fs")


# --- linear models


def linear(rng: np.random.Generator, names: list[str], *, normalised: bool) -> LinearModel:
    weights = rng.normal(size=len(names))
    weights[::5] = 0.0
    normalisers = {
        name: Normaliser("standard" if i % 2 else "min_max", float(i % 4), 1.5 + i)
        for i, name in enumerate(names)
        if i % 3 == 0
    }
    return LinearModel(tuple(names), weights, normalisers if normalised else {})


def rescored(docs: Docs, clauses: list[dict[str, Any]], size: int = 200) -> list[dict[str, Any]]:
    body = {"query": {"match_all": {}}, "size": size, "_source": False, "rescore": clauses}
    return hits_of(docs, Search(body))


@pytest.mark.parametrize("normalised", [False, True])
def test_the_rescorers_are_float32_sums_and_our_models_score(
    normalised: bool, docs: Docs, free: PluginFreeStore, rng: np.random.Generator
) -> None:
    featureset = featureset_of(QUERIES)
    features = logged(docs, free, featureset)
    model = linear(rng, list(QUERIES), normalised=normalised)
    clauses = free.rescore(export_linear(model, featureset, "m"), PARAMS, 200)
    scores = {hit["_id"]: np.float32(hit["_score"]) for hit in rescored(docs, clauses)}
    engines = np.array([scores[document] for document in docs.ids])

    weights, intercept = model.folded()
    total = np.full(200, intercept)
    for column, weight in enumerate(weights):
        total += np.float32(weight) * np.nan_to_num(features[:, column]).astype(np.float64)
    size = np.abs(weights * np.nan_to_num(features)).sum(axis=1) + abs(intercept)
    # A term, the sum of a rescorer, and the sum of rescorers are each rounded once.
    assert len(clauses) <= 4
    assert (np.abs(engines - total) <= 6 * 2.0**-24 * size).all()
    ours = model.score(features)
    assert np.max(np.abs(engines - ours) / np.maximum(1, np.abs(ours))) < 1e-5


def test_a_text_of_many_words_is_asked_in_as_many_sums_as_the_engine_takes(
    docs: Docs, free: PluginFreeStore
) -> None:
    matches = {
        f"{field}_{boost}": {"match": {field: {"query": KW, "boost": boost}}}
        for field in ("title", "body")
        for boost in range(1, 13)
    }
    featureset = featureset_of(matches)
    stored = export_linear(LinearModel(tuple(matches), np.ones(24)), featureset, "m")
    few, many = WORDS[:3], [*WORDS[:3], *(f"unknown{n}" for n in range(397))]
    a, b = (
        {
            hit["_id"]: hit["_score"]
            for hit in rescored(docs, free.rescore(stored, {"keywords": " ".join(words)}, 200))
        }
        for words in (few, many)
    )
    assert b == pytest.approx(a, rel=1e-6)
    assert len(set(a.values())) > 10


def test_hits_come_in_the_models_order_also_below_zero_and_over_shards(
    docs: Docs, free: PluginFreeStore, rng: np.random.Generator
) -> None:
    """A window of the size that is shown leaves no document with a score of the search itself."""
    featureset = featureset_of(QUERIES)
    weights = linear(rng, list(QUERIES), normalised=False).weights
    model = LinearModel(tuple(QUERIES), -np.abs(weights))
    stored = export_linear(model, featureset, "m")
    hits = rescored(docs, free.rescore(stored, PARAMS, 20), size=20)
    scores = [hit["_score"] for hit in hits]
    assert scores == sorted(scores, reverse=True)
    assert max(scores) < 0
    # The liar: a window smaller than the size puts documents with 0 on top.
    outside = rescored(docs, free.rescore(stored, PARAMS, 5), size=50)
    assert outside[0]["_score"] == 0.0


def test_a_model_of_zeros_scores_zero(docs: Docs, free: PluginFreeStore) -> None:
    featureset = featureset_of({"match": QUERIES["match"]})
    model = export_linear(LinearModel(("match",), np.zeros(1)), featureset, "m")
    hits = rescored(docs, free.rescore(model, PARAMS, 200))
    assert {hit["_score"] for hit in hits} == {0.0}


def test_what_only_the_plugin_runs_is_refused_by_name(free: PluginFreeStore) -> None:
    featureset = featureset_of({"match": QUERIES["match"]})
    trees = StoredModel("trees", "model/xgboost+json", [], featureset)
    with pytest.raises(Refused, match="model/xgboost"):
        free.rescore(trees, PARAMS, 10)
    with pytest.raises(Refused, match="model/xgboost"):
        free.put_model(trees)
    derived = Feature("d", (), "match * 2", "derived_expression")
    both = FeatureSet("fs", (*featureset.features, derived))
    model = export_linear(LinearModel(("match", "d"), np.array([1.0, 2.0])), both, "m")
    with pytest.raises(Refused, match="'d'"):
        free.rescore(model, PARAMS, 10)
    unweighted = export_linear(LinearModel(("match", "d"), np.array([1.0, 0.0])), both, "m")
    assert len(free.rescore(unweighted, PARAMS, 10)) == 1


@pytest.mark.parametrize("window", [0, -1, 10_001])
def test_a_window_that_no_engine_takes_is_refused(window: int, free: PluginFreeStore) -> None:
    featureset = featureset_of({"match": QUERIES["match"]})
    model = export_linear(LinearModel(("match",), np.ones(1)), featureset, "m")
    for store in (free, LtrPluginStore(Engine(ConnectionSettings("http://127.0.0.1:1")))):
        with pytest.raises(UsageError, match=str(window)):
            store.rescore(model, PARAMS, window)


@pytest.mark.parametrize("params", [{}, {"keywords": "a"}, {"tag": "x"}])
def test_a_missing_parameter_is_named_before_anything_is_sent(
    params: dict[str, Any], free: PluginFreeStore
) -> None:
    featureset = featureset_of(QUERIES)
    model = export_linear(LinearModel(tuple(QUERIES), np.ones(len(QUERIES))), featureset, "m")
    for store in (free, LtrPluginStore(Engine(ConnectionSettings("http://127.0.0.1:1")))):
        with pytest.raises(BadInput):
            store.log_search(featureset, params, ["1"])
        with pytest.raises(BadInput):
            store.rescore(model, params, 10)


# --- trying templates


@pytest.mark.modules
def test_a_template_that_fails_is_named_and_nothing_is_stored(
    docs: Docs, free: PluginFreeStore
) -> None:
    good = featureset_of({"match": QUERIES["match"]}, index=docs.index)
    free.put_featureset(good)
    broken: list[tuple[Any, str]] = [
        ({"no_such_query": {"title": KW}}, "no_such_query"),
        ({"match": {"title": {"query": KW, "fuzzines": 1}}}, "fuzzines"),
        (
            {"script_score": {"query": {"match_all": {}}, "script": {"source": "_score - 5"}}},
            "negative",
        ),
        ({"script_score": {"query": {"match_all": {}}, "script": {"source": "x("}}}, "fix"),
    ]
    for template, words in broken:
        bad = featureset_of({"match": QUERIES["match"], "bad": template}, "other", docs.index)
        with pytest.raises(Refused) as error:
            free.put_featureset(bad)
        assert "'bad'" in str(error.value)
        assert words in str(error.value)
    with pytest.raises(Refused, match="nosuchindex"):
        free.put_featureset(featureset_of({"m": QUERIES["match"]}, "other", "nosuchindex"))
    assert free.list_featuresets() == ["fs"]


FEW = ("--optimizer", "boosting", "--set", "optimizer.trees=12", "--set", "optimizer.depth=3")
CHEAP = ("--max-features", "2", "--feature-cost", "costs.json")
KINDS = {
    "linear": (),
    "as-it-is": ("--normalise", "none"),
    "gradient": ("--loss", "listnet", "--optimizer", "gradient"),
    "adarank": ("--optimizer", "adarank"),
    "coordinate": ("--optimizer", "coordinate-ascent"),
    "rankboost": ("--optimizer", "rankboost"),
    "piecewise": ("--piecewise-linear",),
    "network": ("--loss", "listnet", "--optimizer", "gradient", "--set", "optimizer.model=network"),
    "pairs": ("--optimizer", "boosting", "--set", "optimizer.interactions=2"),
    "deep": FEW,
    "no-missing": (*FEW, "--missing", "zero"),
    "cheap": CHEAP,
    "cheap-trees": (*FEW, *CHEAP),
    "cheap-curves": ("--piecewise-linear", *CHEAP),
}
CLIENT = {"network", "mixed"}
"""Those that no engine without the plugin can run; what trees do depends on their size."""


small = shared_cluster(documents=120)


@pytest.fixture(scope="module")
def folder(small: Small, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dataset that was logged on the node, and what features cost: `body` costs most."""
    folder_of_models = tmp_path_factory.mktemp("trained")
    rng = np.random.default_rng(3)
    lines = ["query_id,keywords,document_id,grade"]
    sources = small.sources()
    for number in range(40):
        keywords = " ".join(rng.choice(WORDS, 2, replace=False))
        for document in rng.choice(120, 15, replace=False):
            text, size = sources[f"d{document}"]["title"], sources[f"d{document}"]["size"]
            worth = sum(word in text for word in keywords.split()) + 0.2 * size + rng.normal(0, 0.3)
            lines.append(f"q{number},{keywords},d{document},{int(np.clip(worth, 0, 3))}")
    (folder_of_models / "judgments.csv").write_text("\n".join(lines) + "\n")
    (folder_of_models / "costs.json").write_text(
        json.dumps({"title": 0.1, "body": 9.0, "size": 0.1})
    )
    small.cluster.log_features(
        judgments=folder_of_models / "judgments.csv",
        out=folder_of_models / "data.parquet",
        featureset="small",
        index=small.index,
    )
    return folder_of_models


@pytest.fixture
def run(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    return commands_in(folder, monkeypatch, capsys)


def served(run: Run, small: Small, name: str, *ranking: str) -> dict[str, object]:
    """A search for judged documents: its scores are those of the local model, and its order."""
    data = load_dataset(Path("data.parquet"))
    assert data.query_params is not None
    assert data.doc_ids is not None
    keywords = json.loads(data.query_params[0].as_py())["keywords"]
    values = [doc_id.as_py() for doc_id in data.doc_ids[: int(data.offsets[1])]]
    query = {
        "bool": {
            "must": {"match_all": {}},
            "should": {"match": {"title": "{{keywords}}"}},
            "filter": {"ids": {"values": values}},
        }
    }
    Path("query.json").write_text(json.dumps(query))
    out = run.output("search", keywords, "--index", small.index, "--query-template", "query.json",
               "--size", "15", "--json", *ranking, *small.place)  # fmt: skip
    result: dict[str, object] = json.loads(out)
    hits = result["after"]
    assert isinstance(hits, list)
    rows = {doc_id.as_py(): n for n, doc_id in enumerate(data.doc_ids[: int(data.offsets[1])])}
    model = load_scoring_model(Path(f"{name}.json"))
    local = model.score(data.features[: int(data.offsets[1])])
    remote = np.array([hit["score"] for hit in hits])
    wanted = local[[rows[hit["document_id"]] for hit in hits]]
    assert len(hits) == len(rows) == 15
    assert np.all(np.abs(remote - wanted) <= 1e-5 * np.maximum(1, np.abs(wanted)))
    assert np.all(np.diff(wanted) <= 1e-5)
    assert len(np.unique(np.round(local, 6))) > 3
    return result


def uploaded(run: Run, small: Small, name: str) -> dict[str, object]:
    upload = json.loads(run.output(
        "upload", f"{name}.json", "--name", f"{small.name}-{name}", "--index", small.index,
        "--json", *small.place,
    ))  # fmt: skip
    assert upload["parity"]["largest_difference"] <= 1e-5
    model: dict[str, object] = served(run, small, name, "--model", f"{small.name}-{name}")
    return model


def _marks(kind: str) -> list[pytest.MarkDecorator]:
    """That expensive features are left out is one idea for all kinds; some models are scripts."""
    scripted = kind in {"rankboost", "piecewise", "pairs", "cheap-curves"}
    return [pytest.mark.thorough] * ("cheap-" in kind) + [pytest.mark.modules] * scripted


@pytest.mark.parametrize("kind", [pytest.param(kind, marks=_marks(kind)) for kind in KINDS])
def test_a_trained_model_scores_in_the_cluster_as_it_does_here(
    kind: str, run: Run, small: Small
) -> None:
    run.output("train", "data.parquet", "--out", f"{kind}.json", *KINDS[kind])
    upload = uploaded(run, small, kind)
    if kind not in {"deep", "no-missing", "cheap-trees"}:
        assert upload["scored_by"] == ("client" if kind in CLIENT else "engine")
    if kind.startswith("cheap"):
        selected = load_scoring_model(Path(f"{kind}.json")).record["feature_selection"]
        assert "body" not in selected["kept"]


@pytest.mark.parametrize("kind", ["average", "mixed"])
def test_an_average_scores_in_the_cluster_as_it_does_here(
    kind: str, run: Run, small: Small
) -> None:
    other = ("--piecewise-linear",) if kind == "mixed" else ("--optimizer", "gradient")
    run.output("train", "data.parquet", "--out", "one.json")
    run.output("train", "data.parquet", "--out", "other.json", *other)
    run.output("average", "one.json", "other.json", "--out", f"{kind}.json")
    upload = uploaded(run, small, kind)
    assert upload["scored_by"] == ("client" if kind in CLIENT else "engine")


def test_a_reranker_reorders_a_search_and_is_not_uploaded(run: Run, small: Small) -> None:
    run.output("train", "data.parquet", "--out", "base.json")
    learn = ("--reranker", "exchangeable", "--base", "base.json", "--out", "reranker.json")
    run.output("train-reranker", "data.parquet", *learn)
    code, _, err = run("upload", "reranker.json", "--index", small.index, *small.place)
    assert code in {3, 5}
    assert "--reranker" in err
    result = json.loads(run.output("search", "alpha beta", "--index", small.index, "--reranker",
                            "reranker.json", "--json", *small.place))  # fmt: skip
    assert result["reordered"]


ASKED: list[dict[str, Any]] = [
    {"match": {"title": "a b"}},
    {"match": {"body": "a b"}},
    {"constant_score": {"filter": {"term": {"tag": "a"}}}},
]
WEIGHTS = st.sampled_from([-2.0, -0.5, 0.0, 0.5, 1.25, 2.0])


def rescorers_of(pairs: list[tuple[int, float]]) -> list[dict[str, Any]]:
    """The rescorers of a model whose features ask the queries of these numbers."""
    names = tuple(f"f{place}" for place in range(len(pairs)))
    model = LinearModel(names, np.array([weight for _, weight in pairs]))
    queries = {name: ASKED[asked] for name, (asked, _) in zip(names, pairs, strict=True)}
    return [clause["query"] for clause in linear_rescorers(model, queries, 10)]


@given(st.lists(st.tuples(st.sampled_from(range(3)), WEIGHTS), min_size=1, max_size=8))
def test_every_query_is_asked_once_with_all_its_weight(pairs: list[tuple[int, float]]) -> None:
    clauses = rescorers_of(pairs)
    wanted: dict[str, float] = defaultdict(float)
    for asked, weight in pairs:
        wanted[json.dumps(scoring(ASKED[asked]))] += weight
    assert [c["query_weight"] for c in clauses] == [0.0, *[1.0] * (len(clauses) - 1)]
    left = {query: weight for query, weight in wanted.items() if weight}
    if not left:
        (clause,) = clauses
        assert clause["rescore_query"] == {"match_all": {}}
        assert clause["rescore_query_weight"] == 0.0
        return
    terms = terms_of(clauses)
    assert len(dict(terms)) == len(terms)
    assert dict(terms) == left
    assert len(clauses) == len({weight > 0 for weight in left.values()})


@given(st.lists(st.integers(1, 40), min_size=1, max_size=12))
def test_few_clauses_are_asked_together_and_a_query_that_has_many_alone(sizes: list[int]) -> None:
    names = tuple(f"f{place}" for place in range(len(sizes)))
    fields = [[f"{name}-{n}" for n in range(size)] for name, size in zip(names, sizes, strict=True)]
    queries = {
        name: {"multi_match": {"query": "a", "fields": own}}
        for name, own in zip(names, fields, strict=True)
    }
    clauses = linear_rescorers(LinearModel(names, np.ones(len(names))), queries, 10)
    groups = [clause["query"]["rescore_query"]["bool"]["should"] for clause in clauses]
    asked = [part["function_score"]["query"] for group in groups for part in group]
    assert asked == list(queries.values())
    counted = [count_clauses([part["function_score"]["query"] for part in g]) for g in groups]
    assert all(len(group) == 1 or count <= 32 for group, count in zip(groups, counted, strict=True))
    # No two that follow each other would have had room together.
    firsts = [count_clauses([group[0]["function_score"]["query"]]) for group in groups[1:]]
    assert all(count + first > 32 for count, first in zip(counted, firsts, strict=False))


def terms_of(clauses: list[dict[str, Any]]) -> list[tuple[str, float]]:
    """Each query of the rescorers with its weight, signed."""
    return [
        (json.dumps(part["query"]), clause["rescore_query_weight"] * part["weight"])
        for clause in clauses
        for part in (
            clause_of_term["function_score"]
            for clause_of_term in clause["rescore_query"]["bool"]["should"]
        )
    ]


def test_a_model_asks_for_its_own_features_whichever_was_asked_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What is kept ready of one model serves no other of the same set, and is made ready once."""
    made = []

    def counted(*given: Any) -> Any:
        made.append(given)
        return compile_featureset(*given)

    monkeypatch.setattr(plugin_free, "compile_featureset", counted)
    features = tuple(
        Feature(name, ("keywords",), {"match": {name: "{{keywords}}"}}) for name in ("a", "b")
    )
    featureset = FeatureSet("two", features)
    store = PluginFreeStore(Engine(ConnectionSettings("http://127.0.0.1:1")))
    for _ in range(2):
        for weights, asked in (([1.0, 0.0], {"a"}), ([0.0, 2.0], {"b"}), ([1.0, 2.0], {"a", "b"})):
            model = LinearModel(featureset.feature_names, np.array(weights))
            stored = export_linear(model, featureset, "m")
            for words in ("one", "another"):
                clauses = store.rescore(stored, {"keywords": words}, 10)
                request = json.dumps(clauses)
                assert {name for name in "ab" if f'"{name}": "{words}"' in request} == asked
    assert len(made) == 3
