//! Attempts to fetch the files of one authority.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use anabranch_http::{Budget, FetchError, Fetched, Output, Pace, Transaction, Url, part_of};

use super::{Get, Group, path_of};
use crate::address::resolve;
use crate::failure::{Failure, complain};
use crate::interrupt::Interrupt;
use crate::progress::{Bars, Follower};
use crate::report::{ConnectionReport, FileReport, Traffic};
use crate::transport::{Delivery, Order, Work, sctp, tcp};

/// Maximum time between two attempts.
const LONGEST_DELAY: Duration = Duration::from_secs(30);

/// One file.
pub(super) struct Item {
    /// Index of its URL on the command line.
    pub(super) index: usize,
    pub(super) transaction: Transaction,
    pub(super) report: FileReport,
    /// The URL to request: the original one, or the target of a redirect.
    pub(super) url: Url,
    /// The location to which the server redirects, as the server wrote it.
    pub(super) moved: Option<String>,
    /// Another process is fetching the file: it has locked the part file.
    pub(super) busy: bool,
    /// The URLs requested before, which redirected.
    pub(super) hops: Vec<Url>,
    /// Bytes in the part file that an earlier command left.
    before: u64,
    /// Time of the last change, as reported by the server.
    pub(super) modified: Option<SystemTime>,
    /// The file has not been fetched, and another attempt may succeed.
    waits: bool,
}

impl Item {
    pub(super) fn new(index: usize, url: &Url, transaction: Transaction) -> Self {
        let file = path_of(&transaction).map_or("-".into(), |path| path.display().to_string());
        let before = match &transaction.output {
            Output::File { path, resume: true } => part_of(path).map_or(0, |part| part.bytes),
            _ => 0,
        };
        let report = FileReport {
            url: url.to_string(),
            file,
            redirected_to: None,
            replaced: false,
            stream: None,
            bytes: None,
            resumed_bytes: 0,
            seconds: None,
            unchanged: false,
            error: None,
        };
        let (url, moved, hops) = (url.clone(), None, Vec::new());
        let (busy, modified, waits) = (false, None, true);
        Self { index, transaction, report, url, moved, busy, hops, before, modified, waits }
    }

    /// Gives up on this file, for this reason.
    pub(super) fn refuse(&mut self, why: String) {
        self.waits = false;
        self.report.error = Some(why);
    }

    /// Whether it still has to be fetched.
    pub(super) fn waits(&self) -> bool {
        self.waits
    }

    /// Requests the file at its new location.
    pub(super) fn follow(&mut self, url: Url) {
        self.transaction.host = url.host_field();
        self.transaction.target.clone_from(&url.target);
        self.report.redirected_to = Some(url.to_string());
        self.hops.push(std::mem::replace(&mut self.url, url));
        self.waits = true;
    }

    /// The name that progress bars show.
    fn name(&self) -> String {
        let name = path_of(&self.transaction).and_then(|path| path.file_name());
        name.map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
    }

    /// Records the result of an attempt.
    fn enter(&mut self, result: Result<Fetched, FetchError>, took: Option<Duration>) {
        self.waits = false;
        self.busy = matches!(result, Err(FetchError::Busy { .. }));
        match result {
            Ok(fetched) => {
                self.report.stream = Some(fetched.stream);
                // Bytes from earlier attempts of this command count as received, because they
                // arrived within the reported time.
                let resumed = fetched.resumed.min(self.before);
                self.report.bytes = Some(fetched.bytes + (fetched.resumed - resumed));
                self.report.resumed_bytes = resumed;
                self.report.seconds = took.map(|took| took.as_secs_f64());
                self.report.replaced = fetched.replaced;
                self.modified = fetched.modified;
                self.report.error = None;
            }
            Err(FetchError::NotNewer) => {
                self.report.unchanged = true;
                self.report.error = None;
            }
            Err(error) => {
                if let FetchError::Redirect { location, .. } = &error {
                    self.moved = Some(location.clone());
                }
                // Bytes written to standard output or a device cannot be undone, so there is only
                // one attempt.
                let once = !matches!(self.transaction.output, Output::File { .. });
                self.waits = !once && may_come(&error);
                self.report.error = Some(error.to_string());
            }
        }
    }
}

/// Whether another attempt may succeed after this error.
fn may_come(error: &FetchError) -> bool {
    match error {
        FetchError::Status(status) => matches!(status.as_u16(), 502..=504),
        FetchError::Request(_)
        | FetchError::File { .. }
        | FetchError::Taken { .. }
        | FetchError::Redirect { .. }
        | FetchError::NotNewer
        | FetchError::Undated
        | FetchError::TooLong { .. }
        | FetchError::Exhausted
        | FetchError::Refused(_) => false,
        _ => true,
    }
}

/// Resources shared by all attempts.
#[derive(Clone, Copy)]
pub(super) struct Tools<'a> {
    pub(super) sctp: Option<&'a sctp::Client>,
    pub(super) bars: &'a Bars,
    pub(super) interrupt: &'a Interrupt,
    /// Limits the rate of all files together.
    pub(super) pace: &'a Option<Arc<Pace>>,
    /// Limits the bytes of all files together.
    pub(super) budget: &'a Option<Arc<Budget>>,
}

