"""SCTP on asyncio, between endpoints of this process."""

from __future__ import annotations

import asyncio
import contextlib
import doctest
import gc
import os
import pathlib
import re
import threading
import unittest

from anabranch import aio, blocking, ppid
from anabranch.ppid import Ppid

TWO = ["127.0.0.1", "127.0.0.2"]


@contextlib.asynccontextmanager
async def pair(local=TWO, options=None):
    """Both ends of an association over two paths."""
    async with aio.Endpoint(local, udp_port=0) as server:
        listener = server.listen(7, options=options)
        there = aio.connect(local, 7, udp_port=server.udp_port, local=local, options=options)
        async with there as client:
            yield client, await listener.accept()


class Asyncio(unittest.IsolatedAsyncioTestCase):
    async def test_messages_keep_their_bounds_streams_and_identifiers(self) -> None:
        async with pair() as (client, server):
            self.assertEqual(sorted(client.peer_addresses), TWO)
            self.assertEqual(sorted(server.local_addresses), TWO)
            sent = [(b"a", 0, 0), (b"b" * 5000, 3, 46), (b"\0", 9, 2**32 - 1)]
            for data, stream, ppid in sent:
                await client.send(data, stream=stream, ppid=ppid)
            got = [await server.recv() for _ in sent]
            self.assertEqual([m[:3] for m in got], sent)
            self.assertTrue(all(m.begin and m.end and not m.unordered for m in got))
            await server.send(bytearray(b"back"), unordered=True, lifetime=60)
            back = await client.recv()
            self.assertEqual((back.data, back.unordered), (b"back", True))
            counters = client.statistics()
            remotes = {path["remote"].rsplit(":", 1)[0] for path in counters["paths"]}
            self.assertEqual(remotes, set(TWO))

    async def test_the_end_of_the_peer_is_the_end_of_the_messages(self) -> None:
        async with pair() as (client, server):
            for number in range(10):
                await client.send(b"%d" % number)
            closing = asyncio.create_task(client.close())
            self.assertEqual([m.data async for m in server], [b"%d" % n for n in range(10)])
            await closing
            self.assertTrue(client.is_closed)
            with self.assertRaises(aio.SctpError):
                await client.send(b"late")

    async def test_an_exception_aborts(self) -> None:
        async with aio.Endpoint("127.0.0.1", udp_port=0) as server:
            listener = server.listen(7)
            with self.assertRaises(LookupError):
                async with aio.connect("127.0.0.1", 7, udp_port=server.udp_port):
                    peer = await listener.accept()
                    raise LookupError
            with self.assertRaises(aio.SctpError):
                await peer.recv()

    async def test_cancelled_operations_lose_and_double_nothing(self) -> None:
        count = 300
        async with pair() as (client, server):

            async def send() -> None:
                for number in range(count):
                    await client.send(b"%d" % number)
                    await asyncio.sleep(0)

            sending = asyncio.create_task(send())
            got: list[int] = []
            cancelled = 0
            while len(got) < count:
                receiving = asyncio.create_task(server.recv())
                # Any number of steps, also none.
                for _ in range(cancelled % 5):
                    await asyncio.sleep(0)
                if not receiving.done():
                    receiving.cancel()
                try:
                    got.append(int((await receiving).data))
                except asyncio.CancelledError:
                    cancelled += 1
                    await asyncio.sleep(0)
            await sending
            self.assertEqual(got, list(range(count)))
            self.assertGreater(cancelled, 0)

    async def test_a_full_buffer_makes_senders_wait(self) -> None:
        options = {"send_buffer": 65536, "receive_buffer": 65536}
        async with pair(options=options) as (client, server):
            sent = 0

            async def send() -> None:
                nonlocal sent
                while sent < 100:
                    await client.send(bytes(16384))
                    sent += 1

            sending = asyncio.create_task(send())
            with self.assertRaises(asyncio.TimeoutError):
                await asyncio.wait_for(asyncio.shield(sending), 0.5)
            self.assertLess(sent, 100)
            size = 0
            while size < 100 * 16384:
                size += len((await server.recv()).data)
            await sending
            self.assertEqual((sent, size), (100, 100 * 16384))

    async def test_many_messages_are_sent_in_order_also_when_the_buffer_is_full(self) -> None:
        options = {"send_buffer": 65536, "receive_buffer": 65536}
        async with pair(options=options) as (client, server):
            every = [number.to_bytes(2, "big") * 1000 for number in range(200)]
            sending = asyncio.create_task(client.send_many(every, stream=2, ppid=60))
            got = [await server.recv() for _ in every]
            await sending
            self.assertEqual([m.data for m in got], every)
            self.assertEqual({(m.stream, m.ppid) for m in got}, {(2, 60)})

    async def test_a_stream_of_its_own_is_received_apart(self) -> None:
        async with pair() as (client, server):
            async with server.stream(3) as third:
                with self.assertRaises(aio.SctpError):
                    server.stream(3)
                waiting = asyncio.create_task(third.recv())
                await asyncio.sleep(0)
                with self.assertRaisesRegex(aio.SctpError, "another task"):
                    await third.recv()
                waiting.cancel()
                await asyncio.wait([waiting])
                await client.send(b"apart", stream=3, ppid=18)
                await client.send(b"together", stream=4)
                self.assertEqual((await server.recv()).data, b"together")
                message = await third.recv()
                self.assertEqual((message.data, message.ppid), (b"apart", 18))
                await third.send(b"back")
                self.assertEqual((await client.recv()).stream, 3)
            await client.send(b"given back", stream=3)
            self.assertEqual((await server.recv()).data, b"given back")

    async def test_events_tell_what_happens(self) -> None:
        options = {"stream_reconfiguration": "on", "accept_stream_resets": "on"}
        async with pair(options=options) as (client, server):
            events = client.events()
            client.reset_streams(3)
            while (event := await events.next()).name != "streams_reset":
                pass
            self.assertEqual((event.fields["outgoing"], event.fields["streams"]), (True, "3"))
            self.assertIn("reset of outgoing streams 3", event.text)
            server.abort()
            names = [event.name async for event in events]
            self.assertEqual(names[-1], "closed")
            self.assertIsNone(await events.next())

    async def test_a_message_that_is_given_up_is_an_event(self) -> None:
        options = {"send_buffer": 65536, "receive_buffer": 65536}
        async with pair(options=options) as (client, server):
            events = client.events()
            # Nobody receives: the windows fill up, and what is in the buffer cannot be sent in time.
            await client.send_many([bytes(10000)] * 100, lifetime=0.05)
            while (event := await events.next()).name != "send_failed":
                pass
            self.assertEqual((event.fields["stream"], event.fields["bytes"]), (0, 10000))
            client.abort()
            with contextlib.suppress(aio.SctpError):
                while await server.recv() is not None:
                    pass

    async def test_cancelled_sends_send_nothing_and_bar_nobody(self) -> None:
        # The steps of the library's own test: crates/transport/anabranch/tests/cancel.rs.
        options = {"send_buffer": 8192, "receive_buffer": 16384}
        async with pair("127.0.0.1", options) as (client, server):
            sent = cancelled = 0
            while cancelled < 100:
                sending = asyncio.create_task(client.send(bytes(1000), ppid=sent))
                await asyncio.sleep(0)
                if sending.done():
                    await sending
                    sent += 1
                else:
                    sending.cancel()
                    with contextlib.suppress(asyncio.CancelledError):
                        await sending
                    cancelled += 1
            last = asyncio.create_task(client.send(b"last", ppid=sent))
            got = [(await server.recv()).ppid for _ in range(sent + 1)]
            await last
            self.assertEqual(got, list(range(sent + 1)))

    async def test_cancelled_receives_of_a_stream_lose_nothing(self) -> None:
        async with pair("127.0.0.1") as (client, server):
            own = server.stream(1)
            for ppid in range(200):
                await client.send_many([b"x"], stream=0, ppid=ppid)
                await client.send_many([b"x"], stream=1, ppid=ppid)
            got: dict[str, list[int]] = {"any": [], "own": []}
            while len(got["any"]) < 200 or len(got["own"]) < 200:
                for name, receiver in [("any", server), ("own", own)]:
                    receiving = asyncio.create_task(receiver.recv())
                    await asyncio.sleep(0)
                    if not receiving.done():
                        receiving.cancel()
                    with contextlib.suppress(asyncio.CancelledError):
                        got[name].append((await receiving).ppid)
            self.assertEqual(got, {"any": list(range(200)), "own": list(range(200))})

    async def test_cancelled_connects_and_accepts_leave_nothing_behind(self) -> None:
        async with aio.Endpoint("127.0.0.1", udp_port=0) as server:
            listener = server.listen(7)
            async with aio.Endpoint("127.0.0.1", udp_port=0) as client:
                for steps in range(20):
                    connecting = asyncio.create_task(
                        client.connect("127.0.0.1", 7, udp_port=server.udp_port)
                    )
                    accepting = asyncio.create_task(listener.accept())
                    for _ in range(steps):
                        await asyncio.sleep(0)
                    for task in (connecting, accepting):
                        task.cancel()
                    done = await asyncio.gather(connecting, accepting, return_exceptions=True)
                    for association in done:
                        if isinstance(association, aio.Association):
                            association.abort()
                # Associations that nobody took are those of earlier attempts, and have ended.
                near = await client.connect("127.0.0.1", 7, udp_port=server.udp_port)
                await near.send(b"this one")
                while True:
                    far = await listener.accept()
                    with contextlib.suppress(aio.SctpError):
                        message = await far.recv()
                        if message is not None:
                            break
                self.assertEqual(message.data, b"this one")

    async def test_a_busy_loop_does_not_keep_the_peer_waiting(self) -> None:
        count = 100

        def serve(started: threading.Event, ports: list[int]) -> None:
            with blocking.Endpoint("127.0.0.1", udp_port=0) as server:
                listener = server.listen(7)
                ports.append(server.udp_port)
                started.set()
                with listener.accept(timeout=60) as peer:
                    for number in range(count):
                        peer.send(b"%d" % number)
                    # All is acknowledged although the loop of the other side does nothing.
                    while peer.aio.statistics()["outstanding_bytes"] > 0:
                        threading.Event().wait(0.01)
                    acknowledged.set()
                    peer.recv(timeout=60)

        started, acknowledged, ports = threading.Event(), threading.Event(), []
        thread = threading.Thread(target=serve, args=(started, ports))
        thread.start()
        started.wait()
        async with aio.connect("127.0.0.1", 7, udp_port=ports[0], local="127.0.0.1") as client:
            # The loop is busy until then.
            self.assertTrue(acknowledged.wait(60))
            got = [int((await client.recv()).data) for _ in range(count)]
            self.assertEqual(got, list(range(count)))
            await client.send(b"done")
        await asyncio.get_running_loop().run_in_executor(None, thread.join)

    @unittest.skipUnless(hasattr(os, "geteuid") and os.geteuid() == 0, "needs root")
    async def test_over_ip_in_place_of_udp(self) -> None:
        async with aio.Endpoint("127.0.0.1", over="ip") as server:
            listener = server.listen(7)
            async with aio.connect("127.0.0.1", 7, local="127.0.0.2", over="ip") as client:
                peer = await listener.accept()
                await client.send(b"no UDP", ppid=3)
                message = await peer.recv()
                self.assertEqual((message.data, message.ppid), (b"no UDP", 3))

    async def test_mistakes_are_named(self) -> None:
        with self.assertRaisesRegex(ValueError, "'example.org' is no IP address"):
            aio.Endpoint("example.org")
        with self.assertRaisesRegex(ValueError, "'tcp' is neither"):
            aio.Endpoint("127.0.0.1", over="tcp")
        async with aio.Endpoint("127.0.0.1", udp_port=0) as endpoint:
            with self.assertRaisesRegex(ValueError, "rto_mni"):
                endpoint.listen(7, options={"rto_mni": "1 s"})
            with self.assertRaisesRegex(ValueError, "rto_min"):
                endpoint.listen(7, options={"rto_min": True})
            listener = endpoint.listen(7)
            with self.assertRaises(aio.SctpError):
                endpoint.listen(7)
            listener.close()
            with self.assertRaisesRegex(aio.SctpError, "the listener is closed"):
                await listener.accept()
        async with pair() as (client, server):
            for wrong in [b""]:
                with self.assertRaises(aio.SctpError):
                    await client.send(wrong)
            with self.assertRaises(aio.SctpError):
                await client.send(b"x", stream=60000)
            for lifetime in [-1.0, float("nan"), float("inf")]:
                with self.assertRaisesRegex(ValueError, "lifetime"):
                    await client.send(b"x", lifetime=lifetime)
            for stream in [-1, 65536]:
                with self.assertRaises(OverflowError):
                    await client.send(b"x", stream=stream)

    async def test_a_closed_endpoint_wakes_who_waits(self) -> None:
        endpoint = aio.Endpoint("127.0.0.1", udp_port=0)
        accepting = asyncio.create_task(endpoint.listen(7).accept())
        await asyncio.sleep(0)
        await endpoint.close()
        with self.assertRaisesRegex(aio.SctpError, "the endpoint is closed"):
            await accepting


