//! Programs in emulated networks: how the networks behave, what is reported about them, and that nothing is
//! left behind.
#![cfg(target_os = "linux")]

mod common;

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use common::{Ended, anabranch, interrupt, run, skip};
use serde_json::Value;
use tempfile::TempDir;

const TWO: &str = "seed = 7\n[[host]]\nname = \"client\"\n[[host]]\nname = \"server\"\n[[link]]\n\
    name = \"line\"\nbetween = [\"client\", \"server\"]\n";

/// A directory with a network; `None` where networks are not possible, which is a failure with
/// ANABRANCH_REQUIRE_ALL=1.
fn network(text: &str) -> Option<TempDir> {
    let directory = tempfile::tempdir().unwrap();
    write(&directory, "net.toml", text);
    let tried = emulate(&directory, &["--quiet", "--", "true"]);
    if tried.code == Some(0) {
        return Some(directory);
    }
    let missing =
        ["does not allow", "cannot be made"].iter().any(|what| tried.stderr.contains(what));
    assert!(missing, "{}", tried.stderr);
    skip("TUN devices, or user namespaces and not root");
    None
}

fn write(directory: &TempDir, name: &str, text: &str) {
    std::fs::write(directory.path().join(name), text).unwrap();
}

fn read(directory: &TempDir, name: &str) -> String {
    std::fs::read_to_string(directory.path().join(name)).unwrap()
}

fn emulate(directory: &TempDir, arguments: &[&str]) -> Ended {
    run(&[&["emulate", "net.toml"], arguments].concat(), directory.path())
}

/// A program that sends `count` kilobytes to the server and prints a report.
fn echo(count: u32) -> String {
    let program = env!("CARGO_BIN_EXE_anabranch");
    format!("{program} perf client 10.0.0.2:5201 --bytes {count}k --json")
}

/// The log lines about packets in one direction, split into words.
fn fates(log: &str, way: &str) -> Vec<Vec<String>> {
    let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
    let mut all: Vec<_> = log.lines().map(words).filter(|words| words[0] == way).collect();
    all.sort_by_key(|words| words[1].parse::<u64>().unwrap());
    all
}

fn serve() -> String {
    format!("{} perf server --listen 10.0.0.2:5201 ", env!("CARGO_BIN_EXE_anabranch"))
}

#[test]
fn a_pattern_is_followed_packet_by_packet_and_a_log_replays() {
    let pattern = "anabranch pattern 1\npattern loss per packet\nname fade\nend repeat\nvalues\n\
        19*. x\npattern displace per packet\nname swap\nvalues\n40*. 2 200*. 1\n";
    let text = format!(
        "{TWO}rate = \"20 Mb/s\"\ndelay = \"5 ms\"\npattern = \"p\"\n[link.back]\npattern = \"\"\n"
    );
    let Some(network) = network(&text.replace("pattern = \"p\"\n", "")) else { return };
    write(&network, "p", pattern);
    write(&network, "net.toml", &text);
    // Both ends close at the same time, so the server does not wait for the client's last packet. The network
    // has to stay up until that packet has arrived, too.
    let (serve, client) = (serve(), format!("{} && sleep 0.2", echo(600)));
    let first = emulate(
        &network,
        &["--log", "one.log", "--at", "server", &serve, "--", "sh", "-c", &client],
    );
    assert_eq!(first.code, Some(0), "{}", first.stderr);
    let log = read(&network, "one.log");
    assert!(log.ends_with("# end\n") && log.contains("# seed 7\n"), "{log}");
    let packets = fates(&log, "line>");
    assert!(packets.len() > 300, "{log}");
    for (index, words) in packets.iter().enumerate() {
        assert_eq!(words[1], (index + 1).to_string(), "{words:?}");
        let lost = index % 20 == 19;
        let expected = if lost { ["lost", "pattern:fade"] } else { ["passed", "link"] };
        let displaced = [40, 241].contains(&index);
        if displaced {
            assert!(words[8] == "pattern:swap" && words[9].contains("displaced="), "{words:?}");
            // It arrived after those that were to overtake it, and before the following one.
            let by = if index == 40 { 2 } else { 1 };
            let arrival = |index: usize| packets[index][5].parse::<u64>();
            let own = arrival(index).unwrap();
            assert!(arrival(index + by).unwrap() <= own, "{words:?}");
            assert!(arrival(index + by + 1).is_ok_and(|next| own <= next), "{words:?}");
        } else {
            assert_eq!(words[7..9], expected, "{words:?}");
        }
    }
    // In the other direction no packet is lost.
    assert!(fates(&log, "line<").iter().all(|words| words[7] == "passed"));
    let again = |log: &str| {
        let replay = ["--replay", log, "--at", "server", &serve, "--", "sh", "-c", &client];
        emulate(&network, &replay)
    };
    let second = again("one.log");
    assert_eq!(second.code, Some(0), "{}", second.stderr);
    assert!(second.stderr.contains("all alike"), "{}", second.stderr);
    let forged = log.replacen(" lost pattern:fade -", " passed link -", 3);
    write(&network, "forged.log", &forged);
    let third = again("forged.log");
    third.failed_with(
        1,
        "packet 20 of link line from client to server had another fate: lost by pattern:fade now, passed \
         by link in the log",
    );
    write(&network, "no.log", "something\n");
    again("no.log").failed_with(1, "no.log, line 1: it is not a log of fates");
}

