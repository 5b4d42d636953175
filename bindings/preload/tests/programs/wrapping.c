/* Another library for LD_PRELOAD. It says once which of its functions the program, or the library before it, calls. */
#include <dlfcn.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static void say(const char *text)
{
    if (write(STDERR_FILENO, text, strlen(text)) < 0)
        _exit(1);
}

int socket(int domain, int type, int protocol)
{
    static int said;
    int (*next)(int, int, int) = (int (*)(int, int, int))dlsym(RTLD_NEXT, "socket");
    if (!said++)
        say(NAME " socket\n");
    return next(domain, type, protocol);
}

ssize_t send(int fd, const void *data, size_t length, int flags)
{
    static int said;
    ssize_t (*next)(int, const void *, size_t, int) = (ssize_t (*)(int, const void *, size_t, int))dlsym(RTLD_NEXT, "send");
    if (!said++)
        say(NAME " send\n");
    return next(fd, data, length, flags);
}
