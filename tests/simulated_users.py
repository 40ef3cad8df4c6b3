"""Users whose behaviour is known: the module of `benchmarks/` that simulates them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.benchmark_scripts import benchmark_script

if TYPE_CHECKING:
    import simulated_users as simulate
else:
    simulate = benchmark_script("simulated_users")

__all__ = ["simulate"]
