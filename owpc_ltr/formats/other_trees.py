"""Trees of LightGBM (text of save_model, JSON of dump_model) and scikit-learn (in memory)."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from owpc_ltr.arrays import Vector
from owpc_ltr.errors import BadInput, give_warning
from owpc_ltr.files.input import shown
from owpc_ltr.files.strict_json import (
    a_json,
    take,
    take_list,
    take_numbers,
    take_object,
    take_strings,
)
from owpc_ltr.formats.tree_builder import (
    NUMBER,
    GrowingForest,
    Node,
    NodeTable,
    below,
    check_tree,
    leaf,
    node_table,
)
from owpc_ltr.models.trees import LARGEST, LEAF, TreeModel
from owpc_ltr.signatures import public

ZERO = np.float32(1e-35)
"""LightGBM's kZeroThreshold: what lies within ± this, ends included, is a zero."""
_NUMBER = re.compile(NUMBER)
_BOUND = re.compile(rf"{NUMBER}|[-+]?inf")
_INTEGER = re.compile(r"-?\d{1,10}")
_IDENTITY = frozenset(
    {
        *("lambdarank", "rank_xendcg", "regression", "regression_l2", "regression_l1"),
        *("huber", "fair", "quantile", "mape"),
    }
)
_CATEGORICAL, _DEFAULT_LEFT = 1, 2  # bits of decision_type
_NEVER, _ZERO, _NAN = 0, 1, 2  # its next two bits: which values count as missing


@dataclass(frozen=True)
class _Section:
    """The key=value lines of the header, or of one tree."""

    where: str
    values: dict[str, str]

    def text(self, key: str, default: str | None = None) -> str:
        value = self.values.get(key, default)
        if value is None:
            raise BadInput(f"{self.where} has no '{key}'")
        return value

    def integers(self, key: str, count: int) -> NDArray[np.int64]:
        numbers = np.array(self.words(key, count, _INTEGER), dtype=np.int64)
        if (np.abs(numbers) >= 2**31).any():
            raise BadInput(f"{self.where}: a number of '{key}' is beyond 32 bits")
        return numbers

    def words(self, key: str, count: int, pattern: re.Pattern[str]) -> list[str]:
        words = self.text(key).split()
        if len(words) != count:
            raise BadInput(f"{self.where} has {len(words)} values of '{key}', not {count}")
        for word in words:
            if not pattern.fullmatch(word):
                raise BadInput(f"{self.where}: {shown(word)} of '{key}' is not a number")
        return words


def from_lightgbm(text: str) -> TreeModel:
    """The model of a LightGBM text file, with the file's own feature names. Raises BadInput."""
    header, trees = _sections(text)
    for key in ("num_class", "num_tree_per_iteration"):
        if header.text(key, "1") != "1":
            raise BadInput(
                f"the LightGBM model has {key} {shown(header.text(key))}: train one that gives one "
                "score"
            )
    sizes = header.text("tree_sizes", "").split()
    if sizes and len(sizes) != len(trees):
        raise BadInput(
            f"the LightGBM model has {len(trees)} trees, and its tree_sizes are of {len(sizes)}: "
            "save it whole"
        )
    names = tuple(header.text("feature_names").split(" "))
    link, steepness = _link(header.text("objective", "regression"))
    scale = steepness / (len(trees) if "average_output" in header.values else 1)
    growing = GrowingForest()
    for section in trees:
        growing.add(_read_tree(section, scale), section.where)
    return TreeModel(names, growing.forest("the LightGBM model"), link=link)


_MISSING_TYPES = ("None", "Zero", "NaN")
_OF_SPLIT = ("split_feature", "threshold", "decision_type", "left_child", "right_child")
_DUMP = "LightGBM's dump_model"


