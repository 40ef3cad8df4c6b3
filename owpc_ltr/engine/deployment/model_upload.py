"""Uploads: a model is stored, its scores are compared, and only then an alias is switched."""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from owpc_ltr.arrays import Matrix
from owpc_ltr.engine.client.engine import Engine
from owpc_ltr.engine.deployment.alias import (
    CHALLENGER,
    CHAMPION,
    ROLES,
    Alias,
    Aliases,
)
from owpc_ltr.engine.deployment.deployment_record import (
    DeploymentRecord,
    DeploymentRecords,
    immutable_name,
)
from owpc_ltr.engine.deployment.options import ProofLimits
from owpc_ltr.engine.deployment.parity import drift_refusal
from owpc_ltr.engine.deployment.proof import Proof, ScoredDocuments, prove, request_refusal
from owpc_ltr.engine.deployment.search_template import (
    SearchTemplates,
    proved_template,
    queries_of_proof,
)
from owpc_ltr.engine.deployment.serving_mode import (
    ServingCase,
    ServingMode,
    choose_serving_mode,
    known_interval,
    with_external_features,
    with_fewer_features,
)
from owpc_ltr.engine.deployment.switch import (
    SwitchGrounds,
    check_challenger,
    check_switch,
    configuration,
)
from owpc_ltr.engine.deployment.upload_result import Uploaded, kilobytes
from owpc_ltr.engine.evidence import SearchConfiguration, model_digest
from owpc_ltr.engine.feature_log.job import Environment, observe
from owpc_ltr.engine.model_size import check_room
from owpc_ltr.engine.options import DEFAULT_WINDOW
from owpc_ltr.engine.search.request import SearchRequest, rescore_clauses
from owpc_ltr.engine.stores import Absent, Store
from owpc_ltr.engine.versioned_documents import Unsettled
from owpc_ltr.errors import (
    BadInput,
    EngineUnavailable,
    OwpcLtrError,
    Refused,
    UsageError,
    give_warnings,
)
from owpc_ltr.features.feature_set import FeatureSet
from owpc_ltr.files.strict_json import json_text
from owpc_ltr.formats.client_models import check_features, is_client_scored
from owpc_ltr.formats.stored_model import StoredModel
from owpc_ltr.models.average import without_other_folds
from owpc_ltr.models.model_file import content_of
from owpc_ltr.models.score_range import ScoreInterval
from owpc_ltr.protocols import Model
from owpc_ltr.signatures import option_name
from owpc_ltr.text import check_alias, check_index, check_name, is_model_of, split_immutable

_CHANGED = "the engine, the index or the feature set changed during the upload: try again"
LARGE_REQUEST = 100_000
"""Bytes of a search request from which on an upload warns."""
_ATTEMPTS = 3
"""How often the same model is stored where failing uploads of it remove it meanwhile."""


