/* Both ends of associations in one process, over UDP on loopback. */
#ifndef ENDS_H
#define ENDS_H

#include "check.h"

#include <anabranch.h>
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FAILS(call, with) CHECK((errno = 0, (call) == -1 && errno == (with)))

static char big[200000] __attribute__((unused));

static inline struct sockaddr_in at(const char *text, unsigned port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    CHECK(inet_pton(AF_INET, text, &address.sin_addr) == 1);
    return address;
}

#define SA(address) ((struct sockaddr *)&(address))

static inline int option(int fd, int level, int name, const void *value, size_t size)
{
    return anabranch_setsockopt(fd, level, name, value, (socklen_t)size);
}

#define SET(fd, name, value) CHECK(option(fd, IPPROTO_SCTP, name, &(value), sizeof(value)) == 0)

/* Subscribes to an event for all associations, established ones included. */
static inline void subscribe(int fd, int type)
{
    struct sctp_event event = {SCTP_ALL_ASSOC, (uint16_t)type, 1};
    SET(fd, SCTP_EVENT, event);
}

/* Waits until poll reports all of these events. */
static inline void wait_for(int fd, int events)
{
    struct pollfd waiting = {fd, (short)events, 0};
    CHECK(poll(&waiting, 1, 20000) == 1 && (waiting.revents & events) == events);
}

static inline int ready(int fd)
{
    struct pollfd waiting = {fd, POLLIN | POLLOUT, 0};
    CHECK(poll(&waiting, 1, 0) >= 0);
    return waiting.revents;
}

/* A socket that listens on loopback, and its UDP and SCTP ports. */
struct server {
    int fd, udp;
    uint16_t port;
};

static inline struct server serve(int type, int addresses)
{
    struct server server = {.udp = 0};
    server.fd = anabranch_socket(AF_INET, type, IPPROTO_SCTP);
    CHECK(server.fd >= 0);
    SET(server.fd, ANABRANCH_LOCAL_UDP_PORT, server.udp);
    struct sockaddr_in list[2] = {at("127.0.0.1", 0), at("127.0.0.2", 0)};
    CHECK(anabranch_sctp_bindx(server.fd, SA(list), addresses, SCTP_BINDX_ADD_ADDR) == 0);
    struct sockaddr_in name;
    socklen_t length = sizeof name;
    CHECK(anabranch_getsockname(server.fd, SA(name), &length) == 0 && length == sizeof name);
    server.port = ntohs(name.sin_port);
    CHECK(server.port != 0 && name.sin_addr.s_addr == list[0].sin_addr.s_addr);
    CHECK(anabranch_listen(server.fd, 8) == 0);
    length = sizeof server.udp;
    CHECK(anabranch_getsockopt(server.fd, IPPROTO_SCTP, ANABRANCH_LOCAL_UDP_PORT, &server.udp,
                               &length) == 0);
    CHECK(server.udp != 0);
    return server;
}

static inline int client(int type, const struct server *server)
{
    int fd = anabranch_socket(AF_INET, type, 0);
    CHECK(fd >= 0);
    struct sctp_udpencaps encapsulation = {.sue_port = htons((uint16_t)server->udp)};
    SET(fd, SCTP_REMOTE_UDP_ENCAPS_PORT, encapsulation);
    struct sockaddr_in local = at("127.0.0.1", 0);
    CHECK(anabranch_bind(fd, SA(local), sizeof local) == 0);
    return fd;
}

static inline void connect_to(int fd, const struct server *server)
{
    struct sockaddr_in to = at("127.0.0.1", server->port);
    CHECK(anabranch_connect(fd, SA(to), sizeof to) == 0);
}

/* Receives one notification of this type. */
static inline union sctp_notification notified(int fd, int type)
{
    static unsigned char buffer[4096];
    union sctp_notification notification;
    int flags = 0;
    ssize_t count = anabranch_sctp_recvmsg(fd, buffer, sizeof buffer, NULL, NULL, NULL, &flags);
    CHECK(count >= 8 && (flags & MSG_NOTIFICATION) && (flags & MSG_EOR));
    memset(&notification, 0, sizeof notification);
    memcpy(&notification, buffer,
           (size_t)count < sizeof notification ? (size_t)count : sizeof notification);
    if (notification.sn_header.sn_type != type) {
        fprintf(stderr, "notification %#x came\n", notification.sn_header.sn_type);
        exit(1);
    }
    CHECK(notification.sn_header.sn_length == (size_t)count);
    return notification;
}

static inline sctp_assoc_t changed(int fd, int state)
{
    union sctp_notification notification = notified(fd, SCTP_ASSOC_CHANGE);
    CHECK(notification.sn_assoc_change.sac_state == state);
    return notification.sn_assoc_change.sac_assoc_id;
}

#endif