#[test]
fn captures_and_json_say_what_the_log_says() {
    let Some(network) = network(&format!("{TWO}delay = \"2 ms\"\nlose_packets = [3]\n")) else {
        return;
    };
    let (serve, client) = (serve(), echo(50));
    let files =
        ["--log", "a.log", "--log-form", "json", "--capture", "a.pcapng", "--report", "a.json"];
    let programs = ["--at", "server", &serve, "--", "sh", "-c", &client];
    let ended = emulate(&network, &[&files[..], &programs].concat());
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let log: Vec<Value> =
        read(&network, "a.log").lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let lost: Vec<_> = log.iter().filter(|packet| packet["fate"] == "lost").collect();
    assert_eq!(lost.len(), 2, "{lost:?}");
    assert!(lost.iter().all(|packet| packet["packet"] == 3 && packet["by"] == "model"));
    let report: Value = serde_json::from_str(&read(&network, "a.json")).unwrap();
    assert_eq!(report["seed"], 7);
    let offered: u64 =
        report["links"].as_array().unwrap().iter().map(|l| l["offered"].as_u64().unwrap()).sum();
    assert_eq!(offered, log.len() as u64);
    let capture = std::fs::read(network.path().join("a.pcapng")).unwrap();
    let text = String::from_utf8_lossy(&capture);
    assert!(text.contains("client:line") && text.contains("server:line"));
    assert!(text.contains("line> packet 3, flow index 3: lost by model"));
    assert!(text.contains("line< packet 1, flow index 1: passed by link, 2.0"), "{text}");
}

#[test]
fn packets_are_spread_over_parallel_links_behind_a_router() {
    let text = "[[host]]\nname = \"a\"\n[[host]]\nname = \"b\"\n[[router]]\nname = \"r\"\n\
        balance = \"packet\"\n[[link]]\nname = \"in\"\nbetween = [\"a\", \"r\"]\n[[link]]\n\
        name = \"one\"\nbetween = [\"r\", \"b\"]\n[[link]]\nname = \"two\"\nbetween = [\"r\", \"b\"]\n";
    let Some(network) = network(text) else { return };
    let program = env!("CARGO_BIN_EXE_anabranch");
    for address in ["10.0.1.2", "[fd00:0:0:2::2]"] {
        let serve = format!("{program} perf server --listen {address}:5201");
        let client = format!("{program} perf client {address}:5201 --bytes 200k");
        let programs = ["--report", "r.json", "--at", "b", &serve, "--", "sh", "-c", &client];
        let ended = emulate(&network, &programs);
        assert_eq!(ended.code, Some(0), "{address}: {}", ended.stderr);
        let report: Value = serde_json::from_str(&read(&network, "r.json")).unwrap();
        let delivered = |index: usize| report["links"][index]["delivered"].as_i64().unwrap();
        assert!(delivered(0) > 100, "{report}");
        assert_eq!(delivered(0), delivered(2) + delivered(4), "{report}");
        assert!((delivered(2) - delivered(4)).abs() <= 1, "{report}");
    }
}

