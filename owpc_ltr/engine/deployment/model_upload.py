"""Uploads: a model is stored, its scores are compared, and only then an alias is switched."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import KW_ONLY, asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from owpc_ltr.data.blocks import wrapped_text
from owpc_ltr.engine.deployment.alias import (
    CHALLENGER,
    CHAMPION,
    Alias,
    Aliases,
    SwitchGrounds,
    check_challenger,
    check_switch,
    configuration,
    switch_line,
)
from owpc_ltr.engine.deployment.deployment_record import (
    DeploymentRecord,
    DeploymentRecords,
    immutable_name,
)
from owpc_ltr.engine.deployment.parity import (
    FeatureDrift,
    Parity,
    ProofLimits,
    RankAgreement,
    drift_line,
    drift_refusal,
)
from owpc_ltr.engine.deployment.proof import Proof, prove, request_refusal, request_size
from owpc_ltr.engine.deployment.search_template import (
    SearchTemplates,
    proved_template,
    queries_of_proof,
)
from owpc_ltr.engine.deployment.serving_mode import (
    ServingCase,
    ServingMode,
    choose_serving_mode,
    proved_interval,
    with_external_features,
    with_fewer_features,
)
from owpc_ltr.engine.evidence import model_digest
from owpc_ltr.engine.feature_log.job import Environment, observe
from owpc_ltr.engine.model_size import check_room
from owpc_ltr.engine.options import DEFAULT_WINDOW
from owpc_ltr.engine.stores import Absent, Store
from owpc_ltr.engine.versioned_documents import Unsettled
from owpc_ltr.errors import BadInput, EngineUnavailable, OwpcLtrError, Refused, give_warnings
from owpc_ltr.formats.stored_model import check_features, is_client_scored
from owpc_ltr.names import check_index, check_name
from owpc_ltr.text import ShortRepr

if TYPE_CHECKING:
    from owpc_ltr.engine.client.engine import Engine
    from owpc_ltr.engine.search.request import SearchRequest
    from owpc_ltr.features.feature_set import FeatureSet
    from owpc_ltr.formats.stored_model import StoredModel
    from owpc_ltr.models.analysis import ScoreInterval
    from owpc_ltr.protocols import Model


_CHANGED = "the engine, the index or the feature set changed during the upload: try again"
LARGE_REQUEST = 100_000
"""Bytes of a search request from which on an upload warns."""
_ATTEMPTS = 3
"""How often the same model is stored where failing uploads of it remove it meanwhile."""


@dataclass(frozen=True, repr=False)
class Uploaded(ShortRepr):
    """A model in an engine: its immutable name, its alias, and its proof.

    `switch` is what the alias was switched on: evidence, or why without; None where no model was
    replaced. `searched` says whether the application's query is known. `features` is the drift of
    each since training, the furthest first, and `rankings` its effect on rankings: empty where the
    model remembers no features. `serving_mode` says where the model runs and why, if that was a
    choice. `request_bytes` is the size of each search request; None where the LTR plugin or the
    client has the model, so that requests only name it. `search_template` is the name of the search
    template that serves the model, if one does. `typed_options` go with commands that are printed.
    """

    model: str
    alias: Alias
    parity: Parity
    store_kind: str
    switch: Mapping[str, Any] | None = None
    searched: bool = True
    type: str = ""
    features: tuple[FeatureDrift, ...] = ()
    rankings: RankAgreement | None = None
    serving_mode: ServingMode | None = None
    request_bytes: int | None = None
    search_template: str | None = None
    typed_options: str = ""

    def as_dict(self) -> dict[str, Any]:
        """The result as JSON."""
        return {
            "name": self.alias.name,
            "model": self.model,
            "previous": list(self.alias.previous),
            "challenger": self.alias.challenger,
            "store_kind": self.store_kind,
            "type": self.type,
            "serving_mode": self.serving_mode.as_dict() if self.serving_mode else None,
            "request_bytes": self.request_bytes,
            "search_template": self.search_template,
            "parity": self.parity.as_dict(),
            "drift": self.rankings
            and {
                "features": [asdict(feature) for feature in self.features],
                "rankings": asdict(self.rankings),
            },
            "switch": self.switch and dict(self.switch),
        }

    def __str__(self) -> str:
        name = self.alias.name
        role = f"challenger of the alias '{name}'"
        if self.alias.current == self.model:
            role = f"alias '{name}' switched to it"
        lines = [f"stored {self.model} ({self.store_kind}); {role}"]
        if self.serving_mode is not None and self.serving_mode.words:
            lines.append(self.serving_mode.words)
        if self.request_bytes is not None:
            lines.append(f"search request with the model: {_kilobytes(self.request_bytes)}")
        if self.search_template is not None:
            name = self.search_template
            lines.append(
                f"search template '{name}': owpc-ltr request --model {name}{self.typed_options} "
                "has its call"
            )
        lines += [str(self.parity), drift_line(self.features, self.rankings, "training")]
        lines += map(wrapped_text, self._grounds())
        return "\n".join(lines)

    def _grounds(self) -> Iterator[str]:
        """What the alias was switched on, or the command that measures the model."""
        alias, switch = self.alias, self.switch
        if switch is None:
            role = alias.name if alias.current == self.model else f"{alias.name}:challenger"
            yield (
                "nothing was compared: measure what users get by owpc-ltr compare-live "
                f"{role} --judgments FILE{self.typed_options}"
            )
        else:
            yield switch_line(switch)
        if not self.searched:
            yield (
                "the application's query is not known, so that no later model can be shown to be "
                "better: upload it again with `query_template`"
            )


@dataclass(frozen=True)
class UploadRequest:
    """A model that is to be uploaded under a name, and how.

    `role` is which model of the alias it becomes: champion or challenger; a champion is replaced
    only on the `grounds`, see `check_switch`. `samples` are used where the model remembers none.
    `history` is how many earlier models are kept for rollback. Requests of the `window` are tried.

    `search` is the application's, of which a search template is made (see `search_template`), and
    `template` is what it was made of: without them, they are those of an earlier upload. With
    `client_scored` the client scores any model, and with `allow_slow` the model may exceed the
    engine's cache. `file` is the model's, for messages.
    """

    model: Model
    featureset: FeatureSet
    _: KW_ONLY
    name: str
    index: str
    role: str = CHAMPION
    grounds: SwitchGrounds = field(default_factory=SwitchGrounds)
    samples: Sequence[dict[str, Any]] = ()
    search: SearchRequest | None = None
    template: Mapping[str, Any] | None = None
    window: int = DEFAULT_WINDOW
    limits: ProofLimits = field(default_factory=ProofLimits)
    history: int | None = None
    allow_slow: bool = False
    client_scored: bool = False
    file: Path | None = None


def upload_model(engine: Engine, store: Store, request: UploadRequest) -> Uploaded:
    """Store the model as `name-hash`, check its scores on real documents, then switch the alias.

    Without the plugin, trees run inside the engine where they fit; else the client scores them.
    External features are what the samples remember.

    Raises Refused before anything is stored, if the alias may not be switched or the engine's cache
    of models has no room for it (unless `allow_slow`). Raises Refused after the model was removed
    again and with the alias unchanged, if the scores, or features since training, differ by more
    than the `limits`, or fewer of the documents or queries of the proof are in the index.
    """
    model, featureset, name = request.model, request.featureset, request.name
    check_features(model, featureset)
    samples = model.record.get("probes") or request.samples
    if not samples:
        raise Refused(
            "the model remembers no judged documents to compare scores on: give some with "
            "`data`, or train on a dataset that log-features wrote"
        )
    check_name("model", name)
    # Before anything is stored: it raises where there is no such index.
    engine.request("GET", f"/{check_index(request.index)}")
    case = ServingCase(
        engine, store, model, featureset, name=name, index=request.index, samples=samples
    )
    case = with_external_features(case, client_scored=request.client_scored)
    case = with_fewer_features(case)
    mode = choose_serving_mode(
        case, request.window, request.limits.tolerance, client_scored=request.client_scored
    )
    stored = replace(mode.stored, name=immutable_name(name, mode.stored))
    if case.featureset is not featureset:
        # The set has the model's name, and is stored and pruned with it.
        stored = replace(stored, featureset=replace(case.featureset, name=stored.name))
        mode = replace(mode, words=_fewer(case.featureset, featureset))
    alias = Aliases(engine, store).check_upload(name, stored.name, request.role)
    templates = SearchTemplates(engine, store)
    queries: list[SearchRequest] = []
    if request.search is not None and is_client_scored(stored):
        mode = replace(mode, words=f"{mode.words}; so it has no search template")
    elif request.search is not None:
        queries = queries_of_proof(store, request.search, case.samples)
        templates.check(name, needed=True)
    elif alias and not templates.of_model(stored.name):
        templates.check(name, needed=False)
    warnings = check_room(engine, store, stored, allow_slow=request.allow_slow)
    upload = _Upload(
        request,
        case,
        replace(mode, stored=stored),
        search=_known_search(engine, store, stored.name, request),
        queries=queries,
    )
    if is_client_scored(stored) and not request.client_scored:
        warnings += (
            f"the client scores '{name}': applications must search with owpc-ltr serve or Python's "
            "search, as no request makes the engine alone run it",
        )
    give_warnings((*warnings, *case.warnings))
    upload.check(alias)
    store.prepare()
    for _ in range(_ATTEMPTS - 1):
        with suppress(_Overtaken):
            return upload.attempt()
    return upload.attempt()


def _known_search(
    engine: Engine, store: Store, model: str, request: UploadRequest
) -> dict[str, Any] | None:
    """What a deployment record has of the application's search: as given, or of before."""
    search, template = request.search, request.template
    if search is None or template is None:
        before = None
        with suppress(BadInput):
            before = DeploymentRecords(engine, store).find(model, whole=False)
        return None if before is None else before.search
    params = {k: v for k, v in search.params.items() if k not in {"keywords", "query"}}
    return {"template": dict(template), "params": params, "window": search.window}


