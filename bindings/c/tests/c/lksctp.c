/* A typical program for lksctp: of SCTP it includes only <netinet/sctp.h>. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/sctp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static void die(const char *what)
{
    perror(what);
    exit(1);
}

/* A socket with the options that such programs usually set first. */
static int make(int type)
{
    struct sctp_initmsg streams = {.sinit_num_ostreams = 5, .sinit_max_instreams = 5};
    struct sctp_event_subscribe events;
    struct sctp_paddrparams paths;
    int one = 1, fd = socket(AF_INET, type, IPPROTO_SCTP);
    if (fd < 0)
        die("socket");
    if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one))
        die("SO_REUSEADDR");
    if (setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof one))
        die("SO_KEEPALIVE");
    if (setsockopt(fd, IPPROTO_SCTP, SCTP_INITMSG, &streams, sizeof streams))
        die("SCTP_INITMSG");
    memset(&events, 0, sizeof events);
    events.sctp_data_io_event = 1;
    events.sctp_association_event = type == SOCK_SEQPACKET;
    if (setsockopt(fd, IPPROTO_SCTP, SCTP_EVENTS, &events, sizeof events))
        die("SCTP_EVENTS");
    memset(&paths, 0, sizeof paths);
    paths.spp_hbinterval = 5000;
    paths.spp_flags = SPP_HB_ENABLE;
    if (setsockopt(fd, IPPROTO_SCTP, SCTP_PEER_ADDR_PARAMS, &paths, sizeof paths))
        die("SCTP_PEER_ADDR_PARAMS");
    if (setsockopt(fd, SOL_SCTP, SCTP_NODELAY, &one, sizeof one))
        die("SCTP_NODELAY");
    return fd;
}

/* Receives a message; returns 0 at the end of the association. */
static int next(int fd, char *buffer, size_t size, struct sctp_sndrcvinfo *info)
{
    for (;;) {
        struct sockaddr_in from;
        socklen_t length = sizeof from;
        int flags = 0, n = sctp_recvmsg(fd, buffer, size, (struct sockaddr *)&from, &length, info,
                                        &flags);
        if (n < 0)
            die("sctp_recvmsg");
        if (!(flags & MSG_NOTIFICATION))
            return n;
        union sctp_notification *told = (union sctp_notification *)buffer;
        if (told->sn_header.sn_type == SCTP_ASSOC_CHANGE &&
            told->sn_assoc_change.sac_state == SCTP_SHUTDOWN_COMP)
            return 0;
    }
}

static void serve(int one_to_one, struct sockaddr_in *at)
{
    char buffer[4096];
    struct sctp_sndrcvinfo info;
    int n, listener = make(one_to_one ? SOCK_STREAM : SOCK_SEQPACKET), fd = listener;
    if (bind(listener, (struct sockaddr *)at, sizeof *at))
        die("bind");
    if (listen(listener, 5))
        die("listen");
    /* Standard output is not an SCTP socket. */
    if (write(STDOUT_FILENO, "ready\n", 6) != 6)
        die("write");
    if (one_to_one && (fd = accept(listener, NULL, NULL)) < 0)
        die("accept");
    while ((n = next(fd, buffer, sizeof buffer, &info)) > 0) {
        struct iovec piece = {buffer, (size_t)n};
        struct sctp_sndinfo about = {.snd_sid = info.sinfo_stream,
                                     .snd_ppid = info.sinfo_ppid,
                                     .snd_assoc_id = info.sinfo_assoc_id};
        if (one_to_one) {
            if (sctp_sendmsg(fd, buffer, n, NULL, 0, info.sinfo_ppid, 0, info.sinfo_stream, 0, 0) < 0)
                die("sctp_sendmsg");
        } else if (sctp_sendv(fd, &piece, 1, NULL, 0, &about, sizeof about, SCTP_SENDV_SNDINFO, 0) < 0) {
            die("sctp_sendv");
        }
    }
    if (fd != listener)
        close(fd);
    close(listener);
}

static void ask(int one_to_one, struct sockaddr_in *at)
{
    char sent[64], buffer[4096];
    int fd = make(one_to_one ? SOCK_STREAM : SOCK_SEQPACKET);
    if (connect(fd, (struct sockaddr *)at, sizeof *at))
        die("connect");
    for (int i = 0; i < 4; i++) {
        struct sctp_sndrcvinfo info;
        int n, length = snprintf(sent, sizeof sent, "message %d", i);
        if (sctp_sendmsg(fd, sent, length, (struct sockaddr *)at, sizeof *at, htonl(40 + i), 0, i, 0,
                         0) != length)
            die("sctp_sendmsg");
        n = next(fd, buffer, sizeof buffer, &info);
        if (n != length || memcmp(sent, buffer, n) || info.sinfo_stream != i ||
            ntohl(info.sinfo_ppid) != 40 + (unsigned)i)
            die("another message came back");
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
    int one_to_one = !strcmp(arguments[2], "one-to-one");
    if (!strcmp(arguments[1], "server"))
        serve(one_to_one, &at);
    else
        ask(one_to_one, &at);
    return 0;
}