/// `-` is standard output: the output is complete, and no file of that name is created.
#[test]
fn logs_captures_and_reports_go_to_standard_output() {
    let Some(directory) = network(TWO) else { return };
    let ping = ["--quiet", "--", "sh", "-c", "ping -c 3 -i 0.01 server >/dev/null"];
    let said = |options: &[&str]| {
        let ended = emulate(&directory, &[options, &ping].concat());
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        ended.stdout
    };
    let log = said(&["--log", "-"]);
    assert!(log.starts_with("# anabranch fates 1\n") && log.ends_with("# end\n"), "{log}");
    let log = said(&["--log", "-", "--log-form", "json"]);
    assert!(log.lines().count() >= 6, "{log}");
    assert!(log.lines().all(|line| serde_json::from_str::<Value>(line).is_ok()), "{log}");
    let report: Value = serde_json::from_str(&said(&["--report", "-"])).unwrap();
    assert_eq!(report["schema"], "emulate");
    emulate(&directory, &["--log", "-", "--report", "-", "--", "true"])
        .failed_with(2, "standard output is for one file only");
    assert!(!directory.path().join("-").exists());
}

/// Packets that are too long for a link appear in the table.
#[test]
fn packets_lost_for_the_mtu_have_a_column() {
    let Some(directory) = network(&format!("{TWO}mtu = \"600 B\"\nmtu_blackhole = true\n")) else {
        return;
    };
    let ended = emulate(
        &directory,
        &["--", "ping", "-c", "2", "-i", "0.01", "-W", "1", "-s", "1000", "10.0.0.2"],
    );
    let heading = ended.stderr.lines().find(|line| line.contains("offered")).unwrap_or_default();
    assert!(heading.contains("too big"), "{}", ended.stderr);
}

/// A missing command leaves no files behind.
#[test]
fn a_command_that_cannot_be_run_leaves_no_log() {
    let Some(directory) = network(TWO) else { return };
    let files = ["--log", "l", "--log-form", "json", "--capture", "c", "--report", "r"];
    let ended = emulate(&directory, &[&files[..], &["--", "no-such-program"]].concat());
    ended.failed_with(1, "'no-such-program' cannot be run");
    for file in ["l", "c", "r"] {
        assert!(!directory.path().join(file).exists(), "{file}");
    }
}

/// An environment variable alone must not make a program believe that it is the first one in new namespaces.
#[test]
fn the_environment_is_not_believed() {
    let Some(directory) = network(TWO) else { return };
    let there = || std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    let before = there();
    for descriptor in ["0", "1", "999", "-1", "x", ""] {
        let mut command =
            anabranch(&["emulate", "net.toml", "--", "cat", "/etc/hosts"], directory.path());
        let ended: Ended =
            command.env("ANABRANCH_EMULATE_INSIDE", descriptor).output().unwrap().into();
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        assert!(ended.stdout.contains("10.0.0.2 server"), "{}", ended.stdout);
    }
    assert_eq!(there(), before);
}

/// A log of an earlier run is read with limits, and the error names a damaged line.
#[test]
fn a_damaged_log_is_not_replayed() {
    let Some(directory) = network(TWO) else { return };
    let ping = ["--quiet", "--", "ping", "-c", "1", "10.0.0.2"];
    let made = emulate(&directory, &[&["--log", "l"], &ping[..]].concat());
    assert_eq!(made.code, Some(0), "{}", made.stderr);
    let log = read(&directory, "l");
    let replay = |text: &str| {
        write(&directory, "d", text);
        emulate(&directory, &[&["--replay", "d"], &ping[..]].concat())
    };
    let packet = log.lines().find(|line| line.contains(" passed ")).unwrap();
    for (from, to, reason) in [
        ("# seed 7", "# seed seven", "'seven' is not a seed"),
        (" passed ", " past ", "'past' is not a fate"),
        (" passed link ", " passed lnk ", "'lnk' decides nothing"),
        (packet, &format!("{packet}\n{packet}"), "twice"),
        (packet, &packet[..packet.len() - 3], "words"),
    ] {
        assert!(log.contains(from), "{log}");
        replay(&log.replacen(from, to, 1)).failed_with(1, reason);
    }
    replay(&log[..log.len() - 2]).failed_with(1, "cut off");
    replay(&format!("{log}{}", "x".repeat(1 << 17))).failed_with(1, "too long");
    let endless = emulate(&directory, &["--replay", "/dev/zero", "--", "true"]);
    endless.failed_with(1, "line 1: it is too long");
    run(&["emulate", "/dev/zero", "--", "true"], directory.path()).failed_with(1, "longer than");
}

