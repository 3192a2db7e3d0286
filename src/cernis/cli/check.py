"""`cernis check`: parse and type-check a query or rules, for people or as JSON for programs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from cernis.cli.arguments import find_rules, read_query
from cernis.errors import CernisError, QueryError, StrictError, list_warnings
from cernis.integers import count_noun
from cernis.run.query import Query
from cernis.run.rules.rule import RuleSetError, plan_rules, sift_rules

if TYPE_CHECKING:
    from cernis.run.rules.rule_set import RuleSet


def check(
    argument: str,
    language: str,
    *,
    strict: bool,
    skips: bool = False,
    dialect: str | None = None,
) -> str:
    """Check a query or a rule set, print its warnings, and return that it is right.

    With `skips`, rules that are wrong are notes.
    """
    from cernis.cli.terminal import print_notes
    from cernis.pattern.advice.event_window import note_event_window

    if (rules := find_rules(argument, language)) is not None:
        return f"ok: {count_noun(_check_rules(rules, strict=strict, skips=skips), 'rule')}"
    _, checked = _parse(argument, language, dialect)
    if checked is not None:
        if strict and checked.warnings:
            raise StrictError(checked.warnings)
        print_notes([*checked.warnings, *note_event_window(checked.pattern)])
    return "OK"


def _check_rules(source: str | Path, *, strict: bool, skips: bool) -> int:
    """Check all rules, print their warnings, and return how many of them can run.

    The mistakes of all rules are raised together; with `strict`, so are the warnings.
    """
    from cernis.cli.deliver import list_notes
    from cernis.cli.terminal import print_notes
    from cernis.run.rules.reading.prepare import note_refused
    from cernis.run.rules.rule_set import RuleSet

    rules = RuleSet.of(source, "skip") if skips else _read_rules(source)
    print_notes(note_refused(rules.refused))
    found = list_warnings(list_notes(((rule, rule.query.warnings) for rule in rules), common=()))
    if strict and found:
        raise StrictError(found)
    print_notes(found)
    return len(rules)


def _read_rules(source: str | Path) -> RuleSet:
    """Return rules that can run; raise the mistakes of those that cannot be read or planned."""
    from cernis.run.rules.rule_set import RuleSet

    try:
        rules = RuleSet.of(source)
        plan_rules(rules)
    except RuleSetError as error:
        _, refused = sift_rules(source)
        if len(refused) > len(error.mistakes):  # some cannot be planned, too
            raise RuleSetError(refused) from None
        raise
    return rules


def _parse(
    argument: str, language: str, dialect: str | None = None
) -> tuple[str, Query[Any] | None]:
    """Return the text of a query, and the query; None: SPAseQ and SQL have no warnings."""
    text, language = read_query(argument, language)
    if language == "spaseq":
        from cernis.languages.spaseq import parse

        parse(text)
        return text, None
    if language == "sql":
        from cernis.run.rows.statement import SqlQuery

        SqlQuery(text, dialect=dialect or "duckdb")
        return text, None
    query: Query[Any] = Query(text, lang=language)
    _ = query.plan  # a pattern may be too large for an automaton
    return text, query


def check_as_json(
    argument: str, language: str, *, strict: bool, dialect: str | None = None
) -> None:
    """Print the mistakes and warnings of a query or rules as JSON; exit with 1 for mistakes."""
    problems = list_problems(argument, language, dialect)
    wrong = any(strict or one["severity"] == "error" for one in problems)
    typer.echo(json.dumps({"ok": not wrong, "problems": problems}, ensure_ascii=False, indent=2))
    if wrong:
        raise typer.Exit(1)


def list_problems(argument: str, language: str, dialect: str | None = None) -> list[dict[str, Any]]:
    """Return the mistakes, or the warnings where there is none, with their codes and spans."""
    try:
        return [
            {"severity": "warning", **one} for one in _list_warnings(argument, language, dialect)
        ]
    except QueryError as error:
        told = [one.to_dict(error.source) for one in error.diagnostics]
    except RuleSetError as error:
        pairs = zip(error.codes, error.mistakes, strict=True)
        told = [{"code": code, "message": mistake} for code, mistake in pairs]
    except CernisError as error:
        told = [{"code": error.code, "message": str(error)}]
    return [{"severity": "error", **one} for one in told]


def _list_warnings(argument: str, language: str, dialect: str | None) -> list[dict[str, Any]]:
    from cernis.pattern.advice import find_warnings

    if (source := find_rules(argument, language)) is not None:
        return [
            {"code": note.code, "message": f"rule {rule.name}: {note}"}
            for rule in _read_rules(source)
            for note in rule.query.warnings
        ]
    text, checked = _parse(argument, language, dialect)
    if checked is None or checked.conjunctive is not None:
        return []
    return [one.to_dict(text) for one in find_warnings(checked.pattern)]
