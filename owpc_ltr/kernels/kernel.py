"""Losses as compiled functions of one query, called by compiled loops over all queries.

A kernel is called by its address, so that one compiled loop (cached on disk) serves every loss of
every plugin: a plain NumPy loss gets an address too, through a callback, and runs through the same
loops, slower.

Kernels sort a query's scores in O(m) where these are spread out.

Compiled passes over a dataset for linear scores: one read of a query's rows serves two sums.
Queries are cut into blocks of equal numbers of documents, whose sums are added in order: the result
is the same bit for bit, whatever the number of threads.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray
from threadpoolctl import threadpool_limits

from owpc_ltr.arrays import IntVector, Labels, Matrix, Vector
from owpc_ltr.compiling import compiled, compiled_address
from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.errors import PluginError
from owpc_ltr.text import ShortRepr

if TYPE_CHECKING:
    from owpc_ltr.protocols import Loss


BoundKernel = tuple[int, Vector]
"""The address of a kernel, and the parameters that it reads."""


def check_price(name: str, returned: object, documents: int) -> None:
    """Refuse what is no value and gradient. Raises PluginError: the loss, and what it returned."""
    if not (isinstance(returned, tuple | list) and len(returned) == 2):
        raise PluginError(
            f"loss '{name}' returned {_shown(returned)} for a query of {documents} documents: "
            "return (value, gradient)"
        )
    value, gradient = returned
    if not (_is_numeric(value) and np.ndim(value) == 0 and np.isfinite(value)):
        raise PluginError(
            f"loss '{name}' returned the value {_shown(value)} for a query of {documents} "
            "documents: return one finite number"
        )
    if not _is_numeric(gradient):
        raise PluginError(
            f"loss '{name}' returned the gradient {_shown(gradient)} for {documents} documents: "
            "return an array of one number a document"
        )
    _check_shape(name, np.shape(gradient), documents)
    if not np.isfinite(gradient).all():
        raise PluginError(
            f"loss '{name}' returned a gradient that is not finite for a query of {documents} "
            f"documents: {_shown(gradient)}"
        )


def _check_shape(name: str, shape: tuple[int, ...], documents: int) -> None:
    if shape != (documents,):
        raise PluginError(
            f"loss '{name}' gave a gradient of shape {shape} for {documents} documents: return "
            "one entry a document"
        )


def _is_numeric(value: ArrayLike) -> bool:
    try:
        return np.asarray(value).dtype.kind in "biuf"
    except ValueError:
        # Rows of several lengths.
        return False


def _shown(value: object) -> str:
    """A value in one short line, with its type where its text does not tell."""
    text = " ".join(repr(value).split())
    return text if len(text) <= 60 else f"{text[:57]}… ({type(value).__name__})"


class Kernel:
    """A loss of one query, compiled on first use and cached on disk.

    The function reads `scores` (float64), `labels` and document `weights` (float32) and the
    loss's `parameters` (float64), all one-dimensional; it writes `gradient` (float64, one entry
    a document), adds nothing to it, and returns the value. `curvature` (a positive diagonal
    second derivative) is written only where its length is that of the scores: it is empty where
    nobody asked.
    """

    def __init__(self, function: Callable[..., float]) -> None:
        """Wrap `function`; nothing is compiled yet."""
        self.py_func = function
        self.__doc__ = function.__doc__

    @functools.cached_property
    def _compiled(self) -> Any:
        return compiled_address(self.py_func, _signature())

    @property
    def address(self) -> int:
        """Where the compiled function lies in this process."""
        return int(self._compiled.address)


def kernel(function: Callable[..., float]) -> Kernel:
    """Make a per-query function in numba's subset of Python a `Kernel` (decorator)."""
    return Kernel(function)


def call_kernel(
    _address: int,
    _scores: Vector,
    _labels: Labels,
    _weights: Labels,
    _parameters: Vector,
    _gradient: Vector,
    _curvature: Vector,
) -> float:
    """Call the kernel at an address, from compiled code."""
    raise TypeError("call_kernel is for compiled functions to call")


def call_back(
    _address: int, _scores: Any, _labels: Any, _weights: Any, _length: int, _gradient: Any
) -> float:
    """Call the Python function at an address, from compiled code."""
    raise TypeError("call_back is for compiled functions to call")


