"""Sends messages and expects them back, in the ways of a blocking client."""
import errno
import select
import socket
import sys

where = ("127.0.0.1", int(sys.argv[1]))
s = socket.socket(socket.AF_INET, socket.SOCK_STREAM, 132)
for option, value in ((socket.SO_TYPE, socket.SOCK_STREAM), (socket.SO_DOMAIN, socket.AF_INET),
                      (socket.SO_PROTOCOL, 132), (socket.SO_ERROR, 0), (socket.SO_ACCEPTCONN, 0)):
    assert s.getsockopt(socket.SOL_SOCKET, option) == value, option
for call in (lambda: s.send(b"too early"), lambda: s.recv(10), lambda: s.getpeername()):
    try:
        call()
    except OSError as error:
        assert error.errno == errno.ENOTCONN, error
    else:
        raise AssertionError("done without an association")
try:
    s.accept()
except OSError as error:
    assert error.errno == errno.EINVAL, error
s.connect(where)
assert s.getpeername() == where

# Messages keep their boundaries; a long one fills the channel.
for length in (1, 2, 1000, 65536, 120000):
    message = bytes(n & 255 for n in range(length))
    assert s.send(message) == length
    assert s.recv(1 << 20) == message, length

# A message that is longer than the buffer is read in parts; MSG_PEEK takes nothing.
s.send(b"0123456789")
assert s.recv(4, socket.MSG_PEEK) == b"0123"
assert [s.recv(4), s.recv(4), s.recv(4)] == [b"0123", b"4567", b"89"]
s.send(b"part of one")
s.send(b"another")
assert (s.recv(4), s.recv(100), s.recv(100)) == (b"part", b" of one", b"another")

# Buffers of sendmsg and recvmsg, and flags.
assert s.sendmsg([b"ab", b"", b"cde"]) == 5
message, control, flags, _ = s.recvmsg(100, 200)
assert (message, control, flags) == (b"abcde", [], socket.MSG_EOR), (message, control, flags)

# SCTP_RECVRCVINFO, also for a message that waits already.
s.send(b"with information")
assert select.select([s], [], [], 20)[0]
s.setsockopt(132, 32, 1)
message, control, flags, _ = s.recvmsg(100, 200)
assert message == b"with information" and [item[:2] for item in control] == [(132, 3)], control
assert len(control[0][2]) == 28
# Too little room for it.
s.send(b"cut")
message, control, flags, _ = s.recvmsg(100, 20)
assert (message, control, flags) == (b"cut", [], socket.MSG_EOR | socket.MSG_CTRUNC), (control, flags)
s.setsockopt(132, 32, 0)

# Nothing is there: poll, MSG_DONTWAIT, a time limit.
assert select.select([s], [s], [], 0) == ([], [s], [])
for flags, limit in ((socket.MSG_DONTWAIT, None), (0, 0.05)):
    s.settimeout(limit)
    try:
        s.recv(10, flags)
    except (BlockingIOError, TimeoutError):
        pass
    else:
        raise AssertionError("received out of nothing")
s.settimeout(None)

# SO_RCVTIMEO is the kernel's.
s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, (0).to_bytes(8, "little") + (50000).to_bytes(8, "little"))
try:
    s.recv(10)
except BlockingIOError:
    pass
s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, bytes(16))

s.shutdown(socket.SHUT_WR)
assert s.recv(10) == b"" == s.recv(10)
try:
    s.send(b"too late")
except BrokenPipeError:
    pass
else:
    raise AssertionError("sent after the end")
s.close()
print("done")
