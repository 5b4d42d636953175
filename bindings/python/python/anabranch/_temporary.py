"""The temporary directory with the scenarios of the package."""

from __future__ import annotations

from ._anabranch import close

_is_known = False


def clean_up() -> None:
    """Has it removed at the end of this process."""
    global _is_known
    if not _is_known:
        _is_known = True
        # Unlike atexit, this is also called in workers of multiprocessing, and not in forks of this process.
        from multiprocessing.util import Finalize

        Finalize(None, close, exitpriority=0)
