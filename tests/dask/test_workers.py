"""Dask workers: the same bits for any number of them, whoever of them dies, or one line."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

import dask
import numpy as np
import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st
from owpc_ltr_dask import connection, use_workers
from owpc_ltr_dask.connection import DaskWorkers, batches, parse_place, placed, workers_at
from owpc_ltr_dask.on_worker import versions
from owpc_ltr_losses.lambdarank import LambdaRank
from owpc_ltr_losses.owpc import OWPC
from owpc_ltr_losses.pairwise import Pairwise
from owpc_ltr_optimizers.boosting import Boosting
from owpc_ltr_optimizers.bundle import Bundle

import owpc_ltr as ltr
from owpc_ltr import PartitionedDataset, RankingDataset
from owpc_ltr.arrays import Labels, Vector
from owpc_ltr.data.partitioned import Part, PartSelection
from owpc_ltr.errors import BadInput, PluginError, Refused, UsageError, WorkersUnavailable
from owpc_ltr.host.registry import load
from owpc_ltr.kernels.risk import RiskOfWeights
from owpc_ltr.protocols import Run
from tests.commands import Run as RunCommand
from tests.datasets import in_parts, learnable

pytestmark = pytest.mark.xdist_group("dask")
"""Workers are started once."""

PLUGIN = '''
"""A loss of a file."""
from dataclasses import dataclass, replace
from typing import ClassVar
import numpy as np
from owpc_ltr import hookimpl

@dataclass(frozen=True)
class Squares:
    """Half the squared distance of the scores from the labels."""
    name: ClassVar[str] = "squares"
    convex: ClassVar[bool] = True
    conservative: ClassVar[bool] = True
    smooth: ClassVar[bool] = True
    scale: float = 1.0

    def value_and_gradient(self, scores, labels, weights):
        rest = scores - self.scale * labels
        return 0.5 * float(rest @ (weights * rest)), weights * rest

@hookimpl
def ltr_losses():
    """Offer it."""
    return [Squares]
'''


@pytest.fixture(scope="module")
def cluster() -> Iterator[DaskWorkers]:
    """Workers of our own, none of whose processes is left at the end."""
    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 1}),
        use_workers("local:1") as local_workers,
    ):
        yield local_workers
        children = psutil.Process().children(recursive=True)
        # Python's own tracker of resources lasts as long as this process.
        processes = [process for process in children if "spawn_main" in " ".join(process.cmdline())]
        assert processes
    assert not psutil.wait_procs(processes, timeout=10)[1]


def scaled(cluster: DaskWorkers, number: int) -> DaskWorkers:
    """So many of them, those that a test before has ended being there again."""
    cluster.client.cluster.scale(number)
    cluster.client.wait_for_workers(number)
    while len(cluster.calls.workers()) > number:
        time.sleep(0.05)
    return cluster


@pytest.fixture
def workers(cluster: DaskWorkers) -> DaskWorkers:
    """Two of them."""
    return scaled(cluster, 2)


@pytest.fixture
def parts(tmp_path: Path) -> PartitionedDataset:
    dataset = in_parts(learnable(), tmp_path / "parts")
    assert len(dataset.pieces) > 8
    return dataset


@dataclass(frozen=True)
class Deadly:
    """The distance from the labels; a process other than `spared` dies of it, at least the first.

    Of those that come after the one that made the file `once` none does.
    """

    name: ClassVar[str] = "deadly"
    convex: ClassVar[bool] = True
    conservative: ClassVar[bool] = True
    smooth: ClassVar[bool] = True

    spared: int = 0
    once: str | None = None

    def value_and_gradient(
        self, scores: Vector, labels: Labels, weights: Labels
    ) -> tuple[float, Vector]:
        if os.getpid() != self.spared and scores.any():
            if self.once is None:
                os.kill(os.getpid(), signal.SIGKILL)
                raise AssertionError
            with contextlib.suppress(FileExistsError):
                os.close(os.open(self.once, os.O_CREAT | os.O_EXCL))
                os.kill(os.getpid(), signal.SIGKILL)
        rest = scores - labels
        return 0.5 * float(rest @ (weights * rest)), weights * rest


def bits(fit: Any) -> tuple[str, str]:
    return str(fit.model.as_dict()), repr(fit.certificate)


# What needs no worker.


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("local:1", 1),
        ("local:64", 64),
        ("tcp://node-7.cluster:8786", "tcp://node-7.cluster:8786"),
        ("tls://[::1]:8786", "tls://[::1]:8786"),
    ],
)
def test_a_place_is_read(text: str, place: object) -> None:
    assert parse_place(text) == place


@pytest.mark.parametrize(
    "text", ["", "local", "local:0", "local:-1", "local:9999", "node:8786", "http://a:1", "tcp://a"]
)
def test_what_names_no_place_is_refused_in_one_line(text: str) -> None:
    with pytest.raises(UsageError, match=r"local:N .* tcp://HOST:8786$"):
        parse_place(text)


@given(
    sizes=st.dictionaries(st.integers(0, 99), st.integers(1, 50), min_size=1),
    workers=st.sets(st.sampled_from("abcdef"), min_size=1),
    gone=st.sampled_from("abcdef"),
)
def test_parts_are_shared_evenly_and_stay_where_they_are(
    sizes: dict[int, int], workers: set[str], gone: str
) -> None:
    homes = placed(sizes, list(workers), {})
    assert homes.keys() == sizes.keys()
    assert set(homes.values()) <= workers
    loads = [sum(sizes[p] for p in sizes if homes[p] == worker) for worker in workers]
    assert max(loads) - min(loads) <= max(sizes.values())
    assert placed(sizes, list(workers), homes) == homes
    left = workers - {gone}
    if left:
        after = placed(sizes, list(left), homes)
        assert set(after.values()) <= left
        share = sum(sizes.values()) / len(left)
        for worker in left:
            load_ = sum(sizes[p] for p in sizes if after[p] == worker)
            assert load_ <= 1.1 * share + max(sizes.values())


@given(st.lists(st.integers(1, 400_000), min_size=1, max_size=60), st.integers(1, 5))
def test_a_pass_is_cut_into_like_steps_of_parts_in_their_order(
    sizes: list[int], workers: int
) -> None:
    pieces = _pieces(sizes)
    steps = batches(pieces, workers)
    assert [piece for step in steps for piece in step] == pieces
    assert all(steps)
    documents = [sum(piece.documents for piece in step) for step in steps]
    like = min(1_000_000, sum(sizes) / (4 * workers))
    assert max(documents) <= like + max(sizes)
    if max(sizes) <= like / 2:
        assert len(steps) >= 4 * workers
        assert len(steps) % workers == 0


def _pieces(sizes: Sequence[int]) -> list[PartSelection]:
    """Whole parts of so many documents."""
    return [
        PartSelection(Part(f"{k}.parquet", 0, 1, size, "", (0.0, 1.0)), None, 1, size)
        for k, size in enumerate(sizes)
    ]


def test_without_dask_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("owpc_ltr_dask.find_spec", lambda _: None)
    with pytest.raises(UsageError, match=r"owpc-ltr\[dask\]"), use_workers("local:2"):
        pass


def test_a_scheduler_that_does_not_answer_is_told_in_one_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connection, "CONNECT", 0.5)
    with (
        pytest.raises(WorkersUnavailable, match="no Dask scheduler answers at tcp:"),
        use_workers("tcp://127.0.0.1:9"),
    ):
        pass
    assert WorkersUnavailable.exit_code == 4


# What needs workers.


@pytest.mark.thorough
def test_a_script_that_asks_for_workers_where_they_import_it_is_told_how(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("import owpc_ltr as ltr\nwith ltr.use_workers('local:1'):\n    pass\n")
    done = subprocess.run(
        [sys.executable, script], capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 1
    assert "WorkersUnavailable" in done.stderr.splitlines()[-1]
    assert "under `if __name__ == '__main__':`" in done.stderr.splitlines()[-1]
    # The processes themselves say nothing.
    assert "freeze_support" not in done.stderr
    assert "__mp_main__" not in done.stderr


@pytest.mark.thorough
def test_any_number_of_workers_gives_the_same_bits(
    cluster: DaskWorkers, parts: PartitionedDataset
) -> None:
    bundle, loss = Bundle(passes=2), OWPC()
    alone = bits(bundle.minimise(loss, parts, Run()))
    data = cluster.parts(parts)
    # Others come while there is work, and some leave.
    for number in (1, 3, 2):
        scaled(cluster, number)
        assert bits(bundle.minimise(loss, data, Run())) == alone


def test_a_pass_on_workers_is_that_of_one_process(
    workers: DaskWorkers, parts: PartitionedDataset
) -> None:
    rng = np.random.default_rng(0)
    data = workers.parts(parts)
    for loss in (OWPC(), Pairwise(inner="logistic")):
        here, there = RiskOfWeights(loss, parts), RiskOfWeights(loss, data)
        w, step = rng.normal(size=(2, parts.n_features))
        risk, gradient = here.value_and_gradient(w)
        assert there.value_and_gradient(w)[0] == risk
        assert there.value_and_gradient(w)[1].tolist() == gradient.tolist()
        shares = np.array([0.0, 0.5, 2.0])
        for row, other in zip(
            here.along(w, step, shares), there.along(w, step, shares), strict=True
        ):
            assert row.tolist() == other.tolist()


@pytest.mark.thorough
def test_sides_and_chosen_queries_are_gone_through_alike(
    workers: DaskWorkers, parts: PartitionedDataset
) -> None:
    data = workers.parts(parts)
    odd = np.arange(1, parts.n_queries, 2)
    for here, there in (
        (parts.split().training, data.split().training),
        (parts.split(0.13, 0.29).test, data.split(0.13, 0.29).test),
        (parts.select(odd), data.select(odd)),
        (parts.without_missing(), data.without_missing()),
    ):
        assert list(there.each(digest)) == list(here.each(digest))
        assert list(there.each(digest, whole=True)) == list(here.each(digest, whole=True))


def digest(part: RankingDataset) -> tuple[str, int]:
    return part.fingerprint, part.n_documents


@pytest.mark.thorough
def test_a_trained_model_and_its_figures_have_the_same_bytes(
    workers: DaskWorkers, parts: PartitionedDataset
) -> None:
    def trained(data: PartitionedDataset, optimizer: str) -> Any:
        sides = data.split()
        return ltr.train(
            sides.training, validation=sides.validation, optimizer=optimizer,
            loss="pairwise", settings={"inner": "logistic"}, grid={"C": "1e-1..1e1"},
        )  # fmt: skip

    for optimizer in ("bundle", "gradient"):
        here, there = trained(parts, optimizer), trained(workers.parts(parts), optimizer)
        assert (there.as_dict(), there.record) == (here.as_dict(), here.record)
    evaluation, other = (
        ltr.evaluate(here, data, split="all") for data in (parts, workers.parts(parts))
    )
    assert evaluation.table == other.table


@pytest.mark.thorough
def test_candidates_on_workers_give_the_same_rows(
    workers: DaskWorkers, parts: PartitionedDataset, tmp_path: Path
) -> None:
    how: dict[str, Any] = {
        "optimizers": ["bundle"], "losses": ["owpc", "pairwise"], "grid": {"C": "1e-1..1e0"},
        "folds": 3,
    }  # fmt: skip
    here = ltr.select(parts, journal=tmp_path / "here", **how)
    there = ltr.select(parts, journal=tmp_path / "there", workers=workers, **how)
    assert there == here
    kept = [sorted((tmp_path / name).read_text().splitlines()) for name in ("here", "there")]
    assert kept[0] == kept[1]
    with pytest.raises(UsageError, match="owpc-ltr partition"):
        ltr.select(parts.load(), workers=workers, **how)


@pytest.mark.thorough
def test_a_loss_of_a_plugin_file_is_had_by_workers(
    cluster: DaskWorkers, workers: DaskWorkers, parts: PartitionedDataset, tmp_path: Path
) -> None:
    file = tmp_path / "squares.py"
    file.write_text(PLUGIN)
    squares = load([file]).find("loss", "squares")(2.0)
    with pytest.raises(PluginError, match=r"lacks code .*owpc_ltr_file_squares"):
        RiskOfWeights(squares, workers.parts(parts)).value_and_gradient(np.zeros(5))
    with use_workers_of(cluster, file) as other:
        # It is loaded from what was sent, not from where it was.
        file.unlink()
        there = RiskOfWeights(squares, other.parts(parts)).value_and_gradient(np.ones(5))
    here = RiskOfWeights(squares, parts).value_and_gradient(np.ones(5))
    assert (there[0], there[1].tolist()) == (here[0], here[1].tolist())
    broken = tmp_path / "broken.py"
    broken.write_text("import not_installed_there")
    with (
        pytest.raises(Refused, match=r"worker tls://\S+ cannot take part: .*not_installed_there"),
        use_workers_of(cluster, broken),
    ):
        pass


@contextlib.contextmanager
def use_workers_of(cluster: DaskWorkers, *plugins: Path) -> Iterator[DaskWorkers]:
    """The same processes, which are sent these files."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            connection, "_client", lambda _: contextlib.nullcontext((cluster.client, "local:2"))
        )
        with workers_at(2, plugins) as own_workers:
            yield own_workers


