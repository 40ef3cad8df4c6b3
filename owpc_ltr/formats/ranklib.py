"""RankLib's model text: sums, networks and trees in XML are read, networks and trees written."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import NoReturn
from xml.parsers import expat

import numpy as np
from numpy.typing import NDArray

from owpc_ltr.arrays import Vector
from owpc_ltr.errors import BadInput, Refused
from owpc_ltr.files.input import shown
from owpc_ltr.files.strict_json import a_json
from owpc_ltr.formats.stored_model import RANKLIB, ServingProfile, needs_zero_flag, positions
from owpc_ltr.formats.tree_builder import (
    NUMBER,
    GrowingForest,
    Node,
    NodeTable,
    below,
    leaf,
    node_table,
)
from owpc_ltr.models.linear import LinearModel
from owpc_ltr.models.networks import LARGEST_NETWORK, Layer, LogisticNetwork
from owpc_ltr.models.trees import (
    DEEPEST,
    HIGHEST,
    LARGEST,
    ROUNDS_TO_FINITE,
    Forest,
    TreeModel,
    shortest_floats,
    written_trees,
)
from owpc_ltr.protocols import Model

_FEATURE = r"[1-9]\d{0,6}"
_WEIGHT = re.compile(rf"(0|{_FEATURE}):({NUMBER})")
_STUMP = re.compile(rf"({_FEATURE}):({NUMBER}):({NUMBER})")


def from_ranklib(text: str, feature_names: tuple[str, ...]) -> Model:
    """The model of a RankLib file; feature 1 is the first of the names. Raises BadInput.

    Random forests are the mean of their ensembles. An intercept is left out, because it changes no
    ranking; the record tells its value.
    """
    if not isinstance(text, str):
        raise BadInput(f"a RankLib model is a text, not {a_json(text)}")
    first = text.split("\n", 1)[0]
    name = first.replace("## ", "").strip().upper()
    where = f"the RankLib model ({name.title()})"
    record = {"imported": {"format": RANKLIB, "algorithm": name.title()}}
    if name in {"MART", "LAMBDAMART", "RANDOM FORESTS"}:
        forest, ensembles = _read_ensembles(text, where)
        if ensembles != 1 and name != "RANDOM FORESTS":
            raise BadInput(f"{where} has {ensembles} ensembles, not one")
        _check_columns(forest.feature, feature_names)
        mean = replace(forest, value=forest.value / ensembles)
        return TreeModel(feature_names, mean, record=record)
    lines = map(str.strip, text.splitlines())
    body = [line for line in lines if line and not line.startswith("##")]
    if name in {"RANKNET", "LAMBDARANK", "LISTNET"}:
        columns, layers = _read_layers(body, where)
        _check_columns(columns, feature_names)
        return LogisticNetwork(tuple(feature_names[c] for c in columns), layers, record)
    if name not in {"RANKBOOST", "ADARANK", "COORDINATE ASCENT", "LINEAR REGRESSION"}:
        raise BadInput(f"{shown(first)} names no algorithm of RankLib, as the first line must")
    if len(body) != 1:
        raise BadInput(f"{where} has {len(body)} lines of weights, not one")
    words = body[0].split("#", 1)[0].split()
    if name == "RANKBOOST":
        forest = _stumps(words, where)
        _check_columns(forest.feature, feature_names)
        return TreeModel(feature_names, forest, record=record)
    numbers, values, intercept = _sum(words, name == "LINEAR REGRESSION", where)
    _check_columns(numbers, feature_names)
    weights = np.zeros(len(feature_names))
    np.add.at(weights, numbers, values)
    record["imported"]["intercept"] = repr(intercept)
    return LinearModel(feature_names, weights, record=record)


def to_ranklib(
    model: TreeModel | LogisticNetwork,
    featureset_names: Sequence[str],
    profile: ServingProfile,
    never_missing: Collection[str] = (),
) -> str:
    """The definition that scores in any engine as the model does: LambdaMART, or RankNet.

    Raises Refused where the engine cannot score it so.
    """
    places = [place + 1 for place in positions(model.feature_names, featureset_names)]
    if isinstance(model, LogisticNetwork):
        return "\n".join(["## RankNet", *_write_layers(model.layers, places)])
    if model.link != "identity":
        raise Refused(
            "RankLib has no logistic output: export as model/xgboost+json, or train with rank:ndcg"
        )
    needs_zero_flag(model, "zero", profile, never_missing)
    whole = model.with_base_as_tree()
    header = ["## LambdaMART", f"## No. of trees = {len(whole.forest.roots)}", ""]
    return "\n".join([*header, *_write_ensemble(whole, places), ""])


def _check_columns(columns: Sequence[int] | NDArray[np.int32], names: Sequence[str]) -> None:
    highest = max(columns)
    if highest >= len(names):
        raise BadInput(
            f"the RankLib model uses feature {highest + 1} of {len(names)}: every search with it "
            "would fail"
        )


def _sum(words: list[str], has_intercept: bool, where: str) -> tuple[list[int], list[float], float]:
    """Columns, their weights, and the intercept."""
    columns, weights, intercepts = [], [], []
    for word in words:
        match = _WEIGHT.fullmatch(word)
        if match is None:
            raise BadInput(f"{where}: {shown(word)} is not feature:weight")
        weight = _finite(match[2], where)
        if match[1] == "0":
            intercepts.append(weight)
        else:
            columns.append(int(match[1]) - 1)
            weights.append(weight)
    if len(intercepts) != int(has_intercept):
        raise BadInput(
            f"{where} has {len(intercepts)} weights of feature 0, not {int(has_intercept)}"
        )
    if not columns:
        raise BadInput(f"{where} has no weights")
    return columns, weights, sum(intercepts, 0.0)


def _stumps(words: list[str], where: str) -> Forest:
    """RankBoost's weak rankers: a weight where the feature is above its threshold."""
    growing = GrowingForest()
    for word in words:
        match = _STUMP.fullmatch(word)
        if match is None:
            raise BadInput(f"{where}: {shown(word)} is not feature:threshold:weight")
        split = _split(match[1], _finite(match[2], where), 1)
        growing.add(_table([split, leaf(0.0), leaf(_finite(match[3], where))]), where)
    return growing.forest(where)


