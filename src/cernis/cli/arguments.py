"""The arguments of the commands: the query, the files, how they are read, the output."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

import typer

from cernis.errors import CernisError
from cernis.output import UsedFile, input_files, refuse_overwriting
from cernis.signature import derive_key

if TYPE_CHECKING:
    from cernis.run.session import RunOptions

LARGEST_QUERY = 1 << 20
"""In bytes. A person writes a query; a larger file is a mistake, or hostile."""

LARGEST_RULES = 1 << 26
"""Programs write files of rules, with thousands of them."""

_LANGUAGES = {".cq": "cq", ".ceql": "ceql", ".spaseq": "spaseq", ".sql": "sql"}
_GRAPH_FORMATS = (None, "nquads", "nq", "trig", "jsonld")
_SHOWN = 10
_FORMS = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".csv": "csv",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".parquet": "parquet",
    ".nq": "nq",
}
"""The forms of outputs by the suffixes of their files."""
OUTPUT_SUFFIXES = (".jsonl", ".csv", ".parquet", ".arrow")

Files = list[Path] | dict[str, Path | list[Path]]


@dataclass(frozen=True, kw_only=True)
class Delivery:
    """Where the matches go, and how many of them."""

    output: str | None
    count: bool
    limit: int | None
    form: str = "table"
    """`table`, or the form of the output: `jsonl`, `csv`, `arrow`, `parquet`, `nq`."""
    is_named: bool = False
    """Whether the form was named, and not told by the suffix of a file."""
    events: bool = False
    """Whether matches come with the events of all their variables."""

    @classmethod
    def of(
        cls, output: str | None, form: str | None, *, count: bool, limit: int | None, events: bool
    ) -> Delivery:
        """Return where matches go, in the form that was named, or that the file's name tells."""
        is_named = form is not None
        if output is None and form not in (None, "table"):
            output = "-"
        if form is None:
            form = "table" if output is None else _FORMS.get(Path(output).suffix, "jsonl")
        if form == "table" and output not in (None, "-"):
            raise typer.BadParameter(
                "a table is shown on standard output; csv has the same columns",
                param_hint="--output-format",
            )
        if output == "-" and form in ("arrow", "parquet") and sys.stdout.isatty() and not count:
            raise typer.BadParameter(
                f"{form} is no text for a terminal: write it to a file or a pipe",
                param_hint="--output-format",
            )
        return cls(
            output=output, count=count, limit=limit, form=form, is_named=is_named, events=events
        )

    @property
    def shown(self) -> int:
        """How many matches a table shows."""
        return _SHOWN if self.limit is None else self.limit


@dataclass(frozen=True, kw_only=True)
class RunArguments:
    """A query or rules, the files, and how they are read."""

    text: str
    language: str
    files: Files
    rules: str | Path | None = None
    """A folder, a file or a text of rules; None: `text` is a single query."""
    on_bad_rule: str = "fail"
    """`skip` leaves out rules that are wrong."""
    options: RunOptions
    """How events are read, and how much a query may cost."""
    background: Sequence[str] = ()
    dialect: str | None = None
    """The dialect of a statement; None: the dialect of its engine."""
    max_memory: int | None = None
    """How many MiB DuckDB may use for a statement."""
    rate: float | None = None
    """How many events come in a second, where `explain` says what they take."""

    @property
    def reading(self) -> dict[str, Any]:
        """How files of events are read."""
        names = ("time", "type", "time_unit", "format", "columns", "delimiter", "quote")
        return {name: getattr(self.options, name) for name in names}

    @property
    def reading_graphs(self) -> dict[str, Any]:
        """How RDF streams are read."""
        options = self.options
        if options.format not in _GRAPH_FORMATS:
            raise CernisError(f"--format {options.format}: RDF streams are nquads, trig or jsonld")
        if any(given is not None for given in (options.columns, options.delimiter, options.quote)):
            raise CernisError("--columns, --delimiter and --quote are for CSV, not for RDF streams")
        if isinstance(options.time, dict):
            raise CernisError("--time NAME=COLUMN: RDF streams have one rule for their times")
        if any(not isinstance(path, Path) for path in files_of(self.files)):
            raise CernisError("RDF streams have one file each; name them apart with NAME=FILE")
        names = ("time", "time_unit", "format", "on_error")
        reading = {name: getattr(options, name) for name in names}
        return {"background": named_graphs(self.background) if self.background else None, **reading}


class Runner(Protocol):
    """The module that runs queries and rule sets on one engine."""

    def run(self, arguments: RunArguments, delivery: Delivery) -> None:
        """Find the matches of a query, or of all rules, and deliver them."""

    def explain(self, arguments: RunArguments) -> Any:
        """Explain a query: `str()` is the report; in this process, `mermaid()` the automaton."""


def choose_runner(*, on_spark: bool) -> Runner:
    """Import the module that runs queries and rule sets."""
    return cast(Runner, import_module(f"cernis.cli.run{'_on_spark' if on_spark else ''}"))


