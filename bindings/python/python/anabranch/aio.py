"""SCTP on asyncio: endpoints, listeners, associations, messages with streams and PPIDs, over several paths.

>>> import asyncio
>>> from anabranch import aio
>>> async def main():
...     async with aio.Endpoint("127.0.0.1", udp_port=0) as server:
...         listener = server.listen(7)
...         async with aio.connect("127.0.0.1", 7, udp_port=server.udp_port) as client:
...             peer = await listener.accept()
...             await client.send(b"hello", stream=3, ppid=46)
...             message = await peer.recv()
...             print(message.data, message.stream, message.ppid)
>>> asyncio.run(main())
b'hello' 3 46

The protocol runs in this process, over UDP (RFC 6951): no kernel module, no privileges.

Everything that waits can be cancelled, for instance by ``asyncio.timeout``: a message that was not returned by ``recv``
is still there for the next one, and one that ``send`` was still waiting with is not sent. ``send`` waits while the send
buffer is full, and a peer whose messages are not received is slowed down by its receive window.

The thread of the event loop runs the protocol, so a message costs no switch of threads. While the loop is busy with
something else for more than 10 ms, another thread does, so that the peer is not kept waiting.

It needs an event loop with ``add_reader``: on Linux and macOS, those of asyncio and uvloop. ``anabranch.blocking`` has the
same without an event loop.
"""

from __future__ import annotations

import asyncio
import json
import os
import weakref
from collections.abc import AsyncIterator, Generator, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, Literal, NamedTuple, Union

from . import _anabranch
from ._anabranch import SctpError

__all__ = [
    "Association",
    "Endpoint",
    "Event",
    "Events",
    "Listener",
    "Message",
    "SctpError",
    "Stream",
    "connect",
]

# A fork has no threads, and shares its sockets with its parent.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_anabranch.forked)

UDP_PORT = 9899
"""The UDP port for SCTP (RFC 6951)."""

Options = Mapping[str, Union[str, int, float, bool]]
"""Options of associations by name, such as ``{"rto_min": "200 ms", "multipath": "cmt-pf"}``: docs/options.md."""


class Message(NamedTuple):
    """A message, or a part of a large one."""

    data: bytes
    """The payload."""
    stream: int
    """The stream that it came on."""
    ppid: int
    """The payload protocol identifier, as the peer has set it."""
    unordered: bool
    """It did not wait for earlier messages of its stream."""
    begin: bool
    """It is the first part. A whole message is the first and the last one."""
    end: bool
    """It is the last part."""


# The same as Message._make, in half of the time.
_new = tuple.__new__

_running_loop = asyncio.get_running_loop


class Event(NamedTuple):
    """Something that happened to an association: docs/events.md has the names and their fields."""

    name: str
    """``path_changed``, ``send_failed``, ``restarted``, ``streams_reset``, ``closed`` and others."""
    fields: dict[str, Any]
    """What belongs to it, such as ``remote`` and ``state``."""
    text: str
    """A sentence about it."""


_Data = Union[bytes, bytearray, memoryview]


class _Bridge:
    """Runs endpoints and polls operations on one event loop."""

    _all: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _Bridge] = (
        weakref.WeakKeyDictionary()
    )

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.home = _anabranch.Home()
        self.wakeups = _anabranch.Wakeups()
        # The futures of operations that wait, and the number of the last one.
        self.waiting: dict[int, asyncio.Future[None]] = {}
        self.last = 0
        # Other threads ring the bell of the second one.
        if (descriptor := self.home.fileno()) >= 0:
            loop.add_reader(descriptor, self._drive)
        loop.add_reader(self.wakeups.fileno(), self._wake)

    @classmethod
    def here(cls, loop: asyncio.AbstractEventLoop) -> _Bridge:
        bridge = cls._all.get(loop)
        if bridge is None:
            bridge = cls._all[loop] = cls(loop)
        return bridge

    def _drive(self) -> None:
        self.resolve(self.home.drive(self.wakeups))

    def _wake(self) -> None:
        self.resolve(self.wakeups.drain())

    def resolve(self, numbers: list[int]) -> None:
        """Lets these operations go on."""
        for number in numbers:
            future = self.waiting.get(number)
            if future is not None and not future.done():
                future.set_result(None)

    async def run(self, loop: asyncio.AbstractEventLoop, operation: _anabranch.Operation) -> Any:
        """Polls an operation until it is done."""
        self.last += 1
        number = self.last
        is_done, value = operation.poll(self.wakeups, number)
        if is_done:
            return value
        try:
            while True:
                # A call of _wake between these lines is impossible: it is called by this loop.
                future = self.waiting[number] = loop.create_future()
                await future
                is_done, value = operation.poll(self.wakeups, number)
                if is_done:
                    return value
        finally:
            del self.waiting[number]
            if not is_done:
                operation.cancel()


