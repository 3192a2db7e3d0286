"""A pause of Python's search for cycles of garbage, while many objects are made that stay.

Python searches all new objects for cycles again and again. Importing Cernis and Numba makes half a
million objects that live as long as the process: the searches took a sixth of a first answer.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def pause_cycle_search() -> Iterator[None]:
    """Let Python search for no cycles, unless it does not anyway."""
    searches = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if searches:
            gc.enable()


@contextmanager
def make_lasting() -> Iterator[None]:
    """Pause the search, and count the objects that were made as old ones.

    Else the first search after the pause goes through all of them, and the second as well.
    """
    with pause_cycle_search():
        yield
        if not gc.get_freeze_count():
            gc.freeze()
            gc.unfreeze()
