"""Sources and sinks as arguments: folders, topics, standard output.

    trades                        a folder of files, by its path
    file:///data/trades           the same, as a URI
    kafka://a:9092,b:9092/trades  a topic; ?starting=latest and the like after it; what the client
                                  needs beside it (SASL, TLS) are its own properties
    -                             standard output; as a source, standard input

and in one process, without Spark:

    trades.jsonl                  a file that grows
    tcp://host:port               lines that a server sends
    https://host/alerts           a server that gets matches by POST

Also checks that folders lie apart: output in a folder that is read would be read as events.

Works on text and paths, and does not import Spark. Turned down: other file systems (`s3a://…`),
which cannot be checked before Spark starts; a program of a few lines with
`cernis.spark.recognize` reads and writes them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import permutations
from pathlib import Path
from typing import TypeVar
from urllib.parse import parse_qsl, unquote, urlsplit

from cernis.errors import CernisError
from cernis.events.reading.mistakes import did_you_mean

TOPIC_OPTIONS = ("starting", "per_trigger", "descriptor", "message")
"""The options of a topic, which follow a question mark."""

_ENDS = ("earliest", "latest")
_OWN_PROPERTIES = (
    *("bootstrap.servers", "enable.auto.commit", "isolation.level", "auto.offset.reset"),
    *("transactional.id", "enable.idempotence"),
)

_SERVER = re.compile(r"(?:[\w.-]+|\[[0-9a-fA-F:.]+\]):\d{1,5}")
_TOPIC = re.compile(r"[\w.-]{1,249}", re.ASCII)
_PATTERN = re.compile(r"[][{}*?\\]")


@dataclass(frozen=True)
class Folder:
    """A folder on this machine, by its absolute path."""

    path: Path
    text: str = field(compare=False)
    """As it was written."""

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Topic:
    """A Kafka topic."""

    servers: str
    topic: str
    options: Mapping[str, str] = field(default_factory=dict, hash=False)
    properties: Mapping[str, str] = field(default_factory=dict, hash=False, repr=False)
    """Properties of Kafka's client, some of them secret."""

    def __str__(self) -> str:
        return f"kafka://{self.servers}/{self.topic}"

    @property
    def starting(self) -> str | int:
        """Where a run without a checkpoint begins: earliest, latest, or a time in milliseconds."""
        given = self.options.get("starting", "earliest")
        return given if given in _ENDS else _parse_starting(given)


@dataclass(frozen=True)
class StandardOutput:
    """Standard output, for JSON lines."""

    def __str__(self) -> str:
        return "standard output"


@dataclass(frozen=True)
class GrowingFile:
    """A file that grows."""

    path: Path
    text: str = field(compare=False)

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class StandardInput:
    """Standard input."""

    def __str__(self) -> str:
        return "standard input"


@dataclass(frozen=True)
class Server:
    """A server that sends lines."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"tcp://{self.host}:{self.port}"


@dataclass(frozen=True)
class Webhook:
    """A server that gets matches by POST."""

    url: str

    def __str__(self) -> str:
        return self.url


Source = Folder | Topic
Sink = Folder | Topic | StandardOutput
LiveSource = Source | GrowingFile | StandardInput | Server
LiveSink = Sink | Webhook
AnySource = TypeVar("AnySource", bound=LiveSource)
AnyEnd = TypeVar("AnyEnd", bound=LiveSource | LiveSink)


def parse_properties(arguments: Iterable[str]) -> dict[str, str]:
    """Parse properties of Kafka's client; `NAME=env:VARIABLE` takes one from the environment.

    >>> parse_properties(["security.protocol=SSL"])
    {'security.protocol': 'SSL'}
    """
    properties = {}
    for argument in arguments:
        name, equals, value = argument.partition("=")
        if not equals or not re.fullmatch(r"[a-z][a-z0-9_.]*", name):
            raise CernisError(f"--kafka-property {name}: expected NAME=VALUE")
        if name in _OWN_PROPERTIES:
            raise CernisError(f"--kafka-property {name}: Cernis sets this property itself")
        if value.startswith("env:"):
            variable = value.removeprefix("env:")
            if variable not in os.environ:
                raise CernisError(
                    f"--kafka-property {name}: the environment has no variable {variable!r}"
                )
            value = os.environ[variable]
        properties[name] = value
    return properties


def add_properties(end: AnyEnd, properties: Mapping[str, str]) -> AnyEnd:
    """Return a topic with properties of Kafka's client; any other source or sink as it is."""
    return replace(end, properties=properties) if isinstance(end, Topic) else end


