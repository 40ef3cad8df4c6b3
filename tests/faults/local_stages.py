"""The stages that make files of files, without a cluster."""

from __future__ import annotations

from tests.faults.stage import Kind, Stage, text, without_times
from tests.faults.world import World


def _learning(name: str, *words: str, out: str | None = None, keeps: tuple[str, ...] = ()) -> Stage:
    def command(_: World) -> tuple[str, ...]:
        return words

    printed = without_times if "--json" in words else text
    return Stage(name, Kind.LEARNS, command, out=out, keeps=keeps, printed=printed)


LOCAL_STAGES = [
    _learning("train", "train", "learn.letor", "--out", "learnt.json", "--grid", "C=0.1,1",
              out="learnt.json"),
    _learning("select", "select", "learn.letor", "--folds", "3", "--journal", "select.journal",
              "--loss", "pairwise", "--grid", "C=0.1,1", "--json", keeps=("select.journal",)),
    _learning("judge clicks", "judge", "clicks", "events.parquet", "--min-people", "1", "--model",
              "coec", "--out", "clicks.parquet", out="clicks.parquet"),
    _learning("evaluate", "evaluate", "learnt-a.json", "--data", "learn.letor", "--run",
              "ranking.txt", "--json", out="ranking.txt"),
    _learning("average", "average", "learnt-a.json", "learnt-b.json", "--out", "mean.json",
              out="mean.json"),
    _learning("import", "import", "ranklib.txt", "--features", "names.txt", "--out",
              "imported.json", out="imported.json"),
    _learning("export", "export", "learnt-a.json", "--for", "opensearch", "--version", "3.8",
              "--out", "exported.json", out="exported.json"),
    _learning("compare", "compare", "learnt-a.json", "feature:1", "--data", "learn.letor",
              "--split", "all", "--per-query", "each.csv", "--json", out="each.csv"),
    _learning("explain", "explain", "learnt-a.json", "--data", "learn.letor", "--query-id", "3",
              "--json"),
    _learning("report", "report", "learnt-a.json", "feature:1", "--data", "learn.letor",
              "--split", "all", "--out", "report.html", out="report.html"),
]  # fmt: skip
