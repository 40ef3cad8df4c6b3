"""One signature per job: what the parameters of a public function mean, in Python and in the shell.

    @job
    def average(
        models: Annotated[Sequence[Model | Path | str], Reads("Model files.", cli=list[Path])],
        *,
        out: Annotated[Path | str | None, Writes("The file of the mean.", required=True)] = None,
    ) -> Model: ...

`owpc_ltr.cli.generator` makes the command from it. The checks of `Reads`, `Writes` and of names
hold in both interfaces.
"""

from __future__ import annotations

import ast
import functools
import inspect
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, MISSING, dataclass, fields, is_dataclass
from enum import Enum
from itertools import combinations
from numbers import Integral, Real
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, ForwardRef, TypeVar, Union, get_args, get_origin, overload

from owpc_ltr.errors import BadInput, OwpcLtrError, UsageError
from owpc_ltr.files.input import begins_with
from owpc_ltr.files.output import check_output, is_standard_output, same_file

Function = TypeVar("Function", bound=Callable[..., Any])

Progress = Callable[[str, float | None], None]
"""Receives what is being done, and the share that is done, or None."""

NO_MODEL = "cannot read the model {path}: No such file or directory"
NO_FEATURE_SET = "cannot read the feature set {path}: No such file or directory"

_OTHER_NAMES = {
    "eval_set": "validation",
    "random_state": "seed",
    "n_jobs": "threads",
    "X": "features",
    "y": "labels",
    "weight": "document_weights",
    "weights": "document_weights",
    "sample_weight": "document_weights",
}
"""What other libraries call a parameter."""
_IDS = ("qid", "query_ids", "query")
_GROUPS = ("group", "groups", "group_ids", "query_id", *_IDS)
"""Query ids by any name; sizes of groups in LightGBM and XGBoost, ids of them in scikit-learn."""
_ARRAYS = ("X", "y", "label", "labels", *_GROUPS)
"""What a dataset is made of."""
_CHECKED: Mapping[Any, tuple[type, str]] = {
    int: (Integral, "a whole number"),
    float: (Real, "a number"),
    Mapping: (Mapping, "values by name, as a dict"),
}
"""Types of parameters that every call is checked for: the class of their values, and in words."""


def silent(_message: str, _done: float | None = None) -> None:
    """Show no progress."""


@dataclass(frozen=True)
class Help:
    """What a parameter of a public function means, and how the command line takes it.

    The text names other parameters in backticks.
    `flag` is the option where it differs from the parameter's name, `short` its one-letter form. A
    positional parameter with a `flag` is an option on the command line.
    `cli` is the type on the command line where the annotation does not give it; `parse` converts a
    value of that type. `panel` is the part of the help page that lists the option. A parameter that
    is `required` has a default in Python only.
    """

    text: str
    _: KW_ONLY
    flag: str | None = None
    short: str | None = None
    metavar: str | None = None
    cli: Any = None
    parse: Callable[[Any], Any] | None = None
    panel: str = ""
    min: float | None = None
    max: float | None = None
    required: bool = False
    project: str = ""
    """The key of the project file that gives its value where the command line does not."""


TYPED_ONLY = ("typed only",)
"""Marks a parameter whose type has a key of the project file, and that takes no value from it."""


