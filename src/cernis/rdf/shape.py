"""The columns of a SPAseQ answer: what tells matches apart, what is shown, how times look."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from cernis.automata.linked.automaton import LinkedAutomaton
from cernis.events.times import UNITS
from cernis.languages.spaseq.graphs import graph as g
from cernis.languages.spaseq.query import SelectedExpression, SelectedVariable, SpaseqQuery
from cernis.languages.spaseq.terms import XSD
from cernis.rdf.reading.events import Int64s
from cernis.rdf.reading.terms import Codes
from cernis.results.values import iso_texts, json_texts

_OWN_COLUMNS = ("start_ts", "end_ts", "events")


class AnswerColumn(NamedTuple):
    """A selected variable, the column of rows that holds it, and the step that binds it anew in
    each round, if one does."""

    name: str
    row_column: int
    listed: bool
    step: int | None


class AnswerOutput(NamedTuple):
    """What an answer shows: a column, or the value of an expression."""

    name: str
    column: int
    expression: g.Expression | None = None


class AnswerShape(NamedTuple):
    """The columns of a query's answer, and where its rows hold them."""

    columns: tuple[AnswerColumn, ...]
    """What tells matches apart."""
    streams: tuple[str, ...]
    steps: Codes
    """The step of each alternative."""
    outputs: tuple[AnswerOutput, ...] = ()
    """What is shown of them."""
    construct: tuple[g.TripleTemplate, ...] | None = None
    versions: tuple[str, ...] | None = None
    """The versions of a live background, by their index; None: it does not change."""
    is_distinct: bool = False
    """Whether matches of one end that show the same are one answer."""

    @property
    def labels(self) -> list[str]:
        """The names of the Arrow columns; a name that is taken gets an underscore."""
        names = [output.name for output in self.outputs]
        labels: list[str] = []
        for name in names:
            label = name
            while label in self._taken or (label != name and label in (*names, *labels)):
                label += "_"
            labels.append(label)
        return labels

    @property
    def _taken(self) -> tuple[str, ...]:
        return _OWN_COLUMNS if self.versions is None else (*_OWN_COLUMNS, "background")


class TimeFormat(NamedTuple):
    """Show times as numbers of a unit, or as dates without one."""

    unit: str | None

    def column(self, times: Int64s) -> pa.Array:
        if self.unit is None:
            return pa.array(times, pa.timestamp("ns", "UTC"))
        return pa.array(times // UNITS[self.unit], pa.int64())

    @property
    def axis(self) -> str:
        """The unit of a picture's axis: `ms` since 1970, or `number`."""
        return "ms" if self.unit is None else "number"

    def find_positions(self, times: Int64s) -> NDArray[np.float64]:
        """Return times on that axis."""
        return times / (1_000_000 if self.unit is None else UNITS[self.unit])

    def texts(self, times: Int64s) -> pa.Array:
        """Return times as JSON."""
        if self.unit is not None:
            return json_texts(self.column(times))
        return pc.binary_join_element_wise('"', self._dates(times), '"', "")

    def terms(self, times: Int64s) -> pa.Array:
        """Return times as RDF terms."""
        if self.unit is None:
            kind, texts = "dateTime", self._dates(times)
        else:
            kind, texts = "integer", self.column(times).cast(pa.string())
        return pc.binary_join_element_wise('"', texts, f'"^^<{XSD}{kind}>', "")

    def _dates(self, times: Int64s) -> pa.Array:
        """Return times in ISO 8601, without trailing zeros."""
        short = pc.replace_substring_regex(iso_texts(self.column(times)), r"(\.\d*?)0+Z$", r"\1Z")
        return pc.replace_substring(short, ".Z", "Z")


def shape_answers(query: SpaseqQuery, linked: LinkedAutomaton) -> AnswerShape:
    """Return the columns of a query's answers."""
    steps = np.array([one.step for one in linked.alternatives], np.int32)
    streams = tuple(name for name, _ in query.streams)
    local = {name: step for step, names in enumerate(linked.local) for name in names}
    bound = {
        name
        for one in linked.alternatives
        if not query.steps[one.step].negated
        for name in one.names
    }

    def column(name: str, variable: str, listed: bool = False) -> AnswerColumn:
        return AnswerColumn(name, linked.columns.index(variable), listed, local.get(variable))

    if query.construct is not None:
        named = {variable.name for variable in g.find_template_variables(query.construct)}
        chosen = [column(name, name) for name in linked.columns if name in named]
    elif query.select is None:
        chosen = [column(name, name) for name in linked.columns if name in bound]
    else:
        empty = AnswerShape((), streams, steps, is_distinct=query.distinct)
        return _shape_selected(query, empty, column)
    outputs = tuple(AnswerOutput(one.name, index) for index, one in enumerate(chosen))
    whole = AnswerShape(tuple(chosen), streams, steps, outputs, query.construct)
    return whole._replace(is_distinct=query.distinct)


def _shape_selected(
    query: SpaseqQuery, shape: AnswerShape, column: Callable[[str, str, bool], AnswerColumn]
) -> AnswerShape:
    """Return the columns of SELECT, then those that only its expressions read."""
    chosen: list[AnswerColumn] = []
    outputs: list[AnswerOutput] = []
    for one in query.select or ():
        if isinstance(one, SelectedVariable):
            outputs.append(AnswerOutput(one.name, len(chosen)))
            chosen.append(column(one.name, one.variable, one.listed))
        else:
            outputs.append(AnswerOutput(one.name, -1, one.expression))
    for one in query.select or ():
        if isinstance(one, SelectedExpression):
            chosen += [column(name, name, False) for name in sorted(one.last_values)]
            chosen += [column(name, name, True) for name in sorted(one.all_values)]
    return shape._replace(columns=tuple(chosen), outputs=tuple(outputs))