def upload_model(
    engine: Engine,
    store: Store,
    model: Model,
    featureset: FeatureSet,
    *,
    index: str,
    name: str,
    limits: ProofLimits = ProofLimits(),  # noqa: B008 - it is frozen
    role: str = CHAMPION,
    grounds: SwitchGrounds = SwitchGrounds(),  # noqa: B008 - it is frozen
    samples: list[dict[str, Any]] | None = None,
    history: int | None = None,
    allow_slow: bool = False,
    window: int = DEFAULT_WINDOW,
    client_scored: bool = False,
    search: SearchRequest | None = None,
    template: Mapping[str, Any] | None = None,
    file: Path | None = None,
) -> Uploaded:
    """Store the model as `name-hash`, check its scores on real documents, then switch the alias.

    `role` is which model of the alias it becomes: champion or challenger; a champion is replaced
    only on the `grounds`, see `check_switch`. `samples` are used where the model remembers none.
    `history` is how many earlier models are kept for rollback.

    Without the plugin, trees run inside the engine where they fit; else the client scores them, and
    with `client_scored` any model. External features are what the samples remember. Requests of the
    `window` are tried.

    `search` is the application's, of which a search template is made (see `search_template`), and
    `template` is what it was made of: without them, they are those of an earlier upload. `file` is
    the model's, for messages.

    Raises Refused before anything is stored, if the alias may not be switched or the engine's cache
    of models has no room for it (unless `allow_slow`). Raises Refused after the model was removed
    again and with the alias unchanged, if the scores, or features since training, differ by more
    than the `limits`, or fewer of the documents or queries of the proof are in the index.
    """
    check_features(model, featureset)
    samples = model.record.get("probes") or samples or []
    if not samples:
        raise Refused(
            "the model remembers no judged documents to compare scores on: give some with "
            f"{option_name('data')} FILE, or train on a dataset that log-features wrote"
        )
    check_name("model", name)
    # Before anything is stored: it raises where there is no such index.
    engine.request("GET", f"/{check_index(index)}")
    case = ServingCase(engine, store, model, featureset, name=name, index=index, samples=samples)
    case = with_external_features(case, client_scored=client_scored)
    case = with_fewer_features(case)
    mode = choose_serving_mode(case, window, limits.tolerance, client_scored=client_scored)
    stored = replace(mode.stored, name=immutable_name(name, mode.stored))
    if case.featureset is not featureset:
        # The set has the model's name, and is stored and pruned with it.
        stored = replace(stored, featureset=replace(case.featureset, name=stored.name))
        mode = replace(mode, words=_fewer(case.featureset, featureset))
    check_new_name(engine, store, name, stored.name)
    aliases = Aliases(engine, store)
    _check_role(aliases, name, stored.name, role)
    templates = SearchTemplates(engine, store)
    queries: list[SearchRequest] = []
    if search is not None and is_client_scored(stored):
        mode = replace(mode, words=f"{mode.words}; so it has no search template")
    elif search is not None:
        queries = queries_of_proof(store, search, case.samples)
        templates.check(name, needed=True)
    elif aliases.find(name) and not templates.of_model(stored.name):
        templates.check(name, needed=False)
    warnings: tuple[str, ...] = ()
    if store.kind == "ltr-plugin":
        warnings = check_room(engine, store, stored, allow_slow=allow_slow)
    upload = _Upload(
        **vars(case),
        stored=stored,
        limits=limits,
        grounds=grounds,
        file=file,
        search=_known_search(engine, store, stored.name, search, template),
        role=role,
        history=history,
        window=window,
        serving_mode=mode,
        queries=queries,
    )
    if is_client_scored(stored) and not client_scored:
        warnings += (
            f"the client scores '{name}': applications must search with owpc-ltr serve or Python's "
            "search, as no request makes the engine alone run it",
        )
    give_warnings((*warnings, *case.warnings))
    upload.check(aliases.find(name))
    store.prepare()
    for _ in range(_ATTEMPTS - 1):
        with suppress(_Overtaken):
            return upload.attempt()
    return upload.attempt()


def _known_search(
    engine: Engine,
    store: Store,
    model: str,
    search: SearchRequest | None,
    template: Mapping[str, Any] | None,
) -> dict[str, Any] | None:
    """What a deployment record has of the application's search: as given, or of before."""
    if search is None or template is None:
        before = None
        with suppress(BadInput):
            before = DeploymentRecords(engine, store).find(model, whole=False)
        return None if before is None else before.search
    params = {k: v for k, v in search.params.items() if k not in {"keywords", "query"}}
    return {"template": dict(template), "params": params, "window": search.window}


def interval_of(
    model: Model, featureset: FeatureSet, answered: list[ScoredDocuments]
) -> ScoreInterval:
    """The interval of the model's scores, from the values that its features can have.

    An unbounded feature is assumed to stay within twice its values in training and now. Where that
    gives no interval, it is twice the scores that were seen.
    """
    seen = np.vstack([np.nan_to_num(scored.features) for scored in answered])
    ranges: Matrix = np.vstack([seen.min(axis=0), seen.max(axis=0)])
    trained = model.record.get("feature_ranges")
    if trained is not None and np.shape(trained) == ranges.shape:
        ranges[0] = np.minimum(ranges[0], trained[0])
        ranges[1] = np.maximum(ranges[1], trained[1])
    with np.errstate(over="ignore"):
        interval = known_interval(model, featureset, 2 * ranges)
    if math.isfinite(interval.low):
        return interval
    local = np.concatenate([[0.0], *(scored.local for scored in answered)])
    return ScoreInterval(2 * float(local.min()), 2 * float(local.max()), proven=False)


def _fewer(own: FeatureSet, whole: FeatureSet) -> str:
    few, many = len(own.features), len(whole.features)
    return (
        f"it runs inside the engine with a feature set of its own: the {few} of {many} features "
        "that it uses"
    )


class _Overtaken(Refused):
    """A failing upload of the same model has removed it during this one."""


