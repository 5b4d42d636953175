"""Accepts and closes peers that say nothing, until one sends a message, which it returns. Argument: its backlog."""
import socket
import sys

s = socket.socket(socket.AF_INET, socket.SOCK_STREAM, 132)
s.bind(("127.0.0.1", 0))
s.listen(int(sys.argv[1]))
print(s.getsockname()[1], flush=True)
while True:
    peer, _ = s.accept()
    try:
        if message := peer.recv(100):
            peer.send(message)
            break
    except OSError:
        # It was aborted.
        pass
    peer.close()
