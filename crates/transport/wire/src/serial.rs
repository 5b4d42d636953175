//! Sequence numbers that wrap, and their comparison by RFC 1982.

use core::fmt;

/// Identifies one stream of an association, in the direction of the data.
pub type StreamId = u16;

// req: rfc9260 1.6 "SHOULD use Serial Number Arithmetic"
// req: rfc9260 1.6 "MUST be performed modulo 2^32"
macro_rules! serial_number {
    ($(#[$doc:meta])* $name:ident, $word:ty, $signed:ty) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
        pub struct $name(pub $word);

        impl $name {
            /// Whether `self` comes before `other`.
            ///
            /// Two numbers whose distance is exactly half of the number space have no
            /// order (RFC 1982 section 3.2); here the comparison is then true both ways.
            #[inline]
            #[must_use]
            pub const fn lt(self, other: Self) -> bool {
                (self.0.wrapping_sub(other.0) as $signed) < 0
            }

            /// Whether `self` comes before `other` or is the same.
            #[inline]
            #[must_use]
            pub const fn le(self, other: Self) -> bool {
                (self.0.wrapping_sub(other.0) as $signed) <= 0
            }

            /// Whether `self` comes after `other`.
            #[inline]
            #[must_use]
            pub const fn gt(self, other: Self) -> bool {
                other.lt(self)
            }

            /// Whether `self` comes after `other` or is the same.
            #[inline]
            #[must_use]
            pub const fn ge(self, other: Self) -> bool {
                other.le(self)
            }

            /// The number `n` steps later, wrapping.
            #[inline]
            #[must_use]
            pub const fn add(self, n: $word) -> Self {
                Self(self.0.wrapping_add(n))
            }

            /// The number `n` steps earlier, wrapping.
            #[inline]
            #[must_use]
            pub const fn sub(self, n: $word) -> Self {
                Self(self.0.wrapping_sub(n))
            }

            /// The following number.
            #[inline]
            #[must_use]
            pub const fn next(self) -> Self {
                self.add(1)
            }

            /// The preceding number.
            #[inline]
            #[must_use]
            pub const fn prev(self) -> Self {
                self.sub(1)
            }

            /// The number of steps from `self` forward to `later`, wrapping.
            #[inline]
            #[must_use]
            pub const fn distance_to(self, later: Self) -> $word {
                later.0.wrapping_sub(self.0)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl From<$word> for $name {
            fn from(value: $word) -> Self {
                Self(value)
            }
        }
    };
}

serial_number! {
    /// Transmission sequence number: counts DATA chunks of an association
    /// (RFC 9260 section 1.6). It has no `Ord`, because it wraps.
    Tsn, u32, i32
}

serial_number! {
    /// Stream sequence number: counts ordered messages of one stream
    /// (RFC 9260 section 1.6). It has no `Ord`, because it wraps.
    Ssn, u16, i16
}

#[cfg(test)]
mod tests {
    use super::*;

    // test: rfc9260 1.6 "MUST be performed modulo 2^32"
    // test: rfc9260 1.6 "SHOULD use Serial Number Arithmetic"
    #[test]
    fn order_survives_the_wrap() {
        assert!(Tsn(u32::MAX).lt(Tsn(0)));
        assert!(Tsn(0).gt(Tsn(u32::MAX)));
        assert!(Tsn(5).le(Tsn(5)) && Tsn(5).ge(Tsn(5)));
        assert!(!Tsn(5).lt(Tsn(5)) && !Tsn(5).gt(Tsn(5)));
        assert!(Tsn(0).lt(Tsn(0x7fff_ffff)));
        assert!(Tsn(0).gt(Tsn(0x8000_0001)));
        assert!(Ssn(65535).lt(Ssn(0)));
        assert!(Ssn(0).lt(Ssn(0x7fff)) && Ssn(0).gt(Ssn(0x8001)));
    }

    #[test]
    fn steps_and_distances_wrap() {
        assert_eq!(Tsn(u32::MAX).next(), Tsn(0));
        assert_eq!(Tsn(0).prev(), Tsn(u32::MAX));
        assert_eq!(Tsn(10).add(5).sub(6), Tsn(9));
        assert_eq!(Tsn(u32::MAX - 1).distance_to(Tsn(2)), 4);
        assert_eq!(Ssn(65535).next(), Ssn(0));
        assert_eq!(Ssn(3).distance_to(Ssn(1)), 65534);
        assert_eq!(Tsn::from(7).to_string(), "7");
    }
}