class Ppids(unittest.TestCase):
    def test_they_are_those_of_the_library(self) -> None:
        table = pathlib.Path(__file__).parents[3] / "crates/transport/wire/src/ppid.rs"
        known = re.findall(r"^    ([A-Z0-9_]+) = (\d+),", table.read_text(), re.MULTILINE)
        self.assertEqual({name: int(value) for name, value in known}, dict(Ppid.__members__))


class Blocking(unittest.TestCase):
    def test_calls_wait_and_time_out(self) -> None:
        with blocking.Endpoint("127.0.0.1", udp_port=0) as server:
            listener = server.listen(7)
            with self.assertRaisesRegex(TimeoutError, "within 0.05 s"):
                listener.accept(timeout=0.05)
            there = ("127.0.0.1", 7)
            with blocking.connect(*there, udp_port=server.udp_port, timeout=60) as client:
                peer = listener.accept(timeout=60)
                with self.assertRaises(TimeoutError):
                    peer.recv(timeout=0.05)
                client.send_many([b"a", b"b"], ppid=3)
                self.assertEqual([peer.recv().data, peer.recv().data], [b"a", b"b"])
                events = peer.events()
            self.assertEqual(list(peer), [])
            self.assertEqual(list(events)[-1].name, "closed")

    def test_within_a_loop_it_is_refused(self) -> None:
        async def wrong() -> None:
            with self.assertRaises(RuntimeError):
                blocking.Endpoint("127.0.0.1", udp_port=0)

        asyncio.run(wrong())