@dataclass(frozen=True, kw_only=True)
class _Upload(ServingCase):
    """A model that is being uploaded; others may be uploading the same one."""

    stored: StoredModel
    limits: ProofLimits
    grounds: SwitchGrounds
    file: Path | None
    search: dict[str, Any] | None
    role: str
    history: int | None
    window: int
    serving_mode: ServingMode
    queries: list[SearchRequest]

    @property
    def records(self) -> DeploymentRecords:
        return DeploymentRecords(self.engine, self.store)

    @property
    def aliases(self) -> Aliases:
        return Aliases(self.engine, self.store)

    @property
    def configuration(self) -> SearchConfiguration:
        """What users will have."""
        digest = model_digest(self.model)
        return configuration(self.stored.name, self.index, digest, self.search, self.window)

    def check(self, alias: Alias | None) -> dict[str, Any] | None:
        """Refuse to replace the champion without grounds; what the record has of it."""
        if self.role == CHALLENGER:
            if alias is not None:
                check_challenger(self.records, alias, self.configuration)
            return None
        return check_switch(
            self.records, alias, self.configuration, self.grounds, name=self.name, file=self.file
        )

    def attempt(self) -> Uploaded:
        """Store the model, prove it, switch the alias; or leave nothing behind."""
        was_there = self.stored.name in self.store.list_models()
        record: DeploymentRecord | None = None
        sent = switching = False
        try:
            self.store.put_model(self.stored)
            sent = True
            environment = self.observe()
            proof = prove(
                self.engine, self.store, self.served(), self.model, index=self.index,
                samples=self.samples, share=self.limits.min_proof_coverage,
            )  # fmt: skip
            interval = interval_of(self.model, self.stored.featureset, proof.answered)
            refusal = (
                proof.parity.refusal(self.limits.tolerance)
                or drift_refusal(proof.features, proof.rankings, self.limits.max_drift)
                or request_refusal(
                    self.engine, self.store, self.stored, index=self.index, params=proof.params,
                    interval=interval, window=self.window,
                )
                or (_CHANGED if self.observe() != environment else None)
            )  # fmt: skip
            if refusal:
                what_remains = "was there before, and stays" if was_there else "was removed again"
                raise Refused(f"{refusal}; the model {what_remains}")
            template = proved_template(
                self.engine, self.store, self.stored, self.queries,
                interval=interval, tolerance=self.limits.tolerance,
            )  # fmt: skip
            record = replace(
                self.record(proof, interval, environment), search_template=template,
                switch=self.check(self.aliases.find(self.name)),
            )  # fmt: skip
            self.records.put(record)
            switching = True
            alias = self.aliases.switch(
                self.name,
                self.stored.name,
                self.role,
                history=self.history,
                check=self.check,
            )
        except BaseException as error:
            # It may also be removed before it was read back, or while documents were scored.
            unread = isinstance(error, Absent) and error.what == "model"
            overtaken = unread or (sent and isinstance(error, OwpcLtrError) and self.is_gone())
            if not was_there and not (switching and self.may_switch_yet(error)):
                self.remove(error, record)
            if overtaken:
                raise _Overtaken(
                    f"another upload of '{self.stored.name}' failed at the same time, and removed "
                    f"it: try again ({error})"
                ) from error
            raise
        self.restore(record)
        return Uploaded(
            self.stored.name,
            alias,
            proof.parity,
            self.store.kind,
            switch=record.switch,
            typed_options=self.grounds.typed_options,
            searched=self.search is not None,
            type=self.stored.type,
            features=proof.features,
            rankings=proof.rankings,
            serving_mode=self.serving_mode,
            request_bytes=self.request_bytes(proof.params, interval),
            search_template=self.name if template and self.role == CHAMPION else None,
        )

    def request_bytes(self, params: dict[str, Any], interval: ScoreInterval) -> int | None:
        """What the model takes of a search request, if it is a part of one; warns of much."""
        if self.store.kind == "ltr-plugin" or is_client_scored(self.stored):
            return None
        clauses = rescore_clauses(self.store, self.stored, params, self.window, interval)
        size = len(json_text(clauses).encode())
        if size > LARGE_REQUEST:
            give_warnings([
                f"each search request with '{self.name}' has {kilobytes(size)}, as the engine "
                "keeps no models: train fewer or smaller trees, let the client score it "
                f"({option_name('client_scored')}, owpc-ltr serve), or use the LTR plugin"
            ])  # fmt: skip
        return size

    def served(self) -> StoredModel:
        """The model as searches use it: where the client scores, as it is read from the store."""
        if is_client_scored(self.stored):
            return self.store.get_model(self.stored.name)
        return self.stored

    def may_switch_yet(self, error: BaseException) -> bool:
        """Whether the alias may still be switched to the model, which then must stay."""
        if isinstance(error, OwpcLtrError):
            return isinstance(error, Unsettled)
        try:
            return self.aliases.find(self.name) is None
        except OwpcLtrError:
            return True

    def is_gone(self) -> bool:
        """Whether the model is not in the store any more."""
        try:
            self.store.get_model(self.stored.name)
        except BadInput:
            return True
        except OwpcLtrError:
            return False
        return False

    def observe(self) -> Environment:
        """What the model is proved in: the engine, the index and the feature set."""
        return observe(self.engine, self.store, self.stored.featureset.name, self.index)

    def record(
        self, proof: Proof, interval: ScoreInterval, environment: Environment
    ) -> DeploymentRecord:
        """The deployment record: the model, its proof, and the environment of the proof."""
        content = content_of(self.model)
        record = without_other_folds(content.pop("record"), self.model.feature_names)
        record = {key: part for key, part in record.items() if key != "probes"}
        return DeploymentRecord(
            model=self.stored.name,
            content=content,
            featureset=self.stored.featureset,
            type=self.stored.type,
            index=self.index,
            engine=environment.engine,
            indices=environment.indices,
            parity=proof.parity.as_dict(),
            interval=interval,
            search=self.search,
            record=record,
            samples=tuple(scored.remembered() for scored in proof.answered),
            name=self.name,
            serving_mode=self.serving_mode.as_dict(),
        )

    def remove(self, because: BaseException, record: DeploymentRecord | None) -> None:
        """Leave nothing behind, unless another alias uses the same model by now.

        A record is removed only where this upload wrote it: another's may be on its way.
        """
        name = self.stored.name
        try:
            if name in self.aliases.models_in_use():
                return
            with suppress(BadInput):
                self.store.delete_model(name)
            if record is not None:
                self.records.delete(name)
            if name in self.aliases.models_in_use():
                self.restore(record)
        except OwpcLtrError as fault:
            if isinstance(because, OwpcLtrError):
                raise EngineUnavailable(
                    f"{because}; no alias uses '{name}', but it could not be removed ({fault}): "
                    f"remove it later: owpc-ltr models delete {name} --yes"
                ) from because

    def restore(self, record: DeploymentRecord | None) -> None:
        """Put back what a failing upload of the same model may have removed."""
        # The upload is done, or has failed: a fault in this last check must not say otherwise.
        with suppress(OwpcLtrError):
            try:
                self.store.get_model(self.stored.name)
            except BadInput:
                self.store.put_model(self.stored)
            if record and self.records.find(self.stored.name, whole=False) is None:
                self.records.put(record)