def _split(number: str, threshold: float, left: int) -> Node:
    """A split of the feature of this number, from 1; a missing one goes where 0 goes."""
    return int(number) - 1, threshold, left, left + 1, threshold >= 0, 0.0


def _table(nodes: Sequence[Node]) -> NodeTable:
    """The tree of nodes that send a value that equals the threshold left, as RankLib does."""
    table = node_table(nodes)
    return replace(table, threshold=below(table.threshold))


def _finite(text: str, where: str) -> float:
    value = float(text)
    if not abs(value) <= ROUNDS_TO_FINITE:
        raise BadInput(f"{where}: {shown(text)} is not a float32 number")
    return value


def _read_layers(body: list[str], where: str) -> tuple[tuple[int, ...], tuple[Layer, ...]]:
    """Columns (from 0) and layers of the lines that are not comments.

    The lines: the features' numbers; how many hidden layers; the size of each; then for each
    neuron `layer neuron weight…`, the weights of its links forward. The last neuron of layer 0
    is the bias of all others. Raises BadInput, also for a neuron without a line, to which RankLib
    gives random weights.
    """
    if len(body) < 2 or not re.fullmatch(r"\d{1,2}", body[1]):
        raise BadInput(f"{where} does not say its features and its number of hidden layers")
    columns = tuple(_count(word, where) - 1 for word in body[0].split())
    hidden = int(body[1])
    sizes = [_count(line, where) for line in body[2 : 2 + hidden]]
    if len(sizes) != hidden or not columns:
        raise BadInput(f"{where} does not say the sizes of its {hidden} hidden layers")
    widths = [len(columns), *sizes, 1]
    if sum((a + 1) * b for a, b in pairwise(widths)) > LARGEST_NETWORK:
        raise BadInput(f"{where} has more than {LARGEST_NETWORK} weights")
    rows = _rows(body[2 + hidden :], where)

    def links(layer: int, neuron: int, size: int) -> Vector:
        row = rows.pop((layer, neuron), None)
        if row is None or len(row) != size:
            got = "no" if row is None else len(row)
            raise BadInput(
                f"{where}: neuron {neuron} of layer {layer} has {got} weights, not {size}"
            )
        return row

    bias = links(0, len(columns), sum(widths[1:]))
    layers, start = [], 0
    for layer, (width, following) in enumerate(pairwise(widths)):
        forward = [links(layer, neuron, following) for neuron in range(width)]
        layers.append(Layer(np.column_stack(forward), bias[start : start + following]))
        start += following
    if rows:
        raise BadInput(f"{where} has a line for the neuron {min(rows)}, which it does not have")
    return columns, tuple(layers)


