"""Named baselines: instructions that code in a wheel may use, and which hosts have them all."""

from __future__ import annotations

_V2 = "cmov cx16 cx8 fxsr popcnt sahf sse sse2 sse3 sse4.1 sse4.2 ssse3"
_V3 = f"{_V2} avx avx2 bmi bmi2 f16c fma lzcnt movbe xsave"

BASELINES: dict[str, dict[str, frozenset[str]]] = {
    "x86_64": {"x86-64-v3": frozenset(_V3.split())},
    # All that every 64-bit ARM has.
    "aarch64": {"generic": frozenset()},
    "arm64": {"generic": frozenset()},
}
"""Of each architecture, as LLVM names it: its baselines and their features, the best first."""


def baselines_of(triple: str, cpu: str, features: str) -> list[str]:
    """The baselines whose code runs where LLVM says so of a host, the best first.

    `features` are LLVM's, as `+avx2,-sse4a`. With none at all, only the CPU that is named counts:
    so it is while a wheel is built.
    """
    known = BASELINES.get(triple.partition("-")[0], {})
    if not features:
        return [cpu] if cpu in known else [name for name, needed in known.items() if not needed]
    given = {one[1:] for one in features.split(",") if one.startswith("+")}
    return [name for name, needed in known.items() if needed <= given]


def baseline_for(architecture: str) -> str:
    """The baseline that a wheel of an architecture is built for; empty where there is none."""
    names = {"amd64": "x86_64", "x86-64": "x86_64"}
    lower = architecture.lower()
    return next(iter(BASELINES.get(names.get(lower, lower), {})), "")
