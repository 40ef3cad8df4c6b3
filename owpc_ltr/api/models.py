"""Model files: loaded, imported from other tools, exported to engines, averaged, judged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from owpc_ltr.errors import BadInput

if TYPE_CHECKING:
    from owpc_ltr.data.dataset import RankingDataset
    from owpc_ltr.evaluation.risk_bounds import Bound
    from owpc_ltr.features.feature_set import FeatureSet
    from owpc_ltr.formats.upgrade_check import UpgradeReport
    from owpc_ltr.models.reordering import ReorderingModel
    from owpc_ltr.protocols import ExportedFile, Model


def load_model(path: Path | str, plugins: Sequence[Path | str] = ()) -> Model | ReorderingModel:
    """A model or a reordering from its file. Raises BadInput naming the file."""
    from owpc_ltr.models.reordering import load_ranker

    return load_ranker(Path(path), [Path(plugin) for plugin in plugins])


def describe(
    path: Path | str,
) -> tuple[dict[str, Any], dict[str, Any], dict[str, dict[str, Any]]]:
    """A model file but for samples and digests, its record in few words, and importances."""
    from owpc_ltr.engine.deployment.provenance import flattened, recorded
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


def import_model(
    path: Path | str,
    *,
    feature_names: Sequence[str] | Path | str = (),
    featureset: FeatureSet | Path | str | None = None,
    data: RankingDataset | None = None,
    missing: Literal["as-trained", "zero"] = "as-trained",
    source: str = "",
) -> Model:
    """The model of another tool's file, told by its content.

    Its columns are named by `feature_names` (a file has one a line), by the feature set or by the
    data that it was trained on; left out, they are its own. `missing="zero"`: it was trained with
    0 where a value was missing. `source` is what the record calls the data. What had to be changed
    of the model is in its record (`record["imported"]["notes"]`). Pickles are never read.
    """
    from owpc_ltr.data.external_features.source import as_joined, sources_in
    from owpc_ltr.data.sources import source_of
    from owpc_ltr.features.loading import load_featureset
    from owpc_ltr.formats.import_model import Columns, import_with, read_names
    from owpc_ltr.models.parity_samples import parity_samples_of

    columns = Columns()
    if isinstance(feature_names, Path | str):
        columns = Columns(read_names(Path(feature_names)))
    elif feature_names:
        columns = Columns(tuple(feature_names))
    if isinstance(featureset, Path | str):
        featureset = load_featureset(Path(featureset))
    if featureset is not None:
        columns = Columns(featureset.feature_names, {"featureset_hash": featureset.hash})
    if data is not None:
        known = source_of(data, None, {"data": source, "fingerprint": data.fingerprint})
        record = {"featureset_hash": data.featureset_hash, "probes": parity_samples_of(data)}
        record |= as_joined(sources_in(data.manifest, "the dataset's manifest"))
        columns = Columns(data.feature_names, {**record, "source": known})
    return import_with(Path(path), columns, missing)


def export_model(
    model: Model | Path | str,
    out: Path | str,
    *,
    target: str,
    version: str,
    name: str = "owpc-ltr",
    featureset: FeatureSet | Path | str | None = None,
    settings: Mapping[str, Any] | None = None,
    plugins: Sequence[Path | str] = (),
) -> ExportedFile:
    """Write the file that makes a model in an engine, scored there as here, or refuse.

    `target` is an export target (see `owpc-ltr plugins`), `settings` are its own, by name or as
    `target.NAME`; `version` is the engine's. What it does with real documents only an upload
    proves.
    """
    from owpc_ltr.errors import UsageError
    from owpc_ltr.features.loading import load_featureset
    from owpc_ltr.files.output import output_file, write_output
    from owpc_ltr.formats.export import export_file
    from owpc_ltr.host.registry import load
    from owpc_ltr.models.model_file import load_model as load_single

    output_file(out, [one for one in (model, featureset, *plugins) if isinstance(one, Path | str)])
    registry = load(map(Path, plugins))
    registry.find("export-target", target)
    given: dict[str, Any] = {}
    for full, value in (settings or {}).items():
        kind, dot, setting = full.rpartition(".")
        if dot and kind != "target":
            raise UsageError(f"export has no '{kind}' to set: write target.FIELD=VALUE")
        given[setting] = value
    if isinstance(featureset, Path | str):
        featureset = load_featureset(Path(featureset))
    ranker = load_single(Path(model)) if isinstance(model, Path | str) else model
    made = export_file(ranker, target, name, version, featureset, registry, given)
    write_output(out, made.text.encode())
    return made


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
    from owpc_ltr.evaluation.evaluate import model_data
    from owpc_ltr.evaluation.risk_bounds import all_bounds
    from owpc_ltr.evaluation.trained_on import trained_here
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


def upgrade_report(
    model: Path | str,
    *,
    distribution: str,
    before: str,
    after: str,
    data: RankingDataset | None = None,
    featureset: FeatureSet | Path | str | None = None,
) -> UpgradeReport:
    """What an upgrade of the engine, from version `before` to `after`, does to rankings.

    `model` is a model file or a stored model; `data` are judged queries logged on the old version,
    by default the few that a model file remembers.
    """
    from owpc_ltr.features.loading import load_featureset
    from owpc_ltr.formats.engine_versions import serving_profile
    from owpc_ltr.formats.upgrade_check import report_upgrade

    old, new = (serving_profile(distribution, version) for version in (before, after))
    if isinstance(featureset, Path | str):
        featureset = load_featureset(Path(featureset))
    return report_upgrade(Path(model), old, new, data, featureset)


def _own_settings(record: dict[str, Any]) -> dict[str, Any]:
    loss = record.get("loss")
    if isinstance(loss, dict) and loss.get("name") == "owpc":
        return {key: loss["settings"][key] for key in ("generator", "p")}
    return {}
