"""New features logged beside a dataset, on a real engine: the state of the index, what is kept."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from owpc_ltr_feature_trials import new_columns
from owpc_ltr_feature_trials.featureset_try import featureset_try
from owpc_ltr_feature_trials.trial import FeatureTrial

import owpc_ltr as ltr
from owpc_ltr.engine.client.responses import EngineRefusal
from owpc_ltr.errors import (
    BadInput,
    EngineUnavailable,
    OwpcLtrError,
    OwpcLtrWarning,
    Refused,
    UsageError,
)
from owpc_ltr.features.feature_set import Feature, FeatureSet
from tests.commands import Run
from tests.engine.small_cluster import FEATURESET, Small, judged_titles, small_cluster

BOTH = Feature("both", ("keywords",), {"multi_match": {
    "query": "{{keywords}}", "fields": ["title", "body"]}})  # fmt: skip
DERIVED = Feature("per_size", (), "title / (1 + size)", "derived_expression")


@pytest.fixture(scope="module")
def shared(node_url: str) -> Iterator[Small]:
    with small_cluster(node_url) as made:
        yield made


@pytest.fixture
def own(node_url: str) -> Iterator[Small]:
    """An index that a test may change."""
    with small_cluster(node_url) as made:
        yield made


def logged(small: Small, folder: Path, **how: Any) -> Path:
    """A dataset of 24 queries, logged with the small feature set."""
    judgments, out = judged_titles(small, 24, 1), folder / "data.parquet"
    small.cluster.log_features(judgments=judgments, index=small.index, out=out, **how)
    return out


def tried(small: Small, data: Path, *features: Feature, **how: Any) -> FeatureTrial:
    new = FeatureSet("new", features)
    whole = {"metric": "ndcg@10", "test_share": 0.0, **how}
    return featureset_try(new, data=data, cluster=small.cluster, **whole)


def sets(small: Small) -> list[str]:
    return small.store.list_featuresets()


def test_kept_data_are_those_of_logging_everything(shared: Small, tmp_path: Path) -> None:
    """Also with columns from outside the index, which stay behind those of the set."""
    judged = judged_titles(shared, 24, 1)
    rows = [(query.query_id, name) for query in judged.queries for name in query.doc_ids]
    clicks = {"query_id": [q for q, _ in rows], "document_id": [d for _, d in rows],
              "clicks": np.random.default_rng(0).normal(size=len(rows))}  # fmt: skip
    pq.write_table(pa.table(clicks), tmp_path / "clicks.parquet")
    joined = [tmp_path / "clicks.parquet"]
    data, keep = logged(shared, tmp_path, extra_features=joined), tmp_path / "kept.parquet"
    with pytest.warns(OwpcLtrWarning, match="the client must score a model that uses it"):
        result = tried(shared, data, BOTH, DERIVED, keep=keep)
    assert result.log is not None
    assert (result.log.change, result.log.left_out, result.log.old) == ("", {}, 3)
    assert result.log.documents == len(rows)
    assert {each.name: each.milliseconds is None for each in result.features} == {
        "both": False, "per_size": True,
    }  # fmt: skip
    assert sets(shared) == ["small"]
    with pytest.warns(OwpcLtrWarning, match="the client must score"):
        pushed = shared.cluster.featuresets.push(
            tmp_path / "kept-features.json", index=shared.index, name="kept"
        )
    assert pushed.feature_names == (*FEATURESET.feature_names, "both", "per_size")
    again = tmp_path / "again.parquet"
    shared.cluster.log_features(
        judgments=judged, index=shared.index, featureset="kept", extra_features=joined, out=again
    )
    kept, all_new = ltr.read_dataset(keep), ltr.read_dataset(again)
    assert kept.feature_names == all_new.feature_names == (*pushed.feature_names, "clicks")
    np.testing.assert_array_equal(kept.features, all_new.features)
    assert kept.featureset_hash == all_new.featureset_hash == pushed.hash
    assert kept.query_ids.equals(all_new.query_ids)
    assert kept.manifest is not None
    assert all_new.manifest is not None
    added = {"logged_before": {"name": "small", "hash": FEATURESET.hash},
             "logged_later": ["both", "per_size"]}  # fmt: skip
    assert kept.manifest == {**all_new.manifest, **added}
    shared.store.delete_featureset("kept")


def test_it_is_so_with_the_ltr_plugin(
    plugin_node: tuple[str, Any], shared: Small, tmp_path: Path
) -> None:
    with small_cluster(plugin_node[0], kind="ltr-plugin", index=shared.index) as made:
        data, keep = logged(made, tmp_path), tmp_path / "kept.parquet"
        result = tried(made, data, BOTH, keep=keep)
        assert result.log is not None
        assert result.log.change == ""
        assert result.features[0].milliseconds is not None
        assert sets(made) == ["small"]
        features, again = tmp_path / "kept-features.json", tmp_path / "again.parquet"
        made.cluster.featuresets.push(features, index=made.index)
        made.cluster.log_features(
            judgments=judged_titles(made, 24, 1), index=made.index, featureset="kept", out=again
        )
    kept = ltr.read_dataset(keep)
    np.testing.assert_array_equal(kept.features, ltr.read_dataset(again).features)
    assert kept.manifest is not None
    assert kept.manifest["engine"]["store"] == "ltr-plugin"


def test_a_model_of_kept_data_scores_in_the_engine_as_here(own: Small, tmp_path: Path) -> None:
    data, keep = logged(own, tmp_path), tmp_path / "kept.parquet"
    tried(own, data, BOTH, keep=keep)
    own.cluster.featuresets.push(tmp_path / "kept-features.json", index=own.index)
    model = ltr.train(keep, settings={"C": 1.0})
    report = own.cluster.upload(model, name=own.name, index=own.index, unproven="a test")
    assert report.parity is not None
    assert report.parity.swapped == 0


@pytest.mark.parametrize("change", ["written", "deleted", "made anew"])
def test_a_changed_index_is_told_and_not_kept(own: Small, tmp_path: Path, change: str) -> None:
    data, index = logged(own, tmp_path), own.index
    if change == "written":
        own.engine.request(
            "PUT", f"/{index}/_doc/new", body={"size": 1}, params={"refresh": "true"}
        )
        told = "documents were written or deleted (60 then, 61 now)"
    elif change == "deleted":
        own.engine.request("DELETE", f"/{index}/_doc/d7", params={"refresh": "true"})
        told = "documents were written or deleted (60 then, 59 now)"
    else:
        from tests.engine.small_cluster import fill

        own.engine.request("DELETE", f"/{index}")
        fill(own.engine, index, 60)
        told = f"another index, mapping or analysis ({index})"
    result = tried(own, data, BOTH)
    assert result.log is not None
    assert result.log.change == told
    assert f"warning: '{index}' is not in the state of the data" in str(result)
    gone = 24 if change == "deleted" else 0
    assert result.log.left_out == ({"not in the index": gone} if gone else {})
    if gone:
        assert "24 documents are left out: not in the index" in str(result)
    with pytest.raises(Refused, match="log everything again"):
        tried(own, data, BOTH, keep=tmp_path / "kept.parquet")
    assert {path.name for path in tmp_path.iterdir()} == {"data.parquet"}
    assert sets(own) == ["small"]


def test_old_features_with_other_values_are_told(shared: Small, tmp_path: Path) -> None:
    """Merges and scripts move scores though no document is another."""
    path = logged(shared, tmp_path)
    data = ltr.read_dataset(path)
    data.features[:4, 2] += 1
    moved = tmp_path / "moved.parquet"
    ltr.save_dataset(data, moved)
    result = tried(shared, moved, BOTH)
    assert result.log is not None
    assert result.log.change == "old features have other values"


def test_without_the_set_of_the_log_features_are_tried_and_not_kept(
    own: Small, tmp_path: Path
) -> None:
    data = logged(own, tmp_path)
    own.store.delete_featureset("small")
    result = tried(own, data, BOTH)
    assert result.log is not None
    assert (result.log.change, result.log.old_seconds) == (
        "their feature set is not in the cluster", None,
    )  # fmt: skip
    with pytest.raises(Refused, match="their feature set is not in the cluster"):
        tried(own, data, BOTH, keep=tmp_path / "kept.parquet")
    with pytest.raises(BadInput, match="'title' is in the data, and not in a feature set"):
        tried(own, data, FEATURESET.features[0])
    with pytest.raises(BadInput, match="uses 'size', which is neither a feature nor"):
        tried(own, data, DERIVED)


@pytest.mark.parametrize(
    ("feature", "error", "message"),
    [
        (Feature("title", ("keywords",), {"match": {"body": "{{keywords}}"}}), BadInput,
         "feature 'title' is in the data with another template"),
        (FEATURESET.features[0], BadInput, "nothing to try: every feature of `new` is in the data"),
        (Feature("new", (), {"match": {"titel": "x"}}), BadInput, "did you mean 'title'"),
        (Feature("new", (), {"function_score": {"weight": -1}}), Refused, "new"),
        (Feature("new", ("year",), {"term": {"size": "{{year}}"}}), OwpcLtrError, "year"),
    ],
    ids=["other template", "nothing new", "misspelt", "refused", "params"],
)  # fmt: skip
def test_what_cannot_be_tried_is_refused_and_nothing_stays(
    shared: Small, tmp_path: Path, feature: Feature, error: type[Exception], message: str
) -> None:
    data = logged(shared, tmp_path)
    with pytest.raises(error, match=message):
        tried(shared, data, feature, keep=tmp_path / "kept.parquet")
    assert {path.name for path in tmp_path.iterdir()} == {"data.parquet"}
    assert sets(shared) == ["small"]


@pytest.mark.parametrize("fault", [KeyboardInterrupt, EngineUnavailable])
def test_what_is_interrupted_leaves_nothing(
    shared: Small, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: type[BaseException]
) -> None:
    data = logged(shared, tmp_path)

    def interrupted(*_: Any) -> Any:
        assert len(sets(shared)) == 2
        raise fault("stop")

    monkeypatch.setattr(new_columns, "_costs", interrupted)
    with pytest.raises(fault):
        tried(shared, data, BOTH, keep=tmp_path / "kept.parquet")
    assert {path.name for path in tmp_path.iterdir()} == {"data.parquet"}
    assert sets(shared) == ["small"]


def test_another_feature_set_beside_the_kept_data_is_not_replaced(
    shared: Small, tmp_path: Path
) -> None:
    data, beside = logged(shared, tmp_path), tmp_path / "kept-features.json"
    beside.write_text(json.dumps(FEATURESET.to_body()))
    with pytest.raises(UsageError, match=r"kept-features\.json holds something else"):
        tried(shared, data, BOTH, keep=tmp_path / "kept.parquet")
    assert json.loads(beside.read_text()) == FEATURESET.to_body()


def test_data_and_calls_that_do_not_fit_are_refused(shared: Small, tmp_path: Path) -> None:
    letor, data = tmp_path / "letor.txt", logged(shared, tmp_path)
    letor.write_text("".join(f"{n % 2} qid:{n // 4} 1:{n % 3} 2:{n % 5}\n" for n in range(80)))
    with pytest.raises(UsageError, match="does not know its documents"):
        tried(shared, letor, BOTH)
    with pytest.raises(UsageError, match="give `new`, a feature set with new features, or `drop`"):
        featureset_try(data=data)
    with pytest.raises(UsageError, match="give `new`"):
        featureset_try(data=data, drop=True, keep=tmp_path / "kept.parquet")
    with pytest.raises(UsageError, match="give `cluster`"):
        featureset_try(FeatureSet("new", (BOTH,)), data=data)
    with pytest.raises(UsageError, match="it is the input"):
        tried(shared, data, BOTH, keep=data)
    with pytest.raises((BadInput, EngineRefusal), match="no-such-index"):
        tried(shared, data, BOTH, index="no-such-index")
    worth = featureset_try(data=letor, drop=True).worth
    assert {each.features for each in worth} == {"1", "2"}


def test_a_folder_of_parts_is_tried_and_kept_as_one_file(shared: Small, tmp_path: Path) -> None:
    data, folder = logged(shared, tmp_path), tmp_path / "parts"
    ltr.partition(data, out=folder, buckets=4)
    keep = tmp_path / "kept.parquet"
    result = tried(shared, folder, BOTH, keep=keep)
    assert result.log is not None
    assert not result.log.change
    assert ltr.read_dataset(keep).n_documents == 24 * 60


def test_the_command_prints_what_the_function_returns(
    shared: Small, tmp_path: Path, run: Run
) -> None:
    logged(shared, tmp_path)
    Path("new.json").write_text(
        json.dumps(FeatureSet("new", (*FEATURESET.features, BOTH)).to_body())
    )
    words = ("featureset", "try", "new.json", "--data", str(tmp_path / "data.parquet"))
    text = run.output(*words, *shared.place)
    assert text.startswith("both: logged for 1,")
    assert f"'{shared.index}' is in the state in which the data were logged" in text
    content = json.loads(run.output(*words, *shared.place, "--json"))
    assert content["features"][0]["name"] == "both"
    assert content["features"][0]["like"] in FEATURESET.feature_names
    told = run.refusal(2, "featureset", "try", *shared.place)
    assert "--data" in told or "NEW.json" in told
