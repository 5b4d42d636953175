//! The figures of TCP programs under `anabranch run --tcp`.

use std::ffi::OsStr;

use anabranch_bench::suite::Trouble;
use anabranch_bench::suite::single::{Bench, Sample};

use crate::built::Built;
use crate::figures::{TCP, numbers, received, seconds};
use crate::host;

/// 5201, the port of iperf3, is 1451 in the kernel's table, and 9899 is 26AB.
const IPERF: &str = r#"
"$1" run --library "$2" --tcp --require -- iperf3 -s -1 >/dev/null &
tcp_listens 1451
udp_is_bound 26AB
"$1" run --library "$2" --tcp --require --udp-port 0 -- iperf3 -c 127.0.0.1 -l 64K -t "$3" -J
wait $!
"#;

/// Prints requests per second, over SCTP and over TCP. 6379 is 18EB.
const REDIS: &str = r#"
needs redis-server
needs redis-benchmark
server="redis-server --bind 127.0.0.1 --save ''"
asks="redis-benchmark -h 127.0.0.1 -c 1 -t get --csv -n $3"
rate() { sed -n 's/^"GET","\([0-9.]*\)".*/\1/p'; }
"$1" run --library "$2" --tcp --require -- sh -c "exec $server" >/dev/null & first=$!
tcp_listens 18EB
udp_is_bound 26AB
"$1" run --library "$2" --tcp --require --udp-port 0 -- $asks 2>/dev/null | rate
kill $first
wait $first
sh -c "exec $server" >/dev/null & second=$!
tcp_listens 18EB
$asks 2>/dev/null | rate
kill $second
wait $second
"#;

/// Prints the 99th percentile of the time to connect, in ms: to a host without SCTP that is known, to others that are
/// not, and over TCP alone. The hosts are addresses of loopback, whose UDP port belongs to somebody who says nothing.
const FALLBACK: &str = r#"
needs python3
connects='
import socket, sys, time
def once(host):
    begin = time.perf_counter()
    with socket.create_connection((host, 5000)): return (time.perf_counter() - begin) * 1e3
def worst(times): return sorted(times)[len(times) * 99 // 100]
first = [once(f"127.0.{n // 250}.{n % 250 + 2}") for n in range(int(sys.argv[1]))]
known = [once("127.0.0.2") for _ in range(int(sys.argv[1]) * 10)]
print(worst(known), worst(first))
'
python3 -c '
import socket
silent = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); silent.bind(("", 9899))
listener = socket.create_server(("", 5000), backlog=1000)
while True: listener.accept()[0].close()
' & server=$!
tcp_listens 1388
"$1" run --library "$2" --tcp --udp-port 0 -- python3 -c "$connects" "$3"
python3 -c "$connects" "$3"
kill $server
"#;

/// Prints the nanoseconds of a datagram and a message through a pipe, with and without the library.
const OTHER: &str = r#"
needs python3
exchanges='
import os, socket, sys, time
one, other = (socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(2))
one.bind(("127.0.0.1", 0)); other.connect(one.getsockname())
reading, writing = os.pipe()
def exchange(count):
    begin = time.perf_counter()
    for _ in range(count):
        other.send(b"x"); one.recv(9); os.write(writing, b"x"); os.read(reading, 9)
    return (time.perf_counter() - begin) / count * 1e9
print(min(exchange(int(sys.argv[1])) for _ in range(10)))
'
"$1" run --library "$2" --tcp --udp-port 0 -- python3 -c "$exchanges" "$3"
python3 -c "$exchanges" "$3"
"#;

/// Runs a script with the program, the library, and a number.
fn run(bench: &Bench<'_>, script: &str, number: &str) -> Result<String, Trouble> {
    let built = Built::find(bench)?;
    host::run(script, &[built.program.as_os_str(), built.preload.as_os_str(), OsStr::new(number)])
}

pub(crate) fn iperf(bench: &Bench<'_>) -> Result<Sample, Trouble> {
    let tcp = received(&host::run(TCP, &[OsStr::new(seconds(bench))])?)?;
    let shim = received(&run(bench, IPERF, seconds(bench))?)?;
    Ok(Sample { value: shim / tcp, notes: vec![("Gbit/s", shim), ("Gbit/s of TCP", tcp)] })
}

pub(crate) fn redis(bench: &Bench<'_>) -> Result<Sample, Trouble> {
    let said = run(bench, REDIS, &bench.many(50_000).to_string())?;
    let [shim, tcp]: [f64; 2] = numbers(&said)?;
    Ok(Sample { value: shim / tcp, notes: vec![("requests/s", shim), ("of TCP", tcp)] })
}

/// A host that is known: the time above that of TCP.
pub(crate) fn fallback(bench: &Bench<'_>) -> Result<Sample, Trouble> {
    let [known, _, tcp, _] = connects(bench)?;
    Ok(Sample { value: known - tcp, notes: vec![("ms", known), ("ms of TCP", tcp)] })
}

/// A host that is not known.
pub(crate) fn first(bench: &Bench<'_>) -> Result<Sample, Trouble> {
    let [_, first, _, tcp] = connects(bench)?;
    Ok(Sample { value: first - tcp, notes: vec![("ms", first), ("ms of TCP", tcp)] })
}

fn connects(bench: &Bench<'_>) -> Result<[f64; 4], Trouble> {
    numbers(&run(bench, FALLBACK, &bench.many(200).to_string())?)
}

pub(crate) fn other(bench: &Bench<'_>) -> Result<Sample, Trouble> {
    let [library, plain]: [f64; 2] = numbers(&run(bench, OTHER, &bench.many(50_000).to_string())?)?;
    Ok(Sample { value: library / plain, notes: vec![("ns", library), ("ns without", plain)] })
}
