//! Takes from this process all that converting a picture does not need.
//!
//! Limits of resources come first, then Landlock where the kernel has it, and last a filter of system calls, without which
//! nothing is converted. Each layer holds without the others.

use std::collections::BTreeMap;
use std::io;

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, CompatLevel, Compatible as _, Ruleset, RulesetAttr as _,
    Scope,
};
use rustix::process::{Resource, Rlimit, Signal, set_parent_process_death_signal, setrlimit};
use seccompiler::{
    SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    TargetArch,
};

/// Most bytes of address space, with the program itself and libraries.
const MEMORY: u64 = 768 << 20;

/// Most seconds of processor time.
const SECONDS: u64 = 8;

/// Adds to the nice value: packets go first.
const NICE: i32 = 10;

/// Calls that may be made: reading and writing what is open, memory, signals to itself, time, chance, and the end.
const CALLS: [libc::c_long; 19] = [
    libc::SYS_read,
    libc::SYS_write,
    libc::SYS_brk,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_madvise,
    libc::SYS_futex,
    libc::SYS_clock_gettime,
    libc::SYS_getrandom,
    libc::SYS_getpid,
    libc::SYS_gettid,
    libc::SYS_tgkill,
    libc::SYS_sched_yield,
    libc::SYS_sigaltstack,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_exit,
    libc::SYS_exit_group,
];

/// Calls that may be made unless they ask for memory that can be executed: that is in this argument.
const WITHOUT_CODE: [libc::c_long; 2] = [libc::SYS_mmap, libc::SYS_mprotect];
const PROTECTION: u8 = 2;

/// Enters the sandbox, which cannot be left.
pub(crate) fn enter() -> Result<(), String> {
    limits().map_err(|error| format!("limits cannot be set: {error}"))?;
    // What the kernel does not know is left out; the filter below stands for it.
    landlock().map_err(|error| format!("Landlock failed: {error}"))?;
    filter().map_err(|error| format!("system calls cannot be filtered: {error}"))
}

fn limits() -> io::Result<()> {
    // The process must not outlive the one that waits for it.
    set_parent_process_death_signal(Some(Signal::KILL))?;
    // Without the right to it, there is nothing to give up.
    let _ = rustix::process::nice(NICE);
    for (resource, most) in [
        (Resource::As, MEMORY),
        (Resource::Cpu, SECONDS),
        (Resource::Core, 0),
        (Resource::Fsize, 0),
        (Resource::Nproc, 0),
    ] {
        setrlimit(resource, Rlimit { current: Some(most), maximum: Some(most) })?;
    }
    Ok(())
}

fn landlock() -> Result<(), landlock::RulesetError> {
    let abi = ABI::V6;
    Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(abi))?
        .handle_access(AccessNet::from_all(abi))?
        .scope(Scope::from_all(abi))?
        .create()?
        .restrict_self()?;
    Ok(())
}

/// All calls but those above fail with EPERM: allocators ask for things that they can do without.
fn filter() -> Result<(), seccompiler::Error> {
    let architecture = TargetArch::try_from(std::env::consts::ARCH)?;
    let mut rules: BTreeMap<_, _> = CALLS.into_iter().map(|call| (call, Vec::new())).collect();
    for call in WITHOUT_CODE {
        let is_data = SeccompCmpOp::MaskedEq(libc::PROT_EXEC as u64);
        let condition = SeccompCondition::new(PROTECTION, SeccompCmpArgLen::Dword, is_data, 0)?;
        rules.insert(call, vec![SeccompRule::new(vec![condition])?]);
    }
    let refused = SeccompAction::Errno(libc::EPERM as u32);
    let filter = SeccompFilter::new(rules, refused, SeccompAction::Allow, architecture)?;
    seccompiler::apply_filter(&seccompiler::BpfProgram::try_from(filter)?)
}
