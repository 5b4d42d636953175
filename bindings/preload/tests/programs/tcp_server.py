"""A TCP server. The first byte of a connection says what to do with it. Serves each in a thread; ends after as many."""
import errno
import os
import socket
import struct
import sys
import threading

count, host = int(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else "127.0.0.1"
family = socket.AF_INET6 if ":" in host else socket.AF_INET


def exactly(s, length):
    data = b""
    while len(data) < length and (part := s.recv(length - len(data))):
        data += part
    return data


def echo(s):
    while data := s.recv(100_000):
        s.sendall(data)


def names(s, accepted):
    s.sendall(repr((accepted, s.getpeername(), s.getsockname())).encode())


def answer_after_the_end(s):
    """Reads all, and then still sends."""
    length = 0
    while data := s.recv(100_000):
        length += len(data)
    s.sendall(b"%d " % length + bytes(3_000_000))


def expect_reset(s):
    s.sendall(b"!")
    try:
        end = s.recv(1)
        print("an end" if not end else "a byte", flush=True)
    except OSError as error:
        print(errno.errorcode[error.errno], flush=True)


def reset(s):
    s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def send_and_reset(s):
    s.sendall(bytes(40_000))
    # The peer says when some of it has arrived, without having read it.
    exactly(s, 1)
    reset(s)


def flood(s):
    """Sends first, without reading: the peer does the same."""
    sending = threading.Thread(target=s.sendall, args=[bytes(range(250)) * 40_000])
    sending.start()
    data = exactly(s, 10_000_000)
    assert data == bytes(range(250)) * 40_000
    sending.join()


def options(s):
    for level, name in ((socket.IPPROTO_TCP, socket.TCP_NODELAY), (socket.SOL_SOCKET, socket.SO_KEEPALIVE)):
        s.setsockopt(level, name, 1)
        assert s.getsockopt(level, name)
    assert s.getsockopt(socket.SOL_SOCKET, socket.SO_TYPE) == socket.SOCK_STREAM
    assert s.getsockopt(socket.SOL_SOCKET, socket.SO_PROTOCOL) == socket.IPPROTO_TCP
    assert s.getsockopt(socket.SOL_SOCKET, socket.SO_DOMAIN) == family
    # The first byte is the state: established.
    assert s.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104)[0] == 1
    s.sendall(b"good")


def urgent(s):
    s.sendall(b"got " + exactly(s, 3))


def serve(s, accepted):
    act = {b"e": echo, b"h": answer_after_the_end, b"x": expect_reset, b"r": reset, b"f": flood, b"o": options,
           b"u": urgent, b"l": send_and_reset}
    with s:
        command = s.recv(1)
        if command == b"n":
            names(s, accepted)
        elif command:
            act[command](s)


listener = socket.create_server((host, 0), family=family, dualstack_ipv6=host == "::")
print(listener.getsockname()[1], flush=True)
threads = []
for _ in range(count):
    connection, accepted = listener.accept()
    threads.append(threading.Thread(target=serve, args=[connection, accepted]))
    threads[-1].start()
for thread in threads:
    thread.join()
