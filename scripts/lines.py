"""Two network namespaces with emulated lines between them, for scripts that compare with the kernel's TCP."""

import concurrent.futures
import itertools
import json
import os
import pathlib
import re
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time

from uplink_network import Namespaces

NUMBERS = itertools.count()

# Counts what one connection brings within a given time after it was accepted.
RECEIVER = """
import socket, sys, time
address, protocol, seconds = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, protocol)
listener.bind((address, 5301))
listener.listen()
print("listening", flush=True)
connection, _ = listener.accept()
end, count, buffer = time.monotonic() + seconds, 0, bytearray(1 << 18)
while (left := end - time.monotonic()) > 0:
    connection.settimeout(left)
    try:
        read = connection.recv_into(buffer)
    except TimeoutError:
        break
    if not read:
        break
    count += read
print(count, flush=True)
"""
SENDER = """
import socket, sys
address, protocol, control = sys.argv[1], int(sys.argv[2]), sys.argv[3]
connection = socket.socket(socket.AF_INET, socket.SOCK_STREAM, protocol)
if control:
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, control.encode())
connection.connect((address, 5301))
data = bytes(1 << 16)
while True:
    connection.sendall(data)
"""
NEAR, FAR = "a", "b"


class Line:
    """A line: rate in Mb/s, round-trip time in ms, loss in each direction in percent, and a queue in products of rate
    and round-trip time, at least 50 packets."""

    def __init__(self, rate, rtt, loss=0, queue=1):
        self.rate, self.rtt, self.loss = rate, rtt, loss
        self.queue = max(50, int(queue * rate * rtt * 1000 / 8 / 1500))

    def text(self, seed):
        keys = {"rate_mbit": self.rate, "delay_ms": self.rtt / 2, "queue_packets": self.queue, "loss_percent": self.loss}
        return f"seed = {seed}\n[[path]]\n" + "".join(f"{key} = {value}\n" for key, value in keys.items())


