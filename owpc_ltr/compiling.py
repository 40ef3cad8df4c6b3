"""Compiled code: written as Python functions, compiled by numba when they are first called.

    @compiled
    def total(values):
        ...

No module imports numba at its top, so that a command that computes nothing starts fast.
Where NumPy comes to the very same bits, small inputs (`SMALL`) are left to it.

numba keeps compiled code in a folder, as pickles: nobody but the user may be able to write there.
It compiles a function again when the function's own file changes. The folder's name has a digest of
all files that a compiled function may name, so that a change of any of them counts.
"""

from __future__ import annotations

import functools
import hashlib
import os
import pickle
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, overload

from owpc_ltr.errors import give_warning
from owpc_ltr.files.input import why_unsafe

SMALL = 1 << 21
"""Up to so many numbers compiled code is not worth it, where NumPy's result is the same: it takes
some 10 ns each, and the import of numba 0.4 s."""

before_compiling: list[Callable[[], None]] = []
"""Called before the process compiles its first function: the command line says so."""

_CACHE_FAULTS = (OSError, EOFError, pickle.UnpicklingError)
"""What a cache raises that is damaged or cannot be written. Compiled code itself opens no file."""
_ERRORS = {"error_model": "numpy"}
"""A division by zero gives inf or NaN: an exception would not leave what is called by address."""
_ROOT = Path(__file__).parent
_IMPORTED = time.time()
_MAKING = threading.Lock()
"""numba has one folder for all threads."""


class Compiled:
    """A function in numba's subset of Python: `numba.njit` of it, made when it is first called.

    Where another compiled function names it, it becomes a part of that function's code. It holds no
    lock of the interpreter while it runs.
    """

    def __init__(self, function: Callable[..., Any], options: dict[str, Any]) -> None:
        """Wrap `function`; `options` are numba's own. Nothing is imported or compiled yet."""
        functools.update_wrapper(self, function)
        self.py_func = function
        self.options = options

    def __call__(self, *arguments: Any) -> Any:
        """What the function returns; the first call for arguments of a type compiles it."""
        try:
            return self.outer(*arguments)
        except _CACHE_FAULTS as fault:
            self.outer = _cached(self.py_func, self._njit, fault)
            return self.outer(*arguments)

    @functools.cached_property
    def outer(self) -> Any:
        """What Python calls: compiled with all that it calls, as one, and cached."""
        return _cached(self.py_func, self._njit)

    @functools.cached_property
    def inner(self) -> Any:
        """What other compiled functions call: a part of their code, with no way in from Python."""
        return self._njit(no_cpython_wrapper=True)

    def _njit(self, **more: bool) -> Any:
        make = _numba().njit(nogil=True, no_cfunc_wrapper=True, **_ERRORS, **more, **self.options)
        return make(self.py_func)


@overload
def compiled(function: Callable[..., Any]) -> Compiled: ...


@overload
def compiled(**options: Any) -> Callable[[Callable[..., Any]], Compiled]: ...


def compiled(function: Callable[..., Any] | None = None, **options: Any) -> Any:
    """Make a function in numba's subset of Python a `Compiled` one (decorator).

    Options are those of `numba.njit`, as `@compiled(fastmath={"contract"})`.
    """
    if function is not None:
        return Compiled(function, {})
    return lambda written: Compiled(written, options)


def compiled_address(function: Callable[..., Any], signature: Any) -> Any:
    """What numba's `cfunc` makes of a function: its `address` is where the code lies."""

    def make(cache: bool) -> Any:
        return _numba().cfunc(signature, cache=cache, **_ERRORS)(function)

    try:
        return _cached(function, make)
    except _CACHE_FAULTS as fault:
        return _cached(function, make, fault)


@functools.cache
def _numba() -> Any:
    """numba, told what a `Compiled` is where another one names it."""
    _, why = private_cache()
    if why:
        give_warning(
            f"compiled code is not kept, and will be compiled again, for {why}: set "
            "NUMBA_CACHE_DIR to a folder that only you can write"
        )
    import numba
    from numba.core import event
    from numba.extending import typeof_impl

    class Announcing(event.Listener):  # type: ignore[misc]  # numba has no types
        def on_start(self, _: Any) -> None:
            while before_compiling:
                before_compiling.pop()()

        def on_end(self, _: Any) -> None:
            pass

    event.register("numba:compile", Announcing())
    typeof_impl.register(Compiled)(lambda function, _: numba.typeof(function.inner))
    return numba


