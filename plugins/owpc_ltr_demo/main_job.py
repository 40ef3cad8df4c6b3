"""The demo: from the documentation of this Python to a ranker in a real engine, step by step."""

from __future__ import annotations

import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from owpc_ltr.errors import UsageError
from owpc_ltr_demo.cheaper import train_cheaper
from owpc_ltr_demo.files import DemoFiles, write_files
from owpc_ltr_demo.from_clicks import (
    FROM_CLICKS,
    compare_live,
    judge_behaviour,
    train_on_clicks,
)
from owpc_ltr_demo.narration import Narrator, Silent
from owpc_ltr_demo.plain_trees import train_plain_trees
from owpc_ltr_demo.preparing import (
    find_candidates,
    index_corpus,
    log_candidates,
    push_featureset,
    running_node,
    start_node,
)
from owpc_ltr_demo.proving import (
    Rankers,
    compare_rankers,
    search_held_out,
    train_owpc,
    tune_baseline,
    upload_model,
    upload_models,
)
from owpc_ltr_demo.users import let_users_click
from owpc_ltr_demo.walk import CLICKS_MODEL, CLICKS_STEPS, INDEX, MODEL, Cluster, DemoOptions, Walk

if TYPE_CHECKING:
    from collections.abc import Callable

    from owpc_ltr.data.dataset import RankingDataset
    from owpc_ltr.data.splits import DatasetSplits
    from owpc_ltr.engine.client.engine import Engine
    from owpc_ltr_demo.judged import Pool


@dataclass(frozen=True)
class Logged:
    """What there is once features are logged: a cluster, queries with candidates, and the sides."""

    cluster: Cluster
    found: list[Pool]
    sides: DatasetSplits[RankingDataset]


def run_demo(
    options: DemoOptions | None = None, narrator: Narrator | None = None
) -> dict[str, Any]:
    """Walk the whole road; returns every figure that was told, and leaves the node running.

    No test query decides anything: boosts are tuned on training queries; loss weights, C and trees
    are chosen on validation queries; all by one metric.
    """
    return _walked(Walk(options or DemoOptions(), narrator or Silent()), go_on_with)


def run_clicks(
    options: DemoOptions | None = None, narrator: Narrator | None = None
) -> dict[str, Any]:
    """Walk the road from clicks: as `run_demo`, with judgments that simulated users give.

    True grades decide nothing of the ranker from clicks. By them it is measured, and another one
    is trained for comparison.
    """
    walk = Walk(options or DemoOptions(), narrator or Silent(), CLICKS_STEPS)
    return _walked(walk, go_on_with_clicks)


def _walked(walk: Walk, go_on: Callable[[Walk, Engine], None]) -> dict[str, Any]:
    _prepare_folder(walk.options.folder)
    go_on(walk, start_node(walk))
    walk.narrator.line()
    walk.narrator.line(f"Done in {walk.figures['seconds']['all']:.0f} s. The node runs on. Next:")
    for command in walk.figures["next"]:
        walk.narrator.line(f"  {command}")
    return walk.figures


def run_files(options: DemoOptions, narrator: Narrator | None = None) -> DemoFiles:
    """Write the demo's files into its folder; the node that found candidates is left running."""
    walk = Walk(options, narrator or Silent())
    _prepare_folder(options.folder)
    engine = running_node(walk)
    files = write_files(engine, options.folder, options.queries, walk.narrator)
    walk.narrator.line(
        f"the node at {engine.settings.url} runs on; walk the road: docs/first-road.md"
    )
    return files


def go_on_with(walk: Walk, engine: Engine) -> None:
    """All steps after the first, on a node that is there."""
    learn_from_judgments(walk, log_corpus(walk, engine))


def go_on_with_clicks(walk: Walk, engine: Engine) -> None:
    """The same from clicks."""
    learn_from_clicks(walk, log_corpus(walk, engine))


