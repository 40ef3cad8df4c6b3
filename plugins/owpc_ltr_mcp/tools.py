"""Jobs as tools: names, descriptions, schemas and arguments come from the jobs' signatures.

An argument is called as the parameter is. Every file that a tool reads or writes is in the folder
of the session.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import NoneType
from typing import Any, Literal, get_args, get_origin

from owpc_ltr.cli.commands import COMMANDS
from owpc_ltr.cli.generator import help_text
from owpc_ltr.cli.options import Option, options_of
from owpc_ltr.errors import PluginError, Refused, UsageError, give_warning
from owpc_ltr.files.input import is_inside, refuse_outside
from owpc_ltr.host.commands import Command, plugin_commands
from owpc_ltr.host.project import PROJECT_FILE
from owpc_ltr.names import did_you_mean
from owpc_ltr.signatures import Reads, Writes, described

_NO_TOOLS = frozenset({"demo", "engine", "init", "mcp", "serve"})
"""Commands that start or end processes of their own, or write what people's commands read."""
_FOR_AGENTS = """
all_features baseline buckets columns data documents duplicates events explain feature_cost
feature_names featureset folds from_ubi grades grid id_field in_flight index judgments keywords
labels latex lists loss losses max_clicks_per_hour max_feature_number memory metric metrics missing
model name negligible normalise optimizer optimizers out params per_query plugins proxy_labels
queries query_id query_template rankers report require reranker resamples role run seed segments
settings sheet size skip_unjudged smallest_gain split store store_kind strict test_share threads
title_field to topics ubi_events ubi_queries unjudged unweighted validation validation_share
window worst
average.models average.weights bounds.delta bounds.generator compare_live.same_query
experiment_start.a experiment_start.b experiment_start.page experiment_start.shadow
experiment_stop.promote_if explain.document explain.keywords explain.ranker export.target
export.version featureset_push.replace featureset_suggest.legs featureset_try.drop
featureset_try.keep featureset_try.new fuse.complete fuse.data_out
fuse.legs fuse.query_template_out import.path import.trained_on index.settings
judge_clicks.actions judge_clicks.document_field judge_clicks.max_clicks_per_session
judge_clicks.max_sessions_per_client judge_clicks.min_people judge_clicks.query_weights
judge_clicks.since judge_clicks.slices judge_clicks.until judge_clicks.weights
judge_merge.conflicts judge_page.guidelines judge_page.overlap judge_page.raters
judge_pool.depth judge_pool.fields judge_pool.judged judge_pool.sample keep.plan lint.pipeline
lint.request log_features.allow_rejected log_features.batch log_features.candidates
log_features.extra_features log_features.max_absent log_features.restart models_delete.unused
models_diff.other plugins_check.what profile.repeat report.examples report.heading
report.results reproduce.data_sets reproduce.letor reproduce.protocol reproduce.quick
search.deadline select.jobs select.journal select.select_metric train.knots train.max_features
train.piecewise_linear train.runs_in train_reranker.base tune.searches upload.client_scored
upload.history
"""
"""The arguments of tools; one that a single tool has stands behind its name.

No other option reaches an agent. Those of addresses are for whoever starts the server, and for
people are those that pass over a check, or vouch for it, and that delete or replace something.
"""
_TYPES = {bool: "boolean", int: "integer", float: "number"}
_PARTS = re.compile(r"=@|[=,]")
"""What files stand behind in other texts: NAME=@FILE, NAME=FILE, FILE,FILE."""


def folder_at(path: Path | str) -> Path:
    """The folder at this path, absolute and without links.

    Raises UsageError where there is none, and for one with all files: clients often start servers
    in / or in the home folder.
    """
    root = Path(path).resolve()
    if not root.is_dir():
        raise UsageError(f"there is no folder {path}: create it, or name another one")
    if root in {Path(root.anchor), Path.home().resolve()}:
        raise UsageError(f"{root} has all files: name a folder with those that tools may use")
    return root


