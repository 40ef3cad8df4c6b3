"""Clicks, weighted, all the way: judged, logged on a real node, trained on, evaluated."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from owpc_ltr_clicks import simulation as simulate
from owpc_ltr_clicks.grading import EffectiveSample

from owpc_ltr.data.judgments.types import share_by_clicks
from owpc_ltr.data.parquet import load_dataset
from owpc_ltr.engine.client.engine import Engine
from owpc_ltr.engine.client.settings import ConnectionSettings
from owpc_ltr.evaluation.judgment_checks import UNUSED
from tests.commands import Run, commands_in
from tests.engine.ubi_indices import drop

pytestmark = pytest.mark.node
INDEX = "clicked-road"
WORLD = simulate.example_world(40, 12)
PLACE = ("--store", "clickedroad", "--store-kind", "plugin-free")


def _fill(engine: Engine) -> None:
    """What attracts users stands in a field, with some noise; another field is noise alone."""
    rng = np.random.default_rng(4)
    drop(engine, INDEX)
    engine.request("PUT", f"/{INDEX}", body={"settings": {"number_of_replicas": 0}})
    lines: list[object] = []
    for name, drawn in zip(WORLD.documents, WORLD.attraction.tolist(), strict=True):
        query = name.partition("-")[0].removeprefix("q")
        source = {"title": f"query {query}", "worth": 1 + drawn + rng.normal(0, 0.15),
                  "noise": 1 + rng.uniform()}  # fmt: skip
        lines += [{"index": {"_id": name}}, source]
    path = f"/{INDEX}/_bulk"
    assert not engine.request("POST", path, ndjson=lines, params={"refresh": "true"})["errors"]


def _featureset(path: Path) -> None:
    def by(field: str) -> dict[str, object]:
        factor = {"field_value_factor": {"field": field}, "boost_mode": "replace"}
        return {"name": field, "params": [], "template": {"function_score": factor}}

    words = {
        "name": "title",
        "params": ["keywords"],
        "template": {"match": {"title": "{{keywords}}"}},
    }
    features = [words, by("worth"), by("noise")]
    path.write_text(json.dumps({"featureset": {"name": "clicked", "features": features}}))


@pytest.fixture(scope="module")
def engine(node_url: str) -> Iterator[Engine]:
    found = Engine(ConnectionSettings(node_url))
    _fill(found)
    yield found
    for index in (INDEX, "owpc-ltr-store-clickedroad"):
        drop(found, index)


def test_weighted_clicks_go_the_whole_road(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    run: Run = commands_in(tmp_path, monkeypatch, capsys)
    monkeypatch.setenv("OWPC_LTR_URL", engine.settings.url)

    def done(*words: str) -> tuple[str, str]:
        code, out, err = run(*words)
        assert code == 0, err
        return out, err

    events = simulate.clicks(WORLD, sessions=3000)
    unseen = events.slice(0, 12).set_column(
        events.schema.get_field_index("query"), "query", pa.array(["nobody clicks"] * 12)
    )
    unseen = unseen.set_column(
        events.schema.get_field_index("action"), "action", pa.array(["impression"] * 12)
    )
    both = pa.concat_tables([_plain(events), _plain(unseen)])
    pq.write_table(both, "events.parquet")
    told = json.loads(done("judge", "clicks", "events.parquet", "--ips", "--min-people", "1",
                           "--out", "clicks.tsv", "--json")[0])  # fmt: skip
    assert told["queries_without_clicks"] == 1
    assert 0.2 * told["clicks"] < told["effective"] < told["clicks"]
    with Path("clicks.tsv").open(newline="") as file:
        judged = {
            (row["query"], row["doc_id"]): (float(row["grade"]), float(row["weight"]))
            for row in csv.DictReader(file, delimiter="\t")
        }
    _featureset(Path("features.json"))
    done("featureset", "push", "features.json", "--index", INDEX, "--param", "keywords=x", *PLACE)
    done("log-features", "--judgments", "clicks.tsv", "--featureset", "clicked", "--index", INDEX,
         "--out", "data.parquet", *PLACE)  # fmt: skip
    data = load_dataset(Path("data.parquet"))
    assert share_by_clicks(data) == 1.0
    assert data.document_weights is not None
    assert data.document_ids is not None
    queries = np.repeat(
        [json.loads(p)["keywords"] for p in (data.query_params or pa.array([])).to_pylist()],
        np.diff(data.offsets),
    ).tolist()
    weighed = zip(queries, data.document_ids.to_pylist(), strict=True)
    wanted = [judged[pair] for pair in weighed]
    assert np.array_equal(data.labels, [grade for grade, _ in wanted])
    assert np.allclose(data.document_weights, [weight for _, weight in wanted], rtol=1e-6)
    for loss in ("owpc", "pairwise", "lambdarank"):
        optimizer = ("--optimizer", "gradient") if loss == "lambdarank" else ()
        _, err = done("train", "data.parquet", "--loss", loss, "--grid", "C=1", "--out",
                      f"{loss}.json", *optimizer)  # fmt: skip
        assert UNUSED in err
        out, err = done("evaluate", f"{loss}.json", "data.parquet", "--json")
        assert UNUSED in out + err
        # What attracts is found, and told from noise.
        _, worth, noise = json.loads(Path(f"{loss}.json").read_text())["weights"]
        assert worth > 3 * abs(noise)
    for refusing in ("adarank", "coordinate-ascent"):
        code, _, err = run("train", "data.parquet", "--optimizer", refusing, "--out", "no.json")
        assert (code, "the data has document weights: leave them out" in err) == (5, True)
        assert not Path("no.json").exists()


def _plain(table: pa.Table) -> pa.Table:
    """The same values without dictionaries, so that tables of other values can be put together."""
    columns = [
        column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column
        for column in table.columns
    ]
    return pa.table(columns, names=table.column_names)


def test_few_clicks_that_decide_and_silent_queries_are_warned_of() -> None:
    assert EffectiveSample(100, 90.0, 0, 10, 2).warnings == ()
    (few,) = EffectiveSample(100, 12.4, 0, 10, 2).warnings
    assert few == (
        "100 clicks, weighted, are worth 12 equal ones: a few of them decide; lower clip=, or "
        "collect more"
    )
    (silent,) = EffectiveSample(100, 90.0, 0, 4, 6).warnings
    assert silent == "6 of 10 queries have no click: nothing is learnt of them"
