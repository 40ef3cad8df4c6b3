"""`demo`: from the documentation of this Python to a ranker in a real engine, step by step.

The command and its steps in order, then the session: names, options, printed steps and figures.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from owpc_ltr.errors import UsageError
from owpc_ltr.plain_text import text_table
from owpc_ltr.signatures import Help, Progress, Seed, job, spelled

if TYPE_CHECKING:
    from owpc_ltr.data.dataset import RankingDataset
    from owpc_ltr.data.splits import DatasetSplits
    from owpc_ltr.engine.client.engine import Engine
    from owpc_ltr.engine.stores.store import Store
    from owpc_ltr.features.feature_set import FeatureSet
    from owpc_ltr_demo.queries import CandidatePool

PORT = 9270
"""The port of the demo's own node."""
FOLDER = Path("owpc-ltr-demo")
QUERIES = 2500
INDEX = "python-docs"
"""The name of the index and of the feature set."""
MODEL = "python-docs-owpc"
TREES_MODEL = "python-docs-trees"
WINDOW = 100
"""Documents that a model reranks in a live search."""
SELECT = "ndcg@10"
"""The metric that selects loss weights, C, trees and boosts."""
CLICKS_MODEL = "python-docs-clicks"
STEPS, CLICKS_STEPS = 12, 11
"""The number of steps with judgments, and with clicks."""


@dataclass(frozen=True)
class DemoResult:
    """The figures of the demo; `text` is what remains to be printed after its steps."""

    figures: dict[str, Any]
    text: str

    def __str__(self) -> str:
        return self.text

    def as_dict(self) -> dict[str, Any]:
        """The figures as JSON."""
        return self.figures


@job
def demo(
    *,
    port: Annotated[int, Help("The port of the demo's own node.")] = PORT,
    folder: Annotated[
        Path | str,
        Help("The folder for judgments, dataset, models and baseline.", metavar="FOLDER"),
    ] = FOLDER,
    queries: Annotated[
        int, Help("The number of queries; a fifth of them is held out.", min=200)
    ] = QUERIES,
    files: Annotated[
        Path | str | None,
        Help(
            "Only write corpus, settings, features and judgments, into this folder.",
            metavar="FOLDER",
        ),
    ] = None,
    clicks: Annotated[bool, Help("Learn from clicks of simulated users on live results.")] = False,
    threads: Annotated[
        int, Help("Threads; more than free cores only slow down.", min=1, panel="Advanced")
    ] = 1,
    seed: Seed = 0,
) -> DemoResult:
    """Run the whole workflow on Python's own documentation.

    Starts a node of its own, indexes the standard library's documentation, logs features, trains
    OWPC, compares it with tuned BM25 and LambdaMART, uploads it and searches live. Each docstring's
    summary is the query that should find its object. The node is left running.

    With --clicks the judgments come from simulated users, who click on live results; a ranker is
    trained on judgments from their clicks, and compared with others by the true grades.

    With --files no step is run: the files for running the workflow command by command are written.
    """
    if files is not None and clicks:
        raise UsageError(
            f"{spelled('files')} only writes files: leave it out, or leave out {spelled('clicks')}"
        )
    options = DemoOptions(port, Path(folder if files is None else files), queries, threads, seed)
    session = DemoSession(options, steps=CLICKS_STEPS if clicks else STEPS)
    _prepare_folder(options.folder)
    if files is not None:
        return _write_files(session)
    return _run(session, learn_from_clicks if clicks else learn_from_judgments)


def _write_files(session: DemoSession) -> DemoResult:
    """Write the demo's files; the node that found candidates is left running."""
    from owpc_ltr_demo.preparation import running_node, write_files

    engine, options = running_node(session), session.options
    written = write_files(engine, options.folder, options.queries, session.narrator)
    figures = {**asdict(written), "folder": str(written.folder)}
    url = engine.settings.url
    return DemoResult(figures, f"  the node at {url} is still running; next: docs/first-road.md")


def _run(
    session: DemoSession, learn: Callable[[DemoSession, LoggedFeatures], list[str]]
) -> DemoResult:
    """All steps; the node is left running.

    Test queries select nothing: boosts are tuned on training queries; loss weights, C and trees
    are selected on validation queries; all by one metric.
    """
    from owpc_ltr_demo.preparation import start_node

    commands = learn(session, log_corpus(session, start_node(session)))
    seconds = session.figures["seconds"]
    seconds["all"] = sum(seconds.values())
    session.figures["next"] = commands
    lines = [f"Done in {seconds['all']:.0f} s. The node is still running. Next:"]
    lines += [f"  {command}" for command in commands]
    return DemoResult(session.figures, "\n".join(["", *(f"  {line}" for line in lines)]))


def log_corpus(session: DemoSession, engine: Engine) -> LoggedFeatures:
    """The steps before training, on a running node."""
    from owpc_ltr_demo.preparation import (
        find_candidates,
        index_corpus,
        log_candidates,
        push_featureset,
    )

    documents = index_corpus(session, engine)
    node = push_featureset(session, engine)
    pools = find_candidates(session, engine, documents)
    return LoggedFeatures(node, pools, log_candidates(session, node, pools))


def learn_from_judgments(session: DemoSession, logged: LoggedFeatures) -> list[str]:
    """The steps after the log; returns commands that continue from there."""
    from owpc_ltr_demo.evaluation import (
        DemoRankers,
        compare_rankers,
        search_held_out,
        upload_models,
    )
    from owpc_ltr_demo.training import (
        train_interaction_trees,
        train_owpc,
        train_with_fewer_features,
        tune_baseline,
    )

    node, splits = logged.engine, logged.splits
    model, trees = train_owpc(session, splits), train_interaction_trees(session, splits)
    baseline = tune_baseline(session, node, splits)
    fewer = train_with_fewer_features(session, node, splits, model, baseline)
    compare_rankers(session, node, splits, DemoRankers(model, fewer, trees, baseline))
    names = upload_models(session, node, model, trees)
    search_held_out(session, logged, names, baseline)
    return next_commands(session.options, node.engine.settings.url)


