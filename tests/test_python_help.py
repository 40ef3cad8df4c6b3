"""`help()` of the public functions: every parameter, in the words of Python."""

from __future__ import annotations

import inspect
import pydoc
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import pytest

import owpc_ltr as ltr
import owpc_ltr.types
from owpc_ltr.engine.deployment.uploaded_models import UploadedModels
from owpc_ltr.engine.feature_sets import FeatureSets
from owpc_ltr.public_names import python_docstring, with_help
from owpc_ltr.signatures import described, help_of


def documented() -> Iterator[tuple[str, Callable[..., Any]]]:
    owners: list[tuple[str, Any]] = [("owpc_ltr", ltr), ("Cluster", ltr.Cluster)]
    owners += [("FeatureSets", FeatureSets), ("UploadedModels", UploadedModels)]
    for place, owner in owners:
        for name in ltr.__all__ if owner is ltr else vars(owner):
            attribute = getattr(owner, name)
            if inspect.isfunction(attribute) and not name.startswith("_"):
                marks = map(help_of, described(attribute).parameters.values())
                if any(mark is not None for mark in marks):
                    yield f"{place}.{name}", attribute


FUNCTIONS = dict(documented())


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_every_parameter_has_a_type_and_a_meaning(name: str) -> None:
    function = FUNCTIONS[name]
    text = python_docstring(function)
    for parameter, signature in described(function).parameters.items():
        required = signature.default is inspect.Parameter.empty
        if parameter == "self" or (parameter == "cluster" and required):
            continue
        assert re.search(rf"^{parameter} : .+\n    \S", text, re.MULTILINE), parameter


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_no_option_of_its_command_line_is_named(name: str) -> None:
    function = FUNCTIONS[name]
    outside_commands = re.sub(r"`[^`]*`", "", python_docstring(function))
    options = {
        mark.flag or f"--{parameter.replace('_', '-')}"
        for parameter, signature in described(function).parameters.items()
        if (mark := help_of(signature)) is not None
    }
    assert not options & set(re.findall(r"--[a-z-]+", outside_commands))


@pytest.mark.parametrize("module", [ltr, owpc_ltr.types], ids=lambda module: module.__name__)
def test_help_of_a_public_name_has_no_option(module: ModuleType) -> None:
    public = {name: getattr(module, name) for name in module.__all__ if name != "__version__"}
    assert len(public) > 40
    for name, thing in public.items():
        options = re.findall(r"(?<![\w-])--[a-z][\w-]*", pydoc.plain(pydoc.render_doc(thing)))
        assert not options, f"help({module.__name__}.{name}) shows {options}"


@pytest.mark.parametrize(
    ("name", "result"),
    [("evaluate", "Evaluation"), ("train", "Model"), ("compare", "RankerComparison")],
)
def test_help_says_what_is_returned(name: str, result: str) -> None:
    text = pydoc.plain(pydoc.render_doc(getattr(ltr, name)))
    assert re.search(rf"^ *Returns\n *-------\n *{result}$", text, re.MULTILINE)
    assert ('result["map"].interval' in text) == (name == "evaluate")


def test_help_is_the_same_when_it_is_made_again() -> None:
    first = with_help(ltr.connect).__doc__
    assert with_help(ltr.connect).__doc__ == first
    assert "Parameters" in str(first)


def test_help_of_the_package_shows_its_functions() -> None:
    text = pydoc.plain(pydoc.render_doc(ltr))
    assert "cluster = ltr.connect" in text
    assert "Validation queries" in text


def test_nothing_is_imported_that_is_missing() -> None:
    code = (
        "import sys; sys.modules['sklearn'] = None\n"
        "import pydoc, owpc_ltr\n"
        "from owpc_ltr import *\n"
        "assert hasattr(owpc_ltr, 'Ranker')\n"
        "assert 'scikit-learn' in pydoc.plain(pydoc.render_doc(owpc_ltr))\n"
        "try: owpc_ltr.Ranker()\n"
        "except ImportError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == (
        "Ranker is an estimator of scikit-learn, which is not installed: "
        "pip install scikit-learn, or use owpc_ltr.train"
    )


def test_the_methods_of_a_cluster_show_their_parameters_from_the_first_call() -> None:
    code = (
        "import owpc_ltr\n"
        "cluster = owpc_ltr.connect('http://127.0.0.1:9')\n"
        "for method in (cluster.upload, cluster.search, cluster.featuresets.push, "
        "cluster.models.rollback): assert 'Parameters' in method.__doc__, method"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
