"""A world for the commands: indices, feature sets, models and names on a real node, and files.

What commands change is looked at as a whole (`state`) and put back as it was (`restore`).
"""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from owpc_ltr.engine.client.engine import Engine
from owpc_ltr.engine.client.responses import EngineRefusal, NoSuchIndex
from owpc_ltr.engine.client.settings import ConnectionSettings
from owpc_ltr.models.model_file import save_model
from tests.engine.small_cluster import FEATURESET, WORDS, fill, linear
from tests.engine.ubi_indices import filled, ubi_documents
from tests.faults.learning import write_letor
from tests.faults.running import Ended, run
from tests.simulated_users import simulate

UNPROVEN = ("--unproven", "a test")

State = dict[str, Any]
"""Documents by index, `aliases` by index, and the documents of the store and of names."""
DOCUMENTS = 60
_A_TIME = "2026-01-01T00:00:00Z"
RANKLIB = Path(__file__).parents[1] / "golden" / "ranklib" / "linear-regression.txt"
MAPPINGS = {
    "settings": {"number_of_shards": 1, "number_of_replicas": 0},
    "mappings": {
        "properties": {
            "title": {"type": "text"},
            "body": {"type": "text"},
            "size": {"type": "float"},
        }
    },
}


@dataclass
class World:
    """What one process of the tests works with on a node; its names are nobody else's."""

    url: str
    folder: Path
    own: str
    engine: Engine = field(init=False)
    files: set[str] = field(init=False, default_factory=set)
    """The names of the files that belong in the folder."""
    words: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        self.engine = Engine(ConnectionSettings(self.url))
        self.words = ("--store", self.own, "--store-kind", "plugin-free")

    @property
    def index(self) -> str:
        """The index that searches are of; its alias is `live`."""
        return f"{self.own}-movies"

    @property
    def other(self) -> str:
        """An index of the same documents with other words in them."""
        return f"{self.own}-other"

    @property
    def live(self) -> str:
        """The alias of the index."""
        return f"{self.own}-live"

    @property
    def target(self) -> str:
        """The index that commands make, fill and replace."""
        return f"{self.own}-target"

    @property
    def ubi(self) -> tuple[str, str]:
        """The indices of queries and of events of User Behavior Insights."""
        return f"{self.own}-ubi-queries", f"{self.own}-ubi-events"

    @property
    def ranker(self) -> str:
        """The name that applications use."""
        return f"{self.own}-ranker"

    def path(self, name: str) -> Path:
        """A file of the world."""
        return self.folder / name

    def run(self, *words: str, url: str | None = None, **environ: str) -> Ended:
        """Run a command, against the node itself unless told otherwise."""
        return run(words, self.folder, {"OWPC_LTR_URL": url or self.url, **environ})

    def done(self, *words: str) -> Ended:
        """Run a command that must succeed."""
        ended = self.run(*words)
        assert ended.code == 0, ended.err
        return ended

    def build(self) -> None:
        """Make everything that the commands need."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self.clear()
        fill(self.engine, self.index, DOCUMENTS)
        fill(self.engine, self.other, DOCUMENTS, seed=8)
        self.point(self.live, self.index)
        self._write_behaviour()
        self._write_files()
        for name, seed in (("learnt-a.json", "1"), ("learnt-b.json", "2")):
            self.done("train", "learn.letor", "--out", name, "--grid", "C=1", "--seed", seed)
        place = ("--index", self.index, *self.words)
        self.done("featureset", "push", "small.json", *place)
        self.done("log-features", "--judgments", "judged.tsv", "--out", "data.parquet", *place)
        self.path("data.parquet").rename(self.path("kept.parquet"))
        self.done("upload", "one.json", "--name", self.ranker, *place)
        self.done("upload", "two.json", "--name", self.ranker, *UNPROVEN, *place)
        self.done("upload", "three.json", "--name", self.ranker, "--as", "challenger", *place)
        self.files = {path.name for path in self.folder.iterdir()}

    def point(self, alias: str, index: str) -> None:
        """Let an alias of indices point to one alone."""
        actions = [
            {"remove": {"index": f"{self.own}-*", "alias": alias, "must_exist": False}},
            {"add": {"index": index, "alias": alias}},
        ]
        self.engine.request("POST", "/_aliases", body={"actions": actions})

    def _write_behaviour(self) -> None:
        events = simulate.clicks(simulate.example_world(4, 8), sessions=60)
        pq.write_table(events, self.path("events.parquet"))
        for index, documents in zip(self.ubi, ubi_documents(events), strict=True):
            filled(self.engine, index, list(documents), {})

    def _write_files(self) -> None:
        rng = np.random.default_rng(5)
        self.write_documents("before.jsonl", [f"b{n}" for n in range(15)], rng)
        self.write_documents("docs.jsonl", [f"n{n}" for n in range(40)], rng)
        self.write_documents("more.jsonl", [f"m{n}" for n in range(20)], rng)
        self.path("mappings.json").write_text(json.dumps(MAPPINGS))
        self.path("small.json").write_text(json.dumps(FEATURESET.to_body()))
        features = FEATURESET.to_body()["featureset"]["features"]
        other = {"featureset": {"name": "other", "features": features[:2]}}
        self.path("other.json").write_text(json.dumps(other))
        self.path("query.json").write_text(json.dumps({"match": {"body": "{{keywords}}"}}))
        fields = {"query": "{{keywords}}", "fields": ["title", "body^{{tune 1 of 1, 2}}"]}
        self.path("fields.json").write_text(json.dumps({"multi_match": fields}))
        lines = ["query_id\tquery\tdoc_id\tgrade"]
        for number in range(8):
            words = f"{WORDS[number]} {WORDS[(number + 3) % 8]}"
            lines += [
                f"q{number}\t{words}\td{document}\t{(number + document) % 3}"
                for document in rng.choice(DOCUMENTS, 12, replace=False).tolist()
            ]
        self.path("judged.tsv").write_text("\n".join(lines) + "\n")
        write_letor(self.path("learn.letor"))
        shutil.copy(RANKLIB, self.path("ranklib.txt"))
        self.path("names.txt").write_text("".join(f"f{number}\n" for number in range(1, 6)))
        for name, weights in (
            ("one.json", (1.0, 0.5, -0.25)),
            ("two.json", (0.5, 1.0, -0.25)),
            ("three.json", (0.25, 0.5, 1.0)),
            ("four.json", (1.0, 1.0, 0.5)),
        ):
            save_model(linear(weights), self.path(name))

    def write_documents(self, name: str, ids: list[str], rng: np.random.Generator) -> None:
        """A file of documents, one a line."""
        lines = [
            json.dumps(
                {
                    "id": identifier,
                    "title": " ".join(rng.choice(WORDS, 3)),
                    "body": " ".join(rng.choice(WORDS, 9)),
                    "size": round(float(rng.uniform(0.5, 9)), 3),
                }
            )
            for identifier in ids
        ]
        self.path(name).write_text("\n".join(lines) + "\n")

    # ------------------------------------------------------------ state

    def state(self) -> State:
        """Everything of this world on the node, as it is now; the indices that never change not.

        The time of a rollback is always the same.
        """
        self.engine.request("POST", "/_refresh")
        indices = self._indices()
        changing = sorted(indices.keys() - {self.index, self.other, *self.ubi})
        return {
            "indices": {name: self._documents(name) for name in changing},
            "aliases": {name: sorted(indices[name]["aliases"]) for name in changing},
            "store": self._documents(f"owpc-ltr-store-{self.own}"),
            "names": {
                name: source | dict.fromkeys(source.keys() & {"last_rollback"}, _A_TIME)
                for name, source in self._documents("owpc-ltr-aliases").items()
                if self.own in name
            },
        }

    def _indices(self) -> dict[str, Any]:
        every = self.engine.request("GET", "/_alias")
        return {name: about for name, about in every.items() if name.startswith(f"{self.own}-")}

    def _documents(self, index: str) -> dict[str, Any]:
        body = {"size": 1000, "query": {"match_all": {}}}
        try:
            hits = self.engine.request("POST", f"/{index}/_search", body=body)["hits"]["hits"]
        except EngineRefusal as refusal:
            if refusal.status != 404:
                raise
            return {}
        return {hit["_id"]: hit["_source"] for hit in hits}

    def restore(self, state: State) -> None:
        """Put everything back as it was; only what differs is touched."""
        now = self.state()
        if now == state:
            return
        for name in now["indices"]:
            same = all(now[part][name] == state[part].get(name) for part in ("indices", "aliases"))
            if not same:
                self.engine.request("DELETE", f"/{name}")
        for name, documents in state["indices"].items():
            if now["indices"].get(name) != documents or now["aliases"][name]:
                self.engine.request("PUT", f"/{name}", body=MAPPINGS)
                self._write(name, documents, {})
        self._write(f"owpc-ltr-store-{self.own}", state["store"], now["store"])
        self._write("owpc-ltr-aliases", state["names"], now["names"])
        assert self.state() == state

    def _write(self, index: str, wanted: Mapping[str, Any], there: Mapping[str, Any]) -> None:
        lines: list[Any] = [{"delete": {"_id": name}} for name in there.keys() - wanted.keys()]
        for name, source in wanted.items():
            if there.get(name) != source:
                lines += [{"index": {"_id": name}}, source]
        if lines:
            answer = self.engine.request(
                "POST", f"/{index}/_bulk", ndjson=lines, params={"refresh": "true"}
            )
            assert not answer["errors"], answer

    def clear(self) -> None:
        """Take everything away that is on the node, from this run or one that was cut off."""
        names = self.state()["names"]
        for name in (*self._indices(), f"owpc-ltr-store-{self.own}"):
            with contextlib.suppress(NoSuchIndex):
                self.engine.request("DELETE", f"/{name}")
        self._write("owpc-ltr-aliases", {}, names)

    def close(self) -> None:
        """Take everything away, and let the node go."""
        self.clear()
        self.engine.close()

    def tidy(self) -> None:
        """Take away the files that commands have made."""
        for path in self.folder.iterdir():
            if path.name not in self.files:
                shutil.rmtree(path) if path.is_dir() else path.unlink()
