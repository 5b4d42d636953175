/* The peer program's stack: usrsctp. */
#include "../peer/stack.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define US(s) ((struct socket *)(s))

static void debug(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
}

void stack_start(uint16_t udp, int silent)
{
    usrsctp_init(udp, NULL, debug);
    usrsctp_sysctl_set_sctp_blackhole(silent ? 2 : 0);
    usrsctp_sysctl_set_sctp_no_csum_on_loopback(0);
    usrsctp_sysctl_set_sctp_max_chunks_on_queue(1 << 17);
    /* Without this, usrsctp does not offer NR-SACKs; with it, they are used if the other side wants them. */
    usrsctp_sysctl_set_sctp_nrsack_enable(1);
}

void stack_finish(void)
{
    for (int i = 0; i < 40 && usrsctp_finish() != 0; i++)
        usleep(50000);
}

stack_socket stack_open(int family)
{
    struct socket *s = usrsctp_socket(family, SOCK_STREAM, IPPROTO_SCTP, NULL, NULL, 0, NULL);
    int on = 1;
    if (s)
        usrsctp_setsockopt(s, IPPROTO_SCTP, SCTP_RECVRCVINFO, &on, sizeof on);
    return (stack_socket)s;
}

int stack_option(stack_socket s, int level, int name, const void *value, socklen_t length)
{
    return usrsctp_setsockopt(US(s), level, name, value, length);
}

int stack_query(stack_socket s, int level, int name, void *value, socklen_t *length)
{
    return usrsctp_getsockopt(US(s), level, name, value, length);
}

int stack_bind(stack_socket s, struct addresses *local)
{
    return usrsctp_bindx(US(s), (struct sockaddr *)local->packed, local->count,
                         SCTP_BINDX_ADD_ADDR);
}

int stack_rebind(stack_socket s, struct addresses *local, int add)
{
    return usrsctp_bindx(US(s), (struct sockaddr *)local->packed, local->count,
                         add ? SCTP_BINDX_ADD_ADDR : SCTP_BINDX_REM_ADDR);
}

int stack_connect(stack_socket s, struct addresses *remote)
{
    struct sockaddr *first = (struct sockaddr *)remote->packed;
    if (remote->count == 1) {
        socklen_t length =
            first->sa_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
        return usrsctp_connect(US(s), first, length);
    }
    sctp_assoc_t id = 0;
    if (usrsctp_connectx(US(s), first, remote->count, &id) != 0)
        return -1;
    /* Unlike usrsctp_connect, this call does not wait. */
    for (;;) {
        struct sctp_status status;
        socklen_t length = sizeof status;
        memset(&status, 0, sizeof status);
        if (usrsctp_getsockopt(US(s), IPPROTO_SCTP, SCTP_STATUS, &status, &length) != 0)
            return -1;
        if (status.sstat_state == SCTP_ESTABLISHED)
            return 0;
        usleep(2000);
    }
}

int stack_listen(stack_socket s)
{
    return usrsctp_listen(US(s), 64);
}

stack_socket stack_accept(stack_socket s, uint16_t *port)
{
    struct sockaddr_storage from;
    socklen_t length = sizeof from;
    memset(&from, 0, sizeof from);
    struct socket *accepted = usrsctp_accept(US(s), (struct sockaddr *)&from, &length);
    int on = 1;
    if (accepted)
        usrsctp_setsockopt(accepted, IPPROTO_SCTP, SCTP_RECVRCVINFO, &on, sizeof on);
    *port = ntohs(((struct sockaddr_in *)&from)->sin_port); /* at the same place for both families */
    return (stack_socket)accepted;
}

ssize_t stack_receive(stack_socket s, void *buffer, size_t size, struct message *m)
{
    for (;;) {
        struct sockaddr_storage from;
        socklen_t from_length = sizeof from;
        struct sctp_recvv_rn info;
        socklen_t info_length = sizeof info;
        unsigned int type = 0;
        int flags = 0;
        memset(&info, 0, sizeof info);
        ssize_t n = usrsctp_recvv(US(s), buffer, size, (struct sockaddr *)&from, &from_length,
                                  &info, &info_length, &type, &flags);
        if (n > 0 && (flags & MSG_NOTIFICATION)) {
            notified(buffer, (size_t)n);
            continue;
        }
        m->stream = info.recvv_rcvinfo.rcv_sid;
        m->ppid = ntohl(info.recvv_rcvinfo.rcv_ppid);
        m->unordered = (info.recvv_rcvinfo.rcv_flags & SCTP_UNORDERED) != 0;
        m->whole = (flags & MSG_EOR) != 0;
        return n;
    }
}

int stack_send(stack_socket s, const void *bytes, size_t length, const struct message *m)
{
    struct sctp_sndinfo info;
    memset(&info, 0, sizeof info);
    info.snd_sid = m->stream;
    info.snd_ppid = htonl(m->ppid);
    info.snd_flags = m->unordered ? SCTP_UNORDERED : 0;
    ssize_t n = usrsctp_sendv(US(s), bytes, length, NULL, 0, &info, sizeof info,
                              SCTP_SENDV_SNDINFO, 0);
    return n < 0 ? -1 : 0;
}

void stack_shutdown(stack_socket s)
{
    usrsctp_shutdown(US(s), SHUT_WR);
}

void stack_close(stack_socket s)
{
    usrsctp_close(US(s));
}
