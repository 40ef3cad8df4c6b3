"""The folders of the user's files that outlive a command."""

from __future__ import annotations

import os
from pathlib import Path


def state_folder() -> Path:
    """The folder `state` of the environment's OWPC_LTR_HOME, or the platform's own."""
    import platformdirs

    if home := os.environ.get("OWPC_LTR_HOME"):
        return Path(home).expanduser().absolute() / "state"
    return platformdirs.user_state_path("owpc-ltr", appauthor=False)
