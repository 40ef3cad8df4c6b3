"""What happens on a node with the LTR plugin, scripted from its recordings."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from owpc_ltr.engine.deployment.prune import prunable
from owpc_ltr.engine.deployment.trial import searchable
from owpc_ltr.interop.export import export_linear
from tests.engine.scripted_plugin import ScriptedPlugin
from tests.engine.small_cluster import FEATURESET, Small, linear, small_cluster

pytestmark = pytest.mark.node


@pytest.fixture
def small(plugin_node: tuple[str, ScriptedPlugin]) -> Iterator[Small]:
    with small_cluster(plugin_node[0], kind="ltr-plugin") as made:
        yield made


def test_what_a_killed_trial_left_is_known_as_ours(small: Small) -> None:
    with searchable(small.store, export_linear(linear(), FEATURESET, "it")) as kept:
        assert prunable(small.engine, small.store) == [kept.name]
    assert small.store.list_models() == []
