"""The matches of many rules in one table: the columns of all rules, and the name of the rule."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from cernis.errors import DataError
from cernis.results.formats.columns import distinct_names

RULE = "rule"
"""The column with the name of the rule."""


def unite_columns(schemas: Sequence[pa.Schema]) -> pa.Schema:
    """Return the columns of all rules; those of one name are one, of a type that holds all."""
    try:
        return pa.unify_schemas(schemas, promote_options="permissive")
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise DataError(f"rules have columns of one name and different types ({error})") from error


def name_rules(united: pa.Schema) -> pa.Schema:
    """Return the columns of matches with the name of their rule first.

    >>> name_rules(pa.schema({"end": pa.int64(), "rule": pa.string()})).names
    ['rule', 'end', 'rule_']
    """
    fields = [pa.field(RULE, pa.string()), *united]
    names = distinct_names(field.name for field in fields)
    return pa.schema([field.with_name(name) for field, name in zip(fields, names, strict=True)])


def fill_table(table: pa.Table, united: pa.Schema) -> pa.Table:
    """Return the matches of one rule with the columns of all rules, NULL where it has no such one.

    >>> united = pa.schema({"end": pa.int64(), "name": pa.string()})
    >>> fill_table(pa.table({"end": [3]}), united).to_pylist()
    [{'end': 3, 'name': None}]
    """
    filled = pa.concat_tables([united.empty_table(), table], promote_options="permissive")
    return filled.select(united.names).cast(united)


def name_table(rule: str, filled: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return filled matches with the name of their rule, in the schema of `name_rules`."""
    names = pa.repeat(pa.scalar(rule, pa.string()), filled.num_rows)
    return pa.table([names, *filled.columns], schema=schema)
