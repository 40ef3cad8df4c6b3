"""Training, measuring and selecting on a folder of parts: as in memory, or refused in a line."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import owpc_ltr as ltr
from owpc_ltr import OwpcLtrWarning, PartitionedDataset, RankingDataset, save_dataset
from owpc_ltr.data import partitioned
from owpc_ltr.errors import BadInput, Refused, UsageError
from owpc_ltr.models.linear import LinearModel
from tests.commands import Run
from tests.datasets import learnable, train_on_all

pytestmark = pytest.mark.filterwarnings("ignore::owpc_ltr.OwpcLtrWarning")

GRID = {"C": [0.1, 1.0]}


@pytest.fixture
def data() -> RankingDataset:
    return replace(learnable(300), feature_scales=None)


@pytest.fixture
def folder(data: RankingDataset, tmp_path: Path) -> Path:
    """The data in many parts."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(partitioned, "PART_BYTES", 32 * 120)
        ltr.partition(data, out=tmp_path / "parts")
    return tmp_path / "parts"


def both(folder: Path, **how: Any) -> tuple[Any, Any, RankingDataset, PartitionedDataset]:
    """The models of the folder gone through in parts, and of the same in memory."""
    parts, whole = ltr.open_dataset(folder, memory=20_000), ltr.read_dataset(folder)
    streamed, loaded = parts.split(), whole.split()
    streamed_model = ltr.train(streamed.training, validation=streamed.validation, **how)
    other = ltr.train(loaded.training, validation=loaded.validation, **how)
    return streamed_model, other, whole, parts


def check_alike(model: Any, other: Any, whole: RankingDataset, parts: PartitionedDataset) -> None:
    """The same test figures and record, up to the tolerance of the fits."""
    metrics = ("ndcg@10", "map", "mrr")
    a, b = ltr.evaluate(model, parts, metrics=metrics), ltr.evaluate(other, whole, metrics=metrics)
    assert (a.split, a.data.n_queries) == ("test", b.data.n_queries)
    for own, its in zip(a.table, b.table, strict=True):
        assert own["mean"] == pytest.approx(its["mean"], abs=0.01)
        assert {**own, "mean": 0} == {**its, "mean": 0}
    assert set(model.record) == set(other.record)
    for name in ("queries", "documents", "featureset_hash", "feature_ranges", "probes"):
        assert model.record[name] == other.record[name], name
    assert model.record["source"] == other.record["source"]


def test_a_convex_loss_is_solved_as_in_memory(folder: Path) -> None:
    model, other, whole, parts = both(
        folder, optimizer="bundle", settings={"tolerance": 1e-4}, grid=GRID
    )
    check_alike(model, other, whole, parts)
    for a, b in zip(model.record["table"], other.record["table"], strict=True):
        assert a["optimizer.C"] == b["optimizer.C"]
        assert a["objective"] == pytest.approx(b["objective"], rel=1e-3)
        assert a["validation"] == pytest.approx(b["validation"], abs=0.01)


def test_a_smooth_loss_is_descended_as_in_memory(folder: Path) -> None:
    settings = {"inner": "logistic", "C": 1.0, "tolerance": 1e-6}
    model, other, whole, parts = both(
        folder, loss="pairwise", optimizer="gradient", settings=settings
    )
    check_alike(model, other, whole, parts)
    a, b = model.record["certificate"], other.record["certificate"]
    assert a["objective"] == pytest.approx(b["objective"], rel=1e-6)
    assert a["relative_gap"] <= 1e-6
    assert model.weights == pytest.approx(other.weights, abs=1e-2)


@pytest.mark.parametrize("how", [{"normalise": "none"}, {"missing": "zero"}], ids=str)
def test_scales_and_missing_values_are_treated_as_in_memory(folder: Path, how: Any) -> None:
    settings = {"C": 0.1, "tolerance": 1e-5}
    model, other, whole, parts = both(folder, optimizer="bundle", settings=settings, **how)
    check_alike(model, other, whole, parts)
    assert isinstance(model, LinearModel)
    assert model.weights == pytest.approx(other.weights, abs=0.02)


