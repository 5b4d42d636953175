"""Echoes the messages of a number of peers, one after the other, to the end of each."""
import socket
import sys

listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, 132)
listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
listener.bind(("127.0.0.1", 0))
# Room for all peers: those that come while one is served are not refused.
listener.listen(int(sys.argv[1]))
print(listener.getsockname()[1])
for _ in range(int(sys.argv[1])):
    peer, address = listener.accept()
    assert address == peer.getpeername(), (address, peer.getpeername())
    assert peer.getsockname()[1] == listener.getsockname()[1]
    while message := peer.recv(1 << 20):
        assert peer.send(message) == len(message)
    # Once more: the end does not go away.
    assert peer.recv(10) == b""
    peer.close()
