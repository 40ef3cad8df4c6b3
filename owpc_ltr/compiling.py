"""Compiled code: written as Python functions, compiled by numba when they are first called.

    @compiled
    def total(values):
        ...

No module imports numba at its top, so that a command that computes nothing starts fast.
Where NumPy comes to the very same bits, small inputs (`SMALL`) are left to it.

A function that Python calls is compiled with all that it calls, as one, and kept in the folder of
`cache_folder`. numba reads pickles from there: it must be the user's own, and nobody else may
write it. The same holds of a file of code that the user names (`module_of_file`).
"""

from __future__ import annotations

import functools
import importlib.util
import os
import stat
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any, NamedTuple, overload

from owpc_ltr.errors import PluginError

_MAKING = threading.RLock()
"""Threads that begin with the same function make it once."""
SMALL = 1 << 21
"""Up to so many numbers compiled code is not worth it, where NumPy's result is the same: it takes
some 10 ns each, and the import of numba 0.4 s."""
_KNOWN = ("builtins", "llvmlite", "math", "numba", "numpy")
"""Packages whose versions numba knows, or whose functions it compiles in its own way."""


class Compiled:
    """A function in numba's subset of Python, compiled on its first call and cached on disk.

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
        return self.dispatcher(*arguments)

    @property
    def dispatcher(self) -> Any:
        """What Python calls: numba's function, kept on disk."""
        dispatcher = self.__dict__.get("_outer")
        if dispatcher is None:
            with _MAKING:
                dispatcher = self.__dict__.get("_outer")
                if dispatcher is None:
                    dispatcher = self._outer = _kept(self._make(), self.py_func, self.options)
        return dispatcher

    def _make(self, **more: bool) -> Any:
        from numba import njit

        return njit(nogil=True, no_cfunc_wrapper=True, **more, **self.options)(self.py_func)

    @functools.cached_property
    def _numba_type_(self) -> Any:
        """What numba calls where compiled code names this function."""
        # What Python has called already will do; else it needs no way in from Python.
        self._inner = self.__dict__.get("_outer") or self._make(no_cpython_wrapper=True)
        return self._inner._numba_type_


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
    from numba.core.ccallback import CFunc

    callback = CFunc(function, (signature.args, signature.return_type), locals={}, options={})
    _kept(callback, function, {}).compile()
    return callback


class Intrinsic:
    """An intrinsic of numba, made when compiled code first names it (decorator).

    The definition takes a typing context and the types of the arguments, and returns a signature
    and what writes the code: see `numba.extending.intrinsic`. It imports numba and llvmlite itself.
    """

    def __init__(self, definition: Callable[..., Any]) -> None:
        """Wrap the definition; nothing is imported yet."""
        functools.update_wrapper(self, definition)
        self.py_func = definition

    def __call__(self, *_arguments: Any) -> Any:
        """Raise TypeError: there is nothing for the interpreter to call."""
        raise TypeError(f"{self.py_func.__name__} is for compiled functions to call")

    @functools.cached_property
    def _numba_type_(self) -> Any:
        """What numba looks at when compiled code names this one."""
        from numba.core.registry import cpu_target
        from numba.extending import intrinsic as make

        self._made = make(self.py_func)
        # numba knows its intrinsics by a list of new ones, which it has to read.
        cpu_target.typing_context.refresh()
        return cpu_target.typing_context.resolve_value_type(self._made)


class Made(NamedTuple):
    """A function that was compiled in this process, and the folder it is kept in, if any."""

    name: str
    seconds: float
    folder: str


class Work:
    """The compiling of a process: what was compiled, and what is called when it begins."""

    def __init__(self) -> None:
        self.made: list[Made] = []
        self.tell: Callable[[], None] = lambda: None
        self._begun = 0.0

    def begin(self) -> None:
        """A function is being compiled; numba compiles one at a time."""
        if not self._begun:
            self.tell()
        self._begun = time.perf_counter()

    def end(self, name: str, folder: str) -> None:
        """It is done, and kept in a folder (empty: nowhere)."""
        self.made.append(Made(name, time.perf_counter() - self._begun, folder))


