"""`StreamSession`: a run over one stream that goes on, of any language.

A source puts events in order, a chain of feed and stages finds matches in them. What a user does
with a session is here, once: push, collect, stream, finish, pull, freeze; which errors close it,
and when warnings are errors. A subclass says how events are opened (`_begin`), what its chain finds
in each batch (`_batches`), and what makes a result of that (`_result`). The session of a rule set
(`run.rules.session`) is an `EventSession`, too: its results are dictionaries by rule.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any, Generic, TypeVar

from cernis.compiled.tiers import count_compiling_seconds, note_compiling
from cernis.errors import SessionGuard, StateError, StrictError, list_warnings
from cernis.events.reading.mistakes import Mistakes
from cernis.results.result import Notes
from cernis.signature import Secret, sign_state

Answer = TypeVar("Answer", covariant=True)
Reading = TypeVar("Reading")
Blame = Callable[[], list[str]]
"""Says what keeps every match away."""


class EventSession(ABC, Generic[Answer, Reading]):
    """One run, of a query or of a rule set, over one stream, for one thread at a time.

    Events that cannot be opened raise an error before any of them is read, and the session goes
    on. After any other error it is closed.
    """

    def __init__(self, mistakes: Mistakes, *, strict: bool = False, keep: bool = False) -> None:
        """`mistakes` receive what cannot be read; `keep` the matches found, for `pull`.

        With `strict`, warnings are errors.
        """
        self.keep = keep
        self.strict = strict
        self.mistakes = mistakes
        self.guard = SessionGuard("begin a new one, or thaw a state that was frozen before")
        self.notes: list[str] = []
        """Remarks on the run so far."""
        self._compiled = count_compiling_seconds()

    # --------------------------------------------------- what a language says

    @abstractmethod
    def _begin(self, events: Any, *, whole: bool) -> Reading:
        """Open events; `whole` streams, or what follows. An error leaves the session as it was."""

    @abstractmethod
    def _collect(self, reading: Reading, *, last: bool = False) -> Answer:
        """Read the events, and return what is found; with `last`, nothing follows."""

    @abstractmethod
    def _result(self, segments: list[Any], *, last: bool = False) -> Answer:
        """Return the result of some compact sets; with `last`, no further event comes."""

    @abstractmethod
    def _forget_if_due(self) -> None:
        """Drop what no match to come needs, if there is much of it."""

    @abstractmethod
    def _freeze(self) -> bytes:
        """Return the state."""

    # ---------------------------------------------------------------- reading

    def push(self, events: Any) -> Answer:
        """Return the matches that end in these events, which follow all events pushed before.

        Of a query whose head drops variables: the answers that are new.
        """
        reading = self._begin(events, whole=False)
        with self.guard:
            found = self._collect(reading)
            self._forget_if_due()
            return found

    def collect(self, events: Any) -> Answer:
        """Like `push`, for the last events of a stream: keeps all events."""
        reading = self._begin(events, whole=True)
        with self.guard:
            found = self._collect(reading, last=True)
            self._refuse_warnings()
            return found

    def finish(self) -> Answer:
        """Return what is certain now that no further event comes.

        These are the matches of the last timestamp of RDF, the groups that are still open, the
        matches of LONGEST that still wait, and the best of open intervals or of the input. With
        `complete=True` also the matches that wait for their deadline.
        """
        with self.guard:
            return self._result([], last=True)

    def _refuse_warnings(self) -> None:
        """Raise the warnings about the events, if they are errors."""
        if self.strict and (found := list_warnings(self.notes)):
            raise StrictError(found)

    def _list_notes(self, blame: Blame | None = None) -> Notes:
        """Return the notes of a result; some are made when they are read."""
        notes, compiled = tuple(self.notes), self._compiled
        return lambda: (*notes, *(blame() if blame else ()), *note_compiling(compiled))

    # ----------------------------------------------------------------- frozen

    def freeze(self, *, secret: Secret = None) -> bytes:
        """Return the state as versioned bytes; `thaw` of the query goes on from there.

        With a `secret`, the bytes are signed, and thaw with the same secret only.
        """
        if self.keep:
            raise StateError(
                "a session that keeps its matches (keep=True) cannot be frozen; freeze one "
                "that only pushes"
            )
        with self.guard:
            state = self._freeze()
        return sign_state(state, secret)


class StreamSession(EventSession[Answer, Reading]):
    """The run of a query, which can also be asked batch by batch, or for all matches."""

    @abstractmethod
    def _batches(self, reading: Reading, *, last: bool = False) -> Iterator[list[Any]]:
        """Read the batches, and yield the compact sets of each; with `last`, nothing follows."""

    @abstractmethod
    def _pull(self) -> Answer:
        """Return the matches that are kept."""

    def _collect(self, reading: Reading, *, last: bool = False) -> Answer:
        segments = chain.from_iterable(self._batches(reading, last=last))
        return self._result(list(segments), last=last)

    def stream(self, events: Any) -> Iterator[Answer]:
        """Yield the matches batch by batch; they stay valid."""
        reading = self._begin(events, whole=True)
        with self.guard:
            for segments in self._batches(reading, last=True):
                found = self._find_in_batch(segments)
                self._forget_if_due()
                if found is not None:
                    with self.guard.paused():
                        yield found
            rest = self._end_stream(reading)
            if rest is not None:
                with self.guard.paused():
                    yield rest
            self._refuse_warnings()

    def _find_in_batch(self, segments: list[Any]) -> Answer | None:
        """Return the result of a batch of a stream; None if there is nothing to report."""
        return self._result(segments) if segments else None

    def _end_stream(self, reading: Reading) -> Answer | None:
        """Return what is certain now that the stream has ended; None if nothing waits."""
        return None

    def pull(self) -> Answer:
        """Return all matches (or answers); with a window, those inside the one that ends now.

        A match is inside when it starts inside, an answer when a match of it does. Only for
        sessions that were opened with `keep=True`.
        """
        if not self.keep:
            raise StateError("nothing is kept to pull: open the session with keep=True")
        with self.guard.reading():
            return self._pull()
