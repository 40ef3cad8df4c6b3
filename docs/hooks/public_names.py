"""The public names of `owpc_ltr` by topic: where a page has `<!-- public names: data -->`.

A name belongs to the topic of the module that it is from. One without a topic stops the build, as
does a topic that has no place on the page: nothing public is left out.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

from mkdocs.exceptions import PluginError

PACKAGE = Path(__file__).parents[2] / "owpc_ltr"
TOPICS = {
    "estimators": ("owpc_ltr.training.estimators",),
    "data": (
        *("owpc_ltr.evaluation.active_sampling", "owpc_ltr.host.judgment_lists", "owpc_ltr.data"),
        *("owpc_ltr.inspection", "owpc_ltr_clicks", "owpc_ltr_dask"),
    ),
    "training": (
        "owpc_ltr.training",
        *("owpc_ltr.models", "owpc_ltr.formats"),
    ),
    "evaluation": (
        *("owpc_ltr.evaluation", "owpc_ltr.explanations"),
        *("owpc_ltr.metrics", "owpc_ltr_papers", "owpc_ltr_report"),
    ),
    "cluster": (
        *("owpc_ltr.engine.cluster", "owpc_ltr.engine.deployment.uploaded_models"),
        *("owpc_ltr.features", "owpc_ltr.engine"),
    ),
    "plugins": ("owpc_ltr.host", "owpc_ltr.protocols", "owpc_ltr.arrays"),
    "errors": ("owpc_ltr.errors",),
    "checks": ("owpc_ltr.plugin_checks",),
}
"""Each topic, and the modules whose names belong to it."""

_PLACE = re.compile(r"<!-- public names: ([a-z]+) -->")


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Fill the places of a page that has them."""
    places = _PLACE.findall(markdown)
    if not places:
        return markdown
    names = by_topic()
    left_out = [topic for topic, found in names.items() if found and topic not in places]
    if left_out:
        raise PluginError(f"public names without a place on the page: {', '.join(left_out)}")
    return _PLACE.sub(lambda place: "\n\n".join(f"::: {n}" for n in names[place[1]]), markdown)


def by_topic() -> dict[str, list[str]]:
    """The full public names of each topic, in the order in which packages list them."""
    names: dict[str, list[str]] = {topic: [] for topic in TOPICS}
    for package in ("owpc_ltr", "owpc_ltr.plugin_checks"):
        for name, module in _exports(package):
            names[_topic(name, module)].append(f"{package}.{name}")
    return names


def _topic(name: str, module: str) -> str:
    for topic, prefixes in TOPICS.items():
        if any(module == prefix or module.startswith(f"{prefix}.") for prefix in prefixes):
            return topic
    raise PluginError(f"the public name {name} of {module} has no topic in {Path(__file__).name}")


def _exports(package: str) -> list[tuple[str, str]]:
    """What a package offers in `__all__`, and the modules that it is imported from."""
    folder = PACKAGE.parent.joinpath(*package.split("."))
    tree = ast.parse((folder / "__init__.py").read_text())
    homes = {
        alias.asname or alias.name: node.module
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module
        for alias in node.names
    }
    offered: list[str] = []
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            offered = ast.literal_eval(node.value)
    return [(name, homes[name]) for name in offered if not name.startswith("__")]