def parse_source(argument: str) -> tuple[str | None, Source]:
    """Parse a source, and the name of its stream if it has one.

    >>> name, source = parse_source("Trades=kafka://localhost:9092/trades")
    >>> name, str(source)
    ('Trades', 'kafka://localhost:9092/trades')
    """
    name, argument = split_name(argument)
    source = _parse_end("--source", argument)
    if isinstance(source, Folder) and _PATTERN.search(str(source.path)):
        raise CernisError(
            f"{source}: Spark takes a path with any of []{{}}*?\\ in it for a pattern; rename the "
            "folder, or give a link to it"
        )
    return name, source


def parse_live_source(argument: str) -> tuple[str | None, LiveSource]:
    """Parse a source of one process, and the name of its stream if it has one.

    >>> [str(parse_live_source(text)[1]) for text in ("-", "S=tcp://localhost:9000")]
    ['standard input', 'tcp://localhost:9000']
    """
    name, rest = split_name(argument)
    if rest == "-":
        return name, StandardInput()
    if rest.lower().startswith("tcp://"):
        return name, _parse_server(rest)
    source = _parse_end("--source", rest)
    if isinstance(source, Folder) and not source.path.is_dir():
        if not source.path.exists():
            raise CernisError(f"--source {rest}: no such file or folder")
        return name, GrowingFile(source.path, rest)
    return name, source


def _parse_server(argument: str) -> Server:
    parts = urlsplit(argument)
    try:
        host, port = parts.hostname, parts.port
    except ValueError:
        host = port = None
    if not host or not port or parts.path.strip("/") or parts.query:
        raise CernisError(f"{argument}: expected tcp://host:port")
    return Server(host, port)


def parse_live_sink(argument: str) -> LiveSink:
    """Parse a sink of one process."""
    if argument.lower().startswith(("http://", "https://")):
        if not urlsplit(argument).hostname:
            raise CernisError(f"{argument}: expected https://host/path")
        return Webhook(argument)
    return parse_sink(argument)


def split_name(argument: str) -> tuple[str | None, str]:
    """Split `NAME=REST`; the path of an existing folder has no name.

    >>> split_name("S=in"), split_name("kafka://h:1/t?starting=latest")
    (('S', 'in'), (None, 'kafka://h:1/t?starting=latest'))
    """
    name, equals, rest = argument.partition("=")
    if equals and name.isidentifier() and not os.path.isdir(argument):
        return name, rest
    return None, argument


def parse_sink(argument: str) -> Sink:
    """Parse a sink."""
    if argument == "-":
        return StandardOutput()
    sink = _parse_end("--sink", argument)
    if isinstance(sink, Topic) and sink.options:
        raise CernisError(f"{argument}: a topic that is written to has no options")
    return sink


def parse_folder(option: str, argument: str) -> Folder:
    """Parse a folder; an error for anything else."""
    folder = _parse_end(option, argument)
    if not isinstance(folder, Folder):
        raise CernisError(f"{option} {argument}: expected a folder")
    return folder


def _parse_end(option: str, argument: str) -> Source:
    if not argument.strip() or "\0" in argument:
        raise CernisError(f"{option} {argument!r}: expected a folder or kafka://host:port/topic")
    scheme, separator, rest = argument.partition("://")
    if not separator:
        return Folder(_absolute(argument), argument)
    match scheme.lower():
        case "file":
            host, slash, path = rest.partition("/")
            if host not in ("", "localhost") or not slash:
                raise CernisError(f"{argument}: a folder as a URI is file:///and/its/path")
            return Folder(_absolute(unquote(f"/{path}")), argument)
        case "kafka":
            return _parse_topic(argument)
        case _:
            raise CernisError(
                f"{argument}: {option} knows folders (a path, or file:///…) and "
                f"kafka://host:port/topic, not {scheme}://"
            )


def _absolute(path: str) -> Path:
    return Path(os.path.abspath(Path(path).expanduser()))


