"""Code that came with the package: compiled when its wheel was built, for a named baseline.

Nothing here is ever stale. A file's name is a digest of all that its code depends on: the function
with what it calls, its arguments, Python, numba, LLVM, and the baseline. What does not fit has
another name, and is compiled as ever.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
from numba.core.serialize import dumps

from owpc_ltr.compiling.baseline import baselines_of
from owpc_ltr.compiling.shelf import Shelf
from owpc_ltr.compiling.work import WORK

_DIGEST = hashlib.sha256().digest_size


def shipped_folder() -> Path | None:
    """Where the code is that came with the package; OWPC_LTR_SHIPPED names another, or none."""
    named = os.environ.get("OWPC_LTR_SHIPPED")
    if named is None:
        return Path(__file__).with_name("shipped_code")
    return Path(named) if named else None


class ShippedShelf(Shelf):
    """The shipped code of one function, in a folder with that of all others."""

    def __init__(self, function: Callable[..., Any], folder: Path, stamp: str) -> None:
        super().__init__(function, folder, stamp)
        name = f"{function.__module__}.{function.__qualname__}"
        self._cache_file = _Files(folder, name, stamp)
        rebuilt = self._impl.reduce
        # Types in words, with the paths of sources, are for numba's own debugging.
        self._impl.reduce = lambda made: rebuilt(made._replace(type_annotation=""))

    def _index_key(self, sig: Any, codegen: Any) -> tuple[str, list[str]]:
        """Arguments and platform as text, and the baselines that will do."""
        triple, cpu, features = codegen.magic_tuple()
        arguments = repr(sig)
        # The type of a function is told by its address, which is another one in each process.
        baselines = [] if " at 0x" in arguments else baselines_of(triple, cpu, features)
        return f"{triple} {arguments}", baselines


class _Files:
    """One file for each kind of arguments and baseline: a digest of the rest, and the rest."""

    def __init__(self, folder: Path, name: str, stamp: str) -> None:
        import llvmlite

        self._folder, self._name = folder, name
        python = f"{sys.implementation.cache_tag}{getattr(sys, 'abiflags', '')}"
        self._code = f"{name} {stamp} {python} {numba.__version__} {llvmlite.__version__}"

    def load(self, key: tuple[str, list[str]]) -> Any:
        """What was compiled; None where it is missing or damaged."""
        arguments, baselines = key
        for baseline in baselines:
            try:
                content = self._path(arguments, baseline).read_bytes()
            except OSError:
                continue
            if hashlib.sha256(content[_DIGEST:]).digest() == content[:_DIGEST]:
                WORK.shipped += 1
                # numba's own form of compiled code, which only numba writes and reads: like the
                # code itself it is a part of this package, and never a file of a user's.
                return pickle.loads(content[_DIGEST:])  # noqa: S301
        return None

    def save(self, key: tuple[str, list[str]], made: Any) -> None:
        """Write what was compiled while a wheel is built."""
        arguments, baselines = key
        if not baselines:
            raise OSError("this is no baseline, or the code is of one process")
        content = dumps(made)
        path = self._path(arguments, baselines[0])
        path.write_bytes(hashlib.sha256(content).digest() + content)

    def flush(self) -> None:
        """Nothing: what was shipped stays."""

    def _path(self, arguments: str, baseline: str) -> Path:
        digest = hashlib.sha256(f"{self._code} {arguments} {baseline}".encode()).hexdigest()
        return self._folder / f"{self._name.translate(_PLAIN)}-{digest[:32]}.code"


_PLAIN = str.maketrans(dict.fromkeys("<>", ""))
"""What no file name on Windows can have."""
