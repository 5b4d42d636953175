"""A thousand connects as fast as it can, without waiting for any. Then an association as usual."""
import errno
import socket
import sys

where = ("127.0.0.1", int(sys.argv[1]))
for n in range(1_000):
    s = socket.socket(socket.AF_INET, socket.SOCK_STREAM | socket.SOCK_NONBLOCK, 132)
    result = s.connect_ex(where)
    assert result == errno.EINPROGRESS, errno.errorcode[result]
    s.close()
while True:
    try:
        s = socket.socket(socket.AF_INET, socket.SOCK_STREAM, 132)
        s.connect(where)
        s.send(b"at last")
        assert s.recv(100) == b"at last"
        break
    except ConnectionError:
        # Others still wait in the server's queue.
        pass
print("done")
