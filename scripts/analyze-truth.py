#!/usr/bin/env python3
"""How often 'anabranch analyze' is right: transfers of the kernel's TCP under known patterns in the emulator,
whose log has the fate of each packet, compared with tshark's analysis of the same packets.

    scripts/analyze-truth.py [--program FILE] [--bytes N] [--turns N] [--json FILE]

The truth about data that reached the receiver: it was retransmitted if the sender had sent the same bytes
before, reordered if data sent later on the connection arrived before it, a copy if the log says so. Fails if less
than 99 % of the retransmitted or reordered packets are reported as such. Needs what 'anabranch emulate' needs; without
tshark its columns are empty.
"""

import argparse
import csv
import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile

NETWORK = """seed = {seed}
[[host]]
name = "client"
[[host]]
name = "server"
[[link]]
name = "line"
between = ["client", "server"]
rate = "20 Mb/s"
delay = "{delay} ms"
pattern = "p"
[link.back]
pattern = ""
"""

# Losses; near and far displacements; both; delays that cause overtaking; copies. The lengths have no common factor,
# so the events hit different places of the windows each time.
PATTERNS = {
    "losses": """pattern loss per packet
filter payload > 0
end repeat
values
  60*. x 97*. xx 131*. x
""",
    "displacements": """pattern displace per packet
filter payload > 0
end repeat
values
  70*. 1 83*. 2 59*. 7 101*. 20
""",
    "both": """pattern loss per packet
filter payload > 0
end repeat
values
  60*. x 97*. xx 31*. x

pattern displace per packet
filter payload > 0
end repeat
values
  50*. 1 61*. 2 43*. 4
""",
    "delays": """pattern delay per packet
filter payload > 0
overtake yes
end repeat
values
  90*{delay}ms 1*{more}ms 47*{delay}ms 1*{little}ms
""",
    "copies": """pattern duplicate per packet
filter payload > 0
end repeat
values
  75*. 1

pattern loss per packet
filter payload > 0
end repeat
values
  133*. x
""",
}

SINK = """
import socket
listener = socket.create_server(("0.0.0.0", 7000))
while True:
    peer, _ = listener.accept()
    while peer.recv(1 << 16):
        pass
    peer.close()
"""
SOURCE = """
import socket, sys
peer = socket.create_connection(("10.0.0.2", 7000))
peer.sendall(bytes(int(sys.argv[1])))
peer.shutdown(socket.SHUT_WR)
peer.recv(1)
"""

TRUTHS = ["in order", "reordered", "sent again", "copy"]


def blocks(path):
    """The packets of a capture: interface, comment, bytes."""
    with open(path, "rb") as file:
        while head := file.read(8):
            kind, length = struct.unpack("<II", head)
            body = file.read(length - 12)
            file.read(4)
            if kind != 6:
                continue
            interface, _, _, size = struct.unpack("<IIII", body[:16])
            comment, at = "", 20 + size + -size % 4
            if at + 4 <= len(body) and struct.unpack("<H", body[at : at + 2])[0] == 1:
                count = struct.unpack("<H", body[at + 2 : at + 4])[0]
                comment = body[at + 4 : at + 4 + count].decode()
            yield interface, comment, body[20 : 20 + size]


def segment(packet):
    """Sequence number and length of a TCP segment over IPv4; None without data."""
    if packet[0] >> 4 != 4 or packet[9] != 6:
        return None
    header = (packet[0] & 15) * 4
    size = struct.unpack(">H", packet[2:4])[0]
    length = size - header - (packet[header + 12] >> 4) * 4
    return (struct.unpack(">I", packet[header + 4 : header + 8])[0], length) if length else None


def truth(capture):
    """The fate of the data that reached the receiver, by the number of the packet in the capture."""
    sent_again, arrived, first = set(), set(), None
    beyond, latest, result = 0, 0, {}
    for index, (interface, comment, packet) in enumerate(blocks(capture), 1):
        found = segment(packet) if comment.startswith("line> packet ") else None
        if not found:
            continue
        number = int(comment.split()[2].rstrip(","))
        start, length = found
        if interface == 0:
            first = start if first is None else first
            end = (start - first) % 2**32 + length
            if end <= beyond:
                sent_again.add(number)
            beyond = max(beyond, end)
            continue
        if number in arrived:
            result[index] = "copy"
        elif number in sent_again:
            result[index] = "sent again"
        else:
            result[index] = "reordered" if number < latest else "in order"
        arrived.add(number)
        latest = max(latest, number)
    return result


def ours(program, capture, folder):
    events = os.path.join(folder, "events.csv")
    subprocess.run([program, "analyze", capture, "--events", events, "--json"], check=True, stdout=subprocess.DEVNULL)
    said = {}
    with open(events, newline="") as file:
        for row in csv.DictReader(file):
            name = row["class"].split(" ")[0]
            said[int(row["packet"])] = {"retransmission": "sent again", "duplicate": "copy"}.get(name, name)
    return said


def theirs(capture):
    """What tshark says; the receiver's interface alone, as it takes both for one connection."""
    fields = ["frame.number", "tcp.analysis.out_of_order"]
    again = ["retransmission", "fast_retransmission", "spurious_retransmission"]
    fields += ["tcp.analysis." + name for name in again]
    command = ["tshark", "-r", capture, "-T", "fields", "-E", "separator=,"]
    for field in fields:
        command += ["-e", field]
    said = {}
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    for line in output.splitlines():
        number, out_of_order, *repeated = line.split(",")
        if out_of_order:
            said[int(number)] = "reordered"
        elif any(repeated):
            said[int(number)] = "sent again"
    return said


