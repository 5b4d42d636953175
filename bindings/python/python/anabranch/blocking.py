"""SCTP for scripts, without an event loop: ``anabranch.aio`` with calls that wait.

>>> from anabranch import blocking
>>> with blocking.Endpoint("127.0.0.1", udp_port=0) as server:
...     listener = server.listen(7)
...     with blocking.connect("127.0.0.1", 7, udp_port=server.udp_port) as client:
...         with listener.accept(timeout=10) as peer:
...             client.send(b"hello", stream=3, ppid=46)
...             message = peer.recv(timeout=10)
...             print(message.data, message.stream, message.ppid)
b'hello' 3 46

Calls that wait take a ``timeout`` in seconds, after which they raise ``TimeoutError`` and have done nothing. Between
calls another thread runs the protocol, so paths are watched and the peer gets its acknowledgements. All objects belong to
the thread that has made the first one.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Coroutine, Iterable, Iterator, Sequence
from types import TracebackType
from typing import Any, Literal, TypeVar

from . import aio
from .aio import Event, Message, Options, SctpError

__all__ = [
    "Association",
    "Endpoint",
    "Event",
    "Events",
    "Listener",
    "Message",
    "SctpError",
    "connect",
]

_T = TypeVar("_T")
_threads = threading.local()


class _Loop:
    """The event loop of a thread, which is closed when the thread ends."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()

    def __del__(self) -> None:
        # At the end of the interpreter, parts of it may be gone.
        with contextlib.suppress(Exception):
            self.loop.close()


def _wait(what: Coroutine[Any, Any, _T], timeout: float | None) -> _T:
    here = getattr(_threads, "here", None)
    if here is None:
        here = _threads.here = _Loop()
    loop = here.loop
    try:
        result: _T = loop.run_until_complete(what if timeout is None else _within(what, timeout))
    except BaseException:
        # Such as KeyboardInterrupt, and RuntimeError within another loop: use aio there.
        what.close()
        raise
    return result


async def _within(what: Coroutine[Any, Any, _T], timeout: float) -> _T:
    try:
        return await asyncio.wait_for(what, timeout)
    except asyncio.TimeoutError:
        raise TimeoutError(f"nothing came of it within {timeout:g} s") from None


async def _make(
    local: str | Sequence[str], udp_port: int, over: Literal["udp", "ip"]
) -> aio.Endpoint:
    return aio.Endpoint(local, udp_port=udp_port, over=over)


class Association:
    """``aio.Association``, with calls that wait."""

    def __init__(self, inner: aio.Association) -> None:
        self.aio = inner
        """The association itself, for everything that does not wait: its addresses, ``statistics()`` and others."""

    def send(
        self,
        data: bytes | bytearray | memoryview,
        *,
        stream: int = 0,
        ppid: int = 0,
        unordered: bool = False,
        lifetime: float | None = None,
        context: int = 0,
        timeout: float | None = None,
    ) -> None:
        """Sends a message. Waits while the send buffer is full."""
        sending = self.aio.send(
            data, stream=stream, ppid=ppid, unordered=unordered, lifetime=lifetime, context=context
        )
        _wait(sending, timeout)

    def send_many(
        self, messages: Iterable[bytes], *, stream: int = 0, ppid: int = 0, timeout: float | None = None
    ) -> None:
        """Sends messages one after the other. After a timeout the first ones may be sent."""
        _wait(self.aio.send_many(messages, stream=stream, ppid=ppid), timeout)

    def recv(self, timeout: float | None = None) -> Message | None:
        """The next message; ``None`` when the peer has shut down and all was received."""
        return _wait(self.aio.recv(), timeout)

    def __iter__(self) -> Iterator[Message]:
        while (message := self.recv()) is not None:
            yield message

    def events(self) -> Events:
        """What happens from now on."""
        return Events(self.aio.events())

    def close(self, timeout: float | None = None) -> None:
        """Shuts down, when the peer has acknowledged everything."""
        _wait(self.aio.close(), timeout)

    def abort(self, reason: bytes = b"") -> None:
        """Ends at once, and tells the peer."""
        self.aio.abort(reason)

    def __enter__(self) -> Association:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        _wait(self.aio.__aexit__(kind, error, trace), None)


class Events:
    """The events of an association."""

    def __init__(self, inner: aio.Events) -> None:
        self._inner = inner

    def next(self, timeout: float | None = None) -> Event | None:
        """The next one; ``None`` after the last."""
        return _wait(self._inner.next(), timeout)

    def __iter__(self) -> Iterator[Event]:
        while (event := self.next()) is not None:
            yield event


class Listener:
    """Accepts associations."""

    def __init__(self, inner: aio.Listener) -> None:
        self._inner = inner

    @property
    def port(self) -> int:
        """The SCTP port."""
        return self._inner.port

    def accept(self, timeout: float | None = None) -> Association:
        """The next association."""
        return Association(_wait(self._inner.accept(), timeout))

    def close(self) -> None:
        """Accepts no more."""
        self._inner.close()


class Endpoint:
    """``aio.Endpoint``, with calls that wait."""

    def __init__(
        self,
        local: str | Sequence[str] = (),
        *,
        udp_port: int = aio.UDP_PORT,
        over: Literal["udp", "ip"] = "udp",
    ) -> None:
        """Binds to these addresses, or to all of this host; ``udp_port`` 0 is any free port."""
        self._inner = _wait(_make(local, udp_port, over), None)

    @property
    def udp_port(self) -> int:
        """The UDP port."""
        return self._inner.udp_port

    def listen(self, port: int, *, options: Options | None = None) -> Listener:
        """Accepts associations at this SCTP port."""
        return Listener(self._inner.listen(port, options=options))

    def connect(
        self,
        remote: str | Sequence[str],
        port: int,
        *,
        udp_port: int = aio.UDP_PORT,
        options: Options | None = None,
        timeout: float | None = None,
    ) -> Association:
        """Connects to a peer at one or several of its addresses."""
        connecting = self._inner.connect(remote, port, udp_port=udp_port, options=options)
        return Association(_wait(connecting, timeout))

    def close(self, timeout: float | None = None) -> None:
        """Shuts down all associations, and closes the sockets."""
        _wait(self._inner.close(), timeout)

    def __enter__(self) -> Endpoint:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


async def _connect(connecting: aio.connect) -> aio.Association:
    return await connecting


def connect(
    remote: str | Sequence[str],
    port: int,
    *,
    udp_port: int = aio.UDP_PORT,
    local: str | Sequence[str] = (),
    options: Options | None = None,
    over: Literal["udp", "ip"] = "udp",
    timeout: float | None = None,
) -> Association:
    """An association on an endpoint of its own. ``with`` shuts it down at the end, and aborts it after an exception."""
    connecting = aio.connect(
        remote, port, udp_port=udp_port, local=local, options=options, over=over
    )
    return Association(_wait(_connect(connecting), timeout))
