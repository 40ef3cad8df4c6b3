"""Five nights of `owpc-ltr keep` on a real engine, without human labels, and what is told."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from owpc_ltr_keep.keep import KeepRun, run_once
from owpc_ltr_keep.plan import KeepPlan, read_plan
from owpc_ltr_keep.workflow import Workflow

from owpc_ltr import connect
from owpc_ltr.engine.client.responses import EngineRefusal
from owpc_ltr.engine.deployment.alias import Alias, Aliases
from owpc_ltr.engine.experiments import STOPPED, Experiments
from owpc_ltr.engine.versioned_documents import INDEX as ALIASES
from owpc_ltr.features.feature_set import FeatureSet
from tests.engine.deployed import put
from tests.engine.small_cluster import FEATURESET, WORDS, Small, linear, shared_cluster
from tests.engine.ubi_indices import PLUGIN, drop, filled
from tests.experiment.users import click_line, log_of_users, query_line
from tests.keep.test_rounds import TOLD
from tests.keep.test_watches import LOST, broken

small = shared_cluster(documents=40)

PLAN = """
alias = "{name}"
index = "{index}"
featureset = "{featureset}"

[keep]
every = 0
ubi = true

[keep.experiment]
days = 20

[keep.watch]
max_ms = 10000

[keep.notify]
command = {told}
"""


@dataclass
class Nights:
    """A plan for clicks in the cluster, a clock, and who is told."""

    small: Small
    url: str
    folder: Path
    featureset: str = "small"
    days: float = 0.0

    @property
    def plan(self) -> KeepPlan:
        command = json.dumps(["python3", "-c", TOLD, str(self.folder / "told.jsonl")])
        path = self.folder / "plan.toml"
        path.write_text(PLAN.format(
            name=self.small.name, index=self.small.index, featureset=self.featureset, told=command,
        ))  # fmt: skip
        return read_plan(path)

    @property
    def alias(self) -> Alias:
        alias = Aliases(self.small.engine, self.small.store).find(self.small.name)
        assert alias is not None
        return alias

    def run(self, url: str | None = None) -> KeepRun:
        """The next night."""
        plan = self.plan
        Path(plan.folder).mkdir(exist_ok=True)
        # The engine stamps experiments with its own time: all nights are within a day of it.
        self.days += 0.1
        cluster = connect(url or self.url, store_kind="plugin-free", store=self.small.store.name)
        clock = datetime.now(UTC) + timedelta(days=self.days)
        return run_once(Workflow(plan, cluster), lambda: clock)

    def notices(self) -> list[tuple[str, str]]:
        lines = (self.folder / "told.jsonl").read_text().splitlines()
        return [(message["end"], message["line"]) for message in map(json.loads, lines)]

    def log(self, lines: list[dict[str, Any]]) -> None:
        """What users did, all of it."""
        kinds = (("ubi_queries", False), ("ubi_events", True))
        for (index, clicks), mapping in zip(kinds, PLUGIN, strict=True):
            wanted = [line for line in lines if ("action_name" in line) is clicks]
            filled(self.small.engine, index, wanted, mapping)

    def log_of_experiment(self, damage: Any = lambda lines: lines) -> None:
        """What users did with the experiment: B puts what they want first."""
        experiment = Experiments(self.small.engine).get(self.small.name)
        path = self.folder / "log.jsonl"
        log_of_users(experiment, path, np.random.default_rng(1), clients=400)
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        # What is later than now is not read.
        self.log(damage([{**line, "timestamp": experiment.started} for line in lines]))


@pytest.fixture
def nights(small: Small, node_url: str, tmp_path: Path) -> Iterator[Nights]:
    yield Nights(small, node_url, tmp_path)
    with suppress(EngineRefusal):
        record = f"/{ALIASES}/_doc/experiment%2F{small.name}"
        small.engine.request("DELETE", record, params={"refresh": "true"})
    for index in ("ubi_queries", "ubi_events"):
        drop(small.engine, index)


def clicks_of_users(small: Small, seed: int = 1) -> list[dict[str, Any]]:
    """People see ten documents of the index, in any order, and click on large ones."""
    rng = np.random.default_rng(seed)
    sizes = {name: source["size"] for name, source in small.sources().items()}
    lines = []
    for number, words in enumerate([*combinations(WORDS, 2)] * 30):
        search, client = f"s{number}", f"u{number}"
        shown = rng.permutation(sorted(sizes))[:10].tolist()
        page = {**query_line(search, client, {}, shown), "user_query": " ".join(words)}
        lines.append(page)
        for rank, document in enumerate(shown, 1):
            if rng.random() < (0.7 if sizes[document] > 5 else 0.05) / rank**0.5:
                click = click_line(search, client, document, {}, number)
                click["event_attributes"]["position"] = {"ordinal": rank}
                lines.append(click)
    began = f"{datetime.now(UTC) - timedelta(days=1):%Y-%m-%dT%H:%M:%SZ}"
    return [{**line, "timestamp": began} for line in lines]


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore::owpc_ltr.OwpcLtrWarning")
def test_five_nights(nights: Nights) -> None:
    small = nights.small
    template = {"query": {"match": {"body": "{{keywords}}"}}}
    bad = put(small, linear((0.3, 0.3, -1.0)), search=None, template=template).alias.current

    # Clicks only: the first night reaches users, the second one promotes what they prefer.
    nights.log(clicks_of_users(small))
    first = nights.run()
    assert first.done == "waiting", first
    assert [step.step for step in first.steps] == [
        "log", "train", "upload", "experiment", "experiment",
    ]  # fmt: skip
    assert nights.alias.current == bad
    nights.log_of_experiment()
    assert nights.run().done == "promoted"
    assert nights.alias.current == nights.alias.challenger or nights.alias.previous[-1] == bad
    good = nights.alias.current

    # A new feature set is a normal change: the champion keeps its own.
    fewer = FeatureSet("fewer", FEATURESET.features[1:])
    small.store.put_featureset(fewer)
    nights.featureset = "fewer"
    nights.log(clicks_of_users(small, 2))
    changed = nights.run()
    assert changed.done == "waiting", changed
    assert "of 2 features" in changed.steps[1].line

    # A broken logger: clicks of pages that B leads are lost.
    nights.log_of_experiment(broken)
    withdrawn = nights.run()
    assert withdrawn.done == "rolled back"
    assert re.search(LOST, withdrawn.reason)
    assert Experiments(small.engine).get(small.name).state == STOPPED
    assert nights.alias.current == good

    # Documents are deleted: nothing is rolled back for it, and the night is told.
    nights.log(clicks_of_users(small, 3))
    gone = {"query": {"range": {"size": {"gte": 5}}}}
    small.engine.request(
        "POST", f"/{small.index}/_delete_by_query", body=gone, params={"refresh": "true"}
    )
    deleted = nights.run()
    assert deleted.refusal is not None
    assert (deleted.done, deleted.refusal.exit_code) == ("failed", 3)
    assert "judged documents" in deleted.reason
    assert nights.alias.current == good

    # The engine is stopped.
    stopped = nights.run("http://127.0.0.1:9")
    assert stopped.refusal is not None
    assert (stopped.done, stopped.refusal.exit_code) == ("failed", 4)

    expected = ["waiting", "promoted", "waiting", "rolled back", "failed", "failed"]
    assert [end for end, _ in nights.notices()] == expected
    assert [step.end for step in stopped.history if step.end] == expected
