"""The codes of errors and warnings, one for each kind of mistake, with their meaning.

A code names what has to be mended; it stays when a message is worded anew. There are some thirty
kinds and five hundred messages, so the kinds are told apart here, in one table, and not where an
error is raised: the first kind whose words are in the message is its code, and each class of errors
ends with a kind that takes the rest. The page of all messages shows them by their code.

The rejected design, an argument of every error, repeats the kind five hundred times, and nobody
keeps it true.
"""

from __future__ import annotations

import re
from typing import NamedTuple

_LOCATION = re.compile(r"^.*?line \d+, column \d+: ")
_QUOTED = re.compile(r"'[^']*'")


class ErrorKind(NamedTuple):
    """A kind of mistake: its code, the classes of its errors, what it means and what to do."""

    code: str
    errors: tuple[str, ...]
    words: str
    """A regular expression for the words that its messages have; empty: any."""
    meaning: str
    remedy: str


_QUERY, _DATA, _BUDGET = ("QueryError",), ("DataError",), ("BudgetError",)
_STATE, _ANY = ("StateError",), ("CernisError",)

KINDS = (
    # ------------------------------------------------------------ the query
    ErrorKind(
        "query-too-large",
        ("QueryError", "BudgetError", "CernisError"),
        "nested more than|words and symbols|characters; at most|which no query needs to be",
        "The text of the query is longer or nested deeper than Cernis reads.",
        "Most such texts are made by a program. Write many values as `IN {…}`, many alternatives "
        "as several queries of a rule set.",
    ),
    ErrorKind(
        "bad-regex",
        _QUERY,
        "^bad regular expression",
        "The text after `LIKE` is no regular expression.",
        "The message says at which place. A character with a meaning of its own is written with "
        "a backslash: `\\.`",
    ),
    ErrorKind(
        "type-clash",
        _QUERY,
        r"^type clash|needs numbers|is a timestamp|is not a (time|timestamp)$|timestamps",
        "Values of two types are compared or computed with, and no events could make that true.",
        "Compare with a value of the attribute's type. `CREATE STREAM` declares types; without it, "
        "they are those of the columns.",
    ),
    ErrorKind(
        "named-twice",
        _QUERY,
        r"\btwice\b|two things are called|is bound before|has a column .* already|a query has one",
        "A name or a clause occurs twice where it must occur once.",
        "Give one of them another name, or leave it out.",
    ),
    ErrorKind(
        "parameter",
        ("QueryError", "CernisError"),
        r"parameters? \$",
        "A parameter, `$name`, has no value or one that does not fit.",
        "Give the value with `--param name=…` or `query.bind(name=…)`, or a default in "
        "`PARAMETER $name = …` before the query.",
    ),
    ErrorKind(
        "unbound-variable",
        _QUERY,
        r"binds? \?|not bind|the head and not in the body|not in any atom|the head could give",
        "A variable is used, and nothing gives it a value.",
        "Bind it in a graph pattern or an atom, or correct its name.",
    ),
    ErrorKind(
        "unknown-name",
        _QUERY,
        r"^unknown |is no key of a group|is not a variable|^no language|^no background graph",
        "The query names something that is not there: a variable, an attribute, a type of a "
        "declared stream, a function, a prefix.",
        "`help` has the nearest name, `expected` lists what there is.",
    ),
    ErrorKind(
        "no-single-value",
        _QUERY,
        "has no single value|so that it has one value",
        "`x[a]` is one value, and `x` may hold several events or none.",
        "Say which: `FIRST(x[a])`, `LAST`, `MIN`, `MAX`, `SUM` or `AVG`.",
    ),
    ErrorKind(
        "uncovered-key",
        _QUERY,
        "does not cover|for certain",
        "A key must be known of every event of a match, and some part of the pattern has none.",
        "Name an attribute for each variable, or partition by an attribute that all events have.",
    ),
    ErrorKind(
        "number-out-of-range",
        _QUERY,
        r"out of range|negative|must be (finite|whole|a decimal)|64 bits|range .* is empty"
        r"|allow no number|repetitions|ends before it begins|longer than 0|takes a whole number"
        r"|point in time",
        "A number, a duration or a time is one that this place does not take.",
        "The message says what it takes.",
    ),
    ErrorKind(
        "clauses-clash",
        _QUERY,
        "not go with|not both$|has no meaning|^beside ",
        "Two clauses of the query exclude each other.",
        "Leave one of them out. The reference says of each clause what it does not go with.",
    ),
    ErrorKind(
        "syntax",
        _QUERY,
        r"^unexpected |^expected |never closed|closes nothing|too early|not part of the language"
        r"|not Unicode|query is empty|^nothing follows|no sequence|body is empty|made of rules"
        r"|not an IRI|no stream is read|unit of its own|neither optional nor negated",
        "The text is not a query: a word or a sign is missing, misspelt or in the wrong place.",
        "The caret stands where reading stopped; `expected` lists what could stand there.",
    ),
    ErrorKind(
        "misplaced",
        _QUERY,
        "",
        "A part of the query is well written and stands where it has no meaning.",
        "The message says what that place takes, `help` how it is written.",
    ),
    # ----------------------------------------------------------- the events
    ErrorKind(
        "no-such-row",
        _DATA,
        "of this run is|are given: name|can be explained",
        "A trace is asked about events that the run has not read.",
        "Rows are those of the input as it was given; graphs are named by stream and number.",
    ),
    ErrorKind(
        "output",
        _DATA,
        "be written|Parquet cannot hold|only JSON lines",
        "The answer cannot be written to this file or in this form.",
        "Name another file or suffix; `.jsonl` takes every answer.",
    ),
    ErrorKind(
        "out-of-order",
        _DATA,
        "earlier than|decreases|out of order|read already|time goes back|only once",
        "Events come in an order in which they cannot be read.",
        "Sort the input by time, or pass all of it at once: files and frames are sorted.",
    ),
    ErrorKind(
        "bad-row",
        _DATA,
        r"row [\d,…]+\)?(, column .*)?:",
        "A row of the input cannot be read: a time is missing, a value has another type.",
        "Mend the row. `on_error=\"skip\"`, `--on-error skip` leaves bad rows out and counts them; "
        "a path instead of `skip` gets them.",
    ),
    ErrorKind(
        "tables",
        _DATA,
        "^table |joins the table",
        "A table that the query joins is missing, or does not have one row for each key.",
        "Pass it: `tables={…}`, `--table NAME=FILE`; drop rows that repeat a key.",
    ),
    ErrorKind(
        "background",
        _DATA,
        "background graph|name of a graph|no named graph",
        "Background knowledge of a SPAseQ query is missing, or its graph has no name.",
        "Give a file for each graph: `background={IRI: file}`, `--background IRI=FILE`.",
    ),
    ErrorKind(
        "time-column",
        _DATA,
        r"time column|column of times|column '…' for the time|times (are|of)|is no time|for times"
        r"|time of an event|event has no time|not times|the time is|time unit|in order of time"
        r"|to read times",
        "Cernis does not find the times of the events, or cannot read them.",
        "Name the column with `time=`, `--time`; for numbers, say with `time_unit=`, "
        "`--time-unit` what they count.",
    ),
    ErrorKind(
        "unfit-values",
        _DATA,
        r"out of range|not fit|be added|(has|have) no order|39 digits|be aggregated|window needs"
        r"|different (kinds|types)|any more|has the zone|before 1677|Spark (counts|has no type)"
        r"|cannot travel|be spread|datatypes and languages|cannot read from Parquet",
        "Values of an attribute are of a type, or of a size, that this use of them does not take.",
        "Convert the column before, or use another attribute.",
    ),
    ErrorKind(
        "columns",
        _DATA,
        "column|is no event type|event type cannot",
        "A column is missing, is named twice or holds something else than is asked of it.",
        "Name the right one: `type=`, `time=`, `columns=`; rename or cast it.",
    ),
    ErrorKind(
        "no-such-file",
        ("DataError", "CernisError"),
        "no such (file|folder)|no file (has|of)|folder has no|no files|there is no directory",
        "There is no such file or folder, or the folder is empty.",
        "Check the path; relative ones begin at the current directory.",
    ),
    ErrorKind(
        "file-format",
        _DATA,
        r"format|compressed|has files of|their form|is a table of|is a directory|is a file;"
        r"|folders beside|is a link|from its end|for CSV|names the columns|is no RDF",
        "The form of a file is unknown, or another than is asked for.",
        "Name it with `format=`, `--format`, or give the file a suffix that tells it.",
    ),
    ErrorKind(
        "streams",
        _DATA,
        r"\bstreams?\b|query reads",
        "The inputs and the streams that the query names do not go together.",
        "Pass a dictionary from the names in `FROM` to the inputs; on the command line, NAME=FILE.",
    ),
    ErrorKind(
        "unreadable-input",
        _DATA,
        "",
        "The input is damaged, or is not what it is read as.",
        "The message has the file and the place. Lines of RDF that are bad are left out by "
        "`on_error=\"skip\"`, `--on-error skip`.",
    ),
    # ------------------------------------------------------------ its costs
    ErrorKind(
        "too-many-candidates",
        _BUDGET,
        "candidates|to compare at one position|solutions",
        "The query compares events that no index brings together, and has more candidates to "
        "check than its budget; or a graph pattern has too many solutions.",
        "Narrow the window or the pattern; `budget=` allows more, `on_budget=\"partial\"` gives "
        "what was found. `explain` says in advance which queries have candidates.",
    ),
    ErrorKind(
        "pattern-too-large",
        _BUDGET,
        "pattern (needs|asks)|unrolls|cases|kinds of events|the join needs|query joins",
        "The automaton of the pattern would have more states than Cernis builds.",
        "Use smaller bounds in `{m,n}`, fewer optional parts of `ALL`, `IN {…}` for many values.",
    ),
    ErrorKind(
        "state-too-large",
        _BUDGET,
        "",
        "More partial matches or partitions wait at once than fit into memory.",
        "Set a smaller window, or `FORGET AFTER`; `max_keys=` bounds partitions.",
    ),
    # ------------------------------------------------------------ its state
    ErrorKind(
        "foreign-state",
        _STATE,
        "frozen by|frozen in version|belongs to another|another version of Cernis",
        "Frozen state or a checkpoint belongs to another query, or another version of Cernis.",
        "Go on with the query and the version that wrote it, or begin anew in a new folder.",
    ),
    ErrorKind(
        "damaged-state",
        _STATE,
        "damaged|are not a frozen|not in .* any more|^bucket ",
        "Frozen state or a checkpoint is not as it was written. Nothing is continued from it.",
        "Take an older one, or run the query on the stream from its beginning.",
    ),
    ErrorKind(
        "session",
        _STATE,
        "",
        "A session is asked for something that it does not do, or that it does no more.",
        "After an error or `finish` a session is closed: begin a new one. `keep=True` keeps "
        "matches to be pulled.",
    ),
    # ------------------------------------------------------- everything else
    ErrorKind(
        "unavailable",
        _ANY,
        r"pip install|not installed|needs Java|Spark needs|did not start|Java registry|keep jars"
        r"|session of Spark has no|a newer pyoxigraph|^Kafka|cannot listen|process has ended",
        "A package, a program or a server that this needs is not there, or does not answer.",
        "The message has the line to install a package: in a checkout, `.[rdf]` stands for "
        "`cernis[rdf]`. Check the address of a server, and that it runs.",
    ),
    ErrorKind(
        "bad-option",
        _ANY,
        "",
        "An option or an argument has a value that it does not take, or does not go with another.",
        "The message says what it takes; `cernis COMMAND --help` and the Python reference list "
        "them all.",
    ),
)  # fmt: skip


