"""As nobody, in namespaces of its own: nothing outside of a command's folder is written."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.faults.cells import Laboratory
from tests.faults.confinement import NoNamespaces, confined
from tests.faults.kills import Killer
from tests.faults.local_stages import LOCAL_STAGES
from tests.faults.running import Ended
from tests.faults.stages import STAGES

ROAD = ("index", "featureset push", "log-features", "upload", "verify", "search", "models rollback")

DatasetFacts = tuple[list[Ended], list[str], set[object]]
"""How commands ended, what they attempted outside of their folder, and to whom they spoke."""


def told_by(killer: Killer, commands: list[tuple[str, ...]], *, network: bool) -> DatasetFacts:
    """Run commands in a child that may write in the world's folder only."""
    world = killer.laboratory.world
    here, there = killer.context.Pipe(duplex=False)
    child = killer.context.Process(
        target=confined, args=(commands, world.folder, {"OWPC_LTR_URL": world.url}, there, network)
    )
    child.start()
    there.close()
    ended, attempts, peers = here.recv()
    child.join()
    if isinstance(ended, NoNamespaces):
        pytest.skip(f"this machine gives no namespaces to a user ({ended})")
    return ended, attempts, peers


def run_confined(killer: Killer, commands: list[tuple[str, ...]], *, network: bool) -> set[object]:
    """Run commands that must succeed and attempt nothing; whom they spoke to."""
    ended, attempts, peers = told_by(killer, commands, network=network)
    assert [(command.code, command.faults()) for command in ended] == [(0, [])] * len(commands), (
        ended
    )
    assert attempts == []
    return peers


@pytest.mark.faults(sample=0)
def test_commands_on_files_write_in_their_folder_and_speak_to_nobody(
    killer: Killer, laboratory: Laboratory
) -> None:
    for stage in LOCAL_STAGES:
        laboratory.clean(stage)  # which compiles what it needs
    laboratory.world.tidy()
    commands = [stage.command(laboratory.world) for stage in LOCAL_STAGES]
    assert run_confined(killer, commands, network=False) == set()
    for stage in LOCAL_STAGES:
        assert all((laboratory.world.folder / name).exists() for name in (stage.out,) if name)


@pytest.mark.faults
def test_the_road_writes_in_its_folder_and_speaks_to_the_cluster_alone(
    killer: Killer, laboratory: Laboratory
) -> None:
    world = laboratory.world
    world.restore(laboratory.first)
    world.tidy()
    commands = [stage.command(world) for stage in STAGES if stage.name in ROAD]
    where = urlsplit(world.url)
    peers = run_confined(killer, commands, network=True)
    assert peers <= {(where.hostname, where.port)}
    assert (world.folder / "data.parquet").exists()


@pytest.mark.faults(sample=0)
def test_who_writes_elsewhere_is_caught(killer: Killer, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere.json"
    words = ("export", "learnt-a.json", "--for", "opensearch", "--version", "3.8")
    ended, attempts, _ = told_by(killer, [(*words, "--out", str(elsewhere))], network=False)
    assert ended[0].code in {2, 4, 5}
    assert ended[0].faults() == []
    assert not elsewhere.exists()
    # It is told before anything is tried, or the attempt is seen.
    assert all(str(tmp_path) in attempt for attempt in attempts)
