"""Calls that wait are interrupted, and a storm of signals loses nothing. Arguments: a port, and 'silent' if the host
there does not answer."""
import signal
import socket
import sys

where = ("127.0.0.1", int(sys.argv[1]))


class Interrupted(Exception):
    pass


def is_interrupted(call, progress=lambda: None):
    """The call waits until a signal comes, whose handler raises, once there is no more progress."""
    last = progress()

    def interrupt(*_):
        nonlocal last
        before, last = last, progress()
        if before == last:
            signal.setitimer(signal.ITIMER_REAL, 0)
            raise Interrupted
    signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 0.1, 0.1)
    try:
        call()
    except Interrupted:
        return
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    raise AssertionError(f"{call} was not interrupted")


def opened():
    return socket.socket(socket.AF_INET, socket.SOCK_STREAM, 132)


def send_and_receive():
    s = opened()
    s.connect(where)
    is_interrupted(lambda: s.recv(100))
    is_interrupted(lambda: s.recvmsg(100, 100))
    # A message whose call was interrupted is not sent.
    for _ in range(3):
        only_what_was_sent_comes_back(s)
    s.close()


def only_what_was_sent_comes_back(s):
    sent = 0

    # The server stops to read when it cannot send the messages back.
    def fill():
        nonlocal sent
        while True:
            sent += s.send(bytes(1000))
    # If the signal came amid a call that does not wait, the handler would raise before the result is added.
    is_interrupted(fill, lambda: sent)
    while sent:
        sent -= len(s.recv(100_000))
    s.settimeout(0.3)
    try:
        raise AssertionError(f"{len(s.recv(100_000))} bytes came that were not sent")
    except TimeoutError:
        s.settimeout(None)


def accept():
    s = opened()
    s.bind(("127.0.0.1", 0))
    s.listen(1)
    is_interrupted(s.accept)


def connect():
    s = opened()
    is_interrupted(lambda: s.connect(where))


def storm():
    """python repeats calls that a signal has interrupted."""
    count = 0

    def one(*_):
        nonlocal count
        count += 1
    signal.signal(signal.SIGALRM, one)
    signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)
    # The signal that comes while the engine answers is rare.
    for number in range(1000):
        s = opened()
        s.connect(where)
        for length in (1, 1000, 60_000) * (30 if number < 3 else 0):
            s.send(bytes(length))
            assert len(s.recv(100_000)) == length
        s.close()
    signal.setitimer(signal.ITIMER_REAL, 0)
    assert count


for way in [connect] if sys.argv[2:] == ["silent"] else [send_and_receive, accept, storm]:
    way()
print("done")
