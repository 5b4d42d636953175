"""The Linux kernel's SCTP for 'scripts/unmodified --linux': a guest of User-Mode Linux, which has the files of this host."""

import os
import pathlib
import shlex
import subprocess
import sys
import tempfile
import time

# Command: package of Debian.
PACKAGES = {"linux.uml": "user-mode-linux", "busybox": "busybox-static", "cc": "gcc libc6-dev"}
SEARCHED = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# How long it may take to boot: seconds.
PATIENCE = 60
# How this host's files become those of programs in the guest.
MOUNT = (
    "mkdir /host && mount -t hostfs none /host -o / && mount -t proc proc /host/proc && mount -t devtmpfs dev /host/dev"
    " && mkdir -p /host/dev/shm && mount -t tmpfs tmpfs /host/dev/shm"
)
# Ends the programs.
KILL = 'for p in /proc/[0-9]*; do [ "$(readlink $p/root)" = /host ] && kill -9 ${p#/proc/}; done; true'

# Gives a command to the guest's shell, prints its output, and exits with its code: ADDRESS COMMAND.
SHELL = r"""
import socket, sys
s = socket.create_connection((sys.argv[1], 2323))
s.sendall(f"{sys.argv[2]}; code=$?; sync; echo; echo status $code; exit\n".encode())
for line in s.makefile("rb"):
    if line.startswith(b"status "):
        sys.exit(int(line[7:]))
    sys.stdout.buffer.write(line)
    sys.stdout.flush()
sys.exit("the guest has ended")
"""


class Guest:
    """A running guest behind a TAP device of a network namespace."""

    def __init__(self, repository, namespace, device, address, udp_port, remote_udp_port):
        built = subprocess.run([repository / "interop/linux/build"], stdout=subprocess.PIPE, text=True)
        if built.returncode:
            print("unmodified: the guest cannot be built (interop/linux/build)", file=sys.stderr)
            sys.exit(3)
        kernel, root, library = built.stdout.splitlines()[-1].split()
        self.within, self.address = ["ip", "netns", "exec", namespace], address
        pathlib.Path("guest.py").write_text(SHELL)
        command = [kernel, "mem=512M", "con=null", "con0=null,fd:1", "quiet", "panic=-1", "umid=guest"]
        command += [f"uml_dir={tempfile.mkdtemp(dir='.')}/", f"initrd={root}", f"peer.addresses.0={address}/24"]
        command += [f"vec0:transport=tap,ifname={device},depth=128,gro=1"]
        command += [f"peer.udp={udp_port}", f"peer.encap={remote_udp_port}"]
        log = open("guest.log", "w")
        # All of its processes end with it.
        alone = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "env", f"LD_PRELOAD={library}"]
        self.child = subprocess.Popen([*self.within, *alone, *command], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        try:
            self.wait()
            self.shell(MOUNT)
        except BaseException:
            self.end()
            raise

    def wait(self):
        until = time.monotonic() + PATIENCE
        while "guest ready" not in (said := pathlib.Path("guest.log").read_text(errors="replace")):
            if self.child.poll() is not None or time.monotonic() > until:
                raise Exception(f"the guest does not boot: {said[-1000:]}")
            time.sleep(0.1)

    def command(self, line):
        """The command here that gives a line to the guest's shell."""
        return [*self.within, sys.executable, "guest.py", self.address, line]

    def shell(self, line):
        """Runs a line in the guest. Returns what it prints."""
        for _ in range(50):
            done = subprocess.run(self.command(line), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            if "ConnectionRefusedError" not in done.stderr:
                break
            # Its shell does not listen yet.
            time.sleep(0.1)
        if done.returncode:
            raise Exception(f"the guest fails at '{line}': {done.stdout} {done.stderr}")
        return done.stdout

    def program(self, command, environment):
        """The command here that runs a program in the guest, in this directory, with the input in the file 'given'."""
        variables = [f"{name}={value}" for name, value in (environment | {"PATH": SEARCHED}).items()]
        inside = ["chroot", "/host", "/usr/bin/env", "-i", *variables, "sh", "-c", 'cd "$0" && exec "$@" <given', os.getcwd()]
        return self.command(f"{shlex.join([*inside, *command])} 2>&1")

    def listens(self, tcp_port):
        """Whether a program has an SCTP socket that listens, or a TCP socket on this port."""
        # The first line has the names of the columns.
        if len(self.shell("cat /proc/net/sctp/eps").strip().splitlines()) > 1:
            return True
        lines = [line.split() for line in self.shell("cat /proc/net/tcp /proc/net/tcp6").splitlines()]
        ports = [line[1].rsplit(":", 1)[1] for line in lines if len(line) > 3 and line[3] == "0A"]
        return f"{tcp_port:04X}" in ports

    def kill_programs(self):
        self.shell(KILL)

    def end(self):
        self.child.kill()
        self.child.wait()
