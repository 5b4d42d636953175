use super::*;

/// Time to process eight INITs, and time between two polls when there is nothing else to do.
const LOOK: Duration = Duration::from_micros(64);
const TURN: Duration = Duration::from_micros(3);

/// A processor in virtual time: INITs arrive at some rate, and other work takes some time in each
/// turn.
struct Processor {
    strangers: Strangers,
    now: Instant,
    /// INITs in the queue, and the number processed.
    waiting: u64,
    answered: u64,
    /// Time for other work.
    others: Duration,
}

impl Processor {
    fn new() -> Self {
        let now = Instant::ZERO + Duration::from_secs(1);
        let strangers = Strangers::new(now, 1);
        Self { strangers, now, waiting: 0, answered: 0, others: Duration::ZERO }
    }

    /// Runs the driver for `time`, while `rate` INITs per second arrive in a queue with room for
    /// `room`, and other work takes `work` in each turn. Returns the number of INITs that arrived.
    fn run(&mut self, time: Duration, rate: u64, room: u64, work: Duration) -> u64 {
        let begun = self.now;
        let mut arrived = 0;
        while self.now.saturating_since(begun) < time {
            let passed = self.now.saturating_since(begun).as_micros() as u64;
            let all = passed * rate / 1_000_000;
            self.waiting = (self.waiting + all - arrived).min(room);
            arrived = all;
            self.others += work;
            self.now += work;
            let mut idle = work.is_zero();
            while self.strangers.may_look(self.now, idle) && self.waiting > 0 {
                idle = false;
                let looked = self.waiting.min(8);
                (self.waiting, self.answered) = (self.waiting - looked, self.answered + looked);
                let ended = self.now + LOOK * looked as u32 / 8;
                self.strangers.looked(self.now, ended);
                self.now = ended;
            }
            self.now += TURN;
            self.others += TURN;
        }
        arrived
    }
}

#[test]
fn an_idle_processor_answers_what_it_can() {
    for rate in [1_000, 6_000, 20_000, 60_000, 100_000] {
        let mut processor = Processor::new();
        let arrived = processor.run(Duration::from_secs(1), rate, 1000, Duration::ZERO);
        assert!(processor.answered + 16 >= arrived, "{rate}: {} of {arrived}", processor.answered);
    }
    // It gets all the time except that of the turns.
    let mut processor = Processor::new();
    processor.run(Duration::from_secs(1), 1_000_000, 1000, Duration::ZERO);
    assert!(processor.answered > 110_000, "{}", processor.answered);
}

#[test]
fn beside_other_work_strangers_have_a_fifth() {
    for work in [40, 100, 1000] {
        let mut processor = Processor::new();
        processor.run(Duration::from_secs(1), 1_000_000, 1000, Duration::from_micros(work));
        let strangers = LOOK * (processor.answered / 8) as u32;
        let share = strangers.as_secs_f64() / (strangers + processor.others).as_secs_f64();
        // The share is smaller if turns are so long that they earn more credit than may be saved.
        let least = if work < 500 { 0.18 } else { 0.17 };
        assert!((least..0.201).contains(&share), "{work}: {share}");
    }
}

#[test]
fn work_in_small_pieces_is_not_displaced() {
    let mut processor = Processor::new();
    processor.run(Duration::from_secs(1), 1_000_000, 1000, Duration::from_micros(30));
    // Other work has four fifths of the time.
    assert!(processor.others > Duration::from_millis(790), "{:?}", processor.others);
}

#[test]
fn nothing_is_left_of_a_flood() {
    let mut processor = Processor::new();
    processor.run(Duration::from_secs(3), 1_000_000, 1000, Duration::from_micros(100));
    // The queue is emptied, and then the first INIT that arrives is answered in the next turn.
    processor.run(Duration::from_millis(100), 0, 1000, Duration::ZERO);
    for _ in 0..1000 {
        assert_eq!(processor.waiting, 0);
        processor.now += Duration::from_millis(1);
        let answered = processor.answered;
        processor.waiting = 1;
        processor.run(TURN, 0, 1000, Duration::ZERO);
        assert_eq!(processor.answered, answered + 1);
    }
}

#[test]
fn a_look_that_the_system_drew_out_is_soon_forgotten() {
    let mut strangers = Strangers::new(Instant::ZERO, 1);
    let at = |millis| Instant::ZERO + Duration::from_millis(millis);
    strangers.looked(at(0), at(500));
    assert!(!strangers.may_look(at(507), false));
    assert!(strangers.may_look(at(509), false));
}

#[test]
fn shards_on_one_thread_have_one_share() {
    let at = |micros| Instant::ZERO + Duration::from_micros(micros);
    for shards in [1, 2, 8] {
        let mut strangers = Strangers::new(at(0), shards);
        strangers.looked(at(0), at(100));
        let paid = 100 + 100 * u64::from(SHARE) * shards as u64;
        assert!(!strangers.may_look(at(paid - 10), false));
        assert!(strangers.may_look(at(paid + 10 * shards as u64), false));
    }
}

#[test]
fn many_packets_that_lead_to_nothing_are_a_flood() {
    let mut strangers = Strangers::new(Instant::ZERO, 1);
    let at = |millis| Instant::ZERO + Duration::from_millis(millis);
    // One per millisecond for ten seconds, all from handshakes in progress.
    assert!((0..10_000).all(|ms| !strangers.flooded(at(ms), ms)));
    assert!((0..10_000).all(|ms| !strangers.flooded(at(ms), 10_000 + ms % 400)));
    assert!(strangers.flooded(at(10_001), 11_000));
}
