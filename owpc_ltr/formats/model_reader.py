"""Model files of other libraries, put on a feature set's columns; notes say what was changed."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.data.feature_sources import external_entry, sources_in
from owpc_ltr.data.splits import source_of
from owpc_ltr.errors import BadInput
from owpc_ltr.files.input import read_regular, read_text, shown
from owpc_ltr.files.strict_json import LARGEST_FILE, a_json, parse_json, take, take_list, take_text
from owpc_ltr.formats.elastic_trees import from_elastic
from owpc_ltr.formats.ltr_plugin import read_linear
from owpc_ltr.formats.other_trees import from_lightgbm, lightgbm_text
from owpc_ltr.formats.ranklib import from_ranklib
from owpc_ltr.formats.stored_model import LINEAR, RANKLIB, XGBOOST, XGBOOST_RAW
from owpc_ltr.formats.xgboost_json import from_dump, from_raw, stale_leaves
from owpc_ltr.models.analysis import with_features
from owpc_ltr.models.linear import LinearModel
from owpc_ltr.models.model_file import FORMAT, load_scoring_model, parity_samples_of, with_record
from owpc_ltr.models.trees import TreeModel
from owpc_ltr.protocols import Model

Missing = Literal["as-trained", "zero"]
_Imported = tuple[Model, str, list[str]]
"""A model, the format of its file, and notes on what engines read otherwise."""
_DUMP_NOTE = (
    "a dump holds no base score, which changes no order; nor the weights of a dart model's trees, "
    "which do: of one, import its file (save_model) instead"
)


def _read_model_file(path: Path, names: tuple[str, ...]) -> tuple[Model, list[str] | None]:
    """The model of a file of any kind, and notes; None for an owpc-ltr file, which has a record.

    The file is XGBoost's (model or dump), LightGBM's, RankLib's, the LTR plugin's, or owpc-ltr's.
    `names` are the columns of files that do not name them (RankLib, a dump's f0, f1, …). Raises
    BadInput, naming the file.
    """
    raw = read_regular(path, LARGEST_FILE, "cannot import", kind="a model")
    # XGBoost's UBJSON, in .ubj files, also starts with {.
    binary = re.match(rb"\{[LUiIl$#]", raw) is not None
    try:
        if raw.lstrip()[:1] in {b"{", b"["} and not binary:
            content = parse_json(raw, "the file")
            if isinstance(content, dict) and content.get("format") == FORMAT:
                return load_scoring_model(path), None
            model, kind, notes = _from_json(content, names)
        elif binary or b"\0" in raw[:4096]:
            raise BadInput(
                "it is binary: save an XGBoost model with save_model('model.json'), LightGBM's "
                "with save_model('model.txt'), scikit-learn's with from_sklearn of "
                "owpc_ltr.formats.other_trees; pickles are never read"
            )
        else:
            model, kind, notes = _from_text(raw, names)
    except BadInput as error:
        raise BadInput(f"cannot import {path}: {error}") from error
    details = model.record.get("imported") or {}
    record = {**model.record, "imported": {**details, "format": kind, "file": path.name}}
    return with_record(model, record), notes


def _from_text(raw: bytes, names: tuple[str, ...]) -> _Imported:
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise BadInput(f"it is neither JSON nor text: {error.reason}") from error
    if text.lstrip().startswith("<ensemble"):
        # RankLib's trees without the comment that names the algorithm: forests have ensembles.
        kind = "Random Forests" if text.count("<ensemble") > 1 else "LambdaMART"
        text = f"## {kind}\n{text.lstrip()}"
    if text.startswith("## "):
        return _from_ranklib(text, names)
    if text.split("\n", 1)[0].strip() != "tree":
        raise BadInput(f"it is not a model in a known format: {_KNOWN}")
    return _from_lightgbm(text)


_KNOWN = (
    "XGBoost's JSON, LightGBM's text or JSON, RankLib's text, a model of the LTR plugin or of "
    "Elasticsearch, or an object of weights"
)


def _from_lightgbm(text: str) -> _Imported:
    model = from_lightgbm(text)
    notes = [_equal_left(model, "LightGBM")]
    if "average_output" in text.split("\nTree=", 1)[0].splitlines():
        notes.append("the mean of the trees, as a sum: leaves were divided")
    return model, "lightgbm", notes


def _from_ranklib(text: str, names: tuple[str, ...]) -> _Imported:
    model = from_ranklib(text, _needed(names))
    notes = [_equal_left(model, "RankLib")] if isinstance(model, TreeModel) else []
    intercept = float(model.record["imported"].get("intercept", 0))
    if intercept:
        notes.append(f"the intercept {intercept:g} was left out: it changes no ranking")
    return model, RANKLIB, notes


def _from_json(content: dict[str, Any] | list[Any], names: tuple[str, ...]) -> _Imported:
    if isinstance(content, list) or "splits" in content:
        return _from_dump(content, names)
    if "learner" in content:
        return _from_raw(content, names, slice_best=True)
    if "tree_info" in content:
        return _from_lightgbm(lightgbm_text(content))
    definition = content.get("definition")
    of_elastic = isinstance(definition, dict) and "trained_model" in definition
    if of_elastic or {"inference_config", "trained_model_configs"} & content.keys():
        return from_elastic(content), "elastic", []
    if "features_info" in content or "oblivious_trees" in content:
        raise BadInput(
            "it is a model of CatBoost, which is not read: train with XGBoost or LightGBM, or "
            "compare its scores as a run"
        )
    if str(content.get("class")).startswith("org.apache.solr"):
        raise BadInput(
            "it is a model of Solr, which is not read: import the file of the library that trained "
            'it, or the weights of a linear model as an object {"title": 1.5}'
        )
    if content and all(type(weight) in (int, float) for weight in content.values()):
        return read_linear(content, {}, names or tuple(content)), LINEAR, []
    if not {"_source", "model", "type", "definition"} & content.keys():
        keys = ", ".join(map(shown, list(content)[:6]))
        raise BadInput(
            f"it is JSON with {keys or 'no key'}, and not a model in a known format: {_KNOWN}"
        )
    return _from_plugin(content, names)


def _from_dump(content: dict[str, Any] | list[Any], names: tuple[str, ...]) -> _Imported:
    """A dump; its f0, f1, … are the columns where they are not among the names."""
    numbered = tuple(f"f{column}" for column in range(len(_needed(names))))
    try:
        return from_dump(content, names), XGBOOST, [_DUMP_NOTE]
    except BadInput:
        if not set(numbered) & set(names):
            with suppress(BadInput):
                model = replace(from_dump(content, numbered), feature_names=names)
                return model, XGBOOST, [_DUMP_NOTE]
        raise


def _from_raw(content: dict[str, Any], names: tuple[str, ...], *, slice_best: bool) -> _Imported:
    model = from_raw(content, names or None, slice_best=slice_best)
    booster = content["learner"]["gradient_booster"]
    notes = []
    if booster["name"] == "dart":
        notes.append("dart: the weights of its trees were multiplied into their leaves")
        booster = booster["gbtree"]
    trees = booster["model"]["trees"]
    count = len(model.forest.roots)
    if count < len(trees):
        notes.append(f"trees after the best iteration were left out: {count} of {len(trees)} kept")
    if model.base:
        notes.append(
            f"the base score, which engines leave out, is part of the model: {model.base:g}"
        )
    stale = sum(map(stale_leaves, trees[:count]))
    if stale:
        notes.append(
            f"{stale} leaves have another value in base_weights, where the LTR plugin looks: those "
            "that XGBoost predicts with were taken"
        )
    return model, XGBOOST_RAW, notes


def _from_plugin(content: dict[str, Any], names: tuple[str, ...]) -> _Imported:
    """What GET _ltr/_model/NAME answers, the body that made it, or its type and definition alone.

    A stored model brings its feature set's names.
    """
    inner = content.get("_source", content)
    while isinstance(inner, dict) and "definition" not in inner:
        stored = inner.get("feature_set")
        if isinstance(stored, dict):
            features = take_list(stored, "features", "the stored feature set")
            names = tuple(take_text(feature, "name", "a stored feature") for feature in features)
        inner = take(inner, "model", "the file")
    kind = take(inner, "type", "the model")
    definition = take(inner, "definition", "the model")
    if kind == RANKLIB:
        return _from_ranklib(definition, names)
    if isinstance(definition, str):
        definition = parse_json(definition, "the definition")
    normalisers = inner.get("feature_normalizers") or {}
    if kind == LINEAR:
        known = names or tuple(definition if isinstance(definition, dict) else ())
        return read_linear(definition, normalisers, known), LINEAR, []
    if normalisers:
        raise BadInput(
            f"a model of type {a_json(kind)} with normalizers: only linear models keep them"
        )
    if kind == XGBOOST:
        return from_dump(definition, _needed(names)), XGBOOST, [_DUMP_NOTE]
    if kind == XGBOOST_RAW:
        return _from_raw(definition, names, slice_best=False)
    raise BadInput(f"its model type is {a_json(kind)}, which no LTR plugin has")


def _needed(names: tuple[str, ...]) -> tuple[str, ...]:
    if not names:
        raise BadInput("it does not name its features: say the feature set that it was trained on")
    return names


_NUMBERED = re.compile(r"(?:Column_|f)(\d+)")
"""What LightGBM and XGBoost call the columns of data without names, counted from 0."""


@dataclass(frozen=True)
class Columns:
    """The columns that a model will be given: a feature set's, or a dataset's.

    `record` goes into the model's own record: what `upload` asks for (`featureset_hash`, `probes`).
    """

    names: tuple[str, ...] = ()
    record: dict[str, Any] | None = None


def columns_of(data: RankingDataset, source: str) -> Columns:
    """The columns of the dataset that a model was trained on; `source` is what it is called."""
    origin = source_of(data, None, {"data": source, "fingerprint": data.fingerprint})
    record = {"featureset_hash": data.featureset_hash, "probes": parity_samples_of(data)}
    record |= external_entry(sources_in(data.manifest, "the dataset's manifest"))
    return Columns(data.feature_names, {**record, "source": origin})


def import_with(path: Path, columns: Columns, missing: Missing = "as-trained") -> Model:
    """Read a model file of any kind, and put the model on these columns (if there are any).

    Its record has a note for each thing that was changed or that the file lacked.
    Raises BadInput where the file is no model, or needs a column that is not there.
    """
    model, file_notes = _read_model_file(path, columns.names)
    details, notes = model.record.get("imported") or {}, file_notes or []
    if missing == "zero":
        model, note = _with_zeros(model)
        notes.append(note)
    model, column_notes = on_columns(model, columns.names)
    notes += column_notes
    # What an earlier import of the same model did to it stays true.
    if file_notes is None and details.get("missing") == "zero":
        missing = "zero"
    earlier = details.get("notes")
    earlier = [note for note in earlier if note not in notes] if isinstance(earlier, list) else []
    imported = {**details, "missing": missing, "notes": [*earlier, *notes]}
    record = {**(columns.record or {}), **model.record, "imported": imported}
    return with_record(model, record)


def read_names(path: Path) -> tuple[str, ...]:
    """Feature names from a file, one a line. Raises BadInput for none, or one twice."""
    names: dict[str, int] = {}
    for number, line in enumerate(read_text(path, largest=10_000_000).splitlines(), 1):
        name = line.strip()
        if name in names:
            raise BadInput(
                f"{path}, line {number}: the feature {shown(name)} is on line {names[name]} "
                "already: keep one"
            )
        if name:
            names[name] = number
    if not names:
        raise BadInput(f"{path} names no feature: write one on each line")
    return tuple(names)


def on_columns(model: Model, names: tuple[str, ...]) -> tuple[Model, list[str]]:
    """The model with exactly these columns, in this order, and what that changed.

    Columns that a library only numbered are taken in order; a column that the model does not know
    weighs nothing. Raises BadInput where the model needs another one.
    """
    columns = model.feature_names
    if not names or columns == names:
        return model, []
    numbers = [_NUMBERED.fullmatch(name) for name in columns]
    if (
        isinstance(model, TreeModel)
        and not set(columns) & set(names)
        and len(columns) <= len(names)
        and all(match and int(match[1]) == place for place, match in enumerate(numbers))
    ):
        model = replace(model, feature_names=names[: len(columns)])
        note = f"its columns are only numbered ({columns[0]} …): they were named in order"
        return with_features(model, names), [note]
    lacking = [name for name in columns if name not in names]
    if lacking:
        raise BadInput(
            f"the model needs the feature {shown(lacking[0])}, which is not among the {len(names)} "
            "given: name the feature set that it was trained on"
        )
    if not isinstance(model, LinearModel | TreeModel):
        raise BadInput(
            f"the features of the {model.kind} model are not those given, or in another order: "
            "give the feature set that it was trained on"
        )
    note = "its columns were put in the order of the feature set"
    unknown = len(names) - len(columns)
    if unknown:
        note += f"; {unknown} of them it does not use"
    return with_features(model, names), [note]


def _with_zeros(model: Model) -> tuple[Model, str]:
    if isinstance(model, TreeModel):
        changed, splits = model.with_missing_as_zero(), model.splits
        moved = int((changed.forest.default_left != model.forest.default_left)[splits].sum())
        return changed, (
            f"missing features go where 0 goes: {moved} of {len(splits)} splits sent them elsewhere"
        )
    if isinstance(model, LinearModel):
        return model, "a linear model takes missing features as 0 already"
    raise BadInput(f"`missing='zero'` is for tree models, and this is a {model.kind} model")


def _equal_left(model: TreeModel, library: str) -> str:
    return (
        f"{len(model.splits)} splits of {library} send a value that equals the threshold left: "
        "each became the next float32, so that `<` does the same"
    )
