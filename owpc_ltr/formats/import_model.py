"""Model files of other tools, recognised by their content and read."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from owpc_ltr.errors import BadInput
from owpc_ltr.files.regular import read_regular
from owpc_ltr.files.strict_json import LARGEST_FILE, a_json, parse_json, take, take_list, take_text
from owpc_ltr.formats.engine_versions import LINEAR, RANKLIB, XGBOOST, XGBOOST_RAW, serving_profile
from owpc_ltr.formats.lightgbm_text import from_lightgbm
from owpc_ltr.formats.ltr_plugin_reader import PluginLinear, read_definition
from owpc_ltr.formats.normalisers import read_normalisers
from owpc_ltr.formats.ranklib import from_ranklib
from owpc_ltr.formats.xgboost_json import from_dump
from owpc_ltr.formats.xgboost_raw import from_raw
from owpc_ltr.models.linear import FORMAT, LinearModel, Normaliser, load_model, with_record
from owpc_ltr.models.trees import TreeModel
from owpc_ltr.protocols import Model

Missing = Literal["as-trained", "zero"]


def import_model(
    path: Path,
    feature_names: Sequence[str] = (),
    *,
    missing: Missing = "as-trained",
    slice_best: bool = True,
) -> Model:
    """The model of a file: of XGBoost (model or dump), LightGBM, RankLib, the LTR plugin, or ours.

    `feature_names` name the columns of files that do not (RankLib, a dump's f0, f1, …).
    `missing="zero"` is for trees trained on data in which missing values were 0. Raises BadInput,
    naming the file.
    """
    return read_model(path, feature_names, missing=missing, slice_best=slice_best)[0]


def read_model(
    path: Path,
    feature_names: Sequence[str] = (),
    *,
    missing: Missing = "as-trained",
    slice_best: bool = True,
) -> tuple[Model, bool]:
    """The same, and whether the file is one of ours, which keeps the record that it has."""
    names = tuple(feature_names)
    raw = read_regular(path, LARGEST_FILE, "cannot import", kind="a model")
    try:
        if raw.lstrip()[:1] in {b"{", b"["} and not _is_binary(raw):
            content = parse_json(raw, "the file")
            if isinstance(content, dict) and content.get("format") == FORMAT:
                return load_model(path), True
            model, kind = _from_json(content, names, slice_best)
        else:
            model, kind = _from_text(raw, names)
        if missing == "zero" and isinstance(model, TreeModel):
            model = model.with_missing_as_zero()
    except BadInput as error:
        raise BadInput(f"cannot import {path}: {error}") from error
    imported = {"format": kind, "file": path.name, "missing": missing}
    details = model.record.get("imported") or {}
    record = {**model.record, "imported": {**details, **imported}}
    return with_record(model, record), False


def _is_binary(raw: bytes) -> bool:
    """Whether this is UBJSON, which XGBoost writes to .ubj files, and which also starts with {."""
    return re.match(rb"\{[LUiIl$#]", raw) is not None


def _from_text(raw: bytes, names: tuple[str, ...]) -> tuple[Model, str]:
    if _is_binary(raw) or b"\0" in raw[:4096]:
        raise BadInput(
            "it is binary: save an XGBoost model with save_model('model.json'), LightGBM's with "
            "save_model('model.txt'), scikit-learn's with from_sklearn of "
            "owpc_ltr.formats.sklearn_trees; pickles are never read"
        )
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise BadInput(f"it is neither JSON nor text: {error.reason}") from error
    if text.split("\n", 1)[0].strip() == "tree":
        return from_lightgbm(text), "lightgbm"
    if text.startswith("## "):
        return from_ranklib(text, _needed(names)), RANKLIB
    raise BadInput(
        "it is no model that we know: XGBoost's JSON, LightGBM's text, RankLib's text or a model "
        "of the LTR plugin"
    )


def _from_json(content: Any, names: tuple[str, ...], slice_best: bool) -> tuple[Model, str]:
    if isinstance(content, list) or "splits" in content:
        return _from_dump(content, names), XGBOOST
    if "learner" in content:
        return from_raw(content, names or None, slice_best=slice_best), XGBOOST_RAW
    return _from_plugin(content, names)


def _from_dump(content: Any, names: tuple[str, ...]) -> TreeModel:
    """A dump; its f0, f1, … are the columns where they are not among the names."""
    needed = _needed(names)
    trees = content if isinstance(content, list) else take_list(content, "splits", "the dump")
    used = _split_names(trees)
    numbered = tuple(f"f{column}" for column in range(len(needed)))
    if used and not used & set(needed) and used <= set(numbered):
        return replace(from_dump(content, numbered), feature_names=needed)
    return from_dump(content, needed)


def _split_names(trees: list[Any]) -> set[str]:
    found: set[str] = set()
    stack = [tree for tree in trees if isinstance(tree, dict)]
    while stack:
        node = stack.pop()
        if isinstance(node.get("split"), str):
            found.add(node["split"])
        children = node.get("children", [])
        if isinstance(children, list):
            stack += [child for child in children if isinstance(child, dict)]
    return found


def _from_plugin(content: dict[str, Any], names: tuple[str, ...]) -> tuple[Model, str]:
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
        return from_ranklib(definition, _needed(names)), RANKLIB
    if isinstance(definition, str):
        definition = parse_json(definition, "the definition")
    normalisers = inner.get("feature_normalizers") or {}
    if kind == LINEAR:
        return _linear(definition, normalisers, names), LINEAR
    if normalisers:
        raise BadInput(f"a {kind} with feature_normalizers: only linear models can keep them")
    if kind == XGBOOST:
        return from_dump(definition, _needed(names)), XGBOOST
    if kind == XGBOOST_RAW:
        return from_raw(definition, names or None, slice_best=False), XGBOOST_RAW
    raise BadInput(f"its model type is {a_json(kind)}, which no LTR plugin has")


def _linear(definition: Any, normalisers: Any, names: tuple[str, ...]) -> LinearModel:
    if not names and isinstance(definition, dict):
        names = tuple(definition)
    read = read_definition(definition, LINEAR, names, serving_profile("opensearch", "3.8.0"))
    weights = read.weights if isinstance(read, PluginLinear) else np.zeros(0)
    kept = {
        names[n.column]: Normaliser(
            next(iter(normalisers[names[n.column]])), float(n.shift), float(n.scale)
        )
        for n in read_normalisers(normalisers, names)
    }
    return LinearModel(names, weights, kept)


def _needed(names: tuple[str, ...]) -> tuple[str, ...]:
    if not names:
        raise BadInput("it does not name its features: say the feature set that it was trained on")
    return names
