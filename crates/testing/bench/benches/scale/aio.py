"""Messages there and back on one event loop, over SCTP and over asyncio's own TCP: SIZE TRIPS MTU."""

import asyncio
import contextlib
import json
import sys
import time

try:
    from anabranch import aio
except ImportError as error:
    print(f"there is no package: {error}", file=sys.stderr)
    sys.exit(3)

SIZE, TRIPS, MTU = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]


async def seconds(trip, trips):
    """The time of a trip, and that of the processor, of both ends. The first ones are not counted: windows open, and
    packets become as large as they may be."""
    for _ in range(max(trips // 10, 50)):
        await trip()
    begin, cpu = time.perf_counter(), time.process_time()
    for _ in range(trips):
        await trip()
    return (time.perf_counter() - begin) / trips, (time.process_time() - cpu) / trips


async def tcp():
    async def echo(reader, writer):
        with contextlib.suppress(asyncio.IncompleteReadError):
            while True:
                writer.write(await reader.readexactly(SIZE))
                await writer.drain()
        writer.close()

    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
    data = bytes(SIZE)

    async def trip():
        writer.write(data)
        await writer.drain()
        await reader.readexactly(SIZE)

    taken = await seconds(trip, TRIPS)
    writer.close()
    server.close()
    await asyncio.sleep(0.05)
    return taken


async def sctp():
    options = {"mtu_max": MTU}

    async def echo(association):
        async for message in association:
            await association.send(message.data)

    async with aio.Endpoint("127.0.0.1", udp_port=0) as server:
        listener = server.listen(7, options=options)
        there = aio.connect(
            "127.0.0.1", 7, udp_port=server.udp_port, local="127.0.0.1", options=options
        )
        async with there as client:
            echoing = asyncio.create_task(echo(await listener.accept()))
            data = bytes(SIZE)

            async def trip():
                await client.send(data)
                await client.recv()

            taken = await seconds(trip, TRIPS)
        await echoing
        return taken


# In turns, so that both meet the same noise; the best of each.
rounds = [asyncio.run(tcp()) + asyncio.run(sctp()) for _ in range(3)]
stream, stream_cpu, messages, messages_cpu = (min(taken) * 1e6 for taken in zip(*rounds))
notes = {"tcp_us": stream, "sctp_us": messages, "tcp_cpu_us": stream_cpu, "sctp_cpu_us": messages_cpu}
print(json.dumps({"value": stream / messages, **notes}))
