"""Parameters of jobs that read datasets, each described once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from owpc_ltr.errors import UsageError
from owpc_ltr.signatures import Help

if TYPE_CHECKING:
    from owpc_ltr.data.partitioned.cache import Room

_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


def room_from(text: str | None) -> Room:
    """The room that 512M is, or 4G:half; without a word the usual one. Raises UsageError.

    >>> room_from("1.5G"), room_from("4096:half")
    (Room(size=1610612736, half=False), Room(size=4096, half=True))
    """
    from owpc_ltr.data.partitioned.cache import Room

    if text is None:
        return Room()
    amount, colon, kind = text.partition(":")
    number, unit = (amount[:-1], amount[-1].upper()) if amount[-1:].isalpha() else (amount, "")
    try:
        size = float(number) * _UNITS[unit]
    except (ValueError, KeyError):
        size = -1.0
    if not 0 <= size < 2**60 or (colon and kind != "half"):
        raise UsageError(
            f"'{text[:40]}' is no amount of memory: write it as 512M or 4G; 4G:half for half "
            "precision"
        )
    return Room(int(size), kind == "half")


MaxFeatures = Annotated[
    "int | None",
    Help(
        "The most features of LETOR text; default: 10000, more may be ids.",
        min=1,
        panel="Data",
    ),
]
Memory = Annotated[
    "int | Room | None",
    Help(
        "How much of a folder of parts stays in memory, as 4G; 4G:half: values rounded to 11 "
        "bits, twice as many; default: 512M.",
        cli=str,
        parse=room_from,
        metavar="SIZE",
        panel="Data",
    ),
]
