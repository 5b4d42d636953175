//! Uses one association at a time, and replaces one that breaks, so that the rest of a page can
//! still arrive.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use anabranch::Association;
use anabranch_http::{Authority, ByteStream, OpenStreams, SctpStream};
use tokio::sync::Mutex;

use crate::failure::{Failure, complain};
use crate::transport::sctp::Client;

/// The associations with one server so far; only the last one is in use.
pub(super) struct Associations<'a> {
    client: &'a Client,
    authority: &'a Authority,
    remotes: Vec<SocketAddr>,
    timeout: Duration,
    current: Mutex<Current>,
}

struct Current {
    association: Association,
    /// Number of associations so far, and how many more are allowed.
    count: u64,
    left: u32,
}

impl<'a> Associations<'a> {
    /// Connects. Later, up to `retries` further associations replace one that breaks.
    pub(super) async fn connect(
        client: &'a Client,
        authority: &'a Authority,
        remotes: Vec<SocketAddr>,
        timeout: Duration,
        retries: u32,
    ) -> Result<Self, Failure> {
        let association = client.associate(authority, remotes.clone(), timeout).await?;
        let current = Mutex::new(Current { association, count: 1, left: retries });
        Ok(Self { client, authority, remotes, timeout, current })
    }

    /// The association in use.
    pub(super) async fn last(&self) -> Association {
        self.current.lock().await.association.clone()
    }

    /// The number of associations so far.
    pub(super) fn count(&self) -> u64 {
        self.current.try_lock().map_or(1, |current| current.count)
    }

    /// Replaces the association with this number, unless that was done already.
    async fn replace(&self, number: u64, error: io::Error) -> io::Result<()> {
        let mut current = self.current.lock().await;
        if current.count > number {
            return Ok(());
        }
        if current.left == 0 {
            return Err(error);
        }
        current.left -= 1;
        complain(&format!("{error}; connecting again"));
        let again = self.client.associate(self.authority, self.remotes.clone(), self.timeout).await;
        current.association = again.map_err(|failure| {
            io::Error::other(failure.told().0.unwrap_or("there is no connection").to_owned())
        })?;
        current.count += 1;
        Ok(())
    }
}

impl OpenStreams for Associations<'_> {
    type Stream = SctpStream;

    async fn open(&self) -> io::Result<ByteStream<SctpStream>> {
        loop {
            let (association, number) = {
                let current = self.current.lock().await;
                (current.association.clone(), current.count)
            };
            match OpenStreams::open(&association).await {
                Ok(stream) => return Ok(stream),
                Err(error) => self.replace(number, error).await?,
            }
        }
    }
}
