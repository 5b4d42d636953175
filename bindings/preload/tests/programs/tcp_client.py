"""Uses TCP sockets in the ways of programs. Each way is a connection to tcp_server.py, or to nobody."""
import ctypes
import errno
import fcntl
import os
import select
import signal
import socket
import struct
import sys
import termios
import threading
import time

host, port = sys.argv[1], int(sys.argv[2])
family = socket.AF_INET6 if ":" in host else socket.AF_INET
where = (host, port)


def connected(command):
    s = socket.socket(family)
    s.connect(where)
    s.sendall(command)
    return s


def exchange(s):
    for n in range(20):
        s.sendall(b"%d" % n * 100)
        want = len(b"%d" % n * 100)
        got = b""
        while len(got) < want:
            got += s.recv(want - len(got))
        assert got == b"%d" % n * 100


def rest(s):
    data = b""
    while part := s.recv(100_000):
        data += part
    return data


def echo():
    s = connected(b"e")
    exchange(s)
    s.shutdown(socket.SHUT_WR)
    assert s.recv(1) == b""


def names():
    s = connected(b"n")
    accepted, peer, own = eval(rest(s))
    assert accepted == peer == s.getsockname(), (accepted, peer, s.getsockname())
    assert own[:2] == where == s.getpeername()[:2], (own, where, s.getpeername())


def half_close():
    s = connected(b"h" + bytes(1_000_000))
    s.shutdown(socket.SHUT_WR)
    data = rest(s)
    assert data == b"1000000 " + bytes(3_000_000), (data[:20], len(data))


def resets():
    s = connected(b"x")
    assert s.recv(1) == b"!"
    s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    s.close()


def is_reset():
    s = connected(b"r")
    fails(errno.ECONNRESET, lambda: s.recv(1))


def reads_late():
    """What has arrived before a reset is read after it."""
    s = connected(b"l")
    arrived = 0
    while arrived < 30_000:
        arrived = struct.unpack("i", fcntl.ioctl(s, termios.FIONREAD, bytes(4)))[0]
        time.sleep(0.01)
    s.sendall(b"!")
    read = 0
    try:
        while data := s.recv(1000):
            read += len(data)
    except ConnectionResetError:
        assert read >= arrived, (read, arrived)
    else:
        raise AssertionError("an end")


def fails(number, call):
    try:
        call()
    except OSError as error:
        assert error.errno == number, error
    else:
        raise AssertionError("no error")


def flood():
    s = connected(b"f")
    data = bytes(range(250)) * 40_000
    sending = threading.Thread(target=s.sendall, args=[data])
    sending.start()
    assert rest(s) == data
    sending.join()


def options():
    assert rest(connected(b"o")) == b"good"


def urgent():
    s = connected(b"u")
    s.send(b"ab")
    s.send(b"!", socket.MSG_OOB)
    assert rest(s) == b"got ab!"


def polled():
    """Nothing is known of a descriptor but what poll says."""
    s = socket.socket(family)
    s.setblocking(False)
    assert s.connect_ex(where) == errno.EINPROGRESS
    poll = select.poll()
    poll.register(s, select.POLLOUT)
    assert poll.poll() == [(s.fileno(), select.POLLOUT)]
    assert s.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 0
    # As hiredis does, to learn the outcome.
    assert s.connect_ex(where) in (0, errno.EISCONN)
    assert s.connect_ex(where) == errno.EISCONN
    s.setblocking(True)
    s.sendall(b"e")
    exchange(s)


def registered_before():
    """As nginx and Boost.Asio do: epoll has the descriptor before connect, and only tells changes."""
    s = socket.socket(family)
    s.setblocking(False)
    epoll = select.epoll()
    epoll.register(s, select.EPOLLIN | select.EPOLLOUT | select.EPOLLET)
    epoll.poll(0)
    copy = os.dup(s.fileno())
    assert s.connect_ex(where) == errno.EINPROGRESS
    while not [event for _, event in epoll.poll() if event & select.EPOLLOUT and not event & select.EPOLLHUP]:
        pass
    s.close()
    s = socket.socket(fileno=copy)
    s.setblocking(True)
    s.sendall(b"e")
    exchange(s)


def forked():
    s = connected(b"e")
    child = os.fork()
    if child == 0:
        exchange(s)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    exchange(s)


def executed():
    s = connected(b"e")
    child = os.fork()
    if child == 0:
        os.dup2(s.fileno(), 1)
        # It has no library, and no engine.
        os.execve("/bin/echo", ["echo", "written"], {})
    assert os.waitpid(child, 0)[1] == 0
    assert s.recv(100) == b"written\n"


def interrupted():
    """A connection that nobody answers to, and a signal."""
    silent = socket.create_server(("127.0.0.1", 0), backlog=0)
    full = socket.create_connection(silent.getsockname())
    signal.signal(signal.SIGALRM, lambda *_: None)
    signal.siginterrupt(signal.SIGALRM, True)
    signal.setitimer(signal.ITIMER_REAL, 0.2)
    libc = ctypes.CDLL(None, use_errno=True)
    s = socket.socket()
    to = struct.pack("=H", socket.AF_INET) + struct.pack(">H4s8x", silent.getsockname()[1], bytes([127, 0, 0, 1]))
    assert libc.connect(s.fileno(), to, len(to)) == -1 and ctypes.get_errno() == errno.EINTR
    s.settimeout(0.1)
    fails(errno.EALREADY, lambda: s.connect(silent.getsockname()))
    full.close()


def refused():
    with socket.create_server((host, 0), family=family) as gone:
        nobody = gone.getsockname()
    s = socket.socket(family)
    fails(errno.ECONNREFUSED, lambda: s.connect(nobody))
    s = socket.socket(family)
    s.setblocking(False)
    if (result := s.connect_ex(nobody)) == errno.EINPROGRESS:
        select.select([], [s], [s])
        result = s.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    assert result == errno.ECONNREFUSED, errno.errorcode[result]
    s = socket.socket(family)
    s.setblocking(False)
    fails_later(s, nobody, errno.ECONNREFUSED)


def fails_later(s, address, expected):
    """Connects, at once or later, and fails. The second call tells why."""
    if (result := s.connect_ex(address)) == errno.EINPROGRESS:
        select.select([], [s], [s])
        result = s.connect_ex(address)
    assert result == expected, errno.errorcode[result]


def unreachable():
    """Nothing but SCTP is allowed, and the host does not have it."""
    for blocking in (True, False):
        s = socket.socket(family)
        s.setblocking(blocking)
        fails_later(s, where, errno.EHOSTUNREACH)


def bound():
    """Its port is the one that the program has chosen, so it is TCP."""
    s = socket.socket(family)
    s.bind((host, 0))
    own = s.getsockname()
    s.connect(where)
    s.sendall(b"n")
    accepted, _, _ = eval(rest(s))
    assert accepted == own == s.getsockname()


for way in sys.argv[3:]:
    try:
        globals()[way]()
    except BaseException as error:
        error.add_note(f"in {way}")
        raise
print("done")
