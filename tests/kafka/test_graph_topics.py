"""SPAseQ from topic to topic, through a real Kafka: a message is a graph, and so is a match."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from cernis.cli.main import main
from cernis.rdf.query import GraphQuery

STAMP = "http://www.w3.org/ns/sosa/resultTime"
QUERY = """PREFIX : <urn:x:> CONSTRUCT { ?a :before ?b } WITHIN 1 HOUR FROM STREAM S <urn:s>
WHERE { SEQ (A ; B) DEFINE GPM A ON S { ?a :k ?x } DEFINE GPM B ON S { ?b :k ?x } }
"""


def message(at: int, key: str) -> bytes:
    """A graph in JSON-LD, at a minute."""
    graph = {
        "@id": f"urn:a{at}",
        "urn:x:k": {"@id": f"urn:x:{key}"},
        STAMP: f"2024-01-01T00:{at:02}:00Z",
    }
    return json.dumps(graph).encode()


def run(topics: Any, folder: Path) -> int:
    options = {
        "--source": f"kafka://{topics.servers}/graphs",
        "--format": "jsonld",
        "--lateness": "5 min",
        "--on-error": "skip",
        "--late-output": str(folder / "late"),
        "--sink": f"kafka://{topics.servers}/graph-matches",
        "--output-format": "nq",
        "--checkpoint": str(folder / "checkpoint"),
    }
    query = folder / "pair.spaseq"
    query.write_text(QUERY)
    return main(
        [
            "stream",
            str(query),
            "--engine",
            "spark",
            "--once",
            *(p for pair in options.items() for p in pair),
        ]
    )


def test_graphs_go_from_topic_to_topic_and_each_match_is_a_graph_once(
    topics: Any, tmp_path: Path
) -> None:
    events = [(at, "xyz"[at % 3]) for at in (2, 1, 3, 6, 4, 5, 9, 8, 7, 12, 11, 10)]
    topics.create("graph-matches")
    topics.put("graphs", *(message(*one) for one in events[:7]), b"no JSON")
    assert run(topics, tmp_path) == 0
    topics.put("graphs", *(message(*one) for one in events[7:]), message(59, "end"))
    assert run(topics, tmp_path) == 0
    found = topics.read("graph-matches")
    assert len({key for key, _ in found}) == len(found)
    text = "".join(f"{graph}\n" for _, graph in found)
    pairs = GraphQuery(
        "PREFIX : <urn:x:> SELECT ?a ?b FROM STREAM M <urn:m> "
        "WHERE { SEQ (One) DEFINE GPM One ON M { ?a :before ?b } }"
    ).run(by_time(text).encode())
    told = sorted((match.bindings["a"], match.bindings["b"]) for match in pairs)
    assert told == sorted((f"<urn:a{at}>", f"<urn:a{at + 3}>") for at in range(1, 10))
    [aside] = [json.loads(p.read_text()) for p in (tmp_path / "late").glob("*.jsonl")]
    assert (aside["reason"], aside["stream"]) == ("undecodable", "S")
    assert aside["event"]["undecodable"].endswith("no JSON")


def by_time(quads: str) -> str:
    """The graphs of some quads in order of their times, which are in the default graph."""
    graphs: dict[str, list[str]] = {}
    for line in quads.splitlines():
        name = line.split()[0] if "generatedAtTime" in line else line.split()[-2]
        graphs.setdefault(name, []).append(line)
    ordered = sorted(graphs.values(), key=lambda lines: lines[0].split('"')[1])
    return "\n".join(line for lines in ordered for line in lines)