@dataclass(frozen=True)
class Reads(Help):
    """A parameter that names one file to read, or several: missing files are an error.

    They are looked for before the job imports what reads them; the error is the reader's own. A
    text that begins with `unless` does not name a file. With None for `absent` the text may be a
    name of another kind, and is not looked for. Where `lists` is False, the elements of a list are
    no files.
    """

    absent: str | None = "cannot read {path}: no such file or directory; check the name"
    error: type[OwpcLtrError] = BadInput
    unless: str | None = None
    lists: bool = True

    def check(self, value: object) -> None:
        """Raise the error for the first file that does not exist; other faults are the reader's."""
        for path in self.files(value):
            try:
                Path(path).stat()
            except FileNotFoundError as error:
                if self.absent is None:
                    continue
                message = self.absent.format(path=path)
                if self.unless == "feature:" and Path(path).name == str(path) == Path(path).stem:
                    message += f"; to name a feature of the data, write feature:{path}"
                if str(path)[:1] in {"{", "["}:
                    message = message.replace("check the name", "write the JSON into a file")
                raise self.error(message) from error
            except (OSError, ValueError):
                continue

    def files(self, value: object) -> list[Path | str]:
        """The files that a value names; objects that were read before are not files."""
        paths: Any = (value,)
        if isinstance(value, list | tuple):
            paths = value if self.lists else ()
        named = (path for path in paths if isinstance(path, Path | str))
        return [path for path in named if not self.unless or not str(path).startswith(self.unless)]


@dataclass(frozen=True)
class Writes(Help):
    """A parameter that names the file to write, or `-`, standard output.

    Before the job begins it is checked that the file can be written, and is not an input. With `-`
    everything else that the command prints goes to standard error.
    """

    needs_folder: bool = True
    """Whether its folder must exist already."""
    standard_output: str | None = None
    """Why it cannot be standard output, if it cannot."""
    or_folder: bool = False
    """Whether it may also be a folder, which the job checks itself."""

    def check(self, path: Path | str, inputs: list[Path | str]) -> None:
        """Raise UsageError for a file that cannot be written."""
        if is_standard_output(path) and self.standard_output is not None:
            raise UsageError(self.standard_output)
        if not (self.or_folder and Path(path).is_dir()):
            check_output(path, inputs, needs_folder=self.needs_folder)


class Argument(Enum):
    """What a parameter is, whatever its name: a mark in its annotation, besides its Help."""

    NAME = "a name"
    """An empty text is not a name, and not a default either."""
    RANKER = "a ranker"
    """Or several. A fitted estimator stands for its model."""
    DATA = "judged queries"
    LIST = "a list"
    """A file that stands alone is a list of one."""


Seed = Annotated[int, Help("Seed of all randomness.", panel="Advanced")]


@overload
def job(function: Function) -> Function: ...
@overload
def job(
    *,
    shows: Callable[[Any], Any] | None = None,
    finishes: bool = False,
    changes_cluster: bool = False,
) -> Callable[[Function], Function]: ...
def job(
    function: Any = None,
    *,
    shows: Callable[[Any], Any] | None = None,
    finishes: bool = False,
    changes_cluster: bool = False,
) -> Any:
    """A public function whose marked parameters are checked before it runs.

    `shows` makes what the command line prints, where that is not the result itself: a result that
    is a model, say. A command that `finishes` ignores the first Ctrl-C: it is one short step that
    must not be repeated. One that `changes_cluster` first prints the cluster's address on standard
    error.
    """

    def decorate(function: Function) -> Function:
        run = public(function, check)
        vars(run).update(shows=shows, finishes=finishes, changes_cluster=changes_cluster)
        return run

    return decorate if function is None else decorate(function)


def public(function: Function, checks: Callable[..., None] | None = None) -> Function:
    """A public function that is no job: its errors of arguments that do not fit say what fits."""

    @functools.wraps(function)
    def run(*args: Any, **named: Any) -> Any:
        bound = _bound(function, args, named)
        if checks is not None:
            checks(function, bound.arguments)
        return function(*bound.args, **bound.kwargs)

    return run  # type: ignore[return-value]


