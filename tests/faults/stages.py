"""The stages that ask or change a cluster."""

from __future__ import annotations

from collections.abc import Callable

from tests.faults.stage import Kind, Stage, nothing, without_times
from tests.faults.world import MAPPINGS, UNPROVEN, World


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
    world.done("upload", "four.json", "--name", world.ranker, "--history", "0", *UNPROVEN, *place)
    world.done("upload", "one.json", "--name", world.ranker, "--history", "0", *UNPROVEN, *place)


_SETTINGS = ("docs.jsonl", "--settings", "mappings.json")
STAGES = [
    Stage("index", Kind.WRITES, _fill(*_SETTINGS), once=True, searches=False, bulk=True),
    Stage("index --recreate", Kind.WRITES, _fill(*_SETTINGS, "--recreate"), _half_full,
          searches=False, bulk=True),
    Stage("index --append", Kind.WRITES, _fill("more.jsonl", "--append"), _half_full,
          searches=False, bulk=True),
    Stage("featureset push", Kind.WRITES, _placed("featureset", "push", "other.json")),
    Stage(
        "log-features",
        Kind.LOGS,
        _placed(
            *("log-features", "--judgments", "judged.tsv", "--out", "data.parquet"),
            *("--featureset", "small", "--in-flight", "2"),
        ),
        out="data.parquet",
        printed=nothing,
    ),
    Stage(
        "upload",
        Kind.WRITES,
        _placed("upload", "four.json", "--name", "RANKER", "--featureset", "small", *UNPROVEN),
    ),
    Stage("verify", Kind.READS, _placed("verify", "RANKER")),
    Stage("search", Kind.READS, _placed("search", "alpha beta", "--model", "RANKER", "--json"),
          printed=without_times),
    Stage(
        "compare-live",
        Kind.READS,
        _placed(
            *("compare-live", "RANKER", "--judgments", "judged.tsv", "--json"),
            *("--query-template", "query.json", "--in-flight", "2", "--metric", "ndcg@10"),
        ),
        printed=without_times,
    ),
    Stage(
        "tune",
        Kind.LOGS,
        lambda world: (
            *("tune", "fields.json", "--index", world.index, "--judgments", "judged.tsv"),
            *("--in-flight", "2", "--out", "tuned.json"),
        ),
        out="tuned.json",
        printed=nothing,
    ),
    Stage("models show", Kind.READS, _placed("models", "show", "--json", index=False)),
    Stage(
        "models rollback",
        Kind.WRITES,
        _placed("models", "rollback", "RANKER", index=False),
        once=True,
        searches=False,
    ),
    Stage(
        "models promote",
        Kind.WRITES,
        _placed("models", "promote", "RANKER", *UNPROVEN, index=False),
        once=True,
        searches=False,
    ),
    Stage(
        "models delete",
        Kind.WRITES,
        _placed("models", "delete", "RANKER", "--yes", index=False),
        once=True,
    ),
    Stage("models delete --unused", Kind.WRITES,
          _placed("models", "delete", "--unused", "--yes", index=False), _unused),
    Stage(
        "profile",
        Kind.READS,
        _placed("profile", "--model", "RANKER", "--keywords", "alpha", "--repeat", "2"),
        printed=nothing,
    ),
    Stage(
        "judge pool",
        Kind.LOGS,
        _placed(
            *("judge", "pool", "--queries", "judged.tsv", "--rankers", "query.json,RANKER"),
            *("--query-template", "query.json", "--in-flight", "2", "--out", "sheet.csv"),
        ),
        out="sheet.csv",
    ),
    Stage(
        "judge clicks --from-ubi",
        Kind.LOGS,
        lambda world: (
            *("judge", "clicks", "--from-ubi", "--ubi-queries", world.ubi[0]),
            *("--ubi-events", world.ubi[1], "--slices", "2", "--min-people", "1"),
            *("--model", "coec", "--out", "clicks.parquet"),
        ),
        out="clicks.parquet",
    ),
]  # fmt: skip
