//! `anabranch inspect`.

mod short;

use std::io::{self, IsTerminal as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Args;

use self::short::{Order, Totals};
use crate::control::{AssociationView, Control, View, directory};
use crate::failure::{Failure, complain};
use crate::interrupt::Interrupt;
use crate::metrics;
use crate::options::duration;
use crate::output::{
    count, grouped, height, list, print, print_bytes, print_json, printable, table,
};
use crate::perf::time;
use crate::report::PathReport;

/// Maximum number of associations whose paths are shown; JSON has all of them.
const SHOWN: usize = 50;

/// Clears a terminal and moves to its first line.
const CLEAR: &str = "\x1b[2J\x1b[H";

/// Watch the associations and paths of running endpoints
///
/// Polls the control sockets of all programs of this user that carry SCTP, or the one given, until
/// they end or Ctrl-C. On a terminal that is too small, each association gets one line, as with
/// --short. The keys of --json are those of the summaries of get and perf, one document a line for
/// each endpoint.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  anabranch inspect
  anabranch inspect --short --sort rtt
  anabranch inspect --once --json
  anabranch inspect --metrics >/var/lib/node_exporter/anabranch.prom
  anabranch inspect --control /run/user/1000/my.sock --interval 5s")]
pub(crate) struct Inspect {
    /// The control socket of one endpoint [default: all of this user]
    #[arg(long, value_name = "PATH")]
    control: Option<PathBuf>,
    /// Show more about each path, and about the sender's buffers; with --metrics, also about each
    /// association and path
    #[arg(long)]
    wide: bool,
    /// Show a summary, and one line for each association, with its traffic since the last poll
    #[arg(long, conflicts_with_all = ["wide", "json", "metrics"])]
    short: bool,
    /// Which associations come first [default: id; traffic if each has one line]
    #[arg(long, value_enum, value_name = "ORDER", conflicts_with_all = ["json", "metrics"])]
    sort: Option<Order>,
    /// Poll once
    #[arg(long)]
    once: bool,
    /// Time between two polls
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = duration)]
    interval: Duration,
    /// Print JSON, one document a line
    #[arg(long)]
    json: bool,
    /// Poll once, and print metrics in the Prometheus format
    #[arg(long, conflicts_with = "json")]
    metrics: bool,
}

/// An endpoint that is being watched.
#[derive(Debug)]
struct Watched {
    path: PathBuf,
    /// The connection to it; `None` while it does not answer.
    control: Option<Control>,
    /// That it does not answer has been reported.
    complained: bool,
}

impl Watched {
    fn new(path: PathBuf, control: Option<Control>) -> Self {
        Self { path, control, complained: false }
    }

    /// Asks for the current state of the endpoint; `Ok(None)` once it has ended.
    async fn look(&mut self) -> io::Result<Option<View>> {
        let mut control = match self.control.take() {
            Some(control) => control,
            None => match Control::connect(&self.path).await {
                Ok(control) => control,
                Err(error) if error.kind() == io::ErrorKind::TimedOut => return Err(error),
                // A killed program has left this socket behind, or it belongs to another user.
                Err(_) => return Ok(None),
            },
        };
        match control.view().await {
            Ok(view) => {
                self.control = Some(control);
                self.complained = false;
                Ok(Some(view))
            }
            // An endpoint that has ended is not a failure.
            Err(error) if is_the_end(&error) => Ok(None),
            // Drop the connection: a late answer would be taken for the answer to the next request.
            Err(error) => Err(error),
        }
    }
}

fn is_the_end(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionReset, UnexpectedEof};
    matches!(error.kind(), BrokenPipe | ConnectionReset | UnexpectedEof)
}

impl Inspect {
    pub(crate) async fn run(self) -> Result<(), Failure> {
        if self.interval.is_zero() {
            return Err(Failure::usage("--interval: an interval must be above 0s"));
        }
        let interrupt = Interrupt::install()?;
        tokio::select! {
            result = self.watch() => result,
            () = interrupt.wait() => Ok(()),
        }
    }

