"""Fields that templates name and an index does not have: there queries match nothing, silently."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from owpc_ltr.engine.client.engine import Engine
from owpc_ltr.engine.client.refusals import EngineRefusal
from owpc_ltr.engine.store.index_fields import IndexFields, index_fields
from owpc_ltr.errors import BadInput
from owpc_ltr.features.feature_set import FeatureSet
from owpc_ltr.features.named_fields import NamedField, named_fields

_TOLD = 8


def refuse_unmapped(
    engine: Engine, featureset: FeatureSet, index: str, params: Mapping[str, Any]
) -> None:
    """Raise BadInput for a field that no template can mean on this index, with what it may mean.

    An engine takes a query on a field that is not there, and answers that nothing matches.
    """
    wanted = [
        (feature.name, field)
        for feature in featureset.features
        for field in named_fields(feature, params)
    ]
    if not wanted:
        return
    try:
        known = index_fields(engine, index)
    except EngineRefusal as refusal:
        if refusal.status != 404:
            raise
        return  # the trial says it better
    faults = [_fault(name, field, known, index) for name, field in wanted if not known.has(field)]
    if faults:
        told = faults[:_TOLD] + ([f"and {len(faults) - _TOLD} more"] if faults[_TOLD:] else [])
        if not all(fault.endswith("?") for fault in faults):
            told.append("mend the template, or push it all the same with --allow-unmapped")
        raise BadInput("; ".join(told))


def _fault(feature: str, field: NamedField, known: IndexFields, index: str) -> str:
    closest = known.closest(field)
    what = "nested object" if field.use == "path" else "field"
    if "*" in field.name:
        fault = f"feature '{feature}': no field of '{index}' is called '{field.name}'"
    else:
        fault = f"feature '{feature}': '{field.name}' is no {what} of '{index}'"
        if field.name in known.objects:
            fault += " but an object"
            closest = next(
                iter(sorted(f for f in known.fields if f.startswith(f"{field.name}."))), closest
            )
    return fault if closest is None else f"{fault}; did you mean '{closest}'?"
