"""CEQL, the query language of CORE, as `Pattern`s.

>>> from cernis.languages.ceql import parse
>>> str(parse("select * from S where SELL as a; BUY as b within 10 events"))
'SELECT * FROM S WHERE SELL AS a ; BUY AS b WITHIN 10 EVENTS'
"""

from __future__ import annotations

from cernis.languages.ceql.parse import parse, parse_schema

__all__ = ["parse", "parse_schema"]
