"""Provenance: the facts of a model from its certificate, and in what two models differ."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from owpc_ltr.engine.deployment.deployment_record import (
    Certificate,
    differences,
    flattened,
    provenance,
)
from owpc_ltr.features.feature_set import Feature, FeatureSet
from owpc_ltr.models.score_range import ScoreInterval
from owpc_ltr.protocols import Certificate as FitCertificate

FIT = FitCertificate(2.5, 0.001, 0.0004, 7, 31, 2.0, 4.0, "gap within 0.001 of the gain")
FEATURESET = FeatureSet("movies", (Feature("a", ("keywords",), {"match_all": {}}),))
LOSERS = [{"keywords": word, "old": 1.0, "new": 0.5} for word in ("one", "two", "three", "four")]


def certificate(**changes: Any) -> Certificate:
    record = {
        "loss": {"name": "owpc", "settings": {"generator": "top"}},
        "queries": 12,
        "validation": None,
        "certificate": FIT.as_dict(),
        "table": [{"optimizer.C": 1.0}],
    }
    made = Certificate(
        model="m@12345678",
        content={"feature_names": ["a", "b"], "weights": [1.0, 2.0]},
        featureset=FEATURESET,
        type="model/linear",
        index="movies",
        engine={"version": "3.8.0"},
        indices={"movies": {"uuid": "u"}},
        parity={"documents": 50},
        interval=ScoreInterval(0.0, 9.0, proven=True),
        record=record,
    )
    return replace(made, **changes)


def test_the_fit_is_told_with_why_it_stopped() -> None:
    facts = provenance(certificate())
    assert {name: facts[name] for name in facts if name.startswith("fit.")} == {
        "fit.objective": 2.5,
        "fit.risk": 2.0,
        "fit.gap": 0.001,
        "fit.relative_gap": 0.0004,
        "fit.passes": 7,
        "fit.stop_reason": "gap within 0.001 of the gain",
    }


def test_facts_are_those_of_the_record_and_of_the_proof() -> None:
    facts = provenance(certificate())
    assert facts["model"] == "m@12345678"
    assert (facts["loss.name"], facts["loss.settings.generator"]) == ("owpc", "top")
    assert (facts["queries"], facts["engine.version"]) == (12, "3.8.0")
    assert facts["indices.movies.uuid"] == "u"
    assert (facts["featureset"], facts["featureset_hash"]) == ("movies", FEATURESET.hash)
    assert (facts["parity.documents"], facts["interval.low"]) == (50, 0.0)
    # What is not known is no fact, and the candidates are no facts of this one.
    assert not {"validation", "seed"} & facts.keys()
    assert not [name for name in facts if name.startswith(("table", "gate"))]


def test_a_model_without_a_training_record_has_no_fit() -> None:
    facts = provenance(certificate(record={}))
    assert not [name for name in facts if name.startswith(("fit", "loss"))]


def test_a_gate_is_told_with_its_cautions_and_the_three_that_lose_most() -> None:
    gate = {"metric": "map", "cautions": ["few queries", "another side"], "losers": LOSERS}
    facts = provenance(certificate(gate=gate))
    assert facts["gate.metric"] == "map"
    assert facts["gate.cautions"] == "few queries; another side"
    assert facts["gate.loses_most"] == "'one', 'two', 'three'"
    assert "gate.losers" not in facts
    bare = provenance(certificate(gate={"metric": "map"}))
    assert (bare["gate.cautions"], bare["gate.loses_most"]) == ("", "")


def test_a_model_differs_from_itself_in_nothing() -> None:
    assert differences(certificate(), certificate()) == []


def test_differences_are_named_on_both_sides_with_the_weights_of_linear_models() -> None:
    other = certificate(
        model="m@87654321",
        content={"feature_names": ["a", "c"], "weights": [1.0, 3.0]},
        gate={"metric": "map"},
    )
    assert differences(certificate(), other) == [
        ("model", "m@12345678", "m@87654321"),
        ("weight.b", 2.0, None),
        ("gate.metric", None, "map"),
        ("gate.cautions", None, ""),
        ("gate.loses_most", None, ""),
        ("weight.c", None, 3.0),
    ]
    trees = certificate(content={"trees": []})
    assert [name for name, *_ in differences(certificate(), trees)] == ["weight.a", "weight.b"]


@pytest.mark.parametrize(
    ("content", "flat"),
    [({}, []), ({"a": {"b": {"c": 1}}, "d": [2]}, [("a.b.c", 1), ("d", [2])]), ({"a": {}}, [])],
)
def test_nested_facts_have_dotted_names(content: dict[str, Any], flat: list[Any]) -> None:
    assert list(flattened(content)) == flat
