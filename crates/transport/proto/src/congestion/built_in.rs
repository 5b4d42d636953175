//! The built-in controllers, which have names: each has a file, and a row in the table.

mod cubic;
mod rfc9260;

use cubic::Cubic;
use rfc9260::Rfc9260;

use super::{Controller, NewPath};
use crate::named::named;
use crate::options::words;

/// Generates the enum, its names, and [`CongestionControl::build`] from a table of controllers.
macro_rules! controllers {
    ($($(#[doc = $doc:literal])* $name:ident = $text:literal => $new:path,)*) => {
        /// How the congestion window of a path changes.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
        #[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
        #[non_exhaustive]
        pub enum CongestionControl {
            $($(#[doc = $doc])* $name,)*
        }

        named!(CongestionControl { $($name = $text,)* });
        words!(CongestionControl);

        impl CongestionControl {
            /// Makes the controller that the path's options name.
            pub(super) fn build(path: &NewPath<'_>) -> Box<dyn Controller> {
                match path.options.congestion_control {
                    $(Self::$name => Box::new($new(path)),)*
                }
            }
        }
    };
}

controllers! {
    /// Slow start and additive increase, half at a loss (RFC 9260 section 7.2).
    Rfc9260 = "rfc9260" => Rfc9260::new,
    /// CUBIC: after a loss the window returns to where it was within a time that hardly depends on
    /// the round-trip time (RFC 9438).
    Cubic = "cubic" => Cubic::new,
}
