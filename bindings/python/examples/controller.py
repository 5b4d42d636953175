"""A congestion controller in Python, beside the engine's own, over the same link: additive increase, multiplicative
decrease, in twenty lines. Needs nothing but the package.
"""

from __future__ import annotations

from anabranch import sim


class Reno:
    """The window grows by a packet each round trip, and is halved when packets are lost."""

    def __init__(self, largest: int) -> None:
        self.largest = largest
        self.cwnd: float = 4 * largest
        self.ssthresh = float("inf")

    def on_acked(self, now: float, acked: int, in_flight: int, rtt: float | None) -> None:
        if self.cwnd <= self.ssthresh:
            self.cwnd += min(acked, self.largest)
        else:
            self.cwnd += self.largest * acked / self.cwnd

    def on_congestion(self, now: float, cause: str, in_flight: int) -> None:
        self.ssthresh = max(self.cwnd / 2, 4 * self.largest)
        self.cwnd = self.largest if cause == "timeout" else self.ssthresh


def seconds(controller: type[Reno] | None) -> float:
    """How long 5 MB take over 10 Mb/s and 80 ms, with a queue of a tenth of a second."""
    net = sim.Network(seed=3)
    a, b = net.host("A"), net.host("B")
    net.link(a, b, rate="10 Mb/s", delay="40 ms", queue="125 kB", loss="0.1 %")
    transfer = net.transfer(a, b, "5 MB", controller=controller)
    net.run("10 min")
    assert transfer.seconds is not None, transfer.outcome
    return transfer.seconds


if __name__ == "__main__":
    print(f"this one {seconds(Reno):.1f} s, the engine's own {seconds(None):.1f} s")
