"""Models are not measured in silence on the queries that they were trained on."""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray

from owpc_ltr.data.dataset import RankingDataset, make_dataset
from owpc_ltr.data.parquet import save_dataset
from owpc_ltr.data.sources import known_sides, query_digests, source_of
from owpc_ltr.data.splits import HashSplit
from owpc_ltr.engine.deployment.gate import held_out
from owpc_ltr.errors import BadInput, Refused
from owpc_ltr.evaluation.evaluate import EvaluationQueries, model_data
from owpc_ltr.host.registry import load
from owpc_ltr.models.linear import LinearModel
from owpc_ltr.protocols import Run
from owpc_ltr.training.feature_selection import train_at_cost
from owpc_ltr.training.feature_worth import Costs
from owpc_ltr.training.rerankers import RerankingPlan, fit_reranker
from owpc_ltr.training.train import Plan, train
from tests.commands import commands_in

REGISTRY = load()
PLAN = Plan(
    REGISTRY.find("loss", "owpc"), REGISTRY.find("optimizer", "larank"), {"optimizer.C": 1.0}
)
RERANKING = RerankingPlan(
    REGISTRY.find("loss", "pairwise"),
    REGISTRY.find("reranker", "exchangeable"),
    {"reranker.penalty": 1.0},
)


def dataset(queries: int = 40, seed: int = 0, documents: int = 5) -> RankingDataset:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(queries * documents, 3)).astype(np.float32)
    ids = np.repeat([f"query {number}" for number in range(queries)], documents)
    return make_dataset(X, (X[:, 0] > 0.5) * 1.0, ids, feature_names=("a", "b", "c"))


DATA = dataset()
PARTS = DATA.split()
FIRST, SECOND, REST = (DATA.select(np.arange(*cut)) for cut in ((0, 20), (20, 30), (30, 40)))


def trained(
    training: RankingDataset,
    validation: RankingDataset | None = None,
    source: dict[str, Any] | None = None,
) -> LinearModel:
    model = train(training, PLAN, Run(), validation, source).model
    assert isinstance(model, LinearModel)
    return model


def reranked(training: RankingDataset, validation: RankingDataset | None = None) -> Any:
    base = LinearModel(DATA.feature_names, np.array([1.0, 0, 0]))
    return fit_reranker(training, base, RERANKING, Run(), validation).model


def ids(data: RankingDataset) -> list[str]:
    return [str(query) for query in data.query_ids.to_pylist()]


def test_a_side_of_a_split_is_recorded_as_the_command_line_does() -> None:
    model = trained(PARTS.training, PARTS.validation)
    assert list(model.record["source"].items()) == list(PARTS.source.items())
    chosen = model_data(model, DATA)
    assert (chosen.side, ids(chosen.data), chosen.warnings) == ("test", ids(PARTS.test), ())


@pytest.mark.parametrize("learn", [trained, reranked])
def test_a_model_of_a_split_knows_each_side_of_it(learn: Callable[..., Any]) -> None:
    model = learn(PARTS.training, PARTS.validation)
    held_out = model_data(model, PARTS.test)
    assert (held_out.data, held_out.side, held_out.warnings) == (PARTS.test, "test", ())
    for part, what in ((PARTS.training, "was trained on"), (PARTS.validation, "was chosen on")):
        chosen = model_data(model, part)
        assert (chosen.data, chosen.side) == (part, "all")
        assert chosen.warnings == (
            f"these are the queries that it {what}: the figures flatter it; measure on others, or "
            "keep some out (data.split())",
        )


@pytest.mark.parametrize("learn", [trained, reranked])
def test_a_script_without_a_source_is_not_measured_on_its_training_queries(
    learn: Callable[..., Any],
) -> None:
    model = learn(FIRST, SECOND)
    chosen = model_data(model, DATA)
    assert ids(chosen.data) == ids(REST)
    assert chosen.side == "test"
    assert chosen.warnings == (
        "30 of 40 queries were left out: the model learned from them, or was chosen on them",
    )
    assert ids(model_data(model, DATA, "train").data) == ids(FIRST)
    assert ids(model_data(model, DATA, "validation").data) == ids(SECOND)
    assert model_data(model, DATA, "all").data is DATA


