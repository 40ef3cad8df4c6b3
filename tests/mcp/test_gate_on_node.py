"""A gate's record of a real node is what an agent's promotion needs."""

from __future__ import annotations

from pathlib import Path

import pytest

from owpc_ltr.engine.deployment.alias import Aliases
from owpc_ltr.engine.deployment.deployment_record import DeploymentRecords
from owpc_ltr.engine.deployment.model_upload import upload_model
from tests.engine.small_cluster import FEATURESET, Small, linear
from tests.engine.test_live_commands import place, small
from tests.mcp.agent import Agent

__all__ = ["place", "small"]


def test_a_challenger_that_passed_its_gate_is_promoted_and_rolled_back(
    small: Small,
    place: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OWPC_LTR_URL", small.engine.settings.url)
    old = upload_model(
        small.engine, small.store, linear((0.0, 0.0, -1.0)), FEATURESET,
        index=small.index, name=small.name,
    )  # fmt: skip
    agent = Agent(tmp_path, allow_changes=True)
    where = {"store_kind": "plugin-free", "store": small.name.removeprefix("m-")}
    uploaded = agent.do(
        "upload", model="good.json", name=small.name, as_="challenger", index=small.index,
        require_gain="ndcg@10", judgments="judged.csv", query_template="query.json", **where,
    )  # fmt: skip
    assert uploaded.startswith("attempt 1 on these queries\n[")
    aliases = Aliases(small.engine, small.store)
    alias = aliases.find(small.name)
    assert alias is not None
    record = DeploymentRecords(small.engine, small.store).get(str(alias.challenger))
    assert record.gate is not None
    assert (record.gate["over"], record.gate["model"]) == (old.model, alias.challenger)
    agent.do("models_promote", name=small.name, **where)
    promoted = aliases.find(small.name)
    assert promoted is not None
    assert promoted.current == alias.challenger
    agent.do("models_rollback", name=small.name, **where)
    agent.do("models_promote", name=str(alias.challenger), **where)
    again = aliases.find(small.name)
    assert again is not None
    assert again.current == alias.challenger
    line = agent.refused("models_promote", name=old.model, **where)
    assert f"'{old.model}' is not promoted: its deployment record has no gate" in line
