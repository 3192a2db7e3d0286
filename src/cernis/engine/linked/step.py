"""The step kernel: takes the runs that a row continues, then files the new runs.

A *moment* is a timestamp of the streamset, a *row* a solution of a reading at a moment. The kernel
reads all rows of a moment before it files any run, so that a moment never meets its own runs:

1. each transition of a row's reading asks its index for the entries that agree with the row, and
   makes a vertex for each whose conditions hold (all runs of an entry move at once);
2. entries that wait under `;` and were taken lose their runs, and so do those that a guard met;
3. the new runs are filed under the values that later rows ask for. An entry of (2) that none of
   these came to leaves. In `B+;` most come back to their entry, which so stays in all indexes.

Two rows of the same events that a match cannot tell apart (`LinkedRows.alike`) take the runs of an
entry on once, so that each match has one run.

Cost contract: O(transitions) per row, O(columns) per entry taken and O(log entries) where an index
is ordered. A row meets an entry in vain only if a condition on earlier variables fails. One such
condition by order (`?p2 < ?p1`) has an ordered index; others are checked entry by entry. No cost
depends on the number of runs in an entry or on the window. Where a store keeps runs in search trees
(`trees`), a row takes all that fit by one vertex, in O(log runs). So it does where a value decides
the rounds of a run (`rounds`): runs wait in the tree for all their rounds, and a row is filed among
those. A row that ends rounds under `;` cuts the runs that it takes from those that are ready.

Without room the kernel undoes the moment, or interrupts filing; Python grows an array and calls
it again. Where a condition has no answer yet, it undoes the moment too, and Python answers.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cernis.compiled import borrowing as kernel
from cernis.compiled import inner
from cernis.engine.dag import ordered as by_order
from cernis.engine.dag import records as r
from cernis.engine.dag import unions
from cernis.engine.dag.links import (
    ANY_ROUNDS,
    BY_GREATER,
    BY_LESS,
    BY_UNION,
    BY_VALUE,
    ENDED_LINKS,
    NEXT_ROUNDS,
    ONE_ROUND,
    ROUNDS_LINKS,
    STRICT_ROUNDS,
    link_ended,
    link_rounds,
)
from cernis.engine.dag.records import RunMemory
from cernis.engine.dag.rounds import FIRST_WORD, LAST_WORD
from cernis.engine.graphs.expressions import TRUE, Values, holds
from cernis.engine.linked import trees
from cernis.engine.linked import waiting as w
from cernis.engine.linked.tables import ANY, NEXT, STRICT
from cernis.engine.linked.waiting import WaitingRuns

DONE, NO_ROOM, NO_ENTRIES, NO_PENDING, NO_ANSWERS = range(5)
READING, FILING = range(2)
ALONE, TAKEN = -1, -2
FITS = -1
WHOLE, ROUND, REST = range(3)
"""What a vertex serves: all that follows, only later rounds, or all but later rounds."""


class LinkedRows(NamedTuple):
    """A batch of solutions, in order of their moments."""

    reading: NDArray[np.int32]
    codes: NDArray[np.int32]
    moment: NDArray[np.int64]
    clock: NDArray[np.int64]
    bound: NDArray[np.int64]
    part: NDArray[np.int32]
    alike: NDArray[np.int32]
    """Per exit of the row's step: a number that rows of the moment share if a match cannot tell
    them apart; -1: there is no other."""


class LastMoments(NamedTuple):
    """Per partition, the last moment it had a row, and the one before; empty: no partitions."""

    last: NDArray[np.int64]
    before: NDArray[np.int64]


class Pending(NamedTuple):
    """Vertices that wait to be filed: their state, and the values they have bound."""

    vertex: NDArray[np.int32]
    state: NDArray[np.int32]
    part: NDArray[np.int32]
    entry: NDArray[np.int32]
    """The entry whose rounds it joins; 0: none."""
    use: NDArray[np.int32]
    """WHOLE, ROUND or REST."""
    codes: NDArray[np.int32]
    told: NDArray[np.int64]
    """Which runs the moment has taken on: a hash table of (round, alike, exit, source)."""


class LinkedMemory(NamedTuple):
    """The state of a streamset: the run DAG, the runs that wait in it, and new vertices."""

    dag: RunMemory
    waiting: WaitingRuns
    moments: LastMoments
    pending: Pending


class Gathered(NamedTuple):
    """The runs that a vertex gathers, and their entry; entry 0: none, a match begins."""

    entry: np.int64
    link: np.int64
    at: np.int64
    start: np.int64
    high: np.int64
    low: np.int64
    """The words at which a range of a search tree ends."""
    use: np.int64
    """WHOLE, ROUND or REST."""


class Evaluation(NamedTuple):
    """The values of terms, and the stack on which expressions are evaluated."""

    values: Values
    stack: NDArray[np.void]


@kernel
def step(tables, memory, rows, evaluation, base, begin):
    """Read the rows from `begin` on; return (status, row to go on with, array)."""
    dag, waiting = memory.dag, memory.waiting
    counters, own = dag.counters, waiting.counters
    i = begin
    while i < len(rows.reading):
        moment = rows.moment[i]
        end = i + 1
        while end < len(rows.reading) and rows.moment[end] == moment:
            end += 1
        if own[w.PHASE] == READING:
            vertices, sources = counters[r.VERTICES], counters[r.SOURCES]
            roots, asked = counters[r.ROOTS], counters[r.ASKED]
            own[w.ROUND] += 1
            own[w.FIRST] = i
            own[w.TOLD] = 0
            _note_moments(memory.moments, rows, i, end)
            status, array = DONE, 0
            for k in range(i, end):
                status, array = _read(tables, memory, rows, evaluation, base, k)
                if status != DONE:
                    break
            if status == DONE and evaluation.values.answers.counters[0] > 0:
                status = NO_ANSWERS
            if status != DONE:
                counters[r.VERTICES], counters[r.SOURCES] = vertices, sources
                counters[r.ROOTS], counters[r.ASKED] = roots, asked
                for m in range(own[w.MOVED]):
                    waiting.moved[waiting.leaving[m]] = -1
                own[w.MOVED], own[w.PENDING] = 0, 0
                return status, i, array
            for m in range(own[w.MOVED]):
                if waiting.sort[waiting.leaving[m]] == trees.PLAIN:
                    _empty(memory, waiting.leaving[m])
            own[w.PHASE], own[w.FILED], own[w.STORE_AT], own[w.CUT] = FILING, 0, 0, 0
        while own[w.CUT] < own[w.MOVED]:
            array = _cut(tables, memory, waiting.leaving[own[w.CUT]], rows.bound[i])
            if array != FITS:
                return NO_ROOM, i, array
            own[w.CUT] += 1
        while own[w.FILED] < own[w.PENDING]:
            status, array = _file(tables, memory, rows, evaluation.values.facts, base, i)
            if status != DONE:
                return status, i, array
        for m in range(own[w.MOVED]):
            entry = waiting.leaving[m]
            if waiting.store[entry] >= 0 and dag.buckets[entry]["root"] == 0:
                w.leave(tables, waiting, entry)
        own[w.MOVED], own[w.PENDING], own[w.PHASE] = 0, 0, READING
        i = end
    return DONE, i, 0


@inner
def _note_moments(moments, rows, begin, end):
    """Note the moment of these rows in their partitions."""
    if len(moments.last) == 0:
        return
    moment = rows.moment[begin]
    for k in range(begin, end):
        part = rows.part[k]
        if moments.last[part] != moment:
            moments.before[part] = moments.last[part]
            moments.last[part] = moment


@inner
def _read(tables, memory, rows, evaluation, base, k):
    """Take the transitions and guards of one row; return (status, array)."""
    waiting = memory.waiting
    reading, codes, bound = rows.reading[k], rows.codes[k], rows.bound[k]
    since = _moment_before(memory.moments, rows, k)
    for t in range(tables.reading_first[reading], tables.reading_first[reading + 1]):
        transition = tables.reading_transitions[t]
        store = tables.transition_store[transition]
        if store < 0:
            if not _holds(tables, evaluation, transition, codes, codes):
                continue
            none = _gather_all(0, 0, rows.clock[k])
            status, array = _make(tables, memory, rows, base, k, transition, none)
            if status != DONE:
                return status, array
            continue
        if tables.store_ending[store] >= 0:
            status, array = _read_round(tables, memory, rows, base, k, transition)
        elif tables.store_home[store] >= 0:
            status, array = _read_ready(tables, memory, rows, evaluation, base, k, transition)
        elif tables.store_sorted[store] >= 0:
            status, array = _read_trees(tables, memory, rows, evaluation, base, k, transition)
        else:
            status, array = DONE, 0
        if status != DONE:
            return status, array
        index = tables.transition_index[transition]
        limit = _limit(tables, evaluation, transition, index, codes)
        for f in range(w.ask(tables, waiting, store, index, codes, limit)):
            entry = waiting.found[f]
            if _is_stale(tables, memory, entry, since, bound):
                _drop(tables, memory, entry)
                continue
            if not _holds(tables, evaluation, transition, codes, waiting.codes[entry]):
                continue
            root = memory.dag.buckets[entry]["root"]
            start = memory.dag.nodes[root]["start"]
            runs = _gather_all(entry, root, start)
            status, array = _make(tables, memory, rows, base, k, transition, runs)
            if status != DONE:
                return status, array
            if tables.store_link[store] == NEXT:
                _move(waiting, entry, rows.moment[k])
    for t in range(tables.guard_first[reading], tables.guard_first[reading + 1]):
        guard = tables.reading_guards[t]
        store, index = tables.guard_store[guard], tables.guard_index[guard]
        number = len(tables.transition_store) + guard
        limit = _limit(tables, evaluation, number, index, codes)
        for f in range(w.ask(tables, waiting, store, index, codes, limit)):
            entry = waiting.found[f]
            if _is_stale(tables, memory, entry, since, bound):
                _drop(tables, memory, entry)
            elif _holds(tables, evaluation, number, codes, waiting.codes[entry]):
                _move(waiting, entry, rows.moment[k])
    return DONE, 0


@inner
def _moment_before(moments, rows, k):
    """Return the moment before a row; with partitions, the one before of the row's own."""
    if len(moments.last) == 0:
        return rows.moment[k] - 1
    return moments.before[rows.part[k]]