def read_query(argument: str, lang: str = "ceql") -> tuple[str, str]:
    """Return the text of a query, or of the file that holds it, and its language.

    >>> read_query("SELECT * FROM S WHERE A")
    ('SELECT * FROM S WHERE A', 'ceql')
    """
    path = Path(argument)
    if argument and _exists(path):
        text = _read(path)
        _FILES[text] = argument
        return text, _LANGUAGES.get(path.suffix, lang)
    is_text = not argument or any(letter.isspace() for letter in argument)
    if is_text and path.suffix not in _LANGUAGES:
        return argument, lang
    raise CernisError(f"{argument}: no such file (a query as text contains spaces)")


_FILES: dict[str, str] = {}
"""The files of the queries that this command has read, by their texts."""


def find_file(text: str) -> str | None:
    """Return the file that a query came from; None: it was no file."""
    return _FILES.get(text)


def find_rules(argument: str, lang: str = "ceql") -> str | Path | None:
    """Return the rules of a folder, a file or a text; None: it is a single query."""
    path = Path(argument)
    if argument and _exists(path):
        if path.is_dir():
            return path
        is_other = path.suffix in (".cq", ".spaseq", ".sql")
        text = "" if is_other else _read(path, may_be_rules=True)
        return path if _has_rules(text) else None
    return argument if lang == "ceql" and _has_rules(argument) else None


def give_parameters(arguments: Sequence[str], *sources: str | Path) -> None:
    """Set the values of `--param NAME=VALUE` for the texts and files that this command parses."""
    if not arguments:
        return
    from cernis.languages.ceql.parse import parse_constant
    from cernis.languages.text.parameters import refuse_unknown, set_parameters

    values = {}
    for argument in arguments:
        name, equals, value = argument.partition("=")
        if not equals or not name.strip().removeprefix("$").isidentifier():
            raise CernisError(f"--param {argument}: expected NAME=VALUE")
        values[name.strip().removeprefix("$")] = parse_constant(value.strip())
    texts = []
    for source in sources:
        is_folder = isinstance(source, Path) and source.is_dir()
        files = sorted(source.rglob("*.ceql")) if is_folder else [source]  # type: ignore[union-attr]
        texts += [_read(f, may_be_rules=True) if isinstance(f, Path) else f for f in files]
    refuse_unknown(values, {name for text in texts for name in _PARAMETER.findall(text)})
    set_parameters(values)


_PARAMETER = re.compile(r"\$([^\W\d]\w*)")


def _has_rules(text: str) -> bool:
    if not re.search(r"\brule\b", text, re.IGNORECASE):
        return False
    from cernis.languages.ceql.rules import is_rule_set

    return is_rule_set(text)


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):  # longer than a path may be, or with a zero byte in it
        return False


def _read(path: Path, *, may_be_rules: bool = False) -> str:
    if path.is_dir():
        raise CernisError(f"{path}: is a directory, not a query")
    largest = LARGEST_RULES if may_be_rules else LARGEST_QUERY
    with path.open("rb") as file:
        text = file.read(largest + 1)
    if len(text) > largest:
        needs = "no file of rules may" if may_be_rules else "no query needs to"
        raise CernisError(f"{path}: larger than {largest >> 20} MiB, which {needs} be")
    try:
        return text.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise CernisError(f"{path}: not UTF-8 text at byte {error.start}") from None


def named_files(arguments: Sequence[str]) -> Files:
    """Return the files of events; a dictionary where a name is given, as `NAME=FILE`.

    A name that is given several times has several files.

    >>> named_files(["Stock=trades.csv"])
    {'Stock': PosixPath('trades.csv')}
    """
    pairs = [_name_and_file(argument) for argument in arguments]
    if all(name is None for name, _ in pairs):
        return [path for _, path in pairs]
    from cernis.events.reading.files import stem_of

    files: dict[str, Path | list[Path]] = {}
    for name, path in pairs:
        stream = stem_of(path) if name is None else name
        match files.get(stream):
            case None:
                files[stream] = path
            case list() as several:
                several.append(path)
            case one:
                files[stream] = [one, path]
    return files


def named_tables(arguments: Sequence[str]) -> dict[str, Path]:
    """Return the tables of `--table NAME=FILE`.

    >>> named_tables(["companies=companies.csv"])
    {'companies': PosixPath('companies.csv')}
    """
    tables: dict[str, Path] = {}
    for argument in arguments:
        name, equals, file = argument.partition("=")
        if not equals or not name or not file:
            raise CernisError(f"--table {argument}: expected NAME=FILE")
        if name in tables:
            raise CernisError(f"two files for the table {name!r}: {tables[name]} and {file}")
        tables[name] = Path(file)
    return tables


def files_of(files: Files) -> list[Path | list[Path]]:
    """Return the files of each stream."""
    return [*files.values()] if isinstance(files, dict) else [*files]


def all_files(files: Files) -> list[Path]:
    """Return all files, those that globs match too; folders stay folders."""
    from cernis.events.reading.folders import expand_path

    named = [[one] if isinstance(one, Path) else one for one in files_of(files)]
    return [file for several in named for path in several for file in expand_path(path)]


