"""Broken promises of plugins, as one sentence with the numbers."""


def require(kept: object, sentence: str, *shown: object) -> None:
    """Raise AssertionError with the sentence unless the promise is kept, also under `python -O`.

    `shown` fills the places {} of the sentence, only when it is said: writing an array out
    takes longer than checking it.
    """
    if not kept:
        raise AssertionError(sentence.format(*shown) if shown else sentence)