def _parse_topic(argument: str) -> Topic:
    parts = urlsplit(argument)
    servers, topic = parts.netloc, unquote(parts.path.removeprefix("/"))
    odd = [server for server in servers.split(",") if not _SERVER.fullmatch(server)]
    if odd or not topic:
        why = f" ({odd[0]!r} is no host:port)" if servers and odd else ""
        raise CernisError(f"{argument}: expected kafka://host:port[,host:port…]/topic{why}")
    if not _TOPIC.fullmatch(topic):
        raise CernisError(
            f"{argument}: {topic!r} is no name of a topic: letters, digits, '.', '_' and '-'"
        )
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    for name in options:
        if name not in TOPIC_OPTIONS:
            raise CernisError(
                f"{argument}: a topic has no option {name!r}; there are "
                f"{', '.join(TOPIC_OPTIONS)}{did_you_mean(name, TOPIC_OPTIONS)}"
            )
    rows = options.get("per_trigger")
    if rows is not None and not (rows.isdecimal() and int(rows)):
        raise CernisError(f"{argument}: per_trigger={rows}: expected a number of records")
    if options.get("starting", "latest") not in _ENDS:
        try:
            _parse_starting(options["starting"])
        except ValueError:
            raise CernisError(
                f"{argument}: starting is earliest, latest or a time, as in 2024-01-02T10:00:00Z"
            ) from None
    return Topic(servers, topic, options)


def _parse_starting(text: str) -> int:
    """Return a time in milliseconds; UTC if it has no zone."""
    time = datetime.fromisoformat(text)
    time = time if time.tzinfo is not None else time.replace(tzinfo=UTC)
    return int(time.timestamp() * 1000)


def name_sources(sources: Sequence[tuple[str | None, AnySource]]) -> dict[str, AnySource]:
    """Return the sources by the names of their streams; one without a name has its own."""
    named: dict[str, AnySource] = {}
    for name, source in sources:
        stream = name or name_source(source)
        if stream in named:
            raise CernisError(
                f"two sources for the stream {stream!r}: {named[stream]} and {source}; name them "
                "apart with NAME=URI"
            )
        named[stream] = source
    return named


def name_source(source: LiveSource) -> str:
    """Return the name that a source itself has."""
    match source:
        case Folder(path=path):
            return path.name
        case GrowingFile(path=path):
            return path.name.split(".")[0]
        case Topic(topic=topic):
            return topic
        case _:
            return "S"


def choose_form(sink: LiveSink, asked: str | None) -> str:
    """Return the form of matches in a sink."""
    if isinstance(sink, Folder):
        return asked or "parquet"
    if asked == "parquet":
        raise CernisError(f"{sink}: gets lines of JSON; Parquet goes to a folder")
    return asked or "jsonl"


def check_folders(
    sources: Iterable[LiveSource], written: Iterable[tuple[str, LiveSink | None]]
) -> None:
    """Raise an error for folders that are not apart, or that cannot be written to."""
    folders = [(option, sink) for option, sink in written if isinstance(sink, Folder)]
    read = [("--source", source) for source in sources if isinstance(source, Folder)]
    check_apart([*read, *folders])
    for option, folder in folders:
        check_writable(option, folder)


def check_apart(folders: Sequence[tuple[str, Folder]]) -> None:
    """Raise an error if a folder is, or lies in, the folder of another option.

    Several sources may be one folder.
    """
    for (option, folder), (other, around) in permutations(folders, 2):
        if option == other == "--source":
            continue
        inner, outer = (Path(os.path.realpath(each.path)) for each in (folder, around))
        if inner == outer:
            raise CernisError(f"{option} {folder} and {other} {around} are one folder")
        if outer in inner.parents:
            raise CernisError(f"{option} {folder} lies in {other} {around}: keep them apart")


def check_writable(option: str, folder: Folder) -> None:
    """Raise an error for a folder that cannot be written to."""
    there = next(path for path in (folder.path, *folder.path.parents) if path.exists())
    if not there.is_dir():
        raise CernisError(f"{option} {folder}: {there} is a file, not a folder")
    if not os.access(there, os.W_OK | os.X_OK):
        raise CernisError(f"{option} {folder}: {there} cannot be written to")
