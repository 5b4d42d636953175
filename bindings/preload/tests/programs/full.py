# shutdown while another thread waits for room: it does not wait, the other one fails, and what was sent arrives.
import socket
import sys
import threading
import time

port = int(sys.argv[1])
s = socket.socket(socket.AF_INET, socket.SOCK_STREAM, 132)
s.connect(("127.0.0.1", port))
sent, error = 0, None


def send():
    global sent, error
    try:
        while True:
            sent += s.send(bytes(1000))
    except OSError as e:
        error = e


thread = threading.Thread(target=send)
thread.start()
before = -1
while before != sent:
    before = sent
    time.sleep(0.3)
assert thread.is_alive()
s.shutdown(socket.SHUT_WR)
thread.join()
assert isinstance(error, BrokenPipeError), error
other = socket.socket(socket.AF_INET, socket.SOCK_STREAM, 132)
other.connect(("127.0.0.1", port))
assert s.recv(10) == b""
print(sent)
