"""Model files: loaded, described, and their risk bounded."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from owpc_ltr.errors import BadInput

if TYPE_CHECKING:
    from owpc_ltr.data.dataset import RankingDataset
    from owpc_ltr.evaluation.risk_bounds import Bound
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


def risk_bounds(
    model: Model | Path | str,
    data: RankingDataset,
    *,
    delta: float = 0.05,
    generator: str | None = None,
    plugins: Sequence[Path | str] = (),
) -> list[Bound]:
    """The papers' risk bounds of a linear model on the queries that it was trained on.

    They hold with probability 1 − `delta`; `generator` names the OWPC weights of the ranking
    error, by default the model's own. On other queries they are of those (`trained_here` is
    False), of which OwpcLtrWarning tells.
    """
    from dataclasses import replace

    from owpc_ltr.errors import give_warnings
    from owpc_ltr.evaluation.measurement import model_data
    from owpc_ltr.evaluation.risk_bounds import all_bounds, trained_here
    from owpc_ltr.host.registry import load
    from owpc_ltr.host.settings import configure
    from owpc_ltr.models.model_file import load_model as load_linear

    registry = load(map(Path, plugins))
    ranker: Any = load_linear(Path(model)) if isinstance(model, Path | str) else model
    settings = {"generator": generator} if generator else _own_settings(ranker.record)
    owpc = configure(registry.find("loss", "owpc"), settings)
    sample = model_data(ranker, data, "all")[0]
    position = configure(registry.find("loss", "position-sensitive"), {})
    precision = configure(registry.find("loss", "average-precision"), {})
    found = all_bounds(ranker, sample.without_missing(), owpc, position, precision, delta)
    here, told = trained_here(ranker.record, sample)
    give_warnings(told)
    return [replace(bound, trained_here=here) for bound in found]


def _own_settings(record: dict[str, Any]) -> dict[str, Any]:
    loss = record.get("loss")
    if isinstance(loss, dict) and loss.get("name") == "owpc":
        return {key: loss["settings"][key] for key in ("generator", "p")}
    return {}
