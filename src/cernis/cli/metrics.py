"""The numbers of a running stream as Prometheus text: `cernis stream --metrics`, `--listen`.

    Progress (one micro-batch) ─ StreamMetrics ─▶ text ─▶ http://HOST:PORT/metrics, or a file

`/health` answers 200 as long as the stream makes steps, or waits for the first events, and 503 when
it has made none for `_LONGEST_STEP` seconds, for supervisors that start it again.

Counters count from the start of this process, each micro-batch once, however often it is told.
Gauges are those of the last call of each bucket, added up. The file is replaced after each
micro-batch, for collectors that read files.

Cost: a few additions for each micro-batch.
"""

from __future__ import annotations

import json
import socket
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Lock, Thread
from time import monotonic
from typing import TYPE_CHECKING, Any

from cernis.errors import CernisError
from cernis.output import open_output

if TYPE_CHECKING:
    from cernis.work.progress import Progress, RuleNumbers

_HOST = "127.0.0.1"
_LONGEST_STEP = 60.0
_CONTENT = "text/plain; version=0.0.4; charset=utf-8"
_JSON = "application/json"
_COUNTERS = {
    "rows": ("cernis_rows_total", "Rows that came."),
    "events": ("cernis_events_total", "Rows that the query can use."),
    "irrelevant": ("cernis_irrelevant_rows_total", "Rows that no test of the query passes."),
    "late": ("cernis_late_events_total", "Events after the watermark had passed them."),
    "recalled": ("cernis_recalled_events_total", "Events read again by another worker."),
    "matches": ("cernis_matches_total", "Matches."),
}
_RULE_COUNTERS = {
    "events": ("cernis_rule_events_total", "Events that the rule has read."),
    "matches": ("cernis_rule_matches_total", "Matches of the rule."),
    "suppressed": ("cernis_rule_suppressed_total", "Matches that SUPPRESS BY has silenced."),
    "milliseconds": ("cernis_rule_seconds_total", "Time in the rule, summed over tasks."),
}
_DROPPED = ("ahead", "undecodable", "untimed")
_GAUGES = {
    "waiting_per_bucket": ("cernis_waiting_events", "Events that wait for the watermark."),
    "per_bucket": ("cernis_state_bytes", "Bytes of state."),
    "keys_per_bucket": ("cernis_keys", "Partitions that the engine has numbers for."),
    "records_per_bucket": ("cernis_vertices", "Nodes and vertices of partial matches."),
    "stored_per_bucket": ("cernis_stored_events", "Events that a match may still report."),
    "stored_bytes_per_bucket": ("cernis_stored_bytes", "Memory of these events."),
}


