//! Moves the bytes of a connection between a program's socket and its peer.

use std::cell::RefCell;
use std::io;
use std::sync::Arc;

use anabranch::{RecvStream, SendStream};
use bytes::Bytes;
use tokio::io::{AsyncWriteExt as _, Interest};
use tokio::net::TcpStream;
use tokio::net::tcp::WriteHalf;

use super::Tcp;
use super::gate::{drained, set_abrupt};
use super::race::Peer;

/// The most bytes that are read at once.
const CHUNK: usize = 64 << 10;

thread_local! {
    /// Where bytes are read to, so that an idle connection needs no buffer.
    static SCRATCH: RefCell<Vec<u8>> = RefCell::new(vec![0; CHUNK]);
}

/// Where bytes from a socket go.
trait Sink {
    /// Writes all bytes, and waits for room.
    async fn put(&mut self, bytes: Bytes) -> io::Result<()>;

    /// Nothing more comes.
    async fn finish(&mut self) -> io::Result<()>;
}

impl Sink for SendStream {
    async fn put(&mut self, bytes: Bytes) -> io::Result<()> {
        self.write_bytes(bytes).await
    }

    async fn finish(&mut self) -> io::Result<()> {
        Self::finish(self).await
    }
}

impl Sink for WriteHalf<'_> {
    async fn put(&mut self, bytes: Bytes) -> io::Result<()> {
        self.write_all(&bytes).await
    }

    async fn finish(&mut self) -> io::Result<()> {
        self.shutdown().await
    }
}

impl Tcp {
    /// Relays a connection to its end. An error of one side becomes one of the other side.
    pub(super) async fn relay(self: &Arc<Self>, mut program: TcpStream, peer: Peer) {
        let ended = match peer {
            Peer::Sctp(mut carrier) => {
                let (own_read, mut own_write) = program.split();
                let sending = from_socket(own_read.as_ref(), &mut carrier.send);
                let receiving = to_program(&mut carrier.recv, &mut own_write);
                let ended = self.both(sending, receiving).await;
                if ended.is_ok() {
                    self.host.spawn(carrier.close());
                }
                ended
            }
            Peer::Tcp(mut stream) => {
                let ended = {
                    let (own_read, mut own_write) = program.split();
                    let (read, mut write) = stream.split();
                    let sending = from_socket(own_read.as_ref(), &mut write);
                    let receiving = from_socket(read.as_ref(), &mut own_write);
                    self.both(sending, receiving).await
                };
                let _ = set_abrupt(&stream, ended.is_err());
                ended
            }
        };
        if ended.is_err() {
            tokio::select! {
                () = drained(&program) => {}
                () = self.over() => {}
            }
        }
        let _ = set_abrupt(&program, ended.is_err());
    }

    /// Runs both directions to their ends. After the end of all programs, nobody waits for what the peer sends.
    async fn both(
        &self,
        sending: impl Future<Output = io::Result<()>>,
        receiving: impl Future<Output = io::Result<()>>,
    ) -> io::Result<()> {
        tokio::pin!(sending, receiving);
        let (mut sent, mut received) = (false, false);
        while !(sent && received) {
            tokio::select! {
                result = &mut sending, if !sent => {
                    result?;
                    sent = true;
                }
                result = &mut receiving, if !received => {
                    result?;
                    received = true;
                }
                () = self.over(), if sent => return Ok(()),
            }
        }
        Ok(())
    }
}

/// Moves bytes from a socket, until its peer ends sending.
async fn from_socket(from: &TcpStream, to: &mut impl Sink) -> io::Result<()> {
    loop {
        from.ready(Interest::READABLE).await?;
        let read: io::Result<Bytes> = SCRATCH.with_borrow_mut(|scratch| {
            let length = from.try_read(scratch)?;
            Ok(Bytes::copy_from_slice(scratch.get(..length).unwrap_or_default()))
        });
        match read {
            Ok(bytes) if bytes.is_empty() => return to.finish().await,
            Ok(bytes) => to.put(bytes).await?,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
}

/// Moves bytes from an association to a program, until the peer ends sending.
async fn to_program(from: &mut RecvStream, to: &mut WriteHalf<'_>) -> io::Result<()> {
    while from.write_to(to, usize::MAX).await? > 0 {}
    to.shutdown().await
}
