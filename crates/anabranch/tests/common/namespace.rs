//! Network namespaces of a test's own.

use std::future::Future;
use std::process::Command;
use std::time::Duration;

use nix::sched::{CloneFlags, unshare};

/// Runs a test's future with a network of its own, in which only the loopback interface is up.
///
/// Skips the test without the privileges for that, or fails it with ANABRANCH_REQUIRE_ALL=1.
pub(crate) fn in_namespace<T>(future: impl Future<Output = T>) -> Option<T> {
    // Only this thread moves; sockets and processes made by it are in the namespace.
    if let Err(error) = unshare(CloneFlags::CLONE_NEWNET) {
        assert_ne!(
            std::env::var("ANABRANCH_REQUIRE_ALL").as_deref(),
            Ok("1"),
            "no network namespace can be made: {error}"
        );
        eprintln!("skipped: no network namespace can be made: {error}");
        return None;
    }
    ip("link set lo up");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let limited = async { tokio::time::timeout(Duration::from_secs(60), future).await };
    Some(runtime.block_on(limited).expect("the test does not end"))
}

/// Runs `ip` of iproute2 in the namespace.
pub(crate) fn ip(arguments: &str) {
    let status = Command::new("ip").args(arguments.split_whitespace()).status();
    assert!(status.expect("iproute2 is installed").success(), "ip {arguments}");
}
