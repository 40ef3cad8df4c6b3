"""How wheels are built: what that needs, and which are without compiled code."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]


def building(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "building" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(autouse=True)
def at_the_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("OWPC_LTR_PURE_WHEEL", "")


def needs_numba(requirements: list[str]) -> bool:
    return any(one.startswith("numba") for one in requirements)


def test_a_wheel_is_built_where_its_code_can_run() -> None:
    backend = building("backend")
    assert needs_numba(backend.get_requires_for_build_wheel())
    assert not needs_numba(backend.get_requires_for_build_editable())
    assert not needs_numba(backend.get_requires_for_build_sdist())


def test_a_setting_makes_the_wheel_without_compiled_code(tmp_path: Path) -> None:
    backend = building("backend")
    assert not needs_numba(backend.get_requires_for_build_wheel({"pure": "1"}))
    name = backend.build_wheel(str(tmp_path), {"pure": "1"})
    assert name.endswith("-py3-none-any.whl")


def test_metadata_is_told_without_compiling_anything(tmp_path: Path) -> None:
    folder = tmp_path / building("backend").prepare_metadata_for_build_wheel(str(tmp_path))
    assert "Name: owpc-ltr\n" in (folder / "METADATA").read_text()


def test_an_editable_install_gets_no_compiled_code() -> None:
    from hatchling.builders.wheel import WheelBuilder

    builder = WheelBuilder(str(ROOT))
    hook = building("hook").CompiledCode(
        str(ROOT), {}, builder.config, builder.metadata, "", "wheel", builder.app
    )
    data: dict[str, Any] = {"force_include": {}}
    hook.initialize("editable", data)
    hook.finalize("editable", data, "")
    assert data == {"force_include": {}}


def test_code_that_cannot_be_compiled_ends_the_build_in_words(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "there").write_text("something")
    with pytest.raises(RuntimeError, match="OWPC_LTR_PURE_WHEEL=1 makes a wheel without it"):
        building("hook")._ship(ROOT, tmp_path, tmp_path)
    assert "it is not empty" in capfd.readouterr().err
