"""Jobs: one fit on one fold, with a complete description, so that a stored result can be reused.

A job trains a model, or a reranker on another job's model. The bench runs jobs one after another
on the folds of data sets, or takes their results from its journal.

RankLib is downloaded on request, and verified. The paper's version, 2.1-patched, is in no Maven
repository. What is fetched is RankyMcRankFace, the fork that the LTR plugins of Elasticsearch and
OpenSearch use; its learners have the same defaults. RankLib trains a model, which is imported; its
scores must be those of RankLib.
"""

from __future__ import annotations

import json
import math
import re
import subprocess
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
from owpc_ltr_node.home import fetched
from owpc_ltr_node.java import choose_java
from owpc_ltr_node.places import find_places
from owpc_ltr_node.release import Artifact, Release

from owpc_ltr.arrays import Matrix, Vector
from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.data.letor import write_letor
from owpc_ltr.errors import EngineUnavailable, Refused
from owpc_ltr.evaluation.measurement import measure
from owpc_ltr.files.output import (
    Journal,
    digest_of,
    disk_faults,
    finite_json,
    write_atomically,
)
from owpc_ltr.formats.model_reader import Columns, import_with
from owpc_ltr.host.registry import Registry
from owpc_ltr.kernels.linear import one_blas_thread
from owpc_ltr.metrics import Metric, parse_metric
from owpc_ltr.models.model_file import content_of, model_of
from owpc_ltr.protocols import Model, Run
from owpc_ltr.training.candidates import train_plan
from owpc_ltr.training.cross_validation import Fold
from owpc_ltr.training.plan import model_plan
from owpc_ltr.training.rerankers import fit_reranker, reranking_plan
from owpc_ltr.version import VERSION
from owpc_ltr_papers.folders import Collection

DataFold = Fold[RankingDataset]

ALIKE = "scores all documents alike, so that the figures are those of a random order"


@dataclass(frozen=True)
class Result:
    """The result of a job: the chosen settings, their validation value, the values of queries.

    `values` are by metric. `notes` say why the figures are doubtful. `model` is the fitted model,
    where other jobs are built on it.
    """

    settings: Mapping[str, Any]
    validation: float
    values: Mapping[str, Vector]
    notes: tuple[str, ...] = ()
    model: Model | None = None


@dataclass(frozen=True)
class Tools:
    """What every job needs besides its fold; `ranklib` runs RankLib's command line."""

    registry: Registry
    run: Run
    metrics: tuple[Metric, ...]
    ranklib: Callable[..., None] | None = None


@dataclass(frozen=True)
class FoldJob(ABC):
    """Work on one fold.

    Its name, in folders and in progress, is unique among the jobs of a protocol. `base` is the job
    whose model it needs, if any; `is_base`, whether its own model is kept, for others to build on.
    """

    name: str
    base: FoldJob | None = field(default=None, kw_only=True)
    is_base: bool = field(default=False, kw_only=True)

    @abstractmethod
    def described(self) -> dict[str, Any]:
        """All settings that decide its result, as JSON."""

    @abstractmethod
    def do(self, fold: DataFold, tools: Tools, base: Model | None) -> Result:
        """Fit, choose, and measure on the test queries."""


@dataclass(frozen=True)
class Training(FoldJob):
    """A model of a loss and an optimizer, its settings chosen as `owpc-ltr train` does.

    `choose_on` training queries is for papers that have no validation queries.
    """

    loss: str
    optimizer: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    grid: Mapping[str, Any] = field(default_factory=dict)
    select: str = "map"
    choose_on: Literal["validation", "training"] = "validation"

    def described(self) -> dict[str, Any]:
        """The loss, the optimizer, their settings, and how they are chosen."""
        return {
            "train": [self.loss, self.optimizer, dict(self.settings), dict(self.grid)],
            "select": [self.select, self.choose_on],
            "model": self.is_base,
        }

    def do(self, fold: DataFold, tools: Tools, base: Model | None) -> Result:
        """Train on the features as they are; LETOR's are normalised by query already."""
        del base
        plan = model_plan(
            tools.registry,
            loss=self.loss,
            optimizer=self.optimizer,
            settings=self.settings,
            grid=self.grid,
            select=self.select,
            normalise="none",
        )
        judged = fold.validation if self.choose_on == "validation" else fold.training
        trained = train_plan(fold.training, plan, tools.run, judged)
        scores = trained.model.score(fold.test.features)
        notes = (ALIKE,) if np.ptp(scores) == 0 else ()
        values = test_values(scores, fold.test, tools.metrics)
        model = trained.model if self.is_base else None
        return Result(trained.settings, trained.model.record["validation"], values, notes, model)


