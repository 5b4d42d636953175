/* One program for two libraries: the calls of RFC 6458, in either role.
 *
 * rfc6458 server UDP_PORT SCTP_PORT
 * rfc6458 client UDP_PORT SCTP_PORT REMOTE_UDP_PORT
 *
 * Compiled with -DUSRSCTP it runs on usrsctp, otherwise on anabranch. The client sends messages of
 * many sizes on several streams, in order and not; the server sends each back. Then the client
 * shuts down, and both see the end. Over UDP on 127.0.0.1. */
#ifdef USRSCTP
#include <usrsctp.h>

#define CALL(name) usrsctp_##name
typedef struct socket *sock;
#define OPEN(type) usrsctp_socket(AF_INET, type, IPPROTO_SCTP, NULL, NULL, 0, NULL)
#define VALID(s) ((s) != NULL)
#define GETPADDRS usrsctp_getpaddrs
#define FREEPADDRS usrsctp_freepaddrs
#define BINDX usrsctp_bindx
#define CONNECTX usrsctp_connectx
#else
#include <anabranch.h>

#define CALL(name) anabranch_##name
typedef int sock;
#define OPEN(type) anabranch_socket(AF_INET, type, IPPROTO_SCTP)
#define VALID(s) ((s) >= 0)
#define GETPADDRS anabranch_sctp_getpaddrs
#define FREEPADDRS anabranch_sctp_freepaddrs
#define BINDX anabranch_sctp_bindx
#define CONNECTX anabranch_sctp_connectx
#endif

#include "check.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MESSAGES 64
#define LONGEST 60000

static unsigned char buffer[LONGEST + 1], expected[LONGEST];

static ssize_t sendv(sock s, const void *data, size_t length, struct sctp_sndinfo *info)
{
#ifdef USRSCTP
    return usrsctp_sendv(s, data, length, NULL, 0, info, sizeof *info, SCTP_SENDV_SNDINFO, 0);
#else
    struct iovec piece = {(void *)data, length};
    return anabranch_sctp_sendv(s, &piece, 1, NULL, 0, info, sizeof *info, SCTP_SENDV_SNDINFO, 0);
#endif
}

/* Receives a whole message; 0 at the end. */
static ssize_t recvv(sock s, struct sctp_rcvinfo *info)
{
    size_t got = 0;
    for (;;) {
        socklen_t length = sizeof *info;
        unsigned int type = 0;
        int flags = 0;
#ifdef USRSCTP
        struct sockaddr_in from;
        socklen_t from_length = sizeof from;
        ssize_t count = usrsctp_recvv(s, buffer + got, sizeof buffer - got,
                                      (struct sockaddr *)&from, &from_length, info, &length, &type,
                                      &flags);
#else
        struct iovec piece = {buffer + got, sizeof buffer - got};
        ssize_t count =
            anabranch_sctp_recvv(s, &piece, 1, NULL, NULL, info, &length, &type, &flags);
#endif
        if (count <= 0)
            return count;
        CHECK(type == SCTP_RECVV_RCVINFO && length == sizeof *info);
        CHECK(!(flags & MSG_NOTIFICATION));
        got += (size_t)count;
        if (flags & MSG_EOR)
            return (ssize_t)got;
        CHECK(got < sizeof buffer);
    }
}

static sock open_bound(uint16_t port)
{
    sock s = OPEN(SOCK_STREAM);
    CHECK(VALID(s));
    int on = 1;
    CHECK(CALL(setsockopt)(s, IPPROTO_SCTP, SCTP_RECVRCVINFO, &on, sizeof on) == 0);
    CHECK(CALL(setsockopt)(s, IPPROTO_SCTP, SCTP_NODELAY, &on, sizeof on) == 0);
    struct sctp_assoc_value nr_sack = {.assoc_value = 1};
    CHECK(CALL(setsockopt)(s, IPPROTO_SCTP, SCTP_NRSACK_SUPPORTED, &nr_sack, sizeof nr_sack) == 0);
    struct sctp_initmsg init = {.sinit_num_ostreams = 8, .sinit_max_instreams = 8};
    CHECK(CALL(setsockopt)(s, IPPROTO_SCTP, SCTP_INITMSG, &init, sizeof init) == 0);
    struct sockaddr_in local = {.sin_family = AF_INET, .sin_port = htons(port)};
    local.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    CHECK(BINDX(s, (struct sockaddr *)&local, 1, SCTP_BINDX_ADD_ADDR) == 0);
    return s;
}

/* Both sides asked for NR-SACKs. */
static void agreed_on_nr_sacks(sock s)
{
    struct sctp_assoc_value nr_sack = {0};
    socklen_t length = sizeof nr_sack;
    CHECK(CALL(getsockopt)(s, IPPROTO_SCTP, SCTP_NRSACK_SUPPORTED, &nr_sack, &length) == 0);
    CHECK(nr_sack.assoc_value == 1);
}

static size_t size_of(unsigned number)
{
    return 1 + (number * 7919u * 31u) % (number % 8 == 7 ? LONGEST - 1 : 3000);
}

