//! TCP as hosts have it today.

use anabranch_tcp::Config;

/// TCP with the options of a current Linux kernel; see [`Config::linux`].
///
/// With these options, and with NewReno in both, it takes the kernel's times in the cases of `docs/tcp-kernel.md`.
pub fn tcp_of_today() -> Config {
    Config::linux()
}
