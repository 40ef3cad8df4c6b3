"""`upload`: a model is stored in a cluster and proved there before an alias is switched to it."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from owpc_ltr.engine.deployment.parity import ProofLimits
from owpc_ltr.engine.options import Require, SearchIndex, ServingOptions, Unproven
from owpc_ltr.errors import BadInput, UsageError, give_warnings
from owpc_ltr.signatures import NO_MODEL, Argument, Help, Reads, job, option_name

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
        Model | Path | str, Reads("A model file.", cli=Path, absent=NO_MODEL), Argument.RANKER
    ],
    *,
    name: Annotated[
        str | None, Help("The name that applications use; default: the file's."), Argument.NAME
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
    serving: Annotated[
        ServingOptions | None,
        Argument.OPTIONS,
        "The search that applications send, and where the model may run in it.",
    ] = None,
    limits: Annotated[
        ProofLimits | None,
        Argument.OPTIONS,
        "How far scores and features may be from those of the training.",
    ] = None,
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
    drifted since training, the upload is rolled back: the model is deleted, the alias NAME is not
    switched, and the exit code is 5.

    A champion is replaced only with evidence: --require FILE, which compare-live wrote with --out,
    must find this model, query template and window better than what the alias serves now; or
    --unproven REASON, which is recorded. Else nothing is uploaded, and the exit code is 5. The
    first model of NAME, and a challenger, need none.

    --query-template (default: the champion's) is also stored as a search template NAME, if the
    cluster takes one: applications then send only NAME and parameters, also after every later
    switch. Its placeholders are {{keywords}}, a list {{#toJson}}filters{{/toJson}}, parameters of
    the feature set, and those that --param has an example of.

    Fails if the model does not fit the LTR plugin's cache.

    Python: `model` and `data` may also be objects that were read before, and `require` what
    `compare_live` returned. Warnings of the training are repeated, as OwpcLtrWarning.

    Raises Refused if the alias may not be switched, or the upload was rolled back; UsageError for
    arguments that do not go together.
    """
    from owpc_ltr.data.datasets import read_dataset
    from owpc_ltr.engine.deployment.alias import CHALLENGER, Aliases, the_name
    from owpc_ltr.engine.deployment.deployment_record import DeploymentRecords
    from owpc_ltr.engine.deployment.model_upload import upload_model
    from owpc_ltr.engine.deployment.switch import SwitchGrounds
    from owpc_ltr.engine.search.request import KEYWORDS, search_request
    from owpc_ltr.models.model_file import load_scoring_model, parity_samples_of, warnings_of

    serving = serving or ServingOptions()
    grounds = SwitchGrounds.of(require, unproven, cluster.typed_options)
    if role == CHALLENGER and grounds != SwitchGrounds():
        given = "require" if require is not None else "unproven"
        raise UsageError(
            f"a challenger replaces nothing, and needs no {option_name(given)}: leave it out, and "
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
    serving = _as_before(serving, before.search if before else None)
    template, search = serving.query_template, None
    window = cluster.window(template, serving.window)
    if template is not None:
        search = search_request(
            cluster,
            KEYWORDS,
            index=where,
            query_template=template,
            params=serving.params,
            window=window,
        )
    elif serving.params:
        raise UsageError(
            f"{option_name('params')} goes with {option_name('query_template')}: give that, too, "
            "or leave it out"
        )
    judged = read_dataset(Path(data)) if isinstance(data, Path | str) else data
    if judged is not None:
        _check_data(
            cluster,
            judged,
            ranker,
            trained_on,
            index=index,
            query_template=template,
            window=window,
        )
    if warnings_of(ranker.record):
        give_warnings([f"training gave warnings: owpc-ltr models show {called} lists them"])
    return upload_model(
        cluster.engine,
        holding.store,
        ranker,
        trained_on,
        index=where,
        name=called,
        role=role,
        grounds=grounds,
        file=path,
        samples=None if judged is None else parity_samples_of(judged),
        history=history,
        allow_slow=serving.allow_slow,
        window=window,
        client_scored=serving.client_scored,
        limits=limits or ProofLimits(),
        search=search,
        template=None if template is None else cluster.whole_template(where, template),
    )


def _as_before(serving: ServingOptions, search: Mapping[str, Any] | None) -> ServingOptions:
    """The options, with the champion's query template and window where no template is given."""
    if search is None or serving.query_template is not None:
        return serving
    return replace(
        serving,
        query_template=search["template"],
        params={**search["params"], **(serving.params or {})},
        window=search["window"] if serving.window is None else serving.window,
    )


def _check_data(
    cluster: Cluster,
    data: RankingDataset,
    ranker: Model,
    featureset: FeatureSet,
    *,
    index: str | None,
    **how: Any,
) -> None:
    """Refuse data of other features, and warn of judgments that look harmful.

    Where an index is named, searches check them. `how` is the application's query, and the window.
    """
    from owpc_ltr.evaluation.judged_data import judgment_warnings
    from owpc_ltr.evaluation.query_choice import check_features
    from owpc_ltr.features.query_analysis import text_scores
    from owpc_ltr.models.model_file import warnings_of

    check_features(ranker, data, featureset.name)
    warnings = [warning.line for warning in judgment_warnings(data, text_scores(featureset))]
    # What training warned of is not repeated.
    warnings = [warning for warning in warnings if warning not in warnings_of(ranker.record)]
    if index is not None and data.doc_ids is not None and data.query_params is not None:
        warnings += cluster.check_judgments(data, index=index, **how)
    give_warnings(warnings)