    async fn watch(&self) -> Result<(), Failure> {
        let mut open = self.connect().await?;
        let mut ticks = tokio::time::interval(self.interval);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let once = self.once || self.metrics;
        let mut before = None;
        while !open.is_empty() {
            ticks.tick().await;
            // Poll all at the same time, so that an unresponsive endpoint does not delay the others.
            let looks = open.iter_mut().map(Watched::look);
            let looked = futures_util::future::join_all(looks).await;
            let (mut views, mut still_open, mut failure) = (Vec::new(), Vec::new(), None);
            for (mut watched, look) in open.into_iter().zip(looked) {
                match look {
                    Ok(Some(view)) => views.push(view),
                    Ok(None) => continue,
                    Err(error) => {
                        let sentence = format!("{}: {error}", watched.path.display());
                        if !std::mem::replace(&mut watched.complained, true) {
                            complain(&sentence);
                        }
                        failure = Some(Failure::Reported);
                    }
                }
                still_open.push(watched);
            }
            open = still_open;
            let nothing = views.is_empty();
            if !nothing {
                before = Some(self.tell(views, before.as_ref())?);
            }
            match failure {
                // The views of the others have been shown.
                Some(failure) if nothing && (once || self.control.is_some()) => {
                    return Err(failure);
                }
                _ if once => return Ok(()),
                _ => {}
            }
        }
        Ok(())
    }

    /// The existing sockets, or the one that was given.
    async fn connect(&self) -> Result<Vec<Watched>, Failure> {
        if let Some(path) = &self.control {
            let control = Control::connect(path).await.map_err(|error| refused(path, &error))?;
            return Ok(vec![Watched::new(path.clone(), Some(control))]);
        }
        let nowhere = |error| {
            Failure::failed(format!(
                "there is no place for control sockets, give --control: {error}"
            ))
        };
        let directory = directory().map_err(nowhere)?;
        let connecting = sockets(&directory).into_iter().map(|path| async move {
            match Control::connect(&path).await {
                Ok(control) => Some(Watched::new(path, Some(control))),
                Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                    Some(Watched::new(path, None))
                }
                // A killed program has left this socket behind, or it belongs to another user.
                Err(_) => None,
            }
        });
        let open: Vec<_> =
            futures_util::future::join_all(connecting).await.into_iter().flatten().collect();
        if open.is_empty() {
            return Err(Failure::failed(format!(
                "no running endpoint has a control socket in {}",
                directory.display()
            )));
        }
        Ok(open)
    }

    /// Reports the views. Returns when they were taken, and the traffic of each association until
    /// then.
    fn tell(
        &self,
        mut views: Vec<View>,
        before: Option<&(Instant, Totals)>,
    ) -> Result<(Instant, Totals), Failure> {
        let now = (Instant::now(), short::totals(&views));
        if self.metrics {
            print(&metrics::text(&views, self.wide))?;
            return Ok(now);
        }
        if self.json {
            views.iter().try_for_each(print_json)?;
            return Ok(now);
        }
        if let Some(order) = self.sort {
            views.iter_mut().for_each(|view| order.sort(&mut view.associations));
        }
        let lines = (!self.once && io::stdout().is_terminal()).then(height);
        let before = before.map(|(then, totals)| (totals, then.elapsed().as_secs_f64()));
        let in_short = || short::text(&views, self.sort.unwrap_or(Order::Traffic), lines, before);
        let text = if self.short {
            in_short()
        } else {
            let text: String = views.iter().map(|view| text(view, self.wide)).collect();
            if lines.is_some_and(|lines| text.lines().count() >= lines) && !self.wide {
                in_short()
            } else {
                text
            }
        };
        match lines {
            Some(_) => print_bytes(format!("{CLEAR}{}", printable(&text)).as_bytes())?,
            None => print(&text)?,
        }
        Ok(now)
    }
}

fn refused(path: &Path, error: &io::Error) -> Failure {
    let name = path.display();
    Failure::failed(match error.kind() {
        io::ErrorKind::NotFound => format!("there is no control socket {name}"),
        io::ErrorKind::ConnectionRefused => {
            format!("no process listens on the control socket {name}")
        }
        io::ErrorKind::PermissionDenied => {
            format!("the control socket {name} belongs to another user")
        }
        _ => format!("the control socket {name} cannot be used: {error}"),
    })
}

/// The sockets in a directory, sorted by name.
fn sockets(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let mut paths: Vec<_> = entries.map(|entry| entry.path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "sock"));
    paths.sort_unstable();
    paths
}

