"""Models of joined features: what they remember, what an engine can have of them, and what not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from owpc_ltr.data.dataset import RankingDataset, make_dataset
from owpc_ltr.data.external_features.source import ExternalSource, external_entry, sources_in
from owpc_ltr.engine.deployment.deployment_record import describe_model_file
from owpc_ltr.engine.deployment.serving_mode import served_model
from owpc_ltr.engine.stores.store import Store
from owpc_ltr.errors import BadInput, Refused
from owpc_ltr.features.feature_set import Feature, FeatureSet
from owpc_ltr.formats.engine_versions import serving_profile
from owpc_ltr.formats.export_model import export_model
from owpc_ltr.formats.external_features import (
    for_engine,
    index_features,
    joined_used,
    without_joined,
)
from owpc_ltr.formats.model_conversion import (
    check_features,
    client_model,
    joined_in,
    store_for_client,
    to_stored_model,
)
from owpc_ltr.formats.stored_model import StoredModel
from owpc_ltr.formats.upgrade_report import deploy
from owpc_ltr.models.additive import AdditiveModel, Curve
from owpc_ltr.models.average import AverageModel, average
from owpc_ltr.models.feature_use import features_used, without_last_columns
from owpc_ltr.models.linear import LinearModel, Normaliser
from owpc_ltr.models.model_file import load_scoring_model, save_model, with_record
from owpc_ltr.models.networks import NetworkModel
from owpc_ltr.models.parity_samples import packed, unpacked
from owpc_ltr.models.trees import Forest, TreeModel
from owpc_ltr.protocols import Model
from owpc_ltr.training.train import train
from owpc_ltr.training.train_reranker import train_reranker

SOURCE = ExternalSource("ctr.parquet", "ab" * 32, ("query", "document_id"), ("ctr", "views"))
NAMES = ("title", "body", *SOURCE.features)
SET = FeatureSet(
    "small",
    tuple(Feature(name, ("query",), {"match": {name: "{{query}}"}}) for name in NAMES[:2]),
)
MODERN = serving_profile("opensearch", "3.8.0")


def matrix(rows: int = 8, columns: int = 4) -> Any:
    return np.random.default_rng(5).normal(size=(rows, columns)).astype(np.float32)


def record() -> dict[str, Any]:
    probe = {"query_id": "q", "params": {}, "document_ids": ["a", "b"], "labels": [0.0, 1.0]}
    return {
        **external_entry([SOURCE]),
        "featureset_hash": SET.hash,
        "feature_ranges": [[0.0] * 4, [1.0] * 4],
        "probes": [{**probe, "features": packed(matrix(2))}],
    }


def split(feature: int) -> Forest:
    """One tree of one split."""
    return Forest(
        np.array([0], np.int32), np.array([feature, -1, -1], np.int32),
        np.array([0, 0, 0], np.float32), np.array([1, 0, 0], np.int32),
        np.array([False] * 3), np.array([0.0, 1.0, 2.0]),
    )  # fmt: skip


def models(reads: int | None) -> list[Model]:
    """A model of each kind that reads the title, and this column too where one is named."""
    weights = np.array([1.0, 0, 0, 0])
    trees = [TreeModel(NAMES, split(0), record=record())]
    curves = {NAMES[0]: Curve(np.array([0.0, 1]), np.array([0.0, 2]))}
    if reads is not None:
        weights[reads] = 2.0
        trees.append(TreeModel(NAMES, split(reads), record=record()))
        curves[NAMES[reads]] = Curve(np.array([0.0, 1]), np.array([1.0, 2]))
    normalisers = {"title": Normaliser("standard", 1, 2), "ctr": Normaliser("standard", 1, 2)}
    linear = LinearModel(NAMES, weights, normalisers, record())
    average = AverageModel(NAMES, (linear, trees[-1]), np.array([0.5, 0.5]), record())
    return [linear, trees[-1], AdditiveModel(NAMES, curves, record()), average]


@pytest.mark.parametrize("model", models(None), ids=lambda model: model.kind)
def test_a_model_that_makes_nothing_of_joined_features_scores_the_same_without_them(
    model: Model,
) -> None:
    small = for_engine(model)
    assert small.feature_names == SET.feature_names == index_features(model)
    np.testing.assert_array_equal(small.score(matrix()[:, :2]), model.score(matrix()))
    assert sources_in(small.record) == ()
    assert small.record["joined_left_out"] == ["ctr", "views"]
    assert small.record["feature_ranges"] == [[0.0] * 2, [1.0] * 2]
    (probe,) = small.record["probes"]
    np.testing.assert_array_equal(unpacked(probe["features"], 2, 2), matrix(2)[:, :2])
    check_features(small, SET)
    check_features(model, SET)


@pytest.mark.parametrize("reads", [2, 3])
@pytest.mark.parametrize("kind", [model.kind for model in models(2)])
def test_a_model_that_reads_one_is_not_for_an_engine_and_says_which(kind: str, reads: int) -> None:
    (model,) = [one for one in models(reads) if one.kind == kind]
    assert joined_used(model) == (NAMES[reads],)
    with pytest.raises(Refused) as caught:
        for_engine(model)
    for words in (f"reads '{NAMES[reads]}' (joined from ctr.parquet)", "train without it",
                  "--client-scored"):  # fmt: skip
        assert words in str(caught.value)
    with pytest.raises(Refused, match="no engine can run it"):
        deploy(model, MODERN, SET)
    with pytest.raises(ValueError, match="not used"):
        without_last_columns(model, SOURCE.features)


def test_a_kind_that_mixes_its_features_reads_all_of_them() -> None:
    network = NetworkModel(NAMES, np.zeros((1, 4)), np.zeros(1), np.zeros(1), record())
    assert features_used(network) == set(NAMES)
    with pytest.raises(Refused, match=r"'ctr' .*, 'views' "):
        for_engine(network)


def test_an_export_is_refused_or_made_as_if_the_columns_had_never_been(tmp_path: Path) -> None:
    asked: dict[str, Any] = {"target": "opensearch", "version": "3.8.0", "featureset": SET}
    for reads, out in ((None, "small.json"), (2, "none.json")):
        model = models(reads)[0]
        if reads is not None:
            with pytest.raises(Refused, match=r"'ctr' .joined from ctr\.parquet."):
                export_model(model, out=tmp_path / out, **asked)
            assert not (tmp_path / out).exists()
            continue
        export_model(model, out=tmp_path / out, **asked)
        never = LinearModel(
            SET.feature_names, np.array([1.0, 0]), {"title": Normaliser("standard", 1, 2)}
        )
        export_model(never, out=tmp_path / "never.json", **asked)
        assert (tmp_path / out).read_bytes() == (tmp_path / "never.json").read_bytes()


@pytest.mark.parametrize("model", models(2), ids=lambda model: model.kind)
def test_what_the_client_scores_is_stored_with_where_its_columns_are_from(model: Model) -> None:
    stored = store_for_client(model, SET, "m")
    assert joined_in(stored) == (SOURCE,)
    np.testing.assert_array_equal(client_model(stored).score(matrix()), model.score(matrix()))
    lying = {key: part for key, part in stored.definition.items() if key != "joined_tables"}
    with pytest.raises(BadInput, match="damaged: it reads other features"):
        client_model(StoredModel("m", stored.type, lying, SET))
    with pytest.raises(BadInput, match="damaged: its 'joined_tables'"):
        client_model(StoredModel("m", stored.type, {**lying, "joined_tables": [1]}, SET))
    plain = store_for_client(with_record(for_engine(models(None)[0]), {}), SET, "m")
    assert joined_in(plain) == ()
    assert joined_in(to_stored_model(for_engine(models(None)[0]), SET, "m", "plugin-free")) == ()


def test_a_record_whose_columns_are_not_the_last_is_damaged() -> None:
    model = models(None)[0]
    lying = with_record(model, external_entry([replace(SOURCE, features=("title", "ctr"))]))
    with pytest.raises(BadInput, match="its joined features are not its last ones"):
        for_engine(lying)
    with pytest.raises(BadInput, match="the model's record is damaged"):
        index_features(with_record(model, {"joined_tables": [{"file": 1}]}))


def test_an_average_knows_the_tables_of_all_its_models() -> None:
    later = replace(SOURCE, sha256="cd" * 32)
    one, other = models(2)[0], with_record(models(2)[0], {**record(), **external_entry([later])})
    mean = average([one, other])
    assert sources_in(mean.record) == (SOURCE, later)
    assert joined_used(mean) == ("ctr",)


def test_the_ltr_plugins_store_keeps_no_model_for_clients() -> None:
    store = cast(Store, SimpleNamespace(kind="ltr-plugin"))
    asked: dict[str, Any] = {"client_scored": True, "tables": ()}
    with pytest.raises(Refused, match=r"--store-kind plugin-free"):
        served_model(store, models(2)[0], [], **asked)


def test_samples_without_features_stay_as_they_are() -> None:
    plain = {"query_id": "q", "params": {}, "document_ids": ["a"]}
    assert without_joined([plain], 4, 2) == [plain]


def judged(queries: int = 60) -> RankingDataset:
    rng = np.random.default_rng(2)
    rows = rng.normal(size=(20 * queries, 3)).astype(np.float32)
    labels = (rows[:, 1] + 0.5 * rows[:, 0] + 0.5 * rng.normal(size=len(rows)) > 1).astype(float)
    source = ExternalSource("ctr.parquet", "ab" * 32, ("document_id",), ("ctr",))
    return make_dataset(
        rows[:, [0, 2, 1]], labels, np.repeat(np.arange(queries), 20),
        feature_names=("title", "body", "ctr"), featureset_hash=SET.hash,
        manifest=external_entry([source]),
    )  # fmt: skip


def test_a_trained_model_knows_which_of_its_features_are_joined(tmp_path: Path) -> None:
    data = judged()
    model = train(data, settings={"C": 1.0}, validation_share=0, test_share=0)
    save_model(model, tmp_path / "m.json")
    back = load_scoring_model(tmp_path / "m.json")
    assert sources_in(back.record) == sources_in(data.manifest) != ()
    assert joined_used(back) == ("ctr",)
    _, told, _ = describe_model_file(tmp_path / "m.json")
    assert told["joined.ctr"] == "ctr.parquet, by document_id (abababababab)"
    plain = train(
        replace(data, manifest=None), settings={"C": 1.0}, validation_share=0, test_share=0
    )
    assert "joined_tables" not in plain.record
    np.testing.assert_array_equal(plain.score(data.features), model.score(data.features))


def test_a_joined_feature_has_its_price_and_goes_where_it_is_not_worth_it(tmp_path: Path) -> None:
    sides = judged(120).split(0.4, 0.2)
    costs = tmp_path / "costs.json"
    kept = {}
    for milliseconds in (0.001, 1e6):
        costs.write_text(f'{{"ctr": {milliseconds}}}')
        model = train(
            sides.training, validation=sides.validation, settings={"C": 1.0}, metric="ndcg@10",
            feature_cost=costs,
        )  # fmt: skip
        kept[milliseconds] = model.record["feature_cost"]["kept"]
        assert model.feature_names == ("title", "body", "ctr")
        assert (joined_used(model) == ()) == ("ctr" not in kept[milliseconds])
    assert "ctr" in kept[0.001]
    assert "ctr" not in kept[1e6]
    assert for_engine(model).feature_names == SET.feature_names


def test_a_reordering_of_joined_features_knows_it_too() -> None:
    data = judged(30)
    base = train(data, settings={"C": 1.0}, validation_share=0, test_share=0)
    ranker = train_reranker(
        data, base=base, settings={"penalty": 1.0}, validation_share=0, test_share=0
    )
    assert sources_in(ranker.record) == sources_in(data.manifest)
    assert index_features(ranker) == ("title", "body")
