"""Paths that stand for several files: globs such as `trips-*.csv`, and folders.

A glob or a folder gives the files that lie below it, in the order of their names, without hidden
ones (`.name`, `_name`). A link that leads out of it is an error. Otherwise a link in a folder
that others write to could make Cernis read any file of the user.
"""

from __future__ import annotations

import glob
from collections.abc import Iterator, Sequence
from pathlib import Path

from cernis.errors import DataError

_SIGNS = frozenset("*?[")


def is_glob(path: Path) -> bool:
    """Return whether a path is a glob; one that exists is a file, whatever its name.

    >>> is_glob(Path("trips-*.csv")), is_glob(Path("trips.csv"))
    (True, False)
    """
    return not _SIGNS.isdisjoint(str(path)) and not path.exists()


def match_files(path: Path) -> list[Path]:
    """Return the files that a glob matches."""
    try:
        found = sorted(Path(name) for name in glob.glob(str(path), recursive=True))
    except (OSError, ValueError) as error:
        raise DataError(f"{path}: cannot be read: {error}") from error
    files = [file for file in found if file.is_file() and not _is_hidden(file)]
    if not files:
        raise DataError(f"{path}: no file has such a name")
    return check_inside(_fixed_part(path), files)


def files_in(folder: Path) -> list[Path]:
    """Return the files in a folder, not those in folders inside of it."""
    return check_inside(folder, [path for path in _entries(folder) if path.is_file()])


def folders_in(folder: Path) -> list[Path]:
    """Return the folders in a folder."""
    return [path for path in _entries(folder) if path.is_dir()]


def check_inside(folder: Path, files: Sequence[Path]) -> list[Path]:
    """Return the files, if no link leads out of the folder."""
    inside = folder.resolve()
    for file in files:
        target = file.resolve()
        if inside not in target.parents:
            raise DataError(
                f"{file}: is a link that leads out of {folder}; name the file itself to read it"
            )
    return [*files]


def table_format(folder: Path) -> str | None:
    """Return the table format whose files a folder holds, which not all are of the table."""
    if (folder / "_delta_log").is_dir():
        return "Delta"
    if any((folder / "metadata").glob("*.metadata.json")):
        return "Iceberg"
    return None


def _entries(folder: Path) -> Iterator[Path]:
    try:
        entries = sorted(folder.iterdir())
    except OSError as error:
        raise DataError(f"{folder}: cannot be read: {error.strerror}") from error
    return (path for path in entries if not _is_hidden(path))


def _is_hidden(path: Path) -> bool:
    return path.name.startswith((".", "_"))


def _fixed_part(path: Path) -> Path:
    """Return the folder of a glob in whose name no sign stands.

    >>> _fixed_part(Path("data/2024-*/trips.csv"))
    PosixPath('data')
    """
    fixed = Path(path.anchor)
    for part in path.relative_to(path.anchor).parts[:-1]:
        if not _SIGNS.isdisjoint(part):
            break
        fixed /= part
    return fixed
