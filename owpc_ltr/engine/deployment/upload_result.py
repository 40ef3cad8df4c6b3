"""What an upload tells: the stored model, its proof, and what its alias was switched on."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from owpc_ltr.engine.deployment.alias import Alias
from owpc_ltr.engine.deployment.parity import (
    FeatureDrift,
    Parity,
    RankAgreement,
    drift_line,
)
from owpc_ltr.engine.deployment.serving_mode import ServingMode
from owpc_ltr.signatures import option_name
from owpc_ltr.text import ShortRepr, wrapped_text


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
            "form": self.serving_mode.as_dict() if self.serving_mode else None,
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
            lines.append(f"search request with the model: {kilobytes(self.request_bytes)}")
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
                f"better: upload it again with {option_name('query_template')}"
            )


def switch_line(switch: Mapping[str, Any]) -> str:
    """What an alias was switched on, as its model's deployment record has it."""
    over, evidence = switch["over"], switch.get("evidence")
    if evidence is None:
        return f"replaced {over} without evidence: {switch['unproven']}"
    return (
        f"{evidence['verdict']['outcome']} than {over or evidence['old']['name']} by "
        f"{evidence['by']}, by evidence of {evidence['written']}"
    )


def kilobytes(size: int) -> str:
    """A size in bytes, in words."""
    return f"{math.ceil(size / 1000):,} kB"
