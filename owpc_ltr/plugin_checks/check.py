"""`check`: the contract of a plugin's kind, settings by settings: what held and what broke."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

from owpc_ltr import plugin_checks
from owpc_ltr.errors import OwpcLtrError, Refused, UsageError
from owpc_ltr.host.commands import Plugins
from owpc_ltr.host.registry import Plugin, Registry, load, place_in_plugin
from owpc_ltr.host.settings import configure, named_settings, values_of
from owpc_ltr.signatures import Help, Progress, Seed, job, silent

Settings = Mapping[str, Any]
_DEPTH = 3


@dataclasses.dataclass(frozen=True)
class ContractResult:
    """One contract that was run: of which plugin, with what, and what was found.

    `fault` is the sentence of the promise that broke, empty where all hold; `skipped` has one for
    each promise that the plugin declares not to make, or that could not be looked at.
    """

    kind: str
    name: str
    source: str
    given: str
    fault: str = ""
    skipped: tuple[str, ...] = ()

    @property
    def holds(self) -> bool:
        """Whether every promise that was looked at is kept."""
        return not self.fault

    def __str__(self) -> str:
        verdict = "holds" if self.holds else "BREAKS"
        lines = [f"{verdict:7} {self.kind} {self.name}, with {self.given}", self.fault]
        return "\n        ".join(filter(None, (*lines, *self.skipped)))


@dataclasses.dataclass(frozen=True)
class CheckReport:
    """All contracts that were run."""

    checks: tuple[ContractResult, ...]

    @property
    def broken(self) -> list[ContractResult]:
        """The contracts that do not hold."""
        return [check for check in self.checks if not check.holds]

    @property
    def refusal(self) -> Refused | None:
        """The error with which the command ends, where a promise is broken."""
        broken, count = self.broken, len(self.checks)
        if not broken:
            return None
        return Refused(f"{len(broken)} of {count} checks broke; the first: {broken[0].fault}")

    def as_dict(self) -> dict[str, Any]:
        """The report as JSON."""
        checks = [{**dataclasses.asdict(check), "holds": check.holds} for check in self.checks]
        return {"checks": checks, "holds": not self.broken}

    def __str__(self) -> str:
        lines = [str(each) for each in self.checks]
        if not self.broken:
            lines.append(f"every promise holds; checks made: {len(self.checks)}")
        return "\n".join(lines)


@job
def check(
    what: Annotated[
        Path | str, Help("A plugin file, or an installed plugin.", cli=str, metavar="FILE.py|NAME")
    ],
    *,
    settings: Annotated[
        Settings | None,
        Help(
            "A setting, as loss.generator=top; default: every choice.",
            flag="--set",
            cli=list[str],
            parse=named_settings,
            metavar="NAME=VALUE",
        ),
    ] = None,
    seed: Seed = 0,
    plugins: Plugins = (),
    progress: Progress = silent,
) -> CheckReport:
    """Test whether plugins fulfil the contract of their kind.

    Tests every plugin of the file or name: a loss with each choice of its settings, an optimizer
    and a reranker with each loss that suits it, a metric, a judgment reader, an export target.

    Exit code 5 if a promise is broken.

    Raises UsageError for a name that no plugin has, PluginError for a file that breaks.
    """
    offered, registry = _offered(str(what), plugins)
    by_kind = _by_kind(settings or {}, [plugin.kind for plugin in offered])
    checks = []
    for plugin in offered:
        for checked in check_plugin(plugin, registry, by_kind.get(plugin.kind), seed):
            checks.append(checked)
            progress(f"{checked.kind} {checked.name}: {checked.given}", None)
    return CheckReport(tuple(checks))


def _offered(what: str, files: Sequence[Path | str]) -> tuple[list[Plugin], Registry]:
    """The plugins that a file (`FILE.py`) offers, or those of a name; and the registry."""
    if not what.endswith(".py"):
        registry = load(map(Path, files))
        named = [plugin for plugin in registry.all() if plugin.name == what]
        if not named:
            meant = registry.meant(what, [plugin.name for plugin in registry.all()])
            failed = "".join(
                f"; {failure}" for failure in registry.failures if failure.plugin == what
            )
            raise UsageError(f"no plugin is named '{what}'{meant}; see: owpc-ltr plugins{failed}")
        return named, registry
    path = Path(what)
    registry = load([path, *(Path(file) for file in files if Path(file) != path)])
    return [plugin for plugin in registry.all() if plugin.source == str(path)], registry


def _by_kind(settings: Settings, kinds: Sequence[str]) -> dict[str, dict[str, Any]]:
    by_kind: dict[str, dict[str, Any]] = {}
    for full, value in settings.items():
        kind, _, name = full.partition(".")
        if kind not in kinds:
            raise UsageError(
                f"'{full}' is a setting of no plugin that is checked: these are of the kind "
                f"{', '.join(dict.fromkeys(kinds))}"
            )
        by_kind.setdefault(kind, {})[name] = value
    return by_kind


def check_plugin(
    plugin: Plugin, registry: Registry, settings: Settings | None = None, seed: int = 0
) -> Iterator[ContractResult]:
    """Run the contract of a plugin's kind, and yield what was found as it is found.

    With its defaults and each choice of a setting that has a list of them; with `settings`, with
    these alone. An optimizer and a reranker are run with every loss of the registry that suits
    them. A judgment reader is checked on files where it has a method `write`, which makes them,
    else on its own example. Raises UsageError for settings that it does not have.
    """
    for setup, check in _contracts(plugin, registry, settings or {}, seed):
        about, skipped, fault = (plugin.kind, plugin.name, plugin.source, setup), (), ""
        try:
            skipped = tuple(check() or ())
        except (AssertionError, OwpcLtrError) as error:
            fault = " ".join(str(error).split())
        except Exception as error:  # noqa: BLE001 - third-party code: what it raises is the finding
            place = place_in_plugin(error)
            fault = " ".join(f"{place}{place and ': '}{type(error).__name__}: {error}".split())
        yield ContractResult(*about, fault, skipped)


def _contracts(
    plugin: Plugin, registry: Registry, settings: Settings, seed: int
) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Each check of a plugin, and what it is made with."""
    check = getattr(plugin_checks, f"check_{plugin.kind.removesuffix('-target').replace('-', '_')}")
    if plugin.kind == "judgment-reader":
        reader = configure(plugin.cls, settings)
        write = getattr(reader, "write", None)
        setup = "files of its writer" if write else "its example"
        yield setup, partial(check, reader, write, registry)
    elif plugin.kind in {"optimizer", "reranker"}:
        learner = configure(plugin.cls, settings)
        for loss in (offer.cls() for offer in registry.all("loss")):
            convex = plugin.kind == "optimizer" and (loss.convex or not learner.needs_convex)
            if convex or (plugin.kind == "reranker" and loss.conservative):
                yield f"loss {loss.name}", partial(check, learner, loss, seed)
    else:
        for variant in variants(plugin.cls, settings):
            values = " ".join(f"{name}={value}" for name, value in values_of(variant).items())
            setup = str(variant) if plugin.kind == "metric" else values or "no settings"
            yield setup, partial(check, variant, seed)


def variants(cls: type[Any], settings: Settings | None = None) -> list[Any]:
    """The defaults, and each choice of each setting that has a list; or one with `settings`.

    Of a metric that has a cutoff, ranks below the third do not count in the choices.
    """
    if settings:
        return [configure(cls, settings)]
    hints = get_type_hints(cls)
    metric = hasattr(cls, "cutoff_use")
    cut = {"cutoff": _DEPTH} if metric and cls.cutoff_use != "none" else {}
    chosen = [
        cls(**cut, **{field.name: choice})
        for field in dataclasses.fields(cls)
        if get_origin(hints[field.name]) is Literal and (cut or not metric or field.name != "short")
        for choice in get_args(hints[field.name])
    ]
    return list(dict.fromkeys([cls(), *chosen]))
