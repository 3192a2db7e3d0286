"""Flink SQL for the SQL library, which has no such dialect.

Flink reads most of what Trino reads. It quotes names with backticks, and its functions of times
take formats and units as Spark's do.
"""

from __future__ import annotations

from typing import ClassVar

from sqlglot.dialects.spark import Spark
from sqlglot.dialects.trino import Trino
from sqlglot.parsers.spark import SparkParser
from sqlglot.parsers.trino import TrinoParser

_AS_SPARK = ("DATE_FORMAT", "TIMESTAMPADD", "TIMESTAMPDIFF", "TO_DATE", "TO_TIMESTAMP")


class Flink(Trino):
    """The dialect `flink`."""

    TIME_MAPPING = Spark.TIME_MAPPING
    NULL_ORDERING = "nulls_are_small"

    class Tokenizer(Trino.Tokenizer):
        IDENTIFIERS: ClassVar = ["`", '"']

    class Parser(TrinoParser):
        FUNCTIONS: ClassVar = {
            **TrinoParser.FUNCTIONS,
            **{name: SparkParser.FUNCTIONS[name] for name in _AS_SPARK},
        }
