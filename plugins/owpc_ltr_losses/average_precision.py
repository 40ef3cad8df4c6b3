"""The margin-rescaled listwise hinge for average precision: SVMmap (Yue et al., SIGIR 2007).

loss = max over rankings π of  1 − AP(π) − 1/(|R||N|) Σ_{i∈R} Σ_{j∈N} (1 − o_ij(π)) (s_i − s_j),
where o_ij is 1 if π puts i above j, else −1: what π loses in AP, less the margin by which the
scores prefer the right ranking. It is convex, and at least 1 − AP of the ranking by the scores.
(Riezler & De Bona 2009, Defs 3 and 4, sum over π instead: that serves their bound.)

In the best π both R and N stand in the order of their scores, and irrelevant document j goes
above relevant document i for a gain of
δ_j(i) = 1/|R| (j/(i+j) − (j−1)/(i+j−1)) + 2 (s_j − s_i) / (|R||N|)
in the loss. Since δ_j(i) falls with j, the best places k_j = argmax_k Σ_{i>k} δ_j(i) rise with j:
halving the range of j each time finds all of them in O(m log m), sorting included.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from owpc_ltr import hookimpl
from owpc_ltr.arrays import IntVector, Labels, Vector
from owpc_ltr.compiling import compiled
from owpc_ltr.kernels.kernel import Kernel, KernelLoss, kernel, sort_ascending
from owpc_ltr.kernels.pairs import reset
from owpc_ltr.protocols import Loss


@kernel
def _average_precision(
    scores: Vector,
    labels: Labels,
    weights: Labels,
    _parameters: Vector,
    gradient: Vector,
    curvature: Vector,
) -> float:
    if not reset(scores, gradient, curvature, False):
        return np.nan
    upper, lower = _copies(scores, labels, weights, True), _copies(scores, labels, weights, False)
    if len(upper) == 0 or len(lower) == 0:
        return 0.0
    value: float
    places, value = _best_places(scores, upper, lower)
    size = 2.0 / (len(upper) * len(lower))
    # How many relevant documents each irrelevant one is above, and the other way round.
    passed, passing = np.empty(len(lower)), np.zeros(len(upper) + 1)
    for j in range(len(lower)):
        passed[j] = size * (len(upper) - places[j])
        passing[places[j]] += size
    for i in range(1, len(upper)):
        passing[i] += passing[i - 1]
    _add_shared(scores, lower, passed, 1.0, gradient)
    _add_shared(scores, upper, passing, -1.0, gradient)
    return value


@dataclass(frozen=True)
class AveragePrecisionLoss(KernelLoss):
    """Largest of 1 − AP(π) less the margin of the right ranking over π, over all rankings π.

    Relevant is a label above 0. AP counts whole documents: a weight is rounded up to a number of
    copies. Documents of equal scores share their part of the gradient.
    """

    name: ClassVar[str] = "average-precision"
    kernel: ClassVar[Kernel] = _average_precision
    weights_are_copies: ClassVar[bool] = True
    convex: ClassVar[bool] = True
    conservative: ClassVar[bool] = True
    smooth: ClassVar[bool] = False


@compiled
def _copies(scores: Vector, labels: Labels, weights: Labels, relevant: bool) -> IntVector:
    """The relevant (or the other) documents, best score first, each as often as its weight."""
    documents = np.empty(len(scores), dtype=np.int64)
    count, total = 0, 0
    for document in range(len(scores)):
        if (labels[document] > 0.0) == relevant and weights[document] > 0.0:
            documents[count] = document
            count += 1
            total += int(np.ceil(weights[document]))
    sort_ascending(scores, documents[:count])
    copies = np.empty(total, dtype=np.int64)
    place = 0
    for k in range(count - 1, -1, -1):
        for _ in range(int(np.ceil(weights[documents[k]]))):
            copies[place] = documents[k]
            place += 1
    return copies


@compiled
def _best_places(scores: Vector, upper: IntVector, lower: IntVector) -> tuple[IntVector, float]:
    """How many relevant documents stay above each irrelevant one in the best π; its value."""
    n_upper, n_lower = len(upper), len(lower)
    places = np.empty(n_lower, dtype=np.int64)
    # Ranges of j still to do, each with the range of its places.
    todo = np.empty((64, 4), dtype=np.int64)
    todo[0] = np.array([0, n_lower, 0, n_upper])
    n_todo = 1
    while n_todo > 0:
        n_todo -= 1
        first, last, low, high = todo[n_todo]
        if first == last:
            continue
        j = (first + last) // 2
        places[j] = high
        best, total = 0.0, 0.0
        for i in range(high, low, -1):
            total += _gain(scores, upper, lower, i, j + 1)
            if total > best:
                best = total
                places[j] = i - 1
        middle = places[j]
        # The longer part waits, so that few are waiting at any time.
        todo[n_todo] = np.array([first, j, low, middle])
        todo[n_todo + 1] = np.array([j + 1, last, middle, high])
        if j - first < last - j - 1:
            todo[n_todo] = np.array([j + 1, last, middle, high])
            todo[n_todo + 1] = np.array([first, j, low, middle])
        n_todo += 2
    return places, _value(scores, upper, lower, places)


@compiled
def _gain(scores: Vector, upper: IntVector, lower: IntVector, i: int, j: int) -> float:
    """δ_j(i), both counted from 1."""
    loss = j / (i + j) - (j - 1.0) / (i + j - 1.0)
    difference = scores[lower[j - 1]] - scores[upper[i - 1]]
    gain: float = (loss + 2.0 * difference / len(lower)) / len(upper)
    return gain


@compiled
def _value(scores: Vector, upper: IntVector, lower: IntVector, places: IntVector) -> float:
    """Σ over relevant i of (what c_i irrelevant ones above it cost), c_i rising with i."""
    value, above, total = 0.0, 0, 0.0
    for i in range(1, len(upper) + 1):
        while above < len(lower) and places[above] < i:
            total += scores[lower[above]]
            above += 1
        if above > 0:
            margin = 2.0 * (total - above * scores[upper[i - 1]]) / len(lower)
            value += (above / (i + above) + margin) / len(upper)
    return value


@compiled
def _add_shared(
    scores: Vector, copies: IntVector, slopes: Vector, sign: float, gradient: Vector
) -> None:
    """Add the slopes of sorted copies to their documents; equal scores share theirs."""
    start = 0
    while start < len(copies):
        end, total = start, 0.0
        while end < len(copies) and scores[copies[end]] == scores[copies[start]]:
            total += slopes[end]
            end += 1
        for k in range(start, end):
            gradient[copies[k]] += sign * total / (end - start)
        start = end


@hookimpl
def ltr_losses() -> list[type[Loss]]:
    """Offer `--loss average-precision`."""
    return [AveragePrecisionLoss]
