"""`upload`: a model is stored in a cluster and proved there before an alias is switched to it."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from owpc_ltr.data.options import Columns, Topics
from owpc_ltr.engine.deployment.parity import MAX_DRIFT, MIN_PROOF_COVERAGE, PARITY_TOLERANCE
from owpc_ltr.engine.live_queries import InFlight, LiveQueries
from owpc_ltr.engine.options import (
    IN_FLIGHT,
    ExtraFeatures,
    MaxDrift,
    MinProofCoverage,
    Params,
    QueryTemplate,
    SearchIndex,
    Tolerance,
    Window,
)
from owpc_ltr.errors import UsageError
from owpc_ltr.evaluation.options import SmallestGain, Strata
from owpc_ltr.signatures import (
    NO_MODEL,
    Argument,
    Help,
    Plugins,
    Progress,
    Reads,
    job,
    silent,
    spelled,
)

if TYPE_CHECKING:
    from owpc_ltr.data.dataset import RankingDataset
    from owpc_ltr.data.judgments.grouping import Judgments
    from owpc_ltr.engine.cluster import Cluster
    from owpc_ltr.engine.deployment.gate import Gate
    from owpc_ltr.engine.deployment.live_gate import GateResult, LiveGate
    from owpc_ltr.engine.deployment.model_upload import Uploaded
    from owpc_ltr.engine.live_queries import Judged
    from owpc_ltr.engine.search.live_evaluation import LiveQuestion
    from owpc_ltr.features.feature_set import FeatureSet
    from owpc_ltr.metrics import Metric
    from owpc_ltr.protocols import Model

_LONGEST_VALUE = 60
"""Characters of a parameter in a printed command; a longer value is left to a file."""


def milliseconds_from(text: str) -> float:
    """The milliseconds that a time is. Raises UsageError for a text that is not a time.

    >>> milliseconds_from("10ms"), milliseconds_from("0.5s")
    (10.0, 500.0)
    """
    match = re.fullmatch(r"(\d+(?:\.\d+)?)(ms|s)?", text.strip())
    if match is None:
        raise UsageError(f"--budget is a time as 10ms or 0.5s, not '{text[:40]}'")
    return float(match[1]) * (1000 if match[2] == "s" else 1)


@job(changes_cluster=True)
def upload(
    cluster: Cluster,
    model: Annotated[
        Model | Path | str, Reads("A model file.", cli=Path, absent=NO_MODEL), Argument.RANKER
    ],
    *,
    name: Annotated[
        str | None,
        Help("The name that applications use; default: the file's.", names="model"),
        Argument.NAME,
    ] = None,
    index: SearchIndex = None,
    featureset: Annotated[
        str | None,
        Help("The feature set it was trained on; default: found by its hash.", metavar="NAME"),
        Argument.NAME,
    ] = None,
    role: Annotated[
        str,
        Help(
            "champion: the alias NAME is switched to it; challenger: tried beside it.", flag="--as"
        ),
    ] = "champion",
    require_gain: Annotated[
        Any,
        Help(
            "Upload only if it is better in this metric (ndcg@10); needs --data or --judgments.",
            cli=str,
            metavar="METRIC",
        ),
    ] = None,
    smallest_gain: SmallestGain = 0.0,
    baseline: Annotated[
        str,
        Help(
            "What it must be better than: champion, challenger, NAME-HASH, or with --judgments "
            "`query`, the query alone."
        ),
    ] = "champion",
    data: Annotated[
        RankingDataset | Path | str | None,
        Reads(
            "Judged queries: held-out ones for the gain; scores are compared on them, too.",
            cli=Path,
        ),
        Argument.DATA,
    ] = None,
    judgments: Annotated[
        Judged | None,
        Reads(
            "Judged queries to search live, in the whole index: TSV, CSV, qrels …, or a dataset.",
            cli=Path,
        ),
    ] = None,
    columns: Columns = None,
    topics: Topics = None,
    split: Annotated[
        str,
        Help(
            "Which queries of --judgments: auto (those that no ranker was trained on), all, "
            "test, validation or train.",
            panel="Data",
        ),
    ] = "auto",
    proxy_labels: Annotated[
        Any,
        Reads(
            "In place of --data: proxy labels (clicks, a language model) of all queries, beside "
            "--human-labels.",
            cli=Path,
            panel="Data",
        ),
    ] = None,
    human_labels: Annotated[
        Any,
        Reads(
            "Human labels of a random sample of these queries: a list or a dataset.",
            cli=Path,
            panel="Data",
        ),
    ] = None,
    strata: Strata = None,
    accept_unproven: Annotated[
        str | None,
        Help(
            "Upload even if the judgments cannot show whether users get better results; "
            "REASON is recorded. Scores are still checked.",
            metavar="REASON",
            panel="Advanced",
        ),
    ] = None,
    query_template: QueryTemplate = None,
    params: Params = None,
    window: Window = None,
    in_flight: InFlight = IN_FLIGHT,
    tolerance: Tolerance = PARITY_TOLERANCE,
    max_drift: MaxDrift = MAX_DRIFT,
    min_proof_coverage: MinProofCoverage = MIN_PROOF_COVERAGE,
    history: Annotated[
        int | None,
        Help(
            "Earlier versions kept for rollback; default: unchanged, 5 for a new name.",
            min=0,
            panel="Advanced",
        ),
    ] = None,
    allow_slow: Annotated[
        bool,
        Help(
            "Upload a model that exceeds the LTR plugin's cache, so that each search compiles it.",
            panel="Model",
        ),
    ] = False,
    budget: Annotated[
        float | None,
        Help(
            "Without the LTR plugin: run trees inside the engine if they add no more than "
            "this to a search, as 10ms (measured now); 0 = always score on the client; "
            "default: if they need at most 64 tables and 64 feature queries.",
            cli=str,
            parse=milliseconds_from,
            metavar="TIME",
            panel="Model",
        ),
    ] = None,
    client_scored: Annotated[
        bool,
        Help(
            "Always score on the client; features from outside the index are looked up in "
            "--extra-features.",
            panel="Model",
        ),
    ] = False,
    extra_features: ExtraFeatures = (),
    plugins: Plugins = (),
    progress: Progress = silent,
) -> Uploaded:
    """Store a model, check its scores in the engine, switch its alias.

    The model is stored under an immutable name, NAME-HASH. If a score differs, or a feature has
    drifted since training, the upload is rolled back: the model is deleted, the alias NAME is not
    switched, and the exit code is 5.

    --require-gain uploads only a model whose gain on held-out queries is significant, with a 95 %
    interval above 0; otherwise nothing is uploaded, and the exit code is 5. The first model of NAME
    is compared with the query alone. With --judgments the gain is measured on live results of the
    whole index: unjudged documents count as irrelevant, and with these left out the gain must not
    be below 0. With --proxy-labels and --human-labels it is the prediction-powered gain: by human
    labels of a sample, with proxy labels of all queries.

    Judgments that cannot show what users get are refused, too; the error has the command that makes
    better ones. For --data this is checked by searches with --query-template. Also fails if the
    model does not fit the LTR plugin's cache.

    Python: `model`, the judgments and the labels may also be objects that were read before;
    `budget` is in milliseconds. Warnings of the training are repeated, as OwpcLtrWarning.

    Raises Refused if the upload was rolled back; NotBetter, with the comparison, if the gain is not
    met; UsageError for arguments that do not go together.
    """
    from owpc_ltr.data.datasets import read_dataset
    from owpc_ltr.data.external_features.columns import tables_of
    from owpc_ltr.engine.deployment.alias import the_name
    from owpc_ltr.engine.deployment.live_gate import LiveGate, NotBetter
    from owpc_ltr.engine.deployment.model_upload import upload_model
    from owpc_ltr.engine.deployment.serving_mode import Budget
    from owpc_ltr.errors import give_warnings
    from owpc_ltr.evaluation.judged_data import read_lists
    from owpc_ltr.host.registry import load
    from owpc_ltr.metrics import parse_metric
    from owpc_ltr.models.model_file import load_scoring_model, parity_samples_of, warnings_of

    if judgments is None and params:
        raise UsageError(
            f"{spelled('params')} is for live searches of {spelled('judgments')}: give these too, "
            "or leave it out"
        )
    judged_file = judgments if judgments is not None else data if data is not None else human_labels
    queries = (topics or judgments) if judgments is not None else (data or proxy_labels)
    judgments, proxy_labels, human_labels = read_lists(
        columns, judgments, proxy_labels, human_labels, topics=topics, asked=judgments is not None
    )
    window = cluster.window(query_template, window)
    live = (
        None
        if judgments is None
        else LiveQueries(
            judgments,
            query_template,
            window,
            split,
            topics=topics,
            params=params,
            in_flight=in_flight,
        )
    )
    needs_data = data is None and proxy_labels is None and human_labels is None and live is None
    if require_gain is not None and needs_data:
        raise _no_judged_queries()
    registry = load([Path(plugin) for plugin in plugins]) if plugins else None
    metric = None if require_gain is None else parse_metric(require_gain, registry)
    judged, human, strata = gate_judgments(
        metric,
        read_dataset(Path(data)) if isinstance(data, Path | str) else data,
        proxy=proxy_labels,
        human=human_labels,
        strata=strata,
        live=live,
    )
    _check_gain(metric, judged, live, accept_unproven)
    path = Path(model) if isinstance(model, Path | str) else None
    ranker = load_scoring_model(path) if path is not None else model
    assert not isinstance(ranker, Path | str)  # noqa: S101 - told to the type checker
    called = the_name(cluster.engine, cluster.stores, name, path)
    holding = cluster.holding(called)
    trained_on = holding.the_featureset(featureset, ranker.record.get("featureset_hash"))
    where = cluster.the_index(index)
    if judged is not None:
        _check_data(
            cluster, judged, ranker, trained_on, warn=metric is None or live is not None,
            index=index if live is None else None, query_template=query_template, window=window,
        )  # fmt: skip
    tables = tables_of(extra_features)

    def searches(of: LiveQueries, measured: Metric) -> LiveQuestion:
        template = cluster.template(where, of.query_template)[0]
        return of.question(where, template, [measured], trained_on)

    gate = None
    if metric is not None:
        gate = _gate(
            metric, live, judged, searches, smallest_gain, query_template=query_template,
            window=window, human=human, strata=strata, over=baseline, progress=progress,
            tables=tables, accepted=accept_unproven,
        )  # fmt: skip
    give_warnings(f"in training: {told}" for told in warnings_of(ranker.record))
    try:
        return upload_model(
            cluster.engine,
            holding.store,
            ranker,
            trained_on,
            index=where,
            name=called,
            tolerance=tolerance,
            role=role,
            gate=gate,
            samples=None if judged is None else parity_samples_of(judged),
            history=history,
            allow_slow=allow_slow,
            max_drift=max_drift,
            min_proof_coverage=min_proof_coverage,
            budget=Budget(
                budget, gate.question.query if isinstance(gate, LiveGate) else None, window
            ),
            client_scored=client_scored,
            tables=tables,
        )
    except NotBetter as refusal:
        found = refusal.result
        given = {
            "--queries": queries, "--columns": columns, "--rankers": path, "--judged": judged_file,
            "--query-template": query_template, "--window": window, "--index": index,
            "--featureset": featureset,
        }  # fmt: skip
        command = _settling(found, given, params, extra_features, cluster.typed_options)
        raise type(refusal)(found, command).with_result(RefusedUpload(found)) from None


@dataclass(frozen=True)
class RefusedUpload:
    """The comparison of a model that was not uploaded."""

    gate: GateResult

    def as_dict(self) -> dict[str, Any]:
        """The result as JSON."""
        return {"model": None, "gate": self.gate.as_dict()}

    def __str__(self) -> str:
        from owpc_ltr.engine.deployment.live_gate import detail_lines

        return "\n".join(detail_lines(self.gate))


def gate_judgments(
    metric: Any,
    data: RankingDataset | None,
    *,
    proxy: Any,
    human: Any,
    strata: Any,
    live: LiveQueries | None,
) -> tuple[RankingDataset | None, Judgments | RankingDataset | None, Mapping[str, str] | None]:
    """The judged queries; where these are proxy labels, human labels of a sample and its strata.

    Raises UsageError for arguments that do not go together.
    """
    proxy_option, human_option = spelled("proxy_labels"), spelled("human_labels")
    if proxy is None and human is None:
        if strata is not None:
            raise UsageError(
                f"{spelled('strata')} is of a human-labelled sample: also give {proxy_option} and "
                f"{human_option}"
            )
        return data, None, None
    if proxy is None or human is None:
        lacking = proxy_option if proxy is None else human_option
        raise UsageError(
            "proxy labels of all queries and human labels of a sample go together: also give "
            f"{lacking}"
        )
    if metric is None:
        raise UsageError(
            f"{proxy_option} and {human_option} measure a gain: name its metric with "
            f"{spelled('require_gain')}"
        )
    if data is not None or live is not None:
        other = spelled("data" if data is not None else "judgments")
        raise UsageError(
            f"{proxy_option} and {other} are two ways to measure a gain: leave out one"
        )
    from owpc_ltr.data.partitioned.dataset import PartitionedDataset, in_memory
    from owpc_ltr.evaluation.judged_data import read_data
    from owpc_ltr.evaluation.proxy_labels import judged_data, read_strata

    people = read_data(human) if isinstance(human, Path | str) else human
    if isinstance(people, PartitionedDataset):
        people = in_memory(people, human_option)
    return judged_data(proxy), people, read_strata(strata)


def _no_judged_queries() -> UsageError:
    return UsageError(
        f"{spelled('require_gain')} needs judged queries to compare on: give {spelled('data')} FILE"
    )


def _check_gain(metric: Any, data: Any, live: Any, accepted: str | None) -> None:
    """Refuse a gain without judgments, and options of a gain where none is required."""
    if metric is not None and data is None and live is None:
        raise _no_judged_queries()
    if metric is None and live is not None:
        raise UsageError(
            f"{spelled('judgments')} measures a gain: name its metric with "
            f"{spelled('require_gain')}"
        )
    if accepted is not None and metric is None:
        raise UsageError(
            f"{spelled('accept_unproven')} needs {spelled('require_gain')}: leave it out"
        )
    if accepted is not None and not accepted.strip():
        raise UsageError(
            f"{spelled('accept_unproven')} is empty: give the reason, which is recorded"
        )


def _gate(
    metric: Metric,
    live: LiveQueries | None,
    judged: RankingDataset | None,
    searches: Callable[[LiveQueries, Metric], LiveQuestion],
    smallest_gain: float,
    *,
    query_template: Mapping[str, Any] | Path | str | None,
    window: int,
    human: Judgments | RankingDataset | None,
    strata: Mapping[str, str] | None,
    **shared: Any,
) -> Gate | LiveGate:
    """The gate that compares live results, or on judged documents."""
    from owpc_ltr.engine.deployment.gate import Gate
    from owpc_ltr.engine.deployment.live_gate import LiveGate
    from owpc_ltr.engine.live_queries import live_metric

    if live is not None:
        question = replace(searches(live, metric), smallest_gain=smallest_gain)
        return LiveGate(question, side=live.split, **shared)
    assert judged is not None  # noqa: S101 - told to the type checker
    measured = live_metric(metric, window)

    def ask(part: RankingDataset) -> LiveQuestion:
        return searches(LiveQueries(part, query_template, window=window), measured)

    return Gate(
        metric, judged, ask, human=human, strata=strata, smallest_gain=smallest_gain, **shared
    )


def _check_data(
    cluster: Cluster,
    data: RankingDataset,
    ranker: Model,
    featureset: FeatureSet,
    *,
    warn: bool,
    index: str | None,
    **how: Any,
) -> None:
    """Refuse data of other features; `warn` of judgments that look harmful, as gates do themselves.

    Where an index is named, searches check them. `how` is the application's query, and the window.
    """
    from owpc_ltr.errors import give_warnings
    from owpc_ltr.evaluation.judged_data import judgment_findings
    from owpc_ltr.evaluation.query_choice import check_features
    from owpc_ltr.features.score_analysis import text_scores

    check_features(ranker, data, featureset.name)
    if not warn:
        return
    doubts = judgment_findings(data, text_scores(featureset))
    asks = index is not None and data.doc_ids is not None and data.query_params is not None
    if asks:
        doubts += cluster.check_judgments(data, index=index, **how)
    give_warnings(doubts)


def _settling(
    result: GateResult,
    given: Mapping[str, Any],
    params: Mapping[str, Any] | None,
    extra_features: Any,
    connection: Sequence[str],
) -> str:
    """The command that makes conclusive judgments.

    Empty where there is none, or where an argument is not a file that a command could name.
    """
    from owpc_ltr.engine.search.live_evaluation import QUERY_ALONE
    from owpc_ltr.evaluation.ranked_lists import TOP

    tables = list(extra_features) if isinstance(extra_features, list | tuple) else [extra_features]
    files = [given["--queries"], given["--rankers"], given["--judged"], *tables]
    template = given["--query-template"]
    typed = all(isinstance(one, Path | str) for one in files)
    if not typed or isinstance(template, Mapping) or not result.verdict().doubts:
        return ""
    if result.to_judge is None:
        return ""
    other = "query" if result.over == QUERY_ALONE else result.over
    columns = ",".join(f"{role}={name}" for role, name in (given["--columns"] or {}).items())
    options = {
        "--queries": given["--queries"], "--columns": columns or None,
        "--sample": result.to_judge[0],
        "--rankers": f"{other},{given['--rankers']}", "--depth": TOP,
        "--judged": given["--judged"], "--out": "to-judge.csv", "--query-template": template,
        "--window": given["--window"], "--index": given["--index"],
        "--featureset": given["--featureset"],
    }  # fmt: skip
    words = [word for name, value in options.items() if value is not None for word in (name, value)]
    words += connection
    for name, value in (params or {}).items():
        text = value if isinstance(value, str) else json.dumps(value)
        words += ["--param", f"{name}={text}" if len(text) <= _LONGEST_VALUE else f"{name}=@FILE"]
    words += [word for one in tables for word in ("--extra-features", one)]
    return "owpc-ltr judge pool " + " ".join(shlex.quote(str(word)) for word in words)
