"""The whole job of a feature log, from the first look at the engine to the dataset."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from owpc_ltr.engine.client.engine import EngineLike
from owpc_ltr.engine.feature_log.account import Account
from owpc_ltr.engine.feature_log.assembly import assemble
from owpc_ltr.engine.feature_log.environment import refuse_drift
from owpc_ltr.engine.feature_log.folder import open_run, publish
from owpc_ltr.engine.feature_log.job import plan
from owpc_ltr.engine.feature_log.options import LogOptions
from owpc_ltr.engine.feature_log.parted import Parted, publish_parts
from owpc_ltr.engine.feature_log.passes import Progress, log_one_moment
from owpc_ltr.engine.feature_log.remote import RemoteWorkers
from owpc_ltr.features.feature_set import FeatureSet
from owpc_ltr.inspection.constant import warnings_of_log
from owpc_ltr.inspection.quick import warnings_after_log

if TYPE_CHECKING:
    from owpc_ltr.data.external_features.table import JoinedTable
    from owpc_ltr.data.judgments import Judgments
    from owpc_ltr.engine.stores.store import Store


@dataclass(frozen=True)
class LogReport:
    """What a feature log did: the account and manifest of the dataset, and how fast."""

    path: Path
    account: Account
    manifest: dict[str, Any]
    resumed: int
    """Judged documents that an earlier, interrupted run had accounted for."""
    seconds: float
    warnings: tuple[str, ...] = ()
    """Features that no document has a value for, or all the same; and what else looks wrong."""

    @property
    def pairs_per_second(self) -> float:
        """Query–document pairs that this run accounted for, a second."""
        return (self.account.judged - self.resumed) / self.seconds


def log_features(
    engine: EngineLike,
    store: Store,
    featureset: FeatureSet,
    judgments: Judgments,
    index: str,
    out: Path,
    *,
    source: str | None = None,
    options: LogOptions | None = None,
    joined: Sequence[JoinedTable] = (),
    parted: Parted | None = None,
    workers: RemoteWorkers | None = None,
    progress: Progress = lambda _: None,
) -> LogReport:
    """Log the features of every judged document into the dataset `out`.

    `parted`: a folder of parts, and which share of the queries is logged into it. `workers`: other
    processes, which ask the engine; what they find is kept here, to the same bytes.

    `source` is the SHA-256 of the file that the judgments are from, for the manifest. The columns
    of `joined` tables come after the features of the set.

    All values are from one moment of the index. Work that is done is kept beside `out`; the same
    call goes on from it, to the same bytes, or, where the index holds something else by then, does
    it again.
    Raises Refused, and publishes nothing, where an answer stays incomplete, too many documents
    are absent or rejected, or the environment changed; EngineUnavailable where the engine does
    not answer.
    """
    started = time.monotonic()
    whole = judgments
    if parted is not None:
        parted.check(out, joined)
        judgments = parted.own(judgments)
    job = plan(engine, store, featureset, judgments, index, source, options or LogOptions(), joined)
    if parted is not None:
        job = parted.of_the_whole(job, whole)
    # Chunks of another size are another job's, though they would give the same values.
    kept_for = {**job.description, "chunk": job.options.chunk}
    beside = out if parted is None else parted.beside(out)
    restart = job.options.restart
    with open_run(beside, kept_for, restart=restart, of_parts=parted is not None) as folder:
        logged = log_one_moment(job, folder, progress, workers)
        description = job.manifest(logged.contents)
        if parted is not None:
            refuse_drift(job.environment, job.observe())
            manifest, columns = publish_parts(folder, job, description, out, parted)
            doubts: list[str] = []
        else:
            dataset, columns = assemble(
                folder, job.chunks, judgments, job.params, job.environment, description, job.joined
            )
            refuse_drift(job.environment, job.observe())
            publish(folder, dataset, out)
            manifest = dict(dataset.manifest or {})
            doubts = warnings_after_log(dataset)
    warnings = (*warnings_of_log(columns, job.feature_names), *doubts)
    seconds = time.monotonic() - started
    return LogReport(out, logged.account, manifest, logged.resumed, seconds, warnings)
