"""Accepts a number of associations as fast as it can, and closes each."""
import socket
import sys

s = socket.socket(socket.AF_INET, socket.SOCK_STREAM, 132)
s.bind(("127.0.0.1", 0))
s.listen(1000)
print(s.getsockname()[1])
for _ in range(int(sys.argv[1])):
    s.accept()[0].close()
