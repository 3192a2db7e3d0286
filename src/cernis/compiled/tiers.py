"""Run the first events of a process as plain Python, and compile when more come.

Compiling the kernels of a query takes seconds, once on a machine, and loading compiled ones a
fifth of a second. The same source as plain Python reads thousands of events in that time. So a
process starts *cold*: the kernels that Python calls run as plain Python. After some events, or
some time, it is *warm*: kernels that are in the cache on disk are loaded, the others still run as
plain Python. After more it is *hot*, for good: every kernel is compiled, and a call costs no more
than without this module.

Both ways read and write the same arrays, so the way may change between any two calls. One call
cannot change its way: engines cut a batch into small pieces while kernels may be interpreted
(`cut_events`), and a reader of events says how many they are before it calls a kernel
(`expect_events`). Many events need a few kernels only: those that step and count. A kernel that
lists the twenty matches of a table, or drops dead records now and then, has little to do. It runs
as plain Python in a hot process too, until it has taken a quarter of a second (`call_briefly`).
A kernel that counts may have far more to do than there are events. It is compiled after a quarter
of a second even where the process is cold (`call_patiently`).

Kernels that go over a column have another form, of NumPy or Arrow. It takes a few times as long for
a row as compiled code does, and a hundredth of plain Python: it runs instead of them, cold or hot,
until it has taken half a second (`arrays_first`).

Cost contract: in the whole life of a process, plain Python takes at most about as long as
compiling would. To compile a sequence takes a second, what compares events three to twelve, by the
indexes that the plan uses (`expect_compiling`), and SPAseQ 15 to 20. As plain Python 80,000 events
of these take half a second to four seconds: that many are read so, and for more kernels are
compiled at once. Where the first 2,000 events of a batch show that all of it would take longer than
compiling, the rest is compiled (`cut_events`): the next process loads the code.

Turned down: compiling in a background thread. The compiler holds the interpreter lock, so that a
short query would take longer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache, partial
from time import perf_counter, thread_time
from typing import Any, TypeVar

import numpy as np
from numba.core import event as compiler_event
from numba.core.registry import CPUDispatcher as _CPUDispatcher
from numpy.typing import NDArray

from cernis.compiled.plain import call_plain

CPUDispatcher: Any = _CPUDispatcher
Answer = TypeVar("Answer")

_FEW_EVENTS, _MANY_EVENTS = 2_000, 80_000
_SHORT, _MORE = 0.1, 1.0
_PRICE = 2.0
_FIRST_PIECE, _PIECE = 64, 2_048
_LITTLE_WORK = 2_000
_PATIENCE, _PATIENCE_WITH_ARRAYS = 0.25, 0.5
_LOADING = 0.02
_OFTEN = 32
LONG_COMPILING = 2.0
_ONCE = "once on this machine; `cernis warm` does it ahead of the first query"
COMPILING = f"the engine is being compiled, {_ONCE}"
COMPILED = f"the engine was compiled, {_ONCE}"


class Warmth:
    """How much a process has read and interpreted; `WARMTH` is this process' own."""

    def __init__(self) -> None:
        self.events = 0
        self.seconds = 0.0
        self.price = _PRICE
        """About how many seconds it takes to compile the kernels that step."""
        self.is_hot = False
        self.compiles_all = False
        """Whether kernels that have little to do are compiled too."""

    @property
    def is_cold(self) -> bool:
        return self.events <= _FEW_EVENTS and self.seconds <= _SHORT and not self.is_hot

    def add(self, events: int = 0, seconds: float = 0.0) -> None:
        """Count events to come, or time spent."""
        if not self.is_hot:
            self.events += events
            self.seconds += seconds
            if self.events > _MANY_EVENTS or self.seconds > self.price + _MORE:
                _heat()


WARMTH = Warmth()
_kernels: list[TieredKernel] = []
_missing: set[tuple[Any, tuple[Any, ...]]] = set()
"""Kernels, with the types of arguments, that are not in the cache on disk."""
_found: dict[int, int] = {}
"""How often in a row each kernel was compiled already: asking takes as long as a small batch."""
_brief: dict[int, float] = {}
"""The seconds that each kernel has taken in brief calls of a hot process, or as arrays."""


