//! The classic BPF program that classifies packets by their verification tag.

use anabranch_proto::TagMark;
use nix::libc;

/// Offsets in the SCTP header and the first chunk (RFC 9260 section 3).
const PORTS: u32 = 0;
const VERIFICATION_TAG: u32 = 4;
const FIRST_CHUNK_TYPE: u32 = 12;

/// Length of the common header and the first chunk header: the shortest packet.
const LEAST: u32 = 16;

/// The chunk type INIT, which needs no association.
const INIT: u32 = 1;

/// Number of hashed bytes, at the position where HalfSipHash expects it.
const LENGTH: u32 = 8 << 24;

/// The first header of the packet when the kernel runs the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::runtime) enum Start {
    /// The SCTP packet.
    Sctp,
    /// An IPv4 packet.
    Ipv4,
}

/// The class of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    /// It has a marked tag: it belongs to an association, or is a COOKIE ECHO.
    Marked,
    /// It begins with INIT.
    Init,
    /// Everything else.
    Rest,
}

/// One instruction (linux/filter.h).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Instruction {
    pub(super) code: u32,
    pub(super) if_true: u8,
    pub(super) if_false: u8,
    pub(super) k: u32,
}

/// Indexes of the scratch memory: the four words of HalfSipHash, and values read from the packet.
const V: [u32; 4] = [0, 1, 2, 3];
const WORDS: [u32; 2] = [4, 5];
const TAG: u32 = 6;
pub(super) const SHARD: u32 = 7;

/// A program under construction.
#[derive(Debug, Default)]
pub(super) struct Program(pub(super) Vec<Instruction>);

impl Program {
    pub(super) fn push(&mut self, code: u32, k: u32) {
        self.0.push(Instruction { code, if_true: 0, if_false: 0, k });
    }

    /// Applies an operation to the accumulator and a constant.
    pub(super) fn compute(&mut self, operation: u32, k: u32) {
        self.push(libc::BPF_ALU | operation | libc::BPF_K, k);
    }

    /// Applies an operation to the accumulator and the index register.
    fn compute_x(&mut self, operation: u32) {
        self.push(libc::BPF_ALU | operation | libc::BPF_X, 0);
    }

    /// Loads a word of the scratch memory into the accumulator.
    pub(super) fn load(&mut self, place: u32) {
        self.push(libc::BPF_LD | libc::BPF_MEM, place);
    }

    fn load_x(&mut self, place: u32) {
        self.push(libc::BPF_LDX | libc::BPF_MEM, place);
    }

    /// Stores the accumulator in the scratch memory.
    pub(super) fn store(&mut self, place: u32) {
        self.push(libc::BPF_ST, place);
    }

    /// Ends the program with this result.
    pub(super) fn answer(&mut self, k: u32) {
        self.push(libc::BPF_RET | libc::BPF_K, k);
    }

    /// Adds the instructions of `then`, which run only if the comparison holds.
    pub(super) fn only_if(&mut self, condition: u32, k: u32, then: impl FnOnce(&mut Self)) {
        let at = self.0.len();
        self.push(libc::BPF_JMP | condition | libc::BPF_K, k);
        then(self);
        let over = u8::try_from(self.0.len() - at - 1).unwrap_or(u8::MAX);
        self.0[at].if_false = over;
    }

    /// Loads the offset of the SCTP header into the index register; ends with `short` for packets
    /// that are too short.
    fn begin(&mut self, start: Start, short: u32) {
        match start {
            Start::Sctp => self.push(libc::BPF_LDX | libc::BPF_W | libc::BPF_IMM, 0),
            // Loads the length of the IPv4 header, which the first byte gives in words.
            Start::Ipv4 => self.push(libc::BPF_LDX | libc::BPF_B | libc::BPF_MSH, 0),
        }
        self.push(libc::BPF_LD | libc::BPF_W | libc::BPF_LEN, 0);
        self.compute_x(libc::BPF_SUB);
        let at = self.0.len();
        self.push(libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K, LEAST);
        self.0[at].if_true = 1;
        self.answer(short);
    }

