"""What is in captures: the analysis of ``anabranch analyze``, of SCTP and TCP.

>>> from anabranch import lab, pcap
>>> import tempfile
>>> with tempfile.TemporaryDirectory() as directory:
...     file = f"{directory}/run.pcapng"
...     point = lab.scenario("caro/2.5").set(primary_loss=3, alternate_loss=0, policy="AllRtxAlt")
...     trace = point.trace(pcap=file)
...     capture = pcap.read(file)
>>> capture.chunks["COOKIE ECHO"], len(capture.flows)
(1, 1)
"""

from __future__ import annotations

import json
import os
import warnings
from typing import Any

from . import _anabranch
from ._anabranch import Table

__all__ = ["Capture", "Table", "read"]


def read(*files: str | os.PathLike[str]) -> Capture:
    """Reads captures as far as possible: pcap and pcapng, also compressed by gzip. Flows go on from one file to the next.

    Where a file is damaged or cut off, what is before that counts, and a warning says where it is. Raises ``ValueError``
    for what is no capture.
    """
    text, report, chunks, flows, damaged = _anabranch.read_captures(list(files))
    for sentence in damaged:
        warnings.warn(sentence, stacklevel=2)
    return Capture(text, json.loads(report), dict(chunks), flows)


class Capture:
    """The analysis of captures."""

    def __init__(
        self, text: str, report: dict[str, Any], chunks: dict[str, int], flows: Table
    ) -> None:
        self._text = text
        self.report = report
        """The totals, as ``anabranch analyze --json`` has them."""
        self.chunks = chunks
        """How many SCTP chunks of each type there are."""
        self.flows = flows
        """A table with one row a flow, which is an association with all its paths, or a TCP connection: ``from``,
        ``to``, ``duration_s``, ``there_bytes``, ``back_rtt_s`` and so on. ``there`` is the direction of its first
        packet. docs/analyze.md explains the classes of data and packets."""

    def __str__(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return f"<Capture of {self.report['packets']} packets, {len(self.flows)} flows>"
