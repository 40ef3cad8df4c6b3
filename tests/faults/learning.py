"""Judged queries that a linear model can learn from, small enough to train on in a moment."""

from __future__ import annotations

from pathlib import Path

import numpy as np

QUERIES, DOCUMENTS, FEATURES = 24, 8, 4


def write_letor(path: Path, seed: int = 11) -> None:
    """A LETOR file whose labels follow its first two features."""
    rng = np.random.default_rng(seed)
    lines = []
    for query in range(QUERIES):
        values = rng.uniform(0, 1, (DOCUMENTS, FEATURES))
        labels = np.digitize(values[:, 0] + 0.5 * values[:, 1], [0.6, 1.0])
        for document in range(DOCUMENTS):
            features = " ".join(
                f"{number}:{value:.4f}" for number, value in enumerate(values[document], 1)
            )
            lines.append(f"{labels[document]} qid:{query} {features} # d{query}-{document}")
    path.write_text("\n".join(lines) + "\n")
