//! `anabranch get`.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anabranch_http::{Authority, Scheme, Transaction, Url};
use clap::Args;
use futures_util::future::join_all;

use crate::address::resolve;
use crate::client::ClientOptions;
use crate::failure::{Failure, complain};
use crate::interrupt::Interrupt;
use crate::options::{Transport, refuse};
use crate::output::{print, print_json};
use crate::progress::{Bars, Follower};
use crate::report::{ConnectionReport, FileReport, GetReport};
use crate::transport::{Delivery, Order, sctp, tcp};

/// Fetch files over HTTP, on SCTP streams or TCP
///
/// URLs with the same authority share one connection; each file takes the next free stream. A
/// file appears under its name when it is whole. At the end, a summary tells what went over
/// which path and stream.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  anabranch get sctp://127.0.0.1,127.0.0.2:8080/file
  anabranch get sctp://[2001:db8::1]:80/a sctp://[2001:db8::1]:80/b --streams 2 --out /tmp
  anabranch get http://127.0.0.1:8080/file --json")]
pub(crate) struct Get {
    /// sctp://HOST[,HOST...][:PORT]/PATH or http://..., IPv6 addresses in brackets, link-local
    /// ones with their interface: [fe80::1%25eth0]; several hosts are addresses of one server
    #[arg(value_name = "URL", required = true)]
    urls: Vec<Url>,
    /// What carries the streams [default: sctp-udp for sctp URLs, tcp for http URLs]
    #[arg(long, value_enum)]
    transport: Option<Transport>,
    /// Files fetched at the same time over a connection
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..))]
    streams: u16,
    /// Directory for the files
    #[arg(long, value_name = "DIR", default_value = ".")]
    out: PathBuf,
    /// Print the summary as one JSON document
    #[arg(long)]
    json: bool,
    /// Print neither progress nor summary
    #[arg(short, long)]
    quiet: bool,
    #[command(flatten)]
    client: ClientOptions,
}

/// The files of one authority.
struct Group {
    transport: Transport,
    authority: Authority,
    /// Indices of its URLs.
    urls: Vec<usize>,
    transactions: Vec<Transaction>,
}

/// A group's files, by index of their URLs, and its connection.
type Fetched = (Vec<(usize, FileReport)>, ConnectionReport);

impl Get {
    pub(crate) async fn run(self) -> Result<(), Failure> {
        let groups = self.groups()?;
        if !self.out.is_dir() {
            let name = self.out.display();
            return Err(Failure::failed(format!("there is no directory {name}")));
        }
        let interrupt = Interrupt::install()?;
        let bars = Bars::new(self.urls.len(), !self.quiet && !self.json);
        let sctp = self.bind_sctp(&groups)?;
        let work = groups.iter().map(|group| self.fetch(group, sctp.as_ref(), &bars, &interrupt));
        let fetched = join_all(work).await;
        bars.clear();
        if let Some(sctp) = sctp {
            sctp.close().await;
        }
        let fetched = fetched.into_iter().collect::<Result<Vec<_>, _>>()?;
        self.finish(fetched)
    }

    /// Sorts the URLs by transport and authority, and refuses what makes no sense.
    fn groups(&self) -> Result<Vec<Group>, Failure> {
        let mut groups: Vec<Group> = Vec::new();
        let mut names = HashMap::new();
        for (index, url) in self.urls.iter().enumerate() {
            let transport = match (self.transport, url.scheme) {
                (None, Scheme::Http) => Transport::Tcp,
                (None, Scheme::Sctp) => Transport::SctpUdp,
                (Some(Transport::Tcp), Scheme::Sctp) => {
                    return Err(Failure::usage(format!("{url} cannot be fetched over tcp")));
                }
                (Some(transport), _) => transport,
            };
            let name = url.file_name().ok_or_else(|| {
                Failure::usage(format!("{url} does not end with a usable file name"))
            })?;
            if let Some(other) = names.insert(name.clone(), url) {
                return Err(Failure::usage(format!("{other} and {url} have the same file name")));
            }
            let transaction = Transaction {
                host: url.authority.host_field(),
                target: url.target.clone(),
                file: self.out.join(name),
            };
            let group = groups
                .iter_mut()
                .find(|g| g.transport == transport && g.authority == url.authority);
            match group {
                Some(group) => {
                    group.urls.push(index);
                    group.transactions.push(transaction);
                }
                None => groups.push(Group {
                    transport,
                    authority: url.authority.clone(),
                    urls: vec![index],
                    transactions: vec![transaction],
                }),
            }
        }
        let ports = [
            self.client.udp_port.map(|_| "--udp-port"),
            self.client.remote_udp_port.map(|_| "--remote-udp-port"),
        ];
        let ports = ports.into_iter().flatten();
        if groups.iter().all(|group| group.transport == Transport::Tcp) {
            refuse(ports.chain(self.client.sctp.given()), Transport::Tcp)?;
        } else if self.transport == Some(Transport::Sctp) {
            refuse(ports, Transport::Sctp)?;
        }
        Ok(groups)
    }

