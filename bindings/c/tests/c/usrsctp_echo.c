/* The usrsctp peer for programs written for kernel SCTP: an echo server, or its client.
 *
 * usrsctp_echo server UDP_PORT SCTP_PORT
 * usrsctp_echo client UDP_PORT SCTP_PORT REMOTE_UDP_PORT */
#include "check.h"

#include <arpa/inet.h>
#include <stdint.h>
#include <unistd.h>
#include <usrsctp.h>

static char buffer[70000];

static struct socket *open_socket(void)
{
    struct socket *s = usrsctp_socket(AF_INET, SOCK_STREAM, IPPROTO_SCTP, NULL, NULL, 0, NULL);
    CHECK(s != NULL);
    int on = 1;
    CHECK(usrsctp_setsockopt(s, IPPROTO_SCTP, SCTP_RECVRCVINFO, &on, sizeof on) == 0);
    struct sctp_initmsg init = {.sinit_num_ostreams = 5, .sinit_max_instreams = 5};
    CHECK(usrsctp_setsockopt(s, IPPROTO_SCTP, SCTP_INITMSG, &init, sizeof init) == 0);
    return s;
}

static ssize_t next(struct socket *s, struct sctp_rcvinfo *info)
{
    struct sockaddr_in from;
    socklen_t from_length = sizeof from, length = sizeof *info;
    unsigned int type = 0;
    int flags = 0;
    ssize_t count = usrsctp_recvv(s, buffer, sizeof buffer, (struct sockaddr *)&from, &from_length,
                                  info, &length, &type, &flags);
    CHECK(count <= 0 || (type == SCTP_RECVV_RCVINFO && (flags & MSG_EOR)));
    return count;
}

static void send_on(struct socket *s, size_t length, uint16_t stream, uint32_t ppid)
{
    struct sctp_sndinfo info = {.snd_sid = stream, .snd_ppid = ppid};
    CHECK(usrsctp_sendv(s, buffer, length, NULL, 0, &info, sizeof info, SCTP_SENDV_SNDINFO, 0) ==
          (ssize_t)length);
}

static void serve(struct sockaddr_in *at)
{
    struct socket *listener = open_socket();
    CHECK(usrsctp_bind(listener, (struct sockaddr *)at, sizeof *at) == 0);
    CHECK(usrsctp_listen(listener, 1) == 0);
    printf("ready\n");
    fflush(stdout);
    struct socket *s = usrsctp_accept(listener, NULL, NULL);
    CHECK(s != NULL);
    int on = 1;
    CHECK(usrsctp_setsockopt(s, IPPROTO_SCTP, SCTP_RECVRCVINFO, &on, sizeof on) == 0);
    struct sctp_rcvinfo info;
    ssize_t count;
    while ((count = next(s, &info)) > 0)
        send_on(s, (size_t)count, info.rcv_sid, info.rcv_ppid);
    CHECK(count == 0);
    usrsctp_close(s);
    usrsctp_close(listener);
}

static void ask(struct sockaddr_in *at, uint16_t remote_udp)
{
    struct socket *s = open_socket();
    struct sctp_udpencaps encapsulation;
    memset(&encapsulation, 0, sizeof encapsulation);
    encapsulation.sue_address.ss_family = AF_INET;
    encapsulation.sue_port = htons(remote_udp);
    CHECK(usrsctp_setsockopt(s, IPPROTO_SCTP, SCTP_REMOTE_UDP_ENCAPS_PORT, &encapsulation,
                             sizeof encapsulation) == 0);
    CHECK(usrsctp_connect(s, (struct sockaddr *)at, sizeof *at) == 0);
    for (unsigned i = 0; i < 4; i++) {
        size_t length = 20 + i * 900;
        memset(buffer, 'a' + (int)i, length);
        send_on(s, length, (uint16_t)i, htonl(40 + i));
        memset(buffer, 0, sizeof buffer);
        struct sctp_rcvinfo info;
        CHECK(next(s, &info) == (ssize_t)length);
        CHECK(info.rcv_sid == i && info.rcv_ppid == htonl(40 + i));
        CHECK(buffer[0] == 'a' + (char)i && buffer[length - 1] == 'a' + (char)i);
    }
    CHECK(usrsctp_shutdown(s, SHUT_WR) == 0);
    struct sctp_rcvinfo none;
    CHECK(next(s, &none) == 0);
    usrsctp_close(s);
    printf("4 messages came back\n");
}

int main(int argc, char **argv)
{
    /* Fail instead of hanging. */
    alarm(60);
    CHECK(argc >= 4);
    usrsctp_init((uint16_t)atoi(argv[2]), NULL, NULL);
    /* Packets on raw sockets belong to other programs. */
    usrsctp_sysctl_set_sctp_blackhole(2);
    usrsctp_sysctl_set_sctp_no_csum_on_loopback(0);
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(argv[3]))};
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (strcmp(argv[1], "server") == 0) {
        serve(&at);
    } else {
        CHECK(argc == 5);
        ask(&at, (uint16_t)atoi(argv[4]));
    }
    for (int i = 0; i < 100 && usrsctp_finish() != 0; i++)
        usleep(50000);
    return 0;
}
