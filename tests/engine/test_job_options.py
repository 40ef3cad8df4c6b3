"""What a caller gives to a job of a cluster reaches the work that it is for."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast
from unittest import mock

import pytest

from owpc_ltr import Cluster
from owpc_ltr.engine.client.engine import Engine
from owpc_ltr.engine.deployment.parity import ProofLimits
from owpc_ltr.engine.deployment.uploaded_models import UploadedModels
from owpc_ltr.engine.feature_log.snapshot import LogOptions
from owpc_ltr.engine.stores.plugin_free import PluginFreeStore
from tests.engine.memory_cluster import MemoryCluster
from tests.engine.small_cluster import FEATURESET, linear
from tests.engine.write_world import cluster_of

LIMITS: dict[str, Any] = {"tolerance": 0.1, "max_drift": 0.2, "min_proof_coverage": 0.3}
QUERY = {"match": {"title": "{{keywords}}"}}


class Work(Exception):
    """The arguments of the work."""

    def __init__(self, *args: Any, **named: Any) -> None:
        self.args, self.named = args, named


def _stop(*args: Any, **named: Any) -> None:
    raise Work(*args, **named)


@pytest.fixture
def cluster() -> Cluster:
    engine = cast("Engine", MemoryCluster())
    engine.request("PUT", "/small", body={})
    PluginFreeStore(engine).put_featureset(FEATURESET)
    return cluster_of(engine)


@pytest.fixture(autouse=True)
def stopped() -> Iterator[None]:
    """Every job ends where its work begins."""
    deployment = "owpc_ltr.engine.deployment"
    with (
        mock.patch(f"{deployment}.model_upload.upload_model", side_effect=_stop),
        mock.patch(f"{deployment}.verify.verify_model", side_effect=_stop),
        mock.patch("owpc_ltr.engine.feature_log.log.run_log", side_effect=_stop),
        mock.patch("owpc_ltr.engine.live_results.comparison.compare_rankers", side_effect=_stop),
    ):
        yield


def test_an_upload_is_what_was_asked_for(cluster: Cluster) -> None:
    given: dict[str, Any] = {"window": 7, "allow_slow": True, "client_scored": True, "history": 2}
    with pytest.raises(Work) as work:
        cluster.upload(
            linear(),
            name="m",
            index="small",
            query_template=QUERY,
            params={"k": 3},
            **given,
            **LIMITS,
        )
    request = work.value.args[2]
    assert {name: getattr(request, name) for name in given} == given
    assert request.limits == ProofLimits(**LIMITS)
    assert request.search.params["k"] == 3
    assert request.template == {"query": QUERY}


def test_a_log_is_run_as_was_asked_for(cluster: Cluster, tmp_path: Path) -> None:
    judgments = tmp_path / "judgments.tsv"
    judgments.write_text("query\tdoc_id\tgrade\nalpha\td1\t1\n")
    given: dict[str, Any] = {
        "in_flight": 3,
        "batch": 50,
        "max_absent": 0.5,
        "allow_rejected": True,
        "restart": True,
    }
    with pytest.raises(Work) as work:
        cluster.log_features(
            judgments=judgments, out=tmp_path / "data.parquet", index="small", **given
        )
    assert work.value.named["options"] == LogOptions(**given)


def test_a_comparison_is_made_as_was_asked_for(cluster: Cluster, tmp_path: Path) -> None:
    judgments = tmp_path / "judgments.tsv"
    judgments.write_text("query\tdoc_id\tgrade\nalpha\td1\t1\n")
    with pytest.raises(Work) as work:
        cluster.compare_live(
            [linear(), linear((1.0, 0.0, 0.0))],
            judgments=judgments,
            index="small",
            query_template=QUERY,
            unjudged="condensed",
            unweighted=True,
            smallest_gain=0.25,
            params={"k": 3},
            window=7,
            featureset="small",
            in_flight=3,
            judged_by="ann",
        )
    request, live, in_flight, _ = work.value.args
    assert (request.plan.unjudged, request.plan.smallest_gain) == ("condensed", 0.25)
    assert (request.weighted, in_flight) == (False, 3)
    assert (live.window, live.featureset) == (7, "small")
    (query,) = live.judged
    assert (query.params["k"], query.judged_by) == (3, ["ann"])


def test_a_verification_has_the_limits_that_were_asked_for(cluster: Cluster) -> None:
    with (
        mock.patch("owpc_ltr.engine.deployment.alias.the_name", return_value="m-1"),
        mock.patch.object(UploadedModels, "resolve", return_value="m-1"),
        pytest.raises(Work) as work,
    ):
        cluster.verify("m-1", **LIMITS)
    assert work.value.named["limits"] == ProofLimits(**LIMITS)