def learn_from_clicks(session: DemoSession, logged: LoggedFeatures) -> list[str]:
    """The same with judgments from clicks; true grades serve only for comparison."""
    from owpc_ltr_demo.clicks import (
        FROM_CLICKS,
        compare_live,
        judge_simulated_clicks,
        simulate_clicks,
        train_on_clicks,
    )
    from owpc_ltr_demo.evaluation import uploaded_name
    from owpc_ltr_demo.training import tune_baseline

    node, splits = logged.engine, logged.splits
    log = simulate_clicks(session, node, splits, logged.pools)
    models = train_on_clicks(session, splits, judge_simulated_clicks(session, log))
    baseline = tune_baseline(session, node, splits)
    compare_live(session, logged, models, baseline)
    with session.step(
        "upload", "upload the model from clicks, and compare engine and local scores"
    ):
        uploaded_name(session, node, models[FROM_CLICKS], CLICKS_MODEL, "upload")
    return next_commands_after_clicks(session.options, node.engine.settings.url)


def next_commands(options: DemoOptions, url: str) -> list[str]:
    """Commands that continue after the demo."""
    model, data = options.file("-owpc.json"), options.file(".parquet")
    fewer = options.file("-owpc-fewer.json")
    query = f"--query-template {options.file('-bm25.json')}"
    target = f"--index {INDEX} --model {MODEL} {query} --url {url}"
    command = _command()
    upload = f"{command} upload {fewer} --index {INDEX} --name {MODEL} --url {url}"
    return [
        f'{command} search "split a string into lines" {target} --title-field qualified_name',
        f'{command} request "split a string into lines" {target}',
        f"{command} evaluate {model} {data} --metric ndcg@10 --metric map --baseline feature:text",
        *([upload] if fewer.exists() else []),
        f"{command} train {data} --loss pairwise --optimizer larank --out pairwise.json",
        f"{command} engine stop --port {options.port}",
    ]


def next_commands_after_clicks(options: DemoOptions, url: str) -> list[str]:
    """Commands that continue after the demo from clicks."""
    command, events = _command(), options.file("-events.parquet")
    model, judged = options.file("-clicks.json"), options.file("-clicks.parquet")
    query = options.file("-query.json")
    target = f"--index {INDEX} --model {CLICKS_MODEL} --query-template {query} --url {url}"
    return [
        f'{command} search "split a string into lines" {target} --title-field qualified_name',
        f"{command} judge clicks {events} --out {judged}",
        f"{command} judge clicks {events} --out {options.file('-ips.parquet')} --ips",
        f"{command} evaluate {model} {options.file('.parquet')} --metric ndcg@10",
        f"{command} engine stop --port {options.port}",
    ]


def _command() -> str:
    """The program as it is called here: its name, or its path where that is not on PATH."""
    if shutil.which("owpc-ltr"):
        return "owpc-ltr"
    return os.path.relpath(Path(sys.executable).parent / "owpc-ltr")


def _prepare_folder(folder: Path) -> None:
    """Refuse a folder that cannot be written to, before the work."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(
            f"cannot make the folder {folder} ({error.strerror}): name another with "
            f"{spelled('folder')}"
        ) from error
    if not os.access(folder, os.W_OK | os.X_OK):
        raise UsageError(
            f"the folder {folder} is not writable: name another with {spelled('folder')}"
        )


class Narrator:
    """Prints the steps of the demo and their results."""

    def step(self, number: int, total: int, title: str) -> None:
        """Begin a numbered step."""
        print(f"\n[{number}/{total}] {title}")

    def line(self, text: str = "") -> None:
        """Print one result."""
        print(f"  {text}" if text else "")

    def table(self, headers: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
        """Print figures."""
        print(text_table(headers, rows))

    def working(self) -> AbstractContextManager[Progress]:
        """The progress of a long task on a terminal; nothing is printed meanwhile."""
        from owpc_ltr.cli.terminal import progress

        return progress()


@dataclass(frozen=True)
class DemoOptions:
    """The options of the demo."""

    port: int = PORT
    folder: Path = FOLDER
    queries: int = QUERIES
    threads: int = 1
    seed: int = 0

    def file(self, ending: str) -> Path:
        """A file of the demo."""
        return self.folder / f"{INDEX}{ending}"


@dataclass
class DemoSession:
    """A run of the demo: its options, and the figures so far."""

    options: DemoOptions
    narrator: Narrator = field(default_factory=Narrator)
    steps: int = STEPS
    figures: dict[str, Any] = field(default_factory=lambda: {"seconds": {}})

    @contextmanager
    def step(self, key: str, title: str) -> Iterator[None]:
        """Print a step, and record its seconds."""
        self.narrator.step(len(self.figures["seconds"]) + 1, self.steps, title)
        started = time.monotonic()
        yield
        self.figures["seconds"][key] = time.monotonic() - started


@dataclass(frozen=True)
class DemoEngine:
    """The demo's node, its store and feature set."""

    engine: Engine
    store: Store
    featureset: FeatureSet


@dataclass(frozen=True)
class LoggedFeatures:
    """The results of the steps before training: engine, candidates, and the dataset's splits."""

    engine: DemoEngine
    pools: list[CandidatePool]
    splits: DatasetSplits[RankingDataset]
