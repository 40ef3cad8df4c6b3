"""A model as a cluster gets it: joined features are left out, or the client scores it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from owpc_ltr.data.joined_tables.served import JoinedColumns, columns_for, refuse_unused
from owpc_ltr.data.joined_tables.source import in_words, joined_features
from owpc_ltr.engine.store.base import Store
from owpc_ltr.errors import Refused
from owpc_ltr.interop.joined_features import (
    for_engine,
    joined_sources,
    joined_used,
    without_joined,
)
from owpc_ltr.protocols import Model

if TYPE_CHECKING:
    from owpc_ltr.data.joined_tables.table import JoinedTable


@dataclass(frozen=True)
class ServedModel:
    """The model that is stored, samples with its columns, and where its joined ones are found.

    `joined` is None where the model reads none, or no table was given: `cautions` say which.
    """

    model: Model
    samples: list[dict[str, Any]]
    joined: JoinedColumns | None = None
    cautions: tuple[str, ...] = ()


def served_model(
    store: Store,
    model: Model,
    samples: Sequence[dict[str, Any]],
    *,
    client_scored: bool,
    tables: Sequence[JoinedTable],
) -> ServedModel:
    """The model without joined features, unless it reads them and the client is to score it.

    Raises Refused for a model that reads some and is to run in an engine, and for a store that
    keeps no model for clients.
    """
    if client_scored and store.kind == "ltr-plugin":
        raise Refused(
            "the LTR plugin's store keeps no model that the client scores: upload it with "
            "--store-kind plugin-free"
        )
    sources = joined_sources(model)
    refuse_unused(sources, tables, "the model")
    names, used = joined_features(sources), joined_used(model)
    if not (client_scored and used):
        small = for_engine(model)
        kept = without_joined(samples, len(model.feature_names), len(names))
        nothing = f"the model makes nothing of {in_words(names, sources)}: it was left out"
        return ServedModel(small, kept, cautions=(nothing,) if names else ())
    if tables:
        joined = columns_for(sources, tables, "the model")
        return ServedModel(model, list(samples), joined)
    unseen = (
        f"{in_words(names, sources)}: values of no index, which the proof took as the model "
        "remembers them; to prove that they are found, give the table with --join FILE"
    )
    return ServedModel(model, list(samples), cautions=(unseen,))
