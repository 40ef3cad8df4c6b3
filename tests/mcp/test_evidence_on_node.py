"""Evidence of a real node is what an agent's promotion needs."""

from __future__ import annotations

from pathlib import Path

import pytest

from owpc_ltr.engine.deployment.alias import Aliases
from owpc_ltr.engine.deployment.deployment_record import DeploymentRecords
from owpc_ltr.models.model_file import save_model
from tests.engine.small_cluster import Small, linear
from tests.engine.test_live_commands import place, small
from tests.mcp.agent import Agent

__all__ = ["place", "small"]


def test_a_challenger_that_is_better_live_is_promoted_and_rolled_back(
    small: Small,
    place: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OWPC_LTR_URL", small.engine.settings.url)
    agent = Agent(tmp_path, allow_changes=True)
    where = {"store_kind": "plugin-free", "store": small.name.removeprefix("m-")}
    at = {"name": small.name, "index": small.index, **where}
    agent.do("upload", model="bad.json", query_template="query.json", **at)
    aliases = Aliases(small.engine, small.store)
    old = aliases.resolve(small.name)
    compared = agent.do(
        "compare_live", rankers=["good.json", small.name], judgments="judged.csv",
        metrics=["ndcg@10"], index=small.index, out="better.json", **where,
    )  # fmt: skip
    assert compared.startswith("attempt 1 on these queries\n[")
    line = agent.refused("upload", model="good.json", **at)
    assert f"users of '{small.name}' have '{old}', and would get another model" in line
    agent.do("upload", model="good.json", role="challenger", **at)
    alias = aliases.find(small.name)
    assert alias is not None
    new = str(alias.challenger)
    assert "and would get another model" in agent.refused("models_promote", name=new, **where)
    agent.do("models_promote", name=small.name, require="better.json", **where)
    assert aliases.resolve(small.name) == new
    record = DeploymentRecords(small.engine, small.store).get(new)
    assert record.switch is not None
    assert record.switch["over"] == old
    line = agent.refused("models_promote", name=old, require="better.json", **where)
    assert f"and users have {new}, which is another model" in line
    # A model that changes little is another one.
    agent.do("models_rollback", name=small.name, **where)
    save_model(linear((1.0, 0.0, 0.01)), tmp_path / "other.json")
    line = agent.refused("upload", model="other.json", require="better.json", **at)
    assert "the evidence is of another model than those of the switch ('good.json')" in line
    # An agent does not undo a rollback by what was known before it.
    line = agent.refused("models_promote", name=new, require="better.json", **where)
    assert f"and '{small.name}' was rolled back at 20" in line
    assert aliases.resolve(small.name) == old