async def _run(operation: _anabranch.Operation) -> Any:
    loop = asyncio.get_running_loop()
    return await _Bridge.here(loop).run(loop, operation)


def _options(options: Options | None) -> list[tuple[str, str]]:
    def text(value: object) -> str:
        return ("on" if value else "off") if isinstance(value, bool) else str(value)

    return [(name, text(value)) for name, value in (options or {}).items()]


def _list(addresses: str | Sequence[str]) -> list[str]:
    return [addresses] if isinstance(addresses, str) else list(addresses)


class Association:
    """An association: a connection over one or several paths, with streams of messages."""

    def __init__(self, inner: _anabranch.Association, own: Endpoint | None = None) -> None:
        self._inner = inner
        # The endpoint that was made for it.
        self._own = own
        # The loop that last used it, its bridge, and what calls need of that.
        self._loop: asyncio.AbstractEventLoop | None = None
        self._bridge: _Bridge
        self._home: _anabranch.Home
        self._wakeups: _anabranch.Wakeups

    def _move(self, loop: asyncio.AbstractEventLoop) -> None:
        """Has another loop use it."""
        self._bridge = _Bridge.here(loop)
        self._home, self._wakeups = self._bridge.home, self._bridge.wakeups
        self._loop = loop

    async def send(
        self,
        data: _Data,
        *,
        stream: int = 0,
        ppid: int = 0,
        unordered: bool = False,
        lifetime: float | None = None,
        context: int = 0,
    ) -> None:
        """Sends a message of at least one byte. Waits while the send buffer is full.

        With a ``lifetime`` in seconds it is given up after that time, if the peer can do that (RFC 3758). The event
        ``send_failed`` of a message that was given up has its ``context``.
        """
        loop = _running_loop()
        if loop is not self._loop:
            self._move(loop)
        if type(data) is not bytes:
            data = bytes(data)
        numbers = self._inner.offer_one(
            self._home, self._wakeups, data, stream, ppid, unordered, lifetime, context
        )
        if numbers:
            self._bridge.resolve(numbers)
        elif numbers is None:
            fields = (data, stream, ppid, unordered, lifetime, context)
            await self._bridge.run(loop, self._inner.send(fields))

    async def send_many(
        self,
        messages: Iterable[_Data],
        *,
        stream: int = 0,
        ppid: int = 0,
        unordered: bool = False,
        lifetime: float | None = None,
    ) -> None:
        """Sends messages one after the other, which costs less than as many calls of ``send``.

        If it is cancelled while it waits, those before the one that it waits with are sent, and no other.
        """
        every = [(bytes(data), stream, ppid, unordered, lifetime, 0) for data in messages]
        loop = _running_loop()
        if loop is not self._loop:
            self._move(loop)
        while every:
            sent, numbers = self._inner.offer(self._home, self._wakeups, every)
            if numbers:
                self._bridge.resolve(numbers)
            if sent < len(every):
                await self._bridge.run(loop, self._inner.send(every[sent]))
                sent += 1
            del every[:sent]

    async def recv(self) -> Message | None:
        """The next message of any stream; ``None`` when the peer has shut down and all was received."""
        fields = self._inner.take()
        if fields is not None:
            return _new(Message, fields)
        loop = _running_loop()
        if loop is not self._loop:
            self._move(loop)
        # From here on this is what _Bridge.run does: calling that would cost each message another coroutine.
        bridge, wakeups = self._bridge, self._wakeups
        bridge.last = number = bridge.last + 1
        is_done, value = self._inner.receive(wakeups, number)
        if not is_done:
            operation, waiting = value, bridge.waiting
            try:
                while not is_done:
                    future = waiting[number] = loop.create_future()
                    await future
                    is_done, value = operation.poll(wakeups, number)
            finally:
                del waiting[number]
                if not is_done:
                    operation.cancel()
        return None if value is None else _new(Message, value)

    def stream(self, number: int) -> Stream:
        """A stream of its own: its messages come from ``Stream.recv`` and not from that of the association."""
        return Stream(self, self._inner.stream(number), number)

    def events(self) -> Events:
        """What happens from now on: paths that change, messages that are given up, a peer that restarts, the end."""
        return Events(self._inner.events())

    def reset_streams(self, *streams: int, incoming: bool = False) -> None:
        """Resets streams, or all of them, so that their sequence numbers begin again (RFC 6525): those that this side
        sends on, or those of the peer. The event ``streams_reset`` tells the result."""
        self._inner.reset_streams(not incoming, list(streams))

    def add_streams(self, outbound: int = 0, inbound: int = 0) -> None:
        """Adds streams (RFC 6525). The event ``streams_added`` tells the result."""
        self._inner.add_streams(outbound, inbound)

    def __aiter__(self) -> Association:
        return self

    async def __anext__(self) -> Message:
        message = await self.recv()
        if message is None:
            raise StopAsyncIteration
        return message

    async def close(self) -> None:
        """Shuts down, when the peer has acknowledged everything. Raises ``SctpError`` if it does not."""
        try:
            await _run(self._inner.close())
        finally:
            await self._release()

    def abort(self, reason: bytes = b"") -> None:
        """Ends at once, without what was not sent yet, and tells the peer."""
        self._inner.abort(reason)

    async def _release(self) -> None:
        if self._own is not None:
            own, self._own = self._own, None
            await own.close()

    @property
    def is_closed(self) -> bool:
        """Whether it has ended."""
        return self._inner.is_closed

    @property
    def outbound_streams(self) -> int:
        """How many streams this side can send on, from 0."""
        return self._inner.streams[0]

    @property
    def inbound_streams(self) -> int:
        """How many streams the peer can send on."""
        return self._inner.streams[1]

    @property
    def local_addresses(self) -> list[str]:
        """The addresses of this side."""
        return self._inner.addresses[0]

    @property
    def peer_addresses(self) -> list[str]:
        """The addresses of the peer: its paths."""
        return self._inner.addresses[1]

    def set_primary(self, address: str) -> None:
        """Sends new data to this address of the peer."""
        self._inner.set_primary(address)

    def statistics(self) -> dict[str, Any]:
        """All counters, of the association and of its ``paths``: docs/counters.md."""
        counters: dict[str, Any] = json.loads(self._inner.statistics())
        return counters

    async def __aenter__(self) -> Association:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None and not self.is_closed:
            await self.close()
            return
        self.abort()
        await self._release()


