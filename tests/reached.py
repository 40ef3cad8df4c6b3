"""What a warm-up leaves to be compiled on first use: printed as JSON, by a process of its own."""

from __future__ import annotations

import importlib
import json
import pkgutil
from collections.abc import Iterator
from types import ModuleType
from typing import Any

from owpc_ltr.compiling import Compiled, named_by
from owpc_ltr.kernels.kernel import Kernel
from owpc_ltr.warm_up import warm_up

PACKAGES = ("owpc_ltr", *(f"owpc_ltr_{kind}" for kind in ("losses", "optimizers", "rerankers")))


def main() -> None:
    made = [one.name for one in warm_up().made]
    written = {name: one for package in PACKAGES for name, one in _written(package)}
    reached: set[str] = set()
    for name, one in written.items():
        if "_outer" in one.__dict__ or "_compiled" in one.__dict__:
            _reach(name, one, reached)
    print(json.dumps({"made": made, "left": sorted(set(written) - reached)}))


def _written(package: str) -> Iterator[tuple[str, Any]]:
    """The compiled functions and kernels of every module."""
    root = importlib.import_module(package)
    for found in pkgutil.walk_packages(root.__path__, f"{package}."):
        if found.name.endswith("__main__"):
            continue
        module: ModuleType = importlib.import_module(found.name)
        for one in vars(module).values():
            if isinstance(one, Compiled | Kernel):
                yield _name(one), one


def _name(one: Any) -> str:
    return f"{one.py_func.__module__}.{one.py_func.__qualname__}"


def _reach(name: str, one: Any, reached: set[str]) -> None:
    """A function that was called, and those that its code has within itself."""
    if name not in reached:
        reached.add(name)
        for _, value in named_by(one.py_func):
            if isinstance(value, Compiled | Kernel):
                _reach(_name(value), value, reached)


if __name__ == "__main__":
    main()
