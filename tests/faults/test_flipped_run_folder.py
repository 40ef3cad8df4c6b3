"""One bit of a feature log's unfinished work flipped: it is logged again, or refused."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from owpc_ltr.engine.feature_log.snapshot import LogOptions
from owpc_ltr.errors import EngineUnavailable, OwpcLtrError
from tests.engine.memory_engine import MemoryEngine, log
from tests.faults.seeds import Seeds

OPTIONS = LogOptions(pause=0, chunk=5, in_flight=1)


def half_done(folder: Path) -> Path:
    """An output whose run was stopped by the engine after some of six chunks."""

    def away(number: int, _path: str, _body: Any, answer: Any) -> Any:
        if number > 14:
            raise EngineUnavailable("the engine does not answer")
        return answer

    folder.mkdir()
    out = folder / "movies.parquet"
    with pytest.raises(EngineUnavailable, match="kept"):
        log(MemoryEngine(fault=away), out, options=OPTIONS)
    return out


@pytest.mark.faults(sample=3)
@pytest.mark.filterwarnings("ignore:.* logged again")
@pytest.mark.parametrize("part", ["chunk-*", "job.json"])
def test_no_value_of_a_damaged_run_is_published(tmp_path: Path, seeds: Seeds, part: str) -> None:
    log(MemoryEngine(), tmp_path / "clean.parquet", options=OPTIONS)
    clean = (tmp_path / "clean.parquet").read_bytes()
    kept = half_done(tmp_path / "kept").parent
    done_again = refused = in_lines = 0
    for seed in seeds(sample=12, whole=2000):
        rng = np.random.default_rng(seed)
        copy = shutil.copytree(kept, tmp_path / "copy")
        work = copy / "movies.parquet.run"
        files = sorted(work.glob(part))
        path = files[int(rng.integers(len(files)))]
        content = bytearray(path.read_bytes())
        bit = int(rng.integers(len(content) * 8))
        content[bit // 8] ^= 1 << bit % 8
        path.write_bytes(content)
        try:
            log(MemoryEngine(), copy / "movies.parquet", options=OPTIONS)
        except OwpcLtrError as error:
            refused += 1
            in_lines += "\n" in str(error)
        else:
            assert (copy / "movies.parquet").read_bytes() == clean, f"bit {bit} of {path.name}"
            done_again += 1
        shutil.rmtree(copy)
    assert not in_lines
    # A description that means another job is not thrown away; all else is only work done again.
    assert (done_again if part != "job.json" else refused) > 0
