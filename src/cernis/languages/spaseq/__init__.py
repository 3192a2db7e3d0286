"""SPAseQ: sequences of SPARQL graph patterns over named RDF streams.

>>> from cernis.languages.spaseq import parse
>>> query = parse('''
...     PREFIX : <http://example.org/>
...     SELECT ?house WITHIN 30 MINUTES
...     FROM STREAM S <http://example.org/power>
...     WHERE {
...       SEQ (A ; B+)
...       DEFINE GPM A ON S { ?house :power ?p }
...       DEFINE GPM B ON S { ?house :power ?q . FILTER (?q > ?p) }
...     }''')
>>> [step.link for step in query.steps]
[None, ';']
"""

from __future__ import annotations

from cernis.languages.spaseq.parse import parse

__all__ = ["parse"]
