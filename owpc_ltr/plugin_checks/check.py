"""`check`: the contract of a plugin's kind, settings by settings: what held and what broke."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args, get_origin, get_type_hints

from owpc_ltr.errors import OwpcLtrError, Refused, UsageError
from owpc_ltr.host.settings import configure, named_settings, values_of
from owpc_ltr.signatures import Help, Plugins, Progress, Seed, job, silent

if TYPE_CHECKING:
    from owpc_ltr.host.registry import Plugin, Registry

Settings = Mapping[str, Any]
_DEPTH = 3


@dataclasses.dataclass(frozen=True)
class Checked:
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
        first = (
            f"{'holds' if self.holds else 'BREAKS':7} {self.kind} {self.name}, with {self.given}"
        )
        told = [self.fault, *self.skipped] if self.fault else self.skipped
        return "\n".join([first, *(f"        {sentence}" for sentence in told)])


@dataclasses.dataclass(frozen=True)
class CheckReport:
    """All contracts that were run, and Burges's figures of each loss (see `LossReport`)."""

    checks: tuple[Checked, ...]
    losses: tuple[dict[str, Any], ...] = ()

    @property
    def broken(self) -> list[Checked]:
        """The contracts that do not hold."""
        return [one for one in self.checks if not one.holds]

    @property
    def refusal(self) -> Refused | None:
        """The error with which the command ends, where a promise is broken."""
        broken, made = self.broken, len(self.checks)
        if not broken:
            return None
        return Refused(f"{len(broken)} of {made} checks broke; the first: {broken[0].fault}")

    def as_dict(self) -> dict[str, Any]:
        """The report as JSON."""
        checks = [{**dataclasses.asdict(one), "holds": one.holds} for one in self.checks]
        return {"checks": checks, "losses": list(self.losses), "holds": not self.broken}

    def __str__(self) -> str:
        lines = [str(one) for one in self.checks]
        lines += [
            f"{key.replace('_', ' '):22}{value}"
            for report in self.losses
            for key, value in report.items()
        ]
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
    """Test whether plugins keep the promises of their kind.

    Every plugin of the file or of the name is tested: a loss with each choice of its settings, an
    optimizer and a reranker with each loss that suits it, a metric, a judgment reader, an export
    target. Of a loss it is also measured whether a cost stands behind its gradient (Burges).

    Exit code 5 if a promise is broken.

    Raises UsageError for a name that no plugin has, PluginError for a file that breaks.
    """
    found, registry = _offered(str(what), plugins)
    given = _by_kind(settings or {}, [plugin.kind for plugin in found])
    checks = []
    for plugin in found:
        for one in check_plugin(plugin, registry, given.get(plugin.kind), seed):
            checks.append(one)
            progress(f"{one.kind} {one.name}: {one.given}", None)
    losses = [plugin for plugin in found if plugin.kind == "loss"]
    return CheckReport(tuple(checks), tuple(_measured(losses, given.get("loss", {}), seed)))


def _offered(asked: str, files: Sequence[Path | str]) -> tuple[list[Plugin], Registry]:
    """The plugins that a file (`FILE.py`) offers, or those of a name; and the registry."""
    from owpc_ltr.host.registry import load

    if not asked.endswith(".py"):
        registry = load(map(Path, files))
        named = [found for found in registry.all() if found.name == asked]
        if not named:
            raise UsageError(f"no plugin is named '{asked}'; see: owpc-ltr plugins")
        return named, registry
    path = Path(asked)
    registry = load([path, *(Path(file) for file in files if Path(file) != path)])
    return [found for found in registry.all() if found.source == str(path)], registry


def _by_kind(settings: Settings, kinds: Sequence[str]) -> dict[str, dict[str, Any]]:
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


def _measured(losses: Sequence[Plugin], settings: Settings, seed: int) -> Iterator[dict[str, Any]]:
    """Burges's figures: whether a cost exists, and is convex."""
    from owpc_ltr.plugin_checks.losses import describe_loss

    for plugin in losses:
        try:
            yield describe_loss(configure(plugin.cls, settings), seed).as_dict()
        except Exception:  # noqa: BLE001, S112 - third-party code: its check says how it breaks
            continue


def check_plugin(
    plugin: Plugin, registry: Registry, settings: Settings | None = None, seed: int = 0
) -> Iterator[Checked]:
    """Run the contract of a plugin's kind, and yield what was found as it is found.

    With its defaults and each choice of a setting that has a list of them; with `settings`, with
    these alone. An optimizer and a reranker are run with every loss of the registry that suits
    them. A judgment reader is checked on files where it has a method `write`, which makes them,
    else on its own example. Raises UsageError for settings that it does not have.
    """
    for given, check in _CHECKS[plugin.kind](plugin.cls, registry, settings, seed):
        yield _run(plugin, given, check)


Check = Callable[[], tuple[str, ...] | list[str] | None]
Checks = Iterator[tuple[str, Check]]


