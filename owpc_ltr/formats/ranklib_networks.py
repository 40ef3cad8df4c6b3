"""RankLib's networks: the weight lines of RankNet, LambdaRank and ListNet."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from owpc_ltr.arrays import Vector
from owpc_ltr.errors import BadInput
from owpc_ltr.files.strict_json import shown
from owpc_ltr.models.ranklib_network import LARGEST_NETWORK, Layer

_NUMBER = re.compile(r"[-+]?(?:\d{1,60}(?:\.\d{0,60})?|\.\d{1,60})(?:[eE][-+]?\d{1,3})?")
_COUNT = re.compile(r"[1-9]\d{0,5}")

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
            bias = np.concatenate([other.bias for other in layers]).tolist()
            yield f"0 {len(places)} " + " ".join(map(repr, bias))


def _rows(lines: list[str], where: str) -> _Rows:
    rows: _Rows = {}
    for line in lines:
        words = line.split()
        if len(words) < 3 or not all(re.fullmatch(r"\d{1,6}", word) for word in words[:2]):
            raise BadInput(f"{where}: '{shown(line)}' is not layer, neuron and weights")
        if not all(map(_NUMBER.fullmatch, words[2:])):
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
