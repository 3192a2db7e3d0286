"""Open inputs and sinks."""

from __future__ import annotations

from collections.abc import Callable

from cernis.live.inputs import FileInput, FolderInput, LiveInput, PipeInput, SocketInput
from cernis.live.sinks import FolderSink, LineSink, Sink, WebhookSink
from cernis.live.topics import TopicInput, TopicSink
from cernis.work import endpoints


def open_input(source: endpoints.LiveSource, *, once: bool = False) -> LiveInput:
    """Return the input of a source; with `once`, it ends where it would wait."""
    match source:
        case endpoints.StandardInput():
            return PipeInput()
        case endpoints.GrowingFile(path=path):
            return FileInput(path, once=once)
        case endpoints.Server(host=host, port=port):
            return SocketInput(host, port)
        case endpoints.Folder(path=path):
            return FolderInput(path, once=once)
        case endpoints.Topic():
            return TopicInput(source, once=once)


def open_sink(
    sink: endpoints.LiveSink, form: str, run: str, is_stopping: Callable[[], bool]
) -> Sink:
    """Return an open sink; `run` is the name of the run."""
    match sink:
        case endpoints.Folder(path=path):
            return FolderSink(path, form)
        case endpoints.Webhook(url=url):
            return WebhookSink(url, run, is_stopping)
        case endpoints.Topic():
            return TopicSink(sink, run, is_stopping)
        case endpoints.StandardOutput():
            return LineSink()
