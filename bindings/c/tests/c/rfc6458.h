/* Common names for the calls of two libraries: usrsctp with -DUSRSCTP, otherwise anabranch. */
#ifndef RFC6458_H
#define RFC6458_H

#ifdef USRSCTP
#include <usrsctp.h>

#define CALL(name) usrsctp_##name
typedef struct socket *sock;
#define OPEN(type) usrsctp_socket(AF_INET6, type, IPPROTO_SCTP, NULL, NULL, 0, NULL)
#define VALID(s) ((s) != NULL)
#define GETPADDRS usrsctp_getpaddrs
#define FREEPADDRS usrsctp_freepaddrs
#define BINDX usrsctp_bindx
#define CONNECTX usrsctp_connectx
/* Names that its header lacks. */
#define SCTP_PR_SCTP_PRIO SCTP_PR_SCTP_BUF
#define SCTP_PR_SCTP_ALL 0xf
#define SCTP_INTERLEAVING_SUPPORTED 0x1206
#define sn_authkey_event sn_auth_event
#else
#include <anabranch.h>

#define CALL(name) anabranch_##name
typedef int sock;
#define OPEN(type) anabranch_socket(AF_INET6, type, IPPROTO_SCTP)
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

#define SET(s, name, value) \
    CHECK(CALL(setsockopt)(s, IPPROTO_SCTP, name, &(value), sizeof(value)) == 0)

#define GET(s, name, value)                                                       \
    do {                                                                          \
        socklen_t got_ = sizeof(value);                                           \
        CHECK(CALL(getsockopt)(s, IPPROTO_SCTP, name, &(value), &got_) == 0);     \
        CHECK(got_ == sizeof(value));                                             \
    } while (0)

/* Sets a secret of the socket (SCTP_AUTH_KEY). */
static inline void set_key(sock s, uint16_t number, const char *secret)
{
    _Alignas(8) char room[sizeof(struct sctp_authkey) + 32];
    struct sctp_authkey *key = (struct sctp_authkey *)room;
    size_t length = strlen(secret);
    *key = (struct sctp_authkey){.sca_keynumber = number, .sca_keylength = (uint16_t)length};
    memcpy(room + sizeof *key, secret, length);
    CHECK(CALL(setsockopt)(s, IPPROTO_SCTP, SCTP_AUTH_KEY, room, (socklen_t)(sizeof *key + length)) == 0);
}

/* begin() starts the library on a UDP port; finish() ends it when all data is delivered. */
static inline void begin(int udp)
{
#ifdef USRSCTP
    usrsctp_init((uint16_t)udp, NULL, NULL);
    /* Packets on raw sockets belong to other programs. */
    usrsctp_sysctl_set_sctp_blackhole(2);
    usrsctp_sysctl_set_sctp_no_csum_on_loopback(0);
#else
    (void)udp;
#endif
}

static inline void finish(void)
{
#ifdef USRSCTP
    for (int i = 0; i < 100 && usrsctp_finish() != 0; i++)
        usleep(50000);
#else
    CHECK(anabranch_finish(5000) == 0);
#endif
}

#endif
