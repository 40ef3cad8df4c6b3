"""An index that was made anew is an alias: everything that takes an index's name takes it."""

from __future__ import annotations

import contextlib
import json
import uuid
from pathlib import Path

import numpy as np
import pytest

from owpc_ltr.data.datasets import read_dataset
from owpc_ltr.data.judgments import JudgedQuery, Judgments
from owpc_ltr.engine.client.engine import Engine
from owpc_ltr.engine.client.refusals import EngineRefusal
from owpc_ltr.engine.client.settings import ConnectionSettings
from owpc_ltr.engine.cluster import Cluster
from tests.engine.small_cluster import FEATURESET, WORDS, linear


@pytest.mark.filterwarnings("ignore::owpc_ltr.errors.OwpcLtrWarning")
def test_a_model_goes_its_whole_way_on_an_index_that_was_made_anew(
    node_url: str, tmp_path: Path
) -> None:

    own = uuid.uuid4().hex[:8]
    engine = Engine(ConnectionSettings(node_url))
    cluster = Cluster(engine, "plugin-free", own)
    index, path = f"anew-{own}", tmp_path / "docs.jsonl"
    rows = (
        {
            "id": f"d{n}",
            "title": WORDS[n % 8],
            "body": f"{WORDS[n % 5]} {WORDS[n % 3]}",
            "size": n + 1,
        }
        for n in range(60)
    )
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    try:
        for existing in ("refuse", "recreate"):
            assert (
                cluster.index(
                    path, index=index, id_field="id", recreate=existing == "recreate"
                ).documents
                == 60
            )
        cluster.featuresets.push(FEATURESET, index=index, params={"keywords": "alpha"})
        labels = np.array([1, 0, 2], np.float32)
        judged = [
            JudgedQuery(f"q{n}", {"keywords": WORDS[n]}, [f"d{n}", "d9", "d20"], labels)
            for n in range(4)
        ]
        out = tmp_path / "logged.parquet"
        cluster.log_features(judgments=Judgments(judged), out=out, featureset="small", index=index)
        assert read_dataset(out).n_documents == 12
        cluster.upload(linear(), name=f"m-{own}", index=index, featureset="small")
        found = cluster.verify(f"m-{own}")
        assert (found.index, found.drift) == (index, ())
        assert cluster.search("alpha", model=f"m-{own}").index == index
        cluster.index(path, index=index, id_field="id", recreate=True)
        found = cluster.verify(f"m-{own}")
        assert found.drift == ()
        assert found.notes == (
            f"the index '{index}' was made again, with the same mapping and analysis",
        )
    finally:
        for name in (*engine.request("GET", f"/{index}%2A/_alias"), f"owpc-ltr-store-{own}"):
            with contextlib.suppress(EngineRefusal):
                engine.request("DELETE", f"/{name}")
        engine.close()
