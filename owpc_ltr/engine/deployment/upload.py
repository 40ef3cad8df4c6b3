"""`upload`: a model is stored in a cluster and proved there before an alias is switched to it."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from owpc_ltr.engine.deployment.parity import (
    MAX_DRIFT,
    MIN_PROOF_COVERAGE,
    PARITY_TOLERANCE,
    ProofLimits,
)
from owpc_ltr.engine.options import (
    MaxDrift,
    MinProofCoverage,
    Params,
    QueryTemplate,
    Require,
    SearchIndex,
    Tolerance,
    Unproven,
    Window,
)
from owpc_ltr.errors import BadInput, UsageError, give_warning, give_warnings
from owpc_ltr.signatures import NO_MODEL, Argument, Help, Reads, job

if TYPE_CHECKING:
    from owpc_ltr.data.dataset import RankingDataset
    from owpc_ltr.engine.cluster import Cluster
    from owpc_ltr.engine.deployment.model_upload import Uploaded
    from owpc_ltr.features.feature_set import FeatureSet
    from owpc_ltr.protocols import Model


@job(changes_cluster=True)
def upload(
    cluster: Cluster,
    model: Annotated[
        Model | Path | str,
        Reads("A model file.", cli=Path, absent=NO_MODEL, project="model"),
        Argument.RANKER,
    ],
    *,
    name: Annotated[
        str | None,
        Help("The name that applications use; default: the file's.", project="alias"),
        Argument.NAME,
    ] = None,
    index: SearchIndex = None,
    featureset: Annotated[
        str | None,
        Help("The feature set it was trained on; default: found by its hash."),
        Argument.NAME,
    ] = None,
    role: Annotated[
        str,
        Help(
            "champion: the alias NAME is switched to it; challenger: tried beside it.",
            flag="--as",
            metavar="champion|challenger",
        ),
    ] = "champion",
    data: Annotated[
        RankingDataset | Path | str | None,
        Reads(
            "Judged queries to compare scores on; default: those of the training.",
            cli=Path,
        ),
        Argument.DATA,
    ] = None,
    require: Require = None,
    unproven: Unproven = None,
    query_template: QueryTemplate = None,
    params: Params = None,
    window: Window = None,
    allow_slow: Annotated[
        bool,
        Help(
            "Upload a model that exceeds the LTR plugin's cache, so that each search compiles it.",
            panel="Model",
        ),
    ] = False,
    client_scored: Annotated[
        bool,
        Help(
            "Always score on the client; external features are looked up by serve.", panel="Model"
        ),
    ] = False,
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
) -> Uploaded:
    """Store a model, check its scores in the engine, switch its alias.

    The model is stored under an immutable name, NAME-HASH. If a score differs, or a feature has
    drifted since training, the upload is refused (exit code 5): the model is deleted again, and the
    alias NAME is not switched.

    A champion is replaced only with evidence: `require`, which `compare_live(out=…)` wrote,
    must find this model, query template and window better than what the alias serves now; or with
    a reason, `unproven`, which is recorded. Else it is refused before anything is uploaded. The
    first model of NAME, and a challenger, need none.

    `query_template` (default: the champion's) is also stored as a search template NAME, if the
    cluster takes one: applications then send only NAME and parameters, also after every later
    switch. Its placeholders are {{keywords}}, a list {{#toJson}}filters{{/toJson}}, parameters of
    the feature set, and those that `params` has an example of.

    Fails if the model does not fit the LTR plugin's cache.

    Python: `model` and `data` may also be objects that were read before, and `require` what
    `compare_live` returned. One OwpcLtrWarning points to the warnings of the training.

    Raises Refused if the alias may not be switched, or the upload was rolled back; UsageError for
    arguments that do not go together.
    """
    from owpc_ltr.data.datasets import read_dataset
    from owpc_ltr.engine.deployment.alias import CHALLENGER, Aliases, SwitchGrounds, the_name
    from owpc_ltr.engine.deployment.deployment_record import DeploymentRecords
    from owpc_ltr.engine.deployment.model_upload import UploadRequest, upload_model
    from owpc_ltr.engine.search.request import KEYWORDS, search_request
    from owpc_ltr.models.model_file import load_scoring_model, parity_samples_of, warnings_of

    grounds = SwitchGrounds.of(require, unproven, cluster.typed_options)
    if role == CHALLENGER and grounds != SwitchGrounds():
        given = "require" if require is not None else "unproven"
        raise UsageError(
            f"a challenger replaces nothing, and needs no `{given}`: leave it out, and "
            "give it to models promote"
        )
    path = Path(model) if isinstance(model, Path | str) else None
    ranker = load_scoring_model(path) if path is not None else model
    assert not isinstance(ranker, Path | str)  # noqa: S101 - told to the type checker
    called = the_name(cluster.engine, cluster.stores, name, path)
    holding = cluster.holding(called)
    trained_on = holding.the_featureset(featureset, ranker.record.get("featureset_hash"))
    alias = Aliases(cluster.engine, holding.store).find(called)
    records, before = DeploymentRecords(cluster.engine, holding.store), None
    if alias is not None:
        with suppress(BadInput):
            before = records.find(alias.current, whole=False)
    where = before.index if index is None and before else cluster.the_index(index)
    if query_template is None and before is not None and before.search is not None:
        query_template = before.search["template"]
        params = {**before.search["params"], **(params or {})}
        window = before.search["window"] if window is None else window
    rescored, search, template = cluster.window(query_template, window), None, None
    if query_template is not None:
        search = search_request(
            cluster,
            KEYWORDS,
            index=where,
            query_template=query_template,
            params=params,
            window=rescored,
        )
        template = cluster.whole_template(where, query_template)
    elif params:
        raise UsageError("`params` goes with `query_template`: give that, too, or leave it out")
    judged = read_dataset(Path(data)) if isinstance(data, Path | str) else data
    if judged is not None:
        _check_data(
            cluster,
            judged,
            ranker,
            trained_on,
            index=index,
            template=query_template,
            window=rescored,
        )
    if warnings_of(ranker.record):
        give_warning(f"training gave warnings: `models_show('{called}')` lists them")
    request = UploadRequest(
        ranker,
        trained_on,
        name=called,
        index=where,
        role=role,
        grounds=grounds,
        samples=[] if judged is None else parity_samples_of(judged),
        search=search,
        template=template,
        window=rescored,
        limits=ProofLimits(
            tolerance=tolerance, max_drift=max_drift, min_proof_coverage=min_proof_coverage
        ),
        history=history,
        allow_slow=allow_slow,
        client_scored=client_scored,
        file=path,
    )
    return upload_model(cluster.engine, holding.store, request)


def _check_data(
    cluster: Cluster,
    data: RankingDataset,
    ranker: Model,
    featureset: FeatureSet,
    *,
    index: str | None,
    template: Mapping[str, Any] | Path | str | None,
    window: int,
) -> None:
    """Refuse data of other features, and warn of judgments that look harmful.

    Where an index is named, the application's query checks them there.
    """
    from owpc_ltr.evaluation.judged_data import check_features, judgment_warnings
    from owpc_ltr.features.query_analysis import text_scores
    from owpc_ltr.models.model_file import warnings_of

    check_features(ranker, data, featureset.name)
    warnings = [warning.line for warning in judgment_warnings(data, text_scores(featureset))]
    # What training warned of is not repeated.
    warnings = [warning for warning in warnings if warning not in warnings_of(ranker.record)]
    if index is not None and data.doc_ids is not None and data.query_params is not None:
        warnings += cluster.check_judgments(
            data, index=index, query_template=template, window=window
        )
    give_warnings(warnings)
