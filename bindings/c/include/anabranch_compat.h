/* Compiles programs written for kernel SCTP without changes:
 *
 *     cc -include anabranch_compat.h program.c $(pkg-config --cflags --libs anabranch)
 *
 * The plain names of socket calls become functions that check the descriptor: calls on IPPROTO_SCTP
 * sockets go to anabranch, all others to the system. When the program calls exit() or returns from
 * main, open sockets are closed and sent data is delivered. Environment variables set the UDP ports:
 * ANABRANCH_UDP_PORT the local one, ANABRANCH_REMOTE_UDP_PORT the peer's, each 9899 by default (but
 * clients use a free local port). ANABRANCH_RAW_IP=1 selects IP protocol 132. ANABRANCH_OPTIONS sets
 * options of the engine (docs/options.md): "profile=bulk;multipath=cmt-pf".
 *
 * The names are function-like macros: a pointer to `close` is the system's, and calls of a structure's
 * member with such a name are replaced, too (docs/c.md). A forked child cannot use its parent's sockets
 * (EBADF). */
#ifndef ANABRANCH_COMPAT_H
#define ANABRANCH_COMPAT_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#define ANABRANCH_COMPAT_GNU_
#endif

#include <anabranch.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

/* A program may define _GNU_SOURCE itself, as 1 or empty; neither must be a redefinition. */
#ifdef ANABRANCH_COMPAT_GNU_
#undef _GNU_SOURCE
#undef ANABRANCH_COMPAT_GNU_
#endif

#define ANABRANCH_COMPAT_ static inline __attribute__((unused))

/* At exit the program waits this many milliseconds without progress for sent data to be delivered. */
#ifndef ANABRANCH_COMPAT_FINISH
#define ANABRANCH_COMPAT_FINISH 5000
#endif

ANABRANCH_COMPAT_ void anabranch_compat_finish(void)
{
    anabranch_close_all();
    anabranch_finish(ANABRANCH_COMPAT_FINISH);
}

ANABRANCH_COMPAT_ int anabranch_compat_socket(int domain, int type, int protocol)
{
    static int registered;
    const char *local = getenv("ANABRANCH_UDP_PORT");
    const char *remote = getenv("ANABRANCH_REMOTE_UDP_PORT");
    const char *raw = getenv("ANABRANCH_RAW_IP");
    const char *options = getenv("ANABRANCH_OPTIONS");
    char reason[200] = "";
    int fd, value;
    if (protocol != IPPROTO_SCTP)
        return socket(domain, type, protocol);
    fd = anabranch_socket(domain, type, protocol);
    if (fd < 0)
        return fd;
    if (!registered) {
        registered = 1;
        atexit(anabranch_compat_finish);
    }
    if (options != NULL && anabranch_set_options(fd, options, reason, sizeof reason) != 0) {
        value = errno;
        fprintf(stderr, "ANABRANCH_OPTIONS: %s\n", reason);
        anabranch_close(fd);
        errno = value;
        return -1;
    }
    value = 1;
    if (domain == AF_INET6) /* the default on Linux */
        anabranch_setsockopt(fd, IPPROTO_SCTP, SCTP_I_WANT_MAPPED_V4_ADDR, &value, sizeof value);
    if (raw != NULL && (value = atoi(raw)) != 0)
        anabranch_setsockopt(fd, IPPROTO_SCTP, ANABRANCH_RAW_IP, &value, sizeof value);
    if (local != NULL) {
        value = atoi(local);
        anabranch_setsockopt(fd, IPPROTO_SCTP, ANABRANCH_LOCAL_UDP_PORT, &value, sizeof value);
    }
    if (remote != NULL) {
        struct sctp_udpencaps to = {0};
        to.sue_address.ss_family = (sa_family_t)domain;
        to.sue_port = htons((uint16_t)atoi(remote));
        anabranch_setsockopt(fd, IPPROTO_SCTP, SCTP_REMOTE_UDP_ENCAPS_PORT, &to, sizeof to);
    }
    return fd;
}

/* A call whose first argument is the descriptor. */
#define ANABRANCH_COMPAT_CALL_(result, name, parameters, arguments)                                \
    ANABRANCH_COMPAT_ result anabranch_compat_##name parameters                                    \
    {                                                                                              \
        return anabranch_is_socket(fd) ? anabranch_##name arguments : name arguments;              \
    }

ANABRANCH_COMPAT_CALL_(int, bind, (int fd, const struct sockaddr *a, socklen_t l), (fd, a, l))
ANABRANCH_COMPAT_CALL_(int, listen, (int fd, int backlog), (fd, backlog))
ANABRANCH_COMPAT_CALL_(int, accept, (int fd, struct sockaddr *a, socklen_t *l), (fd, a, l))
ANABRANCH_COMPAT_CALL_(int, accept4, (int fd, struct sockaddr *a, socklen_t *l, int f),
                       (fd, a, l, f))
ANABRANCH_COMPAT_CALL_(int, connect, (int fd, const struct sockaddr *a, socklen_t l), (fd, a, l))
ANABRANCH_COMPAT_CALL_(int, shutdown, (int fd, int how), (fd, how))
ANABRANCH_COMPAT_CALL_(int, close, (int fd), (fd))
ANABRANCH_COMPAT_CALL_(int, getsockname, (int fd, struct sockaddr *a, socklen_t *l), (fd, a, l))
ANABRANCH_COMPAT_CALL_(int, getpeername, (int fd, struct sockaddr *a, socklen_t *l), (fd, a, l))
ANABRANCH_COMPAT_CALL_(int, getsockopt, (int fd, int v, int n, void *p, socklen_t *l),
                       (fd, v, n, p, l))