@inner
def _read_trees(tables, memory, rows, evaluation, base, k, transition):
    """Take the runs of search trees that fit a row; return (status, array)."""
    dag, waiting, bound = memory.dag, memory.waiting, rows.bound[k]
    store, operator = tables.transition_store[transition], tables.order_operator[transition]
    again, below = tables.store_again[store], operator in (r.LESS, r.LESS_EQUAL)
    way, is_alone = _way_of(tables.store_link[store]), _is_alone(rows, k)
    for sort in range(trees.SORTS):
        entry = _find_tree(tables, memory, rows, k, store, sort)
        if entry == 0:
            continue
        root = dag.buckets[entry]["root"]
        last, latest = _seek(tables, memory, rows, evaluation, k, transition, entry)
        if last == 0 or latest < bound:
            continue
        high, low = dag.branches[last]["high"], dag.branches[last]["low"]
        if again >= 0 and tables.store_link[store] == STRICT:
            _note_limit(waiting, entry, rows.moment[k], high, low, below)
        link = BY_LESS if below else BY_GREATER
        if again >= 0:
            link = link_rounds(way, below, False)
        if is_alone or (
            again >= 0 and _is_widest(tables, memory, rows, evaluation, k, transition, entry)
        ):
            use = WHOLE if is_alone else ROUND
            runs = _gather_range(entry, link, root, latest, high, low, use)
            status, array = _make(tables, memory, rows, base, k, transition, runs)
            if status != DONE:
                return status, array
        if not is_alone:
            link = BY_VALUE if again < 0 else link_rounds(way, below, True)
            runs = _gather_range(entry, link, root, latest, high, low, REST)
            status, array = _take_values(tables, memory, rows, base, k, transition, runs)
            if status != DONE:
                return status, array
    return DONE, 0


