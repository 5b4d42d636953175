/* Echoes messages to any number of peers, with one poll loop.
 *
 * echo_server UDP_PORT SCTP_PORT ASSOCIATIONS ADDRESS...
 * UDP port 0 picks a free port; the server prints both ports. Ends after ASSOCIATIONS associations. */
#include <anabranch.h>
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST 16

static void check(int result, const char *call)
{
    if (result < 0) {
        perror(call);
        exit(1);
    }
}

/* Echoes one message. Returns 0 at the end of the association. */
static int echo(int fd)
{
    static char buffer[1 << 16];
    struct iovec piece = {buffer, sizeof buffer};
    struct sctp_rcvinfo got;
    socklen_t length = sizeof got;
    unsigned int type = 0;
    int flags = 0;
    ssize_t count =
        anabranch_sctp_recvv(fd, &piece, 1, NULL, NULL, &got, &length, &type, &flags);
    if (count < 0 && errno == EAGAIN)
        return 1;
    if (count <= 0)
        return 0;
    struct sctp_sndinfo info = {0};
    if (type == SCTP_RECVV_RCVINFO) {
        info.snd_sid = got.rcv_sid;
        info.snd_ppid = got.rcv_ppid;
        info.snd_flags = got.rcv_flags & SCTP_UNORDERED;
    }
    piece.iov_len = (size_t)count;
    /* A server that must not block would keep the message until poll reports POLLOUT. */
    check(fcntl(fd, F_SETFL, 0), "fcntl");
    ssize_t sent = anabranch_sctp_sendv(fd, &piece, 1, NULL, 0, &info, sizeof info,
                                        SCTP_SENDV_SNDINFO, 0);
    check(fcntl(fd, F_SETFL, O_NONBLOCK), "fcntl");
    return sent == count;
}

int main(int argc, char **argv)
{
    if (argc < 5) {
        fprintf(stderr, "usage: %s UDP_PORT SCTP_PORT ASSOCIATIONS ADDRESS...\n", argv[0]);
        return 2;
    }
    int udp = atoi(argv[1]), left = atoi(argv[3]), on = 1;
    struct sockaddr_in addresses[MOST] = {{0}};
    int count = 0;
    for (int i = 4; i < argc && count < MOST; i++, count++) {
        addresses[count].sin_family = AF_INET;
        addresses[count].sin_port = htons((uint16_t)atoi(argv[2]));
        if (inet_pton(AF_INET, argv[i], &addresses[count].sin_addr) != 1) {
            fprintf(stderr, "%s is not an IPv4 address\n", argv[i]);
            return 2;
        }
    }

    int listener = anabranch_socket(AF_INET, SOCK_STREAM, IPPROTO_SCTP);
    check(listener, "socket");
    check(anabranch_setsockopt(listener, IPPROTO_SCTP, ANABRANCH_LOCAL_UDP_PORT, &udp, sizeof udp),
          "ANABRANCH_LOCAL_UDP_PORT");
    check(anabranch_setsockopt(listener, IPPROTO_SCTP, SCTP_RECVRCVINFO, &on, sizeof on),
          "SCTP_RECVRCVINFO");
    check(anabranch_sctp_bindx(listener, (struct sockaddr *)addresses, count, SCTP_BINDX_ADD_ADDR),
          "sctp_bindx");
    check(anabranch_listen(listener, 8), "listen");
    check(fcntl(listener, F_SETFL, O_NONBLOCK), "fcntl");

    struct sockaddr_in name;
    socklen_t length = sizeof name;
    check(anabranch_getsockname(listener, (struct sockaddr *)&name, &length), "getsockname");
    length = sizeof udp;
    check(anabranch_getsockopt(listener, IPPROTO_SCTP, ANABRANCH_LOCAL_UDP_PORT, &udp, &length),
          "ANABRANCH_LOCAL_UDP_PORT");
    printf("%d %d\n", udp, ntohs(name.sin_port));
    fflush(stdout);

    struct pollfd waiting[MOST] = {{listener, POLLIN, 0}};
    int open = 1;
    while (left > 0 || open > 1) {
        check(poll(waiting, (nfds_t)open, -1), "poll");
        for (int i = open - 1; i > 0; i--) {
            if (waiting[i].revents && !echo(waiting[i].fd)) {
                anabranch_close(waiting[i].fd);
                waiting[i] = waiting[--open];
            }
        }
        if (waiting[0].revents && open < MOST) {
            int fd = anabranch_accept(listener, NULL, NULL);
            if (fd >= 0) {
                check(fcntl(fd, F_SETFL, O_NONBLOCK), "fcntl");
                waiting[open++] = (struct pollfd){fd, POLLIN, 0};
                left--;
            }
        }
    }
    anabranch_close(listener);
    return anabranch_finish(5000) == 0 ? 0 : 1;
}
