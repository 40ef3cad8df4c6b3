"""An agent goes from a folder of judgments to a promoted model, and back."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from owpc_ltr.engine.deployment.alias import Alias, all_aliases
from owpc_ltr.engine.experiments import Experiments
from tests.engine.memory_cluster import score_of
from tests.engine.write_world import World
from tests.experiment.users import log_of_users
from tests.mcp.agent import Agent

LETTERS = list("abcdefghijklmnopqrstuvwxyz")


def judgments_in(folder: Path, queries: int = 120) -> None:
    """Judgments that the feature `title` predicts, but for a fifth."""
    rng = np.random.default_rng(5)
    lines = ["query_id\tkeywords\tdoc_id\tgrade"]
    for number in range(queries):
        words = "".join(rng.choice(LETTERS, 12))
        for place in rng.choice(60, 8, replace=False):
            value = score_of({"match": {"title": words}}, f"d{place}")
            grade = int((value > 4) != (rng.random() < 0.2))
            lines.append(f"q{number}\t{words}\td{place}\t{grade}")
    (folder / "judgments.tsv").write_text("\n".join(lines))


def alias_of(world: World) -> Alias:
    (alias,) = (alias for alias in all_aliases(world.engine) if alias.name == "m")
    return alias


def test_an_agent_promotes_a_model_that_users_prefer_and_goes_back(
    world: World, tmp_path: Path
) -> None:
    judgments_in(tmp_path)
    agent = Agent(tmp_path, allow_changes=True)
    logged = agent.do(
        "log_features", judgments="judgments.tsv", index="small", featureset="small",
        out="data.parquet",
    )  # fmt: skip
    assert "960 judged = 960 logged + 0 absent + 0 rejected" in logged
    assert any("of 960 judged documents" in message for message in agent.progress)
    assert "nothing was found" in agent.do("inspect", data=["data.parquet"])
    trained = agent.do(
        "train", data="data.parquet", out="new.json", loss="owpc", optimizer="larank",
        test_share=0.5, validation_share=0.3,
    )  # fmt: skip
    assert "trained on 27 queries" in trained
    assert "49 queries of data.parquet (held out)" in agent.do(
        "evaluate", model="new.json", data="data.parquet"
    )
    rankers = ["new.json", "feature:size"]
    first = agent.do("compare", rankers=rankers, data="data.parquet")
    assert first.startswith("attempt 1 on these queries")
    assert "better on judged documents: new.json against feature:size" in first.splitlines()[2]
    assert "cluster.compare_live(['new.json'" in " ".join(first.split())
    again = agent.do("compare", rankers=rankers, data="data.parquet", metrics=["map"], seed=3)
    assert again.startswith("attempt 2 on these queries: p counts 3.0 times\n[")

    before = alias_of(world)
    uploaded = agent.do("upload", model="new.json", name="m", index="small", role="challenger")
    assert "challenger of the alias 'm'" in uploaded
    assert "to replace it, show that it is better" in agent.refused("models_promote", name="m")
    agent.do("experiment_start", name="titles", a="m", b="m:challenger")
    experiment = Experiments(world.engine).get("titles")
    log_of_users(experiment, tmp_path / "events.jsonl", np.random.default_rng(1))
    events = {"name": "titles", "events": ["events.jsonl"]}
    status = agent.do("experiment_status", **events, out="better.json")
    assert status.splitlines()[1] == "better"
    agent.do("experiment_stop", **events, promote_if="better")
    assert alias_of(world).current == experiment.b
    assert "switch.verdict" in agent.do("models_show", name="m")
    agent.do("models_rollback", name="m")
    assert alias_of(world).current == before.current
    # What users have is again what the experiment compared with, which somebody found to be better.
    assert "to replace it" in agent.refused("models_promote", name=experiment.b)
    again = agent.refused("models_promote", name=experiment.b, require="better.json")
    assert "and 'm' was rolled back at" in again
    assert alias_of(world).current == before.current