/// Networks also work in a chroot, whose root usually is not a mount point; if it is one, hosts have their
/// names, too.
#[test]
fn a_chroot_is_a_place_like_any_other() {
    if !nix::unistd::getuid().is_root() {
        return skip("root, for a chroot");
    }
    if network(TWO).is_none() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    write(&directory, "net.toml", TWO);
    let script = "set -e
        for folder in bin dev etc lib lib64 proc sbin sys tmp usr; do
            [ -e /$folder ] || continue
            mkdir $1/$folder && mount --rbind /$folder $1/$folder
        done
        cp $2 $1/anabranch
        chroot $1 /anabranch emulate /net.toml -- ping -c 1 10.0.0.2
        mount --rbind $1 $1
        chroot $1 /anabranch emulate /net.toml --quiet -- cat /etc/hosts";
    let root = directory.path().to_str().unwrap();
    let program = env!("CARGO_BIN_EXE_anabranch");
    let arguments =
        ["--mount", "--propagation", "private", "sh", "-c", script, "sh", root, program];
    let ended: Ended = Command::new("unshare").args(arguments).output().unwrap().into();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(ended.stderr.contains("'mount --bind DIR DIR'"), "{}", ended.stderr);
    let said = ended.stdout;
    assert!(said.contains("1 received") && said.contains("10.0.0.2 server"), "{said}");
}

/// The error about too many hosts gives the limit.
#[test]
fn the_251st_host_is_refused_with_its_number() {
    let directory = tempfile::tempdir().unwrap();
    let hosts: String =
        (0..251).map(|number| format!("[[host]]\nname = \"h{number}\"\n")).collect();
    write(&directory, "net.toml", &hosts);
    let ended = emulate(&directory, &["--", "true"]);
    ended.failed_with(1, "250 hosts and routers at most, and 'h250' is number 251");
    write(&directory, "net.toml", "[[host]]\nname = \"\"\n");
    emulate(&directory, &["--", "true"]).failed_with(1, "has no name");
}

#[test]
fn the_exit_code_is_that_of_the_command() {
    let Some(network) = network(TWO) else { return };
    for (line, code) in [("exit 0", 0), ("exit 7", 7), ("kill -9 $$", 137)] {
        let ended = emulate(&network, &["--quiet", "--", "sh", "-c", line]);
        assert_eq!((ended.code, ended.stderr.as_str()), (Some(code), ""), "{line}");
    }
    let said = emulate(
        &network,
        &["--quiet", "--", "sh", "-c", "echo out; echo $ANABRANCH_EMULATE_INSIDE"],
    );
    assert_eq!(said.stdout, "out\n\n");
    emulate(&network, &["--quiet", "--", "no-such-program"])
        .failed_with(1, "'no-such-program' cannot be run");
    emulate(&network, &["--at", "nobody", "true", "--", "true"])
        .failed_with(2, "there is no host 'nobody'");
    write(&network, "net.toml", "[[host]]\nname = 5\n");
    emulate(&network, &["--", "true"]).failed_with(1, "net.toml, line 2: ");
    run(&["emulate", "--", "true"], network.path()).failed_with(2, "required");
    run(&["emulate", "missing.toml"], network.path()).failed_with(1, "missing.toml cannot be read");
}

/// If the tests run as root, they have all privileges; this one drops them. On most systems everybody may use
/// the TUN device; elsewhere the test creates one in a mount namespace.
#[test]
fn an_ordinary_user_may_make_networks() {
    let Some(network) = network(&format!("{TWO}delay = \"3 ms\"\n")) else { return };
    let identity = Command::new("id").arg("-u").output().unwrap();
    if identity.stdout != b"0\n" {
        // Then all other tests already run as an ordinary user.
        return;
    }
    let script = "chmod 755 . && mknod tun c 10 200 && chmod 666 tun && mount --bind tun /dev/net/tun && exec \
        setpriv --reuid=65534 --regid=65534 --clear-groups \"$@\"";
    let user = |arguments: &[&str]| -> Option<Ended> {
        let mut command = Command::new("unshare");
        command.args(["-m", "sh", "-c", script, "sh"]).args(arguments);
        let ended = command.current_dir(network.path()).output().ok()?.into();
        std::fs::remove_file(network.path().join("tun")).ok();
        Some(ended)
    };
    let works = |arguments: &[&str]| user(arguments).is_some_and(|ended| ended.code == Some(0));
    if !works(&["unshare", "-Ur", "true"])
        || !works(&["test", "-x", env!("CARGO_BIN_EXE_anabranch")])
    {
        return skip("user namespaces, setpriv, or a world-readable folder");
    }
    let (program, serve) = (env!("CARGO_BIN_EXE_anabranch"), serve());
    let line = format!("{}; id -u", echo(50));
    let ended =
        user(&[program, "emulate", "net.toml", "--at", "server", &serve, "--", "sh", "-c", &line]);
    let ended = ended.unwrap();
    assert!(ended.stderr.contains("line: client > server"), "{}", ended.stderr);
    assert!(ended.stdout.contains("\"bytes\":50000"), "{}", ended.stdout);
    assert!(ended.stdout.contains("\n0\n"), "{}", ended.stdout);
}

