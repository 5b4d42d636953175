"""The rows of 'scripts/unmodified --tcp': TCP programs under 'anabranch run --tcp' at both ends, or at one of them.

At both ends, all is carried over SCTP, or fails (--require). At one end the other program is as it is, over TCP.
"""

import contextlib
import os
import pathlib
import shutil
import socket
import subprocess
import sys

# Command: package of Debian.
PACKAGES = {
    "python3": "python3", "curl": "curl", "nginx": "nginx-light", "wget": "wget", "redis-server": "redis-server",
    "redis-benchmark": "redis-tools", "git": "git", "tinyproxy": "tinyproxy-bin", "sshd": "openssh-server",
    "ssh": "openssh-client", "pg_ctlcluster": "postgresql", "pgbench": "postgresql-contrib",
}
# Rows that take long, or whose programs take long to install.
LONG = {"postgresql", "git", "ssh"}
ROLES = ("both", "server", "client")
URL = "http://127.0.0.1:5000/data"

NGINX = """
daemon off; worker_processes 2; pid nginx.pid; error_log nginx.log;
events {}
http {
    access_log off; sendfile on; client_body_temp_path t1; proxy_temp_path t2; fastcgi_temp_path t3;
    uwsgi_temp_path t4; scgi_temp_path t5;
    server { listen 127.0.0.1:5000; root .; }
    server { listen 127.0.0.1:5002; location / { proxy_pass http://127.0.0.1:5000; } }
}
"""

TINYPROXY = """
Port 5001
Listen 127.0.0.1
Timeout 60
MaxClients 100
"""

SSHD = """
Port 5000
ListenAddress 127.0.0.1
HostKey {here}/hostkey
AuthorizedKeysFile {here}/key.pub
PermitRootLogin yes
StrictModes no
PasswordAuthentication no
UsePAM no
PidFile none
"""


class Pair:
    """A server, and its clients. Which of them are under anabranch follows from the role."""

    def __init__(self, programs, role):
        self.programs, self.role = programs, role

    def server(self, *command, port=5000, remote=None, root=False):
        own = self.programs.port
        udp = ["--udp-port", str(own if remote is None else remote + 1), "--remote-udp-port", str(remote or own)]
        child = self.start("server", udp, command, root)
        self.programs.wait_for(child, port)
        return child

    def client(self, *command, given=b"", remote=None, root=False):
        """Runs a program to its end. Returns what it has written."""
        udp = ["--udp-port", "0", "--remote-udp-port", str(remote or self.programs.port)]
        child = self.start("client", udp, command, root)
        child.stdin.write(given)
        child.stdin.close()
        return self.programs.ended(child)

    def start(self, end, udp, command, root):
        if self.role not in ("both", end):
            return self.programs.start_as_it_is(command, root)
        require = ["--require"] if self.role == "both" else []
        return self.programs.start(end, ["--tcp", *require, *udp], command, root)


def same(name):
    if pathlib.Path(name).read_bytes() != pathlib.Path("data").read_bytes():
        raise Exception("other bytes")


def directory(name):
    """A new directory that every user may use."""
    shutil.rmtree(name, ignore_errors=True)
    os.mkdir(name)
    os.chmod(name, 0o777)
    return os.path.abspath(name)


def nginx(pair):
    pathlib.Path("nginx.conf").write_text(NGINX)
    return pair.server("nginx", "-p", directory("nginx"), "-c", os.path.abspath("nginx.conf"))


def nginx_with_data(pair):
    nginx(pair)
    shutil.copy("data", "nginx/data")


def curl(pair):
    nginx_with_data(pair)
    out = directory("out")
    # Several connections at a time, which curl does not wait for.
    urls = [f"{URL}?{n}" for n in range(5)]
    pair.client("curl", "-sSf", "--parallel", *(part for n, url in enumerate(urls) for part in ("-o", f"{out}/{n}", url)))
    for n in range(5):
        same(f"out/{n}")


def proxy_of_nginx(pair):
    """A server that is a client of itself, and registers sockets with epoll before it connects them."""
    nginx_with_data(pair)
    out = directory("out")
    pair.client("curl", "-sSf", "-o", f"{out}/0", URL.replace("5000", "5002"))
    same("out/0")


def wget(pair):
    nginx_with_data(pair)
    out = directory("out")
    pair.client("wget", "-q", "-O", f"{out}/0", URL)
    same("out/0")


def http_server(pair):
    pair.server("python3", "-m", "http.server", "--bind", "127.0.0.1", "5000")
    out = directory("out")
    pair.client("curl", "-sSf", "-o", f"{out}/0", URL)
    same("out/0")