def lightgbm_text(content: dict[str, Any]) -> str:
    """What LightGBM's `save_model` writes of the model that its `dump_model` gives as JSON."""
    known = ("num_class", "num_tree_per_iteration", "objective")
    header = {key: str(content[key]) for key in known if key in content}
    names = take_strings(content, "feature_names", _DUMP)
    if any(name.split() != [name] for name in names) or any("\n" in v for v in header.values()):
        raise BadInput(f"{_DUMP} has a feature or an objective with a blank: save_model has none")
    lines = ["tree", f"feature_names={' '.join(names)}"]
    lines += ["average_output"] * (content.get("average_output") is True)
    lines += [f"{key}={value}" for key, value in header.items()]
    for number, tree in enumerate(take_list(content, "tree_info", _DUMP)):
        where = f"tree {number} of {_DUMP}"
        columns = _columns_of_tree(take_object(tree, "tree_structure", where), where)
        lines += [
            f"Tree={number}",
            *(f"{key}={' '.join(map(repr, columns[key]))}" for key in columns),
        ]
    return "\n".join([*lines, "end of trees", ""])


def _columns_of_tree(root: dict[str, Any], where: str) -> dict[str, Sequence[Any]]:
    """The nested objects of a tree as columns: splits and leaves are numbered level by level."""
    splits: list[dict[str, Any]] = []
    leaves: list[dict[str, Any]] = []

    def place(node: dict[str, Any]) -> int:
        if "leaf_value" in node:
            leaves.append(node)
            return -len(leaves)
        splits.append(node)
        return len(splits) - 1

    place(root)
    rows = []
    for split in splits:  # which grow meanwhile
        children = [place(take_object(split, side, where)) for side in _OF_SPLIT[-2:]]
        feature, threshold, decision, missing = (
            take(split, key, where) for key in (*_OF_SPLIT[:3], "missing_type")
        )
        if missing not in _MISSING_TYPES:
            raise BadInput(f"{where} has the missing_type {a_json(missing)}")
        categorical, left = decision != "<=", split.get("default_left") is True
        bits = categorical * _CATEGORICAL + left * _DEFAULT_LEFT + 4 * _MISSING_TYPES.index(missing)
        rows.append((feature, 0.0 if categorical else threshold, bits, *children))
    values = take_numbers({"v": [leaf["leaf_value"] for leaf in leaves]}, "v", where).tolist()
    linear = any("leaf_coeff" in leaf for leaf in leaves)
    columns = dict(zip(_OF_SPLIT, zip(*rows, strict=True), strict=False))
    return {
        "num_leaves": [len(leaves)],
        "is_linear": [int(linear)],
        "leaf_value": values,
        **columns,
    }


def _sections(text: str) -> tuple[_Section, list[_Section]]:
    """The header and the trees, up to `end of trees`; what follows does not score."""
    lines = text.splitlines()
    if "end of trees" not in lines:
        raise BadInput("the LightGBM model ends before its line 'end of trees': it was cut short")
    sections = [_Section("the LightGBM model's header", {})]
    for number, line in enumerate(lines[1 : lines.index("end of trees")], start=2):
        key, _, value = line.strip().partition("=")
        if key == "Tree":
            if value != str(len(sections) - 1):
                raise BadInput(
                    f"line {number} of the LightGBM model has {shown(line)} out of order"
                )
            sections.append(_Section(f"tree {value} of the LightGBM model", {}))
        elif key:
            if key in sections[-1].values:
                raise BadInput(f"line {number} of the LightGBM model gives {shown(key)} again")
            sections[-1].values[key] = value
    return sections[0], sections[1:]


def _link(objective: str) -> tuple[str, float]:
    """What the objective does to the sum of the trees, and by what the sum is multiplied first."""
    name, *settings = objective.split() or [""]
    if name in _IDENTITY and "sqrt" not in settings:
        return "identity", 1.0
    if name in {"binary", "cross_entropy"}:
        values = dict(setting.split(":", 1) for setting in settings if ":" in setting)
        steepness = values.get("sigmoid", "1")
        valid = _NUMBER.fullmatch(steepness) and 0 < float(steepness) < 1e6
        return "logistic", float(steepness) if valid else 1.0
    raise BadInput(
        f"the LightGBM objective {shown(objective)} is not supported by engines: train "
        "with lambdarank, rank_xendcg, regression or binary"
    )


