/* A program for lksctp that uses newer features: sctp_sendv and sctp_recvv, PPIDs, SCTP_EVENT. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/sctp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

static void die(const char *what)
{
    perror(what);
    exit(1);
}

static int make(void)
{
    int one = 1, fd = socket(PF_INET, SOCK_STREAM, IPPROTO_SCTP);
    struct sctp_initmsg streams = {.sinit_num_ostreams = 5, .sinit_max_instreams = 5};
    struct sctp_event event = {.se_assoc_id = SCTP_FUTURE_ASSOC,
                               .se_type = SCTP_PEER_ADDR_CHANGE,
                               .se_on = 1};
    if (fd < 0)
        die("socket");
    if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one))
        die("SO_REUSEADDR");
    if (setsockopt(fd, IPPROTO_SCTP, SCTP_INITMSG, &streams, sizeof streams))
        die("SCTP_INITMSG");
    if (setsockopt(fd, IPPROTO_SCTP, SCTP_RECVRCVINFO, &one, sizeof one))
        die("SCTP_RECVRCVINFO");
    if (setsockopt(fd, IPPROTO_SCTP, SCTP_EVENT, &event, sizeof event))
        die("SCTP_EVENT");
    return fd;
}

/* Receives a message and its ancillary data; returns 0 at the end. */
static int next(int fd, char *buffer, size_t size, struct sctp_rcvinfo *info)
{
    for (;;) {
        struct iovec halves[2] = {{buffer, size / 2}, {buffer + size / 2, size - size / 2}};
        struct sockaddr_in from;
        socklen_t from_length = sizeof from, length = sizeof *info;
        unsigned int type = SCTP_RECVV_NOINFO;
        int flags = 0, n;
        n = sctp_recvv(fd, halves, 2, (struct sockaddr *)&from, &from_length, info, &length, &type,
                       &flags);
        if (n < 0)
            die("sctp_recvv");
        if (flags & MSG_NOTIFICATION)
            continue;
        if (n > 0 && (type != SCTP_RECVV_RCVINFO || !(flags & MSG_EOR))) {
            errno = EPROTO;
            die("a message without its information");
        }
        return n;
    }
}

static void serve(struct sockaddr_in *at)
{
    static char buffer[70000];
    struct sctp_rcvinfo info;
    int n, fd, listener = make();
    if (bind(listener, (struct sockaddr *)at, sizeof *at))
        die("bind");
    if (listen(listener, 5))
        die("listen");
    if (write(STDOUT_FILENO, "ready\n", 6) != 6)
        die("write");
    if ((fd = accept(listener, NULL, NULL)) < 0)
        die("accept");
    while ((n = next(fd, buffer, sizeof buffer, &info)) > 0) {
        struct iovec whole = {buffer, (size_t)n};
        struct sctp_sendv_spa back = {.sendv_flags = SCTP_SEND_SNDINFO_VALID};
        back.sendv_sndinfo.snd_sid = info.rcv_sid;
        back.sendv_sndinfo.snd_ppid = info.rcv_ppid;
        back.sendv_sndinfo.snd_flags = info.rcv_flags & SCTP_UNORDERED;
        if (sctp_sendv(fd, &whole, 1, NULL, 0, &back, sizeof back, SCTP_SENDV_SPA, 0) != n)
            die("sctp_sendv");
    }
    close(fd);
    close(listener);
}

static void ask(struct sockaddr_in *at)
{
    char head[32], tail[2000], buffer[4096];
    int fd = make();
    memset(tail, 't', sizeof tail);
    if (sctp_connectx(fd, (struct sockaddr *)at, 1, NULL))
        die("sctp_connectx");
    for (int i = 0; i < 4; i++) {
        int n, length = snprintf(head, sizeof head, "message %d", i);
        struct iovec pieces[2] = {{head, (size_t)length}, {tail, (size_t)i * 600}};
        struct sctp_sndinfo about = {.snd_sid = i, .snd_ppid = htonl(40 + i)};
        struct sctp_rcvinfo info;
        length += i * 600;
        if (sctp_sendv(fd, pieces, 2, NULL, 0, &about, sizeof about, SCTP_SENDV_SNDINFO, 0) != length)
            die("sctp_sendv");
        n = next(fd, buffer, sizeof buffer, &info);
        if (n != length || memcmp(buffer, head, pieces[0].iov_len) || info.rcv_sid != i ||
            memcmp(buffer + pieces[0].iov_len, tail, pieces[1].iov_len) ||
            info.rcv_ppid != htonl(40 + i)) {
            errno = EPROTO;
            die("another message came back");
        }
    }
    close(fd);
    printf("4 messages came back\n");
}

int main(int count, char **arguments)
{
    struct sockaddr_in at = {.sin_family = AF_INET};
    /* server or client, the style, the port, and the server's address */
    if (count < 4 || count > 5)
        return 2;
    at.sin_port = htons(atoi(arguments[3]));
    if (inet_pton(AF_INET, count > 4 ? arguments[4] : "127.0.0.1", &at.sin_addr) != 1)
        return 2;
    alarm(60);
    if (!strcmp(arguments[1], "server"))
        serve(&at);
    else
        ask(&at);
    return 0;
}