def test_an_evaluation_has_the_same_numbers_as_in_memory(folder: Path) -> None:
    parts, whole = ltr.open_dataset(folder), ltr.read_dataset(folder)
    names = parts.feature_names
    model = LinearModel(names, np.array([1.0, -0.5, 0.5, 0.0, 0.0]))
    for split, baseline in (("all", f"feature:{names[0]}"), ("auto", None)):
        asked: dict[str, Any] = {"split": split, "baseline": baseline}
        evaluation = ltr.evaluate(model, parts, metrics=("ndcg@5", "map,empty=skip"), **asked)
        other = ltr.evaluate(model, whole, metrics=("ndcg@5", "map,empty=skip"), **asked)
        rows, wanted = (
            evaluation_or_other.table + evaluation_or_other.as_dict()["pairs"]
            for evaluation_or_other in (evaluation, other)
        )
        for a, b in zip(rows, wanted, strict=True):
            assert set(a) == set(b)
            for name in a:
                number = isinstance(a[name], float)
                assert a[name] == (pytest.approx(b[name], rel=1e-12) if number else b[name])
        for column in evaluation.per_query.column_names:
            a, b = evaluation.per_query[column], other.per_query[column]
            if pa.types.is_string(a.type):
                assert a.equals(b)
            else:
                np.testing.assert_allclose(a.to_numpy(), b.to_numpy(), rtol=1e-14)
    tied = LinearModel(names, np.zeros(5))
    assert any(
        warning.startswith("all scores are equal") for warning in ltr.evaluate(tied, parts).warnings
    )


def test_queries_without_a_split_are_known_again(folder: Path) -> None:
    parts = ltr.open_dataset(folder)
    some = parts.select(np.arange(0, 200))
    model = train_on_all(some, optimizer="bundle", settings={"C": 1.0})
    whole = ltr.read_dataset(folder)
    for data in (parts, whole):
        evaluation = ltr.evaluate(model, data)
        assert (evaluation.split, evaluation.data.n_queries) == ("test", parts.n_queries - 200)


def test_what_cannot_go_through_parts_is_loaded_where_it_fits(folder: Path) -> None:
    parts, whole = ltr.open_dataset(folder), ltr.read_dataset(folder)
    for how in (
        {"optimizer": "adarank"},
        {"optimizer": "bundle", "piecewise_linear": True, "settings": {"C": 1.0}},
    ):
        model = ltr.train(parts.split().training, **how)
        other = ltr.train(whole.split().training, **how)
        assert model.as_dict() == other.as_dict()


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"optimizer": "adarank"}, "optimizer 'adarank' needs its data in memory"),
        (
            {"optimizer": "bundle", "piecewise_linear": True},
            "a piecewise-linear model needs its data in memory",
        ),
        ({"loss": "lambdarank", "optimizer": "gradient"}, "'gradient' with loss 'lambdarank'"),
    ],
)
def test_what_does_not_fit_is_refused_before_any_part_is_read(
    how: dict[str, Any], message: str, folder: Path
) -> None:
    splits = ltr.open_dataset(folder, memory=1000).split()
    for path in folder.glob("bucket=*/*"):
        path.write_bytes(b"")
    with pytest.raises(UsageError, match=message) as raised:
        ltr.train(splits.training, validation=splits.validation, **how)
    assert "use bundle, larank, gradient and boosting" in str(raised.value)


def test_data_without_an_order_are_refused(data: RankingDataset, tmp_path: Path) -> None:
    alike = replace(data, labels=np.ones_like(data.labels))
    parts = ltr.partition(alike, out=tmp_path / "alike")
    with pytest.raises(Refused, match="there is no order to learn"):
        train_on_all(parts, optimizer="bundle", settings={"C": 1.0})


