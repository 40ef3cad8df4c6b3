"""`demo`: from the documentation of this Python to a ranker in a real engine, step by step."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from owpc_ltr.errors import UsageError
from owpc_ltr.signatures import Help, Seed, job, spelled
from owpc_ltr_demo.session import (
    CLICKS_MODEL,
    CLICKS_STEPS,
    FOLDER,
    INDEX,
    MODEL,
    PORT,
    QUERIES,
    STEPS,
    DemoOptions,
    DemoSession,
    LoggedFeatures,
)

if TYPE_CHECKING:
    from owpc_ltr.engine.client.engine import Engine


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
        int,
        Help(
            "Number of threads; more than the free cores only slow it down.",
            min=1,
            panel="Advanced",
        ),
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
    return DemoResult(
        figures, f"  the node at {url} is still running; next: docs/start-opensearch.md"
    )


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
        f"{command} evaluate {model} --data {data} --metric ndcg@10,map --baseline feature:text",
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
        f"{command} evaluate {model} --data {options.file('.parquet')} --metric ndcg@10",
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
