"""Uploads: a model is stored, compared with its local scores, and only then gets its name."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from owpc_ltr.arrays import Matrix
from owpc_ltr.data.external_features.columns import ExternalColumns
from owpc_ltr.engine.client.engine import Engine
from owpc_ltr.engine.defaults import MAX_DRIFT, MIN_PROOF_COVERAGE, PARITY_TOLERANCE
from owpc_ltr.engine.deployment.alias import (
    CHALLENGER,
    CHAMPION,
    ROLES,
    Alias,
    Aliases,
    Unsettled,
    immutable_name,
)
from owpc_ltr.engine.deployment.deployment_record import Certificate, Certificates
from owpc_ltr.engine.deployment.feature_drift import (
    Moved,
    drift_as_dict,
    drift_line,
    drift_refusal,
    moved_features,
    moved_rankings,
)
from owpc_ltr.engine.deployment.gate import Gate, pass_gate
from owpc_ltr.engine.deployment.live_gate import GateResult, LiveGate, pass_live_gate
from owpc_ltr.engine.deployment.parity import (
    Answered,
    Orders,
    Parity,
    check_parity,
)
from owpc_ltr.engine.deployment.serving_mode import (
    Budget,
    Form,
    form_for,
    served_model,
    with_fewer_features,
)
from owpc_ltr.engine.feature_log.job import observe
from owpc_ltr.engine.search.capacity import check_room
from owpc_ltr.engine.stores.store import Absent, Store
from owpc_ltr.errors import BadInput, EngineUnavailable, OwpcLtrError, Refused, UsageError
from owpc_ltr.features.feature_set import FeatureSet
from owpc_ltr.features.score_analysis import highest_value, never_negative
from owpc_ltr.formats.model_conversion import check_features, is_client_scored
from owpc_ltr.formats.stored_model import StoredModel
from owpc_ltr.models.model_file import content_of
from owpc_ltr.models.score_range import ScoreInterval, score_interval
from owpc_ltr.names import check_alias, check_index, check_name, is_model_of, split_immutable
from owpc_ltr.plain_text import wrapped_text
from owpc_ltr.protocols import Model

if TYPE_CHECKING:
    from owpc_ltr.data.external_features.table import ExternalTable
    from owpc_ltr.engine.client.engine import Engine

_ATTEMPTS = 3
"""How often the same model is stored, where other uploads of it fail and take it out meanwhile."""


@dataclass(frozen=True)
class Uploaded:
    """A model in an engine: its immutable name, the alias that points to it, and the proof.

    `gate` is None where none was asked for.
    `cautions` say what should be known of it, a line each. `features` tells how far each moved
    since training, the furthest first, and `rankings` what that does to them: nothing where the
    model remembers no features. `form` says where the model runs and why, if that was a choice.
    """

    model: str
    alias: Alias
    parity: Parity
    store_kind: str
    gate: GateResult | None = None
    type: str = ""
    cautions: tuple[str, ...] = ()
    features: tuple[Moved, ...] = ()
    rankings: Orders | None = None
    form: Form | None = None

    def as_dict(self) -> dict[str, Any]:
        """The result as JSON."""
        return {
            "name": self.alias.name,
            "model": self.model,
            "previous": list(self.alias.previous),
            "challenger": self.alias.challenger,
            "store_kind": self.store_kind,
            "type": self.type,
            "form": self.form.as_dict() if self.form else None,
            "parity": self.parity.as_dict(),
            "drift": drift_as_dict(self.features, self.rankings),
            "gate": self.gate.as_dict() if self.gate else None,
        }

    def __str__(self) -> str:
        name, gate = self.alias.name, self.gate
        role = f"challenger of the alias '{name}'"
        if self.alias.current == self.model:
            role = f"alias '{name}' switched to it"
        lines = [f"stored {self.model} ({self.store_kind}); {role}"]
        if self.form is not None and self.form.words:
            lines.append(self.form.words)
        lines += [str(self.parity), drift_line(self.features, self.rankings, "training")]
        if gate is not None:
            accepted = () if gate.accepted is None else (f"accepted unproven: {gate.accepted}",)
            lines += map(wrapped_text, (str(gate.verdict), *accepted, gate.gain))
            lines += filter(None, [gate.details])
        return "\n".join(lines)


def upload_model(
    engine: Engine,
    store: Store,
    model: Model,
    featureset: FeatureSet,
    index: str,
    name: str,
    *,
    tolerance: float = PARITY_TOLERANCE,
    role: str = CHAMPION,
    gate: Gate | LiveGate | None = None,
    samples: list[dict[str, Any]] | None = None,
    history: int | None = None,
    allow_slow: bool = False,
    max_drift: float = MAX_DRIFT,
    min_proof_coverage: float = MIN_PROOF_COVERAGE,
    budget: Budget = Budget(),  # noqa: B008 - it is frozen
    client_scored: bool = False,
    tables: Sequence[ExternalTable] = (),
) -> Uploaded:
    """Store the model as `name-hash`, check its scores on real documents, then move the alias.

    `role` says whether the name, or its challenger, points to it then. `samples` are used where the
    model remembers none. `history` is how many earlier models are kept for rollback. Raises
    Refused, with the model taken out again and the alias where it was, if the gate does not let it
    through, a score differs by more than the tolerance, or a feature moved by more than `max_drift`
    standard deviations since training; and before anything is stored, if the engine's cache of
    models has no room for it, unless `allow_slow`; and where less than `min_proof_coverage` of the
    documents, or of the queries, that the proof is made on are in the index. Without the plugin,
    trees run inside the engine where they fit and cost no more than the `budget`; else the client
    scores them, and with `client_scored` any model. What such a model reads from outside the index
    is looked up in the `tables` as its searches will do, or taken as its samples remember it.
    """
    check_features(model, featureset)
    asked = model.record.get("probes") or samples or []
    if not asked:
        raise Refused(
            "the model remembers no judged documents to compare scores on: give some by --data "
            "FILE, or train on a dataset that log-features wrote"
        )
    check_name("model", name)
    # Asked before anything is stored: it raises where there is no such index.
    engine.request("GET", f"/{check_index(index)}")
    served = served_model(store, model, asked, client_scored=client_scored, tables=tables)
    served, own = with_fewer_features(store, served, featureset)
    form = form_for(
        engine, store, served.model, own, name, index, served.samples, budget, tolerance,
        client_scored=client_scored,
    )  # fmt: skip
    stored = replace(form.stored, name=immutable_name(name, form.stored))
    if own is not featureset:
        # The set is named as the model, stored and pruned with it.
        stored = replace(stored, featureset=replace(own, name=stored.name))
        form = replace(form, words=_fewer(own, featureset))
    check_new_name(engine, store, name, stored.name)
    _check_role(Aliases(engine, store), name, stored.name, role)
    caution = check_room(engine, store, stored, allow_slow=allow_slow)
    gated = _gated(engine, store, gate, model, featureset, name)
    deployment = _Deployment(
        engine=engine,
        store=store,
        stored=stored,
        model=served.model,
        index=index,
        samples=served.samples,
        tolerance=tolerance,
        gated=gated,
        name=name,
        role=role,
        history=history,
        max_drift=max_drift,
        min_proof_coverage=min_proof_coverage,
        form=form,
        joined=served.joined,
    )
    cautions = (*caution, *served.cautions)
    store.prepare()
    for _ in range(_ATTEMPTS - 1):
        with suppress(_Overtaken):
            return replace(deployment.attempt(), cautions=cautions)
    return replace(deployment.attempt(), cautions=cautions)


def interval_of(model: Model, featureset: FeatureSet, answered: list[Answered]) -> ScoreInterval:
    """The interval of the model's scores, by what its features can be.

    Where that is not bounded it is by twice what they ever were: in training, and now. Of a model
    of which nothing is known by its features, it is by twice the scores that were seen.
    """
    scores = {feature.name for feature in featureset.features if never_negative(feature)}
    highest = {feature.name: highest_value(feature) for feature in featureset.features}
    seen = np.vstack([np.nan_to_num(one.features) for one in answered])
    ranges: Matrix = np.vstack([seen.min(axis=0), seen.max(axis=0)])
    trained = model.record.get("feature_ranges")
    if trained is not None and np.shape(trained) == ranges.shape:
        ranges[0] = np.minimum(ranges[0], trained[0])
        ranges[1] = np.maximum(ranges[1], trained[1])
    interval = score_interval(model, scores, 2 * ranges, highest)
    if math.isfinite(interval.low):
        return interval
    local = np.concatenate([[0.0], *(one.local for one in answered)])
    return ScoreInterval(2 * float(local.min()), 2 * float(local.max()), proven=False)


def _fewer(own: FeatureSet, whole: FeatureSet) -> str:
    few, many = len(own.features), len(whole.features)
    return (
        f"it runs inside the engine by a feature set of its own: the {few} of {many} features that "
        "it uses"
    )


class _Overtaken(Refused):
    """A failing upload of the same model has taken it out from under this one."""


@dataclass(frozen=True, kw_only=True)
class _Deployment:
    """A model that is being uploaded, which others may be uploading too."""

    engine: Engine
    store: Store
    stored: StoredModel
    model: Model
    index: str
    samples: list[dict[str, Any]]
    tolerance: float
    gated: GateResult | None
    name: str
    role: str
    history: int | None
    max_drift: float
    min_proof_coverage: float
    form: Form
    joined: ExternalColumns | None = None

    @property
    def asked_features(self) -> tuple[str, ...]:
        """The features that are asked for now: of the index, and of tables where they are given."""
        joined = self.joined.feature_names if self.joined else ()
        return self.stored.featureset.feature_names + joined

    @property
    def certificates(self) -> Certificates:
        return Certificates(self.engine, self.store)

    @property
    def aliases(self) -> Aliases:
        return Aliases(self.engine, self.store)

    def attempt(self) -> Uploaded:
        """Store the model, prove it, move the alias; or leave nothing behind."""
        was_there = self.stored.name in self.store.list_models()
        certificate: Certificate | None = None
        sent = moving = False
        try:
            self.store.put_model(self.stored)
            sent = True
            parity, answered = check_parity(
                self.engine,
                self.store,
                self.served(),
                self.model,
                self.index,
                self.samples,
                share=self.min_proof_coverage,
                joined=self.joined,
            )
            features = moved_features(self.asked_features, answered)
            rankings = moved_rankings(answered)
            refusal = parity.refusal(self.tolerance) or drift_refusal(
                features, rankings, self.max_drift
            )
            if refusal:
                rest = "stays, for it was there before" if was_there else "was removed again"
                raise Refused(f"{refusal}; the model {rest}")
            certificate = self.certify(parity, answered)
            self.certificates.keep(certificate)
            moving = True
            alias = self.aliases.move(self.name, self.stored.name, self.role, keep=self.history)
        except BaseException as error:
            # The model may also be gone before it was read back, or while documents were scored.
            unread = isinstance(error, Absent) and error.what == "model"
            overtaken = unread or (sent and isinstance(error, OwpcLtrError) and self.is_gone())
            if not was_there and not (moving and self.may_move_yet(error)):
                self.take_out(error, certificate)
            if overtaken:
                raise _Overtaken(
                    f"another upload of '{self.stored.name}' failed at the same time, and took it "
                    f"out: try again ({error})"
                ) from error
            raise
        self.mend(certificate)
        return Uploaded(
            self.stored.name,
            alias,
            parity,
            self.store.kind,
            self.gated,
            self.stored.type,
            features=features,
            rankings=rankings,
            form=self.form,
        )

    def served(self) -> StoredModel:
        """The model as searches get it: where the client scores, what the store gives back."""
        if is_client_scored(self.stored):
            return self.store.get_model(self.stored.name)
        return self.stored

    def may_move_yet(self, error: BaseException) -> bool:
        """Whether the name may still come to point to the model, which then must be there."""
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

    def certify(self, parity: Parity, answered: list[Answered]) -> Certificate:
        """What is known of the model now."""
        featureset = self.stored.featureset
        now = observe(self.engine, self.store, featureset.name, self.index)
        content = content_of(self.model)
        record = {key: part for key, part in content.pop("record").items() if key != "probes"}
        return Certificate(
            model=self.stored.name,
            content=content,
            featureset=featureset,
            type=self.stored.type,
            index=self.index,
            engine=now.engine,
            indices=now.indices,
            parity=parity.as_dict(),
            interval=interval_of(self.model, featureset, answered),
            gate=self.gated.as_dict() if self.gated else None,
            record=record,
            samples=tuple(one.remembered() for one in answered),
            name=self.name,
            form=self.form.as_dict(),
        )

    def take_out(self, because: BaseException, certificate: Certificate | None) -> None:
        """Leave nothing behind, unless somebody else's alias points to the same model by now.

        A certificate is taken out only by who wrote one: another's may be on its way.
        """
        name = self.stored.name
        try:
            if name in self.aliases.pointed_to():
                return
            with suppress(BadInput):
                self.store.delete_model(name)
            if certificate is not None:
                self.certificates.delete(name)
            if name in self.aliases.pointed_to():
                self.mend(certificate)
        except OwpcLtrError as fault:
            if isinstance(because, OwpcLtrError):
                raise EngineUnavailable(
                    f"{because}; nothing points to '{name}', but it could not be taken out "
                    f"({fault}): take it out later: owpc-ltr models prune {name}"
                ) from because

    def mend(self, certificate: Certificate | None) -> None:
        """Put back what another upload of the same model, that failed, may have taken out."""
        # The upload is done, or has failed: a fault in this last look must not say otherwise.
        with suppress(OwpcLtrError):
            try:
                self.store.get_model(self.stored.name)
            except BadInput:
                self.store.put_model(self.stored)
            if certificate and self.certificates.find(self.stored.name, whole=False) is None:
                self.certificates.keep(certificate)


def check_new_name(engine: Engine, store: Store, name: str, model: str) -> None:
    """Refuse a name that would hide a model, or that the model's own name would be hidden by."""
    aliases = Aliases(engine, store)
    is_new = aliases.check_free(name) is None
    if is_new:
        check_alias(name)
    if aliases.find(model) is not None:
        raise Refused(
            f"'{model}', as this model would be stored, is a name that applications use already: "
            "take another --name"
        )
    if not is_new:
        return
    there = store.list_models()
    if name in there:
        raise Refused(
            f"'{name}' is a model's own name, which would not mean it any more: take another --name"
        )
    parts = split_immutable(name)
    if parts and (aliases.find(parts[0]) or any(is_model_of(parts[0], one) for one in there)):
        raise Refused(
            f"'{name}' would read as a model of '{parts[0]}', and may be one's own name some day: "
            "take another --name"
        )


def _gated(
    engine: Engine,
    store: Store,
    gate: Gate | LiveGate | None,
    model: Model,
    featureset: FeatureSet,
    name: str,
) -> GateResult | None:
    """What the gate found. Raises NotBetter, before anything is stored."""
    if isinstance(gate, LiveGate):
        return pass_live_gate(engine, store, gate, model, featureset, name)
    return None if gate is None else pass_gate(engine, store, gate, model, featureset, name)


def _check_role(aliases: Aliases, name: str, model: str, role: str) -> None:
    """Refuse, before anything is stored, a challenger of nothing or of itself."""
    if role not in ROLES:
        raise UsageError(f"no role is called '{role}': use {' or '.join(ROLES)}")
    if role != CHALLENGER:
        return
    alias = aliases.find(name)
    if alias is None:
        raise Refused(
            f"there is no '{name}' to challenge yet: upload the first model without --as challenger"
        )
    alias.challenged_by(model)