WARNINGS = {
    "not-between": (
        "`NOT B` is one event that is no B. Between two `;` it keeps nothing away: another "
        "event may be taken for it, and a B may lie beside that one. `UNLESS` forbids every B "
        "in between."
    ),
    "not-at-end": (
        "`A ; NOT B` ends with any later event that is no B. To say that no B follows, name the "
        "time for which it must stay away: `WITHOUT` waits that long."
    ),
    "unless-idle": (
        "`UNLESS` looks strictly inside of a match, between its first and its last event. In a "
        "single event, or two neighbours, nothing lies inside. What follows is excluded by "
        "`WITHOUT … FOR`."
    ),
    "never-holds": (
        "A condition contradicts itself, so the query has no match, whatever the events."
    ),
    "always-holds": ("A condition holds for every event that has the attributes. It does nothing."),
    "like-percent": (
        "`LIKE` takes a regular expression that matches the whole text. `%` is a plain "
        "character in it."
    ),
    "limit-per-end": (
        "`ORDER BY … LIMIT n` keeps the n best matches of each end, and here no end has more. "
        "The best of the whole input are `LIMIT n OVERALL`, of each interval `LIMIT n EVERY d`."
    ),
    "absent-type": (
        "No event has a type that the query names. It is misspelt, or types are in another "
        'column (`--type`, in Python `type="kind"`). In SPAseQ: no event has a predicate that a '
        "graph pattern names."
    ),
    "unmet-condition": (
        "Every match needs this condition, and no event satisfies it. So there is no match, and "
        "the condition is to blame."
    ),
    "odd-times": (
        "Numbers in the time column lie in January 1970 or beyond 2200 in the unit that was "
        "given, and are plain dates in another. With the wrong unit, windows are a thousand "
        "times too long or too short."
    ),
    "most-skipped": (
        "With `--on-error skip` bad rows are left out, and here they are most of the rows. The "
        "form of the file is probably not what was expected."
    ),
}
"""What each warning means; `tools.manual.codes` has what to write instead."""


def explain_code(code: str) -> tuple[str, str] | None:
    """Return what a code means and what to do; None: there is no such code."""
    for kind in KINDS:
        if kind.code == code:
            return kind.meaning, kind.remedy
    return (WARNINGS[code], "") if code in WARNINGS else None


def find_kind(errors: tuple[str, ...], message: str) -> ErrorKind:
    """Return the kind of a message; `errors` are the class of its error and those above it.

    Names in quotes have no part in it, nor has the location in the query.

    >>> find_kind(("QueryError", "CernisError"), "line 1, column 8: unknown variable 'twice'").code
    'unknown-name'
    """
    text = _QUOTED.sub("'…'", _LOCATION.sub("", message.partition("\n")[0]))
    for error in errors:
        for kind in KINDS:
            if error in kind.errors and re.search(kind.words, text):
                return kind
    return KINDS[-1]
