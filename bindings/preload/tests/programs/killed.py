"""Forks for each peer. The child that shares the socket is killed without warning while it sends."""
import os
import signal
import socket
import sys

listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, 132)
listener.bind(("127.0.0.1", 0))
listener.listen(5)
print(listener.getsockname()[1])
peer, _ = listener.accept()
child = os.fork()
if child == 0:
    listener.close()
    while True:
        peer.send(b"x" * 1000)
# The parent has it, too: killing the child does not end the association.
assert peer.recv(100) == b"kill"
os.kill(child, signal.SIGKILL)
os.waitpid(child, 0)
peer.send(b"killed")
assert peer.recv(100) == b"exit"
# The kernel closes the last descriptor of a process that is killed.
os.kill(os.getpid(), signal.SIGKILL)