@dataclass(frozen=True)
class JobTool:
    """A job that an agent may call: its command, its function, and its options by argument."""

    about: Command
    function: Callable[..., Any]
    options: Mapping[str, Option]
    connection: frozenset[str]
    """Parameters that are those of `connect`."""

    @property
    def name(self) -> str:
        """The command's name, as one word: `models_promote`."""
        return self.about.public_name

    @property
    def description(self) -> str:
        """The first paragraph of the command's help."""
        return help_text(self.function).partition("\n\n")[0]

    @property
    def changes_cluster(self) -> bool:
        """Whether it changes the cluster; a third-party function that does not say so may do it."""
        return bool(getattr(self.function, "changes_cluster", True))

    @property
    def makes_evidence(self) -> bool:
        """Whether its result is evidence, which the argument `out` writes."""
        return self.about.name in {"compare-live", "experiment status"}

    @cached_property
    def schema(self) -> dict[str, Any]:
        """The JSON schema of the arguments."""
        return {
            "type": "object",
            "properties": {name: _schema(option) for name, option in self.options.items()},
            "required": [name for name, option in self.options.items() if option.required],
            "additionalProperties": False,
        }

    def values(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The values of parameters, as the command line makes them.

        Raises UsageError for arguments that do not fit the schema, Refused for files outside of the
        folder of `confined_to`.
        """
        from jsonschema import Draft202012Validator
        from jsonschema.exceptions import best_match

        arguments = {name: value for name, value in arguments.items() if value not in (None, [])}
        lacking = [n for n, o in self.options.items() if o.required and n not in arguments]
        for name in arguments.keys() - self.options.keys():
            instead = did_you_mean(name, self.options, f"it has {', '.join(self.options)}")
            raise UsageError(
                f"{self.name} has no argument '{name}': "
                + (f"it needs {', '.join(lacking)}" if lacking else instead)
            )
        fault = best_match(Draft202012Validator(self.schema).iter_errors(arguments))
        if fault is not None:
            place = "".join(f"{part}: " for part in fault.absolute_path)
            raise UsageError(f"{place}{fault.message}: see the schema of {self.name}")
        values = {}
        for name, value in arguments.items():
            option = self.options[name]
            for text in value if isinstance(value, list) else [value]:
                if isinstance(text, str):
                    _check_text(option, name, text)
            values[option.name] = option.value(_converted(option.kind, value))
        return values


def job_tools() -> dict[str, JobTool]:
    """Every job of the core and of plugins that can be a tool, by name.

    Jobs that have no result run until they are stopped, or are for the shell. What cannot be
    imported is a warning.
    """
    tools = {}
    for about in (*COMMANDS, *plugin_commands().commands):
        if not about.function or about.name.partition(" ")[0] in _NO_TOOLS:
            continue
        try:
            function = about.load()
        except PluginError as error:
            give_warning(f"the tool {about.public_name} is not offered: {error}")
            continue
        if described(function).return_annotation in {None, NoneType}:
            continue
        parameters, connection = options_of(function)
        options = {option.name: option for option in (*parameters, *connection)}
        offered = {name.removeprefix(f"{about.public_name}.") for name in _FOR_AGENTS.split()}
        if not any(options.pop(name).required for name in options.keys() - offered):
            names = frozenset(option.name for option in connection)
            tools[about.public_name] = JobTool(about, function, options, names)
    return tools


def _item_kind(kind: Any) -> Any:
    return get_args(kind)[0] if get_origin(kind) is list else kind


def _schema(option: Option) -> dict[str, Any]:
    kind, about = _item_kind(option.kind), option.help
    schema: dict[str, Any] = {"type": _TYPES.get(kind, "string")}
    if get_origin(kind) is Literal:
        schema["enum"] = list(get_args(kind))
    elif hasattr(kind, "__members__"):
        schema["enum"] = [member.value for member in kind]
    schema |= {"minimum": about.min} if about.min is not None else {}
    schema |= {"maximum": about.max} if about.max is not None else {}
    if kind is not option.kind:
        schema = {"type": "array", "items": schema}
    if not option.required and option.default is not None:
        default = option.default
        schema["default"] = str(default) if isinstance(default, Path) else default
    form = f" Form: {option.metavar}." if set(option.metavar) & set("=,") else ""
    return {**schema, "description": about.text + form}


def _check_text(option: Option, name: str, text: str) -> None:
    """Refuse a file outside of the folder, and a folder with a link that leaves it.

    Of a text that is no path, each part that names an existing file must be in it.
    """
    if isinstance(option.help, Writes) and text == "-":
        raise Refused(f"{name} '-' is the connection to the client: name a file in the folder")
    if isinstance(option.help, Writes) and Path(text).name == PROJECT_FILE:
        raise Refused(f"{name} {text!r}: commands of people read this file: name another one")
    if isinstance(option.help, Reads | Writes) or _item_kind(option.kind) is Path:
        for part in {text, *text.split(",")}:
            path = Path(part.removeprefix("feature:"))
            refuse_outside(path, name)
            is_folder = os.path.isdir(path)  # noqa: PTH112 - for any name
            for link in filter(Path.is_symlink, path.rglob("*") if is_folder else ()):
                refuse_outside(link, name)
        return
    for part in (text, *_PARTS.split(text)):
        if not is_inside(part) and os.path.exists(part):  # noqa: PTH110 - for any name
            refuse_outside(part, name)


def _converted(kind: Any, value: Any) -> Any:
    if isinstance(value, list):
        return [_converted(_item_kind(kind), part) for part in value]
    return kind(value) if kind in {Path, int, float} or hasattr(kind, "__members__") else value