def log_corpus(walk: Walk, engine: Engine) -> Logged:
    """The steps that both roads begin with."""
    documents = index_corpus(walk, engine)
    cluster = push_featureset(walk, engine)
    found = find_candidates(walk, engine, documents)
    return Logged(cluster, found, log_candidates(walk, cluster, found))


def learn_from_judgments(walk: Walk, logged: Logged) -> None:
    """All steps after the log."""
    cluster, found, sides = logged.cluster, logged.found, logged.sides
    model, trees = train_owpc(walk, sides), train_plain_trees(walk, sides)
    baseline = tune_baseline(walk, cluster, sides)
    fewer = train_cheaper(walk, cluster, sides, model, baseline)
    compare_rankers(walk, cluster, sides, Rankers(model, fewer, trees, baseline))
    names = upload_models(walk, cluster, model, trees)
    search_held_out(walk, cluster, sides, found, names, baseline)
    _end(walk, what_next(walk.options, cluster.engine.settings.url))


def learn_from_clicks(walk: Walk, logged: Logged) -> None:
    """The same, without a look at true grades but for comparison."""
    cluster, found, sides = logged.cluster, logged.found, logged.sides
    clicked = let_users_click(walk, cluster, sides, found)
    models = train_on_clicks(walk, sides, judge_behaviour(walk, clicked))
    baseline = tune_baseline(walk, cluster, sides)
    compare_live(walk, cluster, sides, found, models, baseline)
    with walk.step("upload", "upload the one from clicks, and compare the engine's scores"):
        upload_model(walk, cluster, models[FROM_CLICKS], CLICKS_MODEL, "upload")
    _end(walk, next_after_clicks(walk.options, cluster.engine.settings.url))


def _end(walk: Walk, following: list[str]) -> None:
    seconds = walk.figures["seconds"]
    seconds["all"] = sum(seconds.values())
    walk.figures["next"] = following


def next_after_clicks(options: DemoOptions, url: str) -> list[str]:
    """Commands that go on from where the road from clicks stops."""
    command, events = _command(), options.file("-events.parquet")
    model, judged = options.file("-clicks.json"), options.file("-clicks.parquet")
    there = f"--index {INDEX} --model {CLICKS_MODEL} --query {options.file('-query.json')}"
    return [
        f'{command} search "split a string into lines" {there} --url {url} --title qualified_name',
        f"{command} judge clicks {events} --out {judged}",
        f"{command} judge clicks {events} --out {options.file('-ips.parquet')} --ips",
        f"{command} evaluate {model} {options.file('.parquet')} --metric ndcg@10",
        f"{command} engine stop --port {options.port}",
    ]


def what_next(options: DemoOptions, url: str) -> list[str]:
    """Commands that go on from where the demo stops, ready to be typed."""
    model, data = options.file("-owpc.json"), options.file(".parquet")
    fewer = options.file("-owpc-fewer.json")
    there = f"--index {INDEX} --model {MODEL} --query {options.file('-bm25.json')} --url {url}"
    command = _command()
    cheaper = f"{command} upload {fewer} --index {INDEX} --name {MODEL} --url {url}"
    return [
        f'{command} search "split a string into lines" {there} --title qualified_name',
        f'{command} rescore-body "split a string into lines" {there}',
        f"{command} evaluate {model} {data} --metric ndcg@10 --metric map --against feature:text",
        *([cheaper] if fewer.exists() else []),
        f"{command} train {data} --loss pairwise --optimizer larank --out pairwise.json",
        f"{command} engine stop --port {options.port}",
    ]


def _command() -> str:
    """How this program is called here: by its name, or by its path where that is not enough."""
    if shutil.which("owpc-ltr"):
        return "owpc-ltr"
    return os.path.relpath(Path(sys.executable).parent / "owpc-ltr")


def _prepare_folder(folder: Path) -> None:
    """Refuse a folder that cannot be written to before the work rather than after it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(
            f"cannot make the folder {folder} ({error.strerror}): name another with --folder"
        ) from error
    if not os.access(folder, os.W_OK | os.X_OK):
        raise UsageError(f"the folder {folder} is not writable: name another with --folder")
