/* Loaded into User-Mode Linux (LD_PRELOAD). Its buffer for a process's floating-point registers is too
 * short on processors with AVX-512 or AMX: the host refuses to set registers from it, and the guest does
 * not boot. This library fills in the missing registers from the process itself. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <elf.h>
#include <stdarg.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/types.h>
#include <sys/uio.h>

typedef long (*ptrace_call)(enum __ptrace_request, pid_t, void *, void *);

static ptrace_call next;

__attribute__((constructor)) static void find_next(void)
{
    next = (ptrace_call)dlsym(RTLD_NEXT, "ptrace");
}

long ptrace(enum __ptrace_request request, ...)
{
    va_list arguments;
    va_start(arguments, request);
    pid_t pid = va_arg(arguments, pid_t);
    void *address = va_arg(arguments, void *), *data = va_arg(arguments, void *);
    va_end(arguments);
    if (request == PTRACE_SETREGSET && address == (void *)NT_X86_XSTATE) {
        /* Static: the guest's kernel has one thread and a small stack. */
        static char whole[1 << 15] __attribute__((aligned(64)));
        const struct iovec *given = data;
        struct iovec all = {whole, sizeof whole};
        if (next(PTRACE_GETREGSET, pid, address, &all) == 0 && all.iov_len > given->iov_len) {
            memcpy(whole, given->iov_base, given->iov_len);
            return next(request, pid, address, &all);
        }
    }
    return next(request, pid, address, data);
}
