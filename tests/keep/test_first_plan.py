"""The first plan of the page, as it stands, after what a new user types before it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from owpc_ltr.engine.client.responses import EngineRefusal
from owpc_ltr.engine.experiments import RUNNING, Experiments
from owpc_ltr.engine.versioned_documents import INDEX as ALIASES
from owpc_ltr.host.project import PROJECT_FILE
from tests.commands import Run
from tests.engine.small_cluster import Small, fill, shared_cluster
from tests.engine.ubi_indices import PLUGIN, drop, filled
from tests.keep.test_five_nights import clicks_of_users
from tests.keep.test_operations_page import PAGE, blocks

small = shared_cluster(documents=4)

BEFORE = """
featureset suggest --index products --out products.json
featureset push products.json --index products
judge clicks --from-ubi --index products --out clicks.parquet
log-features --judgments clicks.parquet --index products --featureset products --out data.parquet
train data.parquet --out model.json
"""


@pytest.fixture
def products(small: Small) -> Iterator[Small]:
    """An index of this name with clicks; what is made there is gone at the end."""
    fill(small.engine, "products", 40)
    yield replace(small, index="products", name="products", documents=40)
    for index in ("products", "ubi_queries", "ubi_events"):
        drop(small.engine, index)
    for document in ("products", "experiment%2Fproducts", "attempts%2Fproducts"):
        with suppress(EngineRefusal):
            small.engine.request("DELETE", f"/{ALIASES}/_doc/{document}")


def clicked(small: Small, seed: int) -> None:
    lines = clicks_of_users(small, seed)
    for (index, clicks), mapping in zip(
        (("ubi_queries", False), ("ubi_events", True)), PLUGIN, strict=True
    ):
        filled(small.engine, index, [x for x in lines if ("action_name" in x) is clicks], mapping)


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore::owpc_ltr.OwpcLtrWarning")
def test_the_first_plan_of_the_page_shows_a_model_of_clicks_to_users(
    products: Small, node_url: str, tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OWPC_LTR_URL", node_url)
    clicked(products, 1)
    query = {"query": {"multi_match": {"query": "{{keywords}}", "fields": ["title", "body"]}}}
    (tmp_path / "query.json").write_text(json.dumps(query))
    (tmp_path / PROJECT_FILE).write_text(blocks("toml")[0])
    store = ("--store-kind", "plugin-free", "--store", products.store_name)
    upload, keep = (
        line.removeprefix("$ owpc-ltr ")
        for line in PAGE.splitlines()
        if line.startswith(("$ owpc-ltr upload", "$ owpc-ltr keep"))
    )
    for line in (*BEFORE.strip().splitlines(), upload):
        needs_store = line.startswith(("featureset push", "log", "upload"))
        code, out, err = run(*line.split(), *(store if needs_store else ()))
        assert code == 0, f"{line}: {out}{err}"
    clicked(products, 2)
    for _ in range(2):
        code, out, err = run(*keep.split(), *store)
        assert code == 0, out + err
        assert "done: waiting" in out
    assert Experiments(products.engine).get("products").state == RUNNING
    assert "is shown, beside" in (tmp_path / "history.html").read_text()
