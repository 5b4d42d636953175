//! Captures of whole associations.

mod common;

use std::path::PathBuf;
use std::process::Command;

use anabranch::{AssociationConfig, Endpoint, OutgoingMessage, Ppid};
use common::{PORT, V6, loopback, remotes, soon, towards};

/// A capture of an association over three paths, with data both ways and a graceful end.
async fn record(name: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("anabranch-{name}-{}.pcapng", std::process::id()));
    let addresses = [loopback(1), loopback(2), V6];
    let server = common::endpoint(&addresses);
    let listener = server.listen(PORT, AssociationConfig::default()).unwrap();
    let client = Endpoint::builder().local_addresses(addresses).capture(&path).bind().unwrap();
    let options = towards(&server, AssociationConfig::default());
    let near = client.connect(remotes(&server), options).await.unwrap();
    let far = listener.accept().await.unwrap();
    for size in [1, 100, 10_000, 100_000] {
        for association in [&near, &far] {
            association.send(OutgoingMessage::new(1, Ppid(46), vec![7; size])).await.unwrap();
        }
        for association in [&near, &far] {
            assert_eq!(association.recv().await.unwrap().unwrap().payload.len(), size);
        }
    }
    near.close().await.unwrap();
    client.close().await;
    path
}

#[tokio::test]
async fn the_file_is_complete_when_the_endpoint_is_closed() {
    soon(async {
        let path = record("complete").await;
        let bytes = std::fs::read(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert_eq!(bytes[..4], [0x0a, 0x0d, 0x0d, 0x0a]);
        assert!(bytes.len() > 2 * 110_000, "{} bytes", bytes.len());
        // The last block ends where the file does.
        let length = u32::from_le_bytes(bytes[bytes.len() - 4..].try_into().unwrap()) as usize;
        let block = &bytes[bytes.len() - length..];
        assert_eq!(block[4..8], block[length - 4..]);
    })
    .await;
}

/// Wireshark must find no error in the packets that we send and in the way we record them.
#[tokio::test]
async fn tshark_finds_nothing_wrong() {
    if Command::new("tshark").arg("--version").output().is_err() {
        return common::skip("tshark");
    }
    let path = soon(record("tshark")).await;
    let tshark = |filter: &str| {
        let mut command = Command::new("tshark");
        command.args(["-r", path.to_str().unwrap(), "-Y", filter]);
        for option in ["ip.check_checksum:TRUE", "udp.check_checksum:TRUE", "sctp.checksum:TRUE"] {
            command.args(["-o", option]);
        }
        command.args(["-d", "udp.port==1-65535,sctp"]);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let wrong = "_ws.malformed || _ws.expert.severity == error || _ws.expert.group == checksum";
    assert_eq!(tshark(wrong), "");
    for chunk in ["INIT", "INIT_ACK", "COOKIE_ECHO", "COOKIE_ACK", "SACK", "SHUTDOWN_COMPLETE"] {
        assert!(tshark("sctp").contains(&format!("{chunk} ")), "no {chunk}");
    }
    std::fs::remove_file(&path).unwrap();
}
