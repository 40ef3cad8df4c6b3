"""A proof on almost nothing proves nothing: a least share and number of documents and queries."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from owpc_ltr.engine.client.engine import Engine
from owpc_ltr.engine.deployment.alias import all_aliases
from owpc_ltr.engine.deployment.model_upload import Uploaded, upload_model
from owpc_ltr.engine.deployment.verify import verify_model
from owpc_ltr.engine.stores.plugin_free import PluginFreeStore
from owpc_ltr.errors import OwpcLtrError, Refused, UsageError
from tests.engine.memory_cluster import MemoryCluster
from tests.engine.small_cluster import FEATURESET, linear, probes

SAMPLES = probes(documents=60, queries=4)
ASKED = sorted({document for sample in SAMPLES for document in sample["document_ids"]})


class Held:
    """A cluster whose index holds these documents."""

    def __init__(self, documents: list[str]) -> None:
        self.cluster = MemoryCluster()
        self.engine = cast(Engine, self.cluster)
        self.store = PluginFreeStore(self.engine)
        self.hold(documents)
        self.store.put_featureset(FEATURESET)

    def hold(self, documents: list[str]) -> None:
        if "small" in self.cluster.indices:
            self.engine.request("DELETE", "/small")
        self.engine.request("PUT", "/small", body={})
        for document in documents:
            self.engine.request("PUT", f"/small/_doc/{document}", body={"n": 1})

    def upload(self, samples: list[dict[str, Any]] = SAMPLES, **how: Any) -> Uploaded:
        model = linear(probes=samples)
        return upload_model(self.engine, self.store, model, FEATURESET, "small", "m", **how)


def test_a_model_is_not_proven_on_one_document_of_many() -> None:
    held = Held(ASKED[:1])
    with pytest.raises(Refused, match=r"only \d of the 48 judged documents .* 'small', and a proof "
                       "needs 24: .*--min-proof-coverage"):  # fmt: skip
        held.upload()
    assert all_aliases(held.engine) == []
    assert held.store.list_models() == []


def test_documents_of_one_query_are_no_proof_for_the_others() -> None:
    first = SAMPLES[0]["document_ids"]
    alone = [*SAMPLES[:1], *({**one, "document_ids": ["x"]} for one in SAMPLES[1:])]
    with pytest.raises(Refused, match="only 1 of the 4 judged queries"):
        Held(first).upload(alone)


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9, 1.0])
def test_the_share_is_the_least_that_passes(share: float) -> None:
    """Documents are taken out one by one: it passes just as long as their share is that."""
    ids = [f"d{number}" for number in range(40)]
    samples = [
        {**SAMPLES[0], "query_id": f"q{part}", "document_ids": ids[part::2]} for part in (0, 1)
    ]
    for there in (1, 4, 9, 10, 19, 20, 21, 35, 36, 39, 40):
        held = Held(ids[:there])
        enough = there >= 10 and there / 40 >= share
        try:
            parity = held.upload(samples, min_proof_coverage=share).parity
        except Refused:
            assert not enough, there
            continue
        assert enough, there
        assert (parity.documents, parity.absent) == (there, 40 - there)
        told = f"{there} of 40 documents ({there / 40:.0%}) of 2 of 2 queries"
        assert parity.compared() == ("40 documents of 2 queries" if there == 40 else told)


def test_a_share_of_nothing_takes_any_and_none_takes_nothing() -> None:
    assert Held(ASKED[:1]).upload(min_proof_coverage=0).parity.documents >= 1
    with pytest.raises(Refused, match="none of the judged documents"):
        Held([]).upload(min_proof_coverage=0)
    with pytest.raises(UsageError, match="a share of documents is 0 to 1"):
        Held(ASKED).upload(min_proof_coverage=2)


def test_a_model_that_remembers_few_documents_needs_all_of_them() -> None:
    few = [{**SAMPLES[0], "document_ids": ["d1", "d2", "d3"]}]
    assert Held(["d1", "d2", "d3"]).upload(few).parity.documents == 3
    with pytest.raises(Refused, match="needs 3"):
        Held(["d1", "d2"]).upload(few)


def test_an_uploaded_model_is_not_verified_on_almost_nothing() -> None:
    held = Held(ASKED)
    model = held.upload().model
    assert verify_model(held.engine, held.store, model, tolerance=1e-5).drift == ()
    held.hold(ASKED[:3])
    with pytest.raises(Refused, match=r"only \d+ of the 48 judged documents"):
        verify_model(held.engine, held.store, model, tolerance=1e-5)
    told = verify_model(held.engine, held.store, model, tolerance=1e-5, min_proof_coverage=0).drift
    assert any("documents are gone" in line for line in told)


@pytest.mark.parametrize("index", ["", "..", "a/b", "a,b", "*"])
def test_what_cannot_be_an_index_is_an_error_of_use(index: str) -> None:
    held = Held(ASKED)
    model = held.upload().model
    with pytest.raises(UsageError):
        verify_model(held.engine, held.store, model, index, tolerance=1e-5)


@pytest.mark.parametrize("name", ["m-363e5ec3", "m@363e5ec3", "m-20261122"])
def test_a_name_that_could_be_a_models_own_is_refused(name: str, tmp_path: Path) -> None:
    held = Held(ASKED)
    held.upload()
    before = held.store.list_models()
    with pytest.raises(OwpcLtrError, match=r"would read as a model of 'm'|no name has an '@'"):
        upload_model(held.engine, held.store, linear((2.0, 1.0, 1.0)), FEATURESET, "small", name)
    assert held.store.list_models() == before
    assert [alias.name for alias in all_aliases(held.engine)] == ["m"]


def test_a_date_in_a_name_is_none_where_nothing_else_is_called_so() -> None:
    held = Held(ASKED)
    done = upload_model(held.engine, held.store, linear(), FEATURESET, "small", "shop-20261122")
    assert done.alias.current == done.model