def one_side(capture, out):
    """Writes the packets at the receiver alone; returns their numbers in the whole capture."""
    numbers = []
    with open(out, "wb") as file:
        file.write(struct.pack("<IIIHHqI", 0x0A0D0D0A, 28, 0x1A2B3C4D, 1, 0, -1, 28))
        file.write(struct.pack("<IIHHII", 1, 20, 101, 0, 0, 20))
        with open(capture, "rb") as source:
            index = 0
            while head := source.read(8):
                kind, length = struct.unpack("<II", head)
                rest = source.read(length - 8)
                if kind != 6:
                    continue
                index += 1
                interface, high, low, size = struct.unpack("<IIII", rest[:16])
                if interface != 1:
                    continue
                numbers.append(index)
                # Nanoseconds to microseconds, the unit of an interface without its option.
                time = ((high << 32) + low) // 1000
                data = rest[20 : 20 + size] + bytes(-size % 4)
                total = 32 + len(data)
                file.write(struct.pack("<IIIIIII", 6, total, 0, time >> 32, time & 0xFFFFFFFF, size, size))
                file.write(data + struct.pack("<I", total))
    return numbers


def transfer(arguments, name, turn, folder):
    delay = [10, 20, 35][turn % 3]
    values = {"delay": delay, "more": delay + 4, "little": delay - 6}
    with open(os.path.join(folder, "p"), "w") as file:
        file.write("anabranch pattern 1\n\n" + PATTERNS[name].format(**values))
    network, capture = os.path.join(folder, "net.toml"), os.path.join(folder, "run.pcapng")
    with open(network, "w") as file:
        file.write(NETWORK.format(seed=turn + 1, delay=delay))
    for role, text in [("sink.py", SINK), ("source.py", SOURCE)]:
        with open(os.path.join(folder, role), "w") as file:
            file.write(text)
    command = [arguments.program, "emulate", network, "--quiet", "--capture", capture]
    command += ["--at", "server", f"exec python3 {folder}/sink.py", "--"]
    command += ["python3", f"{folder}/source.py", str(arguments.bytes)]
    subprocess.run(command, check=True)
    return capture


def print_matrix(title, matrix, columns):
    print(f"\n{title}\n\n| truth | packets | " + " | ".join(columns) + " | right |\n|---" + "|---" * (len(columns) + 2) + "|")
    shares = {}
    for kind in TRUTHS:
        row = matrix[kind]
        total = sum(row.values())
        if total:
            shares[kind] = row.get(kind, 0) / total
            cells = " | ".join(f"{row.get(column, 0):,}" for column in columns)
            print(f"| {kind} | {total:,} | {cells} | {100 * shares[kind]:.2f} % |")
    return shares


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    target = os.environ.get("CARGO_TARGET_DIR", "target")
    parser.add_argument("--program", default=f"{target}/release/anabranch")
    parser.add_argument("--bytes", type=int, default=8 << 20, help="of each transfer")
    parser.add_argument("--turns", type=int, default=3, help="transfers under each pattern")
    parser.add_argument("--json", help="write the counts to this file")
    parser.add_argument("--keep", help="keep captures in this folder")
    arguments = parser.parse_args()
    arguments.program = os.path.abspath(arguments.program)
    if not os.path.exists(arguments.program):
        sys.exit(f"{arguments.program} is missing: cargo build --release -p anabranch-cli, or --program FILE")
    has_tshark = shutil.which("tshark") is not None
    own = {kind: {} for kind in TRUTHS}
    other = {kind: {} for kind in TRUTHS}
    for name in PATTERNS:
        for turn in range(arguments.turns):
            with tempfile.TemporaryDirectory() as folder:
                capture = transfer(arguments, name, turn, folder)
                known = truth(capture)
                said = ours(arguments.program, capture, folder)
                side = os.path.join(folder, "side.pcapng")
                numbers = one_side(capture, side)
                heard = {numbers[n - 1]: what for n, what in theirs(side).items()} if has_tshark else {}
                for index, kind in known.items():
                    for matrix, verdicts in [(own, said), (other, heard)]:
                        verdict = verdicts.get(index, "in order")
                        matrix[kind][verdict] = matrix[kind].get(verdict, 0) + 1
                    if arguments.keep and said.get(index, "in order") != kind:
                        print(f"{name} {turn}: packet {index}: {kind}, told as {said.get(index, 'in order')}")
                if arguments.keep:
                    os.makedirs(arguments.keep, exist_ok=True)
                    shutil.copy(capture, os.path.join(arguments.keep, f"{name}-{turn}.pcapng"))
    shares = print_matrix("analyze, at the receiver", own, TRUTHS + ["unknown"])
    if has_tshark:
        print_matrix("tshark, of the same packets", other, TRUTHS[:3])
    if arguments.json:
        with open(arguments.json, "w") as file:
            json.dump({"analyze": own, "tshark": other if has_tshark else None}, file, indent=1)
    poor = [kind for kind in ["reordered", "sent again"] if shares.get(kind, 0) < 0.99]
    if poor:
        sys.exit("analyze-truth.py: less than 99 % right: " + ", ".join(poor))


main()