def _bound(
    function: Callable[..., Any], args: Sequence[Any], named: Mapping[str, Any]
) -> inspect.BoundArguments:
    """The arguments by parameter: an estimator becomes its model, one plugin file a list of it.

    Raises TypeError for arguments that do not fit, UsageError for one of another kind; both say
    what is meant.
    """
    try:
        bound = inspect.signature(function).bind(*args, **named)
    except TypeError:
        _refuse(function, args, named)
        function(*args, **named)  # raises, under the function's own name
        raise
    values = bound.arguments
    for name, kind in kinds_of(function).items():
        value = values.get(name)
        if (
            value is None
            and kind is Argument.DATA
            and described(function).parameters[name].default is inspect.Parameter.empty
        ):
            raise UsageError(f"`{name}` is None: give a dataset, or its file")
        if value is None:
            continue
        if kind is Argument.RANKER:
            values[name] = _ranker(function, name, value)
        elif kind is Argument.DATA:
            _check_data(function, name, value)
        elif kind is Argument.LIST and isinstance(value, Path | str) and value:
            values[name] = (value,)
    for name, value in values.items():
        values[name] = _checked(described(function).parameters[name], value)
    return bound


def _checked(parameter: inspect.Parameter, value: Any) -> Any:
    """The argument; of a parameter that takes nothing but numbers or mappings Python's numbers.

    Raises UsageError for what is neither.
    """
    kinds = [get_origin(kind) or kind for kind in _kinds(parameter.annotation)]
    wanted = [_CHECKED[kind] for kind in kinds if kind in _CHECKED]
    others = [kind for kind in kinds if kind not in _CHECKED and kind is not NoneType]
    if value is None or others:
        return value
    if isinstance(value, Mapping) and Mapping in kinds:
        return {key: _python_number(part) for key, part in value.items()}
    if isinstance(value, tuple(cls for cls, _ in wanted)):
        return _python_number(value)
    words = " or ".join(text for _, text in wanted)
    raise UsageError(f"`{parameter.name}` is of type {type(value).__name__}: give {words}")


def _python_number(value: Any) -> Any:
    """A number of NumPy as one of Python, which JSON can hold; everything else as it is."""
    return value.item() if isinstance(value, Real) and hasattr(value, "item") else value


def _kinds(annotation: Any) -> tuple[Any, ...]:
    """The types that an annotation allows, its marks left out."""
    if get_origin(annotation) is Annotated:
        annotation = get_args(annotation)[0]
    is_union = get_origin(annotation) in {Union, UnionType}
    return get_args(annotation) if is_union else (annotation,)


def _ranker(function: Callable[..., Any], name: str, value: Any) -> Any:
    """What ranks: the model of a fitted estimator. Raises UsageError for what does not."""
    if isinstance(value, Mapping):
        return {key: _ranker(function, name, ranker) for key, ranker in value.items()}
    if isinstance(value, list | tuple):
        return [_ranker(function, name, ranker) for ranker in value]
    if _is_dataset(value):
        raise _swapped(function, name, "a dataset")
    is_ours = any(cls.__module__.startswith("owpc_ltr.") for cls in type(value).__mro__)
    if not (hasattr(value, "get_params") and is_ours):
        return value
    if not hasattr(value, "model_"):
        raise UsageError(f"`{name}` is an estimator without a model: call its fit first")
    return value.model_


def _check_data(function: Callable[..., Any], name: str, value: Any) -> None:
    if hasattr(value, "score") and hasattr(value, "feature_names") and not _is_dataset(value):
        raise _swapped(function, name, "a model")
    if isinstance(value, Real):
        share = f"{name}_share"
        has_share = share in described(function).parameters
        fix = f"a share of the queries is `{share}={value}`" if has_share else "give a dataset"
        raise UsageError(f"`{name}` is the number {value}: {fix}")
    if hasattr(value, "shape"):
        array, frame = ("an array", "make_dataset(X, y, qid)"), ("a frame", "from_frame(…)")
        what, maker = frame if hasattr(value, "columns") else array
        raise UsageError(
            f"`{name}` is {what}, and a dataset is wanted: make it with owpc_ltr.{maker}"
        )


def _is_dataset(value: Any) -> bool:
    return hasattr(value, "n_queries") and hasattr(value, "n_documents")


