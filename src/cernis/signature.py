"""Sign state with a secret of the user, so that nobody else can write state that is accepted.

A checksum finds accidents. Whoever may write to a frozen session or to a checkpoint can also write
the checksum. With a secret, state carries a keyed digest (BLAKE2b), and state with another one is
refused before anything of it is read.

A signature does not say when it was made: an older state that was signed with the secret is
accepted in the place of a newer one.

Cost: one digest of the state.
"""

from __future__ import annotations

import hmac
from hashlib import blake2b

from cernis.errors import CernisError, StateError

_MAGIC = b"CERNIS\n\x01"
_SIZE = 32
_SHORTEST = 16

Secret = str | bytes | None


def derive_key(secret: Secret, purpose: str) -> bytes:
    """Return the key of one purpose; empty without a secret, which gives a plain digest.

    >>> derive_key("short", "session")
    Traceback (most recent call last):
    cernis.CernisError: a secret has at least 16 bytes, and this one has 5
    """
    if secret is None:
        return b""
    if not isinstance(secret, str | bytes):
        raise CernisError(f"a secret is text or bytes, not {type(secret).__name__}")
    content = secret.encode() if isinstance(secret, str) else secret
    if (length := len(content)) < _SHORTEST:
        raise CernisError(f"a secret has at least {_SHORTEST} bytes, and this one has {length}")
    return blake2b(purpose.encode(), key=blake2b(content).digest(), digest_size=_SIZE).digest()


def sign_state(state: bytes, secret: Secret) -> bytes:
    """Return the state of a session after its signature; the state itself without a secret."""
    key = derive_key(secret, "session")
    return _MAGIC + _digest(state, key) + state if key else state


def open_state(state: bytes, secret: Secret) -> bytes:
    """Return the state that was signed; StateError if it was not signed with this secret.

    >>> open_state(sign_state(b"state", b"0123456789abcdef"), b"0123456789abcdef")
    b'state'
    >>> open_state(b"state", b"0123456789abcdef")
    Traceback (most recent call last):
    cernis.StateError: the frozen state is not signed, and a secret was given: ...
    """
    key = derive_key(secret, "session")
    is_signed = isinstance(state, bytes | bytearray | memoryview) and bytes(state[:8]) == _MAGIC
    check_signed(is_signed, key, "the frozen state")
    if not is_signed:
        return state
    signature, content = bytes(state[8 : 8 + _SIZE]), bytes(state[8 + _SIZE :])
    check_signature(signature, _digest(content, key), "the frozen state")
    return content


def check_signed(is_signed: bool, key: bytes, what: str) -> None:
    """Raise an error for signed state without a secret, and for other state with one."""
    if is_signed and not key:
        raise StateError(f"{what} is signed: give the secret that it was signed with")
    if key and not is_signed:
        raise StateError(
            f"{what} is not signed, and a secret was given: go on without one if you trust who "
            "wrote it, or begin anew"
        )


def check_signature(signature: bytes, expected: bytes, what: str) -> None:
    """Raise an error if a signature is not the one that is expected."""
    if not hmac.compare_digest(signature, expected):
        raise StateError(f"{what} was signed with another secret, or was changed since")


def _digest(state: bytes, key: bytes) -> bytes:
    return blake2b(state, key=key, digest_size=_SIZE).digest()
