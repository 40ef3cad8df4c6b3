"""Rankers as they are named for a pool: queries, models, uploaded or in files, and TREC runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from owpc_ltr.engine.defaults import the_featureset
from owpc_ltr.errors import BadInput, UsageError

if TYPE_CHECKING:
    from owpc_ltr.data.external_features.table import ExternalTable
    from owpc_ltr.data.judgments.types import JudgedQuery
    from owpc_ltr.engine.cluster import Cluster
    from owpc_ltr.engine.search.serving import Serve

_QUERY = "query"
"""What the query alone is called, which models rescore."""


@dataclass(frozen=True)
class PoolRankers:
    """Rankers at work until `kept` ends: how they serve, by which query, or as lists of a run.

    `records` are those of the models.
    """

    ways: list[tuple[Serve, dict[str, Any]]]
    runs: list[Mapping[str, Sequence[str]]]
    records: dict[str, Mapping[str, Any]]

    @staticmethod
    def of(
        cluster: Cluster,
        rankers: Sequence[Any],
        template: dict[str, Any],
        featureset: str | None,
        tables: Sequence[ExternalTable],
        kept: ExitStack,
    ) -> PoolRankers:
        """The rankers that are named; models rescore the `template`.

        In the `tables` is what they read from outside the index. Raises UsageError where there is
        no ranker, or one is neither a file nor uploaded.
        """
        from owpc_ltr.data.judgments.pools import read_run_lists
        from owpc_ltr.engine.search.serving import query_alone, with_stored

        if not rankers:
            raise UsageError(
                "there is no ranker to pool: give queries, models, uploaded names or TREC runs"
            )
        found = PoolRankers([], [], {})
        alone = query_alone(cluster.engine, cluster.store)
        for ranker in rankers:
            if ranker == _QUERY:
                found.ways.append((alone, template))
            elif isinstance(ranker, Mapping):
                found.ways.append((alone, dict(ranker)))
            elif not isinstance(ranker, Path | str) or Path(ranker).suffix == ".json":
                read = _read(ranker)
                if isinstance(read, dict):
                    found.ways.append((alone, read))
                    continue
                serve = kept.enter_context(_on_trial(cluster, read, featureset, tables))
                found.ways.append((serve, template))
                found.records[str(ranker)] = read.record
            elif Path(ranker).is_file():
                found.runs.append(read_run_lists(Path(ranker)))
            else:
                name = cluster.models.resolve(str(ranker))
                certificate = cluster.models.certificate(name)
                own, interval = cluster.models.store_of(str(ranker)), cluster.models.interval(name)
                serve = with_stored(cluster.engine, own, own.get_model(name), interval, tables)
                found.ways.append((serve, template))
                found.records[name] = certificate.record if certificate else {}
        return found

    def sampled(self, queries: Sequence[JudgedQuery], number: int, seed: int) -> list[JudgedQuery]:
        """So many of the queries, drawn of those that no model was trained with, in their order."""
        import numpy as np

        from owpc_ltr.evaluation.held_out import choose_queries

        left = choose_queries(self.records, queries).queries
        chosen = np.random.default_rng(seed).permutation(left)[:number]
        return [queries[place] for place in np.sort(chosen).tolist()]


def read_asked(path: Path | str) -> list[JudgedQuery]:
    """The queries of a file, without documents: of a table, lines, or a dataset."""
    from dataclasses import replace

    import numpy as np

    from owpc_ltr.api.live import judged_queries
    from owpc_ltr.data.judgments.pools import read_queries
    from owpc_ltr.data.partitioned.dataset import PartitionedDataset, in_memory
    from owpc_ltr.evaluation.judged_data import read_data

    if Path(path).is_dir() or Path(path).suffix in {".parquet", ".jsonl", ".json"}:
        data = read_data(path)
        if isinstance(data, PartitionedDataset):
            data = in_memory(data, "a pool")
        nothing = np.zeros(0, np.float32)
        return [
            replace(query, document_ids=[], grades=nothing, weights=None)
            for query in judged_queries(data)
        ]
    return read_queries(Path(path))


def _read(ranker: Any) -> Any:
    """A query, or a model, as its file has it."""
    from owpc_ltr.engine.search.request import split_body
    from owpc_ltr.files.strict_json import read_json_object
    from owpc_ltr.models.model_file import load_scoring_model

    if not isinstance(ranker, Path | str):
        return ranker
    content = read_json_object(Path(ranker))
    if {"kind", "record"} <= content.keys():
        return load_scoring_model(Path(ranker))
    return split_body(content)[0]


def _on_trial(
    cluster: Cluster, model: Any, featureset: str | None, tables: Sequence[ExternalTable]
) -> Any:
    from owpc_ltr.engine.deployment.serving_mode import on_trial

    if not hasattr(model, "record"):
        raise BadInput(f"{model!r} is no ranker: give a query, a model, a name or a TREC run")
    wanted = model.record.get("featureset_hash")
    own = cluster.store.get_featureset(the_featureset(cluster.store, featureset, wanted))
    return on_trial(cluster.engine, cluster.store, model, own, tables)