    fn read(&mut self, size: u32, place: u32) {
        self.push(libc::BPF_LD | size | libc::BPF_IND, place);
    }

    fn add(&mut self, to: u32, what: u32) {
        self.load_x(what);
        self.load(to);
        self.compute_x(libc::BPF_ADD);
        self.store(to);
    }

    /// Loads a word, rotated to the left, into the accumulator.
    fn rotate(&mut self, place: u32, bits: u32) {
        self.load(place);
        self.compute(libc::BPF_RSH, 32 - bits);
        self.push(libc::BPF_MISC | libc::BPF_TAX, 0);
        self.load(place);
        self.compute(libc::BPF_LSH, bits);
        self.compute_x(libc::BPF_OR);
    }

    fn rotate_and_xor(&mut self, place: u32, bits: u32, other: u32) {
        self.rotate(place, bits);
        self.load_x(other);
        self.compute_x(libc::BPF_XOR);
        self.store(place);
    }

    /// One SipRound.
    fn round(&mut self) {
        let half = |program: &mut Self| {
            program.rotate(V[0], 16);
            program.store(V[0]);
        };
        self.add(V[0], V[1]);
        self.rotate_and_xor(V[1], 5, V[0]);
        half(self);
        self.add(V[2], V[3]);
        self.rotate_and_xor(V[3], 8, V[2]);
        self.add(V[0], V[3]);
        self.rotate_and_xor(V[3], 7, V[0]);
        self.add(V[2], V[1]);
        self.rotate_and_xor(V[1], 13, V[2]);
        self.rotate(V[2], 16);
        self.store(V[2]);
    }

    /// Computes the hash of [`TagMark`] of both words in the accumulator.
    fn hash(&mut self, key: [u32; 2]) {
        let first = [key[0], key[1], 0x6c79_6765 ^ key[0], 0x7465_6462 ^ key[1]];
        for (place, value) in V.into_iter().zip(first) {
            self.push(libc::BPF_LD | libc::BPF_IMM, value);
            self.store(place);
        }
        let words = WORDS.map(Some).into_iter().chain([None]);
        for word in words {
            let mix = |program: &mut Self, place: u32| {
                program.load(place);
                match word {
                    Some(word) => {
                        program.load_x(word);
                        program.compute_x(libc::BPF_XOR);
                    }
                    None => program.compute(libc::BPF_XOR, LENGTH),
                }
                program.store(place);
            };
            mix(self, V[3]);
            self.round();
            mix(self, V[0]);
        }
        self.load(V[2]);
        self.compute(libc::BPF_XOR, 0xff);
        self.store(V[2]);
        (0..3).for_each(|_| self.round());
        self.load(V[1]);
        self.load_x(V[3]);
        self.compute_x(libc::BPF_XOR);
    }
}

/// Makes a program that ends with the code that `answer` adds for each class of packets, or with
/// `short` for packets that are too short. The code of `prepare` may use the ports, which are in
/// the accumulator.
pub(super) fn classify(
    start: Start,
    mark: &TagMark,
    short: u32,
    prepare: impl FnOnce(&mut Program),
    answer: impl Fn(&mut Program, Class),
) -> Vec<Instruction> {
    let mut program = Program::default();
    program.begin(start, short);
    program.read(libc::BPF_W, VERIFICATION_TAG);
    program.store(TAG);
    program.compute(libc::BPF_RSH, TagMark::HASH_BITS);
    program.store(WORDS[1]);
    program.read(libc::BPF_W, PORTS);
    program.store(WORDS[0]);
    prepare(&mut program);
    program.read(libc::BPF_B, FIRST_CHUNK_TYPE);
    program.only_if(libc::BPF_JEQ, INIT, |program| answer(program, Class::Init));
    program.hash(mark.key());
    // The xor of both is zero if they are equal.
    program.load_x(TAG);
    program.compute_x(libc::BPF_XOR);
    program.compute(libc::BPF_AND, (1 << TagMark::HASH_BITS) - 1);
    program.only_if(libc::BPF_JEQ, 0, |program| answer(program, Class::Marked));
    answer(&mut program, Class::Rest);
    program.0
}
