//! Programs that make system calls without the C library (`--trap`): the kernel hands their socket calls over.
//!
//! A program gets a channel as with the library, but reads and writes it by itself: messages in it are plain data. All
//! other calls on it are answered here. Nothing that the program says is trusted: its memory and its descriptors are
//! opened by the number of its thread, and then the kernel is asked whether the call still waits. If so, they are that
//! thread's, and stay so. Calls on other descriptors continue in the kernel.
//!
//! A signal ends a call, which the program then begins again. So what a call takes from a socket is put back if it has
//! ended before its answer.
//!
//! | module | what it does |
//! |---|---|
//! | `calls` | answers a call |
//! | `control` | the calls that Linux makes by options |
//! | `memory` | the program's memory |
//! | `messages` | calls that send and receive |
//! | `process` | the program's descriptors |
//! | `taking` | takes messages out of a plain channel |

mod calls;
mod control;
mod memory;
mod messages;
mod process;
mod taking;

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use anabranch_notify::{Call, Listener, Notification, Reply};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::task::AbortHandle;

use crate::answer;
use crate::engine::{Engine, Shared};
use crate::lock::lock;
use crate::outbox::Writing;
use crate::transfer;
use calls::Trapped;
use memory::Memory;
use process::Process;

/// Calls that are remembered before those that have been answered are removed.
const MANY: usize = 1024;

/// The calls of a program and its children.
#[derive(Debug)]
pub(crate) struct Trap {
    shared: Arc<Shared>,
    listener: AsyncFd<Listener>,
    /// For each thread the call that it waits in.
    waiting: Mutex<HashMap<i32, AbortHandle>>,
    /// Says what does not work, once.
    complain: fn(&str),
    complained: AtomicBool,
}

impl Engine {
    /// Answers the calls that a program makes by itself, until its last process has ended. `complain` says what does
    /// not work.
    pub fn answer_calls(&self, listener: Listener, complain: fn(&str)) {
        let shared = self.shared.clone();
        let host = shared.host.clone();
        host.spawn(async move {
            let Ok(listener) = transfer::watch(listener, Interest::READABLE) else { return };
            let (waiting, complained) = (Mutex::default(), AtomicBool::new(false));
            Arc::new(Trap { shared, listener, waiting, complain, complained }).run().await;
        });
    }
}

/// Whether a call waits, or all processes have ended.
fn events(listener: &Listener) -> PollFlags {
    let mut entries = [PollFd::new(listener, PollFlags::IN)];
    match poll(&mut entries, Some(&Timespec::default())) {
        Ok(_) => entries[0].revents(),
        Err(_) => PollFlags::empty(),
    }
}

impl Trap {
    async fn run(self: Arc<Self>) {
        while let Ok(mut ready) = self.listener.readable().await {
            let events = events(self.listener.get_ref());
            if events.contains(PollFlags::IN) {
                // Does not block, because a call waits. It may have ended meanwhile.
                if let Ok(notification) = self.listener.get_ref().receive() {
                    self.begin(&notification);
                }
            } else if events.intersects(PollFlags::HUP | PollFlags::ERR) {
                return;
            } else {
                ready.clear_ready();
            }
        }
    }

    fn reply(&self, id: u64, reply: Reply) -> io::Result<()> {
        self.listener.get_ref().reply(id, reply)
    }

    fn is_valid(&self, id: u64) -> bool {
        self.listener.get_ref().is_valid(id)
    }

    /// Answers a call at once if it is not about a socket of this engine, or by a task.
    fn begin(self: &Arc<Self>, notification: &Notification) {
        // What the thread waited in before has ended.
        if let Some(before) = lock(&self.waiting).remove(&notification.thread) {
            before.abort();
        }
        match self.find(notification) {
            // If the call has ended, nobody needs the answer, here and everywhere.
            Err(reply) => drop(self.reply(notification.id, reply)),
            Ok(None) => {}
            Ok(Some(trapped)) => {
                let task = tokio::spawn(trapped.answer()).abort_handle();
                let mut waiting = lock(&self.waiting);
                if waiting.len() >= MANY {
                    waiting.retain(|_, task| !task.is_finished());
                }
                waiting.insert(notification.thread, task);
            }
        }
    }

