"""`kill -9` at counted steps: what a command leaves behind, and what it comes to when repeated."""

from __future__ import annotations

import multiprocessing
import random
import signal
from dataclasses import dataclass, field
from multiprocessing.context import ForkServerContext, ForkServerProcess
from typing import Any

from tests.faults.cells import Laboratory, small_chunks
from tests.faults.promises import OLD, broken_when_repeated, half_done, is_done
from tests.faults.running import Ended
from tests.faults.stage import Clean, Stage, made
from tests.faults.traps import STEPS, Trap, trapped
from tests.faults.world import World

KILL = "kill -9"
KILLED_STAGES = (
    *("index", "index --recreate", "index --append", "log-features", "upload", "models rollback"),
    *("train", "select", "judge clicks", "judge clicks --from-ubi"),
)
KILLED = 128 + signal.SIGKILL


def children() -> ForkServerContext:
    """Processes in which everything is loaded: a kill strikes the work, not the start."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.faults.warmed"])
    return context


@dataclass
class Killer:
    """Kills commands in the laboratory, and knows how many steps each of them has."""

    laboratory: Laboratory
    context: ForkServerContext = field(default_factory=children)
    _steps: dict[str, dict[str, int]] = field(default_factory=dict)

    def round(self, stage: Stage, seed: int, most: int) -> tuple[int, list[str]]:
        """Kill a command up to `most` times, each time repeated; then let it come to its end.

        Returned are how often it was killed, and the promises that it broke.
        """
        chance = random.Random(f"{stage.name}:{seed}")  # noqa: S311
        steps = self.steps(stage)
        usable = [step for step in STEPS if steps[step]]
        clean, world = self.laboratory.clean(stage), self.laboratory.world
        kills, problems = 0, list[str]()
        for _ in range(most):
            if is_done(stage, world, clean):
                break
            step = chance.choice(usable)
            ended = self.struck(stage, Trap(step, chance.randint(1, steps[step])))
            if ended.code != KILLED:
                if ended.code:
                    outcome = f"exit code {ended.code}: {ended.err}"
                    problems.append(f"repeated after {kills} kills: {outcome}")
                break
            kills += 1
            problems += [
                f"kill {kills} at a {step}: {problem}" for problem in left(stage, world, clean)
            ]
        with small_chunks():
            problems += broken_when_repeated(stage, world, clean, killed=True)
        return kills, problems

    def steps(self, stage: Stage) -> dict[str, int]:
        """How many steps of each kind the command has when nothing goes wrong."""
        known = self._steps.get(stage.name)
        if known is None:
            self.laboratory.clean(stage)
            here, there = self.context.Pipe()
            child = self._started(stage, [Trap(step) for step in STEPS], there)
            # A child that dies ends the wait.
            there.close()
            ended, known = here.recv()
            child.join()
            assert (ended.code, ended.faults()) == (0, []), ended
            self._steps[stage.name] = known
        return known

    def struck(self, stage: Stage, trap: Trap) -> Ended:
        """How the command ended; what a killed one printed is lost."""
        here, there = self.context.Pipe(duplex=False)
        child = self._started(stage, [trap], there)
        there.close()
        try:
            ended: Ended = here.recv()[0]
        except EOFError:
            ended = None  # type: ignore[assignment]
        child.join()
        code = child.exitcode
        child.close()
        here.close()
        assert code is not None
        return ended or Ended(code if code >= 0 else 128 - code, "", "")

    def _started(self, stage: Stage, traps: list[Trap], pipe: Any = None) -> ForkServerProcess:
        world = self.laboratory.world
        place = (stage.command(world), world.folder, {"OWPC_LTR_URL": world.url})
        child = self.context.Process(target=trapped, args=(*place, traps, pipe))
        child.start()
        return child


def left(stage: Stage, world: World, clean: Clean) -> list[str]:
    """What a killed command has left that it must not leave."""
    state, _, published = made(stage, world, Ended(KILLED, "", ""))
    problems = list(half_done(clean, state))
    if stage.out and published not in (OLD, clean.published):
        problems.append("the file is neither the old nor the new")
    return problems
