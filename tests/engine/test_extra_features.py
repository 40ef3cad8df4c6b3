"""External features on a real node: logged, learned, uploaded for clients, refused in searches."""

from __future__ import annotations

import functools
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from owpc_ltr import open_dataset, train
from owpc_ltr.data.parquet import load_dataset
from owpc_ltr.engine.deployment.deployment_record import DeploymentRecords
from owpc_ltr.engine.search.client_scoring import live_search
from owpc_ltr.engine.search.request import SearchRequest
from owpc_ltr.engine.stores.plugin_free import PluginFreeStore
from owpc_ltr.errors import UsageError
from owpc_ltr.formats.client_models import is_client_scored
from owpc_ltr.models.linear import LinearModel
from owpc_ltr.models.model_file import load_scoring_model
from owpc_ltr.models.reordering import ReorderingModel
from tests.commands import Run
from tests.datasets import by_query, written
from tests.engine.small_cluster import FEATURESET, WORDS, Small, shared_cluster

DOCUMENTS, QUERIES = 120, 24
QUERY = {"match": {"body": "{{keywords}}"}}
Rates = dict[tuple[str, str], float]


small = shared_cluster(documents=DOCUMENTS)


def texts() -> list[str]:
    return [f"{WORDS[n % 8]} {WORDS[(n % 8 + n // 8 + 1) % 8]}" for n in range(QUERIES)]


@functools.cache
def rates() -> Rates:
    """How often each third of the documents was clicked for a query: not for every pair."""
    rng = np.random.default_rng(11)
    pairs = [(text, f"d{d}") for text in texts() for d in range(DOCUMENTS) if rng.random() < 0.7]
    return dict(zip(pairs, np.round(rng.random(len(pairs)), 3).tolist(), strict=True))


def rates_file(path: Path, known: Rates) -> Path:
    queries, documents = zip(*known, strict=True)
    columns = {"query": queries, "document_id": documents, "ctr": list(known.values())}
    return written(path, columns)