WORK = Work()
"""That of this process."""


@functools.cache
def cache_folder() -> Path | None:
    """Where compiled code is kept: NUMBA_CACHE_DIR, else the user's cache; None: nowhere.

    A folder that is missing is made, for the user alone. One that somebody else can write is not
    used.
    """
    from platformdirs import user_cache_path

    named = os.environ.get("NUMBA_CACHE_DIR")
    folder = Path(named) if named else user_cache_path("owpc-ltr") / "compiled"
    try:
        if not folder.is_dir():
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return None if why_unsafe(folder) else folder.absolute()
    except OSError:
        return None


def keep_privately() -> None:
    """From now on, what others tell numba to cache is kept where nobody else can write, too.

    Where there is no `cache_folder`, it is kept in a folder that the process removes at its end.
    """
    folder = str(cache_folder() or _temporary_folder().name)
    # numba reads the variable when it is imported.
    os.environ["NUMBA_CACHE_DIR"] = folder
    if "numba" in sys.modules:
        from numba.core import config

        config.CACHE_DIR = folder


@functools.cache
def _temporary_folder() -> Any:
    import tempfile

    return tempfile.TemporaryDirectory(prefix="owpc-ltr-")


def _kept(compiled_function: Any, function: Callable[..., Any], options: Mapping[str, Any]) -> Any:
    """A function of numba's that keeps its code in the `cache_folder`, if there is one."""
    from numba.core import config

    folder, cache = cache_folder(), None
    # Where it cannot be written, numba would make a folder of its own in the user's cache.
    if folder is not None and os.access(folder, os.W_OK):
        with _MAKING:
            before, config.CACHE_DIR = config.CACHE_DIR, str(folder)
            try:
                compiled_function.enable_caching()
                if Path(compiled_function._cache.cache_path).is_relative_to(folder):
                    cache = compiled_function._cache
            except RuntimeError:
                pass  # there is none for a function without a file, or where nothing can be written
            finally:
                config.CACHE_DIR = before
    compiled_function._cache = _Cache(function, options, cache)
    return compiled_function


