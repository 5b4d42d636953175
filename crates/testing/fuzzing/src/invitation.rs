//! Keys and invitations: any text, and any content behind a right checksum.

use anabranch_seal::{Invitation, KeyQuestion, MOST_ADDRESSES, PublicKey};
use data_encoding::BASE64URL_NOPAD;
use ring::digest::{SHA256, digest};

/// Reads `bytes` as texts that a user pastes, and as the content of a text with a right checksum. What is read must be
/// the same after it was written again.
pub fn invitation(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    for text in [text.to_string(), format!("anb1:{text}"), format!("anbk:{text}")] {
        texts(&text);
    }
    for prefix in ["anb1:", "anbk:"] {
        let sum = digest(&SHA256, &[prefix.as_bytes(), bytes].concat());
        let content = [bytes, &sum.as_ref()[..4]].concat();
        texts(&format!("{prefix}{}", BASE64URL_NOPAD.encode(&content)));
    }
    if let Ok(question) = KeyQuestion::new() {
        assert_eq!(question.answered(bytes), None);
    }
}

fn texts(text: &str) {
    if let Ok(invitation) = text.parse::<Invitation>() {
        assert!(invitation.addresses().len() <= MOST_ADDRESSES);
        assert_eq!(invitation.to_string().parse(), Ok(invitation));
    }
    if let Ok(key) = text.parse::<PublicKey>() {
        assert_eq!(key.to_string().parse(), Ok(key));
    }
}