def test_values(
    scores: Vector, test: RankingDataset, metrics: tuple[Metric, ...]
) -> dict[str, Vector]:
    """Each metric's value of each test query."""
    return {str(measured.metric): measured.per_query for measured in measure(scores, test, metrics)}


UNCHANGED = "nothing beat the base on the validation queries"


@dataclass(frozen=True)
class Reranking(FoldJob):
    """The exchangeable reranker on a base; the base as it is stays a candidate."""

    base: FoldJob = field(kw_only=True)
    loss: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    grid: Mapping[str, Any] = field(default_factory=dict)
    select: str = "ndcg-letor@10"
    lift: float = 0.0
    """Added to every base score, where one of 0 must be positive."""

    def described(self) -> dict[str, Any]:
        """The base, the loss, the reranker's settings, and how they are chosen."""
        return {
            "rerank": ["exchangeable", self.loss, dict(self.settings), dict(self.grid)],
            "select": self.select,
            "base": self.base.described(),
            **({"lift": self.lift} if self.lift else {}),
        }

    def do(self, fold: DataFold, tools: Tools, base: Model | None) -> Result:
        """Fit on the training queries, choose the penalty on the validation queries."""
        assert base is not None  # noqa: S101 - a job with a base is given its model
        plan = reranking_plan(
            tools.registry,
            reranker="exchangeable",
            loss=self.loss,
            settings=self.settings,
            grid=self.grid,
            select=self.select,
        )
        ranker = Lifted(base, self.lift) if self.lift else base
        fit = fit_reranker(fold.training, ranker, plan, tools.run, fold.validation)
        scores = fit.model.rerank_dataset(fold.test)
        notes = (UNCHANGED,) if fit.settings is None else ()
        values = test_values(scores, fold.test, tools.metrics)
        return Result(fit.settings or {}, fit.model.record["validation"], values, notes)


@dataclass(frozen=True)
class Lifted:
    """A base whose scores are raised by a constant: the same ranking, and no score of 0."""

    kind: ClassVar[str] = "lifted"

    model: Model
    by: float

    @property
    def feature_names(self) -> tuple[str, ...]:
        """The model's own."""
        return self.model.feature_names

    @property
    def record(self) -> dict[str, Any]:
        """The model's own."""
        return self.model.record

    def score(self, features: Matrix) -> Vector:
        """The model's scores, raised."""
        return self.model.score(features) + self.by

    def as_dict(self) -> dict[str, Any]:
        """The model, and by how much it is raised."""
        return {"model": content_of(self.model), "by": self.by}

    def save(self, path: Path | str) -> None:
        """Save the model; it is lifted for one fit alone, and never kept so."""
        self.model.save(path)


Results = Mapping[str, Mapping[str, Result]]

"""By the name of a job, and of a fold."""


