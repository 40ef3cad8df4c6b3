"""`warm_up`: everything compiled ahead of time, by small jobs of every kind of work.

The jobs are so small that compiling is all of their time.
"""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

from owpc_ltr.errors import OwpcLtrError, OwpcLtrWarning, give_warnings
from owpc_ltr.host.commands import Plugins
from owpc_ltr.signatures import Progress, job, silent

if TYPE_CHECKING:
    from owpc_ltr.compiling import Made
    from owpc_ltr.data.dataset import RankingDataset
    from owpc_ltr.host.registry import Registry


@dataclass(frozen=True)
class WarmedUp:
    """What was compiled, for which kinds of work (`jobs`), for how long, and where it is kept.

    What was compiled before is not compiled again. `failures` are of plugins that could not do a
    small job; what they need is compiled when they can.
    """

    made: tuple[Made, ...]
    jobs: tuple[str, ...]
    seconds: float
    folder: str
    failures: tuple[str, ...]

    @property
    def kept(self) -> bool:
        """Whether all of it is there for the next process."""
        return all(function.folder for function in self.made)

    def as_dict(self) -> dict[str, Any]:
        """What was compiled, as JSON."""
        return {
            "compiled": [function._asdict() for function in self.made],
            "jobs": self.jobs,
            "folder": self.folder,
            "failures": self.failures,
            "seconds": self.seconds,
            "kept": self.kept,
        }

    def __str__(self) -> str:
        work = f"for {len(self.jobs)} kinds of work"
        if not self.made:
            return f"everything is compiled already, {work}"
        first = f"compiled {len(self.made)} functions in {self.seconds:.0f} s, {work}"
        return f"{first}\nkept in {self.folder}" if self.folder else first


@job
def warm_up(*, plugins: Plugins = (), progress: Progress = silent) -> WarmedUp:
    """Compile everything before its first use.

    What reading, training, evaluating and the installed plugins need is compiled once, and kept in
    the user's cache, or in the folder of NUMBA_CACHE_DIR if nobody else can write there.
    """
    from owpc_ltr.compiling import WORK
    from owpc_ltr.host.registry import load

    failures: list[str] = []
    before = len(WORK.made)
    with tempfile.TemporaryDirectory() as temporary, warnings.catch_warnings():
        warnings.simplefilter("ignore", OwpcLtrWarning)
        jobs = list(warm_up_jobs(load(map(Path, plugins)), Path(temporary), plugins))
        for number, (name, work) in enumerate(jobs):
            progress(f"compiling: {name}", number / len(jobs))
            try:
                work()
            except Exception as error:  # noqa: BLE001 - third-party code; the failure is reported
                failures.append(f"{name}: {type(error).__name__}: {error}")
    give_warnings(failures)
    functions = tuple(WORK.made[before:])
    folder = next(
        (str(Path(function.folder).parent) for function in functions if function.folder),
        "",
    )
    seconds = sum(function.seconds for function in functions)
    return WarmedUp(functions, tuple(name for name, _ in jobs), seconds, folder, tuple(failures))


Job = tuple[str, Callable[[], object]]


def warm_up_jobs(registry: Registry, folder: Path, plugins: Sequence[Path | str]) -> Iterator[Job]:
    """Each kind of work, by its name."""
    import pyarrow as pa

    import owpc_ltr
    from owpc_ltr.data.external_features.table import hashed
    from owpc_ltr.plugin_checks.promises import sample_dataset, sample_queries
    from owpc_ltr.plugin_checks.readers import sample_clicks

    data, validation = sample_dataset(grades=2), sample_dataset(grades=2, seed=1)
    common: dict[str, Any] = {"validation": validation, "plugins": plugins}

    def price(loss: type[Any]) -> None:
        _price(loss(), sample_queries()[0].points[0])

    def fit_clicks(model: type[Any]) -> None:
        model().fit(sample_clicks(50).counts)

    def fit(optimizer: str) -> None:
        model = owpc_ltr.train(data, optimizer=optimizer, **common)
        owpc_ltr.evaluate(model, validation, split="all")

    def reorder(reranker: str) -> None:
        base = f"feature:{data.feature_names[0]}"
        owpc_ltr.train_reranker(data, base=base, reranker=reranker, **common)

    yield "LETOR text", partial(_read_text, data, folder)
    yield "large Parquet files", _read_large
    yield "large rankings", _rank_large
    yield "external features", partial(hashed, [pa.array(["a query"])], 0)
    yield "explained trees", _explain
    yield "losses in NumPy", _price_in_numpy
    for loss in registry.all("loss"):
        yield f"loss {loss.name}", partial(price, loss.cls)
    for model in registry.all("click-model"):
        yield f"click model {model.name}", partial(fit_clicks, model.cls)
    for optimizer in registry.all("optimizer"):
        yield f"optimizer {optimizer.name}", partial(fit, optimizer.name)
        other_fits = partial(_other_fits, optimizer.cls, registry, data)
        yield f"optimizer {optimizer.name}, other ways", other_fits
    for reranker in registry.all("reranker"):
        yield f"reranker {reranker.name}", partial(reorder, reranker.name)