def _swapped(function: Callable[..., Any], name: str, what: str) -> UsageError:
    kinds = kinds_of(function)
    fix = "give judged queries" if kinds[name] is Argument.DATA else "give a model"
    first = next(iter(inspect.signature(function).parameters))
    if kinds.get(first) is Argument.RANKER:
        fix += f"; models come first: `{function.__name__}({first}, data)`"
    return UsageError(f"`{name}` got {what}: {fix}")


def _refuse(function: Callable[..., Any], args: Sequence[Any], named: Mapping[str, Any]) -> None:
    """Raise TypeError for arguments that do not fit, where it is clear what is meant."""
    parameters = inspect.signature(function).parameters
    for name in [name for name in named if name not in parameters]:
        close = closest_parameter(name, parameters)
        ids = next((name_of_ids for name_of_ids in _IDS if name_of_ids in parameters), None)
        if name in _ARRAYS and Argument.DATA in kinds_of(function).values():
            hint = "make a dataset: owpc_ltr.make_dataset(X, y, qid), or owpc_ltr.from_frame(…)"
        elif name in _GROUPS and ids == "query":
            hint = "give `query`, the column of query ids"
        elif name in _GROUPS and ids is not None:
            sizes = "np.repeat(np.arange(len(sizes)), sizes)"
            hint = f"give `{ids}`, the query id of each row; of sizes of groups it is {sizes}"
        elif close in parameters:
            hint = f"did you mean '{close}'?"
        elif "settings" in parameters:
            value = repr(named[name]) if isinstance(named[name], Real | str) else "…"
            hint = f"settings of loss and optimizer are given as settings={{'{name}': {value}}}"
        else:
            continue
        raise TypeError(
            f"{function.__name__}() got an unexpected keyword argument '{name}': {hint}"
        ) from None
    places = [name for name, p in parameters.items() if p.kind is p.POSITIONAL_OR_KEYWORD]
    by_name = [name for name, p in parameters.items() if p.kind is p.KEYWORD_ONLY]
    kinds, hint = kinds_of(function), f"write {by_name[0]}=" if by_name else ""
    given = zip(places, args, strict=False)
    if places[:1] and len(args) > len(places) and _is_listed(function, places[0], args[0]):
        hint = f"`{places[0]}` is one list: {function.__name__}([…], …)"
    elif any(kinds.get(name) is Argument.DATA and hasattr(value, "shape") for name, value in given):
        hint = "use owpc_ltr.make_dataset(X, y, qid), and give the dataset"
    if len(args) > len(places) and hint:
        raise TypeError(
            f"{function.__name__}() takes {len(places)} positional "
            f"argument{'s' * (len(places) != 1)} but {len(args)} were given: {hint}"
        ) from None


def _is_listed(function: Callable[..., Any], name: str, value: object) -> bool:
    """Whether a parameter takes a list, and this is none."""
    kinds: list[Any] = [*map(get_origin, _kinds(described(function).parameters[name].annotation))]
    return Sequence in kinds and (isinstance(value, str) or not isinstance(value, Iterable))


def closest_parameter(name: str, parameters: Iterable[str]) -> str | None:
    """The parameter that is so called in other libraries, or whose name is most alike."""
    from owpc_ltr.names import closest

    names = [*parameters]
    other = _OTHER_NAMES.get(name)
    return other if other in names else closest(name, names)