def redis(pair):
    pair.server("redis-server", "--port", "5000", "--bind", "127.0.0.1", "--save", "", "--dir", directory("redis"))
    said = pair.client("redis-benchmark", "-h", "127.0.0.1", "-p", "5000", "-t", "ping,set,get,lrange", "-n", "1000", "-q")
    if said.count("requests per second") < 4 or "rror" in said:
        raise Exception(said)
    said = pair.client("redis-cli", "-h", "127.0.0.1", "-p", "5000", "dbsize")
    if said.strip() not in ("2", "(integer) 2", "3"):
        raise Exception(said)


def git(pair):
    base = directory("git")
    commit = ["-c", "user.name=n", "-c", "user.email=e", "commit", "-qm", "one"]
    copy = lambda: shutil.copy("data", f"{base}/one/data")
    steps = [["init", "-q", f"{base}/one"], copy, ["-C", f"{base}/one", "add", "data"], ["-C", f"{base}/one", *commit]]
    for step in steps:
        subprocess.run(["git", *step], check=True) if isinstance(step, list) else step()
    everybody = ["-c", "safe.directory=*"]
    pair.server("git", *everybody, "daemon", "--reuseaddr", "--export-all", f"--base-path={base}", "--listen=127.0.0.1", "--port=5000")
    out = directory("out")
    pair.client("git", "clone", "-q", "git://127.0.0.1:5000/one", f"{out}/one")
    same("out/one/data")


def tinyproxy(pair):
    """A gateway: connections come over SCTP, and go over SCTP."""
    nginx_with_data(pair)
    pathlib.Path("tinyproxy.conf").write_text(TINYPROXY)
    port = pair.programs.port
    pair.server("tinyproxy", "-d", "-c", os.path.abspath("tinyproxy.conf"), port=5001, remote=port)
    out = directory("out")
    pair.client("curl", "-sSf", "-x", "http://127.0.0.1:5001", "-o", f"{out}/0", URL, remote=port + 1)
    same("out/0")


def postgresql(pair):
    found = sorted(pathlib.Path("/usr/lib/postgresql").glob("*/bin/postgres"))
    if not found:
        raise FileNotFoundError(2, "missing", "postgres")
    place = directory("postgresql")
    data = f"{place}/data"
    pair.programs.ended(pair.programs.start_as_it_is([str(found[-1].with_name("initdb")), "-D", data, "-A", "trust"]))
    pair.server(str(found[-1]), "-D", data, "-p", "5000", "-h", "127.0.0.1", "-k", place)
    where = ["-h", "127.0.0.1", "-p", "5000", "-U", "nobody" if os.geteuid() == 0 else os.environ["USER"]]
    pair.client("pgbench", *where, "-i", "-q", "postgres")
    said = pair.client("pgbench", *where, "-c", "4", "-t", "25", "postgres")
    if "transactions actually processed: 100/100" not in said:
        raise Exception(said)


def ssh(pair):
    """As root: the login gives its user's privileges up, and has a sandbox."""
    if os.geteuid() != 0:
        raise FileNotFoundError(2, "missing", "root, for sshd")
    here = directory("ssh")
    pathlib.Path("/run/sshd").mkdir(exist_ok=True)
    for name in ("key", "hostkey"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", f"{here}/{name}"], check=True)
    pathlib.Path(f"{here}/sshd_config").write_text(SSHD.format(here=here))
    pair.server(shutil.which("sshd") or "/usr/sbin/sshd", "-D", "-f", f"{here}/sshd_config", root=True)
    options = ["-i", f"{here}/key", "-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null"]
    options += ["-o", "LogLevel=ERROR", "-p", "5000", "root@127.0.0.1"]
    script = f"cat > {here}/there && cat {here}/there"
    pathlib.Path(f"{here}/back").write_bytes(b"")
    command = f"ssh {' '.join(options)} '{script}' < data > {here}/back"
    pair.client("sh", "-c", command, root=True)
    same("ssh/there")
    same("ssh/back")


PROGRAMS = [
    ("curl", curl), ("nginx's proxy", proxy_of_nginx), ("wget", wget), ("http.server", http_server), ("redis", redis),
    ("tinyproxy", tinyproxy), ("git", git), ("ssh", ssh), ("postgresql", postgresql),
]


def rows():
    """Name, role, and what runs it."""
    def run(act, role):
        return lambda programs: act(Pair(programs, role))
    return [(name, role, run(act, role)) for name, act in PROGRAMS for role in ROLES]
