"""Compiled kernels on disk: a file for each kernel, each version of it and each signature.

They are in `NUMBA_CACHE_DIR` where that is set and this user's alone, and otherwise in Cernis' own
folder (`cernis.folder`): executors can write to it, and all workers of a machine and all
applications share it, wherever their copy of the package is.

The name of a file identifies its content: it has a digest of the kernel (`identity`), of what
compiles it, and of the versions of Python, NumPy and Numba, and one of the types of its arguments
and the processor. So a file never changes, and any number of processes can read and write at once:
they write the same bytes to the same file, and where they can, they compile in turns (`turns`).
(Numba's own files have an index, which processes overwrite for each other: one signature can then
find the code of another.)

Cost: a cached kernel loads in milliseconds; importing it touches no file. The cache cannot
make a query fail: code that cannot be read is compiled, code that cannot be written is
compiled again by the next process. The cache keeps the latest versions of each kernel.
"""

from __future__ import annotations

import os
import pickle
import sys
import tempfile
import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache, cached_property
from hashlib import sha256
from importlib.resources import files
from pathlib import Path
from typing import Any

import numba
import numpy as np
from numba.core import config
from numba.core.compiler import CompileResult
from numba.core.serialize import dumps

from cernis.compiled.identity import identity, spelled
from cernis.compiled.inner import rebuild_inner
from cernis.compiled.turns import end_turn, take_turn
from cernis.cycles import make_lasting
from cernis.folder import is_ours, own_folder

_CONFIG: Any = config  # its settings are made at run time
_reduce: Any = CompileResult._reduce
_rebuild: Any = CompileResult._rebuild
_dumps: Any = dumps

_VERSIONS_KEPT = 40
_loaded: list[bool] = []
"""Not empty when Numba has loaded what it knows."""


class KernelCache:
    """The files of one kernel, with the methods that Numba calls."""

    def __init__(self, function: Callable[..., object], options: Mapping[str, bool | str]) -> None:
        self._function = function
        self._options = options
        self._name = f"{function.__module__}.{function.__qualname__}-"
        self._turns: dict[Path, int] = {}

    @property
    def cache_path(self) -> str | None:
        return None if (folder := _folder()) is None else str(folder)

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        _load_registries(target_context)
        with suppress(Exception):  # not there, or of no use to this process
            file = self._file(sig, target_context.codegen())
            if not file.exists():
                self._await_turn(file)
            parts = pickle.loads(file.read_bytes())
            return rebuild_inner(target_context, parts) or _rebuild(target_context, *parts)
        return None

    def _await_turn(self, file: Path) -> None:
        """Wait until another process has compiled the file, or until it is this one's turn."""
        lock = take_turn(file)
        if lock is None:
            return
        if file.exists():
            end_turn(file, lock)
        else:
            self._turns[file] = lock

    def holds(self, sig: Any, codegen: Any) -> bool:
        """Return whether there is a file of these types."""
        with suppress(Exception):
            return self._file(sig, codegen).exists()
        return False

    def holds_some(self) -> bool:
        """Return whether there is a file of this version of the kernel, of any types."""
        with suppress(Exception):
            folder = _folder()
            return folder is not None and any(folder.glob(f"{self._name}{self._digest}-*.nbc"))
        return False

    def save_overload(self, sig: Any, data: Any) -> None:
        with suppress(Exception):
            file = self._file(sig, data.codegen)
            try:
                if not (data.lifted or data.library.has_dynamic_globals):  # objects of this process
                    self._write(file, _dumps(_reduce(data)))
            finally:
                if (lock := self._turns.pop(file, None)) is not None:
                    end_turn(file, lock)
            self._remove_old(file.parent)

    def _file(self, sig: Any, codegen: Any) -> Path:
        folder = _folder()
        if folder is None:
            raise FileNotFoundError("no folder for compiled code")
        kinds = sig if isinstance(sig, tuple) else (*sig.args, sig.return_type)
        words = ([spelled(kind) for kind in kinds], codegen.magic_tuple())
        return folder / f"{self._name}{self._digest}-{_digest(words)}.nbc"

    @cached_property
    def _digest(self) -> str:
        return _digest(self._version)

    @cached_property
    def _version(self) -> tuple[object, ...]:
        """The dependencies of the code beside the signature and the processor."""
        versions = (sys.implementation.cache_tag, np.__version__, numba.__version__)
        settings = (sorted(self._options.items()), _CONFIG.BOUNDSCHECK, _CONFIG.OPT)
        return (versions, str(settings), _find_compiler(), identity(self._function))

    def _write(self, file: Path, data: bytes) -> None:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle, unfinished = tempfile.mkstemp(dir=file.parent, prefix=self._name)
        try:
            with os.fdopen(handle, "wb") as stream:
                stream.write(data)
            os.replace(unfinished, file)
        except OSError:
            os.unlink(unfinished)
            raise

    def _remove_old(self, folder: Path) -> None:
        found = sorted(folder.glob(f"{self._name}*"), key=os.path.getmtime)
        for old in found[:-_VERSIONS_KEPT]:
            old.unlink(missing_ok=True)

    def enable(self) -> None:
        """Do nothing: the cache is always enabled, and no file is ever out of date."""

    disable = flush = enable


_COMPILERS = ("calls", "compiler", "entry", "inner")
"""The modules of this package that say how kernels become machine code."""


@cache
def _find_compiler() -> str:
    """Return a digest of what compiles kernels: the sources, which a zip has, too."""
    package = files("cernis.compiled")
    sources = tuple(package.joinpath(f"{name}.py").read_bytes() for name in _COMPILERS)
    return _digest(sources)


def _digest(words: tuple[object, ...]) -> str:
    return sha256(repr(words).encode()).hexdigest()[:32]


def _load_registries(target_context: Any) -> None:
    """Let Numba load what it knows: at first all of it, which stays."""
    if _loaded:
        target_context.refresh()
        return
    with make_lasting():
        target_context.refresh()
    _loaded.append(True)


@cache
def _folder() -> Path | None:
    if _CONFIG.CACHE_DIR:
        chosen = Path(_CONFIG.CACHE_DIR).resolve()
        if is_ours(chosen):
            return chosen
        warnings.warn(
            f"NUMBA_CACHE_DIR={_CONFIG.CACHE_DIR}: not used for compiled code, which others could "
            "replace there: the folder must be this user's, and no one else may write to it",
            stacklevel=1,
        )
    own = own_folder()
    return None if own is None else own / "kernels"
