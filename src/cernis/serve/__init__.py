"""The playground: `cernis serve` shows queries, events and matches on a page in the browser.

The server process knows visitors, uploads and runs by their ids, and parses nothing that a visitor
sends except small JSON. Everything else happens in worker processes, one for each visitor: reading
files, checking queries, running them, paging through matches.

    browser ──HTTP──▶ guard ──▶ app ──▶ visitors ──▶ process ══▶ worker ──▶ data, runs, check

A worker has limits on time and memory. When it exceeds one it is ended, and the next request gets a
new one, in which the visitor's runs are made again when they are asked for.
"""

from __future__ import annotations
