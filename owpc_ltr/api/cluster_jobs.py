"""Jobs in a cluster: upload models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from owpc_ltr.engine.defaults import Progress, tables_of, the_featureset, the_index
from owpc_ltr.engine.deployment.alias import the_name
from owpc_ltr.engine.options import DEFAULT_WINDOW, MAX_DRIFT, MIN_PROOF_COVERAGE, PARITY_TOLERANCE

if TYPE_CHECKING:
    from owpc_ltr.data.dataset import RankingDataset
    from owpc_ltr.engine.cluster import Cluster
    from owpc_ltr.engine.deployment.upload import Uploaded
    from owpc_ltr.engine.live_queries import LiveQueries
    from owpc_ltr.engine.search.live_evaluation import LiveQuestion
    from owpc_ltr.features.feature_set import FeatureSet
    from owpc_ltr.protocols import Model


_ALL_FIELDS = (
    "live results are those of a query of all text fields: give the query of your application, if "
    "it has another"
)


def upload(
    cluster: Cluster,
    model: Model | Path | str,
    name: str | None = None,
    *,
    index: str | None = None,
    featureset: str | None = None,
    role: str = "champion",
    require_gain: Any = None,
    baseline: str = "champion",
    data: RankingDataset | None = None,
    proxy_labels: Any = None,
    human_labels: Any = None,
    strata: Any = None,
    tolerance: float = PARITY_TOLERANCE,
    history: int | None = None,
    allow_slow: bool = False,
    live: LiveQueries | None = None,
    query_template: Mapping[str, Any] | Path | str | None = None,
    window: int = DEFAULT_WINDOW,
    accept_unproven: str | None = None,
    max_drift: float = MAX_DRIFT,
    min_proof_coverage: float = MIN_PROOF_COVERAGE,
    budget: float | None = None,
    client_scored: bool = False,
    extra_features: Any = None,
    plugins: Sequence[Path | str] = (),
    progress: Progress | None = None,
) -> Uploaded:
    """Store the model as NAME-HASH, prove its scores, then switch the alias NAME to it.

    `role` may be `challenger`. With the metric `require_gain` it must be better than `baseline` on
    the held-out queries of `data`; or, with `live` judgments, in what users get from the whole
    index: than the query alone where NAME points to nothing yet, or `baseline="query"`; queries of
    a dataset count by their importance. Better is a gain that is significant, with an interval
    above 0, by judgments that can tell what users get: of `data`, too, that is looked up in the
    live results of `query_template` (its best `window` documents rescored; left out, all text
    fields are searched). `accept_unproven` is why doubtful judgments are taken for proof; it is
    kept in the deployment record.
    `history` is how many earlier models are kept for rollback (5 for a new name). `allow_slow`
    takes a model that the engine's cache has no room for. Without
    the LTR plugin, trees run inside the engine where they fit and ask no more than 64 feature
    queries and tables; with a `budget`, where they add no more than so many milliseconds to a
    search, measured on the index now. Else the client scores them. With
    `client_scored` the client scores whatever it is: also a model of features that are in no
    index, which searches then look up in tables; `extra_features` has such tables, as for
    `log_features`, to prove that. `plugins` are files in which the metric may be.
    With `proxy_labels` of all queries and `human_labels` of a random sample of them (files, or
    what was read), the interval of the gain is by human labels, made sharper by the proxy ones;
    `strata` are those that `judge_sample` wrote, where it drew the sample.
    What training warned of is given again, as OwpcLtrWarning.
    Raises Refused, with the model deleted again and the alias not switched, if a score
    differs by more than `tolerance`, the gain is not shown, or a feature moved by more than
    `max_drift` standard deviations since training, or less than `min_proof_coverage` of the
    documents or queries of the proof are in the index.
    """
    from owpc_ltr.api.gate_judgments import check_gain, gate_judgments
    from owpc_ltr.engine.deployment.gate import Gate
    from owpc_ltr.engine.deployment.live_gate import LiveGate
    from owpc_ltr.engine.deployment.serving_mode import Budget
    from owpc_ltr.engine.deployment.upload import upload
    from owpc_ltr.engine.live_queries import LiveQueries, live_metric
    from owpc_ltr.errors import give_warnings
    from owpc_ltr.host.registry import load
    from owpc_ltr.metrics import parse_metric
    from owpc_ltr.models.model_file import load_scoring_model, warnings_of
    from owpc_ltr.models.parity_samples import parity_samples_of

    registry = load(map(Path, plugins))
    metric = None if require_gain is None else parse_metric(require_gain, registry)
    judged = gate_judgments(metric, data, proxy_labels, human_labels, strata, live)
    data = judged.data
    check_gain(metric, data, live, accept_unproven)
    tables = tables_of(extra_features)
    gate: Gate | LiveGate | None = None
    samples = None if data is None else parity_samples_of(data)
    path = Path(model) if isinstance(model, Path | str) else None
    ranker = load_scoring_model(path) if path is not None else model
    assert not isinstance(ranker, Path | str)  # noqa: S101 - told to the type checker
    called = the_name(cluster.engine, cluster.stores, name, path)
    store = cluster.holding(called).store
    wanted = ranker.record.get("featureset_hash")
    trained_on = store.get_featureset(the_featureset(store, featureset, wanted))
    where = the_index(cluster.engine, index)
    if data is not None and (metric is None or live is not None):
        _warn_of_judgments(cluster, data, trained_on, index, live)
    budgeted = None
    if live is not None and metric is not None:
        budgeted = cluster.template(where, live.query_template)[0]
        gate = LiveGate(
            live.question(where, budgeted, [metric], trained_on),
            baseline, live.split, progress, tables, accept_unproven,
        )  # fmt: skip
    elif data is not None and metric is not None:
        asked = [live_metric(metric, window)]

        def ask(part: RankingDataset) -> LiveQuestion:
            proof = LiveQueries(part, window=window)
            return proof.question(
                where, cluster.template(where, query_template)[0], asked, trained_on
            )

        gate = Gate(
            metric, data, ask, baseline, judged.human, judged.strata, progress, tables,
            accept_unproven, () if query_template is not None else (_ALL_FIELDS,),
        )  # fmt: skip
    give_warnings(f"in training: {told}" for told in warnings_of(ranker.record))
    uploaded = upload(
        cluster.engine, store, ranker, trained_on, where, called, tolerance,
        role=role, gate=gate, samples=samples, history=history, allow_slow=allow_slow,
        max_drift=max_drift, min_proof_coverage=min_proof_coverage, budget=Budget(budget, budgeted),
        client_scored=client_scored, tables=tables,
    )  # fmt: skip
    give_warnings(uploaded.cautions)
    return uploaded


def _warn_of_judgments(
    cluster: Cluster,
    data: RankingDataset,
    featureset: FeatureSet,
    index: str | None,
    live: LiveQueries | None,
) -> None:
    """Say what looks harmful in the judgments; the engine is asked where one is named."""
    from owpc_ltr.errors import give_warnings
    from owpc_ltr.evaluation.judgment_checks import judgment_findings
    from owpc_ltr.features.score_kinds import text_scores

    doubts = judgment_findings(data, text_scores(featureset))
    asks = index is not None and data.document_ids is not None and data.query_params is not None
    if asks and live is None:
        doubts += cluster.check_judgments(data, index=index)
    give_warnings(doubts)