fn text(view: &View, wide: bool) -> String {
    let carrier = match view.udp_port {
        0 => "IP protocol 132".to_owned(),
        port => format!("UDP port {port}"),
    };
    let addresses: Vec<_> = view.local_addresses.iter().map(ToString::to_string).collect();
    let mut text = format!(
        "process {} over {carrier}: {}\n{}  datagrams {} out, {} in, {} dropped, {}\n",
        view.process,
        count(view.count(), "association"),
        list("  on ", &addresses),
        grouped(view.datagrams_sent),
        grouped(view.datagrams_received),
        grouped(view.datagrams_dropped),
        count(view.send_errors, "error"),
    );
    for association in view.associations.iter().take(SHOWN) {
        text.push_str(&association_text(association, wide));
    }
    if let Some(more) = view.count().checked_sub(SHOWN as u64).filter(|&more| more > 0) {
        text.push_str(&format!("and {more} more associations\n"));
    }
    for known in view.metrics.iter().take(SHOWN) {
        let ssthresh = known
            .ssthresh
            .map_or_else(String::new, |bytes| format!(", ssthresh {}", grouped(bytes as u64)));
        text.push_str(&format!(
            "remembers {} -> {}: RTT {:.1} ms{ssthresh}, for {:.0} s\n",
            known.local,
            known.remote,
            known.srtt_seconds * 1e3,
            known.age_seconds
        ));
    }
    text
}

fn association_text(association: &AssociationView, wide: bool) -> String {
    let number = |name| grouped(association.counters.whole(name));
    let direction = if association.incoming { "accepted" } else { "connected" };
    let mut text = format!(
        "association {} ({direction}): ports {} -> {}, {}\n  streams {} out, {} in; messages {} out, {} in\n  \
         bytes {} queued, {} outstanding, {} unread; peer's window {}\n",
        association.id,
        association.local_port,
        association.remote_port,
        association.state,
        association.outbound_streams,
        association.inbound_streams,
        number("messages_sent"),
        number("messages_received"),
        number("send_queue_bytes"),
        number("outstanding_bytes"),
        number("receive_buffer_used"),
        number("peer_rwnd"),
    );
    text.push_str(&extensions_text(association));
    if wide {
        text.push_str(&association.counters.sender_text());
    }
    text.push_str(&paths_text(&association.paths, wide));
    text
}

/// What both sides agreed on beyond RFC 9260, and what came of it; nothing that did not happen.
fn extensions_text(association: &AssociationView) -> String {
    let number = |name| association.counters.whole(name);
    let mut text = String::new();
    if !association.features.is_empty() {
        text.push_str(&list("  with ", &association.features));
    }
    let (unsent, sent) = (number("given_up_unsent"), number("given_up_sent"));
    if unsent + sent > 0 {
        let all = count(unsent + sent, "message");
        text.push_str(&format!("  gave up {all}, {} of them unsent\n", grouped(unsent)));
    }
    let out = number("reconfigurations_sent");
    let received = number("reconfigurations_received");
    if out + received > 0 {
        text.push_str(&format!(
            "  reconfigurations of streams: {} out, {} in\n",
            grouped(out),
            grouped(received)
        ));
    }
    text
}

/// The paths: for each its state, and the counters that explain it.
fn paths_text(paths: &[PathReport], wide: bool) -> String {
    let heading: &[&str] = if wide {
        &[
            "path",
            "state",
            "errors in a row",
            "timeouts",
            "2/3/4/5 in a row",
            "bytes in",
            "bytes out",
            "data packets out",
            "retransmitted",
            "cwnd",
            "srtt",
            "mtu",
        ]
    } else {
        &["path", "state", "errors", "bytes in", "bytes out", "rtt"]
    };
    let mut rows = vec![heading.iter().map(ToString::to_string).collect()];
    rows.extend(paths.iter().map(|path| {
        let mut row = vec![path.name(), path.short_state()];
        if let Some(sctp) = path.sctp() {
            let rtt = sctp.srtt.map_or("-".to_owned(), |srtt| time(srtt.as_secs_f64()));
            let (received, sent) = (grouped(sctp.bytes_received), grouped(sctp.bytes_sent));
            if wide {
                row.extend([
                    grouped(sctp.error_count.into()),
                    grouped(sctp.timeouts),
                    sctp.timeout_runs.map(|times| times.to_string()).join("/"),
                    received,
                    sent,
                    grouped(sctp.data_packets_sent),
                    grouped(sctp.retransmitted_chunks),
                    grouped(sctp.cwnd as u64),
                    rtt,
                    sctp.mtu.to_string(),
                ]);
            } else {
                row.extend([grouped(sctp.error_count.into()), received, sent, rtt]);
            }
        }
        row
    }));
    table(&rows)
}
