"""Networks in Python: the simulator of the laboratory, with hosts, links and transfers of one's own, in virtual time.

>>> from anabranch import sim
>>> net = sim.Network(seed=42)
>>> a, b = net.host("A"), net.host("B")
>>> wifi = net.link(a, b, rate="10 Mb/s", delay="20 ms", loss="2 %")
>>> lte = net.link(a, b, rate="5 Mb/s", delay="40 ms", back={"rate": "1 Mb/s", "delay": "40 ms"})
>>> transfer = net.transfer(a, b, "1 MB", options={"pmr": 0})
>>> sent_again = 0
>>> def watch(packet):
...     global sent_again
...     sent_again += packet.is_sent and packet.link == lte and "DATA" in packet.chunks
>>> net.tap(watch, a)
>>> net.at("1 s", lambda: net.cut(wifi))
>>> net.run("60 s")
>>> transfer.outcome, transfer.bytes, sent_again > 100
('complete', 1000000, True)

The protocol is the same engine as on real networks. A network with the same seed sends the same packets at the same times
on every machine: ``net.fingerprint`` tells.

What a function raises that the network calls, be it a tap, an event or a controller, ends the run with it. A function that
is called for a packet, or as a controller, cannot use the network itself: give it what it needs.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Literal, Protocol, Union

from . import _anabranch
from ._anabranch import Packet
from ._toml import dumps

__all__ = ["Controller", "Network", "Packet", "Transfer"]

Way = Literal["forward", "backward", "both"]
"""A direction of a link: forward is from the first host to the second."""

Value = Union[str, int, float, bool]


class Controller(Protocol):
    """A congestion controller for a path. Sizes are bytes of DATA chunks, times seconds.

    >>> class Fixed:
    ...     def __init__(self, largest: int) -> None:
    ...         self.cwnd = 10 * largest
    ...     def on_acked(self, now, acked, in_flight, rtt): pass
    ...     def on_congestion(self, now, cause, in_flight): pass
    >>> net = Network()
    >>> a, b = net.host("A"), net.host("B")
    >>> link = net.link(a, b, rate="10 Mb/s", delay="50 ms")
    >>> transfer = net.transfer(a, b, "1 MB", controller=Fixed)
    >>> net.run()
    >>> round(transfer.seconds)   # ten packets each round trip of 100 ms
    7
    """

    cwnd: float
    """The congestion window. It is at least one packet, whatever this is."""

    def on_acked(self, now: float, acked: int, in_flight: int, rtt: float | None) -> None:
        """Data was acknowledged."""

    def on_congestion(self, now: float, cause: str, in_flight: int) -> None:
        """There were losses in a window of data: ``loss`` or ``timeout``; or the network marked packets: ``mark``."""


class Network:
    """Hosts, routers and links. ``seed`` decides everything that is random.

    First come the hosts and links, then transfers, taps and events.
    """

    def __init__(self, seed: int = 1) -> None:
        self._inner = _anabranch.Network(seed)

    @property
    def now(self) -> float:
        """Virtual time in seconds."""
        return self._inner.now

    @property
    def fingerprint(self) -> str:
        """A fingerprint of all packets so far: equal runs have equal ones."""
        return f"{self._inner.hash:016x}"

    def host(self, name: str) -> int:
        """Adds a host, which sends and receives. Each of its links gives it an address."""
        return self._inner.host(name)

    def router(self, name: str) -> int:
        """Adds a router, which forwards on the way with the fewest hops."""
        return self._inner.router(name)

    def link(self, a: int, b: int, *, back: Mapping[str, Value] | None = None, **keys: Value) -> int:
        """Joins two hosts or routers.

        The keys are those of docs/impair.md: ``rate="10 Mb/s"``, ``delay="20 ms"``, ``queue="50 packets"``,
        ``loss="1 %"``, ``loss_burst``, ``jitter``, ``reorder``, ``duplicate``, ``pattern="FILE"`` and so on; without any,
        the link is infinitely fast. ``back`` has those of the direction from ``b`` to ``a``, if they differ.
        """
        return self._inner.link(a, b, _link(keys), _link(keys if back is None else back))

    def addresses(self, host: int) -> list[str]:
        """The addresses of a host, in the order of its links."""
        return self._inner.addresses(host)

    def transfer(
        self,
        sender: int,
        receiver: int,
        size: str,
        *,
        message: str = "1452 B",
        every: str | None = None,
        start: str = "0 s",
        options: Mapping[str, Value] | None = None,
        controller: Callable[[int], Controller] | None = None,
    ) -> Transfer:
        """Sends ``size`` from one host to another over an association, in messages, as fast as possible, or one
        ``every`` so often.

        ``options`` are those of both ends (docs/options.md); the default is RFC 9260. ``controller`` makes a congestion
        controller for each path of the sender from the size of the largest DATA chunk.
        """
        pairs = [(name, _spelled(value)) for name, value in (options or {}).items()]
        number = self._inner.transfer(
            sender, receiver, size, message, every, start, pairs, controller
        )
        return Transfer(self._inner, number)

    def tap(self, call: Callable[[Packet], object], host: int | None = None) -> None:
        """Calls a function for each SCTP packet at the interfaces of a host, or of all hosts with transfers."""
        self._inner.tap(call, host)

    def at(self, when: str, call: Callable[[], object]) -> None:
        """Calls a function at a time, in the order of these calls. It may use the network, and plan further events."""
        self._inner.at(when, call)

    def cut(self, link: int, way: Way = "both") -> None:
        """Cuts a link now: what is on it, and what comes, is lost."""
        self._inner.cut(link, way)

    def repair(self, link: int, way: Way = "both") -> None:
        """Repairs it."""
        self._inner.repair(link, way)

    def change(self, link: int, way: Way = "both", **keys: Value) -> None:
        """Gives a link other properties now: the keys are those of ``link``."""
        self._inner.change(link, way, _link(keys))

    def queued(self, link: int, way: Literal["forward", "backward"] = "forward") -> int:
        """How many packets wait at a link."""
        return self._inner.queued(link, way)

    def run(self, limit: str = "1 h") -> None:
        """Runs until all transfers are done and all events have happened, or until this time."""
        self._inner.run(limit)


class Transfer:
    """How a transfer goes."""

    def __init__(self, network: _anabranch.Network, number: int) -> None:
        self._network, self._number = network, number

    @property
    def outcome(self) -> str:
        """``running``, ``complete``, ``timed out`` at the limit of the run, or ``aborted`` with the reason."""
        return self._network.result(self._number)[0]

    @property
    def bytes(self) -> int:
        """User bytes that were delivered."""
        return self._network.result(self._number)[1]

    @property
    def messages(self) -> int:
        """Messages that were delivered."""
        return self._network.result(self._number)[2]

    @property
    def seconds(self) -> float | None:
        """From its start to the last byte; ``None`` if it is not complete."""
        return self._network.result(self._number)[3]

    @property
    def longest_gap(self) -> float:
        """The longest time between two deliveries, in seconds."""
        return self._network.result(self._number)[4]

    @property
    def statistics(self) -> dict[str, Any] | None:
        """All counters of the sender and of its paths (docs/counters.md); ``None`` before there is an association."""
        text = self._network.result(self._number)[5]
        if text is None:
            return None
        statistics: dict[str, Any] = json.loads(text)
        return statistics

    def __repr__(self) -> str:
        return f"<Transfer, {self.outcome}: {self.bytes} bytes>"


def _link(keys: Mapping[str, Value]) -> str:
    return dumps({"path": [dict(keys)]})


def _spelled(value: Value) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return str(value)
