"""What a gain is shown on: judgments of one kind, or cheap ones and a sample of people's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from owpc_ltr.data.parquet import save_dataset
from owpc_ltr.engine.deployment.upload import gate_judgments
from owpc_ltr.errors import BadInput, UsageError
from owpc_ltr.evaluation.proxy_labels import read_strata, write_strata
from tests.compared import QUERIES, judged

DATA = judged(np.ones(QUERIES))


def given(**how: Any) -> Any:
    asked = dict.fromkeys(("proxy", "human", "strata", "live"))
    return gate_judgments(how.pop("metric", "ndcg@10"), how.pop("data", None), **{**asked, **how})


def test_what_is_given_alone_is_taken_as_it_is() -> None:
    assert given(data=DATA).data is DATA
    assert given(data=DATA).human is None


def test_files_are_read(tmp_path: Path) -> None:
    save_dataset(DATA, tmp_path / "clicks.parquet")
    write_strata(DATA.query_ids.to_pylist(), ["1"] * QUERIES, tmp_path / "strata.csv")
    rows = ["query_id\tquery\tdoc_id\tgrade", "q0\twords\td0\t1", "q1\tothers\td8\t0"]
    (tmp_path / "sample.tsv").write_text("\n".join(rows) + "\n")
    found = given(
        proxy=tmp_path / "clicks.parquet",
        human=tmp_path / "sample.tsv",
        strata=tmp_path / "strata.csv",
    )
    assert found.data.n_queries == QUERIES
    assert [query.query_id for query in found.human.queries] == ["q0", "q1"]
    assert found.strata["q7"] == "1"


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ({"proxy": DATA}, "give human_labels=, too"),
        ({"human": DATA}, "give proxy_labels=, too"),
        ({"proxy": DATA, "human": DATA, "metric": None}, "with require_gain="),
        ({"proxy": DATA, "human": DATA, "data": DATA}, "proxy_labels= and data="),
        ({"proxy": DATA, "human": DATA, "live": object()}, "proxy_labels= and judgments="),
        ({"strata": {"q0": "1"}}, "give proxy_labels= and human_labels="),
    ],
)
def test_what_does_not_go_together_is_refused(how: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        given(**how)


@pytest.mark.parametrize("text", ["", "query,stratum\n", "query_id,stratum\nq0,1\nq0,2\n"])
def test_strata_of_another_kind_are_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "strata.csv").write_text(text)
    with pytest.raises(BadInput, match=r"strata\.csv"):
        read_strata(tmp_path / "strata.csv")
