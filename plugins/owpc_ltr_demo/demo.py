"""`demo`: from the documentation of this Python to a ranker in a real engine, step by step."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from owpc_ltr.errors import UsageError
from owpc_ltr.signatures import Help, Seed, job
from owpc_ltr_demo.session import (
    FOLDER,
    INDEX,
    MODEL,
    PORT,
    QUERIES,
    TREES_MODEL,
    DemoOptions,
    DemoSession,
    program,
)

if TYPE_CHECKING:
    from owpc_ltr_demo.preparation import LoggedFeatures


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
        int, Help("The number of queries, of which a fifth is held out.", min=200)
    ] = QUERIES,
    files: Annotated[
        Path | str | None,
        Help(
            "Start the node, and only write corpus, settings, features and judgments here.",
            metavar="FOLDER",
        ),
    ] = None,
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

    With `files` the node is started, and only the files for running the workflow command by command
    are written. The node is left running; with a cluster of your own you may stop it then.
    """
    options = DemoOptions(port, Path(folder if files is None else files), queries, threads, seed)
    session = DemoSession(options)
    _prepare_folder(options.folder)
    return _run(session) if files is None else _write_files(session)


def _write_files(session: DemoSession) -> DemoResult:
    """Write the demo's files; the node that found candidates is left running."""
    from owpc_ltr_demo.preparation import running_node, write_files

    engine = running_node(session)
    url = engine.settings.url
    return DemoResult(
        write_files(session, engine),
        f"  the node at {url} is still running; next, in {session.options.folder}: "
        "docs/start-opensearch.md",
    )


def _run(session: DemoSession) -> DemoResult:
    """All steps on the demo's own node, which is left running; the figures, and how to go on.

    Test queries select nothing: loss weights, C and trees are selected on validation queries,
    boosts are tuned on these and on training queries; all by one metric.
    """
    from owpc_ltr_demo.preparation import log_corpus, start_node

    commands = learn_from_judgments(session, log_corpus(session, start_node(session)))
    seconds = session.figures["seconds"]
    seconds["all"] = sum(seconds.values())
    session.figures["next"] = commands
    lines = [f"Done in {seconds['all']:.0f} s. The node is still running. Next:"]
    lines += [f"  {command}" for command in commands]
    return DemoResult(session.figures, "\n".join(["", *(f"  {line}" for line in lines)]))


def learn_from_judgments(session: DemoSession, logged: LoggedFeatures) -> list[str]:
    """The steps after the log; returns commands that continue from there."""
    from owpc_ltr_demo import evaluation, training

    splits = logged.splits
    model = training.train_owpc(session, splits)
    trees = training.train_interaction_trees(session, splits)
    baseline = training.tune_baseline(session, logged)
    rankers = {evaluation.OWPC: model, evaluation.TREES: trees}
    evaluation.compare_rankers(session, logged, rankers, baseline)
    names = evaluation.upload_models(session, logged, {MODEL: model, TREES_MODEL: trees})
    evaluation.search_held_out(session, logged, names, baseline)
    return next_commands(session, logged.engine.settings.url)


def next_commands(session: DemoSession, url: str) -> list[str]:
    """Commands that continue after the demo."""
    model, data = session.file("-owpc.json"), session.file(".parquet")
    query = f"--query-template {session.file('-bm25.json')}"
    target = f"--index {INDEX} --model {MODEL} {query} --url {url}"
    command = program()
    return [
        f'{command} search "split a string into lines" {target} --title-field qualified_name',
        f'{command} request "split a string into lines" {target}',
        f"{command} evaluate {model} --data {data} --metric ndcg@10,map --baseline feature:text",
        f"{command} train {data} --loss pairwise --optimizer larank --out pairwise.json",
        f"{command} engine stop --port {session.options.port}",
    ]


def _prepare_folder(folder: Path) -> None:
    """Refuse a folder that cannot be written to, before the work."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(
            f"cannot make the folder {folder} ({error.strerror}): name another with `folder`"
        ) from error
    if not os.access(folder, os.W_OK | os.X_OK):
        raise UsageError(f"the folder {folder} is not writable: name another with `folder`")
