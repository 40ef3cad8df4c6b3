"""A feature log with judgments from clicks: its own rows, the judgments' grades, nothing lost."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from owpc_ltr_clicks.grading import grades
from owpc_ltr_clicks.judge_clicks import judge_clicks
from owpc_ltr_clicks.relabelling import relabel_log
from owpc_ltr_clicks.simulation import clicks

import owpc_ltr as ltr
from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.errors import BadInput, Refused
from owpc_ltr.models.linear import LinearModel


@pytest.fixture(scope="module")
def log() -> RankingDataset:
    rng = np.random.default_rng(0)
    ids = np.repeat([f"q{number}" for number in range(12)], 9)
    texts = [json.dumps({"keywords": f"Red  SHOE {number}"}) for number in range(12)]
    return ltr.make_dataset(
        rng.normal(size=(len(ids), 2)),
        rng.integers(0, 3, len(ids)),
        ids,
        document_ids=[f"d{number % 40}" for number in range(len(ids))],
        query_params=pa.array(texts),
    )


def pairs_of(data: RankingDataset) -> dict[tuple[str, str], tuple[float, float, float]]:
    assert data.document_ids is not None
    names = np.repeat(data.query_ids.to_pylist(), np.diff(data.offsets))
    values = zip(data.labels.tolist(), data.weights.tolist(), data.features[:, 0], strict=True)
    return dict(zip(zip(names, data.document_ids.to_pylist(), strict=True), values, strict=True))


def test_every_judged_row_has_the_grade_and_weight_of_its_judgment(log: RankingDataset) -> None:
    judged = judge_clicks(clicks(log, sessions=4000, shown=6), model="pbm").table
    found = relabel_log(log, judged)
    assert found.not_logged == 0
    own, before = pairs_of(found.data), pairs_of(log)
    assert len(own) == len(judged) < log.n_documents
    for row in judged.to_pylist():
        name = f"q{row['query'].removeprefix('red shoe ')}", row["doc_id"]
        assert own[name] == pytest.approx((row["grade"], row["weight"], before[name][2]))


def test_what_was_not_logged_is_counted_and_queries_without_a_row_are_left_out(
    log: RankingDataset,
) -> None:
    judged = pa.table(
        {
            "query": ["red shoe 3", "red shoe 3", "red shoe 4", "blue hat"],
            "doc_id": ["d27", "elsewhere", "nowhere", "d1"],
            "grade": [1.0, 2.0, 1.0, 1.0],
        }
    )
    found = relabel_log(log, judged)
    assert found.not_logged == 3
    assert found.data.query_ids.to_pylist() == ["q3"]
    assert pairs_of(found.data) == {("q3", "d27"): (1.0, 1.0, log.features[27, 0])}
    with pytest.raises(Refused, match="none of 1 judgments"):
        relabel_log(log, judged.slice(3))


def test_what_cannot_be_joined_is_refused(log: RankingDataset) -> None:
    twice = pa.table({"query": ["red shoe 3"] * 2, "doc_id": ["d27"] * 2, "grade": [1.0, 2.0]})
    with pytest.raises(BadInput, match="judged twice"):
        relabel_log(log, twice)
    with pytest.raises(BadInput, match="no document ids"):
        relabel_log(replace(log, document_ids=None), twice)


def test_a_ranker_learns_of_clicks_what_attracts_and_not_what_was_shown() -> None:
    rng = np.random.default_rng(0)
    features = rng.normal(size=(400 * 20, 2)).astype(np.float32)
    labels = (features[:, 0] + rng.normal(size=len(features)) > 2.2).astype(np.float32)
    ids = np.repeat([f"q{number}" for number in range(400)], 20)
    names = [f"d{number}" for number in range(len(ids))]
    data = ltr.make_dataset(features, labels, ids, document_ids=names)
    served = [features[:, 1] + 0.5 * rng.normal(size=len(features)) for _ in range(4)]
    events = clicks(data, None, served, 8000)
    found, raw = (judge_clicks(events, model=model) for model in ("pbm", "dctr"))
    assert 0 < what_served_weighs(data, found.table) < 1.5
    assert what_served_weighs(data, raw.table) > 2
    # By its probability alone, what was shown at the bottom is better than what was passed over.
    by_cuts = pa.array(grades(found.chosen.fit.attractiveness, 4))
    assert what_served_weighs(data, found.table.set_column(2, "grade", by_cuts)) < -0.5


def what_served_weighs(data: RankingDataset, judged: pa.Table) -> float:
    """The weight of what the lists were ordered by, beside that of what attracts."""
    settings = {"C": 1.0, "generator": "constant", "grades": "thresholds"}
    model = ltr.train(
        relabel_log(data, judged).data, settings=settings, validation_share=0, test_share=0
    )
    assert isinstance(model, LinearModel)
    return float(model.weights[1] / model.weights[0])