def _read_tree(section: _Section, scale: float) -> NodeTable:
    """LightGBM numbers splits and leaves apart: leaf k is child ~k; here it is node splits + k."""
    count = section.text("num_leaves")
    if not re.fullmatch(r"[1-9]\d{0,6}", count):
        raise BadInput(f"{section.where} has {shown(count)} leaves")
    leaves, splits = int(count), int(count) - 1
    if section.text("num_cat", "0") != "0":
        raise BadInput(f"{section.where} has categorical splits, which no engine scores")
    if section.text("is_linear", "0") != "0":
        raise BadInput(f"{section.where} has linear leaves: train with linear_tree=false")
    values = np.array(section.words("leaf_value", leaves, _NUMBER), dtype=np.float64) * scale
    if not np.isfinite(values).all():
        raise BadInput(f"{section.where}: a number of 'leaf_value' is too large")
    if splits == 0:
        return node_table([leaf(float(values[0]))])
    # Infinite where a split tells missing values from all others.
    threshold = np.array(section.words("threshold", splits, _BOUND), dtype=np.float64)
    decision = section.integers("decision_type", splits)
    if (decision & _CATEGORICAL).any() or (decision < 0).any():
        raise BadInput(f"{section.where} has categorical splits, which no engine scores")
    feature = section.integers("split_feature", splits)
    if (feature < 0).any():
        raise BadInput(f"{section.where} splits on a feature of negative number")
    children = [section.integers(key, splits) for key in ("left_child", "right_child")]
    left, right = (np.where(child < 0, splits + ~child, child) for child in children)
    missing_type = (decision >> 2) & 3
    # Where NaN is not "missing" it is read as 0; where zeros are, a NaN is a zero too.
    says_left = (decision & _DEFAULT_LEFT) > 0
    default_left = np.where(missing_type == _NEVER, threshold >= 0, says_left)
    padding = np.zeros(leaves, dtype=np.int64)
    table = NodeTable(
        np.append(feature, padding + LEAF),
        np.append(below(_around_zero(threshold)), np.zeros(leaves)),
        np.append(left, padding),
        np.append(right, padding),
        default_left=np.append(default_left, padding > 0),
        value=np.append(np.zeros(splits), values),
    )
    zeros = np.append(missing_type == _ZERO, padding > 0)
    return send_zeros(table, zeros, section.where) if zeros.any() else table


def _around_zero(threshold: Vector) -> Vector:
    """Thresholds that send all of ±1e-35 where 0 goes: LightGBM reads such values as 0."""
    under = np.nextafter(-ZERO, np.float32(-np.inf))
    moved = np.where((threshold >= -ZERO) & (threshold < 0), under, threshold)
    return np.where((threshold >= 0) & (threshold <= ZERO), ZERO, moved).astype(np.float64)


_ZERO_FROM = -float(ZERO)
_ZERO_UNTIL = float(np.nextafter(ZERO, np.float32(np.inf)))


def send_zeros(table: NodeTable, zeros: NDArray[np.bool_], where: str) -> NodeTable:
    """The tree with ordinary splits only; where `zeros`, zeros go where a missing value goes.

    A split whose zeros leave their side becomes up to three splits with copies of its subtrees.
    Raises BadInput where that makes the tree too large.
    """
    check_tree(table, where)
    nodes: list[Node] = []

    def append(node: Node) -> int:
        if len(nodes) >= LARGEST:
            raise BadInput(
                f"{where} would need more than {LARGEST} splits without zero_as_missing: "
                "train with zero_as_missing=false"
            )
        nodes.append(node)
        return len(nodes) - 1

    def grow(node: int) -> int:
        """Copy the subtree of a node; the number of the copy."""
        if table.feature[node] == LEAF:
            return append(leaf(float(table.value[node])))
        missing = bool(table.default_left[node])
        (_, side), *others = _pieces(float(table.threshold[node]), missing, bool(zeros[node]))
        return chain(node, side, others)

    def chain(node: int, side: bool, pieces: list[tuple[float, bool]]) -> int:
        """Splits of one feature from low to high: below the first bound go to `side`."""
        child = int(table.left[node] if side else table.right[node])
        if not pieces:
            return grow(child)
        # The side of missing values may be in either half: it is in the first if `side` is it.
        missing = bool(table.default_left[node])
        (bound, next_side), *others = pieces
        copy = append(leaf(0.0))  # its children are not known yet
        low, high = grow(child), chain(node, next_side, others)
        nodes[copy] = (int(table.feature[node]), bound, low, high, side == missing, 0.0)
        return copy

    grow(0)
    return node_table(nodes)


