"""The recorded exchanges with the LTR plugin, and a server that replays them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from owpc_ltr.engine.client.engine import Engine
from owpc_ltr.engine.client.settings import ConnectionSettings
from tests.engine.fake_engine import FakeEngine
from tests.engine.recorded import Exchange, Replay, load_exchanges


@pytest.fixture(scope="session")
def protocol(shared_data: Path) -> dict[str, Exchange]:
    folder = shared_data.parent / "protocol" / "ltr-plugin"
    if not folder.is_dir():
        pytest.skip(f"no recorded exchanges at {folder}")
    return load_exchanges(folder)


@pytest.fixture
def replay(protocol: dict[str, Exchange]) -> Iterator[Callable[..., tuple[Engine, Replay]]]:
    """Call it with the numbers of the exchanges that may happen."""
    with FakeEngine() as fake:
        engine = Engine(ConnectionSettings(fake.url))

        def make(*numbers: str | Exchange) -> tuple[Engine, Replay]:
            exchanges = [protocol[n] if isinstance(n, str) else n for n in numbers]
            server = Replay(fake, exchanges)
            for method in ("GET", "PUT", "POST", "DELETE", "HEAD"):
                fake.on(method, "*", server)
            return engine, server

        yield make
        engine.close()
