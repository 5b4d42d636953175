//! Every pair of engines, in both roles, in every case.
#![forbid(unsafe_code)]

use anabranch_peers::Kind;
use anabranch_peers::cases::{self, Case, Passed};

#[test]
fn every_engine_with_every_engine_in_every_case() {
    let mut table = format!("{:<12}{:<12}", "client", "server");
    for case in Case::ALL {
        table.push_str(&format!("{:<12}", case.name()));
    }
    table.push('\n');
    let mut failures = Vec::new();
    for client in Kind::ALL {
        for server in Kind::ALL {
            table.push_str(&format!("{:<12}{:<12}", client.name(), server.name()));
            for case in Case::ALL {
                let result =
                    cases::run(case, &|c, r| client.build(c, r), &|c, r| server.build(c, r));
                let cell = match &result {
                    Ok(Passed::Fully) => "ok",
                    Ok(Passed::WithoutAbortChunk) => "ok, local",
                    Err(_) => "FAILED",
                };
                table.push_str(&format!("{cell:<12}"));
                if let Err(error) = result {
                    let (client, server) = (client.name(), server.name());
                    failures.push(format!("{client} to {server}, {}: {error}", case.name()));
                }
            }
            table.push('\n');
        }
    }
    println!("{table}");
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
