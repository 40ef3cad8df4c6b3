"""The rights of commands as the page has them, and a small world in which each command runs."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from owpc_ltr.engine.client.engine import Engine
from owpc_ltr.engine.stores.plugin_free import PluginFreeStore
from owpc_ltr.models.model_file import save_model
from tests.engine.deployed import put
from tests.engine.small_cluster import FEATURESET, WORDS, Small, fill, linear

PAGE = Path(__file__).resolve().parents[2] / "docs" / "engines.md"
INDEX, STORE, NAME = "rights", "rights", "rights-model"
_PLACE = ("--store-kind", "plugin-free", "--store", STORE)
QUERY = {"match": {"body": "{{keywords}}"}}
COMMANDS: dict[str, tuple[str, ...]] = {
    "`search`, `explain` with `--query-template`": (
        *("search", "alpha", "--model", NAME, "--index", INDEX, "--query-template", "query.json"),
        *_PLACE,
    ),
    "`search`, `profile` without": (
        *("search", "alpha", "--model", NAME, "--index", INDEX),
        *("--query-template", "all-fields", *_PLACE),
    ),
    "`models show`": ("models", "show", NAME, *_PLACE),
    "`log-features`": (
        *("log-features", "--judgments", "judged.tsv", "--index", INDEX, "--restart"),
        *("--featureset", "small", "--out", "log.parquet", *_PLACE),
    ),
    "`compare-live`": (
        *("compare-live", "model.json", "--judgments", "judged.tsv", "--index", INDEX),
        *("--query-template", "query.json", "--metric", "ndcg@10", "--featureset", "small"),
        *("--resamples", "200", *_PLACE),
    ),
    "`verify`": ("verify", NAME, *_PLACE),
    "`featureset push`": (
        *("featureset", "push", "small.json", "--index", INDEX, "--replace", *_PLACE),
    ),
    "`upload`": (
        *("upload", "model.json", "--name", NAME, "--index", INDEX, "--featureset", "small"),
        *("--unproven", "a test", *_PLACE),
    ),
    "`index`": ("index", "new.jsonl", "--index", f"{INDEX}-new", "--id-field", "id", "--recreate"),
}
"""What is run for each row of the table."""


@dataclass(frozen=True)
class Right:
    """A privilege of Elasticsearch: on the cluster, on the `index` or on the `store`."""

    place: str
    name: str


def page_rights() -> dict[str, tuple[Right, ...]]:
    """The rights of each row of the table."""
    section = PAGE.read_text().split("## Permissions")[1].split("\n## ")[0]
    rows = [line.strip("|").split("|") for line in section.splitlines() if line.startswith("| `")]
    table = {}
    for name, *cells in rows:
        if len(cells) == 3:
            table[name.strip()] = tuple(
                Right(place, right)
                for place, cell in zip(("cluster", "index", "store"), cells, strict=True)
                for right in re.findall(r"[a-z_]+", cell)
            )
    return table


def make_world(engine: Engine, folder: Path) -> Small:
    """An index, a feature set, an uploaded model, and the files that commands read."""
    for name in (INDEX, f"owpc-ltr-store-{STORE}"):
        engine.request("DELETE", f"/{name}", params={"ignore_unavailable": "true"})
    fill(engine, INDEX, 60)
    small = Small(engine, PluginFreeStore(engine, STORE), INDEX, NAME, 60)
    small.store.put_featureset(FEATURESET)
    put(small, linear())
    write_files(folder)
    return small


def write_files(folder: Path) -> None:
    """The files that the commands read."""
    save_model(linear(), folder / "model.json")
    (folder / "query.json").write_text(json.dumps(QUERY))
    (folder / "small.json").write_text(json.dumps(FEATURESET.to_body()))
    (folder / "new.jsonl").write_text('{"id": "a", "title": "alpha"}\n')
    lines = ["query_id\tquery\tdoc_id\tgrade\tjudged_by\n"]
    for number in range(24):
        text = f"{WORDS[number % 8]} {WORDS[(number // 8 + number + 1) % 8]} {number}"
        lines += [f"q{number}\t{text}\td{n}\t{n % 3}\tann\n" for n in range(60)]
    (folder / "judged.tsv").write_text("".join(lines))


def cases() -> Iterator[tuple[str, Right | None]]:
    """Each row without one of its rights, and with all."""
    for row, rights in page_rights().items():
        yield from ((row, right) for right in (None, *rights))
