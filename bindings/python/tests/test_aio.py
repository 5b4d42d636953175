"""SCTP on asyncio, between endpoints of this process."""

from __future__ import annotations

import asyncio
import contextlib
import doctest
import gc
import os
import unittest

from anabranch import aio

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

    async def test_mistakes_are_named(self) -> None:
        with self.assertRaisesRegex(ValueError, "'example.org' is no IP address"):
            aio.Endpoint("example.org")
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
    return tests


if __name__ == "__main__":
    unittest.main()