@pytest.mark.thorough
def test_a_fault_in_a_loss_travels_from_a_worker(
    workers: DaskWorkers, parts: PartitionedDataset
) -> None:
    class Broken(Deadly):
        def value_and_gradient(
            self, scores: Vector, labels: Labels, weights: Labels
        ) -> tuple[float, Vector]:
            raise ZeroDivisionError("mine")

    with pytest.raises(ZeroDivisionError, match="mine") as caught:
        RiskOfWeights(Broken(), workers.parts(parts)).value_and_gradient(np.ones(5))
    assert "value_and_gradient" in caught.value.__notes__[0]


@pytest.mark.thorough
def test_what_cannot_be_sent_is_refused_in_one_line(
    workers: DaskWorkers, parts: PartitionedDataset
) -> None:
    lock = threading.Lock()
    with pytest.raises(UsageError, match="cannot be sent to them"):
        list(workers.parts(parts).each(lambda part: (part.n_queries, lock)))


@pytest.mark.thorough
def test_a_worker_without_what_is_called_is_named(
    workers: DaskWorkers, parts: PartitionedDataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = ModuleType("only_here")
    monkeypatch.setitem(sys.modules, "only_here", module)
    exec("def count(part):\n    return 1", vars(module))  # noqa: S102 - a module of the driver's
    with pytest.raises(PluginError, match=r"worker tls://127.0.0.1:\d+ lacks code .*only_here"):
        list(workers.parts(parts).each(module.count))


@pytest.mark.thorough
@pytest.mark.parametrize("what", ["missing", "another"])
def test_a_worker_that_sees_another_folder_is_refused(
    workers: DaskWorkers, parts: PartitionedDataset, tmp_path: Path, what: str
) -> None:
    # The folder that this process has opened is another one by the time that the workers look.
    other = in_parts(learnable(seed=1), tmp_path / "other")
    manifest = parts.files.folder / "_manifest.json"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(connection, "open_partitioned", lambda _: parts)
        if what == "missing":
            manifest.unlink()
        else:
            shutil.copytree(other.files.folder, parts.files.folder, dirs_exist_ok=True)
        reasons = {
            "missing": "folder without _manifest.json",
            "another": "is another dataset there",
        }
        with pytest.raises(Refused, match=rf"worker tls://\S+ cannot take part: .*{reasons[what]}"):
            workers.parts(parts)


@pytest.mark.thorough
def test_a_worker_of_another_version_is_refused(
    workers: DaskWorkers, parts: PartitionedDataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "versions", lambda: {**versions(), "numba": "0.0.1"})
    with pytest.raises(Refused, match=r"cannot take part: it has numba .* the command has 0.0.1"):
        workers.parts(parts)


@pytest.mark.thorough
def test_a_damaged_part_is_told_with_the_worker_that_has_it(
    workers: DaskWorkers, parts: PartitionedDataset
) -> None:
    path = parts.files.folder / parts.pieces[3].part.path
    path.write_bytes(path.read_bytes()[:-50])
    with pytest.raises(BadInput, match=rf"worker tls://\S+: cannot read {path}"):
        list(workers.parts(parts).each(digest))


@pytest.mark.thorough
def test_nobody_else_can_use_or_see_the_workers(
    workers: DaskWorkers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither the scheduler nor a worker answers who has not this command's certificate."""
    here = psutil.Process()
    ports = {
        listener.laddr.port
        for process in (here, *here.children(recursive=True))
        for listener in process.net_connections("tcp")
        if listener.status == "LISTEN"
    }
    assert len(ports) >= 5
    for port in ports:
        with socket.create_connection(("127.0.0.1", port), timeout=5) as plain:
            plain.sendall(b"GET /info/main/workers.html HTTP/1.0\r\n\r\n")
            with contextlib.suppress(OSError):
                assert not plain.recv(100).startswith(b"HTTP/1.1 200")
    monkeypatch.setattr(connection, "CONNECT", 1.0)
    address = workers.client.scheduler_info()["address"].replace("tls:", "tcp:")
    with pytest.raises(WorkersUnavailable), use_workers(address):
        pass


@pytest.mark.thorough
@pytest.mark.parametrize("objective", ["loss", "rank:ndcg", "loss of weighed queries"])
def test_trees_are_the_same_for_any_number_of_workers(
    workers: DaskWorkers, tmp_path: Path, objective: str
) -> None:
    data = learnable(120)
    objective, _, weighed = objective.partition(" of ")
    data = data if weighed else replace(data, query_weights=None)
    sides = workers.parts(in_parts(data, tmp_path / "parts")).split()
    settings: dict[str, Any] = {"objective": objective, "trees": 5, "depth": 3, "leaf": 1.0}
    run = Run(validation=sides.validation, metric="ndcg@10")
    fits = []
    everybody = workers.calls.workers()
    assert len(everybody) == 2
    for some in (everybody, everybody[:1]):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(workers.calls, "workers", lambda some=some: some)
            fits.append(Boosting(**settings).minimise(LambdaRank(), sides.training, run))
    assert bits(fits[0]) == bits(fits[1])
    assert fits[0].history == fits[1].history
    alone = replace(sides.training, workers=None), replace(sides.validation, workers=None)
    here = Boosting(**settings).minimise(LambdaRank(), alone[0], replace(run, validation=alone[1]))
    # The bins are cut by a sample there, by all data here.
    for row, other in zip(fits[0].history, here.history, strict=True):
        assert row["validation"] == pytest.approx(other["validation"], abs=0.05)


SCHEDULER = """
import sys
from distributed import LocalCluster
with LocalCluster(n_workers=1, threads_per_worker=2, processes=False, protocol="tcp",
                  dashboard_address=None) as cluster:
    print(cluster.scheduler_address, flush=True)
    sys.stdin.readline()
    for worker in cluster.workers.values():
        cluster.sync(worker.close)
    sys.stdin.read()
"""


@pytest.mark.thorough
def test_a_scheduler_of_somebody_else_is_used_and_one_that_ends_is_told(
    parts: PartitionedDataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "CONNECT", 3.0)
    words = [sys.executable, "-c", SCHEDULER]
    other = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert other.stdout is not None
    assert other.stdin is not None
    try:
        with use_workers(other.stdout.readline().strip()) as workers:
            risk = RiskOfWeights(Pairwise(), workers.parts(parts))
            w = np.ones(parts.n_features)
            evaluated = risk.value_and_gradient(w)
            assert evaluated[0] == RiskOfWeights(Pairwise(), parts).value_and_gradient(w)[0]
            workers.calls.patience = 0.2
            other.stdin.write("\n")
            other.stdin.flush()
            deadline = time.monotonic() + 60
            while workers.client.nthreads():
                assert time.monotonic() < deadline
                time.sleep(0.1)
            with pytest.raises(WorkersUnavailable, match=r"has had no worker .* dask worker tcp:"):
                risk.value_and_gradient(w)
            other.kill()
            with pytest.raises(WorkersUnavailable, match=r"does not answer any more|no worker"):
                risk.value_and_gradient(w)
    finally:
        other.kill()
        other.communicate()


SLOW = PLUGIN.replace(
    "        rest = scores", "        import time; time.sleep(0.2)\n        rest = scores"
)


@pytest.mark.thorough
def test_a_stopped_command_leaves_no_process_and_no_file(
    parts: PartitionedDataset, tmp_path: Path
) -> None:
    (tmp_path / "squares.py").write_text(SLOW)
    words = ["train", parts.files.folder, "--out", "model.json", "--dask", "local:2"]
    words += ["--optimizer", "bundle", "--loss", "squares", "--plugin", "squares.py"]
    with subprocess.Popen(
        [sys.executable, "-m", "owpc_ltr", *map(str, words)],
        cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
    ) as command:  # fmt: skip
        process, deadline = psutil.Process(command.pid), time.monotonic() + 60
        # Long enough for them to be at work, since each pass takes seconds.
        while sum(child.cpu_times().user > 1 for child in process.children(recursive=True)) < 2:
            assert time.monotonic() < deadline
            time.sleep(0.1)
        children = process.children(recursive=True)
        # As a terminal sends it: to the workers as well.
        os.killpg(command.pid, signal.SIGINT)
        out, err = command.communicate(timeout=60)
    assert command.returncode == 130, err
    assert err.decode().strip().count("\n") == 0, err
    assert out == b""
    assert not psutil.wait_procs(children, timeout=10)[1]
    assert not (tmp_path / "model.json").exists()


@pytest.mark.filterwarnings("ignore:.* have one document :owpc_ltr.errors.OwpcLtrWarning")
@pytest.mark.parametrize("command", ["train", "select"])
def test_data_that_workers_cannot_go_through_are_refused_before_any_is_started(
    run: RunCommand, command: str, tmp_path: Path
) -> None:
    data = tmp_path / "data.parquet"
    ltr.save_dataset(learnable(20), data)
    words = ("--out", str(tmp_path / "new.json")) if command == "train" else ()
    code, out, err = run(command, str(data), *words, "--dask", "local:2")
    assert (code, out) == (2, "")
    assert f"owpc-ltr partition {data} --out FOLDER" in err
    assert err.strip().count("\n") == 0


@pytest.mark.thorough
def test_a_worker_that_is_killed_costs_its_parts_and_no_bit(
    workers: DaskWorkers, parts: PartitionedDataset, tmp_path: Path
) -> None:
    bundle = Bundle(passes=2)
    loss = Deadly(os.getpid(), once=str(tmp_path / "killed"))
    alone = bits(bundle.minimise(loss, parts, Run()))
    assert not (tmp_path / "killed").exists()
    assert bits(bundle.minimise(loss, workers.parts(parts), Run())) == alone
    assert (tmp_path / "killed").exists()


@pytest.mark.thorough
def test_a_worker_that_dies_while_trees_grow_has_the_others_begin_again(
    workers: DaskWorkers, tmp_path: Path
) -> None:
    data = workers.parts(in_parts(learnable(), tmp_path / "parts"))
    boosting = Boosting(trees=3, depth=2, leaf=1.0)
    killed = tmp_path / "killed"
    killed.touch()
    spared = boosting.minimise(Deadly(once=str(killed)), data, Run())
    killed.unlink()
    assert bits(boosting.minimise(Deadly(once=str(killed)), data, Run())) == bits(spared)
    assert killed.exists()


@pytest.mark.thorough
def test_work_that_ends_every_worker_is_told_in_one_line(
    workers: DaskWorkers, parts: PartitionedDataset
) -> None:
    risk = RiskOfWeights(Deadly(os.getpid()), workers.parts(parts))
    with pytest.raises(WorkersUnavailable, match="ended 2 workers, one after another"):
        risk.value_and_gradient(np.ones(parts.n_features))
