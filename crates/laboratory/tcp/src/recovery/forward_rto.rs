//! F-RTO (RFC 5682). After a timeout the first segment is retransmitted, and then new data is sent. The next
//! acknowledgements show whether the other segments were lost or only late.

use crate::options::ForwardRto;

/// The state of the algorithm.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Step {
    /// Inactive.
    #[default]
    Idle,
    /// The first segment, up to this position, was retransmitted (step 2).
    Again(u64),
    /// New data was sent, starting at this position (step 3, "recover").
    Forward(u64),
}

/// The acknowledgement to evaluate.
#[derive(Clone, Copy, Debug)]
pub(crate) struct News {
    /// The cumulative acknowledgement, and whether it advanced.
    pub(crate) position: u64,
    pub(crate) advanced: bool,
    /// Whether it is a duplicate acknowledgement.
    pub(crate) duplicate: bool,
    /// Bytes that blocks acknowledge for the first time, and the end of the highest block.
    pub(crate) selected: u64,
    pub(crate) highest: u64,
    /// The end of the data sent, and whether new data may follow.
    pub(crate) next: u64,
    pub(crate) new_data: bool,
}

/// The action to take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Not decided yet.
    Wait,
    /// Send up to two new segments; the next acknowledgement decides.
    SendNew,
    /// The timeout was genuine: retransmit everything else, with a window of at most this many segments, if given.
    Lost(Option<u32>),
    /// The timeout was spurious.
    Spurious,
}

impl Step {
    /// Evaluates an acknowledgement after the timeout.
    pub(crate) fn read(&mut self, how: ForwardRto, news: &News) -> Verdict {
        let verdict = match *self {
            Self::Idle => return Verdict::Wait,
            Self::Again(end) => Self::after_again(how, end, news),
            Self::Forward(recover) => Self::after_forward(how, recover, news),
        };
        *self = match verdict {
            Verdict::Wait => *self,
            Verdict::SendNew => Self::Forward(news.next),
            Verdict::Lost(_) | Verdict::Spurious => Self::Idle,
        };
        verdict
    }

    fn after_again(how: ForwardRto, end: u64, news: &News) -> Verdict {
        if !news.advanced {
            // With blocks, the scoreboard has recorded them; continue (section 3.1 step 2).
            let ends = how == ForwardRto::Basic && news.duplicate;
            return if ends { Verdict::Lost(None) } else { Verdict::Wait };
        }
        if news.position < end || news.position >= news.next || !news.new_data {
            return Verdict::Lost(None);
        }
        Verdict::SendNew
    }

    fn after_forward(how: ForwardRto, recover: u64, news: &News) -> Verdict {
        if !news.advanced && !news.duplicate {
            return Verdict::Wait;
        }
        let told = match how {
            ForwardRto::Sack => {
                news.position <= recover
                    && news.highest <= recover
                    && (news.advanced || news.selected > 0)
            }
            ForwardRto::Off | ForwardRto::Basic => news.advanced,
        };
        if told { Verdict::Spurious } else { Verdict::Lost(Some(3)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Segments 1 to 5 of 100 bytes are outstanding; the first was retransmitted.
    const AFTER_TIMEOUT: Step = Step::Again(100);

    fn news(position: u64, advanced: bool) -> News {
        let duplicate = !advanced;
        News { position, advanced, duplicate, selected: 0, highest: 0, next: 500, new_data: true }
    }

    // test: rfc5682 2.1 "MUST take the following steps after the retransmission timer expires"
    #[test]
    fn the_basic_algorithm() {
        let how = ForwardRto::Basic;
        let run = |all: &[News]| {
            let mut step = AFTER_TIMEOUT;
            all.iter().map(|news| step.read(how, news)).collect::<Vec<_>>()
        };
        assert_eq!(run(&[news(0, false)]), [Verdict::Lost(None)], "2a: a duplicate");
        assert_eq!(run(&[news(500, true)]), [Verdict::Lost(None)], "2a: all is covered");
        assert_eq!(
            run(&[news(60, true)]),
            [Verdict::Lost(None)],
            "2a: a part of what was sent again"
        );
        let none = News { new_data: false, ..news(100, true) };
        assert_eq!(run(&[none]), [Verdict::Lost(None)], "2b without new data");
        let lost = [news(100, true), news(100, false)];
        assert_eq!(run(&lost), [Verdict::SendNew, Verdict::Lost(Some(3))], "3a");
        let late = [news(100, true), news(200, true)];
        assert_eq!(run(&late), [Verdict::SendNew, Verdict::Spurious], "3b");
        let update = News { duplicate: false, ..news(100, false) };
        assert_eq!(run(&[news(100, true), update]), [Verdict::SendNew, Verdict::Wait]);
    }

    // test: rfc5682 3.1 "it MUST follow the steps below"
    #[test]
    fn with_selective_acknowledgements() {
        let how = ForwardRto::Sack;
        let run = |all: &[News]| {
            let mut step = AFTER_TIMEOUT;
            all.iter().map(|news| step.read(how, news)).collect::<Vec<_>>()
        };
        let block = |highest| News { selected: 100, highest, ..news(100, false) };
        let early = News { position: 0, ..block(300) };
        let all = run(&[early, news(100, true), block(400)]);
        assert_eq!(all, [Verdict::Wait, Verdict::SendNew, Verdict::Spurious], "3b by a block");
        assert_eq!(run(&[news(500, true)]), [Verdict::Lost(None)], "2a");
        let new = run(&[news(100, true), block(600)]);
        assert_eq!(new, [Verdict::SendNew, Verdict::Lost(Some(3))], "3a: the new data came first");
        let empty = run(&[news(100, true), news(100, false)]);
        assert_eq!(empty, [Verdict::SendNew, Verdict::Lost(Some(3))], "3a: nothing new");
    }
}
