"""Model files: loaded and described."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from owpc_ltr.errors import BadInput

if TYPE_CHECKING:
    from owpc_ltr.models.reordering import ReorderingModel
    from owpc_ltr.protocols import Model


def load_model(path: Path | str, plugins: Sequence[Path | str] = ()) -> Model | ReorderingModel:
    """A model or a reordering from its file. Raises BadInput naming the file."""
    from owpc_ltr.models.reordering import load_ranker

    return load_ranker(Path(path), [Path(plugin) for plugin in plugins])


def describe(
    path: Path | str,
) -> tuple[dict[str, Any], dict[str, Any], dict[str, dict[str, Any]]]:
    """A model file but for samples and digests, its record in few words, and importances."""
    from owpc_ltr.engine.deployment.deployment_record import flattened, recorded
    from owpc_ltr.models.feature_use import importances
    from owpc_ltr.models.model_file import content_of

    model = load_model(path)
    content = content_of(model)
    record = {key: part for key, part in model.record.items() if key != "probes"}
    if "source" in record:
        # Which queries they were is for comparing with others: nobody reads it.
        source = record["source"] or {}
        record["source"] = {key: part for key, part in source.items() if key != "queries"}
    facts = {"file": str(path), "type": model.kind, "features": len(model.feature_names)}
    told = dict(flattened(facts | recorded(record)))
    return {**content, "record": record}, told, importances(model)


def load_reordering(path: Path | str, plugins: Sequence[Path | str] = ()) -> ReorderingModel:
    """A reordering from its file. Raises BadInput for a model of single documents too."""
    from owpc_ltr.models.reordering import ReorderingModel

    ranker = load_model(path, plugins)
    if not isinstance(ranker, ReorderingModel):
        raise BadInput(f"{path} is no reordering: upload it, and search with --model NAME")
    return ranker


def save_model(model: Model | ReorderingModel, path: Path | str) -> None:
    """Write a model as one JSON file, whole or not at all."""
    from owpc_ltr.models.model_file import save_model as save

    save(model, Path(path))