def test_a_part_that_was_changed_is_noticed_before_training(folder: Path) -> None:
    parts = ltr.open_dataset(folder)
    paths = sorted(folder.glob("bucket=*/*"))
    paths[5].write_bytes(paths[6].read_bytes())
    with pytest.raises(BadInput, match="it is not as it was written"):
        train_on_all(parts, optimizer="bundle", settings={"C": 1.0})


def test_python_gives_memory_as_a_text_too(folder: Path) -> None:
    with pytest.raises(UsageError, match=r"'adarank' needs .* than the 0\.0 MiB"):
        ltr.train(folder, optimizer="adarank", memory="1K", threads=2)


@pytest.mark.thorough
def test_folds_are_those_of_the_data_in_memory(folder: Path) -> None:
    how: dict[str, Any] = {
        "folds": 3,
        "optimizers": ["bundle"],
        "grid": GRID,
        "settings": {"tolerance": 1e-4},
        "metrics": ["map"],
    }
    selection = ltr.select(ltr.open_dataset(folder, memory=5000), **how)
    other = ltr.select(ltr.read_dataset(folder), **how)
    for a, b in zip(selection.rows, other.rows, strict=True):
        assert (a.fold, a.settings) == (b.fold, b.settings)
        assert a.validation == pytest.approx(b.validation, abs=0.01)
        assert a.test["map"] == pytest.approx(b.test["map"], abs=0.01)
    with pytest.raises(UsageError, match="'adarank' needs its data in memory"):
        ltr.select(ltr.open_dataset(folder, memory=5000), optimizers=["adarank"], folds=3)


def test_the_commands_take_a_folder_where_they_take_a_file(
    folder: Path, data: RankingDataset, tmp_path: Path, run: Run
) -> None:
    chosen = ("--optimizer", "bundle", "--set", "optimizer.C=1", "--memory", "1M")
    train = ("train", "parts", "--out", "m.json")
    assert "trained on" in run.output(*train, *chosen)
    record = json.loads((tmp_path / "m.json").read_text())["record"]
    assert record["source"]["data"] == "parts"
    save_dataset(ltr.read_dataset(folder), tmp_path / "whole.parquet")

    def evaluated(data: str, *more: str) -> dict[str, Any]:
        result: dict[str, Any] = json.loads(
            run.output("evaluate", "m.json", "--data", data, "--json", *more)
        )
        return result

    assert evaluated("parts", "--memory", "10K")["split"] == "test"
    parts, whole = (evaluated(name, "--split", "all") for name in ("parts", "whole.parquet"))
    assert parts["rankers"][0]["metrics"] == whole["rankers"][0]["metrics"]
    run.output("select", "parts", "--folds", "3", *chosen)
    for words, message in (
        ((*train, "--memory", "lots"), "'lots' is not an amount of memory"),
        ((*train, "--optimizer", "adarank", "--memory", "1K"), "needs its data in memory"),
        (("evaluate", "m.json", "--data", "parts", "--run", "a.run"), "--run lists documents"),
    ):
        assert message in run.refusal(2, *words)


def test_a_half_written_folder_is_refused_by_commands(folder: Path, run: Run) -> None:
    (folder / "_manifest.json").rename(folder / "_unfinished")
    for words in (
        ("train", "parts", "--out", "m.json"),
        ("evaluate", "feature:x", "--data", "parts"),
        ("select", "parts"),
    ):
        assert "it is half-written" in run.refusal(3, *words)
    (folder / "_unfinished").unlink()
    assert "a folder without _manifest.json" in run.refusal(3, "train", "parts", "--out", "m.json")


def test_judgments_are_looked_at(tmp_path: Path) -> None:
    """A sample of the queries is enough to see negatives that were drawn, not judged."""
    rng = np.random.default_rng(0)
    queries = np.repeat([f"q{n}" for n in range(900)], 5)
    labels = np.tile([1, 0, 0, 0, 0], 900)
    drawn = ltr.make_dataset(rng.normal(size=(4500, 3)), labels, queries)
    parts = ltr.partition(drawn, out=tmp_path / "drawn")
    with pytest.warns(OwpcLtrWarning, match="such negatives were sampled"):
        train_on_all(parts, optimizer="bundle", settings={"C": 1.0})


