"""`init`: a first project file, of what the cluster and the folder tell."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from owpc_ltr.data.blocks import Block, BlockResult, Table
from owpc_ltr.engine.options import OnlyIndex
from owpc_ltr.errors import OwpcLtrError, UsageError
from owpc_ltr.files.output import write_output
from owpc_ltr.host.project import PROJECT_FILE, in_words, project_text
from owpc_ltr.signatures import TYPED_ONLY, Help, job

if TYPE_CHECKING:
    from owpc_ltr.engine.cluster import Cluster

_TABLES = {".tsv", ".csv", ".qrels", ".txt"}
_PACKED = {".gz", ".xz", ".zst"}
_MOST = 1_000
"""Files of the folder that are looked at."""

_NONE = "none is there yet"

Proposal = tuple[Any, str]
"""A value, or None, and where it is from, or why there is none."""


@dataclass(frozen=True, repr=False)
class ProjectDraft(BlockResult):
    """The values of a new project file by key, each with where it is from, and what is next."""

    values: Mapping[str, Proposal]
    next: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        """The draft as JSON."""
        return {
            "file": PROJECT_FILE,
            "values": {key: value for key, (value, _) in self.values.items() if value is not None},
            "from": {key: source for key, (_, source) in self.values.items()},
            "next": list(self.next),
        }

    def _blocks(self) -> Iterator[Block]:
        rows = [
            (key, "–" if value is None else in_words("", value).strip(), source)
            for key, (value, source) in self.values.items()
        ]
        yield Table(("KEY", "VALUE", "NOTE"), rows)
        yield f"wrote {PROJECT_FILE}"
        yield from (f"next: {command}" for command in self.next)


@job
def init(
    cluster: Cluster,
    *,
    index: Annotated[OnlyIndex, TYPED_ONLY] = None,
    replace: Annotated[bool, Help("Replace the file that is there.")] = False,
) -> ProjectDraft:
    """Write a project file: what commands repeat, as far as cluster and folder tell.

    It is owpc-ltr.toml, in this folder. The cluster tells its address, feature sets, aliases, and
    a field for titles; the folder has judgments, a query template and a dataset, if they are there.
    Where several are possible, none is chosen. Edit the file: every command says what it takes
    from it, and options win.

    Raises UsageError where the file is there, or the index is not the only one.
    """
    from owpc_ltr.engine.feature_sets import title_field
    from owpc_ltr.engine.index_fields import field_types

    if os.path.lexists(PROJECT_FILE) and not replace:
        raise UsageError(f"{PROJECT_FILE} is there: edit it, or give `replace` to write it anew")
    engine, where = cluster.engine, cluster.the_index(index)
    title, settings = title_field(field_types(engine, where)), engine.settings
    files = _files()
    values: dict[str, Proposal] = {
        "url": (settings.url, "the address of this run")
        if settings.given
        else (None, "the local node, or that of OWPC_LTR_URL"),
        "index": (where, "the only one" if index is None else "given"),
        "featureset": _featureset(cluster, where),
        "alias": _alias(cluster, where),
        "title_field": (title, "its name" if title else "no text field is called title or name"),
        "query_template": _only(files["query_template"], "your application's query (JSON)"),
        "judgments": _only(files["judgments"], "judged queries: TSV, CSV, qrels …"),
        "judged_by": (None, 'of judgments that name no judge: "people", "clicks" …'),
        "metric": (None, '"ndcg@10"; default: as the commands say'),
        "data": _only(files["data"], "", otherwise="data.parquet"),
        "model": ("model.json", "train writes it"),
    }
    write_output(PROJECT_FILE, project_text(values).encode())
    return ProjectDraft(values, tuple(_next(values, files["judgments"])))


def _next(values: Mapping[str, Proposal], judgments: Sequence[str]) -> Iterator[str]:
    """The next commands, until features are logged."""
    if values["featureset"] == (None, _NONE):
        yield "owpc-ltr featureset suggest --out features.json"
        yield "owpc-ltr featureset push features.json"
    if values["judgments"][0] is not None:
        yield "owpc-ltr log-features"
    elif not judgments:
        yield f"write judgments = FILE into {PROJECT_FILE} (owpc-ltr judge --help: how to get some)"
    else:
        yield f"choose the judgments in {PROJECT_FILE}"


def _featureset(cluster: Cluster, index: str) -> Proposal:
    """The feature set that is called as the index, or whose fields the index has."""
    from owpc_ltr.engine.index_fields import refuse_unmapped

    store, fitting = cluster.holding_set(None).store, []
    for name in store.list_featuresets():
        with suppress(OwpcLtrError):  # of another index: it has not the fields
            if name != index:
                refuse_unmapped(cluster.engine, store.get_featureset(name), index, {})
            fitting.append(name)
    return _only(fitting, _NONE, preferred=index)


def _alias(cluster: Cluster, index: str) -> Proposal:
    """The alias of a model that was uploaded for this index, or a name for the first one."""
    from owpc_ltr.engine.deployment.alias import all_aliases
    from owpc_ltr.engine.deployment.deployment_record import DeploymentRecords, StorePlace

    names = []
    for alias in all_aliases(cluster.engine):
        place = StorePlace(str(alias.store_kind), alias.store)
        with suppress(OwpcLtrError):  # a damaged record is told by the commands that need it
            record = DeploymentRecords(cluster.engine, place).find(alias.current, whole=False)
            if record is not None and record.index == index:
                names.append(alias.name)
    if not names:
        return f"{index.strip('.').replace('@', '-')[:100]}-ranker", "no model is uploaded yet"
    return _only(names, "")


def _only(
    names: Sequence[str], what: str, *, preferred: str = "", otherwise: str | None = None
) -> Proposal:
    """The only name, or the preferred one of several."""
    if len(names) == 1:
        return names[0], "the only one"
    if preferred in names:
        return preferred, "called as the index"
    if names:
        more = " …" if len(names) > 8 else ""
        return None, f"one of {', '.join(names[:8])}{more}"
    return (None, what) if otherwise is None else (otherwise, "log-features writes it")


def _files() -> dict[str, list[str]]:
    """The files of the folder that look like what a key names."""
    kinds: dict[str, list[str]] = {"judgments": [], "query_template": [], "data": []}
    paths = sorted(path for path in Path().iterdir() if path.name.isprintable() and path.is_file())
    for path in paths[:_MOST]:
        with suppress(OwpcLtrError):  # what cannot be read is none of them
            kind = _kind(path)
            if kind:
                kinds[kind].append(str(path))
    return kinds


def _kind(path: Path) -> str | None:
    """The key that a file is for."""
    suffixes = [suffix for suffix in path.suffixes if suffix not in _PACKED][-1:]
    if suffixes == [".json"]:
        return "query_template" if _is_template(path) else None
    if suffixes == [".parquet"]:
        import pyarrow.parquet as pq

        from owpc_ltr.data.parquet import DATASET_KEY
        from owpc_ltr.files.input import open_for_arrow

        with open_for_arrow(path) as file:
            return "data" if DATASET_KEY in (pq.read_schema(file).metadata or {}) else None
    if not _TABLES.intersection(suffixes):
        return None
    from owpc_ltr.data.judgment_tables import table_formats
    from owpc_ltr.files.input import read_head

    named = "qrels" in path.name.lower()
    return "judgments" if named or table_formats(read_head(path)) is not None else None


def _is_template(path: Path) -> bool:
    """Whether a file is a query, or a search with one, in which the user's words have a place."""
    from owpc_ltr.files.strict_json import read_json_object

    content = read_json_object(path)
    query = content.get("query", content)
    # A feature set has such places, too; a request that was written for a model rescores.
    is_query = isinstance(query, dict) and len(query) == 1 and "featureset" not in query
    return is_query and "rescore" not in content and "{{keywords}}" in str(query)
