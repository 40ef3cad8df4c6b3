"""The build backend: hatchling's, whose wheels bring compiled code, and need what compiles it.

Editable installs and sdists are hatchling's own, and need nothing more. OWPC_LTR_PURE_WHEEL=1, or
the config setting `pure=1`, makes the wheel without compiled code, for any platform.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import hatchling.build
from hatchling.build import (
    build_editable,
    build_sdist,
    get_requires_for_build_editable,
    get_requires_for_build_sdist,
)
from hatchling.builders.wheel import WheelBuilder
from hatchling.metadata.core import ProjectMetadata
from hatchling.plugin.manager import PluginManager

__all__ = [
    "build_editable",
    "build_sdist",
    "build_wheel",
    "get_requires_for_build_editable",
    "get_requires_for_build_sdist",
    "get_requires_for_build_wheel",
    "prepare_metadata_for_build_wheel",
]


def get_requires_for_build_wheel(config_settings: dict[str, Any] | None = None) -> list[str]:
    """What the package needs to run: to be compiled, it is run."""
    _heed(config_settings)
    needed = hatchling.build.get_requires_for_build_wheel(config_settings)
    if os.environ.get("OWPC_LTR_PURE_WHEEL"):
        return needed
    return [*needed, *ProjectMetadata(str(Path.cwd()), PluginManager()).core.dependencies]


def prepare_metadata_for_build_wheel(
    metadata_directory: str, config_settings: dict[str, Any] | None = None
) -> str:
    """The metadata alone, without which pip would build the wheel twice."""
    _heed(config_settings)
    builder = WheelBuilder(str(Path.cwd()))
    folder = Path(metadata_directory, f"{builder.artifact_project_id}.dist-info")
    folder.mkdir(exist_ok=True)
    text = builder.config.core_metadata_constructor(builder.metadata)
    folder.joinpath("METADATA").write_text(text, encoding="utf-8")
    return folder.name


def build_wheel(
    wheel_directory: str,
    config_settings: dict[str, Any] | None = None,
    metadata_directory: str | None = None,
) -> str:
    """Hatchling's wheel; `hook.py` adds the compiled code."""
    _heed(config_settings)
    return hatchling.build.build_wheel(wheel_directory, config_settings, metadata_directory)


def _heed(config_settings: dict[str, Any] | None) -> None:
    """Settings reach the hook by the environment: hatchling hands them to nobody."""
    if (config_settings or {}).get("pure"):
        os.environ["OWPC_LTR_PURE_WHEEL"] = "1"
