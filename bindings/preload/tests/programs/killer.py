"""The peer of killed.py."""
import socket
import sys

s = socket.socket(socket.AF_INET, socket.SOCK_STREAM, 132)
s.connect(("127.0.0.1", int(sys.argv[1])))
assert s.recv(10000) == b"x" * 1000
s.send(b"kill")
while (message := s.recv(10000)) != b"killed":
    # No message was cut by the kill.
    assert message == b"x" * 1000, len(message)
s.send(b"exit")
assert s.recv(100) == b""
print("done")