def test_trees_grow_over_parts_as_in_memory(folder: Path) -> None:
    for objective in ("loss", "rank:ndcg"):
        settings = {"objective": objective, "trees": 30, "leaf": 1.0, "eta": 0.3, "bins": 64}
        model, other, whole, parts = both(folder, optimizer="boosting", settings=settings)
        if objective == "loss":
            assert model.record["certificate"]["risk"] == pytest.approx(
                other.record["certificate"]["risk"], rel=0.15
            )
            zero = "risk_at_zero"
            assert model.record["certificate"][zero] == pytest.approx(
                other.record["certificate"][zero], rel=1e-9
            )
        a, b = (
            ltr.evaluate(model, parts, metrics="ndcg@10"),
            ltr.evaluate(other, whole, metrics="ndcg@10"),
        )
        assert a.split == b.split == "test"
        assert a.table[0]["mean"] == pytest.approx(b.table[0]["mean"], abs=0.05)
        assert a.table[0]["mean"] > a.table[0]["all_tied_baseline"] + 0.03


def test_trees_with_pairs_need_memory(folder: Path) -> None:
    training = ltr.open_dataset(folder, memory=1000).split().training
    settings = {"interactions": 3, "trees": 5}
    with pytest.raises(UsageError, match="'boosting' with loss 'owpc' and these settings"):
        train_on_all(training, optimizer="boosting", settings=settings)


def check_gaps(model: Any, other: Any, tolerance: float) -> None:
    """Each optimum lies between the bounds of the other's."""
    a, b = model.record["certificate"], other.record["certificate"]
    assert a["relative_gap"] <= tolerance
    assert a["objective"] - a["gap"] <= b["objective"]
    assert b["objective"] - b["gap"] <= a["objective"]


def test_larank_begins_with_a_sample_and_its_gap_is_that_of_the_whole(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from owpc_ltr_optimizers import larank

    for sample in (larank._SAMPLE, 5 * 200):
        monkeypatch.setattr(larank, "_SAMPLE", sample)
        settings = {"C": 1.0, "tolerance": 1e-3}
        model, other, whole, parts = both(folder, optimizer="larank", settings=settings)
        check_alike(model, other, whole, parts)
        check_gaps(model, other, 1e-3)


def test_a_sample_is_of_whole_queries_wherever_they_stand(folder: Path) -> None:
    parts = ltr.open_dataset(folder)
    sample = parts.sample(200)
    assert 150 < sample.n_documents <= 200
    assert sample.n_documents == sample.load().n_documents
    again = parts.select(np.arange(50, 300)).sample(200)
    assert set(again.query_ids.to_pylist()) & set(sample.query_ids.to_pylist())
    assert parts.sample(10**6) is parts
    assert parts.sample(1).n_queries == 1


@pytest.mark.thorough
def test_ohsumed_is_learned_as_in_memory(shared_data: Path, tmp_path: Path) -> None:
    texts = [shared_data / "letor3-ohsumed" / f"S{number}.txt.xz" for number in range(1, 6)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(partitioned, "PART_BYTES", 45 * 4 * 300)
        ltr.partition(texts, out=tmp_path / "parts")
    for optimizer in ("bundle", "larank"):
        how: dict[str, Any] = {"optimizer": optimizer, "settings": {"C": 0.1, "tolerance": 1e-4}}
        model, other, whole, parts = both(tmp_path / "parts", **how)
        assert len(parts.pieces) > 20
        check_gaps(model, other, 1e-4)
        assert other.record["certificate"]["relative_gap"] <= 1e-4
        metrics = ("ndcg@10", "map")
        ours = ltr.evaluate(model, parts, metrics=metrics).table
        theirs = ltr.evaluate(other, whole, metrics=metrics).table
        for own, its in zip(ours, theirs, strict=True):
            assert own["mean"] == pytest.approx(its["mean"], abs=0.005)
            assert own["queries"] == its["queries"]