def check(function: Callable[..., Any], arguments: Mapping[str, Any]) -> None:
    """Check the marked parameters among the arguments of a job.

    Names are not empty, files to read exist, files to write can be written, and no two outputs are
    one file, nor an output an input.
    """
    values, kinds = arguments, kinds_of(function)
    for name, kind in kinds.items():
        is_name = kind in {Argument.NAME, Argument.RANKER} and isinstance(values.get(name), str)
        if is_name and not values[name]:
            raise UsageError(f"`{name}` is empty: give it a name, or leave it out")
    marks = {name: help_of(parameter) for name, parameter in described(function).parameters.items()}
    inputs: list[Path | str] = []
    for name, mark in marks.items():
        if isinstance(mark, Reads) and name in values:
            mark.check(values[name])
            files = mark.files(values[name])
            for path in files if kinds.get(name) is Argument.DATA else ():
                if begins_with(Path(path), b'"format": "owpc-ltr model"'):
                    raise _swapped(function, name, f"the model file {path}")
            inputs += files
    outputs: dict[str, Path | str] = {}
    for name, mark in marks.items():
        output = values.get(name)
        if isinstance(mark, Writes) and isinstance(output, Path | str):
            mark.check(output, inputs)
            outputs[name] = output
    for (name, path), (second, other_path) in combinations(outputs.items(), 2):
        if same_file(path, other_path):
            raise UsageError(
                f"`{name}` {path} and `{second}` {other_path} are one file, "
                "which can hold one of them: name two files"
            )


@functools.cache
def described(function: Callable[..., Any]) -> inspect.Signature:
    """The signature of a function or class, its annotations evaluated."""
    bare = inspect.unwrap(function)
    signature = inspect.signature(bare)
    names = vars(sys.modules[bare.__module__])
    returned = _evaluated(signature.return_annotation, names)
    defaults = {
        field.name: field.default_factory()
        for field in (fields(bare) if is_dataclass(bare) else ())
        if field.default_factory is not MISSING
    }
    return signature.replace(
        parameters=[
            parameter.replace(
                annotation=_evaluated(parameter.annotation, names),
                default=defaults.get(name, parameter.default),
            )
            for name, parameter in signature.parameters.items()
        ],
        return_annotation=returned,
    )


def _evaluated(annotation: Any, names: dict[str, Any]) -> Any:
    """The type of an annotation; a member that only type checkers import keeps its name."""
    if get_origin(annotation) is Annotated:
        of, *marks = get_args(annotation)
        return Annotated[_evaluated(of, names), *marks]
    text = annotation.__forward_arg__ if isinstance(annotation, ForwardRef) else annotation
    if not isinstance(text, str):
        return Any if annotation is inspect.Signature.empty else annotation
    try:
        return _evaluated(eval(text, names), names)  # noqa: S307 - the code's own annotation
    except NameError:
        return _known_part(ast.parse(text, mode="eval").body, names)


def _known_part(annotation: ast.expr, names: dict[str, Any]) -> Any:
    """The type of an annotation that uses a name which only type checkers import."""
    if isinstance(annotation, ast.BinOp):
        sides = (annotation.left, annotation.right)
        return Union[tuple(_evaluated(ast.unparse(side), names) for side in sides)]  # noqa: UP007
    if isinstance(annotation, ast.Subscript) and ast.unparse(annotation.value) == "Annotated":
        of, *marks = (ast.unparse(part) for part in annotation.slice.elts)  # type: ignore[attr-defined]
        return Annotated[_evaluated(of, names), *(_evaluated(mark, names) for mark in marks)]
    return ForwardRef(ast.unparse(annotation))


def marks_of(parameter: inspect.Parameter) -> tuple[Any, ...]:
    """What the annotation of a parameter holds besides its type."""
    return getattr(parameter.annotation, "__metadata__", ())


@functools.cache
def kinds_of(function: Callable[..., Any]) -> dict[str, Argument]:
    """The kind of each parameter that is marked with one."""
    return {
        name: mark
        for name, parameter in described(function).parameters.items()
        for mark in marks_of(parameter)
        if isinstance(mark, Argument)
    }


def help_of(parameter: inspect.Parameter) -> Help | None:
    """The mark of a parameter, if it has one."""
    return next((mark for mark in marks_of(parameter) if isinstance(mark, Help)), None)


def project_key(parameter: inspect.Parameter) -> str:
    """The key of the project file that gives a parameter its value; empty where none does."""
    mark = help_of(parameter)
    return "" if mark is None or TYPED_ONLY in marks_of(parameter) else mark.project