def _other_fits(optimizer: Any, registry: Registry, data: RankingDataset) -> None:
    """The optimizer with a loss of each kind of claims, and with each choice of its settings."""
    from owpc_ltr.host.settings import choices_of

    losses: dict[tuple[bool, bool, bool], Any] = {}
    for plugin in registry.all("loss"):
        try:
            loss = plugin.cls()
            losses.setdefault((loss.convex, loss.conservative, loss.smooth), loss)
        except Exception:  # noqa: BLE001, S112 - third-party code; its own job reports it
            continue
    for loss in losses.values():
        _minimise(optimizer, {}, loss, data)
    for setting, choices in choices_of(optimizer).items():
        for loss, choice in product([*losses.values()][:1], choices):
            _minimise(optimizer, {setting: choice}, loss, data)


def _minimise(
    optimizer_class: type[Any], settings: dict[str, Any], loss: Any, data: RankingDataset
) -> None:
    """A fit, where optimizer, settings and loss go together; else no code is needed."""
    from owpc_ltr.protocols import Run

    try:
        optimizer = optimizer_class(**settings)
    except ValueError:
        return
    if loss.convex or not optimizer.needs_convex:
        with suppress(OwpcLtrError):
            optimizer.minimise(loss, data, Run()).model.score(data.features)


def _read_text(data: RankingDataset, folder: Path) -> None:
    """Text whose rows become wider, and more than were expected."""
    from owpc_ltr.data.letor import read_letor, write_letor

    path = folder / "data.txt"
    write_letor(data, path)
    wide = "".join(f"1 qid:wide{n} 1:0.5 {n + 9}:-1e-3 # docid = d{n}\n" for n in range(8))
    path.write_text(path.read_text() + wide)
    read_letor(path, block=512)


def _read_large() -> None:
    """What is compiled for files that NumPy would take long for."""
    import numpy as np

    from owpc_ltr.data.parquet.reading import transpose_into
    from owpc_ltr.data.parquet.writing import column_sums

    rows = np.zeros((2049, 1024), np.float32)
    transpose_into(rows, np.zeros((1024, 2049), np.float32))
    column_sums(rows.view(np.uint32))


def _rank_large() -> None:
    import numpy as np

    from owpc_ltr.metrics.ranking import ordered_down

    ordered_down(np.arange(2.0), np.array([0, 2]))


def _explain() -> None:
    """A tree of one split."""
    import numpy as np

    from owpc_ltr.explanations.contributions import shapley_values
    from owpc_ltr.models.trees import LEAF, Forest

    tree = Forest(
        roots=np.zeros(1, np.int32),
        feature=np.array([0, LEAF, LEAF], np.int32),
        threshold=np.zeros(3, np.float32),
        left=np.array([1, 0, 0], np.int32),
        default_left=np.zeros(3, np.bool_),
        value=np.array([0.0, -1.0, 1.0]),
    )
    rows = np.array([[-1.0], [1.0]], np.float32)
    shapley_values(tree, rows, rows)


def _price_in_numpy() -> None:
    """A third-party loss, which is called back."""
    import numpy as np

    class Squares:
        name = "squares"

        def value_and_gradient(self, scores: Any, _labels: Any, _weights: Any) -> Any:
            return float(scores @ scores), 2 * scores

    _price(Squares(), np.zeros(2))


def _price(loss: Any, scores: Any) -> None:
    import numpy as np

    from owpc_ltr.kernels.kernel import bind, evaluate_query

    evaluate_query(bind(loss), scores, np.arange(len(scores), dtype=np.float32))
