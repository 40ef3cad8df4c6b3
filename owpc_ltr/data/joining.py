"""Datasets joined: several files with the same features, and the row groups of one file."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from owpc_ltr.arrays import Matrix
from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.data.feature_sources import external_entry, external_names, sources_in
from owpc_ltr.data.judgments.grouping import JUDGED_BY, joined_judges
from owpc_ltr.data.parquet import stream_groups
from owpc_ltr.errors import BadInput
from owpc_ltr.files.input import shown


def join_datasets(
    parts: Sequence[RankingDataset], names: Sequence[str], features: Matrix | None = None
) -> RankingDataset:
    """The queries of all parts, in their order; `names` are the parts' own, for errors.

    `features` is the parts' matrix where it is in one piece already. Weights that a part lacks are
    1. Raises BadInput, naming both parts, where they have other features or feature sets, share a
    query, or only one knows its documents or parameters.
    """
    if len(parts) == 1:
        return parts[0]
    for part, name in zip(parts[1:], names[1:], strict=True):
        check_alike(parts[0], names[0], part, name)
    _refuse_shared_queries(parts, names)
    rows = np.cumsum([0, *(part.n_documents for part in parts)])
    starts = [part.offsets[:-1] + first for part, first in zip(parts, rows, strict=False)]
    scales = parts[0].feature_scales
    same_scales = scales is not None and all(
        part.feature_scales is not None and np.array_equal(part.feature_scales, scales)
        for part in parts
    )
    return RankingDataset(
        features=(
            np.concatenate([part.features for part in parts]) if features is None else features
        ),
        labels=np.concatenate([part.labels for part in parts]),
        offsets=np.append(np.concatenate(starts), rows[-1]),
        query_ids=pa.concat_arrays([part.query_ids for part in parts]),
        feature_names=parts[0].feature_names,
        doc_ids=_column(parts, "doc_ids"),
        featureset_hash=next((p.featureset_hash for p in parts if p.featureset_hash), None),
        query_params=_column(parts, "query_params"),
        query_weights=_column(parts, "query_weights", lambda part: part.query_importance),
        document_weights=_column(parts, "document_weights", lambda part: part.weights),
        comments=_column(parts, "comments", lambda part: pa.array([""] * part.n_documents)),
        feature_scales=scales if same_scales else None,
        document_fields=_fields(parts),
        manifest=joined_manifest([part.manifest for part in parts]),
        notes=tuple(dict.fromkeys(note for part in parts for note in part.notes)),
    )


class Logged(Protocol):
    """A dataset, in memory or in parts, with what is known of the log that its features are of."""

    @property
    def feature_names(self) -> tuple[str, ...]:
        """The names of the columns."""

    @property
    def featureset_hash(self) -> str | None:
        """That of the feature set, if there is one."""

    @property
    def manifest(self) -> dict[str, Any] | None:
        """What the log tells of itself."""


def check_same_features(first: Logged, name: str, other: Logged, other_name: str) -> None:
    """Refuse datasets of other features. Raises BadInput."""
    if first.feature_names != other.feature_names:
        raise BadInput(
            f"{name} and {other_name} have other features: {_difference(first, other)}"
            f"{_sets(first, other)}; use data of the same features (of LETOR text, say n_features)"
        )
    hashes = first.featureset_hash, other.featureset_hash
    if all(hashes) and hashes[0] != hashes[1]:
        raise BadInput(
            f"{name} and {other_name} were logged with other versions of the feature set"
            f"{_sets(first, other)}: log one of them again"
        )


def check_alike(first: RankingDataset, name: str, other: RankingDataset, other_name: str) -> None:
    """Refuse parts of other features, or of which only one knows something. Raises BadInput."""
    check_same_features(first, name, other, other_name)
    joined = [external_names(sources_in(part.manifest)) for part in (first, other)]
    if joined[0] != joined[1]:
        differing = next(iter(set(joined[0]) ^ set(joined[1])), joined[0][0])
        raise BadInput(
            f"'{differing}' is an external feature in one of {name} and {other_name}, and not "
            "in the other: log both with the same tables"
        )
    for field, what in (("doc_ids", "document ids"), ("query_params", "query params")):
        if (getattr(first, field) is None) != (getattr(other, field) is None):
            with_, without = (
                (name, other_name) if getattr(other, field) is None else (other_name, name)
            )
            raise BadInput(
                f"{with_} has {what} and {without} has none: add them, or read the files one by one"
            )
    if {JUDGED_BY, *(first.document_fields or ())} != {JUDGED_BY, *(other.document_fields or ())}:
        raise BadInput(f"{name} and {other_name} have other document fields: add them afterwards")


def logged_with(data: Logged) -> str:
    """The name of the feature set that a dataset was logged with, if known, and its hash."""
    about = (data.manifest or {}).get("featureset")
    name = [f"'{about['name']}'"] if isinstance(about, dict) and "name" in about else []
    return ", hash ".join([*name, str(data.featureset_hash)[:12]])


def _sets(first: Logged, other: Logged) -> str:
    hashes = first.featureset_hash and other.featureset_hash
    return f" ({logged_with(first)} and {logged_with(other)})" if hashes else ""


def _difference(first: Logged, other: Logged) -> str:
    sizes = f"{len(first.feature_names)} against {len(other.feature_names)}"
    pairs = zip(first.feature_names, other.feature_names, strict=False)
    differing = next((f", '{a}' where the other has '{b}'" for a, b in pairs if a != b), "")
    return sizes + differing


def _refuse_shared_queries(parts: Sequence[RankingDataset], names: Sequence[str]) -> None:
    files: dict[str, str] = {}
    for part, name in zip(parts, names, strict=True):
        queries = part.query_ids.to_pylist()
        shared = next((query for query in queries if query in files), None)
        if shared is not None:
            raise BadInput(
                f"query '{shared}' is in {files[shared]} and in {name}: put a query's rows in one "
                "file, or give the queries of each file ids of their own"
            )
        files |= dict.fromkeys(queries, name)


def joined_manifest(manifests: Sequence[dict[str, Any] | None]) -> dict[str, Any] | None:
    """The sources of external features and the judges; other entries are of one log only."""
    sources = dict.fromkeys(source for manifest in manifests for source in sources_in(manifest))
    return {**external_entry(tuple(sources)), **joined_judges(manifests)} or None


def _column(
    parts: Sequence[RankingDataset],
    name: str,
    default: Callable[[RankingDataset], Any] | None = None,
) -> Any:
    """A column of all parts, None if no part has it; `default` makes that of a part without it."""
    columns = [getattr(part, name) for part in parts]
    if all(column is None for column in columns):
        return None
    if default is not None:
        pairs = zip(parts, columns, strict=True)
        columns = [default(part) if column is None else column for part, column in pairs]
    join = np.concatenate if isinstance(columns[0], np.ndarray) else pa.concat_arrays
    return join(columns)


def _fields(parts: Sequence[RankingDataset]) -> Mapping[str, pa.Array] | None:
    fields = [part.document_fields or {} for part in parts]
    if not any(fields):
        return parts[0].document_fields
    if any(JUDGED_BY in columns for columns in fields):
        # Who judged is not known of some.
        fields = [
            {JUDGED_BY: pa.array([""] * part.n_documents, pa.string()), **columns}
            for part, columns in zip(parts, fields, strict=True)
        ]
    return {name: pa.concat_arrays([columns[name] for columns in fields]) for name in fields[0]}


def stream_parquet(path: Path) -> Iterator[RankingDataset]:
    """The queries of a dataset file in its order; a query may lie across row groups."""
    begun: RankingDataset | None = None
    for group in stream_groups(path):
        whole = group if begun is None else _continued(path, begun, group)
        begun = whole.select(np.array([whole.n_queries - 1]))
        if whole.n_queries > 1:
            yield whole.select(np.arange(whole.n_queries - 1))
    if begun is None:
        raise BadInput(f"cannot read {path}: it has no rows")
    yield begun


def _continued(path: Path, begun: RankingDataset, group: RankingDataset) -> RankingDataset:
    """A query, and the row group after it, which may go on with it."""
    query = begun.query_ids[0].as_py()
    goes_on = group.query_ids[0].as_py() == query
    if goes_on:
        for name in ("query_params", "query_weights"):
            before, after = getattr(begun, name), getattr(group, name)
            if before is not None and before[0] != after[0]:
                raise BadInput(
                    f"cannot read {path}: query {shown(query)} has two values of '{name[:-1]}'"
                )
        # Under two names while they are joined.
        begun = replace(begun, query_ids=pa.array([f"{query}\0"]))
        if begun.query_ids[0].as_py() in group.query_ids.to_pylist():
            raise BadInput(f"cannot read {path}: query {shown(query)} has a name that ends in 0")
    joined = replace(
        join_datasets([begun, group], [str(path), str(path)]),
        manifest=begun.manifest,
        featureset_hash=begun.featureset_hash,
    )
    if not goes_on:
        return joined
    shorter: dict[str, Any] = {}
    for name in ("query_ids", "query_params", "query_weights"):
        column = getattr(joined, name)
        shorter[name] = None if column is None else column[1:]
    return replace(joined, offsets=np.delete(joined.offsets, 1), **shorter)