@dataclass
class Bench:
    """Runs jobs, and keeps their results in the journal of the folder `out`, if any.

    A stored result is valid while its data, the version and the base that it was built on are the
    same. `stale` counts the stored results that are not valid, `reused` those that are.
    """

    tools: Tools
    journal: Journal
    out: Path | None = None
    stale: int = 0
    reused: int = 0

    def results(self, data: Collection, jobs: Sequence[FoldJob]) -> dict[str, dict[str, Result]]:
        """Every job on every fold of a data set; a fold's queries are read once."""
        results: dict[str, dict[str, Result]] = {job.name: {} for job in jobs}
        readers = data.readers()
        with one_blas_thread():
            for number, (name, read) in enumerate(readers.items()):
                fold = read()
                models: dict[str, Model | None] = {}
                for index, job in enumerate(jobs):
                    done = (number + index / len(jobs)) / len(readers)
                    self.tools.run.progress(f"{data.label}, {name}: {job.name}", done)
                    base = None if job.base is None else models[job.base.name]
                    result = self._result(data.label, fold, job, base)
                    models[job.name] = result.model
                    results[job.name][name] = replace(result, model=None)
        return results

    def _result(self, label: str, fold: DataFold, job: FoldJob, base: Model | None) -> Result:
        """One job's result as it is read from the journal. Raises DiskFault."""
        key = _key((label, fold.name, job.name), job, self.tools.run.seed)
        scope = self._scope(fold, base)
        piece = self.journal.pieces.get(key)
        if piece is not None and piece.scope == scope:
            self.reused += 1
            return _from_json(piece.value)
        self.stale += piece is not None
        quiet = replace(self.tools, run=replace(self.tools.run, progress=_silence))
        value = _as_json(job.do(fold, quiet, base))
        with disk_faults(self.out or ""):
            self.journal.append(key, value, scope)
        return _from_json(value)

    def _scope(self, fold: DataFold, base: Model | None) -> str:
        """The digest of what decides a result besides the job's own settings."""
        sides = (fold.training, fold.validation, fold.test)
        inputs = {
            "data": [side.fingerprint for side in sides],
            "metrics": [str(metric) for metric in self.tools.metrics],
            "seed": self.tools.run.seed,
            "base": None if base is None else digest_of(base.as_dict()),
        }
        return digest_of({**inputs, "owpc-ltr": VERSION})


def _silence(_message: str, _done: float | None = None) -> None:
    """Keep quiet: the bench tells which job is under way."""


def _key(names: tuple[str, ...], job: FoldJob, seed: int) -> str:
    """Data set, fold and job, with a digest of its settings."""
    settings = digest_of({"described": job.described(), "seed": seed})
    plain = (re.sub(r"[^a-z0-9.]+", "-", name.lower()).strip("-") for name in names)
    return f"{'/'.join(plain)}-{settings[:8]}"


def _as_json(result: Result) -> dict[str, Any]:
    return {
        "settings": json.loads(json.dumps(dict(result.settings), default=str)),
        "validation": finite_json(result.validation),
        "values": finite_json({name: values.tolist() for name, values in result.values.items()}),
        "notes": result.notes,
        "model": None if result.model is None else content_of(result.model),
    }


def _from_json(content: Mapping[str, Any]) -> Result:
    validation, values, model = content["validation"], content["values"], content["model"]
    return Result(
        content["settings"],
        math.nan if validation is None else validation,
        {name: np.array(numbers, dtype=np.float64) for name, numbers in values.items()},
        tuple(content["notes"]),
        None if model is None else model_of(model, Path("journal")),
    )


RANKLIB = Artifact(
    "ranklib",
    "com/o19s/RankyMcRankFace/0.1.1/RankyMcRankFace-0.1.1.jar",
    "50a55ef02ead9a9f1c0dd69dd324ca935fcb854c28cfdb857dcdd9e3575ae9b5",
)

MAIN = "ciir.umass.edu.eval.Evaluator"


@dataclass(frozen=True)
class RankLib:
    """The program and what runs it."""

    java: Path
    jar: Path

    def run(self, *words: str) -> None:
        """Run its command line. Raises Refused with the end of what it said where it fails."""
        command = [str(self.java), "-Xmx1g", "-cp", str(self.jar), MAIN, *words]
        process = subprocess.run(  # noqa: S603
            command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL
        )
        # It ends with 0 after most errors.
        if process.returncode or "Exception" in process.stderr or "Error in" in process.stdout:
            output = (process.stderr + process.stdout).strip().splitlines() or ["nothing"]
            raise Refused(f"RankLib failed on {' '.join(words[:4])}: {output[0][:200]}")


def fetch_ranklib(say: Callable[[str], None]) -> RankLib:
    """RankLib on this machine, downloaded once; `say` receives messages.

    Raises EngineUnavailable where Java or the repository is not available, or serves another file.
    """
    import requests

    cache = find_places().cache
    jar = cache / RANKLIB.folder / Path(RANKLIB.path).name
    if not jar.exists():
        say("fetching RankyMcRankFace (180 kB; Apache License 2.0, parts of RankLib: BSD)")
        jar.parent.mkdir(parents=True, exist_ok=True)
        with requests.Session() as session:
            write_atomically(jar, fetched(RANKLIB, session))
    return RankLib(choose_java(None, Release(), cache), jar)