def check_new_name(engine: Engine, store: Store, name: str, model: str) -> None:
    """Refuse a name that would hide a model, or be hidden by the new model's own name."""
    aliases = Aliases(engine, store)
    is_new = aliases.check_free(name) is None
    if is_new:
        check_alias(name)
    if aliases.find(model) is not None:
        raise Refused(
            f"the model would be stored as '{model}', which is an alias already: {_another_name()}"
        )
    if not is_new:
        return
    models = store.list_models()
    if name in models:
        raise Refused(
            f"'{name}' is the name of a stored model, which an alias would hide: {_another_name()}"
        )
    parts = split_immutable(name)
    if parts and (
        aliases.find(parts[0]) or any(is_model_of(parts[0], stored) for stored in models)
    ):
        raise Refused(
            f"'{name}' reads as a model of '{parts[0]}', and may become one's name: "
            f"{_another_name()}"
        )


def _another_name() -> str:
    return f"choose another name with {option_name('name')}"


def _check_role(aliases: Aliases, name: str, model: str, role: str) -> None:
    """Refuse, before anything is stored, a challenger without a champion, or of itself."""
    if role not in ROLES:
        raise UsageError(f"no role is called '{role}': use {' or '.join(ROLES)}")
    if role != CHALLENGER:
        return
    alias = aliases.find(name)
    if alias is None:
        raise Refused(
            f"alias '{name}' has no model to challenge yet: upload the first one as champion"
        )
    alias.challenged_by(model)
