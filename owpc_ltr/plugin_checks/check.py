"""The contract of whatever kind a plugin is: what held and what broke, settings by settings."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal, get_args, get_origin, get_type_hints

from owpc_ltr.errors import OwpcLtrError
from owpc_ltr.host.registry import Plugin, Registry
from owpc_ltr.host.settings import configure, values_of
from owpc_ltr.metrics import Metric
from owpc_ltr.plugin_checks.click_models import check_click_model
from owpc_ltr.plugin_checks.exports import check_export
from owpc_ltr.plugin_checks.judgment_readers import check_example, check_judgment_reader
from owpc_ltr.plugin_checks.losses import check_loss
from owpc_ltr.plugin_checks.metrics import check_metric
from owpc_ltr.plugin_checks.optimizers import check_optimizer
from owpc_ltr.plugin_checks.rerankers import check_reranker

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
    for loss in variants(cls, settings):
        yield _settings_of(loss), lambda loss=loss: check_loss(loss, seed)  # type: ignore[misc]


def _optimizers(cls: type[Any], registry: Registry, settings: Settings | None, seed: int) -> Checks:
    optimizer = configure(cls, settings or {})
    for loss in _all_losses(registry):
        if loss.convex or not optimizer.needs_convex:
            yield f"loss {loss.name}", lambda loss=loss: check_optimizer(optimizer, loss, seed)  # type: ignore[misc]


def _rerankers(cls: type[Any], registry: Registry, settings: Settings | None, seed: int) -> Checks:
    reranker = configure(cls, settings or {})
    for loss in _all_losses(registry):
        if loss.conservative:
            yield f"loss {loss.name}", lambda loss=loss: check_reranker(reranker, loss, seed)  # type: ignore[misc]


def _metrics(cls: type[Any], _registry: Registry, settings: Settings | None, seed: int) -> Checks:
    metric: Metric
    for metric in _metric_variants(cls, settings):
        yield str(metric), lambda metric=metric: check_metric(metric, seed)  # type: ignore[misc]


def _readers(cls: type[Any], registry: Registry, settings: Settings | None, _seed: int) -> Checks:
    reader = configure(cls, settings or {})
    write = getattr(reader, "write", None)
    if write is None:
        yield "its example", lambda: check_example(reader, registry)
    else:
        yield "files of its writer", lambda: check_judgment_reader(reader, write, registry)


def _targets(cls: type[Any], _registry: Registry, settings: Settings | None, seed: int) -> Checks:
    for target in variants(cls, settings):
        yield _settings_of(target), lambda target=target: check_export(target, seed)  # type: ignore[misc]


def _click_models(
    cls: type[Any], _registry: Registry, settings: Settings | None, seed: int
) -> Checks:
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
