"""What `upgrade-check` predicts of an upgrade, against what two real nodes of both versions score.

Each engine's run leaves its values in the folder of OWPC_LTR_ENGINE_VALUES, and compares them with
those that are there: so that one node runs at a time.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from owpc_ltr_node.release import Release

from owpc_ltr.engine.client.engine import Engine
from owpc_ltr.engine.stores.plugin_free import PluginFreeStore
from owpc_ltr.features.query_analysis import ScoreKind, score_kind
from owpc_ltr.formats.engine_versions import LINEAR, serving_profile
from owpc_ltr.formats.stored_model import StoredModel
from owpc_ltr.formats.upgrade_report import scores_around, upgrade_effect
from tests.engine.documents import KW, QUERIES, featureset_of, fill, logged

pytestmark = pytest.mark.engines
TEXT = {"match": {"title": KW}}
NUMBER = {"field_value_factor": {"field": "n", "modifier": "ln2p"}}
MORE: dict[str, Any] = {
    "phrase_prefix": {"match_phrase_prefix": {"body": "alpha be"}},
    "fuzzy_term": {"fuzzy": {"title": {"value": "betta"}}},
    "multi_prefix": {"multi_match": {"query": KW, "fields": ["title"], "type": "bool_prefix"}},
    "times": {"function_score": {"query": TEXT, **NUMBER}},
    "plus": {"function_score": {"query": TEXT, **NUMBER, "boost_mode": "sum"}},
    "should": {"bool": {"should": [TEXT, {"constant_score": {"filter": {"term": {"tag": "x"}}}}]}},
}
ALL = {name: query for name, query in {**QUERIES, **MORE}.items() if name != "script"}
FEATURES = featureset_of(ALL)
KINDS = {feature.name: score_kind(feature) for feature in FEATURES.features}
CONSTANTS_INSIDE = {"bool_prefix", "multi_prefix", "plus", "should"}


def test_values_move_between_versions_as_upgrade_check_predicts(
    other_engine: Engine, release: Release, record_property: Callable[[str, object], None]
) -> None:
    """upgrade-check's forecast against the other nodes"""
    told = os.environ.get("OWPC_LTR_ENGINE_VALUES")
    if not told:
        pytest.skip("no folder of values: set OWPC_LTR_ENGINE_VALUES")
    folder = Path(told)
    folder.mkdir(parents=True, exist_ok=True)
    index = f"between-{uuid.uuid4().hex[:8]}"
    docs = fill(other_engine, index, 1)
    try:
        values = logged(docs, PluginFreeStore(other_engine), FEATURES)
    finally:
        other_engine.request("DELETE", f"/{index}")
    np.save(folder / f"{release.engine}-{release.version}.npy", values)
    compared = 0
    for path in sorted(folder.glob(f"{release.engine}-*.npy")):
        version = path.stem.partition("-")[2]
        if version != release.version:
            older = Release(release.engine, version).numbers < release.numbers
            known = np.load(path)
            pair = (known, values) if older else (values, known)
            names = (version, release.version) if older else (release.version, version)
            check_forecast(release.engine, *names, *pair)
            compared += 1
    record_property("figure", f"right for {compared} pairs" if compared else "nothing to compare")


def check_forecast(engine: str, before: str, after: str, old: Any, new: Any) -> None:
    """Text scores move by the factor, constants stay, and the sums of both by no factor."""
    profiles = [serving_profile(engine, version) for version in (before, after)]
    factor = profiles[1].bm25_factor / profiles[0].bm25_factor
    where = f"{engine} {before} to {after}"
    assert np.array_equal(np.isnan(old), np.isnan(new)), where
    for column, name in enumerate(ALL):
        seen = ~np.isnan(old[:, column])
        foretold = {ScoreKind.text: factor, ScoreKind.constant: 1.0}.get(KINDS[name])
        if foretold is not None:
            wanted = foretold * old[seen, column]
            assert new[seen, column] == pytest.approx(wanted, rel=3e-6), (where, name)
        elif name in CONSTANTS_INSIDE and factor != 1:
            ratio = new[seen, column] / old[seen, column]
            assert np.ptp(ratio) > 0.01, (where, name)
            assert KINDS[name] is ScoreKind.mixed
    sure = [name for name in ALL if KINDS[name] in {ScoreKind.text, ScoreKind.constant}]
    weights = dict(zip(sure, np.linspace(-1, 2, len(sure)).tolist(), strict=True))
    stored = StoredModel("m", LINEAR, weights, FEATURES)
    scores = scores_around(stored, old, *profiles)
    real = scores_around(stored, new, profiles[1], profiles[1])[0]
    assert scores[1] == pytest.approx(real, rel=1e-5, abs=1e-5), where
    effect = upgrade_effect(stored, old, profiles[0], profiles[1])
    assert set(effect.bm25_mixed) == (CONSTANTS_INSIDE if factor != 1 else set())