RANKERS = {
    "MART": 0,
    "RankBoost": 2,
    "AdaRank": 3,
    "coordinate ascent": 4,
    "LambdaMART": 6,
    "linear regression": 9,
}

"""Its learners, by their numbers on its command line."""

SELECT = "NDCG@10"

"""The metric that it trains for, and is chosen by."""

_CLOSE = 1e-5

"""How far imported scores may be from RankLib's, relative to the largest: it adds in float32."""


@dataclass(frozen=True)
class RankLibTraining(FoldJob):
    """One of RankLib's learners with its default parameters, and no validation queries.

    That is how the paper's bases were made: so trained, RankBoost has its figures on OHSUMED to
    the last digit. With `stopped` the best round on the validation queries is kept.
    """

    ranker: str
    stopped: bool = False
    options: Mapping[str, str] = field(default_factory=dict)
    is_base: bool = field(default=True, kw_only=True)

    def described(self) -> dict[str, Any]:
        """The program by its digest, the learner, and its options."""
        return {
            "ranklib": [RANKLIB.path, RANKLIB.sha256, RANKERS[self.ranker]],
            "select": [SELECT, self.stopped],
            "options": dict(self.options),
        }

    def do(self, fold: DataFold, tools: Tools, base: Model | None) -> Result:
        """Train, import the model, and hold its scores against RankLib's own."""
        del base
        if tools.ranklib is None:
            raise EngineUnavailable("RankLib was not fetched: ask for it with --with-ranklib")
        with tempfile.TemporaryDirectory(prefix="owpc-ltr-ranklib-") as name:
            model = self._trained(tools.ranklib, fold, Path(name))
            own_scores = _own_scores(tools.ranklib, Path(name), fold.test)
        scores = model.score(fold.test.features)
        check_same(self.name, scores, own_scores)
        metric = parse_metric(SELECT.lower())
        (judged,) = measure(model.score(fold.validation.features), fold.validation, [metric])
        values = test_values(scores, fold.test, tools.metrics)
        return Result(dict(self.options), judged.mean, values, model=model)

    def _trained(self, ranklib: Callable[..., None], fold: DataFold, folder: Path) -> Model:
        sides = {"train": fold.training, "validate": fold.validation, "test": fold.test}
        for side, data in sides.items():
            write_letor(data.without_missing(), folder / f"{side}.txt")
        words = ["-train", str(folder / "train.txt")]
        words += ["-validate", str(folder / "validate.txt")] if self.stopped else []
        words += ["-ranker", str(RANKERS[self.ranker]), "-metric2t", SELECT, "-thread", "1"]
        words += [word for name, value in self.options.items() for word in (f"-{name}", value)]
        model = folder / "model.txt"
        ranklib(*words, "-save", str(model), "-silent")
        if not model.exists():
            raise Refused(f"RankLib's {self.ranker} wrote no model: it may lack memory")
        return import_with(model, Columns(fold.training.feature_names), "zero")


def _own_scores(ranklib: Callable[..., None], folder: Path, test: RankingDataset) -> Vector:
    """RankLib's scores of the test documents, in their order."""
    scores = folder / "scores.txt"
    words = ("-load", str(folder / "model.txt"), "-rank", str(folder / "test.txt"))
    ranklib(*words, "-score", str(scores))
    lines = scores.read_text().splitlines()
    if len(lines) != test.n_documents:
        raise Refused(f"RankLib scored {len(lines)} of {test.n_documents} documents")
    return np.array([float(line.rsplit("\t", 1)[1]) for line in lines])


def check_same(name: str, ours: Vector, theirs: Vector) -> None:
    """Refuse a model whose scores differ from RankLib's own by more than a shift."""
    largest = float(np.abs(theirs).max(initial=0.0)) or 1.0
    away = float(np.abs((ours - ours.mean()) - (theirs - theirs.mean())).max(initial=0.0))
    if away > _CLOSE * largest:
        raise Refused(
            f"{name}: the imported model scores {away / largest:.2g} away from RankLib's own "
            "scores: its figures would be another model's"
        )