class _Cache:
    """numba's cache of a function, or none: its faults cost time, and end nothing.

    numba takes code for new as long as the one file is as it was in which the function stands.
    Here it must be that of all that the function calls and names, in whatever file.
    """

    def __init__(
        self, function: Callable[..., Any], options: Mapping[str, Any], cache: Any
    ) -> None:
        self._name = f"{function.__module__}.{function.__qualname__}"
        self._cache = cache
        if cache is not None:
            stamps = cache._cache_file._source_stamp, stamp_of(function, options)
            cache._cache_file._source_stamp = stamps

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """What was compiled for a signature before; None where it must be compiled now."""
        overload = None
        if self._cache is not None:
            try:
                overload = self._cache.load_overload(sig, target_context)
            except Exception:  # noqa: BLE001 - a damaged file raises what unpickling it comes upon
                with suppress(OSError):
                    self._cache.flush()
        if overload is None:
            WORK.begin()
        return overload

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep what was compiled, if the disk takes it."""
        folder = ""
        with suppress(OSError):
            if self._cache is not None:
                self._cache.save_overload(sig, data)
                folder = self._cache.cache_path
        WORK.end(self._name, folder)


def stamp_of(function: Callable[..., Any], options: Mapping[str, Any]) -> str:
    """A digest that changes with the code of a function, and with all that it calls and names."""
    import hashlib

    parts = [_text(dict(options)), *_parts(function, set())]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def _parts(function: Any, seen: set[Any]) -> Iterator[str]:
    """What a function is made of, and then all that it names, each function once."""
    if function in seen or function.__module__.startswith(_KNOWN):
        return
    seen.add(function)
    yield f"{function.__module__}.{function.__qualname__} {_text(function.__code__)}"
    for name, value in named_by(function):
        inner = getattr(value, "py_func", value)
        if isinstance(inner, FunctionType):
            yield f"{name} {_text(getattr(value, 'options', None))}"
            yield from _parts(inner, seen)
        else:
            yield f"{name} {_text(value)}"


def named_by(function: Any) -> Iterator[tuple[str, Any]]:
    """The globals that a function names, and those that it names in modules but NumPy and numba."""
    names = _names(function.__code__)
    for name in sorted(names & function.__globals__.keys()):
        value = function.__globals__[name]
        yield name, value
        if isinstance(value, ModuleType) and not value.__name__.startswith(_KNOWN):
            yield from ((inner, vars(value)[inner]) for inner in sorted(names & vars(value).keys()))


def _names(code: CodeType) -> set[str]:
    inner = [_names(constant) for constant in code.co_consts if isinstance(constant, CodeType)]
    return set(code.co_names).union(*inner)


def _text(value: Any) -> str:
    """A constant as text that is the same in every process; others by their type alone."""
    if isinstance(value, CodeType):
        names = value.co_names, value.co_varnames
        return f"{value.co_code.hex()} {_text(value.co_consts)} {names}"
    if isinstance(value, set | frozenset):
        return f"{sorted(map(_text, value))}"
    if isinstance(value, tuple | list):
        return f"{[*map(_text, value)]}"
    if isinstance(value, dict):
        return f"{[(key, _text(value[key])) for key in sorted(value)]}"
    array = getattr(value, "tobytes", None)
    if array is not None:
        return f"{value.dtype} {value.shape} {array().hex()}"
    plain = value is None or isinstance(value, bool | int | float | complex | str | bytes)
    return repr(value) if plain else f"{type(value).__qualname__} {getattr(value, '_fields', ())}"


def why_unsafe(path: Path) -> str:
    """Why others can replace or change what is at a path that exists; empty where they cannot.

    It and all folders above it belong to the user or to root, and nobody else can write them;
    folders that many may write, as /tmp, are safe where each may only remove what is their own.
    """
    if not hasattr(os, "getuid"):
        return ""
    path = path.resolve()
    for place in (path, *path.parents):
        status = place.stat()
        if status.st_uid not in {0, os.getuid()}:
            return f"'{place}' belongs to another user"
        shared = place != path and status.st_mode & stat.S_ISVTX
        if _others_write(status) and not shared:
            return f"others can write '{place}'"
    return ""


def _others_write(status: os.stat_result) -> bool:
    """Whether anybody but the owner can write; a user's own group, of nobody else, is the user."""
    if status.st_mode & stat.S_IWOTH:
        return True
    if not status.st_mode & stat.S_IWGRP or status.st_gid == 0:
        return False
    import grp
    import pwd

    try:
        group, user = grp.getgrgid(status.st_gid), pwd.getpwuid(os.getuid())
    except KeyError:
        return True
    alone = set(group.gr_mem) <= {user.pw_name}
    return not (alone and group.gr_gid == user.pw_gid and group.gr_name == user.pw_name)


def module_of_file(path: Path, name: str) -> ModuleType:
    """The module of a local file: of its source, never of bytecode that lies beside it.

    Raises PluginError for a file that somebody else can write, in whose name it would run.
    """
    try:
        source = path.read_bytes()
        unsafe = why_unsafe(path)
    except OSError as error:
        raise PluginError("there is no such file") from error
    if unsafe:
        raise PluginError(
            f"it is not loaded, for {unsafe}: make a copy in a folder that only you can write"
        )
    if path.suffix != ".py":
        raise PluginError("it is not a Python file (.py)")
    specification = ModuleSpec(name, None, origin=str(path))
    specification.has_location = True
    module = importlib.util.module_from_spec(specification)
    # Dataclasses look their module up by name while they are made.
    sys.modules[name] = module
    keep_privately()
    code = compile(source, str(path), "exec", dont_inherit=True)
    exec(code, module.__dict__)  # noqa: S102 - the user named it, and nobody else can write it
    return module