@functools.cache
def _signature() -> Any:
    """That of kernels, which compiled code can call from now on: whoever does has an address."""
    from numba import types

    numbers, labels = types.float64[::1], types.float32[::1]
    signature = types.float64(numbers, labels, labels, numbers, numbers, numbers)
    _call_by_address(call_kernel, signature)
    pointer = types.voidptr
    callback = types.float64(pointer, pointer, pointer, types.intp, pointer)
    _call_by_address(call_back, callback)
    return signature


def _call_by_address(name: Callable[..., Any], called: Any) -> None:
    """Let compiled code call what has this signature as `name(address, *arguments)`."""
    from llvmlite import ir
    from numba import types
    from numba.extending import lower_builtin, type_callable

    def signature(_address: Any, *given: Any) -> Any:
        # Arrays that cannot be written to are read by kernels as well as others.
        taken = [
            each
            if isinstance(each, types.Array) and each.copy(readonly=False) == declared
            else declared
            for each, declared in zip(given, called.args, strict=True)
        ]
        return called.return_type(types.intp, *taken)

    def code(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        returned = context.get_value_type(called.return_type)
        taken = [context.get_value_type(argument) for argument in called.args]
        pointer = ir.FunctionType(returned, taken).as_pointer()
        return builder.call(builder.inttoptr(arguments[0], pointer), arguments[1:])

    # numba looks at the parameters, which are those of the name.
    type_callable(name)(lambda _context: functools.wraps(name)(signature))
    lower_builtin(name, types.VarArg(types.Any))(code)


@kernel
def _python_kernel(
    scores: Vector,
    labels: Labels,
    weights: Labels,
    parameters: Vector,
    gradient: Vector,
    _curvature: Vector,
) -> float:
    """Hand one query to a Python function, whose address travels in the parameters."""
    address = parameters.view(np.int64)[0]
    value: float = call_back(
        address, scores.ctypes, labels.ctypes, weights.ctypes, len(scores), gradient.ctypes
    )
    return value


_CALLBACK = ctypes.CFUNCTYPE(
    ctypes.c_double,
    ctypes.c_void_p,
    ctypes.c_void_p,
    ctypes.c_void_p,
    ctypes.c_ssize_t,
    ctypes.c_void_p,
)


@dataclass(frozen=True, eq=False, repr=False)
class BoundLoss(ShortRepr):
    """A loss with its settings, ready to be called from compiled loops."""

    address: int
    parameters: Vector
    has_curvature: bool
    keep: object = None
    failures: tuple[list[BaseException], ...] = ()

    def raise_failure(self) -> None:
        """Raise what a Python loss raised inside a compiled loop (which could not)."""
        for failures in self.failures:
            if failures:
                failure = failures[0]
                failures.clear()
                raise failure


def bind(loss: Loss) -> BoundLoss:
    """The compiled form of a loss: its own kernel, or its NumPy method through a callback."""
    own = getattr(loss, "kernel", None)
    if isinstance(own, Kernel):
        parameters = np.ascontiguousarray(loss.parameters(), dtype=np.float64)  # type: ignore[attr-defined]
        return BoundLoss(own.address, parameters, bool(getattr(loss, "has_curvature", False)))
    return _bind_python(loss)


def _bind_python(loss: Loss) -> BoundLoss:
    failures: list[BaseException] = []
    seen = False

    def call(scores: int, labels: int, weights: int, length: int, gradient: int) -> float:
        nonlocal seen
        if failures:
            return np.nan
        try:
            returned = loss.value_and_gradient(
                _view(scores, np.float64, length),
                _view(labels, np.float32, length),
                _view(weights, np.float32, length),
            )
            if not seen:
                check_price(loss.name, returned, length)
                seen = True
            value, slope = returned
            slope = np.asarray(slope, dtype=np.float64)
            _check_shape(loss.name, slope.shape, length)
            _view(gradient, np.float64, length)[:] = slope
            return float(value)
        except BaseException as failure:  # noqa: BLE001 - carried out of compiled code, raised by raise_failure
            failures.append(failure)
            return np.nan

    callback = _CALLBACK(call)
    address = ctypes.cast(callback, ctypes.c_void_p).value
    parameters = np.array([address], dtype=np.int64).view(np.float64)
    return BoundLoss(_python_kernel.address, parameters, False, callback, (failures,))


def _view(address: int, dtype: DTypeLike, length: int) -> Any:
    """`length` numbers at an address, without a copy."""
    size = length * np.dtype(dtype).itemsize
    memory: Any = (ctypes.c_char * size).from_address(address)
    return np.frombuffer(memory, dtype=dtype)


@compiled
def _one_query(
    address: int,
    scores: Vector,
    labels: Labels,
    weights: Labels,
    parameters: Vector,
    gradient: Vector,
    curvature: Vector,
) -> Any:
    return call_kernel(address, scores, labels, weights, parameters, gradient, curvature)


def evaluate_query(
    loss: BoundLoss, scores: Vector, labels: Labels, weights: Labels | None = None
) -> tuple[float, Vector, Vector]:
    """Value, gradient and curvature (empty where the loss has none) of one query."""
    scores = np.ascontiguousarray(scores, dtype=np.float64)
    labels = np.ascontiguousarray(labels, dtype=np.float32)
    if weights is None:
        weights = np.ones(len(labels), dtype=np.float32)
    gradient = np.zeros(len(scores))
    curvature = np.zeros(len(scores) if loss.has_curvature else 0)
    weights = np.ascontiguousarray(weights, dtype=np.float32)
    value = _one_query(loss.address, scores, labels, weights, loss.parameters, gradient, curvature)
    loss.raise_failure()
    return float(value), gradient, curvature


class KernelLoss:
    """A loss written once, as a compiled `kernel` of one query, which every loop calls."""

    kernel: ClassVar[Kernel]
    has_curvature: ClassVar[bool] = False
    """Whether the kernel also writes a diagonal curvature, nowhere negative, as boosting uses."""
    weights_are_copies: ClassVar[bool] = False
    """Whether a document of weight k counts exactly as k copies of it."""

    def parameters(self) -> Vector:
        """The settings as the numbers that the kernel reads."""
        return np.zeros(0)

    def value_and_gradient(
        self, scores: Vector, labels: Labels, weights: Labels | None = None
    ) -> tuple[float, Vector]:
        """Value and (sub)gradient in the scores of one query."""
        value, gradient, _ = evaluate_query(bind(self), scores, labels, weights)  # type: ignore[arg-type]
        return value, gradient


_SHORT = 8  # documents: up to here, insertion sort is the fastest
_MIDDLING = 64  # up to here, comparing each with each, many at once


@compiled
def sort_ascending(scores: Vector, documents: IntVector) -> None:
    """Sort document numbers by their scores, lowest first; equal scores keep their order."""
    if _SHORT < len(documents) <= _MIDDLING:
        _sort_by_counting(scores, documents)
        return
    if len(documents) > _MIDDLING:
        _sort_roughly(scores, documents)
    # What is left unsorted lies within short runs.
    for k in range(1, len(documents)):
        document = documents[k]
        score = scores[document]
        place = k
        while place > 0 and scores[documents[place - 1]] > score:
            documents[place] = documents[place - 1]
            place -= 1
        documents[place] = document


@compiled
def _sort_by_counting(scores: Vector, documents: IntVector) -> None:
    """Each document goes to the place that equals the number of those before it.

    The square of a small number of comparisons, none of which is a branch, is faster than a few
    that the processor cannot predict.
    """
    n = len(documents)
    keys, numbers = np.empty(n), np.zeros(2 * n, dtype=np.int64)
    for k in range(n):
        keys[k] = scores[documents[k]]
        numbers[k] = documents[k]
    for k in range(n):
        key, before = keys[k], 0
        for other in keys:
            before += int(other < key)
        documents[before + numbers[n + before]] = numbers[k]
        numbers[n + before] += 1


@compiled
def _sort_roughly(scores: Vector, documents: IntVector) -> None:
    """Scatter the documents into as many buckets of equal width as there are documents.

    Where one bucket holds too much (an outlier makes all the others equal), it is merge-sorted.
    """
    n = len(documents)
    low = high = scores[documents[0]]
    sorted_already = True
    for k in range(1, n):
        score = scores[documents[k]]
        sorted_already &= score >= scores[documents[k - 1]]
        low, high = min(low, score), max(high, score)
    if sorted_already:
        return
    scale = (n - 1) / (high - low) if high > low else np.inf
    spread_out = scale < np.inf and high - low < np.inf
    # Counted two places on, so that where a bucket starts stays where the one before it ends.
    starts = np.zeros(n + 2, dtype=np.int64)
    buckets = np.zeros(n, dtype=np.int64)
    spare = np.empty(n, dtype=np.int64)
    for k in range(n):
        if spread_out:
            buckets[k] = max(0, min(int((scores[documents[k]] - low) * scale), n - 1))
        starts[buckets[k] + 2] += 1
        spare[k] = documents[k]
    for bucket in range(n):
        starts[bucket + 1] += starts[bucket]
    for k in range(n):
        documents[starts[buckets[k] + 1]] = spare[k]
        starts[buckets[k] + 1] += 1
    for bucket in range(n):
        if starts[bucket + 1] - starts[bucket] > _SHORT:
            _merge_sort(scores, documents, starts[bucket], starts[bucket + 1], spare)


@compiled
def _merge_sort(
    scores: Vector, documents: IntVector, start: int, end: int, spare: IntVector
) -> None:
    """Sort `documents[start:end]`; `spare` has room for as many."""
    width = 1
    while width < end - start:
        for low in range(start, end, 2 * width):
            middle, high = min(low + width, end), min(low + 2 * width, end)
            a, b = low, middle
            for k in range(low, high):
                if b >= high or (a < middle and scores[documents[a]] <= scores[documents[b]]):
                    spare[k] = documents[a]
                    a += 1
                else:
                    spare[k] = documents[b]
                    b += 1
        for k in range(start, end):
            documents[k] = spare[k]
        width *= 2


T = TypeVar("T")
Queries = tuple[Matrix, Labels, Labels, Vector, IntVector]
"""Features, labels, document weights, query weights and offsets, as compiled loops read them."""
_BLOCKS = 16
_CELLS_FOR_THREADS = 8_000_000


@compiled(fastmath={"reassoc", "contract", "nsz"})
def score_rows(features: Matrix, weights: Vector, scores: Vector) -> None:
    """Write `features @ weights` (float32 rows, float64 sums) into `scores`."""
    for row in range(features.shape[0]):
        total = 0.0
        for column in range(features.shape[1]):
            total += features[row, column] * weights[column]
        scores[row] = total


@compiled(fastmath={"contract"})
def add_rows(features: Matrix, coefficients: Vector, total: Vector) -> None:
    """Add `coefficients @ features` to `total`; rows of coefficient zero are not read."""
    # Two rows at a time: half as many reads and writes of the total.
    first = -1
    for row in range(features.shape[0]):
        if coefficients[row] == 0.0:
            continue
        if first < 0:
            first = row
            continue
        a, b = coefficients[first], coefficients[row]
        for column in range(features.shape[1]):
            total[column] += a * features[first, column] + b * features[row, column]
        first = -1
    if first >= 0:
        for column in range(features.shape[1]):
            total[column] += coefficients[first] * features[first, column]


@compiled
def _risk_of_block(
    kernel: BoundKernel, queries: Queries, first: int, last: int, weights: Vector, gradient: Vector
) -> float:
    address, parameters = kernel
    features, labels, document_weights, query_weights, offsets = queries
    longest = 0
    for query in range(first, last):
        longest = max(longest, offsets[query + 1] - offsets[query])
    scores = np.empty(longest)
    slopes = np.empty(longest)
    nothing = np.empty(0)
    risk = 0.0
    for query in range(first, last):
        start, end = offsets[query], offsets[query + 1]
        rows = features[start:end]
        s, g = scores[: end - start], slopes[: end - start]
        score_rows(rows, weights, s)
        importance = query_weights[query]
        risk += importance * call_kernel(
            address, s, labels[start:end], document_weights[start:end], parameters, g, nothing
        )
        if importance != 1.0:
            g *= importance
        add_rows(rows, g, gradient)
    return risk


@compiled
def _loss_of_block(
    kernel: BoundKernel,
    queries: tuple[Labels, Labels, IntVector],
    first: int,
    last: int,
    scores: Vector,
    losses: tuple[Vector, Vector, Vector],
) -> None:
    address, parameters = kernel
    labels, weights, offsets = queries
    values, gradient, curvature = losses
    for query in range(first, last):
        start, end = offsets[query], offsets[query + 1]
        curve = curvature[start:end] if len(curvature) else curvature
        values[query] = call_kernel(
            address,
            scores[start:end],
            labels[start:end],
            weights[start:end],
            parameters,
            gradient[start:end],
            curve,
        )


def linear_scores(features: Matrix, weights: Vector) -> Vector:
    """`features @ weights`: float32 features, float64 sums; (n_documents,)."""
    scores = np.empty(features.shape[0])
    score_rows(features, np.ascontiguousarray(weights, dtype=np.float64), scores)
    return scores


def linear_risk(
    data: RankingDataset, loss: BoundLoss, weights: Vector, threads: int = 1
) -> tuple[float, Vector]:
    """Weighted sum of the queries' losses of the linear scores, and its gradient in `weights`.

    `weights` multiplies the features times `data.scales`; both results are in that space.
    """
    cuts = query_blocks(data.offsets, _BLOCKS)
    gradients = np.zeros((len(cuts) - 1, data.n_features))
    scaled = weights * data.scales

    kernel = loss.address, loss.parameters
    queries = (data.features, data.labels, data.weights, data.query_importance, data.offsets)

    def block(index: int) -> float:
        first, last = cuts[index], cuts[index + 1]
        risk: float = _risk_of_block(kernel, queries, first, last, scaled, gradients[index])
        return risk

    risk = sum(run_blocks(block, len(cuts) - 1, threads_worthwhile(data, threads)))
    loss.raise_failure()
    return risk, gradients.sum(axis=0) * data.scales


def losses_of_scores(
    data: RankingDataset, loss: BoundLoss, scores: Vector, threads: int = 1
) -> tuple[Vector, Vector, Vector]:
    """Per-query losses (unweighted), and their gradient and curvature, one entry a document.

    The curvature is empty where the loss has none.
    """
    curvature = np.zeros(data.n_documents if loss.has_curvature else 0)
    losses = (np.empty(data.n_queries), np.zeros(data.n_documents), curvature)
    scores = np.ascontiguousarray(scores, dtype=np.float64)
    cuts = query_blocks(data.offsets, _BLOCKS)
    kernel, queries = (loss.address, loss.parameters), (data.labels, data.weights, data.offsets)

    def block(index: int) -> None:
        _loss_of_block(kernel, queries, cuts[index], cuts[index + 1], scores, losses)

    run_blocks(block, len(cuts) - 1, threads_worthwhile(data, threads))
    loss.raise_failure()
    return losses


def threads_worthwhile(data: RankingDataset, threads: int) -> int:
    """One thread where a pass takes a millisecond: starting others would take longer."""
    return threads if data.features.size >= _CELLS_FOR_THREADS else 1


def query_blocks(offsets: NDArray[np.int64], blocks: int) -> list[int]:
    """Cuts between queries, so that each block has about as many documents as the others."""
    targets = np.linspace(0, offsets[-1], blocks + 1)
    cuts = np.searchsorted(offsets, targets)
    cuts[0], cuts[-1] = 0, len(offsets) - 1
    return [int(cut) for cut in np.unique(cuts)]


def run_blocks(block: Callable[[int], T], count: int, threads: int) -> list[T]:
    """Run `block(0) … block(count − 1)` on threads (the compiled loops hold no lock), in order."""
    if threads == 1 or count == 1:
        return [block(index) for index in range(count)]
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(block, range(count)))


def one_blas_thread() -> AbstractContextManager[object]:
    """A block of work on one thread of BLAS; the limits from before come back at its end.

    More BLAS threads than free cores wait for each other, and make the small products of a fit tens
    of times slower; and the number of threads changes the last bits of a sum. Only libraries that
    are loaded already are limited: plugins that call scipy's import it at their top.
    """
    limits: AbstractContextManager[object] = threadpool_limits(limits=1, user_api="blas")
    return limits