@inner
def _is_alone(rows, k):
    """Return whether no other row of the moment is the same for any of the next steps."""
    is_alone = True
    for exit_ in range(rows.alike.shape[1]):
        is_alone = is_alone and rows.alike[k, exit_] < 0
    return is_alone


@inner
def _find_tree(tables, memory, rows, k, store, sort):
    """Return the entry of a store with the search tree that a row asks; 0: there is none."""
    waiting = memory.waiting
    w.probe_tree(tables, waiting, store, rows.codes[k], sort)
    entry = w.find(tables, waiting, store, waiting.probe)
    since = _moment_before(memory.moments, rows, k)
    if entry != 0 and _is_stale(tables, memory, entry, since, rows.bound[k]):
        _drop(tables, memory, entry)
        return 0
    return entry


@inner
def _take_values(tables, memory, rows, base, k, transition, runs):
    """Take the values of a range one by one, from its end inwards; return (status, array)."""
    branches, operator = memory.dag.branches, tables.order_operator[transition]
    high, low = runs.high, runs.low
    while True:
        top = by_order.find_inside(branches, runs.at, r.EQUAL, high, low)
        latest = by_order.latest_inside(branches, top, r.EQUAL, high, low)
        if latest >= rows.bound[k]:
            some = _gather_range(runs.entry, runs.link, top, latest, high, low, runs.use)
            status, array = _make(tables, memory, rows, base, k, transition, some)
            if status != DONE:
                return status, array
        last = trees.next_value(branches, runs.at, operator, high, low)
        if last == 0:
            return DONE, 0
        high, low = branches[last]["high"], branches[last]["low"]


