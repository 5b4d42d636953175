"""Simulated networks, captures and advice. Needs nothing but the package."""

from __future__ import annotations

import doctest
import pathlib
import runpy
import tempfile
import unittest
import warnings

from anabranch import advise, lab, pcap, sim
from test_lab import SMALL

EXAMPLES = pathlib.Path(__file__).parent.parent / "examples"


def two_hosts(seed: int = 1, **keys):
    net = sim.Network(seed)
    a, b = net.host("A"), net.host("B")
    link = net.link(a, b, **{"rate": "10 Mb/s", "delay": "20 ms", **keys})
    return net, a, b, link


class Reno:
    """The congestion control of RFC 9260, without its details."""

    def __init__(self, largest: int) -> None:
        self.largest, self.cwnd, self.ssthresh = largest, 4 * largest, float("inf")

    def on_acked(self, now, acked, in_flight, rtt):
        slow_start = self.cwnd <= self.ssthresh
        self.cwnd += min(acked, self.largest) if slow_start else self.largest * acked / self.cwnd

    def on_congestion(self, now, cause, in_flight):
        self.ssthresh = max(self.cwnd / 2, 4 * self.largest)
        self.cwnd = self.largest if cause == "timeout" else self.ssthresh


class Networks(unittest.TestCase):
    def test_the_same_seed_gives_the_same_packets(self) -> None:
        prints = []
        for seed in [1, 1, 2]:
            net, a, b, _ = two_hosts(seed, loss="2 %")
            transfer = net.transfer(a, b, "500 kB")
            net.run()
            self.assertEqual((transfer.outcome, transfer.bytes), ("complete", 500_000))
            self.assertEqual(transfer.messages, 345)
            prints.append(net.fingerprint)
        self.assertEqual(prints[0], prints[1])
        self.assertNotEqual(prints[0], prints[2])

    def test_taps_see_packets(self) -> None:
        net, a, b, link = two_hosts()
        seen: list[sim.Packet] = []
        net.transfer(a, b, "10 kB")
        net.tap(seen.append, b)
        net.run()
        first = seen[0]
        self.assertEqual((first.host, first.link, first.is_sent), ("B", link, False))
        self.assertEqual([first.source], net.addresses(a))
        self.assertEqual([first.destination], net.addresses(b))
        self.assertEqual((first.chunks, len(first)), (["INIT"], len(bytes(first))))
        self.assertGreaterEqual(first.time, 0.02)
        self.assertIn("INIT", str(first))
        self.assertEqual(sum(p.chunks.count("DATA") for p in seen), 7)

    def test_events_change_links(self) -> None:
        net, a, b, link = two_hosts()
        transfer = net.transfer(a, b, "2 MB", message="1000 B")
        times = []

        def slower() -> None:
            times.append(net.now)
            net.change(link, rate="1 Mb/s", delay="20 ms")

        net.at("500 ms", slower)
        net.at("1 s", lambda: net.cut(link, "forward"))
        net.at("2 s", lambda: net.repair(link))
        net.run("100 s")
        self.assertEqual(times, [0.5])
        self.assertGreater(transfer.seconds, 10)
        self.assertGreater(transfer.longest_gap, 1)
        self.assertGreater(transfer.statistics["paths"][0]["timeouts"], 0)
        with self.assertRaisesRegex(ValueError, "already"):
            net.at("1 s", slower)

    def test_events_at_the_same_time_happen_in_their_order(self) -> None:
        net, a, b, _ = two_hosts()
        net.transfer(a, b, "1 MB")
        happened = []

        def first() -> None:
            happened.append(1)
            net.at("1 s", lambda: happened.append(3))

        net.at("1 s", first)
        net.at("1 s", lambda: happened.append(2))
        net.run()
        self.assertEqual(happened, [1, 2, 3])

    def test_what_is_not_done_times_out(self) -> None:
        net, a, b, _ = two_hosts()
        transfer = net.transfer(a, b, "100 MB")
        self.assertEqual(transfer.outcome, "running")
        net.run("1 s")
        self.assertEqual((transfer.outcome, transfer.seconds, net.now), ("timed out", None, 1.0))

    def test_routers_forward_and_messages_have_a_rhythm(self) -> None:
        net = sim.Network()
        a, r, b = net.host("A"), net.router("R"), net.host("B")
        net.link(a, r, rate="100 Mb/s", delay="1 ms")
        net.link(r, b, rate="1 Mb/s", delay="10 ms", back={"rate": "1 Mb/s", "delay": "50 ms"})
        transfer = net.transfer(a, b, "2 kB", message="100 B", every="100 ms", start="1 s")
        net.run()
        self.assertEqual(transfer.messages, 20)
        self.assertAlmostEqual(transfer.seconds, 2, delta=0.2)

    def test_what_a_callback_raises_ends_the_run(self) -> None:
        def tap(packet):
            raise LookupError(f"enough at {packet.time}")

        class Broken(Reno):
            def on_acked(self, now, acked, in_flight, rtt):
                raise KeyError("no window")

        class Nothing:
            def __init__(self, largest):
                pass

        def no_controller(largest):
            raise ZeroDivisionError

        net, a, b, _ = two_hosts()
        net.tap(tap)
        transfer = net.transfer(a, b, "1 MB")
        net.tap(tap)
        with self.assertRaisesRegex(LookupError, "enough at 0.0"):
            net.run()
        self.assertEqual(transfer.bytes, 0)
        for controller, error in [
            (Broken, KeyError),
            (Nothing, AttributeError),
            (no_controller, ZeroDivisionError),
        ]:
            net, a, b, _ = two_hosts()
            transfer = net.transfer(a, b, "1 MB", controller=controller)
            with self.assertRaises(error):
                net.run()
            self.assertLess(transfer.bytes, 100_000)
        net, a, b, _ = two_hosts()
        net.transfer(a, b, "1 MB")
        net.at("100 ms", lambda: 1 // 0)
        with self.assertRaises(ZeroDivisionError):
            net.run()
        # A tap is called while the network runs.
        net, a, b, _ = two_hosts()
        net.transfer(a, b, "1 MB")
        net.tap(lambda packet: net.now)
        with self.assertRaisesRegex(RuntimeError, "borrowed"):
            net.run()

    def test_a_controller_in_python_decides_the_window(self) -> None:
        net, a, b, _ = two_hosts(queue="20 packets")
        windows = []

        class Noted(Reno):
            def on_acked(self, now, acked, in_flight, rtt):
                super().on_acked(now, acked, in_flight, rtt)
                windows.append((now, self.cwnd, rtt))

        transfer = net.transfer(a, b, "3 MB", controller=Noted)
        net.run()
        self.assertEqual(transfer.outcome, "complete")
        # As fast as the link, but for its losses.
        self.assertLess(transfer.seconds, 4)
        self.assertGreater(transfer.statistics["paths"][0]["lost_packets"], 0)
        self.assertGreaterEqual(min(rtt for _, _, rtt in windows if rtt), 0.04)

    def test_the_example_is_nearly_as_fast_as_the_engine(self) -> None:
        example = runpy.run_path(str(EXAMPLES / "controller.py"))
        theirs, ours = example["seconds"](example["Reno"]), example["seconds"](None)
        self.assertAlmostEqual(theirs / ours, 1, delta=0.5)

    def test_baselines_differ_only_in_their_options(self) -> None:
        example = runpy.run_path(str(EXAMPLES / "baselines.py"))
        with tempfile.TemporaryDirectory() as directory:
            orbit = pathlib.Path(directory) / "orbit.pattern"
            orbit.write_text("anabranch pattern 1\n\npattern delay per ms\nend repeat\nvalues\n  100*20ms 100*40ms\n")
            runs = example["study"](orbit, "2 MB").set({"run.seeds": 2}).run(progress=False)
        means = [sum(times) / len(times) for times in runs.values("transfer_time_s")]
        seconds = dict(zip(example["BASELINES"], means))
        # Whatever the choices, two paths carry it sooner than the first one.
        self.assertEqual(max(seconds, key=seconds.__getitem__), "one path")

    def test_wrong_input_is_refused(self) -> None:
        net, a, b, link = two_hosts()
        for call, reason in [
            (lambda: net.link(a, b, pattern="none.pat"), "none.pat"),
            (lambda: net.link(a, b, rate="fast"), "rate"),
            (lambda: net.link(a, b, speed="1 Mb/s"), "speed"),
            (lambda: net.link(a, b, loss="110 %"), "loss"),
            (lambda: net.link(a, a, rate="1 Mb/s"), ""),
            (lambda: net.transfer(a, b, "much"), "'much' is no size"),
            (lambda: net.transfer(a, b, "1 MB", options={"colour": 1}), "colour"),
            (lambda: net.transfer(a, b, "1 MB", options={"pmr": "many"}), "many"),
            (lambda: net.at("soon", print), "'soon' is no time"),
            (lambda: net.cut(link, "up"), "'up', not 'forward'"),
        ]:
            with self.subTest(reason), self.assertRaisesRegex(ValueError, reason):
                call()
        for call in [lambda: net.cut(7), lambda: net.transfer(a, 9, "1 MB")]:
            with self.assertRaises(IndexError):
                call()
        net.transfer(a, b, "1 MB")
        with self.assertRaisesRegex(ValueError, "links come before transfers"):
            net.link(a, b)


class Captures(unittest.TestCase):
    def test_a_capture_has_flows_and_chunks(self) -> None:
        with tempfile.TemporaryDirectory() as directory:
            file = pathlib.Path(directory, "run.pcapng")
            trace = lab.scenario(SMALL).set(loss=5).trace(1, pcap=file)
            capture = pcap.read(file)
            self.assertEqual(len(trace), capture.report["packets"])
            self.assertEqual(len(capture.flows), 1)
            flow = {name: values[0] for name, values in capture.flows.to_dict().items()}
            self.assertEqual((flow["protocol"], flow["paths"]), ("sctp", 2))
            self.assertGreaterEqual(flow["there_bytes"], 100_000)
            self.assertGreater(capture.chunks["DATA"], 60)
            self.assertIn("packets", str(capture))
            self.assertIn("1 flows", repr(capture))
            file.write_bytes(file.read_bytes()[:-7])
            with warnings.catch_warnings(record=True) as said:
                warnings.simplefilter("always")
                pcap.read(file)
            self.assertIn("run.pcapng, byte", str(said[0].message))
            file.write_bytes(b"no capture at all")
            with self.assertRaisesRegex(ValueError, "run.pcapng"):
                pcap.read(file)
            with self.assertRaisesRegex(OSError, "none.pcap cannot be read"):
                pcap.read(pathlib.Path(directory, "none.pcap"))


class Advice(unittest.TestCase):
    def test_wrong_input_is_refused(self) -> None:
        for keys, reason in [
            ({"loss": 5}, "a share from 0 to 1"),
            ({"rtt_ratio": -1.0}, "above 0"),
            ({"routing": "none"}, "neither 'proactive'"),
            ({"cache": 1.0}, "mean nothing without"),
            ({"routing": "reactive", "cache": -1.0}, "cache is -1 s"),
        ]:
            with self.subTest(reason), self.assertRaisesRegex(ValueError, reason):
                advise.paths(**keys)
        with self.assertRaisesRegex(ValueError, "sends is 'mail'"):
            advise.traffic("mail")

    def test_advice_is_options_of_a_transfer(self) -> None:
        advice = advise.paths(loss=0.01)
        net, a, b, _ = two_hosts(loss="1 %")
        transfer = net.transfer(a, b, "100 kB", options=advice.options)
        net.run()
        self.assertEqual(transfer.outcome, "complete")
        self.assertIsNone(advise.paths(loss=0.05, rtt_ratio=5.0).options)


def load_tests(loader, tests, pattern):
    for module in [sim, pcap, advise]:
        tests.addTests(doctest.DocTestSuite(module))
    return tests


if __name__ == "__main__":
    unittest.main()