    /// The endpoint of all associations, if there is to be one.
    fn bind_sctp(&self, groups: &[Group]) -> Result<Option<sctp::Client>, Failure> {
        // All groups over SCTP have the same carrier.
        let mut transports = groups.iter().map(|group| group.transport);
        let Some(transport) = transports.find(|t| t.encapsulation().is_some()) else {
            return Ok(None);
        };
        let over_sctp = groups.iter().filter(|group| group.transport == transport);
        let hosts = over_sctp.flat_map(|group| &group.authority.hosts);
        sctp::Client::bind(hosts, transport, &self.client, self.streams).map(Some)
    }

    /// Fetches a group. Fails only when the user wants it to end.
    async fn fetch(
        &self,
        group: &Group,
        sctp: Option<&sctp::Client>,
        bars: &Bars,
        interrupt: &Interrupt,
    ) -> Result<Fetched, Failure> {
        let names = group.transactions.iter().map(|t| file_name(&t.file)).collect();
        let follower = Follower::new(bars, names);
        let begun = Instant::now();
        let delivered = self.deliver(group, sctp, &follower, interrupt).await;
        let mut delivery = match delivered {
            Ok(delivery) => delivery,
            Err(Failure::Interrupted) => return Err(Failure::Interrupted),
            Err(failure) => return Ok(self.unreachable(group, begun.elapsed(), &failure)),
        };
        let mut files = Vec::new();
        for (position, result) in delivery.results.drain(..).enumerate() {
            let Some(&index) = group.urls.get(position) else {
                continue;
            };
            let mut file = self.file_report(index, group.transactions.get(position));
            match result {
                Ok(fetched) => {
                    file.stream = Some(fetched.stream);
                    file.bytes = Some(fetched.bytes);
                    file.seconds = follower.took(position).map(|took| took.as_secs_f64());
                }
                Err(error) => file.error = Some(error.to_string()),
            }
            files.push((index, file));
        }
        let connection = ConnectionReport {
            transport: group.transport,
            authority: group.authority.to_string(),
            error: delivery.error,
            seconds: delivery.done.duration_since(begun).as_secs_f64(),
            longest_pause_seconds: follower.longest_pause().as_secs_f64(),
            traffic: delivery.traffic,
        };
        Ok((files, connection))
    }

    async fn deliver(
        &self,
        group: &Group,
        sctp: Option<&sctp::Client>,
        follower: &Follower<'_>,
        interrupt: &Interrupt,
    ) -> Result<Delivery, Failure> {
        let order = Order {
            authority: &group.authority,
            remotes: resolve(&group.authority).await?,
            locals: &self.client.local,
            transactions: &group.transactions,
            streams: self.streams,
            connect_timeout: self.client.connect_timeout,
            silence: self.client.silence(),
            observer: follower,
            interrupt,
        };
        match sctp.filter(|_| group.transport.encapsulation().is_some()) {
            Some(client) => client.fetch_all(order).await,
            None => tcp::fetch_all(order).await,
        }
    }

    /// What is reported when there is no connection at all.
    fn unreachable(&self, group: &Group, took: Duration, failure: &Failure) -> Fetched {
        let error = match failure {
            Failure::Failed(sentence) | Failure::Usage(sentence) | Failure::Stopped(sentence) => {
                sentence.clone()
            }
            Failure::Interrupted | Failure::Reported => "interrupted".to_owned(),
        };
        let files = group.urls.iter().zip(&group.transactions).map(|(&index, transaction)| {
            let mut file = self.file_report(index, Some(transaction));
            file.error = Some("there is no connection".to_owned());
            (index, file)
        });
        let connection = ConnectionReport {
            transport: group.transport,
            authority: group.authority.to_string(),
            error: Some(error),
            seconds: took.as_secs_f64(),
            longest_pause_seconds: 0.0,
            traffic: Default::default(),
        };
        (files.collect(), connection)
    }

    fn file_report(&self, index: usize, transaction: Option<&Transaction>) -> FileReport {
        FileReport {
            url: self.urls.get(index).map(ToString::to_string).unwrap_or_default(),
            file: transaction.map(|t| t.file.display().to_string()).unwrap_or_default(),
            stream: None,
            bytes: None,
            seconds: None,
            error: None,
        }
    }

    /// Prints what there is to say.
    fn finish(&self, fetched: Vec<Fetched>) -> Result<(), Failure> {
        let mut files = Vec::new();
        let mut connections = Vec::new();
        for (of_group, connection) in fetched {
            match &connection.error {
                Some(error) => complain(error),
                None => {
                    for (_, file) in &of_group {
                        if let Some(error) = &file.error {
                            complain(&format!("{}: {error}", file.url));
                        }
                    }
                }
            }
            files.extend(of_group);
            connections.push(connection);
        }
        files.sort_by_key(|(index, _)| *index);
        let files: Vec<_> = files.into_iter().map(|(_, file)| file).collect();
        let failed = files.iter().any(|file| file.error.is_some());
        let report = GetReport {
            bytes: files.iter().filter_map(|file| file.bytes).sum(),
            // All connections begin together.
            seconds: connections.iter().map(|c| c.seconds).fold(0.0, f64::max),
            files,
            connections,
        };
        if self.json {
            print_json(&report)?;
        } else if !self.quiet {
            print(&report.summary())?;
        }
        if failed { Err(Failure::Reported) } else { Ok(()) }
    }
}

fn file_name(path: &Path) -> String {
    path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}