def _cached(
    function: Callable[..., Any], make: Callable[..., Any], fault: Exception | None = None
) -> Any:
    """What `make` makes of a function, with a cache where there can be one.

    What was typed into a shell has no file whose changes would be noticed. After a `fault` of the
    cache, damaged files are removed; a full disk is left alone.
    """
    config = _numba().config
    has_file = Path(function.__code__.co_filename).is_file()
    if not has_file or isinstance(fault, OSError):
        return make(cache=False)
    folder = _folder_of(function)
    if fault is not None:
        for file in folder.rglob("*.nb?"):
            file.unlink(missing_ok=True)
    if not _can_write(folder):
        return make(cache=False)
    with _MAKING:
        before, config.CACHE_DIR = config.CACHE_DIR, str(folder)
        try:
            return make(cache=True)
        finally:
            config.CACHE_DIR = before


def _can_write(folder: Path) -> bool:
    """Whether numba can keep code there; where it cannot, it would choose a folder by itself."""
    try:
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


@functools.cache
def private_cache() -> tuple[Path, str]:
    """Where compiled code is kept: NUMBA_CACHE_DIR, else the user's cache.

    A folder that is missing is made, for the user alone. Where somebody else can write, or the user
    cannot, it is a folder that the process removes at its end, and the second value says why.
    """
    from platformdirs import user_cache_path

    named = os.environ.get("NUMBA_CACHE_DIR")
    folder = Path(named).absolute() if named else user_cache_path("owpc-ltr") / "compiled"
    try:
        if not folder.is_dir():
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        why = why_unsafe(folder)
        if not why and not os.access(folder, os.W_OK):
            why = f"'{folder}' cannot be written"
    except OSError as error:
        why = f"'{folder}' cannot be made ({(error.strerror or 'it failed').lower()})"
    return (Path(_temporary_folder().name) if why else folder), why


def keep_privately() -> None:
    """From now on, what others tell numba to cache is kept where nobody else can write, too."""
    folder = str(private_cache()[0])
    # numba reads the variable when it is imported.
    os.environ["NUMBA_CACHE_DIR"] = folder
    if "numba" in sys.modules:
        import numba

        numba.config.CACHE_DIR = folder


@functools.cache
def _temporary_folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="owpc-ltr-")


def _folder_of(function: Callable[..., Any]) -> Path:
    """The folder for the code of a function's package; of a module of none, its own folder's."""
    name = function.__module__.partition(".")[0]
    package = getattr(sys.modules.get(name), "__path__", None)
    beside = str(Path(function.__code__.co_filename).parent)
    return _folder(name, (beside,) if package is None else tuple(package), package is not None)


@functools.cache
def _folder(name: str, places: tuple[str, ...], is_package: bool) -> Path:
    """A folder named by the sources: all of this package, and those of ours that are compiled."""
    files = [*_our_kernels()]
    if name != _ROOT.name:
        # Editors leave links to nowhere, whose names begin with a dot.
        pattern = "**/[!.]*.py" if is_package else "[!.]*.py"
        files += [file for place in places for file in Path(place).glob(pattern)]
    digest = hashlib.sha256()
    for file in sorted(files):
        if _IMPORTED < file.stat().st_mtime <= time.time():
            # What this process has imported may be older than the file.
            return Path(_temporary_folder().name)
        digest.update(hashlib.sha256(file.read_bytes()).digest())
    package = f"{name}-{hashlib.sha256(repr(places).encode()).hexdigest()[:8]}"
    folder = private_cache()[0] / f"{package}-{digest.hexdigest()[:16]}"
    if not folder.is_dir():
        for earlier in folder.parent.glob(f"{package}-*"):
            shutil.rmtree(earlier, ignore_errors=True)
        with suppress(OSError):
            folder.mkdir(mode=0o700)
    return folder


@functools.cache
def _our_kernels() -> list[Path]:
    """Our files with something that is compiled, or that say how."""
    texts = {file: file.read_bytes() for file in _ROOT.rglob("[!.]*.py")}
    return [file for file, text in texts.items() if b"\n@compiled" in text or b"numba" in text]
