"""`ship`: what is compiled on first use, compiled for a baseline, as platform wheels bring it.

    python -m owpc_ltr.api.shipping FOLDER

It is run while a wheel is built, in a process of its own: numba is told what to compile for before
it is imported.
"""

from __future__ import annotations

import json
import os
import platform
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from owpc_ltr.compiling.baseline import baseline_for
from owpc_ltr.errors import Refused

if TYPE_CHECKING:
    from owpc_ltr.api.warm_up import WarmedUp


def ship(folder: Path) -> tuple[str, WarmedUp]:
    """Compile everything into an empty folder; the baseline, and what was compiled."""
    baseline = baseline_for(platform.machine())
    if not baseline:
        raise Refused(f"cannot compile for wheels of {platform.machine()}: no baseline is known")
    if "numba" in sys.modules:
        raise Refused("cannot compile for wheels here: numba is imported; use a new process")
    if any(folder.iterdir()):
        raise Refused(f"cannot compile for wheels into '{folder}': it is not empty")
    settings = {"NUMBA_CPU_NAME": baseline, "NUMBA_CPU_FEATURES": ""}
    os.environ.update(settings, OWPC_LTR_SHIP_TO=str(folder))
    from owpc_ltr.api.warm_up import warm_up
    from owpc_ltr.compiling.places import leave_out_folders

    leave_out_folders()
    return baseline, warm_up()


def main() -> None:
    """Print one JSON object of what was done."""
    baseline, done = ship(Path(sys.argv[1]))
    import numba

    lost = [one.name for one in done.made if not one.kept]
    failures = [*done.failures, *(f"{name}: it cannot be kept" for name in lost)]
    told = {"baseline": baseline, "numba": numba.__version__, "failures": failures}
    print(json.dumps({**told, "functions": len(done.made), "seconds": round(done.seconds)}))


if __name__ == "__main__":
    main()
