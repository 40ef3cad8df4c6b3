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
WITH_DERIVED = (*FEATURESET.features, BOTH, DERIVED)


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
    return featureset_try(new, data=data, cluster=small.cluster, metric="ndcg@10", **how)


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
        result = tried(shared, data, *WITH_DERIVED, keep=keep)
    assert result.log is not None
    assert (result.log.change, result.log.left_out) == ("", 0)
    assert (result.log.features, result.log.documents) == (("both", "per_size"), len(rows))
    assert result.log.milliseconds.keys() == {"both"}
    assert sets(shared) == ["kept", "small"]
    pushed = shared.store.get_featureset("kept")
    assert pushed.features == WITH_DERIVED
    again = tmp_path / "again.parquet"
    shared.cluster.log_features(
        judgments=judged, index=shared.index, featureset="kept", extra_features=joined, out=again
    )
    kept, all_new = ltr.read_dataset(keep), ltr.read_dataset(again)
    assert kept.feature_names == all_new.feature_names == (*pushed.feature_names, "clicks")
    np.testing.assert_array_equal(kept.features, all_new.features)
    assert kept.featureset_hash == all_new.featureset_hash == pushed.hash
    assert kept.query_ids.equals(all_new.query_ids)
    assert kept.manifest == all_new.manifest
    shared.store.delete_featureset("kept")


def test_it_is_so_with_the_ltr_plugin(
    plugin_node: tuple[str, Any], shared: Small, tmp_path: Path
) -> None:
    with small_cluster(plugin_node[0], kind="ltr-plugin", index=shared.index) as made:
        data, keep = logged(made, tmp_path), tmp_path / "kept.parquet"
        result = tried(made, data, BOTH, keep=keep)
        assert result.log is not None
        assert result.log.change == ""
        assert result.log.milliseconds.keys() == {"both"}
        assert sets(made) == ["kept", "small"]
        again = tmp_path / "again.parquet"
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
        told = "documents were written or deleted"
    elif change == "deleted":
        own.engine.request("DELETE", f"/{index}/_doc/d7", params={"refresh": "true"})
        told = "documents were written or deleted"
    else:
        from tests.engine.small_cluster import fill

        own.engine.request("DELETE", f"/{index}")
        fill(own.engine, index, 60)
        told = "another index, mapping or analysis"
    result = tried(own, data, BOTH)
    assert result.log is not None
    assert result.log.change == told
    assert f"warning: '{index}' is not in the state of the data" in str(result)
    gone = 19 if change == "deleted" else 0
    assert result.log.left_out == gone
    assert f"{gone} absent or rejected" in str(result)
    with pytest.raises(Refused, match="log everything again"):
        tried(own, data, BOTH, keep=tmp_path / "kept.parquet")
    assert {path.name for path in tmp_path.iterdir()} == {"data.parquet"}
    assert sets(own) == ["small"]


def test_data_whose_feature_set_is_not_in_the_cluster_are_refused(
    own: Small, tmp_path: Path
) -> None:
    data = logged(own, tmp_path)
    own.store.delete_featureset("small")
    with pytest.raises(UsageError, match="not in the cluster: push it there"):
        tried(own, data, BOTH)


@pytest.mark.filterwarnings("ignore:'large' .derived.")
def test_documents_that_cannot_be_scored_are_left_out_and_nothing_is_kept(
    shared: Small, tmp_path: Path
) -> None:
    data = logged(shared, tmp_path)
    large = Feature("large", (), "exp(20 * size)", "derived_expression")
    result = tried(shared, data, *FEATURESET.features, large)
    assert result.log is not None
    assert result.log.left_out > 0
    assert f"{result.log.left_out:,} absent or rejected" in str(result)
    with pytest.raises(Refused, match="documents absent or rejected"):
        tried(shared, data, *FEATURESET.features, large, keep=tmp_path / "kept.parquet")
    assert {path.name for path in tmp_path.iterdir()} == {"data.parquet"}
    assert sets(shared) == ["small"]


@pytest.mark.parametrize(
    ("feature", "error", "message"),
    [
        (Feature("title", ("keywords",), {"match": {"body": "{{keywords}}"}}), BadInput,
         "'title' is another feature in the data"),
        (FEATURESET.features[0], BadInput, "nothing to try: every feature of `new` is in the data"),
        (DERIVED, BadInput, "'per_size' uses 'size', which is neither a feature nor"),
        (Feature("new", (), {"match": {"titel": "x"}}), BadInput, "did you mean 'title'"),
        (Feature("new", (), {"function_score": {"weight": -1}}), Refused, "new"),
        (Feature("new", ("year",), {"term": {"size": "{{year}}"}}), OwpcLtrError, "year"),
    ],
    ids=["other template", "nothing new", "derived from nothing", "misspelt", "refused", "params"],
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

    def interrupted(*_: Any, **__: Any) -> Any:
        assert len(sets(shared)) == 2
        raise fault("stop")

    monkeypatch.setattr(new_columns, "feature_costs", interrupted)
    with pytest.raises(fault):
        tried(shared, data, BOTH, keep=tmp_path / "kept.parquet")
    assert {path.name for path in tmp_path.iterdir()} == {"data.parquet"}
    assert sets(shared) == ["small"]


def test_another_feature_set_of_that_name_is_not_replaced(shared: Small, tmp_path: Path) -> None:
    with pytest.raises(Refused, match="there is another feature set 'small' already"):
        tried(shared, logged(shared, tmp_path), BOTH, keep=tmp_path / "small.parquet")
    assert {path.name for path in tmp_path.iterdir()} == {"data.parquet"}
    assert shared.store.get_featureset("small") == FEATURESET


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
    shared.store.delete_featureset("kept")


def test_the_command_prints_what_the_function_returns(
    shared: Small, tmp_path: Path, run: Run
) -> None:
    logged(shared, tmp_path)
    Path("new.json").write_text(
        json.dumps(FeatureSet("new", (*FEATURESET.features, BOTH)).to_body())
    )
    words = ("featureset", "try", "new.json", "--data", str(tmp_path / "data.parquet"))
    text = run.output(*words, *shared.place)
    assert text.startswith("both: 1,")
    assert f"'{shared.index}' is in the state in which the data were logged" in text
    content = json.loads(run.output(*words, *shared.place, "--json"))
    assert content["gains"][0]["features"] == "both"
    told = run.refusal(2, "featureset", "try", *shared.place)
    assert "--data" in told or "NEW.json" in told
