"""Splits by hash, and the check that no model is measured on queries it was trained on."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import owpc_ltr as ltr
from owpc_ltr import save_dataset
from owpc_ltr.data.construction import make_dataset
from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.data.judgments import JudgedQuery, Judgments
from owpc_ltr.data.splits import (
    HashSplit,
    Origin,
    QueryDigests,
    digests_of,
    known_sides,
    source_of,
    split_queries,
    with_validation,
)
from owpc_ltr.engine.deployment.deployment_record import describe_model_file
from owpc_ltr.errors import BadInput, OwpcLtrWarning, Refused, UsageError
from owpc_ltr.evaluation.judged_data import choose_queries, model_data
from owpc_ltr.host.registry import load
from owpc_ltr.models.linear import LinearModel
from owpc_ltr.protocols import Run
from owpc_ltr.text import normalised_text
from owpc_ltr.training.feature_selection import train_on_few_features
from owpc_ltr.training.fitting import read_training_queries, train_plan
from owpc_ltr.training.plan import model_plan, with_scales
from owpc_ltr.training.rerankers import fit_reranker, reranking_plan
from tests.commands import Run as RunCommand

REGISTRY = load()
PLAN = model_plan(
    REGISTRY.find("loss", "owpc"), REGISTRY.find("optimizer", "larank"), {"optimizer.C": 1.0}
)
RERANKING = reranking_plan(
    REGISTRY.find("loss", "pairwise"),
    REGISTRY.find("reranker", "exchangeable"),
    {"reranker.penalty": 1.0},
)


def dataset(
    queries: int = 40, seed: int = 0, documents: int = 5, names: str = "query"
) -> RankingDataset:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(queries * documents, 3)).astype(np.float32)
    ids = np.repeat([f"{names} {number}" for number in range(queries)], documents)
    return make_dataset(X, (X[:, 0] + X[:, 1] / 2 > 0.5) * 1.0, ids, feature_names=("a", "b", "c"))


def logged(texts: Sequence[str], ids: Sequence[str], seed: int = 0) -> RankingDataset:
    """Queries with these texts and ids, and other documents for each seed."""
    params = [json.dumps({"keywords": text, "seed": seed}) for text in texts]
    data = dataset(len(texts), seed)
    return replace(data, query_ids=pa.array(ids), query_params=pa.array(params))


DATA = dataset()
PARTS = DATA.split()
FIRST, SECOND, REST = (DATA.select(np.arange(*cut)) for cut in ((0, 20), (20, 30), (30, 40)))


def trained(
    training: RankingDataset,
    validation: RankingDataset | None = None,
    source: dict[str, Any] | None = None,
) -> LinearModel:
    model = train_plan(training, PLAN, Run(), validation, source).model
    assert isinstance(model, LinearModel)
    return model


def reranked(training: RankingDataset, validation: RankingDataset | None = None) -> Any:
    base = LinearModel(DATA.feature_names, np.array([1.0, 0, 0]))
    return fit_reranker(training, base, RERANKING, Run(), validation)


def ids(data: Any) -> list[str]:
    return [str(query) for query in data.query_ids.to_pylist()]


@pytest.mark.parametrize("learn", [trained, reranked])
def test_a_model_of_a_split_knows_each_side_of_it(learn: Callable[..., Any]) -> None:
    model = learn(PARTS.training, PARTS.validation)
    source = model.record["source"]
    assert {key: source[key] for key in PARTS.source} == PARTS.source
    assert set(source["queries"]) == {"train", "validation"}
    chosen = model_data(model, DATA)
    assert (chosen.side, ids(chosen.data), chosen.warnings) == ("test", ids(PARTS.test), ())
    of_test = model_data(model, PARTS.test)
    assert (of_test.data, of_test.side, of_test.warnings) == (PARTS.test, "test", ())
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
        "10 of 40 queries are held out from the model: the model was trained on 20 and chosen on "
        "10 of them",
    )
    assert ids(model_data(model, DATA, "train").data) == ids(FIRST)
    assert ids(model_data(model, DATA, "validation").data) == ids(SECOND)
    assert model_data(model, DATA, "all").data is DATA


def test_a_model_trained_on_everything_is_said_to_be() -> None:
    model = trained(DATA)
    for data in (DATA, FIRST):
        chosen = model_data(model, data)
        assert (chosen.data, chosen.side) == (data, "all")
        assert "these are the queries that it was trained on" in chosen.warnings[0]
    with pytest.raises(Refused, match=r"no query is held out from the model: .*trained on 40"):
        model_data(model, DATA, "test")


def test_other_queries_are_held_out_without_a_word() -> None:
    other = dataset(seed=1, names="other")
    for model in (trained(FIRST, SECOND), trained(PARTS.training), trained(FIRST, source={})):
        assert model_data(model, other) == (other, "test", ())
        assert model_data(model, other, "test").data is other


WORDS = st.text(
    st.characters(categories=("Lu", "Ll", "Nd", "Po", "Zs"), exclude_characters="\u0345"),
    min_size=1,
    max_size=12,
).filter(lambda text: any(map(str.isalpha, text)) and bool(text.strip()))
CASES: list[Callable[[str], str]] = [str.upper, str.lower, str.title, str.swapcase]


@given(WORDS, st.sampled_from(CASES))
@example("ᾷ", str.title)
def test_case_white_space_and_forms_of_letters_make_no_other_text(
    text: str, recased: Callable[[str], str]
) -> None:
    assert normalised_text(recased(text)) == normalised_text(text)
    assert normalised_text(f" {text}\t") == normalised_text(text)
    assert normalised_text(normalised_text(text)) == normalised_text(text)
    wide = "".join(chr(ord(letter) + 0xFEE0) if "!" <= letter <= "~" else letter for letter in text)
    assert normalised_text(wide) == normalised_text(text)


@st.composite
def seen_and_fresh(draw: st.DrawFn) -> tuple[list[str], list[str]]:
    texts = draw(st.lists(WORDS, min_size=4, max_size=12, unique_by=normalised_text))
    cut = draw(st.integers(2, len(texts) - 2))
    return texts[:cut], texts[cut:]


def judged(texts: Sequence[str], names: Sequence[str]) -> list[JudgedQuery]:
    """The same queries as a list of judgments has them."""
    grade = np.ones(1, np.float32)
    return [
        JudgedQuery(name, {"keywords": text, "query": text}, ["d"], grade)
        for text, name in zip(texts, names, strict=True)
    ]


@given(seen_and_fresh(), st.sampled_from(CASES), st.randoms(use_true_random=False), st.data())
def test_what_a_model_has_seen_is_never_held_out_and_what_it_has_not_always_is(
    texts: tuple[list[str], list[str]],
    recased: Callable[[str], str],
    random: Any,
    data: st.DataObject,
) -> None:
    seen, fresh = texts
    names = [f"id {number}" for number in range(len(seen) + len(fresh))]
    cut = data.draw(st.integers(1, len(seen) - 1))
    whole = logged(seen, names[: len(seen)])
    source = source_of(whole.select(np.arange(cut)), whole.select(np.arange(cut, len(seen))))
    # Logged again: other documents, another order, other ids or texts of other case, not both new.
    queries = [(recased(text), f"new {n}", n < len(seen)) for n, text in enumerate(seen + fresh)]
    queries = [
        (text, names[n] if is_seen and random.random() < 0.5 else name, is_seen)
        for n, (text, name, is_seen) in enumerate(queries)
    ]
    random.shuffle(queries)
    again, ids_again, is_seen = zip(*queries, strict=True)
    record = {"source": source}
    expected = np.flatnonzero(~np.array(is_seen)).tolist()
    as_ids = [f" {text} " for text in again]
    for split in (
        logged(again, ids_again, seed=3),
        judged(again, ids_again),
        # Click judgments are named by what was typed.
        judged(as_ids, as_ids),
        replace(logged(again, as_ids), query_params=None),
    ):
        chosen = choose_queries({"model": record}, split)
        assert chosen.queries.tolist() == expected
        assert chosen.side == "test"
    # Whatever the order of training: the record is the same.
    order = np.array(random.sample(range(cut), cut))
    assert source["queries"]["train"] == source_of(whole.select(order), None)["queries"]["train"]


def test_a_liar_who_looks_at_ids_alone_is_caught() -> None:
    """Without the check of texts, seen queries are counted as held out."""
    data = logged(["alien", "heat", "ran", "ikiru"], ["1", "2", "3", "4"])
    again = logged(["ALIEN", "heat", "Ran", "new"], ["w1", "w2", "3", "4b"], seed=1)
    record = {"source": source_of(data, None)}
    honest = known_sides(record, again)
    assert honest is not None
    assert honest.tolist() == ["train", "train", "train", "test"]

    class OfIdsAlone(QueryDigests):
        def by_text(self, seen: QueryDigests) -> Any:
            return np.zeros(len(self.ids), bool)

    own = digests_of(again)
    lied = known_sides(record, again, OfIdsAlone(own.ids, own.texts))
    assert lied is not None
    assert lied.tolist() == ["test", "test", "train", "test"]


def test_folders_of_parts_and_files_know_each_others_queries(tmp_path: Path) -> None:
    texts = [f"words of {number}" for number in range(60)]
    data = logged(texts, [f"q{number}" for number in range(60)])
    save_dataset(data, tmp_path / "data.parquet")
    ltr.partition(tmp_path / "data.parquet", out=tmp_path / "parts")
    folder = ltr.open_dataset(tmp_path / "parts")
    assert len(folder.pieces) > 1
    in_folder, in_file = (
        dict(zip(ids(source), source.query_params.to_pylist(), strict=True))  # type: ignore[union-attr]
        for source in (folder, data)
    )
    assert in_folder == in_file
    again = logged([text.upper() for text in texts], [f"w{number}" for number in range(60)], 1)
    how: dict[str, Any] = {"settings": {"C": 1.0}}
    sides = folder.split()
    of_folder = ltr.train(sides.training, validation=sides.validation, **how)
    of_file = ltr.train(data.split().training, validation=data.split().validation, **how)
    assert of_folder.record["source"]["queries"] == of_file.record["source"]["queries"]
    wanted = {int(name[1:]) for name in ids(data.split().test)}
    for model in (of_folder, of_file):
        for source in (data, folder, again):
            evaluation = ltr.evaluate(model, source)
            assert {int(name[1:]) for name in ids(evaluation.data)} == wanted
            assert evaluation.split == "test"


def test_queries_that_share_an_id_and_no_text_are_told() -> None:
    model = trained(logged(["alien", "heat", "ran", "ikiru"], list("1234")))
    other = logged(["up", "her", "jaws", "rope"], list("1256"), seed=1)
    chosen = model_data(model, other)
    assert ids(chosen.data) == ["5", "6"]
    assert (
        "2 of these have the id of a query that the model has seen, and another text"
        in (chosen.warnings[0])
    )


def test_numbers_are_ids_and_no_texts() -> None:
    data = replace(logged(["501", "502"], ["1", "2"]), query_params=None)
    record = {"source": source_of(replace(data, query_ids=pa.array(["501", "7"])), None)}
    assert set(record["source"]["queries"]["train"]) == {"ids"}
    fresh = logged(["501", "502"], ["1", "2"])
    assert known_sides(record, fresh).tolist() == ["test", "test"]  # type: ignore[union-attr]


def test_every_comparison_takes_the_same_queries() -> None:
    """`evaluate`, `compare` and live comparisons, on queries of which four fifths were seen."""
    model, other = trained(FIRST, SECOND), trained(SECOND)
    assert ids(ltr.evaluate(model, DATA).data) == ids(REST)
    comparison = ltr.compare({"new": model, "old": other}, data=DATA, resamples=100)
    assert comparison.query_ids.to_pylist() == ids(REST)
    with pytest.raises(Refused, match="no query is held out from all rankers: new was"):
        ltr.compare({"new": trained(DATA), "old": other}, data=DATA, resamples=100)
    asked = Judgments(judged(ids(DATA), [f"n{n}" for n in range(40)])).queries
    records = {"new": model.record, "old": other.record}
    assert choose_queries(records, asked).queries.tolist() == list(range(30, 40))


def test_a_model_of_other_models_has_seen_what_they_have_seen() -> None:
    mean = ltr.average([trained(FIRST), trained(SECOND)])
    over = fit_reranker(SECOND, trained(FIRST), RERANKING, Run(), None)
    for model in (mean, over):
        assert ids(model_data(model, DATA).data) == ids(REST)


def test_an_imported_model_has_seen_the_data_that_it_was_imported_with(tmp_path: Path) -> None:
    LinearModel(DATA.feature_names, np.ones(3)).save(tmp_path / "m.json")
    model = ltr.import_model(tmp_path / "m.json", data=FIRST, source="first.parquet")
    assert ids(ltr.evaluate(model, DATA).data) == ids(SECOND) + ids(REST)


def test_of_models_whose_queries_are_not_known_it_is_said(tmp_path: Path) -> None:
    LinearModel(DATA.feature_names, np.ones(3)).save(tmp_path / "m.json")
    imported = ltr.import_model(tmp_path / "m.json")
    model = trained(PARTS.training, PARTS.validation)
    source = {key: model.record["source"][key] for key in ("fingerprint", "split")}
    of_split = replace(model, record={**model.record, "source": source})
    for silent in (imported, ltr.average([trained(FIRST), imported]), of_split):
        assert "nothing tells which queries" in model_data(silent, DATA).warnings[0]
    with pytest.raises(Refused, match="nothing tells the test queries"):
        model_data(of_split, DATA, "test")


def test_sides_that_do_not_fit_each_other_are_no_split() -> None:
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


def test_features_taken_out_leave_the_queries_as_they_were_given() -> None:
    selected = train_on_few_features(FIRST, PLAN, Run(), SECOND, max_features=1)
    assert len(selected.model.record["feature_selection"]["kept"]) == 1
    assert ids(model_data(selected.model, DATA).data) == ids(REST)


def test_a_record_has_eight_bytes_a_query_and_kind() -> None:
    queries = source_of(logged([f"w {n}" for n in range(900)], [f"q{n}" for n in range(900)]), None)
    assert [len(text) for text in queries["queries"]["train"].values()] == [9600, 9600]


def test_what_is_shown_of_a_model_has_no_digests(tmp_path: Path) -> None:
    trained(FIRST, source={"data": "first"}).save(tmp_path / "m.json")
    content = describe_model_file(tmp_path / "m.json")[0]
    assert content["record"]["source"] == {"data": "first"}


def test_a_record_that_was_changed_knows_nothing() -> None:
    bad: list[Any] = [{"train": {"ids": "%%%"}}, {"train": 3}, [], "x", {"train": "AAA="}, None]
    for queries in [*bad, {"train": {"ids": "AAA="}}, {"train": {"ids": 3}}, {"validation": {}}]:
        assert known_sides({"source": {"queries": queries}}, DATA) is None


def test_the_command_warns_of_training_queries(run: RunCommand, tmp_path: Path) -> None:
    save_dataset(DATA, tmp_path / "data.parquet")
    trained(DATA).save(tmp_path / "all.json")
    trained(FIRST, SECOND).save(tmp_path / "some.json")
    output = " ".join(run.output("evaluate", "all.json", "--data", "data.parquet").split())
    assert "on 40 queries" in output
    assert "these are the queries that it was trained on" in output
    figures = json.loads(run.output("evaluate", "some.json", "--data", "data.parquet", "--json"))
    assert (figures["n_queries"], figures["split"]) == (10, "test")
    assert figures["warnings"][0].startswith("10 of 40 queries are held out from the model")


def dataset_splits(queries: int = 60) -> RankingDataset:
    rows = np.arange(queries * 3)
    return make_dataset(rows[:, None], rows % 3, [f"q{row // 3}" for row in rows])


@given(validation=st.floats(0.1, 0.4), test=st.floats(0.1, 0.4), salt=st.text(max_size=5))
def test_every_query_is_on_one_side(validation: float, test: float, salt: str) -> None:
    data = dataset_splits()
    parts = data.split(validation, test, salt)
    queries = [set(part.query_ids.to_pylist()) for part in parts]
    assert sum(map(len, queries)) == data.n_queries
    assert set().union(*queries) == set(data.query_ids.to_pylist())
    assert [parts.training, parts.validation, parts.test] == list(parts)
    sides = HashSplit(validation, test, salt).sides(data)
    assert [(sides == side).sum() for side in ("train", "validation", "test")] == [
        part.n_queries for part in parts
    ]


def test_each_side_knows_where_it_is_from() -> None:
    data = dataset_splits()
    parts = data.split()
    for part, side in zip(parts, ("train", "validation", "test"), strict=True):
        assert part.origin == Origin(data.fingerprint, HashSplit(), side)
    assert parts.source == {"fingerprint": data.fingerprint, "split": HashSplit().as_dict()}
    assert repr(parts).startswith("DatasetSplits: 60 queries, by hash: ")


def test_a_side_stays_one_where_its_queries_stay() -> None:
    part = dataset_splits().split().training
    assert with_scales(part, "scale").origin == part.origin
    assert replace(part, featureset_hash="x").origin == part.origin
    assert part.select(np.arange(3)).origin is None
    assert part.split(salt="again").training.origin is None


def test_what_cannot_be_split_is_refused() -> None:
    data = dataset_splits()
    with pytest.raises(BadInput, match=r"no query falls on the \w+ side: 2 queries are too few"):
        dataset_splits(2).split()
    for shares in ((0.5, 0.5), (-0.1, 0.2), (float("nan"), 0.2)):
        with pytest.raises(UsageError, match="to leave queries to train on"):
            data.split(*shares)
    again = r"the train side of a split by the same hash.*another salt"
    with pytest.raises(UsageError, match=again):
        data.split().training.split()


def test_a_side_without_a_share_is_not_there() -> None:
    data = dataset_splits()
    parts = data.split(test=0)
    assert len(list(parts)) == 2
    with pytest.raises(UsageError, match=r"no test queries: their share is 0.*split\(test=0.2\)"):
        _ = parts.test
    assert data.split(validation=0).optional_validation is None
    whole = data.split(0, 0)
    assert whole.training is data
    assert whole.source == {"fingerprint": data.fingerprint}


def test_the_record_of_a_command_says_file_fingerprint_and_split_in_this_order(
    tmp_path: Path,
) -> None:
    data, other = dataset_splits(), dataset_splits(61)
    for name, written in (("a", data), ("b", other)):
        save_dataset(written, tmp_path / f"{name}.parquet")
    read = read_training_queries(tmp_path / "a.parquet", None, (0.2, 0.2))
    shares = {"validation": 0.2, "test": 0.2, "salt": "owpc-ltr"}
    fingerprint = ("fingerprint", data.fingerprint)
    assert list((read.source or {}).items()) == [
        ("data", "a.parquet"),
        fingerprint,
        ("split", shares),
    ]
    assert list(read.splits.sides) == ["train", "validation"]
    unsplit = read_training_queries(tmp_path / "a.parquet", None, (0.0, 0.0))
    assert list((unsplit.source or {}).items()) == [("data", "a.parquet"), fingerprint]
    assert unsplit.validation is None
    with pytest.warns(OwpcLtrWarning, match="60 of 61 validation queries are in the training data"):
        both = read_training_queries(tmp_path / "a.parquet", tmp_path / "b.parquet", (0.2, 0.2))
    assert list((both.source or {}).items()) == [
        ("data", "a.parquet"),
        fingerprint,
        ("validation", "b.parquet"),
        ("validation_fingerprint", other.fingerprint),
    ]
    assert both.splits.training.fingerprint == data.fingerprint
    assert both.splits.validation.fingerprint == other.fingerprint


def test_data_that_are_one_side_or_that_come_with_another_are_not_split_again() -> None:
    data, other = dataset_splits(), dataset_splits(61)
    training = data.split().training
    read = read_training_queries(training, None, (0.2, 0.2))
    assert (read.training, read.validation, read.source) == (training, None, None)
    parts = with_validation(data, other)
    assert (parts.training, parts.optional_validation) == (data, other)
    assert "data" not in parts.source


def test_a_command_makes_no_side_that_it_does_not_use() -> None:
    data = dataset_splits(3)
    split = next(
        HashSplit(0.3, 0.3, str(salt))
        for salt in range(99)
        if set(HashSplit(0.3, 0.3, str(salt)).sides(data)) == {"train", "validation"}
    )
    parts = split_queries(data, split, wanted=("train", "validation"))
    assert sum(part.n_queries for part in parts) == 3
    with pytest.raises(BadInput, match="on the test side"):
        split_queries(data, split)
