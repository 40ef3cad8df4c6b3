"""Every recorded answer of the LTR plugin is understood: a yes as it is, a no in its words."""

from __future__ import annotations

from urllib.parse import quote

from owpc_ltr.engine.client.engine import Engine
from owpc_ltr.engine.client.refusals import EngineRefusal
from owpc_ltr.engine.client.settings import ConnectionSettings
from tests.engine.fake_engine import FakeEngine, Reply
from tests.engine.recorded import (
    REFUSALS,
    Exchange,
)


def test_every_recorded_answer_is_understood(protocol: dict[str, Exchange]) -> None:
    """A yes gives what was recorded, a no its words; none passes for the other."""
    wrong = []
    with FakeEngine() as fake:
        engine = Engine(ConnectionSettings(fake.url))
        for number, exchange in protocol.items():
            if exchange.method == "HEAD":
                continue  # the client sends none
            path = quote(exchange.path)
            for method in ("GET", "PUT", "POST", "DELETE"):
                fake.on(method, "*", Reply(exchange.answer, exchange.status))
            body = exchange.body if isinstance(exchange.body, dict) else None
            try:
                answer = engine.request(exchange.method, path, params=exchange.params, body=body)
            except EngineRefusal as refusal:
                line = str(refusal)
                words = REFUSALS.get(number, "\0")
                good = words in line and line.isprintable() and refusal.status == exchange.status
            else:
                good = number not in REFUSALS and answer == exchange.answer
            if not good:
                wrong.append(number)
        engine.close()
    assert wrong == []
    assert len(protocol) == 243


def test_all_refusals_of_the_table_were_recorded(protocol: dict[str, Exchange]) -> None:
    assert {n for n, exchange in protocol.items() if exchange.status >= 400} == set(REFUSALS)
