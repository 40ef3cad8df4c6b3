"""Plugins: what is installed, what it claims, and whether the claims hold."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from owpc_ltr.host.settings import configure, describe_settings, named_grids, named_settings

if TYPE_CHECKING:
    from owpc_ltr.host.registry import Plugin, Registry
    from owpc_ltr.plugin_checks import Checked

__all__ = ["CLAIMS", "check", "describe", "measure_losses", "named_grids", "named_settings",
           "offered", "plugins"]  # fmt: skip

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


def offered(asked: str, files: Sequence[Path | str] = ()) -> tuple[list[Plugin], Registry]:
    """The plugins that a file (`FILE.py`) offers, or those of a name, and the registry of them all.

    Raises UsageError for a name that no plugin has, PluginError for a file that breaks.
    """
    from owpc_ltr.errors import UsageError

    if not asked.endswith(".py"):
        registry = plugins(files)
        named = [found for found in registry.all() if found.name == asked]
        if not named:
            raise UsageError(f"no plugin is named '{asked}'; see: owpc-ltr plugins")
        return named, registry
    path = Path(asked)
    registry = plugins([path, *(file for file in files if Path(file) != path)])
    return [found for found in registry.all() if found.source == str(path)], registry


def check(
    asked: str,
    settings: Mapping[str, Any] | None = None,
    *,
    seed: int = 0,
    files: Sequence[Path | str] = (),
) -> Iterator[Checked]:
    """What each contract of a file's or a name's plugins found, as it is found.

    `settings` go by kind and name (`loss.generator`), and are for plugins of this kind. See
    `owpc_ltr.plugin_checks.check_plugin`.
    """
    from owpc_ltr.plugin_checks import check_plugin

    found, registry = offered(asked, files)
    given = _by_kind(settings or {}, [plugin.kind for plugin in found])
    for plugin in found:
        yield from check_plugin(plugin, registry, given.get(plugin.kind), seed)


def measure_losses(
    asked: str,
    settings: Mapping[str, Any] | None = None,
    *,
    seed: int = 0,
    files: Sequence[Path | str] = (),
) -> list[dict[str, Any]]:
    """Burges's figures of each loss of a file or a name: whether a cost exists, and is convex.

    One that breaks while it is measured is left out; `check` says how it does.
    """
    from owpc_ltr.plugin_checks import describe_loss

    found, _ = offered(asked, files)
    given = _by_kind(settings or {}, [plugin.kind for plugin in found]).get("loss", {})
    reports = []
    for plugin in found:
        if plugin.kind == "loss":
            try:
                reports.append(describe_loss(configure(plugin.cls, given), seed).as_dict())
            except Exception:  # noqa: BLE001, S112 - a stranger's code: `check` says how it breaks
                continue
    return reports


def _by_kind(settings: Mapping[str, Any], kinds: Sequence[str]) -> dict[str, dict[str, Any]]:
    from owpc_ltr.errors import UsageError

    given: dict[str, dict[str, Any]] = {}
    for full, value in settings.items():
        kind, _, name = full.partition(".")
        if kind not in kinds:
            raise UsageError(
                f"'{full}' is a setting of no plugin that is checked: these are of the kind "
                f"{', '.join(dict.fromkeys(kinds))}"
            )
        given.setdefault(kind, {})[name] = value
    return given
