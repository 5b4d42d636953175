/* A library for LD_PRELOAD: the first connection of the process, to the engine, is closed before anything is sent. */
#include <dlfcn.h>
#include <sys/socket.h>

int connect(int fd, const struct sockaddr *address, socklen_t length)
{
    static int connections;
    int (*next)(int, const struct sockaddr *, socklen_t) = (int (*)(int, const struct sockaddr *, socklen_t))dlsym(RTLD_NEXT, "connect");
    int result = next(fd, address, length);
    if (result == 0 && address->sa_family == AF_UNIX && !connections++)
        shutdown(fd, SHUT_WR);
    return result;
}