@pytest.fixture(scope="module")
def made(small: Small, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder: judgments that clicks decide, a table of these, what was logged, and two models."""
    folder, known = tmp_path_factory.mktemp("joined"), rates()
    lines, rng = ["query_id,query,doc_id,grade"], np.random.default_rng(3)
    for number, text in enumerate(texts()):
        for d in range(1, DOCUMENTS):
            liked = known.get((text, f"d{d}"), 0.0) + rng.normal(0, 0.3) > 0.6
            lines.append(f"q{number},{text},d{d},{int(liked)}")
    (folder / "judged.csv").write_text("\n".join(lines) + "\n")
    (folder / "query.json").write_text(json.dumps(QUERY))
    rates_file(folder / "ctr.parquet", known)
    small.cluster.log_features(
        judgments=folder / "judged.csv", out=folder / "data.parquet", index=small.index,
        extra_features=[folder / "ctr.parquet"],
    )  # fmt: skip
    split = load_dataset(folder / "data.parquet").split()
    train(split.training, settings={"C": 10.0}).save(folder / "model.json")
    boosted = train(split.training, optimizer="boosting", settings={"trees": 10})
    boosted.save(folder / "trees.json")
    return folder


@pytest.fixture
def place(made: Path, small: Small, tmp_path: Path) -> list[str]:
    """The files beside the command, and the options that say where the cluster is."""
    for file in made.iterdir():
        shutil.copy(file, tmp_path / file.name)
    return [*small.place]


def test_a_log_counts_what_a_table_met(run: Run, small: Small, place: list[str]) -> None:
    log = ["log-features", "--index", small.index, "--judgments", "judged.csv", *place]
    out = run.output(*log, "--extra-features", "ctr.parquet", "--out", "again.parquet")
    met = sum((text, f"d{d}") in rates() for text in texts()
              for d in range(1, DOCUMENTS))  # fmt: skip
    judged = QUERIES * (DOCUMENTS - 1)
    assert (
        f"ctr.parquet: ctr by query and document_id; {met:,} judged pairs have a row, "
        f"{judged - met:,} have none; {len(rates()) - met:,} of {len(rates()):,} rows met no pair"
    ) in out
    assert Path("again.parquet").read_bytes() == Path("data.parquet").read_bytes()
    code, out, _ = run(*log, "--extra-features", "ctr.parquet", "--out", "again.parquet", "--json")
    (joined,) = json.loads(out)["joined_tables"]
    assert (joined["file"], joined["matched"]) == ("ctr.parquet", met)
    code, _, err = run(*log, "--extra-features", "absent.parquet", "--out", "again.parquet")
    assert (code, "cannot read absent.parquet: no such file" in err) == (3, True)


def scores_here(small: Small, model: str, text: str, known: Rates) -> dict[str, float]:
    """Local scores of all documents: the engine's features, and the clicks of a mapping."""
    ids = [f"d{d}" for d in range(DOCUMENTS)]
    params = {"keywords": text, "query": text}
    probe = {"params": params, "document_ids": ids}
    logged_ids, features = small.store.logged(FEATURESET, small.index, probe)
    clicks = [[known.get((text, document), np.nan)] for document in logged_ids]
    matrix = np.hstack([features, np.array(clicks, np.float32)])
    return dict(
        zip(logged_ids, load_scoring_model(Path(model)).score(matrix).tolist(), strict=True)
    )


def upload(
    run: Run, small: Small, place: list[str], *words: str, model: str = "model.json"
) -> tuple[int, str, str]:
    where = ["--name", small.name, "--index", small.index]
    grounds = [] if "--require" in words else ["--unproven", "a test"]
    return run("upload", model, *where, *words, *grounds, *place)


QUERY_TEMPLATE = ["--query-template", "query.json"]


def test_a_model_that_clients_score_is_proved_by_what_it_remembers_and_served_alone(
    run: Run, small: Small, place: list[str]
) -> None:
    code, out, err = upload(run, small, place)
    (line,) = [each for each in err.splitlines() if each.startswith("owpc-ltr:")]
    assert code == 5
    assert "reads 'ctr' (from ctr.parquet), which is in no index" in line
    assert "train without it" in line
    assert "--client-scored" in line
    assert small.store.list_models() == []
    code, out, err = upload(run, small, place, "--client-scored", *QUERY_TEMPLATE)
    assert code == 0, err
    assert "'ctr' (from ctr.parquet): values from outside the index, which the proof took as" in err
    assert "the client scores it: as requested" in out
    (stored,) = small.store.list_models()
    assert is_client_scored(small.store.get_model(stored))
    text = texts()[9]
    assert "scored by the client" in run.refusal(5, "request", text, "--model", small.name, *place)
    lists = ["--judgments", "judged.csv", "--metric", "ndcg@10", "--split", "all"]
    pool = ["judge", "pool", "--queries", "judged.csv", "--depth", "3", "--out", "sheet.csv"]
    pool += ["--index", small.index]
    for words in (
        ["search", text, "--model", small.name],
        ["explain", small.name, "--search", text],
        ["compare-live", small.name, *lists],
        ["compare-live", "model.json", *lists],
        [*pool, "--rankers", small.name],
    ):
        named = words[-1] == small.name and words[0] != "judge"
        where = [] if named else ["--index", small.index]
        err = run.refusal(2, *words, *where, *QUERY_TEMPLATE, *place)
        assert "reads 'ctr' (from ctr.parquet), which is not in the index" in err, words
        assert "owpc-ltr serve --extra-features …" in err
    code, out, err = run("verify", small.name, *place)
    assert code == 0
    assert "taken as at the upload" in err
    feature_names = [line.split()[0] for line in out.splitlines()[1:4]]
    assert sorted(feature_names) == ["body", "size", "title"]


def test_a_joined_feature_that_is_worth_nothing_leaves_the_model_to_the_engine(
    run: Run, small: Small, place: list[str]
) -> None:
    whole = load_scoring_model("model.json")
    LinearModel(
        whole.feature_names, np.array([1.0, 0.5, -0.2, 0.0]), record=dict(whole.record)
    ).save("small.json")
    export = ["export", "small.json", "--for", "opensearch", "--version", "3.8.0"]
    assert run(*export, "--out", "engine.json")[0] == 0
    assert "ctr" not in Path("engine.json").read_text()
    code, out, err = upload(run, small, place, "--json", model="small.json")
    assert code == 0
    assert "does not use 'ctr' (from ctr.parquet): it was left out" in err
    result = json.loads(out)
    stored = small.store.get_model(result["model"])
    assert not is_client_scored(stored)
    assert [feature["feature"] for feature in result["drift"]["features"]].count("ctr") == 0
    text = texts()[5]
    code, out, _ = run(
        "search", text, "--model", small.name, "--query-template", "query.json", "--json", *place
    )
    here = scores_here(small, "small.json", text, {})
    answer = json.loads(out)
    assert (code, answer["scored_by"]) == (0, "engine")
    assert [hit["score"] for hit in answer["after"]] == pytest.approx(
        [here[hit["document_id"]] for hit in answer["after"]], rel=1e-5
    )
    deployment = DeploymentRecords(small.engine, small.store).get(result["model"])
    assert deployment.record["joined_left_out"] == ["ctr"]
    assert run("verify", small.name, *place)[0] == 0


def test_trees_that_split_on_it_are_the_clients_too(
    run: Run, small: Small, place: list[str]
) -> None:
    code, _, err = upload(run, small, place, model="trees.json")
    assert (code, "reads 'ctr'" in err) == (5, True)
    assert upload(run, small, place, "--client-scored", model="trees.json")[0] == 0
    assert is_client_scored(small.store.get_model(small.cluster.models.resolve(small.name)))


def test_a_log_may_be_a_folder_of_parts(run: Run, small: Small, place: list[str]) -> None:
    log = ["log-features", "--index", small.index, "--judgments", "judged.csv", *place]
    run.output(*log, "--extra-features", "ctr.parquet", "--out", "parts", "--buckets", "20")
    assert by_query(open_dataset("parts").load()) == by_query(load_dataset(Path("data.parquet")))
    manifest = open_dataset("parts").manifest
    assert manifest is not None
    assert manifest["judged"] == manifest["logged"] == QUERIES * (DOCUMENTS - 1)
    learn = ["--optimizer", "bundle", "--set", "optimizer.C=1"]
    run.output("train", "parts", "--out", "parts.json", *learn)
    code, _, err = run(*log, "--out", "parts", "--buckets", "20")
    assert (code, "it holds a dataset already" in err) == (2, True)


def test_a_reranker_of_joined_features_is_refused_in_a_search(
    run: Run, small: Small, place: list[str]
) -> None:
    base = load_scoring_model("model.json")
    ranker = ReorderingModel(base, "", None, dict(base.record))
    ranker.save("reranker.json")
    where = ["--index", small.index, *QUERY_TEMPLATE, *place]
    search = ["search", texts()[4], "--reranker", "reranker.json"]
    for words in (search, ["explain", "reranker.json", "--search", texts()[4]]):
        assert "the reranker reads 'ctr'" in run.refusal(2, *words, *where)
    request = SearchRequest(small.index, QUERY, {"keywords": texts()[4]})
    with pytest.raises(UsageError, match=r"`serve\(extra_features=…\)`"):
        live_search(small.engine, PluginFreeStore(small.engine), request, ranker)


def test_from_python_a_frame_does_as_well_as_a_file(
    small: Small, made: Path, tmp_path: Path
) -> None:
    table: Any = pq.read_table(made / "ctr.parquet")
    popular = table.group_by("document_id").aggregate([("ctr", "mean")])
    report = small.cluster.log_features(
        judgments=made / "judged.csv", out=tmp_path / "frames.parquet", index=small.index,
        extra_features=[table.to_pandas(), popular],
    )  # fmt: skip
    files = [joined["file"] for joined in report.manifest["joined_tables"]]
    assert files == ["frame 1", "frame 2"]
    from_file, other = (
        load_dataset(made / "data.parquet"),
        load_dataset(tmp_path / "frames.parquet"),
    )
    assert other.feature_names == (*FEATURESET.feature_names, "ctr", "ctr_mean")
    np.testing.assert_array_equal(from_file.features, other.features[:, :4])