class StreamMetrics:
    """The sums of all micro-batches, and the last numbers of each bucket."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._batch: int | None = None
        self._batches = 0
        self._counts: Counter[str] = Counter()
        self._dropped: Counter[str] = Counter()
        self._seconds: dict[str, float] = {}
        self._buckets: dict[str, dict[int, int]] = {name: {} for name in _GAUGES}
        self._watermark: float | None = None
        self._warnings: Counter[str] = Counter()
        self._rules: tuple[str, ...] = ()
        self._changes: Counter[str] = Counter()
        self._rule_counts: dict[str, Counter[str]] = {}
        self._rule_records: dict[int, dict[str, int]] = {}
        self._stepped: float | None = None
        """When the last step was made; None: the first events have not come."""

    def step(self) -> None:
        """Note that the stream is alive."""
        self._stepped = monotonic()

    def write_health(self) -> tuple[bool, str]:
        """Return whether the stream is alive, and its state as JSON."""
        quiet = 0.0 if self._stepped is None else monotonic() - self._stepped
        is_alive, status = quiet < _LONGEST_STEP, "running"
        if self._stepped is None:
            status = "waiting for the first events"
        state = {
            "status": status if is_alive else "stuck",
            "batches": self._batches,
            "matches": self._counts["matches"],
            "watermark": self._watermark,
            "seconds_since_step": round(quiet, 1),
        }
        return is_alive, f"{json.dumps(state)}\n"

    def change_rules(self, names: Sequence[str], changes: Mapping[str, int]) -> None:
        """Note which rules run from now on, and how many were changed in which way."""
        with self._lock:
            self._rules = tuple(names)
            self._changes.update(changes)
            for held in self._rule_records.values():
                for name in held.keys() - {*names}:
                    del held[name]

    def warn(self, code: str) -> None:
        """Count a warning about the events."""
        with self._lock:
            self._warnings[code] += 1

    def take(self, progress: Progress) -> bool:
        """Add one micro-batch; return whether it is new."""
        with self._lock:
            if self._batch is not None and progress.batch <= self._batch:
                return False
            self._batch = progress.batch
            self._batches += 1
            for name in _COUNTERS:
                self._counts[name] += getattr(progress, name)
            for name in _DROPPED:
                self._dropped[name] += getattr(progress, name)
            for stage, milliseconds in progress.milliseconds.items():
                self._seconds[stage] = self._seconds.get(stage, 0.0) + milliseconds / 1000
            for name, buckets in self._buckets.items():
                buckets |= getattr(progress, name)
            for bucket, rules in progress.rules_per_bucket.items():
                self._take_rules(bucket, rules)
            if progress.watermark is not None:
                self._watermark = datetime.fromisoformat(progress.watermark).timestamp()
            return True

    def _take_rules(self, bucket: int, rules: Mapping[str, RuleNumbers]) -> None:
        held = self._rule_records.setdefault(bucket, {})
        for name, numbers in rules.items():
            counts = self._rule_counts.setdefault(name, Counter())
            for part in ("events", "matches", "suppressed", "milliseconds"):
                counts[part] += getattr(numbers, part)
            held[name] = numbers.records

    def _list_rules(self) -> Iterator[str]:
        """Yield the numbers of each rule that runs."""
        yield from _metric("cernis_rules", "Rules that run.", {"": len(self._rules)})
        text = "Rules that were added, replaced, removed or refused while the stream ran."
        changes = {f'{{change="{word}"}}': self._changes[word] for word in sorted(self._changes)}
        yield from _metric("cernis_rule_changes_total", text, changes)
        for part, (title, text) in _RULE_COUNTERS.items():
            scale = 1000 if part == "milliseconds" else 1
            counts = {n: self._rule_counts.get(n, Counter())[part] / scale for n in self._rules}
            yield from _metric(title, text, {_label(n): count for n, count in counts.items()})
        records = {
            _label(name): sum(held.get(name, 0) for held in self._rule_records.values())
            for name in self._rules
        }
        title, text = "cernis_rule_vertices", "Nodes and vertices of the rule's partial matches."
        yield from _metric(title, text, records)

    def write(self) -> str:
        """Return the numbers in the text format of Prometheus."""
        with self._lock:
            return "".join(f"{line}\n" for line in self._lines())

    def _lines(self) -> Iterator[str]:
        yield from _metric("cernis_batches_total", "Micro-batches.", {"": self._batches})
        for name, (title, text) in _COUNTERS.items():
            yield from _metric(title, text, {"": self._counts[name]})
        dropped = {f'{{reason="{name}"}}': self._dropped[name] for name in _DROPPED}
        yield from _metric("cernis_dropped_events_total", "Events that cannot be read.", dropped)
        text = "Warnings about the events, each counted once."
        warned = {f'{{code="{code}"}}': self._warnings[code] for code in sorted(self._warnings)}
        yield from _metric("cernis_warnings_total", text, warned)
        spent = {f'{{stage="{stage}"}}': self._seconds[stage] for stage in sorted(self._seconds)}
        text = "Time in each stage; engine and state are summed over tasks."
        yield from _metric("cernis_stage_seconds_total", text, spent)
        for name, (title, text) in _GAUGES.items():
            yield from _metric(title, text, {"": sum(self._buckets[name].values())})
        if self._rules:
            yield from self._list_rules()
        if self._watermark is not None:
            title = "cernis_watermark_seconds"
            yield from _metric(title, "The watermark, since 1970.", {"": self._watermark})


def _label(rule: str) -> str:
    r"""
    >>> print(_label('say "hi"'))
    {rule="say \"hi\""}
    """
    for letter, written in (("\\", r"\\"), ('"', r"\""), ("\n", r"\n")):
        rule = rule.replace(letter, written)
    return f'{{rule="{rule}"}}'


def _metric(title: str, text: str, values: Mapping[str, float]) -> Iterator[str]:
    yield f"# HELP {title} {text}"
    yield f"# TYPE {title} {'counter' if title.endswith('_total') else 'gauge'}"
    for labels, value in values.items():
        yield f"{title}{labels} {value:.10g}"


# --------------------------------------------------------------- publishing


@dataclass(frozen=True)
class MetricsTarget:
    """An address, or a file."""

    port: int | None = None
    path: Path | None = None
    host: str = _HOST
    option: str = "--metrics"


def parse_metrics(argument: str) -> MetricsTarget:
    """Return where `--metrics` goes: digits are a port, anything else is a file.

    >>> parse_metrics("9464").port, parse_metrics("numbers.prom").path
    (9464, PosixPath('numbers.prom'))
    """
    if not argument.isdecimal():
        return MetricsTarget(path=Path(argument))
    if int(argument) > 65535:
        raise CernisError(f"--metrics {argument}: ports go up to 65535")
    return MetricsTarget(port=int(argument))


def parse_listen(argument: str) -> MetricsTarget:
    """Return the address of `--listen`.

    >>> target = parse_listen("0.0.0.0:9464")
    >>> target.host, target.port
    ('0.0.0.0', 9464)
    """
    host, colon, port = argument.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not colon or not host or not port.isdecimal() or int(port) > 65535:
        raise CernisError(f"--listen {argument}: expected HOST:PORT, as in 127.0.0.1:9464")
    return MetricsTarget(port=int(port), host=host, option="--listen")


@contextmanager
def publish(target: MetricsTarget | None, metrics: StreamMetrics) -> Iterator[str | None]:
    """Publish the metrics while the body runs; yield their address, if they have one."""
    if target is None or target.port is None:
        write_file(target, metrics)
        yield None
        return
    try:
        kind = _Server6 if ":" in target.host else ThreadingHTTPServer
        server = kind((target.host, target.port), _make_handler(metrics))
    except (OSError, UnicodeError) as error:
        said = getattr(error, "strerror", None) or str(error)
        raise CernisError(f"{target.option} {target.port}: {said}") from error
    server.daemon_threads = True
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        host = f"[{target.host}]" if ":" in target.host else target.host
        yield f"http://{host}:{server.server_port}/metrics"
    finally:
        server.shutdown()
        server.server_close()


def write_file(target: MetricsTarget | None, metrics: StreamMetrics) -> None:
    """Replace the file of the metrics, if there is one."""
    if target is not None and target.path is not None:
        with open_output(target.path) as file:
            file.write(metrics.write().encode())


class _Server6(ThreadingHTTPServer):
    """The server of an address of IPv6."""

    address_family = socket.AF_INET6


def _make_handler(metrics: StreamMetrics) -> type[BaseHTTPRequestHandler]:
    class MetricsHandler(BaseHTTPRequestHandler):
        timeout = 10

        def do_GET(self) -> None:
            code, kind = 200, _CONTENT
            match self.path.partition("?")[0]:
                case "/metrics":
                    body = metrics.write().encode()
                case "/health":
                    is_alive, text = metrics.write_health()
                    code, kind, body = 200 if is_alive else 503, _JSON, text.encode()
                case _:
                    code, body = 404, b"the numbers are at /metrics, and /health is beside them\n"
            self.send_response(code)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            """Keep the terminal for the user."""

    return MetricsHandler
