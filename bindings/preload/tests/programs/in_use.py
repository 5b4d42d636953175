"""Listens on a host whose UDP port is in use."""
import errno
import socket

s = socket.socket(socket.AF_INET, socket.SOCK_STREAM, 132)
try:
    s.bind(("127.0.0.1", 0))
    s.listen(1)
except OSError as error:
    print(errno.errorcode[error.errno])
