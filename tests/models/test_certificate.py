"""The duality certificate: what it says where nothing was gained, and in JSON."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from owpc_ltr import RankingDataset, make_dataset, save_model
from owpc_ltr.files.output import finite_json
from owpc_ltr.host import registry
from owpc_ltr.models.combined import AverageModel
from owpc_ltr.models.linear import LinearModel
from owpc_ltr.models.model_file import load_scoring_model
from owpc_ltr.protocols import Certificate, Run
from tests.commands import Run as RunCommand

INSTALLED = registry.load()
OWPC = INSTALLED.find("loss", "owpc")
INFINITE = [math.inf, -math.inf, math.nan]
ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda parts: st.lists(parts) | st.dictionaries(st.text(), parts),
    max_leaves=20,
)


def mirrored(queries: int = 8, documents: int = 6) -> RankingDataset:
    """Each relevant document has an irrelevant twin: scoring everything alike is the optimum."""
    rows = np.random.default_rng(0).normal(size=(queries, documents, 3)).astype(np.float32)
    features = np.concatenate([rows, rows], axis=1).reshape(-1, 3)
    labels = np.tile(np.repeat([1.0, 0.0], documents), queries).astype(np.float32)
    return make_dataset(features, labels, np.repeat(np.arange(queries), 2 * documents))


@pytest.mark.parametrize("value", INFINITE)
def test_a_certificate_as_json_has_null_for_what_has_no_bound(value: float) -> None:
    content = Certificate(1.0, gap=value, relative_gap=value, risk=2.0, risk_at_zero=4.0).as_dict()
    assert (content["gap"], content["relative_gap"], content["risk_ratio"]) == (None, None, 0.5)
    json.dumps(content, allow_nan=False)


def test_a_risk_of_zero_at_zero_has_no_ratio() -> None:
    assert math.isnan(Certificate(1.0, risk=1.0, risk_at_zero=0.0).risk_ratio)


@pytest.mark.parametrize("optimizer", ["larank", "bundle", "gradient"])
@pytest.mark.parametrize("inner", ["hinge", "logistic"])
@pytest.mark.parametrize("generator", ["constant", "logarithmic", "inverse", "exponential", "top"])
def test_where_nothing_can_be_gained_the_gap_is_told_and_not_its_ratio(
    optimizer: str, inner: str, generator: str
) -> None:
    loss = OWPC(generator=generator, inner=inner)
    certificate = (
        INSTALLED.find("optimizer", optimizer)().minimise(loss, mirrored(), Run()).certificate
    )
    assert certificate.stop_reason == "no model is better than the one that scores everything alike"
    assert math.isnan(certificate.relative_gap)
    assert 0 <= certificate.gap <= 1e-9 * certificate.objective


@given(ANY_JSON)
def test_what_json_can_hold_stays_and_the_rest_is_null(value: Any) -> None:
    kept = finite_json(value)
    assert json.loads(json.dumps(kept, allow_nan=False)) == kept
    assert kept == json.loads(json.dumps(value), parse_constant=lambda _: None)


@pytest.mark.parametrize("value", INFINITE)
def test_a_record_with_an_infinite_number_is_saved_with_null(tmp_path: Path, value: float) -> None:
    record = {"certificate": {"relative_gap": value}, "table": [{"validation": value}]}
    model = LinearModel(("a",), np.ones(1), record=record)
    both = AverageModel(("a",), (model, model), np.ones(2))
    save_model(model, tmp_path / "0.json")
    save_model(both, tmp_path / "1.json")
    read = load_scoring_model(tmp_path / "0.json").record
    assert read == {"certificate": {"relative_gap": None}, "table": [{"validation": None}]}
    load_scoring_model(tmp_path / "1.json")


def test_a_grid_in_which_a_candidate_gains_nothing_ends_with_a_model(run: RunCommand) -> None:
    data = mirrored()
    Path("data.txt").write_text(
        "".join(
            f"{label:.0f} qid:{query // 12} 1:{row[0]} 2:{row[1]} 3:{row[2]} # docid = d{query}\n"
            for query, (label, row) in enumerate(zip(data.labels, data.features, strict=True))
        )
    )
    grid = "loss.generator=constant,logarithmic,inverse,exponential,top"
    words = ("train", "data.txt", "--grid", grid, "--validation", "data.txt", "--out", "m.json")
    code, out, err = run(*words)
    assert code == 0
    assert err.count("\n") == 3
    assert "the optimum has collapsed" in err
    assert "validation queries are in the training data" in err
    rows = [line.split() for line in out.splitlines()[1:6]]
    assert [(row[0], row[2], row[3]) for row in rows] == [
        (name, "1.0000", "–") for name in grid.partition("=")[2].split(",")
    ]
    record = load_scoring_model(Path("m.json")).record
    assert [row["relative_gap"] for row in record["table"]] == [None] * 5