def test_a_model_trained_on_everything_is_said_to_be() -> None:
    model = trained(DATA)
    chosen = model_data(model, DATA)
    assert (chosen.data, chosen.side) == (DATA, "all")
    assert "these are the queries that it was trained on" in chosen.warnings[0]
    assert "it was trained on" in model_data(model, FIRST).warnings[0]
    with pytest.raises(BadInput, match="none of the 40 queries is a test query of the model"):
        model_data(model, DATA, "test")


def test_other_queries_are_measured_without_a_word() -> None:
    other = dataset(seed=1)
    for model in (trained(FIRST, SECOND), trained(PARTS.training), trained(FIRST, source={})):
        assert model_data(model, other) == (other, "all")
        assert not model_data(model, other).warnings
        with pytest.raises(Refused, match="does not know the test queries"):
            model_data(model, other, "test")


@pytest.mark.parametrize("key", ["fingerprint", "validation_fingerprint"])
def test_a_source_that_is_given_is_kept_and_believed(key: str) -> None:
    source = {"fingerprint": "another", key: DATA.fingerprint}
    model = trained(FIRST, source=source)
    assert model.record["source"] == source
    (said,) = model_data(model, DATA).warnings
    assert "it was trained on" in said or "it was chosen on" in said
    assert "it was trained on" in model_data(model, FIRST).warnings[0]


def test_sides_that_do_not_fit_each_other_are_recorded_as_queries() -> None:
    other = DATA.split(salt="other")
    nested = PARTS.training.split(salt="again")
    for training, validation in (
        (PARTS.test, None),
        (PARTS.training, other.validation),
        (PARTS.training, PARTS.test),
        (PARTS.training, FIRST),
        (nested.training, nested.validation),
    ):
        source = source_of(training, validation)
        assert list(source) == ["queries"]
        seen = set(ids(training)) | (set() if validation is None else set(ids(validation)))
        sides = known_sides({"source": source}, DATA)
        assert sides is not None
        assert {
            query for query, side in zip(ids(DATA), sides, strict=True) if side != "test"
        } == seen
    assert source_of(PARTS.training, None) == PARTS.source


def test_features_taken_out_leave_the_queries_as_they_were_given() -> None:
    costs = Costs({"c": 100.0}, price=1.0)
    selected = train_at_cost(FIRST, PLAN, Run(), SECOND, costs)
    assert "c" not in selected.kept
    assert ids(model_data(selected.trained.model, DATA).data) == ids(REST)


@settings(max_examples=30)
@given(seed=st.integers(0, 99))
def test_queries_are_known_again_in_any_order_of_queries_and_rows(seed: int) -> None:
    rng = np.random.default_rng(seed)
    source = {"source": source_of(FIRST, SECOND)}
    queries = rng.permutation(DATA.n_queries)
    there = DATA.select(queries)
    X = there.features.reshape(-1, 5, 3)
    mixed = replace(there, features=rng.permuted(X, axis=1).reshape(-1, 3))
    rows = np.concatenate([rng.permutation(5) + 5 * query for query in range(40)])
    shuffled = replace(there, features=np.ascontiguousarray(there.features[rows]))
    expected = np.where(queries < 20, "train", np.where(queries < 30, "validation", "test"))
    found = known_sides(source, shuffled)
    assert found is not None
    assert np.array_equal(found, expected)
    # Values that moved from one document to another make other documents.
    assert known_sides(source, mixed) is None