@inner
def _read_round(tables, memory, rows, base, k, transition):
    """Take all runs of search trees on by a round that asks nothing; return (status, array)."""
    dag, store = memory.dag, tables.transition_store[transition]
    again, ending = tables.store_again[store], tables.store_ending[store]
    left = tables.transition_store[ending]
    if not _is_first_alike(tables, memory, rows, k, store, tables.store_exit[left]):
        return DONE, 0
    word = FIRST_WORD
    if again >= 0 and not _is_first_alike(tables, memory, rows, k, store, tables.store_exit[again]):
        word = LAST_WORD
    link = link_rounds(_way_to_end(tables, store), True, False)
    for sort in range(trees.SORTS):
        entry = _find_tree(tables, memory, rows, k, store, sort)
        if entry != 0:
            root = dag.buckets[entry]["root"]
            latest, high = dag.branches[root]["best"], r.LARGEST_NUMBER
            runs = _gather_range(entry, link, root, latest, high, word, ROUND)
            status, array = _make(tables, memory, rows, base, k, transition, runs)
            if status != DONE:
                return status, array
    return DONE, 0


@inner
def _read_ready(tables, memory, rows, evaluation, base, k, transition):
    """End the rounds of the runs that fit a row; return (status, array)."""
    dag, waiting, bound = memory.dag, memory.waiting, rows.bound[k]
    store, operator = tables.transition_store[transition], tables.order_operator[transition]
    home, below = tables.store_home[store], operator in (r.LESS, r.LESS_EQUAL)
    once, is_alone = tables.store_link[store] == NEXT, _is_alone(rows, k)
    link = link_ended(_way_to_end(tables, home), below, not is_alone, once)
    for sort in range(trees.SORTS):
        entry = _find_tree(tables, memory, rows, k, home, sort)
        if entry == 0 or dag.buckets[entry]["last"] == 0:
            continue
        root = dag.buckets[entry]["last"]
        last, latest = _seek(tables, memory, rows, evaluation, k, transition, entry)
        if last == 0 or latest < bound:
            continue
        high, low = dag.branches[last]["high"], dag.branches[last]["low"]
        if once:
            _note_limit(waiting, entry, rows.moment[k], high, low, below)
        runs = _gather_range(entry, link, root, latest, high, low, WHOLE)
        if is_alone:
            status, array = _make(tables, memory, rows, base, k, transition, runs)
        else:
            status, array = _take_values(tables, memory, rows, base, k, transition, runs)
        if status != DONE:
            return status, array
    return DONE, 0


@inner
def _is_first_alike(tables, memory, rows, k, store, exit_):
    """Return whether a row is the first that is the same for the step at an exit and asks so."""
    if rows.alike[k, exit_] < 0:
        return True
    for other in range(memory.waiting.counters[w.FIRST], k):
        same = rows.alike[other, exit_] == rows.alike[k, exit_]
        same = same and rows.reading[other] == rows.reading[k]
        if same and _joins_alike(tables, store, rows, k, other):
            return False
    return True


@inner
def _way_of(link):
    """Return how runs take rounds under a separator."""
    return ANY_ROUNDS if link == ANY else STRICT_ROUNDS if link == STRICT else NEXT_ROUNDS


@inner
def _way_to_end(tables, store):
    """Return how the runs of a store take rounds that a step ends."""
    return ONE_ROUND if tables.store_again[store] < 0 else _way_of(tables.store_link[store])


@inner
def _seek(tables, memory, rows, evaluation, k, transition, entry):
    """Return the last branch of an entry's tree that fits a row, and the latest start of all.

    A row that ends rounds asks the tree of the runs that are ready.
    """
    dag, waiting = memory.dag, memory.waiting
    store = tables.transition_store[transition]
    is_ready = tables.store_home[store] >= 0
    root = dag.buckets[entry]["last"] if is_ready else dag.buckets[entry]["root"]
    p = tables.order_program[transition]
    program = tables.programs[tables.program_first[p] : tables.program_first[p + 1]]
    holds(program, evaluation.values, rows.codes[k], rows.codes[k], evaluation.stack)
    question = trees.ask_tree(waiting.sort[entry], evaluation.stack[0], waiting.word)
    operator = tables.order_operator[transition]
    return trees.seek(dag.branches, root, operator, question)


