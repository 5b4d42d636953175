"""A client of one thread: many non-blocking associations with epoll, a refused one, signals."""
import errno
import selectors
import signal
import socket
import sys

port, count = int(sys.argv[1]), int(sys.argv[2])
selector = selectors.DefaultSelector()
for number in range(count):
    s = socket.socket(socket.AF_INET, socket.SOCK_STREAM | socket.SOCK_NONBLOCK, 132)
    assert s.connect_ex(("127.0.0.1", port)) == errno.EINPROGRESS
    selector.register(s, selectors.EVENT_WRITE, number)
left = count
while left:
    for key, _ in selector.select(20):
        s, number = key.fileobj, key.data
        if key.events == selectors.EVENT_WRITE:
            assert s.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 0
            s.send(b"%d" % number)
            selector.modify(s, selectors.EVENT_READ, number)
        else:
            assert s.recv(100) == b"%d" % number
            selector.unregister(s)
            s.close()
            left -= 1

# Nobody listens on the port next to it.
s = socket.socket(socket.AF_INET, socket.SOCK_STREAM, 132)
try:
    s.connect(("127.0.0.1", port ^ 1))
except ConnectionRefusedError:
    pass
else:
    raise AssertionError("connected to nobody")
s = socket.socket(socket.AF_INET, socket.SOCK_STREAM, 132)
s.setblocking(False)
assert s.connect_ex(("127.0.0.1", port ^ 1)) == errno.EINPROGRESS
selector.register(s, selectors.EVENT_WRITE)
assert selector.select(20)
assert s.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == errno.ECONNREFUSED
assert s.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 0
selector.unregister(s)

# A signal interrupts a call that waits; python then calls its handler, which raises.
class Interrupted(Exception):
    pass

def interrupt(*_):
    raise Interrupted

signal.signal(signal.SIGALRM, interrupt)
s = socket.socket(socket.AF_INET, socket.SOCK_STREAM, 132)
s.connect(("127.0.0.1", port))
signal.setitimer(signal.ITIMER_REAL, 0.1)
try:
    s.recv(10)
except Interrupted:
    pass
else:
    raise AssertionError("not interrupted")
s.send(b"still there")
assert s.recv(100) == b"still there"
print("done")
