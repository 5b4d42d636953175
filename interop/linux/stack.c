/* The peer program's stack: SCTP of the Linux kernel, without libsctp. */
#include "../peer/stack.h"

#include <string.h>
#include <unistd.h>

#define FD(s) ((int)(intptr_t)(s) - 1)
#define SOCKET(fd) ((stack_socket)(intptr_t)((fd) + 1)) /* a failed call becomes NULL */

void stack_start(uint16_t udp, int silent)
{
    (void)udp; /* a sysctl of the namespace */
    (void)silent;
}

void stack_finish(void)
{
}

stack_socket stack_open(int family)
{
    int fd = socket(family, SOCK_STREAM, IPPROTO_SCTP);
    int on = 1;
    if (fd >= 0)
        setsockopt(fd, IPPROTO_SCTP, SCTP_RECVRCVINFO, &on, sizeof on);
    return SOCKET(fd);
}

int stack_option(stack_socket s, int level, int name, const void *value, socklen_t length)
{
    return setsockopt(FD(s), level, name, value, length);
}

int stack_query(stack_socket s, int level, int name, void *value, socklen_t *length)
{
    return getsockopt(FD(s), level, name, value, length);
}

static size_t first_length(const struct addresses *list)
{
    return ((const struct sockaddr *)list->packed)->sa_family == AF_INET
               ? sizeof(struct sockaddr_in)
               : sizeof(struct sockaddr_in6);
}

int stack_bind(stack_socket s, struct addresses *local)
{
    size_t first = first_length(local);
    if (bind(FD(s), (struct sockaddr *)local->packed, (socklen_t)first) != 0)
        return -1;
    if (local->count == 1)
        return 0;
    /* Bind the other addresses to the port that the first one got. */
    struct sockaddr_storage bound;
    socklen_t length = sizeof bound;
    if (getsockname(FD(s), (struct sockaddr *)&bound, &length) != 0)
        return -1;
    uint16_t port = ((struct sockaddr_in *)&bound)->sin_port;
    for (size_t at = 0; at < local->bytes;) {
        struct sockaddr_in *address = (struct sockaddr_in *)(local->packed + at);
        address->sin_port = port;
        at += address->sin_family == AF_INET ? sizeof(struct sockaddr_in)
                                             : sizeof(struct sockaddr_in6);
    }
    return setsockopt(FD(s), IPPROTO_SCTP, SCTP_SOCKOPT_BINDX_ADD, local->packed + first,
                      (socklen_t)(local->bytes - first));
}

int stack_rebind(stack_socket s, struct addresses *local, int add)
{
    return setsockopt(FD(s), IPPROTO_SCTP,
                      add ? SCTP_SOCKOPT_BINDX_ADD : SCTP_SOCKOPT_BINDX_REM, local->packed,
                      (socklen_t)local->bytes);
}

int stack_connect(stack_socket s, struct addresses *remote)
{
    if (remote->count == 1)
        return connect(FD(s), (struct sockaddr *)remote->packed, (socklen_t)first_length(remote));
    /* Returns the association's identifier. */
    return setsockopt(FD(s), IPPROTO_SCTP, SCTP_SOCKOPT_CONNECTX, remote->packed,
                      (socklen_t)remote->bytes) < 0
               ? -1
               : 0;
}

int stack_listen(stack_socket s)
{
    return listen(FD(s), 64);
}

stack_socket stack_accept(stack_socket s, uint16_t *port)
{
    struct sockaddr_storage from;
    socklen_t length = sizeof from;
    memset(&from, 0, sizeof from);
    int fd = accept(FD(s), (struct sockaddr *)&from, &length);
    int on = 1;
    if (fd >= 0)
        setsockopt(fd, IPPROTO_SCTP, SCTP_RECVRCVINFO, &on, sizeof on);
    *port = ntohs(((struct sockaddr_in *)&from)->sin_port); /* at the same place for both families */
    return SOCKET(fd);
}

ssize_t stack_receive(stack_socket s, void *buffer, size_t size, struct message *m)
{
    for (;;) {
        char control[256];
        struct iovec part = {buffer, size};
        struct msghdr header = {0};
        header.msg_iov = &part;
        header.msg_iovlen = 1;
        header.msg_control = control;
        header.msg_controllen = sizeof control;
        ssize_t n = recvmsg(FD(s), &header, 0);
        if (n > 0 && (header.msg_flags & MSG_NOTIFICATION)) {
            notified(buffer, (size_t)n);
            continue;
        }
        memset(m, 0, sizeof *m);
        m->whole = (header.msg_flags & MSG_EOR) != 0;
        for (struct cmsghdr *c = CMSG_FIRSTHDR(&header); n > 0 && c; c = CMSG_NXTHDR(&header, c)) {
            if (c->cmsg_level == IPPROTO_SCTP && c->cmsg_type == SCTP_RCVINFO) {
                struct sctp_rcvinfo info;
                memcpy(&info, CMSG_DATA(c), sizeof info);
                m->stream = info.rcv_sid;
                m->ppid = ntohl(info.rcv_ppid);
                m->unordered = (info.rcv_flags & SCTP_UNORDERED) != 0;
            }
        }
        return n;
    }
}

int stack_send(stack_socket s, const void *bytes, size_t length, const struct message *m)
{
    char control[CMSG_SPACE(sizeof(struct sctp_sndinfo))];
    memset(control, 0, sizeof control);
    struct iovec part = {(void *)bytes, length};
    struct msghdr header = {0};
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    header.msg_control = control;
    header.msg_controllen = sizeof control;
    struct cmsghdr *c = CMSG_FIRSTHDR(&header);
    c->cmsg_level = IPPROTO_SCTP;
    c->cmsg_type = SCTP_SNDINFO;
    c->cmsg_len = CMSG_LEN(sizeof(struct sctp_sndinfo));
    struct sctp_sndinfo info;
    memset(&info, 0, sizeof info);
    info.snd_sid = m->stream;
    info.snd_ppid = htonl(m->ppid);
    info.snd_flags = m->unordered ? SCTP_UNORDERED : 0;
    memcpy(CMSG_DATA(c), &info, sizeof info);
    return sendmsg(FD(s), &header, MSG_NOSIGNAL) < 0 ? -1 : 0;
}

void stack_shutdown(stack_socket s)
{
    shutdown(FD(s), SHUT_WR);
}

void stack_close(stack_socket s)
{
    close(FD(s));
}
