"""The benchmark of rankers from clicks: what it shows, what it counts, and what it judges by."""

from __future__ import annotations

import importlib.util
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from owpc_ltr_clicks import simulation as simulate
from owpc_ltr_clicks.judge_clicks import count_clicks

import owpc_ltr as ltr
from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.metrics import parse_metric
from owpc_ltr.models.linear import LinearModel
from owpc_ltr.protocols import Model

PATH = Path(__file__).parents[1] / "benchmarks" / "clicks_to_ranker.py"


@pytest.fixture(scope="module")
def benchmark() -> ModuleType:
    spec = importlib.util.spec_from_file_location("clicks_to_ranker", PATH)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def data() -> RankingDataset:
    rng = np.random.default_rng(0)
    features = rng.normal(size=(500 * 12, 3)).astype(np.float32)
    labels = (features[:, 0] + rng.normal(size=len(features)) > 1.6).astype(np.float32)
    features[:, 1] += 0.5 * features[:, 0]
    ids = np.repeat([f"q{number}" for number in range(500)], 12)
    names = [f"d{number}" for number in range(len(ids))]
    return ltr.make_dataset(features, labels, ids, ["a", "b", "c"], document_ids=names)


def test_what_a_feature_does_not_match_is_not_shown_and_the_rest_in_its_order(
    benchmark: ModuleType, data: RankingDataset
) -> None:
    scores = benchmark.served_scores(data, "b", np.random.default_rng(0))
    values = data.features[:, 1]
    assert (np.isfinite(scores) == (values > 0)).all()
    for start, stop in zip(data.offsets[:-1], data.offsets[1:], strict=True):
        shown = slice(start, stop), values[start:stop] > 0
        ranked = np.argsort(-scores[shown[0]][shown[1]])
        assert (np.diff(values[shown[0]][shown[1]][ranked]) <= 0).all()


def test_there_are_about_as_many_events_as_were_asked_for_and_the_seed_is_all_that_draws(
    benchmark: ModuleType, data: RankingDataset
) -> None:
    one, again, other = (
        benchmark.events_of(data, simulate.Users(), ["a", "b"], 30_000, seed) for seed in (0, 0, 1)
    )
    assert len(one) == pytest.approx(30_000, rel=0.03)
    assert one.equals(again)
    assert not one.equals(other)


def test_every_way_of_judging_teaches_and_none_is_better_than_the_truth_by_far(
    benchmark: ModuleType, data: RankingDataset
) -> None:
    sides = data.split()
    events = benchmark.events_of(data, simulate.Users(), ["b", "c"], 60_000, 0)
    judged = benchmark.judgments_of(count_clicks(events))
    assert list(judged)[1:] == ["pbm", "sdbn", "coec", "dctr", "clicks, --ips", "clicks, raw"]
    assert set(judged["clicks, raw"]["grade"].to_pylist()) == {0.0, 1.0}
    assert not judged["clicks, raw"].equals(judged["clicks, --ips"])
    test, metric = sides.test, parse_metric("ndcg@10")

    def worth(table: object) -> float:
        scores = benchmark.trained(sides, table).score(test.features)
        return float(metric.mean(scores, test.labels, test.offsets))

    served = metric.mean(test.features[:, 1].astype(float), test.labels, test.offsets)
    truth = worth(None)
    assert served + 0.05 < worth(judged["pbm"]) < truth + 0.02
    assert worth(judged["clicks, --ips"]) < truth + 0.02


def test_differences_are_those_to_the_ranker_of_the_true_grades(
    benchmark: ModuleType, data: RankingDataset, capsys: pytest.CaptureFixture[str]
) -> None:
    sides = data.split()
    true = benchmark.trained(sides, None)
    models = {benchmark.TRUE: true, "worse": by_one_feature(true, "b")}
    found = ltr.compare(models, data=data, metrics=benchmark.METRIC, baseline=benchmark.TRUE)
    benchmark.print_table(found, found)
    told = capsys.readouterr().out
    by_name = {one.name: one.means[benchmark.METRIC].mean for one in found.rankers}
    less = by_name["worse"] - by_name[benchmark.TRUE]
    assert less < 0
    assert told.count(f"{less:+.4f} [") == 2
    assert benchmark.difference(found, benchmark.TRUE) == ""


def by_one_feature(model: Model, feature: str) -> Model:
    """A linear model that looks at one feature alone."""
    assert isinstance(model, LinearModel)
    weights = np.array([float(name == feature) for name in model.feature_names])
    return replace(model, weights=weights)