class TieredKernel(CPUDispatcher):  # type: ignore[misc]
    """A kernel that runs as plain Python while the process is cold, or warm and has not got it.

    Numba sees its own kind of object, so kernels that call this one are compiled as always.
    """

    def __call__(self, *args: Any) -> Any:
        return interpret(self, args) if self.is_plain(args) else super().__call__(*args)

    def is_plain(self, args: tuple[Any, ...]) -> bool:
        """Return whether this call runs as plain Python."""
        if WARMTH.is_cold or WARMTH.is_hot or _found.get(id(self), 0) > _OFTEN:
            return WARMTH.is_cold
        is_compiled = _is_compiled(self, args)
        _found[id(self)] = _found.get(id(self), 0) + 1 if is_compiled else 0
        return not is_compiled


def _is_compiled(kernel: Any, args: tuple[Any, ...]) -> bool:
    """Return whether there is compiled code for these arguments, in memory or on disk."""
    kinds = tuple(map(kernel.typeof_pyval, args))
    if kinds in kernel.overloads:
        return True
    if (kernel, kinds) in _missing:
        return False
    holds = getattr(kernel._cache, "holds", None)
    found = holds is not None and holds(kinds, kernel.targetctx.codegen())
    if not found:
        _missing.add((kernel, kinds))
    return found


def has_code(kernel: Any) -> bool:
    """Return whether a kernel is compiled for some arguments, in memory or on disk."""
    holds = getattr(getattr(kernel, "_cache", None), "holds_some", None)
    return bool(getattr(kernel, "overloads", True)) or (holds is not None and holds())


def call_briefly(kernel: Any, work: int, *args: Any) -> Any:
    """Call a kernel that takes about so many steps: for few, it is not compiled."""
    is_ready = WARMTH.compiles_all or work > _LITTLE_WORK or not WARMTH.is_hot
    if is_ready or getattr(kernel, "overloads", True):
        return kernel(*args)
    spent = _brief.get(id(kernel), 0.0)
    if spent > _PATIENCE or (_is_on_disk(kernel) and _is_compiled(kernel, args)):
        return kernel(*args)
    began = thread_time()
    try:
        return interpret(kernel, args)
    finally:
        _brief[id(kernel)] = spent + thread_time() - began


def spent_on(kernel: Any) -> float:
    """Return how many seconds a kernel has taken in patient or brief calls."""
    return _brief.get(id(kernel), 0.0)


def call_patiently(kernel: Any, *args: Any, rest: float = _PRICE) -> Any:
    """Call a kernel whose work has no bound in events, in small pieces (`cut_events`).

    While the process is cold it runs as plain Python for a quarter of a second in all, and is
    compiled then, unless the `rest` of the work would take fewer seconds than that.
    """
    if not (isinstance(kernel, TieredKernel) and kernel.is_plain(args)):
        return kernel(*args)
    spent = spent_on(kernel)
    if spent > _PATIENCE and spent + rest > _PRICE:
        return CPUDispatcher.__call__(kernel, *args)
    began = thread_time()
    try:
        return interpret(kernel, args)
    finally:
        _brief[id(kernel)] = spent + thread_time() - began


def arrays_first(
    kernel: Any, arrays: Callable[[], Answer | None], compiled: Callable[[], Answer]
) -> Answer:
    """Call `arrays` until compiling the kernel pays, then `compiled`, which calls the kernel.

    `arrays` may return None: these arguments need the kernel.
    """
    answer = None
    if prefers_arrays(kernel):
        began, spent = thread_time(), _brief.get(id(kernel), 0.0)
        answer = arrays()
        _brief[id(kernel)] = spent + thread_time() - began
    return compiled() if answer is None else answer


def arrays_in_pieces(
    kernel: Any, arrays: Callable[[slice], NDArray[Any] | None], number: int
) -> list[NDArray[Any]]:
    """Call `arrays` for pieces of so many rows until compiling the kernel pays; return the answers.

    The pieces are small: a first answer may take far longer than those of as many rows elsewhere.
    `arrays` may return None: from that piece on, the rows need the kernel.
    """
    answers: list[NDArray[Any]] = []
    for at in range(0, number, _PIECE):
        piece = slice(at, min(number, at + _PIECE))
        answer = arrays_first(kernel, partial(arrays, piece), lambda: None)
        if answer is None:
            break
        answers.append(answer)
    return answers


