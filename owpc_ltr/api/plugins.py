"""Plugins: what is installed, what it claims, and whether the claims hold."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from owpc_ltr.host.grids import named_grids
from owpc_ltr.host.settings import configure, describe_settings, named_settings

if TYPE_CHECKING:
    from owpc_ltr.host.registry import Registry

__all__ = ["CLAIMS", "describe", "describe_loss", "named_grids", "named_settings", "plugins"]

CLAIMS = ("convex", "conservative", "smooth", "needs_convex", "uses_loss", "has_objective",
          "higher_is_better")  # fmt: skip


def plugins(files: Sequence[Path | str] = ()) -> Registry:
    """Every installed plugin, and those of the files. Raises PluginError for a file that breaks."""
    from owpc_ltr.host.registry import load

    return load(map(Path, files))


def describe(found: Any) -> dict[str, Any]:
    """A plugin of the registry in words: kind, name, claims, settings, purpose, source."""
    default = found.cls()
    module = inspect.getdoc(inspect.getmodule(found.cls)) or inspect.getdoc(found.cls) or ""
    return {
        "kind": found.kind,
        "name": found.name,
        "claims": [claim for claim in CLAIMS if getattr(default, claim, False)],
        "settings": describe_settings(found.cls),
        "summary": module.partition("\n")[0],
        "formula": (inspect.getdoc(found.cls) or "").partition("\n")[0],
        "source": found.source,
    }


def describe_loss(
    name: str,
    settings: Mapping[str, Any] | None = None,
    *,
    seed: int = 0,
    files: Sequence[Path | str] = (),
) -> tuple[dict[str, Any], str]:
    """What a loss is found to be (Burges's tests), and which claim of its does not hold, if any."""
    from owpc_ltr.testing import check_loss
    from owpc_ltr.testing import describe_loss as described

    given = {key.removeprefix("loss."): value for key, value in (settings or {}).items()}
    loss = configure(plugins(files).find("loss", name), given)
    report = described(loss, seed).as_dict()
    try:
        check_loss(loss)
    except AssertionError as error:
        return report, " ".join(str(error).split())
    return report, ""
