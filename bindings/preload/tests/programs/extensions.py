"""Interleaving, stream reconfiguration and messages in several calls, by the numbers of Linux: `extensions.py` echoes the
messages of a client, `extensions.py PORT` is that client."""
import socket
import struct
import sys

SCTP = 132
FRAGMENT_INTERLEAVE, RESET_STREAMS, ADD_STREAMS = 18, 119, 121
STREAM_SCHEDULER, INTERLEAVING_SUPPORTED, EVENT = 123, 125, 127
STREAM_RESET, STREAM_CHANGE, MSG_NOTIFICATION = 0x800A, 0x800C, 0x8000
EXPLICIT_EOR = 0x4105  # ours
SNDINFO, RCVINFO = 2, 3


def prepare(s):
    s.setsockopt(SCTP, FRAGMENT_INTERLEAVE, 2)
    s.setsockopt(SCTP, INTERLEAVING_SUPPORTED, struct.pack("iI", 0, 1))
    s.setsockopt(SCTP, STREAM_SCHEDULER, struct.pack("iI", 0, 2))
    s.setsockopt(SCTP, 32, 1)
    s.setsockopt(SCTP, 2, struct.pack("HHHH", 4, 16, 0, 0))


def receive(s):
    """The next message, or notification, with its stream and its sequence number."""
    message, control, flags, _ = s.recvmsg(1 << 20, 200)
    if flags & MSG_NOTIFICATION:
        return message, None, None
    assert flags & socket.MSG_EOR or not message
    stream, ssn = next((struct.unpack("HH", data[:4]) for _, kind, data in control if kind == RCVINFO), (None, None))
    return message, stream, ssn


def send(s, stream, data, flags=0):
    info = struct.pack("HHIII", stream, 0, 0, 0, 0)
    assert s.sendmsg([data], [(SCTP, SNDINFO, info)], flags) == len(data)


def echo():
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, SCTP)
    prepare(listener)
    listener.bind(("127.0.0.1", 0))
    listener.listen(5)
    print(listener.getsockname()[1])
    peer, _ = listener.accept()
    peer.setsockopt(SCTP, 32, 1)
    while (received := receive(peer))[0]:
        send(peer, received[1], received[0])
    peer.close()


def use(port):
    s = socket.socket(socket.AF_INET, socket.SOCK_STREAM, SCTP)
    prepare(s)
    for kind in (STREAM_RESET, STREAM_CHANGE):
        s.setsockopt(SCTP, EVENT, struct.pack("iHBx", 0, kind, 1))
    s.connect(("127.0.0.1", port))
    _, agreed = struct.unpack("iI", s.getsockopt(SCTP, INTERLEAVING_SUPPORTED, 8))
    assert agreed

    for number in range(3):
        send(s, 1, b"before")
        assert receive(s) == (b"before", 1, number)
    s.setsockopt(SCTP, RESET_STREAMS, struct.pack("iHHH", 0, 3, 1, 1))
    ended = set()
    while len(ended) < 2:
        event, _, _ = receive(s)
        kind, flags, length, _ = struct.unpack("HHIi", event[:12])
        assert (kind, length, event[12:]) == (STREAM_RESET, len(event), struct.pack("H", 1)), event
        ended.add(flags)
    assert ended == {1, 2}, ended
    send(s, 1, b"after")
    assert receive(s) == (b"after", 1, 0)

    s.setsockopt(SCTP, ADD_STREAMS, struct.pack("iHH", 0, 2, 3))
    counts = None
    while counts != (6, 7):
        event, _, _ = receive(s)
        kind, flags, _, _, *counts = struct.unpack("HHIiHH", event)
        counts = tuple(counts)
        assert (kind, flags) == (STREAM_CHANGE, 0), event
    send(s, 5, b"new")
    assert receive(s) == (b"new", 5, 0)

    s.setsockopt(SCTP, EXPLICIT_EOR, 1)
    send(s, 2, b"one ")
    send(s, 3, b"another", socket.MSG_EOR)
    assert receive(s)[:2] == (b"another", 3)
    send(s, 2, b"message", socket.MSG_EOR)
    assert receive(s)[:2] == (b"one message", 2)
    s.close()
    print("done")


if len(sys.argv) > 1:
    use(int(sys.argv[1]))
else:
    echo()
