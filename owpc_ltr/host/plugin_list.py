"""`plugins`: what is installed, what it claims, and its settings."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from owpc_ltr.data.blocks import Block, BlockResult, Table
from owpc_ltr.errors import UsageError, give_warnings
from owpc_ltr.host.commands import Plugins
from owpc_ltr.signatures import Argument, Help, job
from owpc_ltr.text import shortened

if TYPE_CHECKING:
    from owpc_ltr.host.registry import Failure, Plugin

_CHOSEN = (("optimizer", "C"), ("reranker", "penalty"))
"""Settings that training chooses where they are left out."""

_CLAIMS = (
    *("convex", "conservative", "smooth", "needs_convex", "uses_loss", "has_objective"),
    "higher_is_better",
)


@dataclass(frozen=True, repr=False)
class PluginDescription(BlockResult):
    """A plugin in words; `settings` are written NAME=DEFAULT.

    `choices` has the values of settings that are one of a list, `chosen` the settings that
    validation queries choose where they are left out, `variants` other names of a metric with other
    options, `meaning` what the settings mean.
    """

    kind: str
    name: str
    claims: list[str]
    settings: list[str]
    choices: dict[str, list[Any]]
    chosen: list[str]
    variants: list[str]
    summary: str
    formula: str
    meaning: str
    source: str

    @classmethod
    def of(cls, plugin: Plugin) -> PluginDescription:
        """The description of a plugin of the registry."""
        from owpc_ltr.host.settings import choices_of, describe_settings

        default = plugin.cls()
        formula = inspect.getdoc(plugin.cls) or ""
        module = inspect.getdoc(inspect.getmodule(plugin.cls)) or formula
        return cls(
            kind=plugin.kind,
            name=plugin.name,
            claims=[claim for claim in _CLAIMS if getattr(default, claim, False)],
            settings=describe_settings(plugin.cls),
            choices={name: list(values) for name, values in choices_of(default.__class__).items()},
            chosen=[
                name for kind, name in _CHOSEN if kind == plugin.kind and hasattr(default, name)
            ],
            variants=list(plugin.spellings[1:]),
            summary=module.partition("\n")[0],
            formula=formula.partition("\n")[0],
            meaning=formula.partition("\n")[2].strip(),
            source=plugin.source,
        )

    def _blocks(self) -> Iterator[Block]:
        """What it is, its settings, and what they mean."""
        yield from (f"{self.kind} {self.name}, of {self.source}: {self.summary}", self.formula)
        if self.claims:
            yield f"claims: {', '.join(self.claims)}"
        if self.variants:
            yield f"also: {', '.join(self.variants)}"
        yield Table(["SETTING", "DEFAULT", "VALUES"], list(self._rows()))
        if self.meaning:
            yield from ("", *self.meaning.splitlines())

    def _rows(self) -> Iterator[tuple[str, str, str]]:
        """Each setting, its default, and its values where they are a list."""
        for text in self.settings:
            name, _, default = text.partition("=")
            if name in self.chosen:
                yield name, "chosen", "by validation queries, unless it is set"
            else:
                yield name, default, ", ".join(map(str, self.choices.get(name, ())))


@dataclass(frozen=True, repr=False)
class InstalledPlugins(BlockResult):
    """The plugins that are installed, or those of one name, and those that fail to load."""

    plugins: tuple[PluginDescription, ...]
    failures: tuple[Failure, ...] = ()
    name: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """The descriptions as JSON."""
        content = {"plugins": [asdict(plugin) for plugin in self.plugins]}
        if self.name is None:
            content["failures"] = [asdict(failure) for failure in self.failures]
        return content

    def __repr__(self) -> str:
        if self.name is not None:
            return super().__repr__()
        names: dict[str, list[str]] = {}
        for plugin in self.plugins:
            names.setdefault(plugin.kind, []).extend([plugin.name, *plugin.variants])
        lines = [f"{kind}: {', '.join(of_kind)}" for kind, of_kind in names.items()]
        return shortened("\n".join([*lines, *(f"failed: {failure}" for failure in self.failures)]))

    def _blocks(self) -> Iterator[Block]:
        if self.name is not None:
            for plugin in self.plugins:
                yield from plugin.blocks
            return
        rows = [
            (plugin.kind, ", ".join([plugin.name, *plugin.variants]), plugin.summary)
            for plugin in self.plugins
        ]
        yield Table(["KIND", "NAME", "WHAT IT IS"], rows)


@job
def plugins(
    name: Annotated[
        str | None, Help("One plugin, to be shown with its settings."), Argument.NAME
    ] = None,
    *,
    plugins: Plugins = (),
) -> InstalledPlugins:
    """List the installed plugins, or the settings of one.

    Use a name as `train(loss=NAME, settings={"loss.SETTING": VALUE})`; the same for optimizers and
    metrics.

    Raises PluginError for a file that breaks, UsageError for a name that no plugin has.
    """
    from owpc_ltr.host.registry import load

    registry = load(map(Path, plugins))
    installed = tuple(map(PluginDescription.of, registry.all()))
    if name is not None:
        named = tuple(plugin for plugin in installed if name in {plugin.name, *plugin.variants})
        if not named:
            meant = registry.meant(name, [plugin.name for plugin in installed])
            raise UsageError(f"no plugin is named '{name}'{meant}; see `plugins()`")
        return InstalledPlugins(named, name=name)
    give_warnings(map(str, registry.failures))
    return InstalledPlugins(installed, registry.failures)