def _run(plugin: Plugin, given: str, check: Check) -> Checked:
    about = (plugin.kind, plugin.name, plugin.source, given)
    try:
        return Checked(*about, skipped=tuple(check() or ()))
    except (AssertionError, OwpcLtrError) as error:
        return Checked(*about, fault=_in_one_line(error))
    except Exception as error:  # noqa: BLE001 - a stranger's code: what it raises is what was found
        return Checked(*about, fault=f"{type(error).__name__}: {_in_one_line(error)}")


def _losses(cls: type[Any], _registry: Registry, settings: Settings | None, seed: int) -> Checks:
    from owpc_ltr.plugin_checks.losses import check_loss

    for loss in variants(cls, settings):
        yield _settings_of(loss), lambda loss=loss: check_loss(loss, seed)  # type: ignore[misc]


def _optimizers(cls: type[Any], registry: Registry, settings: Settings | None, seed: int) -> Checks:
    from owpc_ltr.plugin_checks.optimizers import check_optimizer

    optimizer = configure(cls, settings or {})
    for loss in _all_losses(registry):
        if loss.convex or not optimizer.needs_convex:
            yield f"loss {loss.name}", lambda loss=loss: check_optimizer(optimizer, loss, seed)  # type: ignore[misc]


def _rerankers(cls: type[Any], registry: Registry, settings: Settings | None, seed: int) -> Checks:
    from owpc_ltr.plugin_checks.rerankers import check_reranker

    reranker = configure(cls, settings or {})
    for loss in _all_losses(registry):
        if loss.conservative:
            yield f"loss {loss.name}", lambda loss=loss: check_reranker(reranker, loss, seed)  # type: ignore[misc]


def _metrics(cls: type[Any], _registry: Registry, settings: Settings | None, seed: int) -> Checks:
    from owpc_ltr.plugin_checks.metrics import check_metric

    for metric in _metric_variants(cls, settings):
        yield str(metric), lambda metric=metric: check_metric(metric, seed)  # type: ignore[misc]


def _readers(cls: type[Any], registry: Registry, settings: Settings | None, _seed: int) -> Checks:
    from owpc_ltr.plugin_checks.judgment_readers import check_example, check_judgment_reader

    reader = configure(cls, settings or {})
    write = getattr(reader, "write", None)
    if write is None:
        yield "its example", lambda: check_example(reader, registry)
    else:
        yield "files of its writer", lambda: check_judgment_reader(reader, write, registry)


def _targets(cls: type[Any], _registry: Registry, settings: Settings | None, seed: int) -> Checks:
    from owpc_ltr.plugin_checks.exports import check_export

    for target in variants(cls, settings):
        yield _settings_of(target), lambda target=target: check_export(target, seed)  # type: ignore[misc]


def _click_models(
    cls: type[Any], _registry: Registry, settings: Settings | None, seed: int
) -> Checks:
    from owpc_ltr.plugin_checks.click_models import check_click_model

    for model in variants(cls, settings):
        yield _settings_of(model), lambda model=model: check_click_model(model, seed)  # type: ignore[misc]


_CHECKS: Mapping[str, Callable[[type[Any], Registry, Settings | None, int], Checks]] = {
    "loss": _losses,
    "optimizer": _optimizers,
    "reranker": _rerankers,
    "metric": _metrics,
    "judgment-reader": _readers,
    "export-target": _targets,
    "click-model": _click_models,
}


def variants(cls: type[Any], settings: Settings | None = None) -> list[Any]:
    """The defaults, and each choice of each setting that has a list; or one with `settings`."""
    if settings:
        return [configure(cls, settings)]
    return [cls()] + [
        cls(**{name: choice})
        for name, others in _choices(cls).items()
        for choice in others
        if choice != getattr(cls, name)
    ]


def _metric_variants(cls: type[Any], settings: Settings | None) -> list[Any]:
    """As `variants`, where ranks below the third do not count if the metric has a cutoff."""
    if settings:
        return [configure(cls, settings)]
    cut = {} if cls.cutoff_use == "none" else {"cutoff": _DEPTH}
    names = [name for name in _choices(cls) if cut or name != "short"]
    chosen = [cls(**cut, **{name: choice}) for name in names for choice in _choices(cls)[name]]
    return list(dict.fromkeys([cls(), *chosen]))


def _choices(cls: type[Any]) -> dict[str, tuple[Any, ...]]:
    hints = get_type_hints(cls)
    return {
        field.name: get_args(hints[field.name])
        for field in dataclasses.fields(cls)
        if get_origin(hints[field.name]) is Literal
    }


def _all_losses(registry: Registry) -> list[Any]:
    return [plugin.cls() for plugin in registry.all("loss")]


def _settings_of(plugin: Any) -> str:
    shown = " ".join(f"{name}={value}" for name, value in values_of(plugin).items())
    return shown or "no settings"


def _in_one_line(error: BaseException) -> str:
    return " ".join(str(error).split())
