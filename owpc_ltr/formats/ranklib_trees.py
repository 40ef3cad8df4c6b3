"""RankLib's ensembles of regression trees: the XML inside MART, LambdaMART and Random Forests."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from xml.parsers import expat

import numpy as np

from owpc_ltr.errors import BadInput
from owpc_ltr.files.strict_json import shown
from owpc_ltr.formats.tree_builder import GrowingForest, NodeTable, below, up_to
from owpc_ltr.models.trees import (
    DEEPEST,
    HIGHEST,
    LARGEST,
    LEAF,
    ROUNDS_TO_FINITE,
    Forest,
    TreeModel,
    shortest_floats,
)

_NUMBER = re.compile(r"\s*[-+]?(?:\d{1,60}(?:\.\d{0,60})?|\.\d{1,60})(?:[eE][-+]?\d{1,3})?\s*")
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
    feature, left = forest.feature.tolist(), forest.left.tolist()
    yield "<ensemble>"
    for number, nodes in enumerate(forest.tree_nodes(), start=1):
        yield f'\t<tree id="{number}" weight="1.0">'
        stack: list[tuple[int, str, int]] = [(nodes.start, "<split>", 2)]
        while stack:
            node, tag, depth = stack.pop()
            indent = "\t" * depth
            if node < 0:
                yield f"{indent}</split>"
                continue
            yield f"{indent}{tag}"
            stack.append((-1, "", depth))
            if feature[node] == LEAF:
                yield f"{indent}\t<output> {outputs[node]!r} </output>"
                continue
            yield f"{indent}\t<feature> {places[feature[node]]} </feature>"
            yield f"{indent}\t<threshold> {numbers[node]!r} </threshold>"
            stack.append((left[node] + 1, '<split pos="right">', depth + 1))
            stack.append((left[node], '<split pos="left">', depth + 1))
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
    rows: dict[int, tuple[int, float, int, int, float]] = field(default_factory=dict)
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
            self.rows[node.number] = (LEAF, 0.0, 0, 0, output)
        elif set(node.texts) == {"feature", "threshold"} and len(node.children) == 2:
            feature = node.texts["feature"].strip()
            if not re.fullmatch(r"[1-9]\d{0,6}", feature):
                raise self._fault(f"the feature number '{shown(feature)}' is not 1, 2, …")
            threshold = self._number(node.texts["threshold"])
            left, right = node.children
            self.rows[node.number] = (int(feature) - 1, threshold, left, right, 0.0)
        else:
            raise self._fault("a <split> that is neither an output nor a feature with two children")

    def _close_tree(self) -> None:
        if not self.rows:
            raise self._fault("a <tree> without a <split>")
        columns = list(zip(*(self.rows[number] for number in range(len(self.rows))), strict=True))
        feature, left, right = (np.array(columns[i], dtype=np.int64) for i in (0, 2, 3))
        threshold = np.array(columns[1])
        self.growing.add(
            NodeTable(feature, below(threshold), left, right, threshold >= 0, np.array(columns[4])),
            f"{self.where}, line {self.line()}",
        )

    def _number(self, text: str) -> float:
        value = float(text) if _NUMBER.fullmatch(text) else float("nan")
        if not abs(value) <= ROUNDS_TO_FINITE:
            raise self._fault(f"'{shown(text)}' is not a float32 number")
        return float(np.float32(value))

    def _fault(self, what: str) -> BadInput:
        return BadInput(f"{self.where}, line {self.line()}: {what}")