def test_a_query_is_its_id_and_its_documents() -> None:
    base = query_digests(DATA)
    assert len(set(base.tolist())) == DATA.n_queries
    features = DATA.features.copy()
    features[0, 0] = np.nextafter(features[0, 0], np.float32(9))
    changed = query_digests(replace(DATA, features=features)) != base
    assert changed.tolist() == [True] + [False] * 39
    renamed = replace(
        DATA, query_ids=type(DATA.query_ids).from_pandas([f"x{q}" for q in ids(DATA)])
    )
    assert (query_digests(renamed) != base).all()


def test_zeros_and_missing_values_have_one_form() -> None:
    forms = [np.float32(np.nan), -np.float32(np.nan)], [np.float32(0), np.float32(-0.0)]
    for values in forms:
        one, other = (make_dataset([[value, 1]], [0], ["q"]) for value in values)
        assert query_digests(one) == query_digests(other)


@given(hnp.arrays(np.float32, (3, 4)), st.text())
def test_the_digests_are_those_of_the_rule_in_plain_whole_numbers(
    features: NDArray[np.float32], query: str
) -> None:
    data = make_dataset(features, [0, 1, 0], [query] * 3)
    assert query_digests(data).tolist() == [by_the_rule(query, features)]


def by_the_rule(query: str, features: NDArray[np.float32]) -> int:
    def mixed(number: int) -> int:
        number = number * 0x9E3779B97F4A7C15 % 2**64
        number = (number ^ number >> 30) * 0xBF58476D1CE4E5B9 % 2**64
        number = (number ^ number >> 27) * 0x94D049BB133111EB % 2**64
        return number ^ number >> 31

    def bits(value: float) -> int:
        plain = float("nan") if value != value else value + 0.0  # noqa: PLR0124 - NaN
        return int.from_bytes(struct.pack("<f", plain), "little")

    rows = (
        sum(bits(v) * (mixed(c) | 1) for c, v in enumerate(row, 1)) for row in features.tolist()
    )
    content = sum(mixed(row % 2**64) for row in rows) % 2**64
    digest = hashlib.blake2b(f"{query}\0{content}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little")


def test_a_record_that_was_changed_knows_nothing() -> None:
    unknown: list[Any] = [{"train": "%%%"}, {"train": 3}, [], "x", {"train": "AAA="}]
    for queries in unknown:
        assert known_sides({"source": {"queries": queries}}, DATA) is None


def test_the_pair_unpacks_and_indexes_as_ever() -> None:
    chosen = EvaluationQueries(DATA, "all", ("doubt",))
    data, side = chosen
    assert (data, side, chosen[1], chosen.warnings) == (DATA, "all", "all", ("doubt",))


def test_the_split_of_a_record_serves_any_part_of_its_whole() -> None:
    model = trained(PARTS.training, PARTS.validation)
    other = DATA.split(0.1, 0.5, "other").test
    chosen = model_data(model, other)
    assert set(ids(chosen.data)) == set(ids(other)) & set(ids(PARTS.test))
    assert HashSplit(**model.record["source"]["split"]) == HashSplit()


def test_the_gate_compares_on_queries_that_neither_model_saw() -> None:
    other: Any = SimpleNamespace(record=trained(SECOND).record, model="other")
    assert ids(held_out(DATA, trained(FIRST), other)) == ids(REST)
    with pytest.raises(Refused, match="was trained or chosen on all queries of this data"):
        held_out(DATA, trained(DATA), other)


def test_the_command_warns_of_training_queries(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = commands_in(tmp_path, monkeypatch, capsys)
    save_dataset(DATA, tmp_path / "data.parquet")
    trained(DATA).save(tmp_path / "all.json")
    trained(FIRST, SECOND).save(tmp_path / "some.json")
    code, out, said = run("evaluate", "all.json", "data.parquet")
    assert (code, "on 40 queries" in out) == (0, True)
    assert "these are the queries that it was trained on" in said
    code, out, said = run("evaluate", "some.json", "data.parquet", "--json")
    figures = json.loads(out)
    assert (code, figures["n_queries"], figures["queries"]) == (0, 10, "test")
    assert figures["warnings"][0].startswith("30 of 40 queries were left out")