impl Get {
    /// Fetches a group, in as many attempts as necessary and allowed. Fails only if the user stops
    /// it.
    pub(super) async fn fetch(
        &self,
        mut group: Group,
        tools: Tools<'_>,
    ) -> Result<super::Fetched, Failure> {
        let begun = Instant::now();
        let mut longest_pause = Duration::ZERO;
        let mut delay = Duration::from_secs(1);
        for retries_left in (0..=self.retry).rev() {
            let mut connection = self.attempt(&mut group, begun, tools).await?;
            longest_pause = longest_pause.max(connection.1);
            connection.0.longest_pause_seconds = longest_pause.as_secs_f64();
            let waiting = group.items.iter().find(|item| item.waits);
            let Some(waiting) = waiting.filter(|_| retries_left > 0) else {
                return Ok((group.items, connection.0));
            };
            if !self.quiet {
                let why = connection.0.error.as_ref().or(waiting.report.error.as_ref());
                let why = why.map(String::as_str).unwrap_or_default();
                complain(&format!("{why}; again in {} s", delay.as_secs()));
            }
            tokio::select! {
                () = tokio::time::sleep(delay) => {}
                () = tools.interrupt.wait() => return Err(Failure::Interrupted),
            }
            delay = (delay * 2).min(LONGEST_DELAY);
            group.items.iter_mut().for_each(Item::go_on);
        }
        Err(Failure::Interrupted)
    }

    /// Makes one attempt to fetch the files that are missing. Returns the report of the connection,
    /// and its longest pause.
    async fn attempt(
        &self,
        group: &mut Group,
        begun: Instant,
        tools: Tools<'_>,
    ) -> Result<(ConnectionReport, Duration), Failure> {
        let waiting = || group.items.iter().filter(|item| item.waits);
        let transactions: Vec<_> = waiting().map(|item| item.transaction.clone()).collect();
        let follower = Follower::new(tools.bars, waiting().map(Item::name).collect());
        let delivered = self.deliver(group, &transactions, &follower, tools).await;
        if !self.quiet {
            follower.take_notes().iter().for_each(|note| complain(note));
        }
        let items = group.items.iter_mut().filter(|item| item.waits);
        let (error, done, traffic) = match delivered {
            Ok(delivery) => {
                for (position, (item, result)) in items.zip(delivery.results).enumerate() {
                    let uncertain = result.as_ref().is_ok_and(|fetched| !fetched.known);
                    if uncertain && !self.quiet {
                        complain(&format!(
                            "{}: the server did not say how long it is; if the connection was cut, it \
                             is not whole",
                            item.report.url
                        ));
                    }
                    item.enter(result, follower.took(position));
                }
                (delivery.error, delivery.done, delivery.traffic)
            }
            Err(Failure::Interrupted) => return Err(Failure::Interrupted),
            Err(failure) => {
                for item in items {
                    item.report.error = Some("there is no connection".to_owned());
                }
                let sentence = failure.told().0.unwrap_or_default().to_owned();
                (Some(sentence), Instant::now(), Traffic::default())
            }
        };
        let connection = ConnectionReport {
            transport: group.transport,
            authority: group.authority.to_string(),
            error,
            seconds: done.duration_since(begun).as_secs_f64(),
            longest_pause_seconds: 0.0,
            traffic,
        };
        Ok((connection, follower.longest_pause()))
    }

    async fn deliver(
        &self,
        group: &Group,
        transactions: &[Transaction],
        follower: &Follower<'_>,
        tools: Tools<'_>,
    ) -> Result<Delivery, Failure> {
        let order = Order {
            authority: &group.authority,
            remotes: resolve(&group.authority).await?,
            locals: &self.client.local,
            work: Work::Fetch(transactions),
            fetch: self.fetch_options(tools.pace).with_budget(tools.budget.clone()),
            connect_timeout: self.client.connect_timeout,
            observer: follower,
            interrupt: tools.interrupt,
        };
        match tools.sctp.filter(|_| group.transport.encapsulation().is_some()) {
            Some(client) => client.fetch_all(order).await,
            None => tcp::fetch_all(order).await,
        }
    }
}

impl Item {
    /// Makes all requests continue where the last attempt stopped.
    fn go_on(&mut self) {
        if let Output::File { resume, .. } = &mut self.transaction.output {
            *resume = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use anabranch_http::Bounds;

    use super::*;

    #[test]
    fn what_may_come_is_tried_again() {
        let url: Url = "sctp://h/x".parse().unwrap();
        let item = |output| {
            let transaction = Transaction {
                host: "h".into(),
                target: "/x".into(),
                source: "s".into(),
                output,
                bounds: Bounds::default(),
            };
            Item::new(0, &url, transaction)
        };
        let busy = || FetchError::Busy { path: "x".into(), part: "x.part".into() };
        let file = || Output::File { path: "x".into(), resume: false };
        let broken = || FetchError::Broken { received: 1, expected: None, reason: "x".into() };
        let status = |code: u16| FetchError::Status(code.try_into().unwrap());
        for (output, error, waits) in [
            (file(), broken(), true),
            (Output::Stdout, broken(), false),
            (Output::Device("/dev/null".into()), broken(), false),
            (file(), status(503), true),
            (file(), status(404), false),
            (file(), busy(), true),
            (file(), FetchError::Refused("x"), false),
            (
                file(),
                FetchError::File { path: "x".into(), source: std::io::Error::other("") },
                false,
            ),
        ] {
            let mut item = item(output);
            item.enter(Err(error), None);
            assert_eq!(item.waits, waits, "{:?}", item.report.error);
        }
        // Bytes from earlier attempts of this command count as transferred.
        for (before, expected) in [(0, (10, 0)), (3, (7, 3)), (9, (6, 4))] {
            let mut item = item(file());
            item.before = before;
            item.enter(
                Ok(Fetched {
                    stream: 1,
                    bytes: 6,
                    resumed: 4,
                    replaced: false,
                    modified: None,
                    known: true,
                }),
                None,
            );
            assert_eq!(
                (item.report.bytes, item.report.resumed_bytes),
                (Some(expected.0), expected.1)
            );
        }
        let mut again = item(file());
        again.go_on();
        assert!(matches!(again.transaction.output, Output::File { resume: true, .. }));
    }
}