#[test]
fn hosts_have_names() {
    let Some(network) = network(TWO) else { return };
    let before = std::fs::read_to_string("/etc/hosts").unwrap_or_default();
    let ended = emulate(&network, &["--quiet", "--", "cat", "/etc/hosts"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    for line in ["10.0.0.1 client client.line", "fd00::2 ip6-server ip6-server.line"] {
        assert!(ended.stdout.lines().any(|own| own == line), "{}", ended.stdout);
    }
    assert!(ended.stdout.ends_with(&before));
    // Names also work at the other host, and are not visible outside.
    let client = echo(20).replace("10.0.0.2", "server");
    let ended = emulate(&network, &["--at", "server", &serve(), "--", "sh", "-c", &client]);
    assert!(ended.stdout.contains("\"bytes\":20000"), "{}", ended.stderr);
    assert_eq!(std::fs::read_to_string("/etc/hosts").unwrap_or_default(), before);
}

#[test]
fn routers_answer_what_they_cannot_pass_on() {
    let text = "[[host]]\nname = \"a\"\n[[router]]\nname = \"r\"\n[[host]]\nname = \"b\"\n\
        [[link]]\nname = \"near\"\nbetween = [\"a\", \"r\"]\n\
        [[link]]\nname = \"far\"\nbetween = [\"r\", \"b\"]\nmtu = \"1400 B\"\n";
    let Some(network) = network(text) else { return };
    if Command::new("ping").arg("-V").output().is_err() {
        return skip("ping");
    }
    for (options, answers) in [
        ("-t 1 10.0.1.2", ["From 10.0.0.2", "Time to live exceeded"]),
        ("-M do -s 1400 10.0.1.2", ["From 10.0.0.2", "mtu = 1400"]),
        ("-t 1 fd00:0:0:1::2", ["From fd00::2", "Time exceeded"]),
        ("-s 1400 -M do fd00:0:0:1::2", ["From fd00::2", "mtu=1400"]),
    ] {
        let line = format!("ping -c 1 -W 5 {options}");
        let ended = emulate(&network, &["--quiet", "--", "sh", "-c", &line]);
        let said = ended.stdout.clone() + &ended.stderr;
        assert!(answers.iter().all(|part| said.contains(part)), "{options}: {said}");
    }
}

#[test]
fn triggers_run_commands() {
    let Some(network) = network(TWO) else { return };
    let mark = network.path().join("done");
    let pattern = format!(
        "anabranch pattern 1\npattern trigger per packet\nvalues\n2 run touch {}\n",
        mark.display()
    );
    write(&network, "p", &pattern);
    write(&network, "net.toml", &format!("{TWO}pattern = \"p\"\n"));
    let (serve, client) = (serve(), echo(20));
    let ended = emulate(&network, &["--at", "server", &serve, "--", "sh", "-c", &client]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(mark.exists());
}

/// The network devices and processes that this test could leave behind.
fn what_there_is(mark: &str) -> (Vec<String>, Vec<String>) {
    let mut devices: Vec<String> = std::fs::read_dir("/sys/class/net")
        .map(|list| list.flatten().map(|e| e.file_name().to_string_lossy().into_owned()).collect())
        .unwrap_or_default();
    devices.retain(|name| name.starts_with("gone"));
    let names = std::fs::read_dir("/run/netns");
    devices.extend(
        names
            .into_iter()
            .flatten()
            .flatten()
            .map(|e| e.file_name().to_string_lossy().into_owned())
            .filter(|n| n.contains("gone")),
    );
    let mut processes = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        if line.contains(mark) {
            processes.push(line);
        }
    }
    (devices, processes)
}

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    for _ in 0..1500 {
        if holds() {
            return;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    panic!("{what}");
}

/// Starts a network with programs that do not end by themselves, and waits until they run.
fn hanging(network: &TempDir, mark: &str) -> Child {
    let stubborn =
        format!("trap '' TERM INT; (trap '' TERM INT; setsid sleep {mark} & sleep {mark})");
    let arguments =
        ["emulate", "net.toml", "--quiet", "--at", "server", &stubborn, "--", "sleep", mark];
    let mut command = anabranch(&arguments, network.path());
    let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    until("the programs run", || {
        let (_, processes) = what_there_is(mark);
        processes.iter().filter(|line| line.starts_with("sleep")).count() == 3
    });
    child
}

fn signal(name: &str, process: u32) {
    let status = Command::new("kill").args([name, &process.to_string()]).status().unwrap();
    assert!(status.success());
}

/// The emulator inside: the child of the supervisor.
fn within(supervisor: u32) -> u32 {
    let children =
        std::fs::read_to_string(format!("/proc/{supervisor}/task/{supervisor}/children"));
    children.unwrap().split_whitespace().next().unwrap().parse().unwrap()
}

/// The command that sleeps for `mark` seconds: if there are several, the child of the emulator.
fn command(emulator: u32, mark: &str) -> u32 {
    let all = threads_children(emulator);
    let sleeps = |id: &str| {
        let line = std::fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).replace('\0', " ").trim() == format!("sleep {mark}")
    };
    all.split_whitespace().find(|id| sleeps(id)).unwrap().parse().unwrap()
}

/// Children belong to the thread that started them, or to another one if that has ended.
fn threads_children(process: u32) -> String {
    let threads = std::fs::read_dir(format!("/proc/{process}/task")).unwrap().flatten();
    let lists = threads.map(|thread| std::fs::read_to_string(thread.path().join("children")));
    lists.map(Result::unwrap_or_default).collect::<Vec<_>>().join(" ")
}

#[test]
fn nothing_is_left_behind_by_whatever_end() {
    let text = TWO.replace("name = \"line\"", "name = \"gone\"");
    let Some(network) = network(&text) else { return };
    // Numbers of seconds for which no other process sleeps.
    let number = 100_000_000 + std::process::id();
    for (index, end) in ["supervisor", "emulator", "command", "interrupt"].into_iter().enumerate() {
        let mark = format!("{number}{index}");
        let mut child = hanging(&network, &mark);
        match end {
            "supervisor" => signal("-KILL", child.id()),
            "emulator" => signal("-KILL", within(child.id())),
            "command" => signal("-KILL", command(within(child.id()), &mark)),
            _ => interrupt(&child),
        }
        let code = child.wait().unwrap().code();
        let expected = match end {
            "supervisor" => None,
            "interrupt" => Some(130),
            _ => Some(137),
        };
        assert_eq!(code, expected, "{end}");
        until(end, || what_there_is(&mark) == (Vec::new(), Vec::new()));
    }
}

#[test]
fn a_full_disk_is_told_at_the_end_and_nothing_is_left_behind() {
    let text = TWO.replace("name = \"line\"", "name = \"gone\"");
    let Some(network) = network(&text) else { return };
    if !Path::new("/dev/full").exists() {
        return skip("/dev/full");
    }
    // A number of seconds for which no other process sleeps, and a program that does not end by itself.
    let mark = format!("{}9", 100_000_000 + std::process::id());
    let serve = format!("trap '' TERM; setsid sleep {mark} & {}", serve());
    let client = echo(20);
    let programs = ["--at", "server", &serve, "--", "sh", "-c", &client];
    let before = what_there_is(&mark);
    for (option, what) in [("--log", "the log"), ("--capture", "the capture")] {
        let ended = emulate(&network, &[&["--quiet", option, "/dev/full"], &programs[..]].concat());
        // The programs were not affected.
        assert!(ended.stdout.contains("\"bytes\":20000"), "{}", ended.stdout);
        ended.failed_with(1, &format!("{what} /dev/full is incomplete: No space left"));
        until(option, || what_there_is(&mark) == before);
    }
}
