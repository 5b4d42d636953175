"""Transfers over two paths, one of them a satellite network in low orbit, with the choices of several protocols, as far as
options have them. They share the engine, so that only the choices differ: not the headers, not the handshakes.
"""

import pathlib
import subprocess
import sys
import tempfile

from anabranch import lab

MULTIPATH = {"profile": "default", "multipath": "cmt", "slow_paths": "as-others"}
BASELINES = {
    # RFC 8684: the windows are coupled (RFC 6356), and the path with the lowest round-trip time goes first.
    "like MPTCP": {**MULTIPATH, "coupling": "lia", "path_choice": "lowest-rtt"},
    # draft-ietf-quic-multipath: each path has CUBIC of its own, losses are found by time (RFC 9002), and a message of one
    # stream does not hold up those of others.
    "like multipath QUIC": {
        **MULTIPATH,
        "coupling": "uncoupled",
        "congestion_control": "cubic",
        "loss_detection": "time-threshold",
        "interleaving": True,
        "path_choice": "lowest-rtt",
    },
    "one path": {"profile": "rfc9260"},
    "CMT-PF": {"profile": "default", "multipath": "cmt-pf"},
}


def study(orbit: pathlib.Path, size: str) -> lab.Scenario:
    """The scenario. ``orbit`` is a file with the pattern of the second path."""
    return lab.scenario(
        {
            "title": "Choices of several protocols",
            "run": {"seeds": 8},
            "network": {"shape": "dumbbells", "queue": "100 packets", "edge_rate": "1 Gb/s", "edge_delay": "1 ms"},
            "path": {
                "mobile": {"core_rate": "20 Mb/s", "core_delay": "30 ms", "loss": "0.5 %"},
                "orbit": {"core_rate": "100 Mb/s", "core_delay": "5 ms", "pattern": str(orbit)},
            },
            "association": {"profile": "default"},
            "traffic": {"file": {"size": size, "message": "1400 B"}},
            "axis": {"choices": {"variants": {name: {"association": value} for name, value in BASELINES.items()}}},
        }
    )


if __name__ == "__main__":
    program = sys.argv[1] if len(sys.argv) > 1 else "anabranch"
    with tempfile.TemporaryDirectory() as directory:
        orbit = pathlib.Path(directory) / "orbit.pattern"
        make = [program, "pattern", "new", "--preset", "leo-satellite", "--count", "60000", "--seed", "1"]
        subprocess.run([*make, "--out", str(orbit)], check=True)
        runs = study(orbit, "40 MB").run(progress=False)
        for name, times in zip(BASELINES, runs.values("transfer_time_s")):
            known = [time for time in times if time is not None]
            print(f"{name:22} {sum(known) / len(known):6.2f} s")
