"""`Limits`: what one visitor may use, and the sentences that say so."""

from __future__ import annotations

from dataclasses import dataclass

from cernis.integers import count_noun

KIBIBYTE = 1 << 10
MEBIBYTE = 1 << 20
GIBIBYTE = 1 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The limits of a visitor, and how many visitors there may be at once."""

    upload_bytes: int = 64 * MEBIBYTE
    """The size of one upload."""
    uploads: int = 8
    seconds: float = 30.0
    """How long a run may take."""
    memory_bytes: int = 2 * GIBIBYTE
    """The memory of a visitor's worker: events, partial matches, matches."""
    matches: int = 100_000
    """How many matches a download has."""
    runs: int = 8
    """How many runs are kept to page through."""
    visitors: int = 16
    """How many visitors have a worker at once."""
    idle_seconds: float = 1800.0
    """When a visitor who does nothing is forgotten, with all uploads and runs."""
    request_seconds: float = 20.0
    """How long headers may take, how long a body has at first, and how long a reader may pause."""
    body_rate: float = 16 * KIBIBYTE
    """A body has a second more for so many bytes that have come."""

    @property
    def download_bytes(self) -> int:
        """About the size of a download."""
        return 4 * self.upload_bytes

    @property
    def disk_bytes(self) -> int:
        """The size of the uploads of all visitors together."""
        return self.visitors * self.uploads * self.upload_bytes

    def explain_disk(self) -> str:
        return "the server's room for uploads is full; try again later"

    def explain_upload(self) -> str:
        return f"an upload may have {write_size(self.upload_bytes)}"

    def explain_uploads(self) -> str:
        return f"a visitor may have {count_noun(self.uploads, 'upload')}; remove one first"

    def explain_seconds(self) -> str:
        return (
            f"the run was ended after {self.seconds:g} seconds; narrow the window, filter earlier, "
            "or take fewer events"
        )

    def explain_memory(self) -> str:
        return (
            f"the run was ended: it needed more than {write_size(self.memory_bytes)}; narrow the "
            "window, filter earlier, or take fewer events"
        )

    def explain_slow(self) -> str:
        return (
            f"the request came too slowly: it has {self.request_seconds:g} seconds, and one more "
            f"for each {write_size(round(self.body_rate))}"
        )

    def explain_runs(self) -> str:
        return f"this run was dropped: a visitor keeps {self.runs} runs; run the query again"

    def explain_visitors(self) -> str:
        return "as many visitors as there may be are using the playground; try again in a minute"


def write_size(size: int) -> str:
    """Write a number of bytes for people.

    >>> write_size(64 << 20), write_size(1536), write_size(2 << 30)
    ('64 MiB', '1.5 KiB', '2 GiB')
    """
    for unit, factor in (("GiB", GIBIBYTE), ("MiB", MEBIBYTE), ("KiB", KIBIBYTE)):
        if size >= factor:
            return f"{round(size / factor, 1):g} {unit}"
    return count_noun(size, "byte")
