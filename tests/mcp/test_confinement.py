"""No file that an agent's job reads or writes is outside of the folder, whatever names it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from types import NoneType
from typing import Any, get_args, get_type_hints

import pytest
from owpc_ltr_keep import plan as plans
from owpc_ltr_keep.plan import KeepPlan, read_plan

import owpc_ltr
from owpc_ltr.errors import Refused
from owpc_ltr.files.input import confined_to, open_regular, read_bytes
from owpc_ltr.files.output import Journal, lock_file, lock_folder, write_output
from owpc_ltr.host.project import PROJECT_FILE, Project
from owpc_ltr.signatures import Reads, Writes, described, help_of
from owpc_ltr.training.train import train
from tests.engine.write_world import World
from tests.mcp.agent import Agent

OUTSIDE = "is outside of the folder of this session"
PLAN = """
alias = "m"
index = "small"
featureset = "small"
{top}
[keep]
{keep}
[keep.train]
{train}
"""
NAMES_FILES = {
    "keep.folder": ("keep", "folder"),
    "query_template": ("", "query_template"),
    "judgments": ("", "judgments"),
    "train.validation": ("train", "validation"),
    "train.feature_cost": ("train", "feature_cost"),
}
"""The keys of a plan that name files, with their table."""


def plan_with(folder: Path, table: str, key: str, value: str) -> Path:
    """A plan whose key has this value; all else is in the folder."""
    (folder / "judgments.tsv").write_text("query\tdoc_id\tgrade\nq\td\t1\n")
    given = {"": {"judgments": "judgments.tsv"}, "keep": {"folder": "state"}, "train": {}}
    given[table] = {**given[table], key: value}
    lines = {
        name: "\n".join(f"{option} = {json.dumps(text)}" for option, text in keys.items())
        for name, keys in given.items()
    }
    path = folder / "plan.toml"
    path.write_text(PLAN.format(top=lines[""], keep=lines["keep"], train=lines["train"]))
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder, beside which there is a secret, to which a link and a linked folder lead."""
    folder = tmp_path / "folder"
    folder.mkdir()
    (tmp_path / "secret").mkdir()
    for name in ("secret.json", "secret/state.json"):
        (tmp_path / name).write_text('{"secret": "hunter2"}')
    (folder / "link").symlink_to(tmp_path / "secret.json")
    (folder / "linked").symlink_to(tmp_path / "secret")
    return folder


@pytest.mark.parametrize("path", ["../secret.json", "/etc/hostname", "link", "linked/new"])
@pytest.mark.parametrize("key", NAMES_FILES)
def test_a_plan_of_an_agent_names_no_file_outside(folder: Path, key: str, path: str) -> None:
    plan_with(folder, *NAMES_FILES[key], path)
    name = re.escape(key.rpartition(".")[2])
    with confined_to(folder), pytest.raises(Refused, match=f"^plan.toml: {name} .* {OUTSIDE}"):
        read_plan("plan.toml")
    if key != "judgments":
        # A person's plan may.
        assert read_plan(folder / "plan.toml").alias == "m"


REFUSED = {
    "notify": '[keep.notify]\ncommand = ["touch", "ran"]',
    "webhook": '[keep.notify]\nwebhook = "OWPC_LTR_WEBHOOK"',
    "url": 'url = "http://127.0.0.1:9"',
    "judged_by": 'judged_by = "people"',
    "accept": '[keep]\naccept = ["label-leak"]',
    "accept_loss": '[keep.gate]\naccept_loss = ["length: 1 word"]',
    "dask": '[keep.train]\ndask = "tcp://elsewhere:8786"',
    "drift": "[keep.watch]\ndrift = false",
    "max_bots": "[keep.watch]\nmax_bots = 1",
}


@pytest.mark.parametrize("key", REFUSED)
def test_a_plan_of_an_agent_runs_no_command_and_passes_over_no_check(
    folder: Path, key: str
) -> None:
    (folder / "judgments.tsv").write_text("query\tdoc_id\tgrade\nq\td\t1\n")
    top = 'alias = "m"\nindex = "small"\nfeatureset = "small"\njudgments = "judgments.tsv"\n'
    (folder / "plan.toml").write_text(f"{top}{REFUSED[key]}\n")
    name = "notify" if key == "webhook" else key
    with confined_to(folder), pytest.raises(Refused, match=f"'{name}' is for plans that people"):
        read_plan("plan.toml")


def test_what_a_plan_may_not_is_refused_before_anything_is_done(world: World, folder: Path) -> None:
    plan_with(folder, "keep", "folder", "../state")
    before, agent = sorted(folder.parent.rglob("*")), Agent(folder, allow_changes=True)
    assert OUTSIDE in agent.refused("keep", plan="plan.toml")
    with plan_with(folder, "keep", "folder", "state").open("a") as plan:
        plan.write(REFUSED["notify"])
    assert "'notify' is for plans that people run" in agent.refused("keep", plan="plan.toml")
    assert sorted(folder.parent.rglob("*")) == before


def test_tools_take_nothing_from_the_project_file_of_the_folder(world: World, folder: Path) -> None:
    agent = Agent(folder, allow_changes=True)
    (folder / PROJECT_FILE).write_text('data = "d.parquet"\nurl = "http://127.0.0.1:9"\nindex = ')
    assert "'data' is a required property" in agent.refused("train", out="m.json")
    assert agent.do("models_show")
    assert "name another one" in agent.refused("train", data="d.txt", out=f"./{PROJECT_FILE}")
    # It is the plan that is not named, of which agents may not say the address.
    assert f"cannot read {PROJECT_FILE}: " in agent.refused("keep")