def _pieces(threshold: float, default_left: bool, zeros: bool) -> list[tuple[float, bool]]:
    """Where each range of values goes, from low to high: (lower bound, whether left)."""
    bounds = {-np.inf, threshold, _ZERO_FROM, _ZERO_UNTIL} if zeros else {-np.inf, threshold}
    pieces: list[tuple[float, bool]] = []
    for bound in sorted(bounds):
        left = default_left if zeros and _ZERO_FROM <= bound < _ZERO_UNTIL else bound < threshold
        if not pieces or pieces[-1][1] != left:
            pieces.append((bound, left))
    return pieces


_FORESTS = {"RandomForestRegressor", "ExtraTreesRegressor"}
_TREES = {"DecisionTreeRegressor", "ExtraTreeRegressor"}
_BOOSTED = {"GradientBoostingRegressor", "GradientBoostingClassifier"}
_HISTOGRAM = {"HistGradientBoostingRegressor", "HistGradientBoostingClassifier"}
_REGRESSION_LOSSES = {"squared_error", "absolute_error", "huber", "quantile"}


@public
def from_sklearn(
    estimator: Any,
    feature_names: Sequence[str],
    missing: Literal["as-trained", "zero"] | None = None,
) -> TreeModel:
    """The model of a fitted estimator, which scores as it predicts (a classifier: class 1).

    Read from memory, never from a pickle. A missing value goes where the estimator sends it, or
    where 0 goes if it takes none (GradientBoosting*). One that was fitted without a missing value
    sends them with the larger part of the documents, of which OwpcLtrWarning tells: if it was
    fitted with 0 in their place, say `missing="zero"`, and they go where 0 goes; `as-trained` says
    that its own way is meant. Raises BadInput.
    """
    if missing not in {None, "as-trained", "zero"}:
        raise BadInput(f"missing is as-trained or zero, not {missing!r}")
    model, learned = _converted(estimator, feature_names)
    if missing == "zero":
        return model.with_missing_as_zero()
    if missing is None and not learned:
        give_warning(
            f"no split of the {type(estimator).__name__} shows that it was fitted with missing "
            "values, and it sends them with the larger part of the documents: say "
            'missing="zero" if it was fitted with 0 in their place, else missing="as-trained"'
        )
    return model


def _converted(estimator: Any, feature_names: Sequence[str]) -> tuple[TreeModel, bool]:
    """The model, and whether where missing values go was learned, or is where 0 goes."""
    name = type(estimator).__name__
    growing = _Growing()
    base = 0.0
    if name in _TREES:
        growing.add_trees(estimator, [estimator], 1.0, "the tree")
    elif name in _FORESTS:
        trees = _fitted(estimator, "estimators_")
        growing.add_trees(estimator, trees, 1.0 / len(trees), f"a tree of the {name}")
    elif name in _BOOSTED:
        base = _boosted(growing, estimator)
    elif name in _HISTOGRAM:
        base = _histogram(growing, estimator)
    else:
        classes = sorted(_TREES | _FORESTS | _BOOSTED | _HISTOGRAM)
        raise BadInput(f"no converter for {shown(name)}; known: {', '.join(classes)}")
    link = "logistic" if name.endswith("Classifier") else "identity"
    if len(feature_names) != estimator.n_features_in_:
        raise BadInput(
            f"the {name} was fitted on {estimator.n_features_in_} features, "
            f"{len(feature_names)} are named"
        )
    model = TreeModel(tuple(feature_names), growing.forest(f"the {name}"), base, link)
    return model, growing.learned


