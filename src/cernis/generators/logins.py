"""Logins to a service: people who mistype now and then, and accounts whose password is guessed.

Vectorized, so that a million lines take less than a second. The same seed gives the same stream.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cernis.generators.nquads import OPENING

_DAY = 86_400_000  # milliseconds
_MISTYPED = 0.07
_PER_ACCOUNT = 25
_PER_ATTACK = 20_000
_MOST_GUESSES = 40


def login_stream(n: int, seed: int = 0, attacks: int | None = None) -> pa.Table:
    """Make `n` events, OK or FAIL, with user, address and ts, in order of ts, all in one day.

    An attack is up to forty failures of one account in a few minutes, from one address, and in
    half of the cases a success at last. By default there is one in twenty thousand events.

    >>> login_stream(3, seed=1).schema.names
    ['type', 'user', 'address', 'ts']
    >>> login_stream(1000, seed=1).equals(login_stream(1000, seed=1))
    True
    """
    rng = np.random.default_rng(seed)
    attacks = max(1, n // _PER_ATTACK) if attacks is None else attacks
    if not 1 <= attacks <= n // 2:
        raise ValueError(f"a stream of {n} events cannot have {attacks} attacks")
    guesses = np.minimum(rng.integers(6, _MOST_GUESSES, attacks), max(1, n // (2 * attacks)))
    owner = np.repeat(np.arange(attacks), guesses)
    usual = n - len(owner)
    accounts = max(2, n // _PER_ACCOUNT)
    attacked, attackers = rng.integers(0, accounts, attacks), 9973 + rng.integers(0, 50, attacks)
    users = np.concatenate([rng.integers(0, accounts, usual), attacked[owner]])
    addresses = np.concatenate([users[:usual] % 9973, attackers[owner]])
    begun = rng.integers(0, _DAY - 600_000, attacks)
    pace = rng.integers(2_000, 15_000, attacks)
    turn = np.arange(len(owner)) - np.repeat(np.cumsum(guesses) - guesses, guesses)
    ts = np.concatenate([rng.integers(0, _DAY, usual), begun[owner] + turn * pace[owner]])
    is_last = turn == guesses[owner] - 1
    guessed = is_last & (rng.random(attacks) < 0.5)[owner]
    is_ok = np.concatenate([rng.random(usual) >= _MISTYPED, guessed])
    order = np.argsort(ts, kind="stable")
    return pa.table(
        {
            "type": _decode(is_ok[order].astype(np.int8), ["FAIL", "OK"]),
            "user": _name(users[order], lambda number: f"user{number:05}"),
            "address": _name(addresses[order], lambda n: f"10.0.{n // 256}.{n % 256}"),
            "ts": pa.array(OPENING + ts[order]).cast(pa.timestamp("ms")),
        }
    )


def _name(numbers: NDArray[np.int64], write: Callable[[int], str]) -> pa.Array:
    distinct, codes = np.unique(numbers, return_inverse=True)
    return _decode(codes.astype(np.int32), [write(number) for number in distinct.tolist()])


def _decode(codes: NDArray[np.integer], words: Sequence[str]) -> pa.Array:
    encoded = pa.DictionaryArray.from_arrays(pa.array(codes), pa.array(words, pa.string()))
    return encoded.dictionary_decode()