def _write_layers(layers: tuple[Layer, ...], places: list[int]) -> Iterator[str]:
    """The lines that `_read_layers` reads; `places` are the features' 1-based numbers."""
    yield " ".join(map(str, places))
    yield str(len(layers) - 1)
    yield from (str(len(layer.bias)) for layer in layers[:-1])
    for number, layer in enumerate(layers):
        for neuron, links in enumerate(layer.weights.T.tolist()):
            yield f"{number} {neuron} " + " ".join(map(repr, links))
        if number == 0:
            bias = np.concatenate([following.bias for following in layers]).tolist()
            yield f"0 {len(places)} " + " ".join(map(repr, bias))


def _rows(lines: list[str], where: str) -> dict[tuple[int, int], Vector]:
    rows: dict[tuple[int, int], Vector] = {}
    for line in lines:
        words = line.split()
        if len(words) < 3 or not all(re.fullmatch(r"\d{1,6}", word) for word in words[:2]):
            raise BadInput(f"{where}: {shown(line)} is not layer, neuron and weights")
        if not all(re.fullmatch(NUMBER, word) for word in words[2:]):
            raise BadInput(f"{where}: a weight of {shown(line)} is not a number")
        key = (int(words[0]), int(words[1]))
        if key in rows:
            raise BadInput(f"{where} has two lines for neuron {key}")
        rows[key] = np.array(words[2:], dtype=np.float64)
    return rows


def _count(word: str, where: str) -> int:
    if not re.fullmatch(r"[1-9]\d{0,5}", word):
        raise BadInput(f"{where}: {shown(word)} is not a number from 1")
    return int(word)


def _write_ensemble(model: TreeModel, places: list[int]) -> Iterator[str]:
    """The lines of one ensemble; `places` are the features' 1-based numbers."""
    forest = model.forest
    with np.errstate(invalid="ignore"):
        thresholds = np.maximum(up_to(forest.threshold), -HIGHEST)
    numbers = shortest_floats(thresholds.astype(np.float32))
    outputs = shortest_floats(forest.value.astype(np.float32))

    def output(node: int) -> list[str]:
        return [f"<output> {outputs[node]!r} </output>"]

    def split(node: int, low: list[str], high: list[str]) -> list[str]:
        return [
            f"<feature> {places[forest.feature[node]]} </feature>",
            f"<threshold> {numbers[node]!r} </threshold>",
            '<split pos="left">',
            *(f"\t{line}" for line in low),
            "</split>",
            '<split pos="right">',
            *(f"\t{line}" for line in high),
            "</split>",
        ]

    yield "<ensemble>"
    for number, lines in enumerate(written_trees(forest, output, split), start=1):
        yield f'\t<tree id="{number}" weight="1.0">'
        yield "\t\t<split>"
        yield from (f"\t\t\t{line}" for line in lines)
        yield "\t\t</split>"
        yield "\t</tree>"
    yield "</ensemble>"


def up_to(threshold: NDArray[np.float32]) -> NDArray[np.float32]:
    """Float32 numbers t' such that, for every float32 v, v < threshold exactly where v ≤ t'."""
    with np.errstate(under="ignore"):
        return np.nextafter(threshold, np.float32(-np.inf))


_PARENTS = {
    "ensembles": ("",),
    "ensemble": ("ensembles",),
    "tree": ("ensemble",),
    "split": ("tree", "split"),
    **dict.fromkeys(("feature", "threshold", "output"), ("split",)),
}
_OF_SPLIT = ["feature", "split", "split", "threshold"]
_NEITHER = "a <split> that is neither an output nor a feature with two children"