ANABRANCH_COMPAT_CALL_(int, setsockopt, (int fd, int v, int n, const void *p, socklen_t l),
                       (fd, v, n, p, l))
ANABRANCH_COMPAT_CALL_(ssize_t, send, (int fd, const void *d, size_t n, int f), (fd, d, n, f))
ANABRANCH_COMPAT_CALL_(ssize_t, sendto,
                       (int fd, const void *d, size_t n, int f, const struct sockaddr *a,
                        socklen_t l),
                       (fd, d, n, f, a, l))
ANABRANCH_COMPAT_CALL_(ssize_t, sendmsg, (int fd, const struct msghdr *m, int f), (fd, m, f))
ANABRANCH_COMPAT_CALL_(int, sendmmsg, (int fd, struct mmsghdr *m, unsigned int n, int f),
                       (fd, m, n, f))
ANABRANCH_COMPAT_CALL_(ssize_t, write, (int fd, const void *d, size_t n), (fd, d, n))
ANABRANCH_COMPAT_CALL_(ssize_t, writev, (int fd, const struct iovec *v, int n), (fd, v, n))
ANABRANCH_COMPAT_CALL_(ssize_t, recv, (int fd, void *d, size_t n, int f), (fd, d, n, f))
ANABRANCH_COMPAT_CALL_(ssize_t, recvfrom,
                       (int fd, void *d, size_t n, int f, struct sockaddr *a, socklen_t *l),
                       (fd, d, n, f, a, l))
ANABRANCH_COMPAT_CALL_(ssize_t, recvmsg, (int fd, struct msghdr *m, int f), (fd, m, f))
ANABRANCH_COMPAT_CALL_(int, recvmmsg,
                       (int fd, struct mmsghdr *m, unsigned int n, int f, struct timespec *t),
                       (fd, m, n, f, t))
ANABRANCH_COMPAT_CALL_(ssize_t, read, (int fd, void *d, size_t n), (fd, d, n))
ANABRANCH_COMPAT_CALL_(ssize_t, readv, (int fd, const struct iovec *v, int n), (fd, v, n))

/* The library answers FIONREAD; all other requests, such as FIONBIO, go to the descriptor. */
ANABRANCH_COMPAT_ int anabranch_compat_ioctl(int fd, unsigned long request, ...)
{
    va_list list;
    void *argument;
    va_start(list, request);
    argument = va_arg(list, void *);
    va_end(list);
    if (request == FIONREAD && anabranch_is_socket(fd))
        return anabranch_ioctl(fd, request, (int *)argument);
    return ioctl(fd, request, argument);
}

#define socket(...) anabranch_compat_socket(__VA_ARGS__)
#define bind(...) anabranch_compat_bind(__VA_ARGS__)
#define listen(...) anabranch_compat_listen(__VA_ARGS__)
#define accept(...) anabranch_compat_accept(__VA_ARGS__)
#define accept4(...) anabranch_compat_accept4(__VA_ARGS__)
#define connect(...) anabranch_compat_connect(__VA_ARGS__)
#define shutdown(...) anabranch_compat_shutdown(__VA_ARGS__)
#define close(...) anabranch_compat_close(__VA_ARGS__)
#define getsockname(...) anabranch_compat_getsockname(__VA_ARGS__)
#define getpeername(...) anabranch_compat_getpeername(__VA_ARGS__)
#define getsockopt(...) anabranch_compat_getsockopt(__VA_ARGS__)
#define setsockopt(...) anabranch_compat_setsockopt(__VA_ARGS__)
#define send(...) anabranch_compat_send(__VA_ARGS__)
#define sendto(...) anabranch_compat_sendto(__VA_ARGS__)
#define sendmsg(...) anabranch_compat_sendmsg(__VA_ARGS__)
#define sendmmsg(...) anabranch_compat_sendmmsg(__VA_ARGS__)
#define write(...) anabranch_compat_write(__VA_ARGS__)
#define writev(...) anabranch_compat_writev(__VA_ARGS__)
#define recv(...) anabranch_compat_recv(__VA_ARGS__)
#define recvfrom(...) anabranch_compat_recvfrom(__VA_ARGS__)
#define recvmsg(...) anabranch_compat_recvmsg(__VA_ARGS__)
#define recvmmsg(...) anabranch_compat_recvmmsg(__VA_ARGS__)
#define read(...) anabranch_compat_read(__VA_ARGS__)
#define readv(...) anabranch_compat_readv(__VA_ARGS__)
#define ioctl(...) anabranch_compat_ioctl(__VA_ARGS__)

/* Calls that exist only for SCTP always go to anabranch. */
#define sctp_bindx anabranch_sctp_bindx
#define sctp_connectx anabranch_sctp_connectx
#define sctp_peeloff anabranch_sctp_peeloff
#define sctp_peeloff_flags anabranch_sctp_peeloff_flags
#define sctp_getpaddrs anabranch_sctp_getpaddrs
#define sctp_freepaddrs anabranch_sctp_freepaddrs
#define sctp_getladdrs anabranch_sctp_getladdrs
#define sctp_freeladdrs anabranch_sctp_freeladdrs
#define sctp_opt_info anabranch_sctp_opt_info
#define sctp_getassocid anabranch_sctp_getassocid
#define sctp_getaddrlen anabranch_sctp_getaddrlen
#define sctp_sendmsg anabranch_sctp_sendmsg
#define sctp_recvmsg anabranch_sctp_recvmsg
#define sctp_send anabranch_sctp_send
#define sctp_sendx anabranch_sctp_sendx
#define sctp_sendv anabranch_sctp_sendv
#define sctp_recvv anabranch_sctp_recvv

#endif
