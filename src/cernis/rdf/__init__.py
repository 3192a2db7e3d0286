"""RDF streams in, graph patterns solved: the only folder that knows of pyoxigraph."""

from __future__ import annotations
