//! Answers to requests of the peer, and the chunks that carry them.

use anabranch_wire::{Parameter, Parameters, Tsn};
use bytes::Bytes;

/// The results of RFC 6525 section 4.4.
pub(super) mod result {
    pub(in super::super) const NOTHING_TO_DO: u32 = 0;
    pub(in super::super) const PERFORMED: u32 = 1;
    pub(in super::super) const DENIED: u32 = 2;
    pub(in super::super) const WRONG_SSN: u32 = 3;
    pub(in super::super) const ALREADY_IN_PROGRESS: u32 = 4;
    pub(in super::super) const BAD_NUMBER: u32 = 5;
    pub(in super::super) const IN_PROGRESS: u32 = 6;
}

/// The answer to the peer's request `number`.
#[derive(Clone, Debug)]
pub(super) struct Reply {
    pub(super) number: u32,
    pub(super) answer: Answer,
}

#[derive(Clone, Debug)]
pub(super) enum Answer {
    Result(u32),
    /// The TSNs were reset: the next one of this side, and that of the peer.
    Tsns(Tsn, Tsn),
    /// A request of this side, as in the chunk, which is the answer.
    Request(Bytes),
}

/// The value of a chunk with these answers; a request is the last.
// req: rfc6525 5.2.1 "If multiple parameters have to be returned, they MUST"
// req: rfc6525 5.1.7 "MUST be copied to the Re-configuration Response Sequence"
// req: rfc6525 5.1.7 "MUST be placed in the Result field of the"
// req: rfc6525 5.1.7 "For other requests, the Sender's Next TSN field, which is"
// req: rfc6525 5.1.7 "For other requests, the Receiver's Next TSN field, which is"
// req: rfc6525 4.4 "This parameter MUST NOT appear in any other chunk type"
// req: rfc6525 4.4 "Next TSN) MUST be present, or no field"
pub(super) fn encode(replies: &[Reply]) -> Bytes {
    let mut value = Vec::new();
    let mut request = None;
    for reply in replies {
        let (result, next_tsns) = match &reply.answer {
            Answer::Result(result) => (*result, None),
            Answer::Tsns(local, remote) => (result::PERFORMED, Some((*local, *remote))),
            Answer::Request(own) => {
                request = Some(own);
                continue;
            }
        };
        let response = reply.number;
        Parameter::ReconfigResponse { response, result, next_tsns }.encode(&mut value);
    }
    if let Some(request) = request {
        value.extend_from_slice(request);
    }
    trimmed(&value)
}

/// The parameters without the padding of the last one, which a chunk's length does not count.
pub(super) fn trimmed(value: &[u8]) -> Bytes {
    Bytes::copy_from_slice(Parameters::new(value).bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_follows_the_other_answer() {
        let request = Bytes::from_static(&[0, 18, 0, 12, 0, 0, 0, 9, 0, 3, 0, 0]);
        let first = Reply { number: 1, answer: Answer::Request(request.clone()) };
        let second = Reply { number: 2, answer: Answer::Result(result::DENIED) };
        let value = encode(&[first, second]);
        assert_eq!(value[..12], [0, 16, 0, 12, 0, 0, 0, 2, 0, 0, 0, 2]);
        assert_eq!(value[12..], request);
    }
}