def keys_of(kind: Any) -> Iterator[tuple[str, Any]]:
    """The keys of a table and of those in it, with their types."""
    for name, annotation in get_type_hints(kind).items():
        (inner,) = [
            alternative
            for alternative in get_args(annotation) or (annotation,)
            if alternative is not NoneType
        ][:1]
        if is_dataclass(inner):
            yield from keys_of(inner)
        yield name, annotation


def test_every_key_of_a_plan_is_for_agents_or_known_as_one_for_people() -> None:
    """A new one is neither, until somebody decides."""
    keys = {name for kind in (Project, KeepPlan) for name, _ in keys_of(kind)}
    keys |= described(train).parameters.keys() - plans._NOT_OF_A_PLAN
    for_agents = set(plans._FOR_AGENTS.split())
    assert keys - for_agents == {*REFUSED, "command"}
    assert keys >= for_agents


def test_every_file_of_a_plan_is_tried_above() -> None:
    marks = {name: help_of(parameter) for name, parameter in described(train).parameters.items()}
    of_train = {name for name, mark in marks.items() if isinstance(mark, Reads | Writes)}
    tried = {key.removeprefix("train.") for key in NAMES_FILES if key.startswith("train.")}
    assert of_train - plans._NOT_OF_A_PLAN == tried
    texts = {
        field.name
        for field in fields(KeepPlan)
        if get_type_hints(KeepPlan)[field.name] in {str, str | None}
    }
    no_files = {"alias", "index", "featureset", "url", "judged_by", "metric"}
    of_train = {key for key in NAMES_FILES if key.startswith("train.")}
    assert texts - no_files == {key.removeprefix("keep.") for key in {*NAMES_FILES} - of_train}


DOORS = {
    "open_regular": open_regular,
    "read_bytes": read_bytes,
    "write_output": lambda path: write_output(path, b"x"),
    "lock_file": lock_file,
    "lock_folder": lambda path: lock_folder(path, path),
    "journal": lambda path: Journal(path).append("key", 1),
}


@pytest.mark.parametrize("path", ["../secret.json", "link", "linked/new", "../new"])
@pytest.mark.parametrize("door", DOORS)
def test_no_file_is_opened_outside_while_an_agent_is_the_caller(
    folder: Path, door: str, path: str
) -> None:
    before = sorted(folder.parent.rglob("*"))
    with confined_to(folder), pytest.raises(Refused, match=OUTSIDE):
        DOORS[door](Path(path))  # type: ignore[operator]
    assert sorted(folder.parent.rglob("*")) == before
    assert (folder.parent / "secret.json").read_text() == '{"secret": "hunter2"}'


OPENS = re.compile(
    r"(?<![\w.])(?<!def )open\(|(?<!self)(?<!formatter)\.(open|(read|write)_(bytes|text)|"
    r"read_table|(from|to|mem)file|memmap|memory_map|load_model)\("
)
"""What opens a file by its name."""
OPENED = {
    "owpc_ltr/files/input.py": (2, "doors"),
    "owpc_ltr/files/output.py": (3, "doors"),
    "owpc_ltr/compiling.py": (2, "the library's own code"),
    "owpc_ltr/cli/program.py": (2, "of the process: the null device, and the traceback of a bug"),
    "owpc_ltr/cli/terminal.py": (4, "the null device"),
    "owpc_ltr/engine/client/settings.py": (1, "the user's configuration"),
    "owpc_ltr/engine/feature_log/log_features.py": (1, "judgments that a door has opened before"),
    "owpc_ltr/engine/feature_log/log.py": (
        3,
        "what it wrote, by its digest; a job, checked",
    ),
    "owpc_ltr/host/judgment_lists.py": (1, "a temporary folder"),
    "owpc_ltr/host/registry.py": (1, "plugin files, which are code"),
    "owpc_ltr/plugin_checks/readers.py": (2, "a temporary folder"),
    "plugins/owpc_ltr_clicks/counting.py": (2, "a temporary folder"),
    "plugins/owpc_ltr_clicks/ubi/snapshot.py": (1, "a temporary folder"),
    "plugins/owpc_ltr_papers/reproduce.py": (1, "what it wrote"),
}
"""How often files of the product open others without a door, and which ones."""
NO_JOBS_OF_AGENTS = {"owpc_ltr_node", "owpc_ltr_demo", "owpc_ltr_serve", "owpc_ltr_dask"}


def test_files_are_opened_by_the_doors_alone() -> None:
    root, places = Path(owpc_ltr.__file__).parents[1], {}
    for path in (*root.glob("owpc_ltr/**/*.py"), *root.glob("plugins/**/*.py")):
        # What a distribution has in itself is found by importlib.
        lines = [line for line in path.read_text().splitlines() if "files(" not in line]
        opens = sum(len(OPENS.findall(line)) for line in lines)
        if opens and not NO_JOBS_OF_AGENTS & set(path.parts):
            places[path.relative_to(root).as_posix()] = opens
    assert places == {path: number for path, (number, _) in OPENED.items()}
