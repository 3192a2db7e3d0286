"""YAML with the plain values of version 1.2: `ON` and `NO` are texts, `010` is 10, `1e3` a number.

PyYAML reads version 1.1, in which an event of the type `ON` would have the type True, and `10:30`
would be 630. Keys are texts, and no two of a mapping are equal; PyYAML would take the last one.
Dates, null and everything else are as PyYAML reads them, in its safe form. Each mistake knows its
line.
"""

from __future__ import annotations

import re
from typing import Any

import yaml
from yaml.constructor import ConstructorError
from yaml.nodes import MappingNode, Node, ScalarNode

_BOOLEAN, _WHOLE, _NUMBER = (f"tag:yaml.org,2002:{name}" for name in ("bool", "int", "float"))
_BEGINNINGS = list("-+.0123456789")
_IS_NUMBER = re.compile(
    r"(?:[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?"
    r"|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$"
)


class PlainLoader(yaml.SafeLoader):  # type: ignore[misc]  # which has no types
    """Reads plain values; raises a MarkedYAMLError for a value or a key that is none."""

    def construct_object(self, node: Node, deep: bool = False) -> Any:
        try:
            return super().construct_object(node, deep)
        except (ValueError, OverflowError) as error:
            raise ConstructorError(None, None, str(error), node.start_mark) from None

    def construct_mapping(self, node: MappingNode, deep: bool = False) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key, value in node.value:
            name = read_key(key)
            if name in found:
                raise ConstructorError(None, None, f"`{name}` stands here twice", key.start_mark)
            found[name] = self.construct_object(value, deep=True)
        return found

    def construct_whole(self, node: ScalarNode) -> int:
        return int(node.value)


class PlainDumper(yaml.SafeDumper):  # type: ignore[misc]
    """Quotes every text that version 1.1 or 1.2 would take for something else."""


PlainLoader.yaml_implicit_resolvers = {
    first: [pair for pair in pairs if pair[0] not in (_BOOLEAN, _WHOLE, _NUMBER)]
    for first, pairs in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_IS_BOOLEAN = re.compile("(?:true|True|TRUE|false|False|FALSE)$")
PlainLoader.add_implicit_resolver(_BOOLEAN, _IS_BOOLEAN, list("tTfF"))
PlainLoader.add_implicit_resolver(_WHOLE, re.compile("[-+]?[0-9]+$"), _BEGINNINGS)
PlainLoader.add_implicit_resolver(_NUMBER, _IS_NUMBER, _BEGINNINGS)
PlainLoader.add_constructor(_WHOLE, PlainLoader.construct_whole)
PlainDumper.add_implicit_resolver(_NUMBER, _IS_NUMBER, _BEGINNINGS)


def read_key(key: Node) -> str:
    """Return the text of a key; raise a MarkedYAMLError if it has parts."""
    if not isinstance(key, ScalarNode):
        raise ConstructorError(None, None, "a key is a text", key.start_mark)
    return str(key.value)