class Loops(unittest.TestCase):
    def test_a_loop_may_end_with_associations_open(self) -> None:
        kept = []

        async def leave() -> None:
            server = aio.Endpoint("127.0.0.1", udp_port=0)
            listener = server.listen(7)
            client = await aio.connect("127.0.0.1", 7, udp_port=server.udp_port)
            peer = await listener.accept()
            waiting = asyncio.create_task(peer.recv())
            await asyncio.sleep(0)
            kept.extend([server, listener, client, peer])
            # asyncio.run cancels it.
            del waiting

        async def go_on() -> None:
            _, _, client, peer = kept
            await client.send(b"still here")
            self.assertEqual((await peer.recv()).data, b"still here")

        for _ in range(3):
            kept.clear()
            gc.collect()
            asyncio.run(leave())
        asyncio.run(go_on())

    def test_endpoints_need_no_loop_to_be_made_and_loops_share_them(self) -> None:
        server = aio.Endpoint("127.0.0.1", udp_port=0)
        listener = server.listen(7)

        async def ask() -> None:
            async with aio.connect("127.0.0.1", 7, udp_port=server.udp_port) as client:
                await client.send(b"hello")
                self.assertEqual((await client.recv()).data, b"hello")

        async def answer() -> None:
            peer = await listener.accept()
            await peer.send((await peer.recv()).data)
            self.assertIsNone(await peer.recv())

        # Two loops in two threads, and an endpoint of neither.
        thread = threading.Thread(target=lambda: asyncio.run(answer()))
        thread.start()
        asyncio.run(ask())
        thread.join()
        asyncio.run(server.close())

    def test_loops_come_and_go(self) -> None:
        async def once() -> None:
            async with pair("127.0.0.1") as (client, server):
                await client.send(b"x")
                await server.recv()

        before = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else None
        for _ in range(20):
            asyncio.run(once())
        gc.collect()
        if before is not None:
            # Some may still be closing.
            self.assertLess(len(os.listdir("/proc/self/fd")), before + 40)

    @unittest.skipUnless(hasattr(os, "fork"), "needs fork")
    def test_forks_are_refused(self) -> None:
        async def use() -> None:
            await aio.Endpoint("127.0.0.1", udp_port=0).close()

        asyncio.run(use())
        child = os.fork()
        if child == 0:
            code = 1
            try:
                aio.Endpoint("127.0.0.1", udp_port=0)
            except aio.SctpError as error:
                code = 0 if "was forked" in str(error) else 2
            os._exit(code)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 0)


def load_tests(loader, tests, pattern):
    tests.addTests(doctest.DocTestSuite(aio))
    tests.addTests(doctest.DocTestSuite(blocking))
    tests.addTests(doctest.DocTestSuite(ppid))
    return tests


if __name__ == "__main__":
    unittest.main()
