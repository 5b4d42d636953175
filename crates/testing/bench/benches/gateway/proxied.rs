//! Downloads, round trips and many connections through a proxy.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::process::Command;
use std::time::Instant;

use anabranch_bench::children::{Server, output};
use anabranch_bench::suite::Trouble;
use anabranch_bench::suite::single::{Bench, Sample};
use nix::sys::resource::{Resource, getrlimit, setrlimit};

use crate::origin;
use crate::proxy::Pair;

pub(crate) fn download_vs_ss(bench: &Bench<'_>) -> Result<Sample, Trouble> {
    let origin = origin::start()?;
    let bytes = bench.many(1000) * 1_000_000;
    let gigabytes = bytes as f64 / 1e9;
    let run = |pair: Pair| {
        let rate = download(Some(&pair), origin, bytes)?;
        Ok::<_, Trouble>((rate, (pair.near.end() + pair.far.end()) / gigabytes))
    };
    let (theirs, their_cpu) = run(Pair::shadowsocks()?)?;
    let (ours, our_cpu) = run(Pair::gateway(&bench.program()?)?)?;
    let notes = vec![
        ("gateway MB/s", ours),
        ("Shadowsocks MB/s", theirs),
        ("direct MB/s", download(None, origin, bytes)?),
        ("gateway CPU s/GB", our_cpu),
        ("Shadowsocks CPU s/GB", their_cpu),
    ];
    Ok(Sample { value: ours / theirs, notes })
}

/// Megabytes a second of curl.
fn download(pair: Option<&Pair>, origin: SocketAddr, bytes: u64) -> Result<f64, Trouble> {
    let mut curl = Command::new("curl");
    curl.args(["--silent", "--show-error", "--fail", "--max-time", "300", "--output", "/dev/null"]);
    curl.args(["--noproxy", "", "--write-out", "%{size_download} %{time_total}"]);
    // The environment must not choose a proxy.
    for name in ["http_proxy", "all_proxy", "ALL_PROXY", "no_proxy", "NO_PROXY"] {
        curl.env_remove(name);
    }
    if let Some(pair) = pair {
        curl.args(["--proxy", &pair.url()]);
    }
    let said = output(curl.arg(format!("http://{origin}/{bytes}")))?;
    let numbers = said.split_once(' ').and_then(|(size, seconds)| {
        Some((size.parse::<u64>().ok()?, seconds.parse::<f64>().ok()?))
    });
    match numbers {
        Some((size, seconds)) if size == bytes && seconds > 0.0 => Ok(bytes as f64 / 1e6 / seconds),
        _ => Err(Trouble::Failed(format!("curl says '{said}' for {bytes} bytes"))),
    }
}

pub(crate) fn added_vs_ss(bench: &Bench<'_>) -> Result<Sample, Trouble> {
    let origin = origin::start()?;
    let count = bench.many(20_000);
    let theirs = round_trip(Pair::shadowsocks()?.connect(origin)?, count)?;
    let ours = round_trip(Pair::gateway(&bench.program()?)?.connect(origin)?, count)?;
    let direct = TcpStream::connect(origin).map_err(Trouble::failed)?;
    direct.set_nodelay(true).map_err(Trouble::failed)?;
    let direct = round_trip(direct, count)?;
    let notes = vec![("us", ours), ("us of Shadowsocks", theirs), ("us without", direct)];
    if theirs <= direct {
        return Err(Trouble::Failed(
            "Shadowsocks seems to add nothing: the machine is busy".into(),
        ));
    }
    Ok(Sample { value: (ours - direct) / (theirs - direct), notes })
}

/// Microseconds of the median round trip of 64 bytes; the first tenth does not count.
fn round_trip(mut stream: TcpStream, count: u64) -> Result<f64, Trouble> {
    let mut bytes = [0x5a; 64];
    let mut times = Vec::new();
    for number in 0..count {
        let begun = Instant::now();
        stream.write_all(&bytes).map_err(Trouble::failed)?;
        stream.read_exact(&mut bytes).map_err(Trouble::failed)?;
        if number >= count / 10 {
            times.push(begun.elapsed());
        }
    }
    times.sort_unstable();
    let median = times.get(times.len() / 2).copied();
    Ok(median.unwrap_or_default().as_secs_f64() * 1e6)
}

pub(crate) fn stream_bytes(bench: &Bench<'_>) -> Result<Sample, Trouble> {
    let count = bench.many(1000);
    allow_descriptors(count * 4)?;
    // For both sides, too: pages of 2 MB would be all that is seen.
    rustix::thread::disable_transparent_huge_pages(true).map_err(Trouble::failed)?;
    let origin = origin::start()?;
    let pair = Pair::gateway(&bench.program()?)?;
    let exchange = |stream: &mut TcpStream| {
        let mut byte = [7];
        stream.write_all(&byte).and_then(|()| stream.read_exact(&mut byte)).map_err(Trouble::failed)
    };
    // The first connections fill what is allocated once.
    let first = (count / 10).max(1);
    let mut streams = Vec::new();
    for _ in 0..first {
        streams.push(pair.connect(origin)?);
    }
    streams.iter_mut().try_for_each(exchange)?;
    let before = [&pair.near, &pair.far].map(resident);
    let begun = Instant::now();
    for _ in first..count {
        streams.push(pair.connect(origin)?);
    }
    let opened = begun.elapsed();
    // All are alive at once.
    streams.iter_mut().try_for_each(exchange)?;
    let after = [&pair.near, &pair.far].map(resident);
    let mut each = [0.0; 2];
    for (each, (before, after)) in each.iter_mut().zip(before.into_iter().zip(after)) {
        *each = (after? - before?) / (count - first) as f64;
    }
    let [near, far] = each;
    let notes = vec![
        ("near", near),
        ("far", far),
        ("us to open one", opened.as_secs_f64() * 1e6 / (count - first) as f64),
    ];
    Ok(Sample { value: near + far, notes })
}

/// Bytes of memory that a process has to itself.
fn resident(process: &Server) -> Result<f64, Trouble> {
    let file = format!("/proc/{}/status", process.id());
    let status = std::fs::read_to_string(&file)
        .map_err(|_| Trouble::Missing("the memory of processes is read from /proc".into()))?;
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
    let kib = line.and_then(|line| line.trim().trim_end_matches("kB").trim().parse::<f64>().ok());
    kib.map(|kib| kib * 1024.0).ok_or_else(|| Trouble::Failed(format!("no RssAnon in {file}")))
}

/// Lets this process and its children have that many descriptors.
fn allow_descriptors(count: u64) -> Result<(), Trouble> {
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).map_err(Trouble::failed)?;
    if hard < count {
        return Err(Trouble::Missing(format!("{hard} descriptors are allowed, {count} needed")));
    }
    setrlimit(Resource::RLIMIT_NOFILE, soft.max(count), hard).map_err(Trouble::failed)
}
