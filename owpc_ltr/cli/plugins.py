"""`owpc-ltr plugins`: what is installed, what it claims, and its settings."""

from __future__ import annotations

import inspect
from typing import Any

from owpc_ltr.cli.groups import grouped
from owpc_ltr.cli.options import Json, PluginFiles
from owpc_ltr.cli.output import print_json, print_table, warn

_CLAIMS = {
    "loss": ("convex", "conservative", "smooth"),
    "optimizer": ("needs_convex", "uses_loss"),
    "reranker": ("has_objective",),
}


@grouped
def plugins(plugin: PluginFiles = None, as_json: Json = False) -> None:
    """List losses, optimizers and rerankers: their claims, settings with defaults, and purpose.

    Use a name as --loss NAME, --optimizer NAME or --reranker NAME, and a setting as
    --set loss.SETTING=VALUE.
    """
    from owpc_ltr.host import registry as registries

    registry = registries.load(plugin or [])
    rows = [_describe(found) for found in registry.all()]
    failures = [vars(failure) for failure in registry.failures]
    if as_json:
        print_json({"plugins": rows, "failures": failures})
        return
    print_table(
        ["KIND", "NAME", "CLAIMS", "SETTINGS", "WHAT IT IS"],
        [
            (
                row["kind"],
                row["name"],
                ", ".join(row["claims"]),
                " ".join(row["settings"]),
                row["summary"],
            )
            for row in rows
        ],
    )
    for failure in registry.failures:
        warn(f"plugin '{failure.plugin}' ({failure.source}) failed to load: {failure.reason}")


def _describe(found: Any) -> dict[str, Any]:
    from owpc_ltr.host.settings import describe_settings

    default = found.cls()
    return {
        "kind": found.kind,
        "name": found.name,
        "claims": [claim for claim in _CLAIMS[found.kind] if getattr(default, claim)],
        "settings": describe_settings(found.cls),
        "summary": (inspect.getdoc(found.cls) or "").partition("\n")[0],
        "source": found.source,
    }