def prefers_arrays(kernel: Any) -> bool:
    """Return whether NumPy or Arrow do the work of a kernel for now."""
    if WARMTH.compiles_all or getattr(kernel, "overloads", True):
        return False
    spent = _brief.get(id(kernel), 0.0)
    return spent <= _LOADING or (spent <= _PATIENCE_WITH_ARRAYS and not _is_on_disk(kernel))


@cache
def _is_on_disk(kernel: Any) -> bool:
    """Return whether there was compiled code of a kernel when this was first asked."""
    return has_code(kernel)


def add_tiers(compiled: Any) -> None:
    """Let a kernel that Python calls begin as plain Python."""
    if not WARMTH.is_hot and type(compiled) is CPUDispatcher:
        compiled.__class__ = TieredKernel
        _kernels.append(compiled)


def expect_events(number: int) -> None:
    """Say how many events the next kernels read."""
    WARMTH.add(events=number)


def expect_compiling(seconds: float) -> None:
    """Say how long the kernels that step take to compile, if that is more than for a sequence."""
    WARMTH.price = max(WARMTH.price, seconds)


def compile_from_now() -> None:
    """Compile every kernel on its next call: for benchmarks, and ahead of the first query."""
    WARMTH.compiles_all = True
    _heat()


def _heat() -> None:
    """Compile the kernels that have much to do on their next call."""
    WARMTH.is_hot = True
    while _kernels:
        _kernels.pop().__class__ = CPUDispatcher


def is_compiling() -> bool:
    """Return whether a kernel is being compiled now, in any thread."""
    return _COMPILER.kernels > 0


def count_compiled() -> int:
    """Return how many kernels this process has compiled."""
    return _COMPILER.done


def count_compiling_seconds() -> float:
    """Return how long this process has compiled kernels."""
    return _COMPILER.seconds


def note_compiling(since: float) -> list[str]:
    """Return a note if compiling has taken long since it had taken so many seconds.

    A process that announces it at once has no such note.
    """
    is_long = _COMPILER.seconds - since > LONG_COMPILING
    return [COMPILED] if is_long and not _COMPILER.announces else []


def announce_compiling(announce: Callable[[str], None]) -> None:
    """Call `announce` once, as soon as this process has compiled for more than two seconds."""
    _COMPILER.announce, _COMPILER.announces = announce, True


class _CompilerWatch(compiler_event.Listener):
    """Counts the kernels that are being compiled, and the seconds that this takes.

    A kernel compiles the functions that it calls, so that its seconds are looked at many times.
    """

    def __init__(self) -> None:
        self.kernels = self.done = 0
        self.seconds = 0.0
        self.announce: Callable[[str], None] | None = None
        self.announces = False
        self._looked = 0.0

    def on_start(self, event: Any) -> None:
        self._look()
        self.kernels += 1

    def on_end(self, event: Any) -> None:
        self._look()
        self.kernels -= 1
        self.done += 1

    def _look(self) -> None:
        now = perf_counter()
        if self.kernels:
            self.seconds += now - self._looked
        self._looked = now
        if self.announce is not None and self.seconds > LONG_COMPILING:
            announce, self.announce = self.announce, None
            announce(COMPILING)


_COMPILER = _CompilerWatch()
compiler_event.register("numba:compile", _COMPILER)  # type: ignore[no-untyped-call]


def cut_events(number: int) -> Iterator[slice]:
    """Yield the pieces in which to read so many events, each at most as long as all before it.

    Where plain Python would take long for all of them, the process is hot after some pieces.

    >>> sum(piece.stop - piece.start for piece in cut_events(1_000))
    1000
    """
    at, began = 0, 0.0
    while at < number and not WARMTH.is_hot:
        end = min(number, at + max(_FIRST_PIECE, at))
        yield slice(at, end)
        if at == 0:  # the first piece also pays for what is done once
            began = WARMTH.seconds
        at, read = end, end - _FIRST_PIECE
        if at >= _FEW_EVENTS and (WARMTH.seconds - began) * number / read > WARMTH.price:
            _heat()  # all of them would take too long
    if at < number or not number:
        yield slice(at, number)


def interpret(kernel: Any, args: tuple[Any, ...]) -> Any:
    """Call a kernel as plain Python."""
    began = thread_time()
    try:
        with np.errstate(all="ignore"):  # compiled code wraps around without a word
            return call_plain(kernel, args)
    finally:
        WARMTH.add(seconds=thread_time() - began)
