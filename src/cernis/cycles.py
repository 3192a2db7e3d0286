"""A pause of Python's search for cycles of garbage, while many objects are made that stay.

Python searches all new objects for cycles again and again. Importing Cernis and Numba makes half a
million objects that live as long as the process: the searches took a sixth of a first answer.

Cost: garbage in cycles that is made during a pause stays until Python next searches the old
objects. To compile the kernels of a query with ordered values leaves 25 MB of it.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def make_lasting() -> Iterator[None]:
    """Let Python search for no cycles, and count the objects that are made as old ones.

    Else the first search afterwards goes through all of them, and the second as well. Within
    another pause, or where Python does not search anyway, this does nothing.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        if not gc.get_freeze_count():  # by others, which must stay so
            gc.freeze()
            gc.unfreeze()
        gc.enable()
