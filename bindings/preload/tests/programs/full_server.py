# Accepts two peers, and reads nothing from the first before the second is there. Says how many bytes it got.
import socket

s = socket.socket(socket.AF_INET, socket.SOCK_STREAM, 132)
s.bind(("127.0.0.1", 0))
s.listen(5)
print(s.getsockname()[1], flush=True)
first, _ = s.accept()
second, _ = s.accept()
got = 0
while data := first.recv(100_000):
    got += len(data)
print(got)