class Stream:
    """One stream of an association. ``async with`` gives it back at the end."""

    def __init__(
        self, association: Association, inner: _anabranch.ReceivedStream, number: int
    ) -> None:
        self._association, self._inner, self.number = association, inner, number

    async def send(
        self,
        data: _Data,
        *,
        ppid: int = 0,
        unordered: bool = False,
        lifetime: float | None = None,
        context: int = 0,
    ) -> None:
        """Sends a message on it, as ``Association.send`` does."""
        await self._association.send(
            data,
            stream=self.number,
            ppid=ppid,
            unordered=unordered,
            lifetime=lifetime,
            context=context,
        )

    async def recv(self) -> Message | None:
        """Its next message; ``None`` at its end. One task at a time can wait."""
        fields = await _run(self._inner.recv())
        return None if fields is None else _new(Message, fields)

    def __aiter__(self) -> AsyncIterator[Message]:
        return self._messages()

    async def _messages(self) -> AsyncIterator[Message]:
        while (message := await self.recv()) is not None:
            yield message

    def close(self) -> None:
        """Gives it back: its messages, also those that were not received, come from the association again."""
        self._inner.close()

    async def __aenter__(self) -> Stream:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()


class Events:
    """The events of an association, from ``Association.events``: ``async for event in events``."""

    def __init__(self, inner: _anabranch.Events) -> None:
        self._inner = inner

    async def next(self) -> Event | None:
        """The next one; ``None`` after the last, ``closed``. One task at a time can wait."""
        told = await _run(self._inner.next())
        if told is None:
            return None
        fields: dict[str, Any] = json.loads(told[0])
        return Event(fields.pop("event"), fields, told[1])

    def __aiter__(self) -> AsyncIterator[Event]:
        return self._events()

    async def _events(self) -> AsyncIterator[Event]:
        while (event := await self.next()) is not None:
            yield event


