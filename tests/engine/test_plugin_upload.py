"""Trees into a scripted LTR plugin: in a format of its version, proven by its scores."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace

import pytest

from owpc_ltr.engine.deployment.alias import Aliases
from owpc_ltr.engine.deployment.deployment_record import Certificates
from owpc_ltr.engine.deployment.model_lifecycle import prunable, prune
from owpc_ltr.engine.deployment.model_upload import upload_model
from owpc_ltr.engine.stores.ltr_plugin import LtrPluginStore
from owpc_ltr.errors import Refused
from owpc_ltr.formats.engine_versions import RANKLIB, XGBOOST
from owpc_ltr.models.linear import Normaliser
from tests.engine.deployed import Plugin, connected, trees
from tests.engine.fake_engine import FakeEngine
from tests.engine.small_cluster import FEATURESET, linear


@pytest.fixture
def fake() -> Iterator[FakeEngine]:
    with FakeEngine() as made:
        yield made


@pytest.mark.parametrize(
    ("version", "format_"), [("2.19.0", XGBOOST), ("3.3.0", RANKLIB), ("3.8.0", XGBOOST)]
)
def test_trees_are_proven_in_a_format_that_each_version_scores_exactly(
    version: str, format_: str, fake: FakeEngine
) -> None:
    plugin = Plugin(version)
    engine = connected(fake, plugin)
    done = upload_model(engine, LtrPluginStore(engine), trees(), FEATURESET, "small", "m")
    assert done.type == format_
    assert done.parity.scored_by == "engine"
    assert done.parity.largest_difference <= 1e-6
    assert done.parity.documents == 48
    certificate = Certificates(engine, LtrPluginStore(engine)).get(done.model)
    assert certificate.interval.proven
    assert certificate.interval.low == pytest.approx(-0.5, abs=1e-5)
    assert certificate.interval.high == pytest.approx(3.5, abs=1e-5)


def test_trees_that_the_engine_scores_otherwise_are_taken_out(fake: FakeEngine) -> None:
    plugin = Plugin("3.8.0", off=0.01)
    engine = connected(fake, plugin)
    with pytest.raises(Refused, match="scores differently"):
        upload_model(engine, LtrPluginStore(engine), trees(), FEATURESET, "small", "m")
    assert plugin.models == {}
    assert Aliases(engine, LtrPluginStore(engine)).find("m") is None
    assert not any("certificate" in path for path in plugin.documents)


def test_what_the_engine_would_refuse_is_not_sent(fake: FakeEngine) -> None:
    """A scale that float32 rounds to 0, which is no standard deviation in the engine."""
    plugin = Plugin("3.8.0")
    engine = connected(fake, plugin)
    tiny = replace(linear(), normalisers={"size": Normaliser("standard", 0.0, 1e-46)})
    with pytest.raises(Refused, match=r"3\.8\.0 would not take 'm'.*not positive"):
        upload_model(engine, LtrPluginStore(engine), tiny, FEATURESET, "small", "m")
    assert {asked.method for asked in fake.requests} == {"GET"}


def test_splits_of_a_feature_that_is_never_missing_go_into_every_version(fake: FakeEngine) -> None:
    """Between 3.2 and 3.7 a missing value always goes right: no fault where there is none."""
    whole = trees()
    only_size = replace(whole.forest, default_left=whole.forest.feature == 2)
    engine = connected(fake, Plugin("3.3.0"))
    done = upload_model(
        engine, LtrPluginStore(engine), replace(whole, forest=only_size), FEATURESET, "small", "m"
    )
    assert done.type == XGBOOST


@pytest.mark.parametrize("as_text", [False, True], ids=["as it was sent", "as text"])
def test_what_a_killed_upload_left_in_the_plugin_is_known_by_the_hash_of_its_content(
    as_text: bool, fake: FakeEngine
) -> None:
    """However the plugin gives a definition back; and a model of anybody else's is not."""
    plugin = Plugin("3.8.0")
    engine = connected(fake, plugin)
    store = LtrPluginStore(engine)
    names = [
        upload_model(engine, store, model, FEATURESET, "small", "m").model
        for model in (trees(), linear())
    ]
    assert prunable(engine, store) == []
    plugin.documents.clear()
    foreign = json.loads(json.dumps(plugin.models[names[1]]))
    foreign["model"]["name"] = "m-12345678"
    plugin.models["m-12345678"] = foreign
    for model in plugin.models.values():
        ranker = model["model"]["model"]
        if as_text and not isinstance(ranker["definition"], str):
            ranker["definition"] = json.dumps(ranker["definition"])
    assert prunable(engine, store) == sorted(names)
    prune(engine, store, names)
    assert list(plugin.models) == ["m-12345678"]