def _read_ensembles(text: str, where: str) -> tuple[Forest, int]:
    """The trees of all ensembles, feature numbers from 0, and how many ensembles there are.

    A tree's weight is in its outputs. Lines that start with # are comments. A missing feature goes
    where 0 goes. Raises BadInput.
    """
    lines = ["" if line.startswith("#") else line for line in text.splitlines()]
    parser = expat.ParserCreate()
    reader = _Reader(where, parser)
    parser.buffer_text = True
    parser.StartElementHandler = reader.start
    parser.EndElementHandler = reader.end
    parser.CharacterDataHandler = reader.characters
    try:
        # Inside an element a document type declaration, and so any entity, is a syntax error.
        parser.Parse("<ensembles>" + "\n".join(lines) + "\n</ensembles>", True)
    except expat.ExpatError as error:
        raise BadInput(f"{where}, line {error.lineno}: not RankLib's XML: {error}") from error
    if not reader.ensembles:
        raise BadInput(f"{where} has no <ensemble>")
    return reader.growing.forest(where), reader.ensembles


@dataclass(slots=True)
class _Element:
    tag: str
    line: int
    side: str | None
    weight: str
    text: str = ""
    children: list[_Element] = field(default_factory=list)


@dataclass
class _Reader:
    """What expat calls; it keeps the elements of one tree, never the document."""

    where: str
    parser: expat.XMLParserType
    growing: GrowingForest = field(default_factory=GrowingForest)
    ensembles: int = 0
    trees: int = 0
    nodes: int = 0
    path: list[_Element] = field(default_factory=list)

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        """A tag opens."""
        line, parent = self.parser.CurrentLineNumber, self.path[-1].tag if self.path else ""
        if parent not in _PARENTS.get(tag, ()):
            self._refuse(line, f"the tag {shown(tag)} inside <{parent}>")
        if parent == "split" and len(self.path[-1].children) == len(_OF_SPLIT):
            self._refuse(line, _NEITHER)
        self.nodes += tag == "split"
        above = len(self.path) - 3  # <ensembles>, <ensemble> and <tree> are no splits
        if tag == "split" and (above > DEEPEST or self.nodes > LARGEST):
            self._refuse(line, f"more than {DEEPEST} splits deep, or {LARGEST} nodes")
        side, weight = attributes.get("pos"), attributes.get("weight", "")
        self.path.append(_Element(tag, line, side, weight))

    def characters(self, text: str) -> None:
        """Text inside a tag."""
        if self.path[-1].tag in {"feature", "threshold", "output"}:
            self.path[-1].text += text
        elif text.strip():
            what = f"the text {shown(text.strip())} where a tag should be"
            self._refuse(self.parser.CurrentLineNumber, what)

    def end(self, tag: str) -> None:
        """A tag closes."""
        element = self.path.pop()
        if tag == "tree":
            self._add(element)
        elif tag == "ensemble":
            if len(self.growing.trees) == self.trees:
                raise BadInput(f"{self.where} has no trees")
            self.ensembles, self.trees = self.ensembles + 1, len(self.growing.trees)
        elif self.path:
            self.path[-1].children.append(element)

    def _add(self, tree: _Element) -> None:
        """Add the tree, its nodes level by level."""
        if len(tree.children) != 1:
            self._refuse(tree.line, f"a <tree> of {len(tree.children)} roots, not one <split>")
        weight = self._number(tree.weight, tree.line)
        rows: list[Node] = []
        splits = list(tree.children)
        for split in splits:
            parts = sorted(split.children, key=lambda part: part.tag)
            tags = [part.tag for part in parts]
            if tags == ["output"]:
                rows.append(leaf(self._number(parts[0].text, parts[0].line) * weight))
                continue
            if tags != _OF_SPLIT:
                self._refuse(split.line, _NEITHER)
            feature, low, high, bound = parts
            if (low.side, high.side) != ("left", "right"):
                sides = f"{shown(str(low.side))} and {shown(str(high.side))}"
                self._refuse(split.line, f"children of the positions {sides}: left comes first")
            number = feature.text.strip()
            if not re.fullmatch(_FEATURE, number):
                self._refuse(feature.line, f"the feature number {shown(number)} is not 1, 2, …")
            threshold = self._number(bound.text, bound.line)
            rows.append(_split(number, threshold, len(splits)))
            splits += low, high
        self.growing.add(_table(rows), f"{self.where}, line {tree.line}")

    def _number(self, text: str, line: int) -> float:
        value = float(text) if re.fullmatch(rf"\s*{NUMBER}\s*", text) else float("nan")
        if not abs(value) <= ROUNDS_TO_FINITE:
            self._refuse(line, f"{shown(text)} is not a float32 number")
        return float(np.float32(value))

    def _refuse(self, line: int, what: str) -> NoReturn:
        raise BadInput(f"{self.where}, line {line}: {what}")