@inner
def _is_widest(tables, memory, rows, evaluation, k, transition, entry):
    """Return whether no other row that is the same for the next round takes more runs of an entry.

    Of rows that take the same, the first is chosen.
    """
    store, operator = tables.transition_store[transition], tables.order_operator[transition]
    exit_ = tables.store_exit[tables.store_again[store]]
    if rows.alike[k, exit_] < 0:
        return True
    branches, below = memory.dag.branches, operator in (r.LESS, r.LESS_EQUAL)
    last, _ = _seek(tables, memory, rows, evaluation, k, transition, entry)
    high, low = branches[last]["high"], branches[last]["low"]
    other = memory.waiting.counters[w.FIRST]
    while other < len(rows.reading) and rows.moment[other] == rows.moment[k]:
        same = other != k and rows.alike[other, exit_] == rows.alike[k, exit_]
        same = same and rows.reading[other] == rows.reading[k]
        if same and _joins_alike(tables, store, rows, k, other):
            last, _ = _seek(tables, memory, rows, evaluation, other, transition, entry)
            if last != 0:
                equal = by_order.is_in_range(branches[last], r.EQUAL, high, low)
                wider = r.GREATER if below else r.LESS
                if by_order.is_in_range(branches[last], wider, high, low) or (equal and other < k):
                    return False
        other += 1
    return True


@inner
def _joins_alike(tables, store, rows, one, other):
    """Return whether two rows ask a store for the same search tree."""
    for c in range(tables.store_first[store], tables.store_first[store + 1]):
        column = tables.store_columns[c]
        is_ordered = column == tables.store_sorted[store]
        if not is_ordered and rows.codes[one, column] != rows.codes[other, column]:
            return False
    return True


@inner
def _note_limit(waiting, entry, moment, high, low, below):
    """Note that the moment takes the runs of an entry up to these words, or from them on."""
    limit = waiting.limit[entry]
    is_wider = waiting.moved[entry] != moment
    if not is_wider and below:
        is_wider = high > limit[0] or (high == limit[0] and low > limit[1])
    elif not is_wider:
        is_wider = high < limit[0] or (high == limit[0] and low < limit[1])
    if is_wider:
        limit[0], limit[1], limit[2] = high, low, below
    _move(waiting, entry, moment)


@inner
def _gather_all(entry, root, start):
    """Return all runs of an entry."""
    return _gather_range(entry, BY_UNION, root, start, 0, 0, WHOLE)


@inner
def _gather_range(entry, link, at, start, high, low, use):
    """Return a range of the runs of an entry, for a vertex with this use."""
    return Gathered(
        np.int64(entry),
        np.int64(link),
        np.int64(at),
        np.int64(start),
        np.int64(high),
        np.int64(low),
        np.int64(use),
    )


@inner
def _limit(tables, evaluation, number, index, codes):
    """Return the limit up to which a row asks an ordered index."""
    p = tables.order_program[number]
    if p < 0:
        return np.inf
    program = tables.programs[tables.program_first[p] : tables.program_first[p + 1]]
    holds(program, evaluation.values, codes, codes, evaluation.stack)
    key = w.order_key(tables.index_order[index], evaluation.stack[0])
    return key if key != -np.inf else np.inf


@inner
def _holds(tables, evaluation, number, codes, kept):
    """Return whether all conditions of a transition or guard hold."""
    for p in range(tables.asked_first[number], tables.asked_first[number + 1]):
        program = tables.programs[tables.program_first[p] : tables.program_first[p + 1]]
        if holds(program, evaluation.values, codes, kept, evaluation.stack) != TRUE:
            return False
    return True


@inner
def _is_stale(tables, memory, entry, since, bound):
    """Return whether the runs of an entry have left the window, or missed the next timestamp."""
    if w.latest_start(memory.waiting, memory.dag, entry) < bound:
        return True
    is_strict = tables.store_link[memory.waiting.store[entry]] == STRICT
    return is_strict and memory.dag.buckets[entry]["ordinal"] != since


@inner
def _drop(tables, memory, entry):
    """Drop an entry and its runs."""
    memory.dag.buckets[entry]["root"] = 0
    w.leave(tables, memory.waiting, entry)


@inner
def _empty(memory, entry):
    """Drop the runs of an entry; it stays for those that the moment files there."""
    memory.dag.buckets[entry]["root"] = 0
    memory.dag.buckets[entry]["last"] = 0
    w.number_group(memory.waiting, entry)


@inner
def _move(waiting, entry, moment):
    """Let an entry leave when the moment is over."""
    if waiting.moved[entry] != moment:
        waiting.moved[entry] = moment
        waiting.leaving[waiting.counters[w.MOVED]] = entry
        waiting.counters[w.MOVED] += 1