def has_pipe(files: Files) -> bool:
    """Return whether some file can be read only once."""
    from cernis.events.reading.pipe import is_pipe

    return any(map(is_pipe, all_files(files)))


def by_stream(arguments: Sequence[str]) -> str | dict[str, str] | None:
    """Return what an option gives to all streams, or to each: `COLUMN`, `NAME=COLUMN`.

    >>> by_stream(["at"]), by_stream(["at", "parking=ts1"])
    ('at', {'*': 'at', 'parking': 'ts1'})
    """
    given: dict[str, str] = {}
    for argument in arguments:
        name, equals, value = argument.partition("=")
        is_named = equals and name.isidentifier()
        stream, value = (name, value) if is_named else ("*", argument)
        if stream in given:
            about = "" if stream == "*" else f" for {stream!r}"
            raise CernisError(f"two columns{about}: {given[stream]} and {value}")
        given[stream] = value
    return given.get("*") if given.keys() <= {"*"} else given


def named_columns(arguments: Sequence[str]) -> list[str] | dict[str, list[str]] | None:
    """Return the columns of CSV without a header, as `a,b,c` or `NAME=a,b,c`.

    >>> named_columns(["type, price,ts"])
    ['type', 'price', 'ts']
    """
    given = by_stream(arguments)
    if isinstance(given, dict):
        return {stream: _split_names(names) for stream, names in given.items()}
    return None if given is None else _split_names(given)


def _split_names(names: str) -> list[str]:
    return [name.strip() for name in names.split(",")]


def _name_and_file(argument: str) -> tuple[str | None, Path]:
    name, equals, file = argument.partition("=")
    if equals and name.isidentifier() and not _exists(Path(argument)):
        return name, _path(file, argument)
    return None, _path(argument, argument)


def _path(file: str, argument: str) -> Path:
    """Return a path; an empty text is none, though Python takes it for the present folder."""
    if not file:
        raise CernisError(f"{argument!r} names no file of events; '.' is the folder where you are")
    return Path(file)


def named_graphs(arguments: Sequence[str]) -> dict[str, list[Path]] | list[Path]:
    """Return files of background knowledge; by graph where `IRI=FILE` names one.

    >>> named_graphs(["http://x.org/db=kb.ttl"])
    {'http://x.org/db': [PosixPath('kb.ttl')]}
    """
    files: dict[str | None, list[Path]] = {}
    for argument in arguments:
        name, equals, file = argument.rpartition("=")
        named = equals and ":" in name and not _exists(Path(argument))
        files.setdefault(name if named else None, []).append(Path(file if named else argument))
    if None not in files:
        return {str(name): several for name, several in files.items()}
    if len(files) > 1:
        raise CernisError(
            "name the graph of each file of background knowledge, as IRI=FILE, or of none"
        )
    return files[None]


def check_outputs(query: str, arguments: RunArguments, output: str | None) -> None:
    """Refuse outputs that are files of this run, before anything is opened."""
    background = arguments.background
    used = [*input_files(all_files(arguments.files))]
    if background:
        graphs = named_graphs(background)
        several = graphs.values() if isinstance(graphs, dict) else [graphs]
        used += [UsedFile("the background", path) for paths in several for path in paths]
    tables, on_error = arguments.options.tables, str(arguments.options.on_error)
    used += [UsedFile(f"the table {name}", path) for name, path in tables.items()]
    if _exists(Path(query)):
        used.append(UsedFile("the query", query))
    if on_error not in ("fail", "skip"):
        refuse_overwriting(on_error, "the bad rows", used)
        used.append(UsedFile("the file of bad rows", on_error))
    if output is not None:
        refuse_overwriting(output, "the matches", used)


def check_output(
    output: str | None, suffixes: Sequence[str] = OUTPUT_SUFFIXES, *, form: str | None = None
) -> None:
    """Refuse an output whose form is unknown before any work is done; `form` may say it."""
    if output is None or output == "-":
        return
    path = Path(output)
    if form is None and path.suffix not in (*suffixes, ".ndjson", ".feather"):
        raise typer.BadParameter(
            f"{output}: the form of the output is told by its suffix: "
            f"{', '.join(suffixes[:-1])} or {suffixes[-1]} ('-' writes JSON lines to standard "
            "output)",
            param_hint="--output",
        )
    if not path.parent.is_dir():
        raise CernisError(f"{output}: there is no directory {path.parent}")


def read_secret(argument: str) -> bytes:
    """Return the secret in a variable of the environment (`env:NAME`) or in a file."""
    source, _, name = argument.partition(":")
    if source == "env" and name not in os.environ:
        raise CernisError(f"--secret {argument}: the environment has no variable {name!r}")
    try:
        file = Path(argument)
        secret = os.fsencode(os.environ[name]) if source == "env" else file.read_bytes().rstrip()
    except OSError as error:
        raise CernisError(f"--secret {argument}: cannot be read: {error.strerror}") from error
    try:
        derive_key(secret, "")
    except CernisError as error:
        raise CernisError(f"--secret {argument}: {error}") from error
    return secret