static void server(sock listener)
{
    CHECK(CALL(listen)(listener, 1) == 0);
    printf("ready\n");
    fflush(stdout);
    struct sockaddr_in from;
    socklen_t length = sizeof from;
    sock s = CALL(accept)(listener, (struct sockaddr *)&from, &length);
    CHECK(VALID(s));
    CHECK(from.sin_addr.s_addr == htonl(INADDR_LOOPBACK));
    agreed_on_nr_sacks(s);
    int on = 1;
    CHECK(CALL(setsockopt)(s, IPPROTO_SCTP, SCTP_RECVRCVINFO, &on, sizeof on) == 0);
    struct sctp_rcvinfo got;
    ssize_t count;
    unsigned messages = 0;
    while ((count = recvv(s, &got)) > 0) {
        struct sctp_sndinfo info = {.snd_sid = got.rcv_sid, .snd_ppid = got.rcv_ppid};
        if (got.rcv_flags & SCTP_UNORDERED)
            info.snd_flags = SCTP_UNORDERED;
        CHECK(sendv(s, buffer, (size_t)count, &info) == count);
        messages++;
    }
    CHECK(count == 0 && messages == MESSAGES);
    CALL(close)(s);
    CALL(close)(listener);
}

static void client(sock s, uint16_t port, uint16_t remote_udp)
{
    struct sctp_udpencaps encapsulation;
    memset(&encapsulation, 0, sizeof encapsulation);
    encapsulation.sue_address.ss_family = AF_INET;
    encapsulation.sue_port = htons(remote_udp);
    CHECK(CALL(setsockopt)(s, IPPROTO_SCTP, SCTP_REMOTE_UDP_ENCAPS_PORT, &encapsulation,
                           sizeof encapsulation) == 0);
    struct sockaddr_in peer = {.sin_family = AF_INET, .sin_port = htons(port)};
    peer.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    CHECK(CONNECTX(s, (struct sockaddr *)&peer, 1, NULL) == 0);

    /* usrsctp_connectx does not wait. */
    struct sctp_status status;
    do {
        socklen_t length = sizeof status;
        memset(&status, 0, sizeof status);
        CHECK(CALL(getsockopt)(s, IPPROTO_SCTP, SCTP_STATUS, &status, &length) == 0);
    } while (status.sstat_state != SCTP_ESTABLISHED && usleep(1000) == 0);
    CHECK(status.sstat_outstrms == 8 && status.sstat_instrms == 8);
    agreed_on_nr_sacks(s);
    struct sockaddr *addresses;
    CHECK(GETPADDRS(s, 0, &addresses) == 1);
    FREEPADDRS(addresses);

    for (unsigned number = 0; number < MESSAGES; number++) {
        size_t size = size_of(number);
        for (size_t i = 0; i < size; i++)
            expected[i] = (unsigned char)(number * 131 + i * 7);
        struct sctp_sndinfo info = {.snd_sid = (uint16_t)(number % 8),
                                    .snd_ppid = htonl(number),
                                    .snd_flags = number % 3 == 2 ? SCTP_UNORDERED : 0};
        CHECK(sendv(s, expected, size, &info) == (ssize_t)size);
        struct sctp_rcvinfo got;
        CHECK(recvv(s, &got) == (ssize_t)size);
        CHECK(memcmp(buffer, expected, size) == 0);
        CHECK(got.rcv_sid == number % 8 && got.rcv_ppid == htonl(number));
        CHECK(!(got.rcv_flags & SCTP_UNORDERED) == (number % 3 != 2));
    }
    CHECK(CALL(shutdown)(s, SHUT_WR) == 0);
    struct sctp_rcvinfo none;
    CHECK(recvv(s, &none) == 0);
    CALL(close)(s);
    printf("%d messages came back\n", MESSAGES);
}

int main(int argc, char **argv)
{
    /* What hangs is to fail. */
    alarm(120);
    CHECK(argc >= 4);
    int is_server = strcmp(argv[1], "server") == 0, udp = atoi(argv[2]);
    uint16_t port = (uint16_t)atoi(argv[3]);
#ifdef USRSCTP
    usrsctp_init((uint16_t)udp, NULL, NULL);
    /* Packets of raw sockets are other programs'. */
    usrsctp_sysctl_set_sctp_blackhole(2);
    usrsctp_sysctl_set_sctp_no_csum_on_loopback(0);
#endif
    sock s = open_bound(is_server ? port : 0);
#ifndef USRSCTP
    CHECK(anabranch_setsockopt(s, IPPROTO_SCTP, ANABRANCH_LOCAL_UDP_PORT, &udp, sizeof udp) == 0);
#endif
    if (is_server) {
        server(s);
    } else {
        CHECK(argc == 5);
        client(s, port, (uint16_t)atoi(argv[4]));
    }
#ifdef USRSCTP
    for (int i = 0; i < 100 && usrsctp_finish() != 0; i++)
        usleep(50000);
#else
    CHECK(anabranch_finish(5000) == 0);
#endif
    return 0;
}