@inner
def _make(tables, memory, rows, base, k, transition, runs):
    """Make the vertex of a row and the runs that it gathers; return (status, array)."""
    first = memory.waiting.counters[w.FIRST]
    dag, waiting, pending = memory.dag, memory.waiting, memory.pending
    counters, own, entry = dag.counters, waiting.counters, runs.entry
    vertex, source = counters[r.VERTICES], counters[r.SOURCES]
    if vertex == len(dag.vertices):
        return NO_ROOM, r.VERTICES
    if source == len(dag.sources):
        return NO_ROOM, r.SOURCES
    if runs.link != BY_UNION and counters[r.ASKED] == len(dag.asked):
        return NO_ROOM, r.ASKED
    if counters[r.ROOTS] == len(dag.roots):
        return NO_ROOM, r.ROOTS
    if own[w.PENDING] == len(pending.vertex):
        return NO_PENDING, 0
    for exit_ in range(rows.alike.shape[1]):
        own[w.TOLD] += rows.alike[k, exit_] >= 0
    if 2 * own[w.TOLD] > len(pending.told):
        return NO_PENDING, 0
    if entry == 0 and runs.start < rows.bound[k]:
        return DONE, 0  # before the first of the tumbling windows
    if entry != 0:
        _add_source(dag, waiting, rows.moment[k], runs)
    dag.vertices[vertex]["position"] = base + k
    dag.vertices[vertex]["start"] = runs.start
    dag.vertices[vertex]["label"] = tables.transition_label[transition]
    dag.vertices[vertex]["first"] = source
    dag.vertices[vertex]["count"] = 0 if entry == 0 else 1
    dag.vertices[vertex]["rank"] = k - first
    counters[r.VERTICES] = vertex + 1
    if tables.transition_final[transition] and runs.use != ROUND:
        exit_ = tables.transition_exit[transition]
        name = _name_runs(runs.link, runs.at)
        told = _find_told(memory, rows, k, exit_, name)
        if told != TAKEN:
            _tell(memory, rows, k, exit_, name, told)
            found = counters[r.ROOTS]
            dag.roots[found]["end"] = base + k
            dag.roots[found]["bound"] = rows.bound[k]
            dag.roots[found]["key"] = rows.part[k]
            dag.roots[found]["vertex"] = vertex
            counters[r.ROOTS] = found + 1
    state = tables.transition_target[transition]
    if tables.state_first[state] == tables.state_first[state + 1]:
        return DONE, 0
    p = own[w.PENDING]
    own[w.PENDING] = p + 1
    pending.vertex[p] = vertex
    pending.state[p] = state
    pending.part[p] = rows.part[k]
    pending.entry[p] = entry if ROUNDS_LINKS <= runs.link < ENDED_LINKS else 0
    pending.use[p] = runs.use
    for column in range(rows.codes.shape[1]):
        code = rows.codes[k, column]
        if code < 0 and entry != 0 and not tables.transition_fresh[transition, column]:
            code = waiting.codes[entry, column]
        pending.codes[p, column] = code
    return DONE, 0


@inner
def _add_source(dag, waiting, moment, runs):
    """Make the source of a vertex."""
    counters = dag.counters
    source = counters[r.SOURCES]
    counters[r.SOURCES] = source + 1
    dag.sources[source]["link"] = runs.link
    dag.sources[source]["at"] = runs.at
    dag.sources[source]["version"] = moment
    dag.sources[source]["asked"] = 0
    dag.sources[source]["group"] = 0
    if runs.link == BY_UNION:
        dag.sources[source]["group"] = waiting.group[runs.entry]
        return
    if runs.link >= ROUNDS_LINKS:
        dag.sources[source]["group"] = dag.buckets[runs.entry]["before"]
    waiting.shared[runs.entry] = counters[r.BRANCHES]
    asked = counters[r.ASKED]
    counters[r.ASKED] = asked + 1
    dag.sources[source]["asked"] = asked
    dag.asked[asked, 0] = runs.high
    dag.asked[asked, 1] = runs.low
    if runs.link >= ENDED_LINKS:
        dag.asked[asked, 2] = dag.buckets[runs.entry]["part"]


@inner
def _name_runs(link, at):
    """Return a number for the runs of a source; nodes and branches have different ones."""
    return at if link == BY_UNION else -at


