"""`model/ranklib`: RankLib's model text, read and written: sums, networks, trees in XML."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from xml.parsers import expat

import numpy as np

from owpc_ltr.arrays import Vector
from owpc_ltr.errors import BadInput, Refused
from owpc_ltr.files.strict_json import LARGEST_FILE, shown
from owpc_ltr.formats.engine_versions import RANKLIB, ServingProfile, needs_zero_flag, positions
from owpc_ltr.formats.tree_builder import (
    NUMBER,
    GrowingForest,
    Node,
    NodeTable,
    below,
    node_table,
    up_to,
)
from owpc_ltr.models.linear import LinearModel
from owpc_ltr.models.networks import LARGEST_NETWORK, Layer, LogisticNetwork
from owpc_ltr.models.trees import (
    DEEPEST,
    HIGHEST,
    LARGEST,
    LEAF,
    ROUNDS_TO_FINITE,
    Forest,
    TreeModel,
    shortest_floats,
    written_trees,
)
from owpc_ltr.protocols import Model

_NETWORK_WEIGHT = re.compile(NUMBER)
_COUNT = re.compile(r"[1-9]\d{0,5}")
_WEIGHT = re.compile(rf"(0|[1-9]\d{{0,6}}):({NUMBER})")
_STUMP = re.compile(rf"([1-9]\d{{0,6}}):({NUMBER}):({NUMBER})")


@dataclass(frozen=True)
class Sum:
    """A weighted sum of the features of these columns, and an intercept."""

    columns: tuple[int, ...]
    weights: tuple[float, ...]
    intercept: float = 0.0


@dataclass(frozen=True)
class Network:
    """A network over the features of these columns."""

    columns: tuple[int, ...]
    layers: tuple[Layer, ...]


@dataclass(frozen=True)
class Ensembles:
    """The mean of ensembles of trees, each added in float32 as RankLib does."""

    forests: tuple[Forest, ...]
    single: bool
    """Whether outputs are added in float32 (trees) or float64 (RankBoost's stumps)."""


Parsed = Sum | Network | Ensembles


def parse_ranklib(text: str) -> tuple[str, Parsed]:
    """The algorithm's name and what it learned; columns count from 0. Raises BadInput."""
    if not isinstance(text, str) or len(text) > LARGEST_FILE:
        raise BadInput(f"a RankLib model is a text of at most {LARGEST_FILE} characters")
    first = text.split("\n", 1)[0]
    name = first.replace("## ", "").strip().upper()
    where = f"the RankLib model ({shown(name.title())})"
    if name in {"MART", "LAMBDAMART"}:
        forests = read_ensembles(text, where)
        if len(forests) != 1:
            raise BadInput(f"{where} has {len(forests)} ensembles, not one")
        return name, Ensembles(tuple(forests), single=True)
    if name == "RANDOM FORESTS":
        return name, Ensembles(tuple(read_ensembles(text, where)), single=True)
    lines = map(str.strip, text.splitlines())
    body = [line for line in lines if line and not line.startswith("##")]
    if name in {"RANKNET", "LAMBDARANK", "LISTNET"}:
        columns, layers = read_layers(body, where)
        return name, Network(columns, layers)
    if name == "RANKBOOST":
        return name, Ensembles((_stumps(_one_line(body, where), where),), single=False)
    if name in {"ADARANK", "COORDINATE ASCENT", "LINEAR REGRESSION"}:
        return name, _sum(_one_line(body, where), name == "LINEAR REGRESSION", where)
    raise BadInput(f"'{shown(first)}' names no algorithm of RankLib, as the first line must")


def from_ranklib(text: str, feature_names: tuple[str, ...]) -> Model:
    """The model of a RankLib file; feature 1 is the first of the names. Raises BadInput.

    An intercept is left out, because it changes no ranking; the record tells its value.
    """
    name, parsed = parse_ranklib(text)
    record = {"imported": {"format": RANKLIB, "algorithm": name.title()}}
    check_columns(parsed, len(feature_names))
    if isinstance(parsed, Ensembles):
        return TreeModel(feature_names, _mean(parsed.forests), record=record)
    if isinstance(parsed, Network):
        names = tuple(feature_names[column] for column in parsed.columns)
        return LogisticNetwork(names, parsed.layers, record)
    weights = np.zeros(len(feature_names))
    np.add.at(weights, list(parsed.columns), parsed.weights)
    record["imported"]["intercept"] = repr(parsed.intercept)
    return LinearModel(feature_names, weights, record=record)


def to_ranklib(
    model: Model,
    featureset_names: Sequence[str],
    profile: ServingProfile,
    never_missing: Collection[str] = (),
) -> str:
    """The definition that scores in this engine as the model does.

    Trees become LambdaMART, a linear model a linear regression (normalisers multiplied in), a
    network RankNet. Raises Refused where the engine cannot score it so.
    """
    if RANKLIB not in profile.missing:
        raise Refused(
            f"{profile} does not take {RANKLIB}: choose from {', '.join(profile.formats)}"
        )
    places = [place + 1 for place in positions(model.feature_names, featureset_names)]
    if isinstance(model, LinearModel):
        weights, intercept = model.folded()
        pairs = zip([0, *places], [float(intercept), *weights.tolist()], strict=True)
        line = " ".join(f"{place}:{weight!r}" for place, weight in pairs)
        return f"## Linear Regression\n## Lambda = 1.0E-10\n{line}"
    if isinstance(model, LogisticNetwork):
        return "\n".join(["## RankNet", *write_layers(model.layers, places)])
    if not isinstance(model, TreeModel):
        raise Refused(f"a model of kind '{model.kind}' has no form in RankLib")
    if model.link != "identity":
        raise Refused(
            "RankLib has no logistic output: export as model/xgboost+json, or train with rank:ndcg"
        )
    needs_zero_flag(model, RANKLIB, profile, never_missing)
    whole = model.with_base_as_tree()
    header = ["## LambdaMART", f"## No. of trees = {len(whole.forest.roots)}", ""]
    return "\n".join([*header, *write_ensemble(whole, places), ""])


def check_columns(parsed: Parsed, n_features: int) -> None:
    """Refuse a feature number that the feature set does not have, as the engine does on search."""
    if isinstance(parsed, Ensembles):
        highest = max(int(forest.feature.max()) for forest in parsed.forests)
    else:
        highest = max(parsed.columns, default=-1)
    if highest >= n_features:
        raise BadInput(
            f"the RankLib model uses feature {highest + 1} of {n_features}: every search with it "
            "would fail"
        )


def _mean(forests: tuple[Forest, ...]) -> Forest:
    """One forest whose sum is the mean of several."""
    sizes = [len(forest.feature) for forest in forests]
    starts = np.cumsum([0, *sizes[:-1]], dtype=np.int32)
    shifted = list(zip(forests, starts, strict=True))
    return Forest(
        roots=np.concatenate([forest.roots + start for forest, start in shifted]),
        feature=np.concatenate([forest.feature for forest in forests]),
        threshold=np.concatenate([forest.threshold for forest in forests]),
        left=np.concatenate([forest.left + start for forest, start in shifted]),
        default_left=np.concatenate([forest.default_left for forest in forests]),
        value=np.concatenate([forest.value for forest in forests]) / len(forests),
    )


def _one_line(body: list[str], where: str) -> str:
    if len(body) != 1:
        raise BadInput(f"{where} has {len(body)} lines of weights, not one")
    return body[0].split("#", 1)[0]


def _sum(line: str, has_intercept: bool, where: str) -> Sum:
    columns, weights, intercepts = [], [], []
    for word in line.split():
        match = _WEIGHT.fullmatch(word)
        if match is None:
            raise BadInput(f"{where}: '{shown(word)}' is not feature:weight")
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
    return Sum(tuple(columns), tuple(weights), *intercepts)


def _stumps(line: str, where: str) -> Forest:
    """RankBoost's weak rankers: a weight where the feature is above its threshold."""
    growing = GrowingForest()
    for word in line.split():
        match = _STUMP.fullmatch(word)
        if match is None:
            raise BadInput(f"{where}: '{shown(word)}' is not feature:threshold:weight")
        split = _split(int(match[1]), _finite(match[2], where), 1, 2)
        growing.add(_table([split, _leaf(0.0), _leaf(_finite(match[3], where))]), where)
    return growing.forest(where)


def _split(number: int, threshold: float, left: int, right: int) -> Node:
    """A split of the feature of this number, from 1; a missing one goes where 0 goes."""
    return number - 1, threshold, left, right, threshold >= 0, 0.0


def _leaf(output: float) -> Node:
    return LEAF, 0.0, 0, 0, False, output


def _table(nodes: Sequence[Node]) -> NodeTable:
    """The tree of nodes that send a value that equals the threshold left, as RankLib does."""
    table = node_table(nodes)
    return replace(table, threshold=below(table.threshold))


def _finite(text: str, where: str) -> float:
    value = float(text)
    if not abs(value) <= ROUNDS_TO_FINITE:
        raise BadInput(f"{where}: '{shown(text)}' is not a float32 number")
    return value


_Rows = dict[tuple[int, int], Vector]


def read_layers(body: list[str], where: str) -> tuple[tuple[int, ...], tuple[Layer, ...]]:
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
    bias = _row(rows, 0, len(columns), sum(widths[1:]), where)
    layers, start = [], 0
    for layer, (width, following) in enumerate(pairwise(widths)):
        links = [_row(rows, layer, neuron, following, where) for neuron in range(width)]
        layers.append(Layer(np.column_stack(links), bias[start : start + following]))
        start += following
    if rows:
        raise BadInput(f"{where} has a line for the neuron {min(rows)}, which it does not have")
    return columns, tuple(layers)


def write_layers(layers: tuple[Layer, ...], places: list[int]) -> Iterator[str]:
    """The lines that `read_layers` reads; `places` are the features' 1-based numbers."""
    yield " ".join(map(str, places))
    yield str(len(layers) - 1)
    yield from (str(len(layer.bias)) for layer in layers[:-1])
    for number, layer in enumerate(layers):
        for neuron, links in enumerate(layer.weights.T.tolist()):
            yield f"{number} {neuron} " + " ".join(map(repr, links))
        if number == 0:
            bias = np.concatenate([following.bias for following in layers]).tolist()
            yield f"0 {len(places)} " + " ".join(map(repr, bias))


def _rows(lines: list[str], where: str) -> _Rows:
    rows: _Rows = {}
    for line in lines:
        words = line.split()
        if len(words) < 3 or not all(re.fullmatch(r"\d{1,6}", word) for word in words[:2]):
            raise BadInput(f"{where}: '{shown(line)}' is not layer, neuron and weights")
        if not all(map(_NETWORK_WEIGHT.fullmatch, words[2:])):
            raise BadInput(f"{where}: a weight of '{shown(line)}' is not a number")
        key = (int(words[0]), int(words[1]))
        if key in rows:
            raise BadInput(f"{where} has two lines for neuron {key}")
        rows[key] = np.array(words[2:], dtype=np.float64)
    return rows


def _row(rows: _Rows, layer: int, neuron: int, size: int, where: str) -> Vector:
    row = rows.pop((layer, neuron), None)
    if row is None or len(row) != size:
        got = "no" if row is None else len(row)
        raise BadInput(f"{where}: neuron {neuron} of layer {layer} has {got} weights, not {size}")
    return row


def _count(word: str, where: str) -> int:
    if not _COUNT.fullmatch(word):
        raise BadInput(f"{where}: '{shown(word)}' is not a number from 1")
    return int(word)


_XML_NUMBER = re.compile(rf"\s*{NUMBER}\s*")
_TEXTS = {"feature", "threshold", "output"}
_PARENTS = {
    "ensembles": ("",),
    "ensemble": ("ensembles",),
    "tree": ("ensemble",),
    "split": ("tree", "split"),
    **dict.fromkeys(_TEXTS, ("split",)),
}


def read_ensembles(text: str, where: str) -> list[Forest]:
    """The ensembles of a RankLib file, feature numbers from 0; a tree's weight is in its outputs.

    Lines that start with # are comments. A missing feature goes where 0 goes. Raises BadInput.
    """
    lines = ["" if line.startswith("#") else line for line in text.splitlines()]
    parser = expat.ParserCreate()
    reader = _Reader(where, lambda: parser.CurrentLineNumber)
    parser.buffer_text = True
    parser.StartElementHandler = reader.start
    parser.EndElementHandler = reader.end
    parser.CharacterDataHandler = reader.characters
    try:
        # Inside an element a document type declaration, and so any entity, is a syntax error.
        parser.Parse("<ensembles>" + "\n".join(lines) + "\n</ensembles>", True)
    except expat.ExpatError as error:
        raise BadInput(f"{where}, line {error.lineno}: not RankLib's XML: {error}") from error
    if not reader.forests:
        raise BadInput(f"{where} has no <ensemble>")
    return reader.forests


def write_ensemble(model: TreeModel, places: list[int]) -> Iterator[str]:
    """The lines of one ensemble; `places` are the features' 1-based numbers."""
    forest = model.forest
    with np.errstate(invalid="ignore"):
        thresholds = np.maximum(up_to(forest.threshold), -HIGHEST)
    numbers = shortest_floats(thresholds.astype(np.float32))
    outputs = shortest_floats(forest.value.astype(np.float32))

    def leaf(node: int) -> list[str]:
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
    for number, lines in enumerate(written_trees(forest, leaf, split), start=1):
        yield f'\t<tree id="{number}" weight="1.0">'
        yield "\t\t<split>"
        yield from (f"\t\t\t{line}" for line in lines)
        yield "\t\t</split>"
        yield "\t</tree>"
    yield "</ensemble>"


@dataclass
class _Node:
    """A <split> while it is open."""

    number: int
    pos: str | None
    texts: dict[str, str] = field(default_factory=dict)
    children: list[int] = field(default_factory=list)


@dataclass
class _Reader:
    """What expat calls; it keeps the path from the tree's root, never the document."""

    where: str
    line: Callable[[], int]
    forests: list[Forest] = field(default_factory=list)
    path: list[_Node] = field(default_factory=list)
    tags: list[str] = field(default_factory=list)
    rows: dict[int, Node] = field(default_factory=dict)
    growing: GrowingForest = field(default_factory=GrowingForest)
    weight: float = 1.0
    nodes: int = 0

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        """A tag opens."""
        parent = self.tags[-1] if self.tags else ""
        if parent not in _PARENTS.get(tag, ()):
            raise self._fault(f"<{shown(tag)}> inside <{parent}>")
        self.tags.append(tag)
        if tag == "ensemble":
            self.growing = GrowingForest()
        elif tag == "tree":
            self.weight, self.rows = self._number(attributes.get("weight", "")), {}
        elif tag == "split":
            self._open_split(attributes.get("pos"))
        elif tag in _TEXTS and tag in self.path[-1].texts:
            raise self._fault(f"a second <{tag}> in one <split>")
        elif tag in _TEXTS:
            self.path[-1].texts[tag] = ""

    def characters(self, text: str) -> None:
        """Text inside a tag."""
        if self.tags[-1] in _TEXTS:
            self.path[-1].texts[self.tags[-1]] += text
        elif text.strip():
            raise self._fault(f"the text '{shown(text.strip())}' where a tag should be")

    def end(self, tag: str) -> None:
        """A tag closes."""
        self.tags.pop()
        if tag == "split":
            self._close_split(self.path.pop())
        elif tag == "tree":
            self._close_tree()
        elif tag == "ensemble":
            self.forests.append(self.growing.forest(self.where))

    def _open_split(self, pos: str | None) -> None:
        self.nodes += 1
        if len(self.path) > DEEPEST or self.nodes > LARGEST:
            raise self._fault(f"more than {DEEPEST} splits deep, or {LARGEST} nodes")
        if not self.path and self.rows:
            raise self._fault("a second root in one <tree>")
        number = len(self.rows) + len(self.path)
        if self.path:
            parent = self.path[-1]
            if pos != ("left", "right", None)[min(len(parent.children), 2)]:
                raise self._fault(f"a child of position '{pos}': left comes first, then right")
            parent.children.append(number)
        self.path.append(_Node(number, pos))

    def _close_split(self, node: _Node) -> None:
        if set(node.texts) == {"output"} and not node.children:
            output = self._number(node.texts["output"]) * self.weight
            self.rows[node.number] = _leaf(output)
        elif set(node.texts) == {"feature", "threshold"} and len(node.children) == 2:
            feature = node.texts["feature"].strip()
            if not re.fullmatch(r"[1-9]\d{0,6}", feature):
                raise self._fault(f"the feature number '{shown(feature)}' is not 1, 2, …")
            threshold = self._number(node.texts["threshold"])
            self.rows[node.number] = _split(int(feature), threshold, *node.children)
        else:
            raise self._fault("a <split> that is neither an output nor a feature with two children")

    def _close_tree(self) -> None:
        if not self.rows:
            raise self._fault("a <tree> without a <split>")
        nodes = [self.rows[number] for number in range(len(self.rows))]
        self.growing.add(_table(nodes), f"{self.where}, line {self.line()}")

    def _number(self, text: str) -> float:
        value = float(text) if _XML_NUMBER.fullmatch(text) else float("nan")
        if not abs(value) <= ROUNDS_TO_FINITE:
            raise self._fault(f"'{shown(text)}' is not a float32 number")
        return float(np.float32(value))

    def _fault(self, what: str) -> BadInput:
        return BadInput(f"{self.where}, line {self.line()}: {what}")
