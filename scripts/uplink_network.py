"""A client in network namespaces whose uplinks are behind address translators of their own, for scripts.

The namespaces are c, the client with the devices u1, u2 and so on; n1, n2 and so on, the translators; and s, the server.
"""

import argparse
import os
import pathlib
import shutil
import signal
import subprocess
import time


class Missing(Exception):
    """Something that must be installed."""


def provide(packages, optional=None):
    """Installs missing programs on Debian: a dict from programs to packages. Only the optional ones may stay missing."""
    wanted = {name: package for name, package in {**packages, **(optional or {})}.items() if not shutil.which(name)}
    if wanted:
        install = ["apt-get", "install", "-y", "--no-install-recommends", *sorted(set(wanted.values()))]
        environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        try:
            subprocess.run(install, check=True, capture_output=True, env=environment)
        except (OSError, subprocess.CalledProcessError):
            pass
    missing = [name for name in packages if not shutil.which(name)]
    if missing:
        raise Missing(f"missing: {', '.join(missing)}")


def result_file(text):
    """The path of a file for results, as a type of an argument: refused at once if its directory does not exist."""
    path = pathlib.Path(text)
    if not path.parent.is_dir():
        raise argparse.ArgumentTypeError(f"there is no directory {path.parent}")
    return path


class Namespaces:
    """Network namespaces, called by their `names` behind a `prefix`. A subclass creates them in `make`, and removes them with
    everything in them in `__exit__`."""

    def __enter__(self):
        try:
            self.make()
        except BaseException:
            self.__exit__()
            raise
        return self

    def remove(self):
        for name in self.names:
            subprocess.run(["ip", "netns", "delete", self.prefix + name], capture_output=True)

    def inside(self, name, *command):
        return ["ip", "netns", "exec", self.prefix + name, *map(str, command)]

    def run(self, name, *command):
        done = subprocess.run(self.inside(name, *command), capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"{' '.join(map(str, command))}: {done.stderr.strip() or done.stdout.strip()}")
        return done.stdout


class Network(Namespaces):
    """A client with uplinks, a translator behind each, and a server that all translators reach.

    `uplinks` has the rate in Mb/s and the round-trip time in ms of each, and the share of packets that is lost in each
    direction, in percent, if there is one.
    """

    # Packets that the queue of each uplink holds at least.
    least_queue = 50

    def __init__(self, program, uplinks, work, server="10.79.9.1"):
        self.program, self.uplinks, self.work, self.server = program, uplinks, work, server
        self.prefix = f"anabranch-{os.getpid()}-"
        self.started, self.lines = [], []
        self.names = ["c", "s"] + [f"n{number}" for number, _ in enumerate(uplinks, 1)]

    def __exit__(self, *_):
        for process in reversed(self.started):
            process.send_signal(signal.SIGCONT)
            process.terminate()
        for process in self.started:
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self.remove()

    def start(self, command, log, until=None):
        """Starts a program, and waits until its output has this text."""
        path = self.work / log
        with path.open("w") as out:
            process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT)
        self.started.append(process)
        deadline = time.monotonic() + 20
        while until is not None and until not in path.read_text():
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"{command[0]} does not start: {path.read_text()}")
            time.sleep(0.05)
        return process

    def make(self):
        for name in self.names:
            subprocess.run(["ip", "netns", "add", self.prefix + name], check=True)
            self.run(name, "ip", "link", "set", "lo", "up")
        self.run("s", "ip", "address", "add", f"{self.server}/32", "dev", "lo")
        for number, uplink in enumerate(self.uplinks, 1):
            self.uplink(number, *uplink)
        for name in ("c", "s"):
            self.run(name, "sysctl", "-qw", "net.ipv4.tcp_rmem=4096 131072 16777216")
            self.run(name, "sysctl", "-qw", "net.ipv4.tcp_wmem=4096 131072 16777216")
            self.run(name, "sysctl", "-qw", "net.ipv4.tcp_no_metrics_save=1")
            self.run(name, "sh", "-c", "for f in /proc/sys/net/ipv4/conf/*/rp_filter; do echo 0 >$f; done")

    def uplink(self, number, rate, rtt, loss=0):
        """An uplink: a line of this rate and round-trip time to a translator, and a fast link from there to the server."""
        near, nat, far = f"192.168.{number}", f"n{number}", f"10.79.{number}"
        # A queue of one bandwidth-delay product, or a longer one.
        queue = max(self.least_queue, rate * rtt * 1000 // 8 // 1500)
        line = self.work / f"line{number}.toml"
        keys = {"rate_mbit": rate, "delay_ms": rtt / 2, "queue_packets": queue, "loss_percent": loss}
        path = "".join(f"{key} = {value}\n" for key, value in keys.items())
        line.write_text(f"seed = {number}\n[[path]]\n{path}")
        ends = f"{self.prefix}c:u{number}:{near}.2/24={self.prefix}{nat}:in:{near}.1/24"
        command = [self.program, "emulate", "--impair", line, "--line", ends]
        self.lines.append(self.start(list(map(str, command)), f"line{number}.log", "."))
        deadline = time.monotonic() + 10
        while "in" not in self.run(nat, "ip", "-br", "link") and time.monotonic() < deadline:
            time.sleep(0.05)
        peer = ["type", "veth", "peer", "name", f"s{number}", "netns", self.prefix + "s"]
        self.run(nat, "ip", "link", "add", "out", *peer)
        for name, device, address in [(nat, "out", f"{far}.1/24"), ("s", f"s{number}", f"{far}.2/24")]:
            self.run(name, "ip", "address", "add", address, "dev", device)
            self.run(name, "ip", "link", "set", device, "up")
        self.run(nat, "sysctl", "-qw", "net.ipv4.ip_forward=1")
        self.run(nat, "ip", "route", "add", f"{self.server}/32", "via", f"{far}.2")
        rules = "add table ip t; add chain ip t p { type nat hook postrouting priority 100; };"
        self.run(nat, "nft", rules + " add rule ip t p oifname out masquerade")
        # Programs that bind an address of an uplink use it; all others use the first one.
        self.run("c", "ip", "route", "add", "default", "via", f"{near}.1", "metric", number)
        self.run("c", "ip", "route", "add", "default", "via", f"{near}.1", "table", number)
        self.run("c", "ip", "rule", "add", "from", f"{near}.2", "table", number)

    def silence(self, number):
        """From now on this uplink swallows all packets."""
        self.lines[number - 1].send_signal(signal.SIGSTOP)

    def unplug(self, number):
        self.run("c", "ip", "link", "set", f"u{number}", "down")
