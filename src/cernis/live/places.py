"""From places to inputs and sinks."""

from __future__ import annotations

from collections.abc import Callable

from cernis.live.inputs import FileInput, FolderInput, LiveInput, PipeInput, SocketInput
from cernis.live.sinks import FolderSink, LineSink, Sink, WebhookSink
from cernis.live.topics import TopicInput, TopicSink
from cernis.work import endpoints


def open_input(place: endpoints.LiveSource, *, once: bool = False) -> LiveInput:
    """Return the input at a place; with `once`, it ends where it would wait."""
    match place:
        case endpoints.StandardInput():
            return PipeInput()
        case endpoints.GrowingFile(path=path):
            return FileInput(path, once=once)
        case endpoints.Server(host=host, port=port):
            return SocketInput(host, port)
        case endpoints.Folder(path=path):
            return FolderInput(path, once=once)
        case endpoints.Topic():
            return TopicInput(place, once=once)


def open_sink(
    place: endpoints.LiveSink, form: str, run: str, is_stopping: Callable[[], bool]
) -> Sink:
    """Return the sink at a place; `run` is the name of the run."""
    match place:
        case endpoints.Folder(path=path):
            return FolderSink(path, form)
        case endpoints.Webhook(url=url):
            return WebhookSink(url, run, is_stopping)
        case endpoints.Topic():
            return TopicSink(place, run)
        case endpoints.StandardOutput():
            return LineSink()