def _fewer(own: FeatureSet, whole: FeatureSet) -> str:
    few, many = len(own.features), len(whole.features)
    return (
        f"it runs inside the engine with a feature set of its own: the {few} of {many} features "
        "that it uses"
    )


class _Overtaken(Refused):
    """A failing upload of the same model has removed it during this one."""


@dataclass(frozen=True)
class _Upload:
    """A model that is being uploaded; others may be uploading the same one.

    `search` is what the deployment record gets, `queries` are those that try the search template.
    """

    request: UploadRequest
    case: ServingCase
    mode: ServingMode
    _: KW_ONLY
    search: dict[str, Any] | None
    queries: list[SearchRequest]

    @property
    def engine(self) -> Engine:
        return self.case.engine

    @property
    def store(self) -> Store:
        return self.case.store

    @property
    def stored(self) -> StoredModel:
        return self.mode.stored

    @property
    def records(self) -> DeploymentRecords:
        return DeploymentRecords(self.engine, self.store)

    @property
    def aliases(self) -> Aliases:
        return Aliases(self.engine, self.store)

    def check(self, alias: Alias | None) -> dict[str, Any] | None:
        """Refuse to replace the champion without grounds; what the record has of it."""
        case, request = self.case, self.request
        new = configuration(
            self.stored.name, case.index, model_digest(case.model), self.search, request.window
        )
        if request.role == CHALLENGER:
            if alias is not None:
                check_challenger(self.records, alias, new)
            return None
        return check_switch(
            self.records, alias, new, request.grounds, name=case.name, file=request.file
        )

    def attempt(self) -> Uploaded:
        """Store the model, prove it, switch the alias; or leave nothing behind."""
        name, model = self.case.name, self.stored.name
        was_there = model in self.store.list_models()
        record: DeploymentRecord | None = None
        sent = switching = False
        try:
            self.store.put_model(self.stored)
            sent = True
            environment = self.observe()
            # Where the client scores, the model is proved as it is read from the store.
            client = is_client_scored(self.stored)
            served = self.store.get_model(model) if client else self.stored
            proof = prove(
                self.engine,
                self.store,
                served,
                self.case.model,
                index=self.case.index,
                samples=self.case.samples,
                share=self.request.limits.min_proof_coverage,
            )
            interval = proved_interval(self.case.model, self.stored.featureset, proof)
            if refusal := self.refusal(proof, interval, environment):
                what_remains = "was there before, and stays" if was_there else "was removed again"
                raise Refused(f"{refusal}; the model {what_remains}")
            template = proved_template(
                self.engine,
                self.store,
                self.stored,
                self.queries,
                interval=interval,
                tolerance=self.request.limits.tolerance,
            )
            record = DeploymentRecord.of_model(
                self.case.model,
                self.stored,
                name=name,
                index=self.case.index,
                engine=environment.engine,
                indices=environment.indices,
                parity=proof.parity.as_dict(),
                interval=interval,
                search=self.search,
                switch=self.check(self.aliases.find(name)),
                samples=tuple(scored.remembered() for scored in proof.answered),
                serving_mode=self.mode.as_dict(),
                search_template=template,
            )
            self.records.put(record)
            switching = True
            alias = self.aliases.switch(
                name,
                model,
                self.request.role,
                history=self.request.history,
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
                    f"another upload of '{model}' failed at the same time, and removed it: try "
                    f"again ({error})"
                ) from error
            raise
        self.restore(record)
        return Uploaded(
            model,
            alias,
            proof.parity,
            self.store.kind,
            switch=record.switch,
            typed_options=self.request.grounds.typed_options,
            searched=self.search is not None,
            type=self.stored.type,
            features=proof.features,
            rankings=proof.rankings,
            serving_mode=self.mode,
            request_bytes=self.request_bytes(proof.params, interval),
            search_template=name if template and self.request.role == CHAMPION else None,
        )

    def refusal(
        self, proof: Proof, interval: ScoreInterval, environment: Environment
    ) -> object | None:
        """Why the proof does not allow the upload; None if it does."""
        limits = self.request.limits
        return (
            proof.parity.refusal(limits.tolerance)
            or drift_refusal(proof.features, proof.rankings, limits.max_drift)
            or request_refusal(
                self.engine,
                self.store,
                self.stored,
                index=self.case.index,
                params=proof.params,
                interval=interval,
                window=self.request.window,
            )
            or (_CHANGED if self.observe() != environment else None)
        )

    def request_bytes(self, params: dict[str, Any], interval: ScoreInterval) -> int | None:
        """What the model takes of a search request, if it is a part of one; warns of much."""
        if self.store.kind == "ltr-plugin" or is_client_scored(self.stored):
            return None
        size = request_size(self.store, self.stored, params, self.request.window, interval)
        if size > LARGE_REQUEST:
            give_warnings(
                [
                    f"each search request with '{self.case.name}' has {_kilobytes(size)}, as the "
                    "engine keeps no models: train fewer or smaller trees, let the client score it "
                    f"(`client_scored`, owpc-ltr serve), or use the LTR plugin"
                ]
            )
        return size

    def may_switch_yet(self, error: BaseException) -> bool:
        """Whether the alias may still be switched to the model, which then must stay."""
        if isinstance(error, OwpcLtrError):
            return isinstance(error, Unsettled)
        try:
            return self.aliases.find(self.case.name) is None
        except OwpcLtrError:
            return True

    def is_gone(self) -> bool:
        """Whether the model is not in the store any more."""
        try:
            self.store.get_model(self.stored.name)
        except OwpcLtrError as fault:
            return isinstance(fault, BadInput)
        return False

    def observe(self) -> Environment:
        """What the model is proved in: the engine, the index and the feature set."""
        return observe(self.engine, self.store, self.stored.featureset.name, self.case.index)

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
                    f"remove it later: `models_delete('{name}', yes=True)`"
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


def _kilobytes(size: int) -> str:
    """A size in bytes, in words."""
    return f"{math.ceil(size / 1000):,} kB"
