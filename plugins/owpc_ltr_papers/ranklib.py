"""RankLib: downloaded on request, and verified; its learners as jobs.

The paper's version, 2.1-patched, is in no Maven repository. What is fetched is RankyMcRankFace, the
fork that the LTR plugins of Elasticsearch and OpenSearch use; its learners have the same defaults.
RankLib trains a model, which is imported; its scores must be those of RankLib.
"""

from __future__ import annotations

import hashlib
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from owpc_ltr_node.folders import Report, find_places
from owpc_ltr_node.java import choose_java
from owpc_ltr_node.maven import Jar, Maven

from owpc_ltr.arrays import Vector
from owpc_ltr.data.dataset import RankingDataset
from owpc_ltr.data.letor import write_letor
from owpc_ltr.errors import EngineUnavailable, Refused
from owpc_ltr.evaluation.measurement import measure
from owpc_ltr.formats.model_reader import Columns, import_with
from owpc_ltr.metrics import parse_metric
from owpc_ltr.protocols import Model
from owpc_ltr_papers.jobs import DataFold, FoldJob, Result, Tools, test_values

JAR = Jar("com.o19s", "RankyMcRankFace", "0.1.1")
SHA256 = "50a55ef02ead9a9f1c0dd69dd324ca935fcb854c28cfdb857dcdd9e3575ae9b5"
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

    Raises EngineUnavailable where Java or the repository is not available, Refused where the file
    is not the pinned one.
    """
    places = find_places(None)
    folder = places.cache / "ranklib"
    if not (folder / JAR.path).exists():
        say(f"fetching {JAR} from Maven (180 kB; Apache License 2.0, parts of RankLib: BSD)")
    jar = Maven(folder, Report(say)).fetch(JAR)
    digest = hashlib.sha256(jar.read_bytes()).hexdigest()
    if digest != SHA256:
        raise Refused(
            f"{jar} is not the {JAR} that was pinned: its SHA-256 is {digest}; delete it, and ask "
            "who serves it"
        )
    java = choose_java(None, None, places.runtimes, Report(say))
    return RankLib(java.program, jar)


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
            "ranklib": [str(JAR), SHA256, RANKERS[self.ranker]],
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
