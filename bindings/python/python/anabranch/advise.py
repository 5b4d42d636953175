"""Which options suit a network, and what is sent over it: what ``anabranch advise`` knows.

>>> from anabranch import advise
>>> advice = advise.paths(loss=0.05, rtt_ratio=1.3, routing="proactive")
>>> advice.options
{'retransmission': 'fr-same-rto-alt', 'pmr': '0', 'mfr': 'on', 'timestamps': 'on'}
>>> print(advice.reasons[0])
loss 5.00 % is not below 3 %
>>> [(one.option, one.value) for one in advise.traffic("signalling")]
[('profile', 'signalling'), ('bundling', 'none')]
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from . import _anabranch

__all__ = ["Advice", "Recommended", "paths", "traffic"]


class Advice(NamedTuple):
    """The answer of the decision tree."""

    options: dict[str, str] | None
    """Options for ``aio.connect`` and ``sim``; ``None`` if the study has no answer."""
    reasons: list[str]
    """The way through the tree: each question with its answer and source."""


class Recommended(NamedTuple):
    """An option with its reason."""

    option: str
    value: str
    reason: str
    study: str
    """The scenario that shows it."""


def paths(
    *,
    loss: float | None = None,
    rtt_ratio: float | None = None,
    routing: Literal["proactive", "reactive"] | None = None,
    cache: float | None = None,
    discovery: float | None = None,
) -> Advice:
    """How an association with several paths should send again, by the study of multihoming (caro, figures 4.8, 4.11 and
    6.1), for what is known about the network.

    ``loss`` is the share of packets that the primary path loses, from 0 to 1, and ``rtt_ratio`` the round-trip time of
    the slowest other path as a multiple of the primary path's. With reactive routing, ``cache`` is for how many seconds
    an idle route is remembered, and ``discovery`` how many a discovery takes.
    """
    choice, reasons = _anabranch.advise_paths(loss, rtt_ratio, routing, cache, discovery)
    if choice is None:
        return Advice(None, reasons)
    retransmission, pmr, extensions = choice
    options = {"retransmission": retransmission, "pmr": str(pmr)}
    return Advice({**options, **{name: "on" for name in extensions}}, reasons)


def traffic(
    sends: Literal["bulk", "signalling", "web"] | None = None,
    *,
    reorders: bool = False,
    stands_still: bool = False,
    many_short: bool = False,
) -> list[Recommended]:
    """Which options of recovery, bundling and the cache of metrics suit, by the measurements of docs/timeliness.md.

    ``reorders`` says that the network reorders packets, ``stands_still`` that links stand still for longer than a
    timeout, and ``many_short`` that many short associations follow each other between the same hosts.
    """
    all_ = _anabranch.advise_traffic(sends, reorders, stands_still, many_short)
    return [Recommended(*one) for one in all_]
