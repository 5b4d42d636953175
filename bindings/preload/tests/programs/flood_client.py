"""Many associations at once, again and again, closed as soon as they are up."""
import errno
import selectors
import socket
import sys

port, count, at_once = map(int, sys.argv[1:])
selector = selectors.DefaultSelector()
for _ in range(count // at_once):
    for _ in range(at_once):
        s = socket.socket(socket.AF_INET, socket.SOCK_STREAM | socket.SOCK_NONBLOCK, 132)
        assert s.connect_ex(("127.0.0.1", port)) == errno.EINPROGRESS
        selector.register(s, selectors.EVENT_WRITE)
    left = at_once
    while left:
        ready = selector.select(20)
        assert ready, f"{left} are not up"
        for key, _ in ready:
            assert key.fileobj.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 0
            selector.unregister(key.fileobj)
            key.fileobj.close()
            left -= 1
print("done")
