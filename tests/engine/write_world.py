"""The commands that write to an engine, and what each leaves there."""

from __future__ import annotations

import copy
import functools
import json
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from owpc_ltr import Cluster
from owpc_ltr.data.documents import DocumentFile
from owpc_ltr.engine.client.engine import Engine
from owpc_ltr.engine.deployment.alias import all_aliases
from owpc_ltr.engine.deployment.model_upload import UploadRequest, upload_model
from owpc_ltr.engine.deployment.search_template import SearchTemplates
from owpc_ltr.engine.deployment.uploaded_models import UploadedModels
from owpc_ltr.engine.index import load_index
from owpc_ltr.engine.search.request import SearchRequest
from owpc_ltr.engine.staging_index import mark_of
from owpc_ltr.engine.stores.plugin_free import PluginFreeStore
from owpc_ltr.engine.versioned_documents import INDEX
from owpc_ltr.names import base_index
from tests.engine.deployed import UNPROVEN
from tests.engine.memory_cluster import MemoryCluster
from tests.engine.small_cluster import FEATURESET, linear

SEARCH = SearchRequest("small", {"match": {"title": "{{keywords}}"}}, {"keywords": "", "query": ""})
MODELS = [linear((1.0, 0.5, number / 8)) for number in range(1, 5)]
Command = Callable[[Engine], object]


@dataclass
class World:
    """A cluster with an index, a feature set, and a name that has moved twice."""

    folder: Path
    cluster: MemoryCluster = field(default_factory=MemoryCluster)
    search: SearchRequest | None = None
    """The application's, of which each upload makes a search template."""

    def __post_init__(self) -> None:
        engine = self.engine
        store = PluginFreeStore(engine)
        self.fill("small", range(60), "refuse", engine)
        self.fill("docs", range(5), "refuse", engine)
        store.put_featureset(FEATURESET)
        for model in MODELS[:2]:
            self.upload(model, "champion", engine)
        self.upload(MODELS[2], "challenger", engine)
        self.upload(MODELS[3], "champion", engine, name="other")
        _models(engine).delete("other", yes=True)

    @property
    def engine(self) -> Engine:
        return cast("Engine", self.cluster)

    def fill(self, name: str, numbers: Any, existing: str, engine: Engine) -> None:
        path = self.folder / f"{name}-{existing}.jsonl"
        path.write_text("".join(f"{json.dumps({'id': f'd{n}', 'n': n})}\n" for n in numbers))
        load_index(engine, name, DocumentFile(path, "id"), existing=existing, progress=_silent)

    def upload(self, model: Any, role: str, engine: Engine, name: str = "m") -> object:
        request = UploadRequest(
            model,
            FEATURESET,
            index="small",
            name=name,
            role=role,
            search=self.search,
            grounds=UNPROVEN,
        )
        return upload_model(engine, PluginFreeStore(engine), request)

    def state(self) -> Any:
        """Aliases, models, deployment records, documents and scripts; no half filled index."""
        engine = self.engine
        store = PluginFreeStore(engine)
        recorded = [
            key for key in self.cluster.indices[INDEX].documents if "deployment_record" in key
        ]
        documents = {
            base_index(name): sorted(index.documents)
            for name, index in self.cluster.indices.items()
            if mark_of(index.aliases) is None and not name.startswith("owpc-ltr-")
        }
        # That of a proof, which has the name of a model, serves nobody where it arrives late.
        scripts = {name: script for name, script in self.cluster.scripts.items() if "-" not in name}
        return all_aliases(engine), store.list_models(), sorted(recorded), documents, scripts

    def look(self) -> None:
        """No name means what is not there, and no search template serves such a model."""
        engine = self.engine
        there = set(PluginFreeStore(engine).list_models())
        for alias in all_aliases(engine):
            assert {alias.current, *filter(None, [alias.challenger])} <= there, alias
            served = SearchTemplates(engine, PluginFreeStore(engine)).serving(alias.name)
            assert served is None or served in there, alias
        behind = [
            index
            for name, index in self.cluster.indices.items()
            if "docs" in {name, *index.aliases} and mark_of(index.aliases) is None
        ]
        assert len(behind) == 1
        assert len(behind[0].documents) >= 3


def copied_world(
    folder: Path,
    kind: Callable[[], MemoryCluster] = MemoryCluster,
    search: SearchRequest | None = None,
) -> World:
    """A world that a test may change: a copy of one that is made once."""
    world = copy.copy(_made_world(kind, templates=search is not None))
    world.search = search
    world.folder, world.cluster = folder, copy.deepcopy(world.cluster)
    return world


@functools.cache
def _made_world(kind: Callable[[], MemoryCluster], *, templates: bool) -> World:
    with tempfile.TemporaryDirectory() as folder:
        return World(Path(folder), kind(), SEARCH if templates else None)


def _silent(_message: str, _done: float | None = None) -> None:
    """No progress."""


def cluster_of(engine: Any) -> Cluster:
    """The cluster behind an engine, with its plugin-free store."""
    cluster = Cluster(cast("Engine", engine), PluginFreeStore.kind)
    cluster.store = PluginFreeStore(cast("Engine", engine))
    return cluster


def _models(engine: Engine) -> UploadedModels:
    return cluster_of(engine).models


def commands(world: World) -> dict[str, Command]:
    """What is written, by the command that does it."""

    new = linear((1.0, 0.25, 0.125))
    return {
        "upload": lambda engine: world.upload(new, "champion", engine),
        "upload the first": lambda engine: world.upload(new, "champion", engine, "first"),
        "upload a challenger": lambda engine: world.upload(new, "challenger", engine),
        "rollback": lambda engine: _models(engine).rollback("m"),
        "promote": lambda engine: _models(engine).promote("m", unproven="a test"),
        "delete": lambda engine: _models(engine).delete("m", yes=True),
        "prune": lambda engine: _models(engine).delete(unused=True, yes=True),
        "recreate": lambda engine: world.fill("docs", range(3, 9), "recreate", engine),
        "append": lambda engine: world.fill("docs", range(3, 9), "append", engine),
        "append to a new one": lambda engine: world.fill("new", range(3), "append", engine),
        "index": lambda engine: world.fill("new", range(3), "refuse", engine),
    }
