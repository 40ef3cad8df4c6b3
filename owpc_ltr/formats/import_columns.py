"""An imported model put on a feature set's columns, with notes of what was changed."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from owpc_ltr.errors import BadInput
from owpc_ltr.files.strict_json import take_integers, take_numbers
from owpc_ltr.files.text import read_text, shown
from owpc_ltr.formats.engine_versions import RANKLIB, XGBOOST, XGBOOST_RAW
from owpc_ltr.formats.import_model import Missing, read_model
from owpc_ltr.models.linear import LinearModel, with_record
from owpc_ltr.models.trees import TreeModel, to_single
from owpc_ltr.protocols import Model

_NUMBERED = re.compile(r"(?:Column_|f)(\d+)")
"""What LightGBM and XGBoost call the columns of data without names, counted from 0."""


@dataclass(frozen=True)
class Columns:
    """The columns that a model will be given: a feature set's, or a dataset's.

    `record` goes into the model's own record: what `upload` asks for (`featureset_hash`, `probes`).
    """

    names: tuple[str, ...] = ()
    record: dict[str, Any] | None = None


def import_with(path: Path, columns: Columns, missing: Missing = "as-trained") -> Model:
    """Read a model file of any kind, and put the model on these columns (if there are any).

    Its record has a note for each thing that was changed or that the file lacked.
    Raises BadInput where the file is no model, or needs a column that is not there.
    """
    model, is_own = read_model(path, columns.names)
    known = model.record.get("imported") or {}
    notes = [] if is_own else _notes(path, model)
    if missing == "zero":
        model, note = _with_zeros(model)
        notes.append(note)
    model, moved = on_columns(model, columns.names)
    notes += moved
    record = {**(columns.record or {}), **model.record}
    # What an earlier import of the same model did to it stays true.
    if is_own and known.get("missing") == "zero":
        missing = "zero"
    told = known.get("notes")
    earlier = [note for note in told if note not in notes] if isinstance(told, list) else []
    imported = {**known, "missing": missing, "notes": [*earlier, *notes]}
    return with_record(model, {**record, "imported": imported})


def read_names(path: Path) -> tuple[str, ...]:
    """Feature names from a file, one a line. Raises BadInput for none, or one twice."""
    names: dict[str, int] = {}
    for number, line in enumerate(read_text(path, largest=10_000_000).splitlines(), 1):
        name = line.strip()
        if name in names:
            raise BadInput(
                f"{path}, line {number}: the feature {shown(name)} stands on line {names[name]} "
                "already: leave one"
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
    own = model.feature_names
    if not names or own == names:
        return model, []
    if not set(own) & set(names) and len(own) <= len(names) and _only_numbered(own):
        named = _renamed(model, names[: len(own)])
        note = f"its columns are only numbered ({own[0]} …): they were named in order"
        return _moved(named, names), [note]
    lacking = [name for name in own if name not in names]
    if lacking:
        raise BadInput(
            f"the model needs the feature '{lacking[0]}', which is not among the {len(names)} "
            "given: name the feature set that it was trained on"
        )
    unknown = len(names) - len(own)
    note = "its columns were put in the order of the feature set" + (
        f"; {unknown} of them it does not use" if unknown else ""
    )
    return _moved(model, names), [note]


def _only_numbered(names: tuple[str, ...]) -> bool:
    numbers = [_NUMBERED.fullmatch(name) for name in names]
    return all(match and int(match[1]) == place for place, match in enumerate(numbers))


def _renamed(model: Model, names: tuple[str, ...]) -> Model:
    if isinstance(model, TreeModel):
        return replace(model, feature_names=names)
    raise BadInput(f"a {model.kind} model whose features are only numbered: give it their names")


def _moved(model: Model, names: tuple[str, ...]) -> Model:
    places = np.array([names.index(name) for name in model.feature_names], dtype=np.int32)
    if isinstance(model, LinearModel):
        weights = np.zeros(len(names))
        weights[places] = model.weights
        return replace(model, feature_names=names, weights=weights)
    if isinstance(model, TreeModel):
        old = model.forest
        feature = np.where(old.is_leaf, old.feature, places[old.feature]).astype(np.int32)
        return replace(model, feature_names=names, forest=replace(old, feature=feature))
    raise BadInput(
        f"the features of the {model.kind} model are not those given, or in another order: give "
        "the feature set that it was trained on"
    )


def _with_zeros(model: Model) -> tuple[Model, str]:
    if isinstance(model, TreeModel):
        changed = model.with_missing_as_zero()
        splits = model.splits
        moved = int((changed.forest.default_left != model.forest.default_left)[splits].sum())
        return changed, (
            f"missing features go where 0 goes: {moved} of {len(splits)} splits sent them elsewhere"
        )
    if isinstance(model, LinearModel):
        return model, "a linear model takes missing features as 0 already"
    raise BadInput(f"--missing zero is for tree models, and this is a {model.kind} model")


def _notes(path: Path, model: Model) -> list[str]:
    """What the file says that engines do not read, or read otherwise, and what became of it."""
    kind = model.record.get("imported", {}).get("format")
    if kind == XGBOOST_RAW and isinstance(model, TreeModel):
        return _xgboost(_definition(json.loads(path.read_bytes())), model)
    if kind == XGBOOST:
        return [
            "a dump holds no base score, which changes no order; nor the weights of a dart model's "
            "trees, which do: of one, import its file (save_model) instead"
        ]
    if kind == "lightgbm" and isinstance(model, TreeModel):
        return [_below(model, "LightGBM"), *_averaged(path)]
    if kind != RANKLIB:
        return []
    intercept = float(model.record["imported"].get("intercept", 0))
    left_out = f"the intercept {intercept:g} was left out: it changes no ranking"
    return ([_below(model, "RankLib")] if isinstance(model, TreeModel) else []) + (
        [left_out] if intercept else []
    )


def _definition(content: Any) -> dict[str, Any]:
    """The XGBoost file in the JSON of a stored model, or the file itself."""
    while isinstance(content, dict) and "learner" not in content:
        inner = next((content[k] for k in ("_source", "model", "definition") if k in content), None)
        content = json.loads(inner) if isinstance(inner, str) else inner
    return content if isinstance(content, dict) else {}


def _xgboost(content: dict[str, Any], model: TreeModel) -> list[str]:
    booster = content["learner"]["gradient_booster"]
    notes = []
    if booster["name"] == "dart":
        notes.append("dart: the weights of its trees were multiplied into their leaves")
        booster = booster["gbtree"]
    trees = booster["model"]["trees"]
    kept = len(model.forest.roots)
    if kept < len(trees):
        notes.append(f"trees after the best iteration were left out: {kept} of {len(trees)} kept")
    if model.base:
        notes.append(
            f"the base score, which engines leave out, is part of the model: {model.base:g}"
        )
    stale = sum(_stale_leaves(tree) for tree in trees[:kept])
    if stale:
        notes.append(
            f"{stale} leaves have another value in base_weights, where the LTR plugin looks: those "
            "that XGBoost predicts with were taken"
        )
    return notes


def _stale_leaves(tree: dict[str, Any]) -> int:
    leaves = take_integers(tree, "left_children", "a tree") == -1
    read = to_single(take_numbers(tree, "split_conditions", "a tree"))
    try:
        looked_at = to_single(take_numbers(tree, "base_weights", "a tree"))
    except BadInput:
        looked_at = read[:0]
    # What XGBoost does not read may be absent, or anything.
    same_length = len(looked_at) == len(read)
    return int((read != looked_at)[leaves].sum()) if same_length else int(leaves.sum())


def _below(model: TreeModel, library: str) -> str:
    return (
        f"{len(model.splits)} splits of {library} send a value that equals the threshold left: "
        "each became the next float32, so that `<` does the same"
    )


def _averaged(path: Path) -> list[str]:
    lines: Sequence[str] = path.read_text(encoding="utf-8-sig").split("\nTree=", 1)[0].split("\n")
    return ["the mean of the trees, as a sum: leaves were divided"] * ("average_output" in lines)
