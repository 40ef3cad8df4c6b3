"""The README's workflow, command by command, on an engine that is asked for."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from owpc_ltr_node.release import OPENSEARCH, Release

from owpc_ltr.engine.client.engine import Engine
from tests.commands import Run, commands_in

pytestmark = pytest.mark.engines
QUERIES = 3000
FEATURESETS = Path(__file__).resolve().parents[2] / "featuresets"


@pytest.fixture
def run(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    other_engine: Engine,
) -> Iterator[Run]:
    made = commands_in(tmp_path, monkeypatch, capsys)
    monkeypatch.setenv("OWPC_LTR_URL", other_engine.settings.url)
    yield made
    other_engine.request("DELETE", "/movies")


def files_of(movies: Path, release: Release) -> None:
    """The corpus, some queries' judgments, settings and features that the node can analyse by."""
    for source, name in (
        (movies / "movies-index-settings.json", "settings.json"),
        (FEATURESETS / "movies.json", "movies.json"),
    ):
        text = source.read_text()
        if release.engine != OPENSEARCH:
            text = text.replace('"english"', '"standard"')
        Path(name).write_text(text)
    Path("corpus.jsonl.gz").write_bytes((movies / "movies-corpus.jsonl.gz").read_bytes())
    kept: dict[str, None] = {}
    with gzip.open(movies / "movies-judgments.tsv.gz", "rt") as lines:
        chosen = [next(lines)]
        for line in lines:
            query = line.partition("\t")[0]
            if len(kept) < QUERIES:
                kept[query] = None
            if query in kept:
                chosen.append(line)
    Path("judgments.tsv").write_text("".join(chosen))


def figure(pattern: str, text: str) -> str:
    match = re.search(pattern, text)
    assert match is not None, (pattern, text)
    return match[1]


def test_the_workflow_of_the_readme_leads_to_a_better_list(
    run: Run,
    shared_data: Path,
    release: Release,
    record_property: Callable[[str, object], None],
) -> None:
    """the README's workflow on movies"""
    files_of(shared_data / "msrd-movies", release)

    def did(*words: str) -> str:
        code, out, err = run(*words)
        assert code == 0, err
        return out

    index = ("--index", "movies")
    did("index", "corpus.jsonl.gz", *index, "--id-field", "id", "--settings", "settings.json")
    did("featureset", "push", "movies.json", *index)
    log = ("--featureset", "movies", "--judgments", "judgments.tsv", "--out", "movies.parquet")
    account = did("log-features", *index, *log)
    assert "+ 0 rejected" in account
    train = ("train", "movies.parquet", "--loss", "owpc", "--set", "loss.generator=inverse")
    did(*train, "--optimizer", "larank", "--metric", "map", "--out", "model.json")
    against = ("--metric", "ndcg@10", "--baseline", "feature:best_fields", "--json")
    (gain,) = json.loads(did("evaluate", "model.json", "--data", "movies.parquet", *against))[
        "pairs"
    ]
    assert gain["low"] > 0
    assert gain["p_holm"] < 0.05
    upload = ("upload", "model.json", *index, "--featureset", "movies", "--name", "movies-owpc")
    first = did(*upload)
    difference = float(figure(r"largest difference ([0-9.e+-]+)", first))
    assert difference <= 1e-5
    assert "0 pairs swapped" in first
    did(*train, "--optimizer", "gradient", "--metric", "map", "--out", "second.json")
    second = ("upload", "second.json", *upload[2:])
    did(*second, "--unproven", "another way to the same model")
    did("models", "rollback", "movies-owpc")
    verified = did("verify", "movies-owpc", *index)
    again = float(figure(r"largest difference ([0-9.e+-]+)", verified))
    assert again <= 1e-5
    assert "Insidious" in did("search", "insidious 2", *index, "--model", "movies-owpc")
    if release.engine == OPENSEARCH:  # the other one has no scripts, so that the client scores
        assert "rescore" in did("request", *index, "--model", "movies-owpc")
    explanation = json.loads(
        did("explain", "movies-owpc", "--search", "insidious 2", *index, "--json")
    )
    assert explanation["hits"]
    live = ("--metric", "ndcg@10", *index, "--json", "--judgments", "judgments.tsv")
    (measured,) = json.loads(did("compare-live", "movies-owpc", *live))["pairs"]
    assert 0 < measured["mean_a"] < 1
    # The model that the name is rolled back to, and its file: users would get the same lists.
    compared = json.loads(did("compare-live", "live:movies-owpc", "model.json", *live))
    assert [pair["mean_difference"] for pair in compared["pairs"]] == [0.0]
    values = figure(r"([\d,]+ documents of [\d,]+ queries)", account)
    better = f"{gain['mean_a']:.4f} ndcg@10 against {gain['mean_b']:.4f} of best_fields"
    sure = f"{gain['n_queries']} held-out queries, gain [{gain['low']:+.4f}, {gain['high']:+.4f}]"
    exact = f"parity {difference:.1e}, after rollback {again:.1e}"
    record_property("figure", f"{values}; {better} ({sure}); {exact}")