class Lines(Namespaces):
    """Two namespaces and the lines between them; removed with everything that was started in them at the end of a `with`."""

    names = (NEAR, FAR)

    def __init__(self, program, lines, seed, buffers=16 << 20):
        self.program, self.lines, self.seed, self.buffers = str(program), lines, seed, buffers
        self.prefix = f"anabranch-{os.getpid()}-{next(NUMBERS)}-"
        self.started = []
        self.work = pathlib.Path(tempfile.mkdtemp())

    def __exit__(self, *_):
        for process in reversed(self.started):
            process.kill()
            process.wait()
        self.remove()
        shutil.rmtree(self.work, ignore_errors=True)

    def make(self):
        for name in (NEAR, FAR):
            subprocess.run(["ip", "netns", "add", self.prefix + name], check=True)
            self.run(name, "ip", "link", "set", "lo", "up")
            self.run(name, "sysctl", "-qw", "net.ipv4.tcp_no_metrics_save=1",
                     f"net.ipv4.tcp_rmem=4096 {min(131072, self.buffers)} {self.buffers}",
                     f"net.ipv4.tcp_wmem=4096 {min(16384, self.buffers)} {self.buffers}")
        for number, line in enumerate(self.lines):
            path = self.work / f"line{number}.toml"
            path.write_text(line.text(self.seed + number))
            ends = "=".join(
                f"{self.prefix}{name}:w{number}:{self.address(name, number)}/24" for name in (NEAR, FAR)
            )
            self.start([self.program, "emulate", "--impair", path, "--line", ends])

    @staticmethod
    def address(name, number):
        return f"10.98.{number}.{1 if name == NEAR else 2}"

    def all(self, name):
        return ",".join(self.address(name, number) for number, _ in enumerate(self.lines))

    def start(self, command):
        """Starts a program, and waits for its first line."""
        path = self.work / f"log{len(self.started)}"
        with path.open("w") as out:
            process = subprocess.Popen(list(map(str, command)), stdout=out, stderr=subprocess.STDOUT)
        self.started.append(process)
        deadline = time.monotonic() + 20
        while not path.stat().st_size:
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"{command[0]} does not start: {path.read_text()}")
            time.sleep(0.05)
        return path, process

    def stop(self, process):
        process.kill()
        process.wait()
        self.started.remove(process)

    def rest(self):
        """Waits until the queues are empty."""
        time.sleep(0.5 + max(4 * line.rtt / 1000 for line in self.lines))

    def anabranch(self, seconds, both=(), client_only=()):
        """Goodput of one association in Mb/s: what was acknowledged within `seconds`. `None` if it failed. Options for
        both sides, and for the sender."""
        listen = f"{self.all(FAR)}:5201"
        _, server = self.start(self.inside(FAR, self.program, "perf", "server", "--listen", listen, *both))
        path, client = self.start(self.inside(
            NEAR, self.program, "perf", "client", listen, "--json", "--interval", f"{seconds}s", "--time", "1h",
            *both, *client_only))
        events, deadline = {}, time.monotonic() + seconds + 60
        while "interval" not in events and client.poll() is None and time.monotonic() < deadline:
            time.sleep(0.1)
            for line in path.read_text().splitlines(keepends=True):
                if line.startswith("{") and line.endswith("\n"):
                    event = json.loads(line)
                    events.setdefault(event["event"], event)
        # Nothing more leaves, so that the next transfer has the line to itself.
        self.stop(client)
        self.stop(server)
        interval, connected = events.get("interval"), events.get("connected")
        if interval is None or connected is None:
            return None
        # The handshake does not count; TCP's receiver begins after it, too.
        return interval["bytes_sent"] * 8 / (interval["to_seconds"] - connected["seconds"]) / 1e6

    def tcp(self, seconds, control=None, protocol=socket.IPPROTO_TCP):
        """The same for the kernel's TCP or Multipath TCP: what was received within `seconds`."""
        address = self.address(FAR, 0)
        path, receiver = self.start(self.inside(FAR, sys.executable, "-c", RECEIVER, address, protocol, seconds))
        command = self.inside(NEAR, sys.executable, "-c", SENDER, address, protocol, control or "")
        sender = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        self.started.append(sender)
        try:
            receiver.wait(seconds + 60)
            said = path.read_text().split()
            if len(said) < 2:
                raise RuntimeError(f"TCP: {path.read_text()} {sender.stderr.read() if sender.poll() else ''}")
            return int(said[1]) * 8 / seconds / 1e6
        except subprocess.TimeoutExpired:
            return None
        finally:
            self.stop(sender)
            self.stop(receiver)

    def waiting(self, seconds, transfer):
        """Runs a transfer, and returns its result with the mean time in ms that pings beside it wait in the queue."""
        command = ["ping", "-q", "-i", "0.2", "-w", seconds, self.address(FAR, 0)]
        ping = subprocess.Popen(self.inside(NEAR, *command), stdout=subprocess.PIPE, text=True)
        result = transfer()
        ping.terminate()
        found = re.search(r"= [\d.]+/([\d.]+)/", ping.communicate()[0])
        return result, float(found[1]) - self.lines[0].rtt if found else None


def show_progress(jobs):
    """Waits for all jobs. Shows on a terminal how many have ended."""
    for number, _ in enumerate(concurrent.futures.as_completed(jobs), 1):
        if sys.stderr.isatty():
            print(f"\r{number} of {len(jobs)}", end="\n" if number == len(jobs) else "", file=sys.stderr, flush=True)


def median(values):
    """The median of the values that there are; `None` if there is none."""
    values = [value for value in values if value is not None]
    return statistics.median(values) if values else None


def text(value, digits=1):
    return "-" if value is None else f"{value:.{digits}f}"


def kernel_has(control):
    """Whether the kernel's TCP has this congestion control, perhaps after its module is loaded."""
    known = pathlib.Path("/proc/sys/net/ipv4/tcp_available_congestion_control")
    if control not in known.read_text().split():
        subprocess.run(["modprobe", "-q", f"tcp_{control}"], capture_output=True, check=False)
    return control in known.read_text().split()