    /// The call and what it needs, if it is about a socket of this engine. `None` if nothing more is to be done.
    ///
    /// # Errors
    /// The answer to another call.
    fn find(self: &Arc<Self>, notification: &Notification) -> Result<Option<Trapped>, Reply> {
        let Notification { id, thread, call, arguments } = *notification;
        let call = call.ok_or(Reply::Continue)?;
        if call == Call::Socket {
            return self.socket(id, arguments.map(|each| each as i32)).map(|()| None);
        }
        let fd = arguments[0] as i32;
        let process = Process::of(thread).map_err(|_| Reply::Continue)?;
        let program = process.descriptor(fd).map_err(|error| self.unseen(&error))?;
        let channel = process::channel(&program).ok_or(Reply::Continue)?;
        let memory = Memory::of(thread).map_err(|error| self.unseen(&error))?;
        if !self.is_valid(id) {
            return Ok(None);
        }
        let open = self.shared.find(channel.handle).ok_or_else(|| self.gone(call))?;
        if open.writing == Writing::Headers {
            return Err(Reply::Continue);
        }
        let trap = self.clone();
        Ok(Some(Trapped { trap, id, call, fd, arguments, process, memory, open }))
    }

    /// The answer to a call on a socket that the engine no longer has: its association has ended, and all was read. The
    /// kernel knows that both directions of the channel have ended.
    fn gone(&self, call: Call) -> Reply {
        match call {
            _ if self.shared.is_stopping() => Reply::Error(libc::ENETDOWN),
            Call::ReceiveFrom | Call::ReceiveMsg => Reply::Continue,
            Call::SendTo | Call::SendMsg => Reply::Error(libc::EPIPE),
            _ => Reply::Error(libc::ENOTCONN),
        }
    }

    /// A descriptor or memory that cannot be opened. Usually the descriptor does not exist.
    fn unseen(&self, error: &io::Error) -> Reply {
        if error.kind() == io::ErrorKind::PermissionDenied {
            self.complain_once(
                "a process does not let others see its memory (PR_SET_DUMPABLE, or another user): its SCTP sockets do not work",
            );
        }
        Reply::Continue
    }

    fn complain_once(&self, sentence: &str) {
        if !self.complained.swap(true, Ordering::Relaxed) {
            (self.complain)(sentence);
        }
    }

    /// `socket`.
    fn socket(&self, id: u64, [domain, kind, protocol, ..]: [i32; 6]) -> Result<(), Reply> {
        let base = kind & !(libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC);
        // A raw socket sees packets. Other protocols with SOCK_SEQPACKET are the kernel's to refuse.
        if base == libc::SOCK_RAW || !matches!(protocol, 0 | libc::IPPROTO_SCTP) {
            return Err(Reply::Continue);
        }
        let descriptor = answer::new_socket(&self.shared, [domain, kind, protocol], Writing::Plain)
            .map_err(Reply::Error)?;
        self.give(id, &descriptor, kind).map_err(Reply::Error)
    }

    /// Answers with a descriptor, with the flags of `socket` or `accept4`.
    ///
    /// # Errors
    /// EMFILE: the program can have no more.
    fn give(&self, id: u64, descriptor: &OwnedFd, flags: i32) -> Result<(), i32> {
        process::set_nonblocking(descriptor, flags & libc::SOCK_NONBLOCK != 0);
        let close_on_exec = flags & libc::SOCK_CLOEXEC != 0;
        let given = self.listener.get_ref().reply_with(id, descriptor.as_fd(), close_on_exec);
        given.map_err(|error| error.raw_os_error().unwrap_or(libc::EIO))
    }
}
