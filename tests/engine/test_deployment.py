"""An upload proves itself or leaves nothing behind, whatever fails on the way and whoever else."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import pytest

from owpc_ltr.engine.defaults import PARITY_TOLERANCE
from owpc_ltr.engine.deployment.alias import CHALLENGER, Alias, Aliases
from owpc_ltr.engine.deployment.model_upload import upload_model
from owpc_ltr.engine.deployment.parity import check_parity
from owpc_ltr.errors import BadInput, OwpcLtrError, Refused
from owpc_ltr.models.model_file import with_record
from tests.engine.deployed import KINDS, liar, put, state
from tests.engine.small_cluster import FEATURESET, Small, linear, probes, small_cluster


@pytest.fixture(params=KINDS)
def small(request: pytest.FixtureRequest, node_for: Callable[[str], str]) -> Iterator[Small]:
    kind = request.param
    with small_cluster(node_for(kind), kind=kind) as made:
        yield made


def test_an_upload_is_kept_under_its_hash_and_proven_on_the_judged_documents(
    small: Small,
) -> None:
    done = put(small, linear())
    assert done.model.startswith(f"{small.name}-")
    assert done.alias == Alias(small.name, done.model)
    assert (done.parity.queries, done.parity.documents, done.parity.absent) == (4, 48, 0)
    assert done.parity.largest_difference <= PARITY_TOLERANCE
    assert done.parity.swapped == 0
    assert done.parity.tau == pytest.approx(1.0, abs=1e-3)
    assert state(small) == (done.alias, [done.model], [True])


def test_the_same_model_gets_the_same_name_and_no_second_place_in_the_history(
    small: Small,
) -> None:
    first = put(small, linear())
    other = put(small, linear((0.0, 0.0, 1.0)))
    again = put(small, linear((0.0, 0.0, 1.0)))
    assert other.model == again.model != first.model
    assert again.alias == Alias(small.name, other.model, (first.model,))
    assert Aliases(small.engine, small.store).roll_back(small.name).current == first.model


def test_a_model_that_the_engine_scores_otherwise_is_taken_out_and_the_name_unmoved(
    small: Small,
) -> None:
    before = put(small, linear())
    known = state(small)
    with pytest.raises(Refused, match=r"scores differently.*removed again") as raised:
        put(liar(small), linear((2.0, 1.0, 0.0)))
    assert raised.value.exit_code == 5
    assert state(small) == known == (before.alias, [before.model], [True])


def test_a_model_that_is_in_use_is_not_taken_out_when_its_second_upload_fails(
    small: Small,
) -> None:
    put(small, linear())
    known = state(small)
    with pytest.raises(Refused, match=r"scores differently.*stays, for it was there before"):
        put(liar(small), linear())
    assert state(small) == known


@pytest.mark.parametrize("by", [float("nan"), 1 + 1e-3, -1.0])
def test_the_parity_check_catches_each_liar(
    by: float, small: Small, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = put(small, linear((3.0, 0.5, -0.2)))
    stored = small.store.get_model(done.model)
    lying = liar(small, 1.0 if np.isnan(by) else by)
    if np.isnan(by):
        monkeypatch.setattr(
            "owpc_ltr.engine.deployment.parity._engine_scores",
            lambda *a: np.full(len(a[-1]), np.nan),
        )
    model = linear((3.0, 0.5, -0.2))
    parity, _ = check_parity(small.engine, lying.store, stored, model, small.index, probes())
    assert parity.refusal(PARITY_TOLERANCE) is not None
    if by == -1.0:
        assert parity.swapped > 0
        assert parity.tau < 0


def test_parity_says_what_the_labels_lose(small: Small) -> None:
    """A store that turns the order round, on labels that are the model's own order."""
    asked = probes()
    done = put(small, linear((1.0, 0.0, 0.0)))
    stored = small.store.get_model(done.model)
    parity, answered = check_parity(
        small.engine, small.store, stored, linear((1.0, 0.0, 0.0)), small.index, asked
    )
    assert parity.ndcg_difference is None
    for probe, one in zip(asked, answered, strict=True):
        probe["labels"] = (np.argsort(np.argsort(one.local)) // 4).tolist()
    for store, low, high in ((small.store, -1e-6, 1e-6), (liar(small, -1.0).store, -1.0, -0.05)):
        parity, _ = check_parity(
            small.engine, store, stored, linear((1.0, 0.0, 0.0)), small.index, asked
        )
        assert parity.ndcg_difference is not None
        assert low <= parity.ndcg_difference <= high


def test_a_model_without_probes_or_of_another_feature_set_is_refused(small: Small) -> None:
    with pytest.raises(Refused, match="no judged documents"):
        put(small, with_record(linear(), {}))
    with pytest.raises(Refused, match="has changed since"):
        put(small, linear(featureset_hash="f" * 64))
    with pytest.raises(Refused, match="none of the judged documents"):
        put(small, linear(probes=[{**probes()[0], "document_ids": ["nosuch"]}]))
    assert state(small) == (None, [], [])


def test_a_challenger_leaves_the_champion_where_it_is(small: Small) -> None:
    with pytest.raises(Refused, match="to challenge yet"):
        put(small, linear(), role=CHALLENGER)
    assert state(small) == (None, [], [])
    champion = put(small, linear())
    with pytest.raises(Refused, match="challenge itself"):
        put(small, linear(), role=CHALLENGER)
    challenger = put(small, linear((0.0, 1.0, 0.0)), role=CHALLENGER)
    assert challenger.alias == Alias(small.name, champion.model, (), challenger.model)


def test_an_index_that_is_not_there_leaves_nothing_behind(small: Small) -> None:
    with pytest.raises(OwpcLtrError):
        upload_model(small.engine, small.store, linear(), FEATURESET, "no-such-index", small.name)
    assert state(small) == (None, [], [])


def test_a_feature_set_that_lacks_a_feature_is_named(small: Small) -> None:
    fewer = replace(FEATURESET, features=FEATURESET.features[:2])
    with pytest.raises(BadInput, match="lacks 'size'"):
        upload_model(small.engine, small.store, linear(), fewer, small.index, small.name)
