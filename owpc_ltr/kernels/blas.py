"""Products of small matrices on one thread, whatever the environment says.

More BLAS threads than free cores wait for each other, and make the small products of a fit tens of
times slower; and the number of threads changes the last bits of a sum.

Only libraries that are loaded already are held to it: plugins that call scipy's import it at their
top, for they are loaded before a fit begins.
"""

from __future__ import annotations

from contextlib import AbstractContextManager

from threadpoolctl import threadpool_limits


def one_blas_thread() -> AbstractContextManager[object]:
    """A block of work on one thread of BLAS; the limits from before come back at its end."""
    limits: AbstractContextManager[object] = threadpool_limits(limits=1, user_api="blas")
    return limits