@inner
def _find_told(memory, rows, k, exit_, source):
    """Return where to note that a row takes the runs of a source on by an exit.

    TAKEN: a row that is alike has taken them. ALONE: there is none.
    """
    if exit_ < 0 or rows.alike[k, exit_] < 0:
        return ALONE
    told, round_ = memory.pending.told, memory.waiting.counters[w.ROUND]
    alike = rows.alike[k, exit_]
    last = len(told) - 1
    at = (np.int64(alike) * 40503 + np.int64(source) * 2654435761 + exit_) & last
    while told[at, 0] == round_:
        if told[at, 1] == alike and told[at, 2] == exit_ and told[at, 3] == source:
            return TAKEN
        at = (at + 1) & last
    return at


@inner
def _tell(memory, rows, k, exit_, source, at):
    """Note that a row takes the runs of a source on by an exit."""
    if at >= 0:
        told = memory.pending.told
        told[at, 0] = memory.waiting.counters[w.ROUND]
        told[at, 1] = rows.alike[k, exit_]
        told[at, 2] = exit_
        told[at, 3] = source


@inner
def _file(tables, memory, rows, facts, base, i):
    """File the next pending vertex in the stores of its state; return (status, array)."""
    moment, bound = rows.moment[i], rows.bound[i]
    dag, waiting, pending = memory.dag, memory.waiting, memory.pending
    own = waiting.counters
    p = own[w.FILED]
    state, vertex, codes = pending.state[p], pending.vertex[p], pending.codes[p]
    first = tables.state_first[state]
    k = dag.vertices[vertex]["position"] - base
    source = 0
    if dag.vertices[vertex]["count"] > 0:
        one = dag.sources[dag.vertices[vertex]["first"]]
        source = _name_runs(one["link"], one["at"])
    while first + own[w.STORE_AT] < tables.state_first[state + 1]:
        store = first + own[w.STORE_AT]
        is_round = tables.store_is_again[store] and pending.entry[p] != 0
        if pending.use[p] == (REST if is_round else ROUND):
            own[w.STORE_AT] += 1
            continue
        if is_round:
            array = _file_round(tables, memory, pending.entry[p], vertex, moment, bound)
            if array != FITS:
                return NO_ROOM, array
            own[w.STORE_AT] += 1
            continue
        told = _find_told(memory, rows, k, tables.store_exit[store], source)
        if told == TAKEN:
            own[w.STORE_AT] += 1
            continue
        ordered, sort, kept = tables.store_sorted[store], trees.PLAIN, codes
        if ordered >= 0:
            sort = trees.sort_of(facts[codes[ordered]])
        if sort != trees.PLAIN:
            w.probe_tree(tables, waiting, store, codes, sort)
            kept = waiting.probe
        entry = w.find(tables, waiting, store, kept)
        if entry == 0:
            entry = w.enter(tables, facts, waiting, store, pending.part[p], kept)
            if entry == 0:
                return NO_ENTRIES, 0
            dag.buckets[entry]["root"] = 0
            dag.buckets[entry]["last"] = 0
            dag.buckets[entry]["ordinal"] = moment
            dag.buckets[entry]["part"] = 0
            dag.buckets[entry]["before"] = 0
        bucket = dag.buckets[entry]
        if sort != trees.PLAIN:
            array = _renew(tables, memory, entry, moment, bound)
            if array != FITS:
                return NO_ROOM, array
        elif tables.store_link[store] == STRICT and bucket["ordinal"] != moment:
            bucket["root"] = 0
            bucket["last"] = 0
            w.number_group(waiting, entry)
        if sort != trees.PLAIN:
            high, low = trees.words_of(sort, facts[codes[ordered]], waiting.word)
            array = _plant(memory, entry, high, low, vertex, bound)
        else:
            array = _insert(dag, waiting.group[entry], entry, vertex, moment, bound)
        if array != FITS:
            return NO_ROOM, array
        bucket["ordinal"] = moment
        _tell(memory, rows, k, tables.store_exit[store], source, told)
        own[w.STORE_AT] += 1
    own[w.STORE_AT] = 0
    own[w.FILED] = p + 1
    return DONE, 0


@inner
def _file_round(tables, memory, entry, vertex, moment, bound):
    """Put a vertex among the rounds of an entry; return the array without room, or FITS."""
    dag = memory.dag
    array = _renew(tables, memory, entry, moment, bound)
    if array != FITS:
        return array
    branches, bucket, made = dag.branches, dag.buckets[entry], dag.vertices[vertex]
    asked = dag.asked[dag.sources[made["first"]]["asked"]]
    high, low, root = asked[0], asked[1], bucket["before"]
    if dag.counters[r.BRANCHES] + by_order.room_to_insert(branches, root, high, low) > len(
        branches
    ):
        return r.BRANCHES
    begin = made["position"] - made["rank"]
    run = by_order.PlantedRun(high, low, vertex, begin)
    bucket["before"] = by_order.insert(branches, dag.counters, root, run, r.NOTHING)
    if tables.store_ending[memory.waiting.store[entry]] >= 0:
        bucket["last"] = dag.sources[made["first"]]["at"]
    return FITS