class _Growing(GrowingForest):
    """The trees so far, and whether any of them sends a missing value by what it has learned."""

    learned: bool = False

    def add_trees(self, estimator: Any, trees: Iterable[Any], scale: float, where: str) -> None:
        """Add the trees of an estimator, each output times `scale`."""
        takes_missing = _takes_missing(estimator)
        for part in trees:
            tree = _fitted(part, "tree_")
            if tree.value.shape[1:] != (1, 1):
                raise BadInput(f"{where} has several outputs: fit one that gives one score")
            left = np.asarray(tree.children_left, dtype=np.int64)
            to_left = getattr(tree, "missing_go_to_left", None) if takes_missing else None
            self.add_tree(
                np.where(left < 0, LEAF, tree.feature).astype(np.int64),
                np.asarray(tree.threshold, dtype=np.float64),
                (left, np.asarray(tree.children_right, dtype=np.int64)),
                to_left=None if to_left is None else np.asarray(to_left, dtype=bool),
                sizes=tree.n_node_samples,
                value=tree.value[:, 0, 0] * scale,
                where=where,
            )

    def add_tree(
        self,
        feature: NDArray[np.int64],
        threshold: Vector,
        children: tuple[NDArray[np.int64], NDArray[np.int64]],
        *,
        to_left: NDArray[np.bool_] | None,
        sizes: NDArray[Any],
        value: Vector,
        where: str,
    ) -> None:
        """Add a tree; a missing value goes where 0 goes if `to_left` does not say where.

        A tree that was fitted without missing values sends them to the larger child, or right.
        """
        left, right = children
        if to_left is None:
            to_left, self.learned = threshold >= 0, True
        else:
            splits = feature != LEAF
            larger = sizes[left[splits]] > sizes[right[splits]]
            self.learned |= bool(to_left[splits].any() and (to_left[splits] != larger).any())
        self.add(
            NodeTable(feature, below(threshold), left, right, default_left=to_left, value=value),
            where,
        )


def _takes_missing(estimator: Any) -> bool:
    """Whether the estimator predicts a row of missing values."""
    row = np.full((1, _fitted(estimator, "n_features_in_")), np.nan, dtype=np.float32)
    with warnings.catch_warnings():
        # An estimator that was fitted on named columns warns of a row without names.
        warnings.simplefilter("ignore")
        try:
            estimator.predict(row)
        except ValueError:
            return False
    return True


def _boosted(growing: _Growing, estimator: Any) -> float:
    stages = _fitted(estimator, "estimators_")
    if stages.shape[1] != 1:
        raise BadInput(f"the estimator has {stages.shape[1]} outputs: fit one with two classes")
    # Its trees would take missing values, but the estimator lets none through to them.
    growing.add_trees(estimator, stages[:, 0], float(estimator.learning_rate), "a stage")
    if isinstance(estimator.init_, str):  # "zero"
        return 0.0
    if type(estimator.init_).__name__ not in {"DummyRegressor", "DummyClassifier"}:
        raise BadInput("the estimator starts from another estimator: fit it with init=None")
    row = np.zeros((1, estimator.n_features_in_), dtype=np.float32)
    return float(estimator._raw_predict_init(row)[0, 0])


def _histogram(growing: _Growing, estimator: Any) -> float:
    loss = estimator.loss if isinstance(estimator.loss, str) else ""
    if not type(estimator).__name__.endswith("Classifier") and loss not in _REGRESSION_LOSSES:
        raise BadInput(f"the loss {shown(loss)} has a link that no engine has: use squared_error")
    for number, stage in enumerate(_fitted(estimator, "_predictors")):
        if len(stage) != 1:
            raise BadInput(f"the estimator has {len(stage)} outputs: fit one with two classes")
        nodes, where = stage[0].nodes, f"stage {number}"
        leaf = nodes["is_leaf"].astype(bool)
        if nodes["is_categorical"][~leaf].any():
            raise BadInput(f"{where} has categorical splits, which no engine scores: use numbers")
        growing.add_tree(
            np.where(leaf, LEAF, nodes["feature_idx"]).astype(np.int64),
            nodes["num_threshold"].astype(np.float64),
            (nodes["left"].astype(np.int64), nodes["right"].astype(np.int64)),
            to_left=nodes["missing_go_to_left"].astype(bool),
            sizes=nodes["count"],
            value=nodes["value"].astype(np.float64),
            where=where,
        )
    return float(np.ravel(estimator._baseline_prediction)[0])


def _fitted(estimator: Any, attribute: str) -> Any:
    value = getattr(estimator, attribute, None)
    if value is None:
        raise BadInput(f"the {type(estimator).__name__} is not fitted")
    return value
