//! The functions that this library replaces, in the libraries behind it: usually libc's.

use std::ffi::{CStr, c_void};
use std::sync::atomic::{AtomicPtr, Ordering};

use libc::{
    c_int, c_uint, c_ulong, iovec, mmsghdr, msghdr, size_t, sockaddr, socklen_t, ssize_t, timespec,
};

/// The address of a function, looked up once. Null if no library has it.
fn address(known: &AtomicPtr<c_void>, name: &CStr) -> *mut c_void {
    let address = known.load(Ordering::Relaxed);
    if !address.is_null() {
        return address;
    }
    // SAFETY: the name ends with a null byte.
    let address = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) };
    known.store(address, Ordering::Relaxed);
    address
}

macro_rules! next {
    ($($symbol:literal $name:ident($($argument:ident: $type:ty),*) -> $result:ty;)*) => {
        $(
            /// The function of this name in the next library.
            ///
            /// # Safety
            /// As that function.
            pub(crate) unsafe fn $name($($argument: $type),*) -> $result {
                let next = address(&addresses::$name, $symbol);
                if next.is_null() {
                    set_errno(libc::ENOSYS);
                    return -1;
                }
                // SAFETY: the function of this name has this type in every C library.
                let next: unsafe extern "C" fn($($type),*) -> $result = unsafe { std::mem::transmute(next) };
                // SAFETY: the caller's promise.
                unsafe { next($($argument),*) }
            }
        )*

        #[expect(non_upper_case_globals, reason = "named after the functions")]
        mod addresses {
            use std::ffi::c_void;
            use std::sync::atomic::AtomicPtr;

            $(pub(super) static $name: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());)*
        }

        /// Looks up all functions, so that later calls need not do it in a signal handler.
        pub(crate) fn resolve() {
            $(let _ = address(&addresses::$name, $symbol);)*
        }
    };
}

next! {
    c"socket" socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int;
    c"bind" bind(fd: c_int, address: *const sockaddr, len: socklen_t) -> c_int;
    c"listen" listen(fd: c_int, backlog: c_int) -> c_int;
    c"accept" accept(fd: c_int, address: *mut sockaddr, len: *mut socklen_t) -> c_int;
    c"accept4" accept4(fd: c_int, address: *mut sockaddr, len: *mut socklen_t, flags: c_int) -> c_int;
    c"connect" connect(fd: c_int, address: *const sockaddr, len: socklen_t) -> c_int;
    c"shutdown" shutdown(fd: c_int, how: c_int) -> c_int;
    c"getsockname" getsockname(fd: c_int, address: *mut sockaddr, len: *mut socklen_t) -> c_int;
    c"getpeername" getpeername(fd: c_int, address: *mut sockaddr, len: *mut socklen_t) -> c_int;
    c"getsockopt" getsockopt(fd: c_int, level: c_int, name: c_int, value: *mut c_void, len: *mut socklen_t) -> c_int;
    c"setsockopt" setsockopt(fd: c_int, level: c_int, name: c_int, value: *const c_void, len: socklen_t) -> c_int;
    c"send" send(fd: c_int, data: *const c_void, len: size_t, flags: c_int) -> ssize_t;
    c"sendto" sendto(fd: c_int, data: *const c_void, len: size_t, flags: c_int, to: *const sockaddr, tolen: socklen_t) -> ssize_t;
    c"sendmsg" sendmsg(fd: c_int, message: *const msghdr, flags: c_int) -> ssize_t;
    c"sendmmsg" sendmmsg(fd: c_int, messages: *mut mmsghdr, count: c_uint, flags: c_int) -> c_int;
    c"recv" recv(fd: c_int, data: *mut c_void, len: size_t, flags: c_int) -> ssize_t;
    c"recvfrom" recvfrom(fd: c_int, data: *mut c_void, len: size_t, flags: c_int, from: *mut sockaddr, fromlen: *mut socklen_t) -> ssize_t;
    c"recvmsg" recvmsg(fd: c_int, message: *mut msghdr, flags: c_int) -> ssize_t;
    c"recvmmsg" recvmmsg(fd: c_int, messages: *mut mmsghdr, count: c_uint, flags: c_int, timeout: *mut timespec) -> c_int;
    c"read" read(fd: c_int, data: *mut c_void, len: size_t) -> ssize_t;
    c"readv" readv(fd: c_int, list: *const iovec, count: c_int) -> ssize_t;
    c"write" write(fd: c_int, data: *const c_void, len: size_t) -> ssize_t;
    c"writev" writev(fd: c_int, list: *const iovec, count: c_int) -> ssize_t;
    c"__read_chk" read_chk(fd: c_int, data: *mut c_void, len: size_t, room: size_t) -> ssize_t;
    c"__recv_chk" recv_chk(fd: c_int, data: *mut c_void, len: size_t, room: size_t, flags: c_int) -> ssize_t;
    c"__recvfrom_chk" recvfrom_chk(fd: c_int, data: *mut c_void, len: size_t, room: size_t, flags: c_int, from: *mut sockaddr, fromlen: *mut socklen_t) -> ssize_t;
    c"ioctl" ioctl(fd: c_int, request: c_ulong, argument: *mut c_void) -> c_int;
    c"fcntl" fcntl(fd: c_int, command: c_int, argument: *mut c_void) -> c_int;
    c"fcntl64" fcntl64(fd: c_int, command: c_int, argument: *mut c_void) -> c_int;
    c"dup" dup(fd: c_int) -> c_int;
    c"dup2" dup2(fd: c_int, to: c_int) -> c_int;
    c"dup3" dup3(fd: c_int, to: c_int, flags: c_int) -> c_int;
}

/// The calling thread's `errno`.
pub(crate) fn errno() -> c_int {
    // SAFETY: the C library gives a valid pointer to this thread's own `errno`.
    unsafe { *libc::__errno_location() }
}

/// Sets the calling thread's `errno`.
pub(crate) fn set_errno(errno: c_int) {
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = errno };
}

/// The result of a system call: a length, or its error number.
pub(crate) fn checked(result: ssize_t) -> Result<usize, c_int> {
    usize::try_from(result).map_err(|_| errno())
}
