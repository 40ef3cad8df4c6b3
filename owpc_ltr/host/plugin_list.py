"""`plugins`: what is installed, what it claims, and its settings."""

from __future__ import annotations

import inspect
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from owpc_ltr.errors import UsageError, give_warnings
from owpc_ltr.plain_text import ShortRepr, shortened, text_table
from owpc_ltr.signatures import Help, Plugins, job

if TYPE_CHECKING:
    from owpc_ltr.host.registry import Failure, Plugin

_CLAIMS = (
    *("convex", "conservative", "smooth", "needs_convex", "uses_loss", "has_objective"),
    "higher_is_better",
)


@dataclass(frozen=True, repr=False)
class PluginDescription(ShortRepr):
    """A plugin in words; `settings` are written NAME=DEFAULT."""

    kind: str
    name: str
    claims: list[str]
    settings: list[str]
    summary: str
    formula: str
    source: str

    @classmethod
    def of(cls, plugin: Plugin) -> PluginDescription:
        """The description of a plugin of the registry."""
        from owpc_ltr.host.settings import describe_settings

        default = plugin.cls()
        formula = inspect.getdoc(plugin.cls) or ""
        module = inspect.getdoc(inspect.getmodule(plugin.cls)) or formula
        return cls(
            kind=plugin.kind,
            name=plugin.name,
            claims=[claim for claim in _CLAIMS if getattr(default, claim, False)],
            settings=describe_settings(plugin.cls),
            summary=module.partition("\n")[0],
            formula=formula.partition("\n")[0],
            source=plugin.source,
        )

    def __str__(self) -> str:
        claims = [f"claims: {', '.join(self.claims)}"] if self.claims else []
        settings = [tuple(text.split("=", 1)) for text in self.settings]
        first = f"{self.kind} {self.name}, of {self.source}: {self.summary}"
        table = text_table(["SETTING", "DEFAULT"], settings)
        return "\n".join([first, self.formula, *claims, table])


@dataclass(frozen=True, repr=False)
class InstalledPlugins(ShortRepr):
    """The plugins that are installed, or those of one name, and those that fail to load."""

    plugins: tuple[PluginDescription, ...]
    failures: tuple[Failure, ...] = ()
    name: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """The descriptions as JSON."""
        told: dict[str, Any] = {"plugins": [asdict(one) for one in self.plugins]}
        return told if self.name else told | {"failures": [asdict(one) for one in self.failures]}

    def __str__(self) -> str:
        if self.name is not None:
            return "\n".join(map(str, self.plugins))
        return text_table(["KIND", "NAME", "WHAT IT IS"], self._rows())

    def __repr__(self) -> str:
        if self.name is not None:
            return super().__repr__()
        names: dict[str, list[str]] = {}
        for one in self.plugins:
            names.setdefault(one.kind, []).append(one.name)
        lines = [f"{kind}: {', '.join(of_kind)}" for kind, of_kind in names.items()]
        return shortened("\n".join([*lines, *(f"failed: {one}" for one in self.failures)]))

    def _repr_html_(self) -> str:
        from owpc_ltr.data import html

        failures = (html.line(str(failure)) for failure in self.failures)
        table = html.table(["kind", "name", "what it is"], self._rows())
        return html.block(f"{len(self.plugins)} plugins", table, *failures)

    def _rows(self) -> list[tuple[str, str, str]]:
        return [(one.kind, one.name, one.summary) for one in self.plugins]


@job
def plugins(
    name: Annotated[str | None, Help("One plugin, to be shown with its settings.")] = None,
    *,
    plugins: Plugins = (),
) -> InstalledPlugins:
    """List the installed plugins, or the settings of one.

    Use a name as --loss NAME, --optimizer NAME, --metric NAME …, and a setting as
    --set loss.SETTING=VALUE.

    Raises PluginError for a file that breaks, UsageError for a name that no plugin has.
    """
    from owpc_ltr.host.registry import load

    registry = load(map(Path, plugins))
    found = tuple(map(PluginDescription.of, registry.all()))
    if name is not None:
        named = tuple(one for one in found if one.name == name)
        if not named:
            raise UsageError(f"no plugin is named '{name}'; see: owpc-ltr plugins")
        return InstalledPlugins(named, name=name)
    give_warnings(map(str, registry.failures))
    return InstalledPlugins(found, registry.failures)
