//! The ways to read a byte stream, and what they leave to the next one.

mod common;

use std::io::{self, ErrorKind, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

use anabranch::RecvStream;
use common::{Pair, V4, pattern, soon};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// Takes at most `most` bytes with each call, and blocks every third time.
struct Narrow {
    taken: Vec<u8>,
    most: usize,
    calls: usize,
    /// Most pieces that came with one call.
    pieces: usize,
}

impl Narrow {
    fn new(most: usize) -> Self {
        Self { taken: Vec::new(), most, calls: 0, pieces: 0 }
    }
}

impl AsyncWrite for Narrow {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        this.calls += 1;
        if this.calls.is_multiple_of(3) {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        this.pieces = this.pieces.max(slices.len());
        let before = this.taken.len();
        for slice in slices {
            let room = this.most - (this.taken.len() - before);
            this.taken.extend_from_slice(&slice[..slice.len().min(room)]);
        }
        Poll::Ready(Ok(this.taken.len() - before))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// Two streams of one byte stream: its writer, and its reader.
async fn stream(pair: &Pair) -> (anabranch::SendStream, RecvStream, Vec<Box<dyn Send>>) {
    let (mut send, other) = pair.near.open_stream().await.unwrap();
    send.write_all(b"!").await.unwrap();
    let (answer, mut recv) = pair.far.accept_stream().await.unwrap().unwrap();
    assert_eq!(recv.read_u8().await.unwrap(), b'!');
    (send, recv, vec![Box::new(other), Box::new(answer)])
}

#[tokio::test]
async fn each_way_of_reading_goes_on_where_the_last_one_stopped() {
    soon(async {
        let pair = Pair::new(&[V4]).await;
        let (mut send, mut recv, _others) = stream(&pair).await;
        let whole = pattern(3_000_000, 9);
        let written = whole.clone();
        let writer = tokio::spawn(async move {
            for piece in written.chunks(70_001) {
                send.write_all(piece).await.unwrap();
            }
            send.finish().await.unwrap();
        });
        let mut narrow = Narrow::new(30_000);
        for turn in 0.. {
            let before = narrow.taken.len();
            match turn % 4 {
                0 => {
                    let mut few = [0; 777];
                    let count = recv.read(&mut few).await.unwrap();
                    narrow.taken.extend_from_slice(&few[..count]);
                }
                1 => {
                    let count = recv.write_to(&mut narrow, 1 + turn % 50_000).await.unwrap();
                    assert_eq!(narrow.taken.len(), before + count);
                    assert!(count <= 1 + turn % 50_000);
                }
                2 => {
                    let piece = recv.fill_buf().await.unwrap();
                    let count = piece.len().div_ceil(2);
                    narrow.taken.extend_from_slice(&piece[..count]);
                    recv.consume(count);
                }
                // Messages of a byte stream are its bytes, too.
                _ => match recv.recv().await.unwrap() {
                    Some(rest) => {
                        rest.payload
                            .pieces()
                            .for_each(|piece| narrow.taken.extend_from_slice(piece));
                    }
                    None => break,
                },
            }
        }
        assert!(narrow.taken == whole, "{} bytes", narrow.taken.len());
        writer.await.unwrap();
        assert_eq!(pair.far.statistics().receive_buffer_used, 0);
    })
    .await;
}

#[tokio::test]
async fn what_has_arrived_is_written_with_few_calls() {
    soon(async {
        let pair = Pair::new(&[V4]).await;
        let (mut send, mut recv, _others) = stream(&pair).await;
        let whole = pattern(200_000, 2);
        send.write_all(&whole[..60_000]).await.unwrap();
        while pair.far.statistics().counters.message_bytes_received < 60_001 {
            tokio::task::yield_now().await;
        }
        let mut narrow = Narrow::new(usize::MAX);
        // All that is there, which arrived in packets.
        assert_eq!(recv.write_to(&mut narrow, usize::MAX).await.unwrap(), 60_000);
        assert!(narrow.pieces > 1, "{} pieces", narrow.pieces);
        let writer = async {
            send.write_all(&whole[60_000..]).await.unwrap();
            send.finish().await.unwrap();
        };
        let reader = async { while recv.write_to(&mut narrow, usize::MAX).await.unwrap() > 0 {} };
        tokio::join!(writer, reader);
        assert!(narrow.taken == whole);
        assert_eq!(recv.write_to(&mut narrow, 0).await.unwrap(), 0);
    })
    .await;
}

#[tokio::test]
async fn what_came_before_the_writer_gave_up_is_read_first() {
    soon(async {
        let pair = Pair::new(&[V4]).await;
        let (mut send, mut recv, _others) = stream(&pair).await;
        send.write_all(&pattern(50_000, 3)).await.unwrap();
        drop(send);
        while pair.far.statistics().counters.message_bytes_received < 50_002 {
            tokio::task::yield_now().await;
        }
        let mut narrow = Narrow::new(usize::MAX);
        let ended = loop {
            match recv.write_to(&mut narrow, usize::MAX).await {
                Ok(0) => panic!("the stream has no end"),
                Ok(_) => {}
                Err(error) => break error.kind(),
            }
        };
        assert_eq!(ended, ErrorKind::UnexpectedEof);
        assert!(narrow.taken == pattern(50_000, 3));
    })
    .await;
}

/// The credit of a byte stream is that of its reader, and not of what the reader's handle holds.
#[tokio::test]
async fn a_handle_dropped_with_unread_bytes_gives_back_all_of_them() {
    soon(async {
        let pair = Pair::new(&[V4]).await;
        for _ in 0..40 {
            let (mut send, mut recv, _others) = stream(&pair).await;
            // The last of them is lost, because its reader is dropped.
            let writer = tokio::spawn(async move { send.write_all(&pattern(90_000, 1)).await });
            recv.read_exact(&mut [0; 2000]).await.unwrap();
            drop(recv);
            let _ = writer.await.unwrap();
        }
        let (mut send, mut recv, _others) = stream(&pair).await;
        let writer = tokio::spawn(async move {
            send.write_all(&pattern(4_000_000, 1)).await.unwrap();
            send.finish().await.unwrap();
        });
        let mut rest = Vec::new();
        recv.read_to_end(&mut rest).await.unwrap();
        assert!(rest == pattern(4_000_000, 1));
        writer.await.unwrap();
        assert_eq!(pair.far.statistics().receive_buffer_used, 0);
    })
    .await;
}
