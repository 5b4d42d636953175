//! Floods of packets that any host can send, while an association works. `benches/flood.rs` measures
//! the remaining goodput.
#![cfg(target_os = "linux")]

mod common;
#[path = "common/flooder.rs"]
mod flooder;

use anabranch::{Association, OutgoingMessage, Ppid};
use common::{Pair, V4, V6, pattern, soon};
use flooder::{FLOODS, Flood, Flooder};

async fn transfer(from: &Association, to: &Association, messages: u32) {
    let data = pattern(16_384, 7);
    let send = async {
        for number in 0..messages {
            let message = OutgoingMessage::new(0, Ppid(number), data.clone());
            from.send(message).await.unwrap();
        }
    };
    let receive = async {
        for number in 0..messages {
            let message = to.recv().await.unwrap().unwrap();
            assert!(message.ppid == Ppid(number) && message.payload == *data);
        }
    };
    tokio::join!(send, receive);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everything_arrives_during_floods() {
    soon(async {
        for address in [V4, V6] {
            let pair = Pair::new(&[address]).await;
            for flood in FLOODS {
                let flooder = tokio::task::block_in_place(|| Flooder::start(flood, &pair));
                transfer(&pair.near, &pair.far, 100).await;
                transfer(&pair.far, &pair.near, 100).await;
                drop(flooder);
            }
            let statistics = pair.server.statistics();
            assert_eq!(statistics.associations, 1, "{statistics:?}");
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn new_associations_come_up_during_floods() {
    soon(async {
        let pair = Pair::new(&[V4]).await;
        for flood in [Flood::Tag, Flood::Random] {
            let flooder = tokio::task::block_in_place(|| Flooder::start(flood, &pair));
            transfer(&pair.near, &pair.far, 100).await;
            let (near, far) = pair.another().await;
            transfer(&near, &far, 100).await;
            transfer(&far, &near, 100).await;
            drop(flooder);
        }
    })
    .await;
}
