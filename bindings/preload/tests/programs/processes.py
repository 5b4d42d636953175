"""Uses sockets in the ways of processes that share, inherit and lose descriptors. Each way is one peer of the server."""
import ctypes
import os
import resource
import select
import socket
import subprocess
import sys
import threading

where = ("127.0.0.1", int(sys.argv[1]))


def connected():
    s = socket.socket(socket.AF_INET, socket.SOCK_STREAM, 132)
    s.connect(where)
    return s


def exchange(s, text):
    assert s.send(text) == len(text)
    assert s.recv(100) == text


def succeeds(child):
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def forked(act):
    """Runs this in a child."""
    child = os.fork()
    if child == 0:
        try:
            act()
        except BaseException as error:
            print(error, file=sys.stderr)
            os._exit(1)
        os._exit(0)
    succeeds(child)


def fork_in_a_thread():
    s = connected()
    thread = threading.Thread(target=forked, args=[lambda: exchange(s, b"from a child of a thread")])
    thread.start()
    thread.join()
    exchange(s, b"from its parent")


def vfork_and_exec():
    s = connected()
    script = "import socket; s = socket.socket(fileno=%d); s.send(b'inherited'); assert s.recv(100) == b'inherited'"
    command = [sys.executable, "-c", script % s.fileno()]
    subprocess.run(command, pass_fds=[s.fileno()], check=True)
    # Closed by exec, it is no socket of the new program.
    command[2] = f"import os\ntry: os.fstat({s.fileno()})\nexcept OSError: pass\nelse: raise SystemExit(1)"
    subprocess.run(command, close_fds=False, check=True)
    exchange(s, b"still here")


def closefrom():
    def act():
        os.closerange(3, 1000)
        exchange(connected(), b"after closing everything")
    forked(act)


def daemon():
    """Two forks and a new session. The program's process has ended when the daemon speaks."""
    s = connected()
    done, ended = os.pipe()

    def act():
        os.setsid()
        if os.fork() == 0:
            exchange(s, b"from a daemon")
            os.write(ended, b"!")
            os._exit(0)
    forked(act)
    assert os.read(done, 1) == b"!"


def chroot():
    def act():
        os.chroot("/proc/self/fdinfo")
        os.chdir("/")
        exchange(connected(), b"elsewhere")
    # Others may not do it.
    if os.geteuid() == 0:
        forked(act)
    else:
        exchange(connected(), b"not elsewhere")


def high_number():
    """Beyond FD_SETSIZE, and beyond what the library has hints for, if the system allows it."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = 70_000 if most == resource.RLIM_INFINITY else min(most, 70_000)
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, most))
    for number in (limit // 35, limit - 1):
        s = connected()
        high = socket.socket(fileno=os.dup2(s.fileno(), number, inheritable=False))
        s.close()
        exchange(high, b"high")
        high.send(b"polled")
        poll = select.poll()
        poll.register(high, select.POLLIN)
        assert poll.poll(20_000)
        assert high.recv(100) == b"polled"
        high.close()


def full_both_ways():
    """Sends until the server can send no more either, and only then receives."""
    s = connected()
    s.setblocking(False)
    sent = 0
    while select.select([], [s], [], 0.5)[1]:
        try:
            sent += s.send(sent.to_bytes(4, "big") * 2000)
        except BlockingIOError:
            pass
    s.setblocking(True)
    received = 0
    while received < sent:
        message = s.recv(100_000)
        assert message == received.to_bytes(4, "big") * 2000, len(message)
        received += len(message)
    exchange(s, b"empty again")


def system_calls():
    """A program that calls the kernel itself sends messages, and is not confused with other descriptors."""
    s = connected()
    write = ctypes.CDLL(None).syscall
    assert write(1, s.fileno(), b"raw", 3) == 3
    assert s.recv(100) == b"raw"


for way in (fork_in_a_thread, vfork_and_exec, closefrom, daemon, chroot, high_number, full_both_ways, system_calls):
    way()
print("done")
