"""The stages of the road that faults strike: a command each, the state before it, what it makes."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any

from tests.faults.running import Ended
from tests.faults.world import MAPPINGS, State, World


class Kind(Enum):
    """What a stage does to the world, which decides what is promised of it."""

    READS = "reads"
    """Asks the cluster, and prints."""
    LOGS = "logs"
    """Asks the cluster, and publishes a file."""
    WRITES = "writes"
    """Changes what is in the cluster."""
    LEARNS = "learns"
    """Makes files of files, without a cluster."""


Prepared = Callable[[World], None]
Printed = Callable[[str], Any]


def _text(out: str) -> Any:
    """What is printed, which is the same each time."""
    return out


def _without_times(out: str) -> Any:
    """What is printed as JSON without what is measured by a clock."""

    def kept(tree: Any) -> Any:
        if isinstance(tree, dict):
            return {k: kept(v) for k, v in tree.items() if not re.search(_CLOCK, k)}
        return [kept(one) for one in tree] if isinstance(tree, list) else tree

    return kept(json.loads(out))


_CLOCK = "milliseconds|seconds|took|took_|_ms|latency|cost"


def _nothing(_out: str) -> Any:
    """What is printed is measured by a clock."""
    return None


@dataclass(frozen=True)
class Stage:
    """A command in a state of the world."""

    name: str
    kind: Kind
    words: Callable[[World], tuple[str, ...]]
    prepare: Prepared = lambda _: None
    """Brings about the state before, from the state in which worlds are built."""
    out: str | None = None
    """The file that it publishes."""
    keeps: tuple[str, ...] = ()
    """Other files that it makes."""
    printed: Printed = _text
    once: bool = False
    """Whether the command, done twice, does something else than once."""
    searches: bool = True
    """Whether it searches; what does not, sends documents in bulk."""

    def command(self, world: World) -> tuple[str, ...]:
        """The words to type."""
        return self.words(world)


@dataclass(frozen=True)
class Clean:
    """A stage that nothing goes wrong in: before, after, what is printed and published."""

    before: State
    after: State
    printed: Any
    published: bytes | None
    requests: list[Any]


def made(stage: Stage, world: World, ended: Ended) -> tuple[State, Any, bytes | None]:
    """What a stage has come to: the cluster, what was printed in the end, the file."""
    path = world.path(stage.out) if stage.out else None
    published = path.read_bytes() if path is not None and path.exists() else None
    printed = None if ended.code else stage.printed(ended.out)
    return world.state(), printed, published


# ---------------------------------------------------------------- the stages


def _half_full(world: World) -> None:
    """The target holds some documents from before."""
    world.engine.request("PUT", f"/{world.target}", body=MAPPINGS)
    world.done("index", "before.jsonl", "--index", world.target, "--id-field", "id", "--append")


def _fill(*more: str) -> Callable[[World], tuple[str, ...]]:
    def words(world: World) -> tuple[str, ...]:
        return ("index", *more, "--index", world.target, "--id-field", "id")

    return words


def _placed(*words: str, index: bool = True) -> Callable[[World], tuple[str, ...]]:
    """A command on the world's store; RANKER stands for the name that applications use."""

    def command(world: World) -> tuple[str, ...]:
        own = ("--index", world.index) if index else ()
        return (*(word.replace("RANKER", world.ranker) for word in words), *own, *world.words)

    return command


def _unused(world: World) -> None:
    """A model is uploaded that no name points to any more."""
    place = ("--index", world.index, *world.words)
    world.done("upload", "four.json", "--name", world.ranker, "--keep", "0", *place)
    world.done("upload", "one.json", "--name", world.ranker, "--keep", "0", *place)


_SETTINGS = ("docs.jsonl", "--settings", "mappings.json")
STAGES = [
    Stage("index", Kind.WRITES, _fill(*_SETTINGS), once=True, searches=False),
    Stage("index --recreate", Kind.WRITES, _fill(*_SETTINGS, "--recreate"), _half_full, searches=False),
    Stage("index --append", Kind.WRITES, _fill("more.jsonl", "--append"), _half_full, searches=False),
    Stage("featureset push", Kind.WRITES, _placed("featureset", "push", "other.json")),
    Stage(
        "log-features",
        Kind.LOGS,
        _placed(
            *("log-features", "--judgments", "judged.tsv", "--out", "data.parquet"),
            *("--featureset", "small", "--in-flight", "2"),
        ),
        out="data.parquet",
        printed=_nothing,
    ),
    Stage(
        "upload",
        Kind.WRITES,
        _placed("upload", "four.json", "--name", "RANKER", "--featureset", "small"),
    ),
    Stage("verify", Kind.READS, _placed("verify", "RANKER")),
    Stage("search", Kind.READS, _placed("search", "alpha beta", "--model", "RANKER", "--json"),
          printed=_without_times),
    Stage(
        "evaluate --live",
        Kind.READS,
        _placed(
            *("evaluate", "RANKER", "--live", "--judgments", "judged.tsv", "--json"),
            *("--query", "query.json", "--in-flight", "2", "--metric", "ndcg@10"),
        ),
        printed=_without_times,
    ),
    Stage("models list", Kind.READS, _placed("models", "list", "--json", index=False)),
    Stage(
        "models rollback",
        Kind.WRITES,
        _placed("models", "rollback", "RANKER", index=False),
        once=True,
    ),
    Stage(
        "models promote",
        Kind.WRITES,
        _placed("models", "promote", "RANKER", index=False),
        once=True,
    ),
    Stage(
        "models delete",
        Kind.WRITES,
        _placed("models", "delete", "RANKER", "--yes", index=False),
        once=True,
    ),
    Stage("models prune", Kind.WRITES, _placed("models", "prune", "--yes", index=False), _unused),
    Stage(
        "profile",
        Kind.READS,
        _placed("profile", "--model", "RANKER", "--keywords", "alpha", "--repeat", "2"),
        printed=_nothing,
    ),
    Stage(
        "judge pool",
        Kind.LOGS,
        _placed(
            *("judge", "pool", "--queries", "judged.tsv", "--rankers", "query.json,RANKER"),
            *("--query", "query.json", "--in-flight", "2", "--out", "sheet.csv"),
        ),
        out="sheet.csv",
    ),
]  # fmt: skip

LOCAL_STAGES = [
    Stage(
        "train",
        Kind.LEARNS,
        lambda _: ("train", "learn.letor", "--out", "learnt.json", "--grid", "C=0.1,1"),
        out="learnt.json",
    ),
    Stage(
        "select",
        Kind.LEARNS,
        lambda _: (
            *("select", "learn.letor", "--folds", "3", "--journal", "select.journal"),
            *("--loss", "pairwise", "--grid", "C=0.1,1", "--json"),
        ),
        keeps=("select.journal",),
        printed=_without_times,
    ),
]
