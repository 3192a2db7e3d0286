"""`cernis run` and `cernis explain` for SPAseQ queries over RDF streams, in this process."""

from __future__ import annotations

import cernis
from cernis.cli.arguments import OUTPUT_SUFFIXES, Delivery, RunArguments, check_output
from cernis.cli.deliver import GRAPH_MATCHES, deliver, stream_files
from cernis.cli.terminal import print_notes
from cernis.errors import CernisError
from cernis.plan.explain_graphs import GraphExplanation
from cernis.rdf.query import GraphQuery


def run(arguments: RunArguments, delivery: Delivery) -> None:
    """Find the matches of a query in RDF files, and deliver them."""
    query = parse_query(arguments.text, delivery)
    session = query.session(**arguments.reading_graphs, strict=arguments.strict)
    runs = stream_files(session, query.name_streams(arguments.files), delivery.output)
    deliver(runs, delivery, GRAPH_MATCHES, lambda: session.matches([]))
    session.mistakes.complete()  # --limit may end the run early
    print_notes(session.notes)


def explain(arguments: RunArguments) -> GraphExplanation:
    """Explain what a query does and costs."""
    return cernis.query(arguments.text, lang="spaseq").explain()


def parse_query(text: str, delivery: Delivery) -> GraphQuery:
    """Parse a query, and check that its matches can be written to the output."""
    query = cernis.query(text, lang="spaseq")
    constructs = query.query.construct is not None
    if delivery.is_named and delivery.form == "nq" and not constructs:
        raise CernisError("--output-format nq: only CONSTRUCT makes graphs; this query SELECTs")
    suffixes = (*OUTPUT_SUFFIXES, ".nq") if constructs else OUTPUT_SUFFIXES
    check_output(delivery.output, suffixes, form=delivery.form if delivery.is_named else None)
    return query