class Listener:
    """Accepts associations."""

    def __init__(self, inner: _anabranch.Listener) -> None:
        self._inner = inner

    @property
    def port(self) -> int:
        """The SCTP port."""
        return self._inner.port

    async def accept(self) -> Association:
        """The next association. Raises ``SctpError`` when the endpoint is closed."""
        inner = await _run(self._inner.accept())
        if inner is None:
            raise SctpError("the endpoint is closed")
        return Association(inner)

    def close(self) -> None:
        """Accepts no more; associations go on."""
        self._inner.close()


class Endpoint:
    """UDP sockets, on one or several local addresses, with all associations on them."""

    def __init__(
        self,
        local: str | Sequence[str] = (),
        *,
        udp_port: int = UDP_PORT,
        over: Literal["udp", "ip"] = "udp",
    ) -> None:
        """Binds to these addresses, or to all of this host; ``udp_port`` 0 is any free port.

        ``over="ip"`` is for peers that take SCTP directly over IP, such as kernels and telecom equipment. It needs root or
        the capability CAP_NET_RAW.

        The running event loop runs the endpoint. Without one, another thread does, which takes longer.
        """
        try:
            home = _Bridge.here(asyncio.get_running_loop()).home
        except RuntimeError:
            home = _anabranch.Home()
        if over not in ("udp", "ip"):
            raise ValueError(f"over: '{over}' is neither 'udp' nor 'ip'")
        self._inner = _anabranch.Endpoint(home, _list(local), udp_port, over == "ip")

    @property
    def udp_port(self) -> int:
        """The UDP port."""
        return self._inner.udp_port

    def listen(self, port: int, *, options: Options | None = None) -> Listener:
        """Accepts associations at this SCTP port."""
        return Listener(self._inner.listen(port, _options(options)))

    async def connect(
        self,
        remote: str | Sequence[str],
        port: int,
        *,
        udp_port: int = UDP_PORT,
        options: Options | None = None,
    ) -> Association:
        """Connects to a peer at one or several of its addresses."""
        operation = self._inner.connect(_list(remote), port, udp_port, _options(options))
        return Association(await _run(operation))

    async def close(self) -> None:
        """Shuts down all associations, and closes the sockets."""
        await _run(self._inner.close())

    async def __aenter__(self) -> Endpoint:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


class connect:
    """An association on an endpoint of its own: ``await connect(...)``, or ``async with connect(...) as association``,
    which shuts it down at the end, and aborts it after an exception."""

    def __init__(
        self,
        remote: str | Sequence[str],
        port: int,
        *,
        udp_port: int = UDP_PORT,
        local: str | Sequence[str] = (),
        options: Options | None = None,
        over: Literal["udp", "ip"] = "udp",
    ) -> None:
        self._remote, self._port, self._udp_port = remote, port, udp_port
        self._local, self._options, self._over = local, options, over
        self._association: Association | None = None

    async def _connect(self) -> Association:
        endpoint = Endpoint(self._local, udp_port=0, over=self._over)
        try:
            association = await endpoint.connect(
                self._remote, self._port, udp_port=self._udp_port, options=self._options
            )
        except BaseException:
            await endpoint.close()
            raise
        association._own = endpoint
        return association

    def __await__(self) -> Generator[Any, None, Association]:
        return self._connect().__await__()

    async def __aenter__(self) -> Association:
        self._association = await self._connect()
        return self._association

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._association is not None:
            await self._association.__aexit__(kind, error, trace)