@inner
def _cut(tables, memory, entry, bound):
    """Take the runs whose rounds the moment has ended from those that are ready, and note it.

    Return the array without room, or FITS. What has been done then may be done again.
    """
    dag, waiting = memory.dag, memory.waiting
    branches, bucket, counters = dag.branches, dag.buckets[entry], dag.counters
    if waiting.sort[entry] == trees.PLAIN or tables.store_ending[waiting.store[entry]] < 0:
        return FITS
    high, low = waiting.limit[entry, 0], waiting.limit[entry, 1]
    operator = r.LESS_EQUAL if waiting.limit[entry, 2] else r.GREATER_EQUAL
    ready, taken = bucket["last"], bucket["part"]
    room = by_order.room_to_erase(branches, ready, operator, high, low)
    room += by_order.room_to_erase(branches, taken, operator, high, low)
    if counters[r.BRANCHES] + room > len(branches):
        return r.BRANCHES
    ready = by_order.erase(branches, counters, ready, operator, high, low, bound)
    taken = by_order.erase(branches, counters, taken, operator, high, low, r.NOTHING)
    room = by_order.room_to_insert(branches, taken, high, low)
    if counters[r.BRANCHES] + room > len(branches):
        return r.BRANCHES
    last, _ = by_order.latest_run(
        branches, bucket["before"], r.LESS_EQUAL, r.LARGEST_NUMBER, LAST_WORD
    )
    run = by_order.PlantedRun(high, low, branches[last]["vertex"], branches[last]["start"])
    bucket["last"] = ready
    bucket["part"] = by_order.insert(branches, counters, taken, run, r.NOTHING)
    return FITS


@inner
def _renew(tables, memory, entry, moment, bound):
    """Under `,`, leave the runs of an entry behind that this moment has not taken.

    Return the array without room, or FITS.
    """
    dag, waiting = memory.dag, memory.waiting
    bucket = dag.buckets[entry]
    if tables.store_link[waiting.store[entry]] != STRICT or bucket["ordinal"] == moment:
        return FITS
    if waiting.moved[entry] == moment:
        high, low = waiting.limit[entry, 0], waiting.limit[entry, 1]
        operator, root = r.GREATER if waiting.limit[entry, 2] else r.LESS, bucket["root"]
        room = by_order.room_to_erase(dag.branches, root, operator, high, low)
        if dag.counters[r.BRANCHES] + room > len(dag.branches):
            return r.BRANCHES
        bucket["root"] = by_order.erase(
            dag.branches, dag.counters, root, operator, high, low, bound
        )
    else:
        bucket["root"] = 0
        bucket["before"] = 0
    bucket["ordinal"] = moment
    return FITS


@inner
def _plant(memory, entry, high, low, vertex, bound):
    """Put a vertex into the search tree of an entry; return the array without room, or FITS."""
    dag, shared = memory.dag, memory.waiting.shared[entry]
    branches, root = dag.branches, dag.buckets[entry]["root"]
    room = by_order.room_to_insert(branches, root, high, low)
    if dag.counters[r.BRANCHES] + room > len(branches):
        return r.BRANCHES
    run = by_order.PlantedRun(high, low, vertex, dag.vertices[vertex]["start"])
    root = by_order.insert(branches, dag.counters, root, run, bound, shared)
    dag.buckets[entry]["root"] = root
    return FITS


@inner
def _insert(dag, group, entry, vertex, moment, bound):
    """Put a vertex into the union of an entry; return the array without room, or FITS."""
    bucket, counters, start = dag.buckets[entry], dag.counters, dag.vertices[vertex]["start"]
    room = unions.room_to_insert(dag.nodes, bucket["last"], start, moment)
    made = counters[r.NODES]
    if made + room > len(dag.nodes):
        return r.NODES
    root, last = unions.insert(
        dag.nodes, counters, bucket["root"], bucket["last"], vertex, start, moment, bound
    )
    for node in range(made, counters[r.NODES]):
        dag.nodes[node]["group"] = group
    bucket["root"] = root
    bucket["last"] = last
    return FITS
