/* The socket calls as a program sees them: both ends in one process, over UDP on loopback. */
#define _GNU_SOURCE
#include "ends.h"

#include <anabranch.h>
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/select.h>
#include <unistd.h>

/* Readiness in both directions, with poll, select and epoll. */
static void readiness(void)
{
    struct server server = serve(SOCK_STREAM, 1);
    int near = client(SOCK_STREAM, &server), size = 20000;
    CHECK(option(near, SOL_SOCKET, SO_SNDBUF, &size, sizeof size) == 0);
    CHECK(fcntl(near, F_SETFL, O_NONBLOCK) == 0);
    CHECK(fcntl(server.fd, F_SETFL, O_NONBLOCK) == 0);
    FAILS(anabranch_accept(server.fd, NULL, NULL), EAGAIN);
    CHECK(!(ready(server.fd) & POLLIN));
    struct sockaddr_in to = at("127.0.0.1", server.port);
    FAILS(anabranch_connect(near, SA(to), sizeof to), EINPROGRESS);
    wait_for(near, POLLOUT);
    int error = -1;
    socklen_t length = sizeof error;
    CHECK(anabranch_getsockopt(near, SOL_SOCKET, SO_ERROR, &error, &length) == 0 && error == 0);
    FAILS(anabranch_connect(near, SA(to), sizeof to), EISCONN);
    wait_for(server.fd, POLLIN);
    struct sockaddr_in from;
    length = sizeof from;
    int far = anabranch_accept(server.fd, SA(from), &length);
    CHECK(far >= 0 && length == sizeof from && from.sin_family == AF_INET);
    CHECK(!(ready(server.fd) & POLLIN) && ready(near) == POLLOUT && ready(far) == POLLOUT);

    /* The receiver does not read: sending ends with EAGAIN, and POLLOUT with it. */
    int epoll = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLOUT | EPOLLET, .data.fd = near};
    CHECK(epoll >= 0 && epoll_ctl(epoll, EPOLL_CTL_ADD, near, &event) == 0);
    CHECK(epoll_wait(epoll, &event, 1, 0) == 1);
    size_t sent = 0, received = 0;
    struct pollfd writable = {near, POLLOUT, 0};
    fd_set reading, writing;
    do {
        ssize_t count;
        while ((count = anabranch_send(near, big, 10000, 0)) == 10000)
            sent += 10000;
        CHECK(count == -1 && errno == EAGAIN && sent < 100u * 1000 * 1000);
        /* Data in flight makes room until the receiver's window is full. */
        poll(&writable, 1, 200);
        FD_ZERO(&reading);
        FD_ZERO(&writing);
        FD_SET(far, &reading);
        FD_SET(near, &writing);
        int most = (near > far ? near : far) + 1;
        CHECK(select(most, &reading, &writing, NULL, NULL) >= 1);
    } while (FD_ISSET(near, &writing) || !FD_ISSET(far, &reading));

    /* After reading, the sender is writable again. */
    while (received < sent) {
        ssize_t count = anabranch_recv(far, big, sizeof big, 0);
        CHECK(count > 0);
        received += (size_t)count;
    }
    CHECK(epoll_wait(epoll, &event, 1, 20000) == 1 && event.events == EPOLLOUT);
    CHECK(fcntl(far, F_SETFL, O_NONBLOCK) == 0);
    FAILS(anabranch_recv(far, big, sizeof big, 0), EAGAIN);
    CHECK(ready(far) == POLLOUT && ready(near) == POLLOUT);

    CHECK(anabranch_shutdown(near, SHUT_WR) == 0);
    FAILS(anabranch_send(near, "x", 1, 0), EPIPE);
    wait_for(far, POLLIN);
    CHECK(anabranch_recv(far, big, sizeof big, 0) == 0);
    wait_for(near, POLLIN);
    CHECK(anabranch_recv(near, big, sizeof big, 0) == 0);
    close(epoll);
    CHECK(anabranch_close(near) == 0 && anabranch_close(far) == 0);
    CHECK(anabranch_close(server.fd) == 0);
}

/* A message in pieces, ancillary data, and information about the next message. */
static void messages(void)
{
    struct server server = serve(SOCK_STREAM, 1);
    int near = client(SOCK_STREAM, &server), on = 1;
    connect_to(near, &server);
    int far = anabranch_accept(server.fd, NULL, NULL);
    CHECK(far >= 0);
    SET(far, SCTP_RECVRCVINFO, on);
    SET(far, SCTP_RECVNXTINFO, on);
    struct sctp_assoc_value context = {.assoc_value = 4711};
    SET(far, SCTP_CONTEXT, context);
    struct sctp_sndinfo info = {.snd_sid = 3, .snd_ppid = htonl(77), .snd_flags = SCTP_UNORDERED};
    struct iovec pieces[2] = {{"abc", 3}, {"defgh", 5}};
    CHECK(anabranch_sctp_sendv(near, pieces, 2, NULL, 0, &info, sizeof info, SCTP_SENDV_SNDINFO,
                               0) == 8);
    struct sctp_sendv_spa spa = {.sendv_flags = SCTP_SEND_SNDINFO_VALID | SCTP_SEND_PRINFO_VALID};
    spa.sendv_sndinfo.snd_sid = 4;
    spa.sendv_prinfo.pr_policy = SCTP_PR_SCTP_TTL;
    spa.sendv_prinfo.pr_value = 60000;
    CHECK(anabranch_sctp_sendv(near, pieces, 1, NULL, 0, &spa, sizeof spa, SCTP_SENDV_SPA, 0) == 3);
    spa.sendv_prinfo.pr_policy = SCTP_PR_SCTP_RTX;
    spa.sendv_prinfo.pr_value = 65536;
    FAILS(anabranch_sctp_sendv(near, pieces, 1, NULL, 0, &spa, sizeof spa, SCTP_SENDV_SPA, 0), EINVAL);
    info.snd_sid = 60000;
    FAILS(anabranch_sctp_sendv(near, pieces, 1, NULL, 0, &info, sizeof info, SCTP_SENDV_SNDINFO,
                               0), EINVAL);
    FAILS(anabranch_send(near, "", 0, 0), EINVAL);

    char one[2], two[4];
    struct iovec parts[2] = {{one, sizeof one}, {two, sizeof two}};
    struct {
        struct cmsghdr header;
        unsigned char space[256];
    } control;
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2, .msg_control = &control,
                             .msg_controllen = sizeof control};
    CHECK(anabranch_recvmsg(far, &message, MSG_PEEK) == 6);
    message.msg_controllen = sizeof control;
    CHECK(anabranch_recvmsg(far, &message, 0) == 6);
    CHECK(memcmp(one, "ab", 2) == 0 && memcmp(two, "cdef", 4) == 0);
    CHECK(!(message.msg_flags & MSG_EOR));
    struct cmsghdr *first = CMSG_FIRSTHDR(&message);
    CHECK(first && first->cmsg_level == IPPROTO_SCTP && first->cmsg_type == SCTP_RCVINFO);
    struct sctp_rcvinfo got;
    memcpy(&got, CMSG_DATA(first), sizeof got);
    CHECK(got.rcv_sid == 3 && got.rcv_ppid == htonl(77) && got.rcv_flags == SCTP_UNORDERED);
    CHECK(got.rcv_context == 4711);

    struct sctp_recvv_rn rn;
    socklen_t length = sizeof rn;
    unsigned int type = 0;
    int flags = 0;
    CHECK(anabranch_sctp_recvv(far, parts, 2, NULL, NULL, &rn, &length, &type, &flags) == 2);
    CHECK((flags & MSG_EOR) && memcmp(one, "gh", 2) == 0);
    /* The second message may or may not have arrived when the first one ended. */
    CHECK(type == SCTP_RECVV_RN || type == SCTP_RECVV_RCVINFO);
    CHECK(anabranch_recv(far, big, sizeof big, 0) == 3);

    /* Default send parameters. */
    struct sctp_sndinfo standard = {.snd_sid = 6, .snd_ppid = htonl(6)};
    SET(near, SCTP_DEFAULT_SNDINFO, standard);
    CHECK(anabranch_write(near, "std", 3) == 3);
    struct iovec whole = {big, sizeof big};
    length = sizeof got;
    CHECK(anabranch_sctp_recvv(far, &whole, 1, NULL, NULL, &got, &length, &type, &flags) == 3);
    CHECK(got.rcv_sid == 6 && got.rcv_ppid == htonl(6) && got.rcv_flags == 0);

    /* With sendmsg and SCTP_SNDINFO. */
    memset(&control, 0, sizeof control);
    message = (struct msghdr){.msg_iov = pieces, .msg_iovlen = 1, .msg_control = &control,
                              .msg_controllen = CMSG_SPACE(sizeof info)};
    first = CMSG_FIRSTHDR(&message);
    first->cmsg_level = IPPROTO_SCTP;
    first->cmsg_type = SCTP_SNDINFO;
    first->cmsg_len = CMSG_LEN(sizeof info);
    info = (struct sctp_sndinfo){.snd_sid = 5, .snd_ppid = htonl(1)};
    memcpy(CMSG_DATA(first), &info, sizeof info);
    CHECK(anabranch_sendmsg(near, &message, 0) == 3);
    length = sizeof got;
    CHECK(anabranch_sctp_recvv(far, &whole, 1, NULL, NULL, &got, &length, &type, &flags) == 3);
    CHECK(type == SCTP_RECVV_RCVINFO && got.rcv_sid == 5 && got.rcv_ppid == htonl(1));

    /* A large message arrives whole. */
    memset(big, 'x', sizeof big);
    CHECK(anabranch_send(near, big, sizeof big, 0) == sizeof big);
    size_t received = 0;
    do {
        whole.iov_len = 50000;
        ssize_t count = anabranch_sctp_recvv(far, &whole, 1, NULL, NULL, NULL, NULL, NULL, &flags);
        CHECK(count > 0);
        received += (size_t)count;
    } while (!(flags & MSG_EOR));
    CHECK(received == sizeof big);

    /* SO_RCVTIMEO ends the wait. */
    struct timeval limit = {.tv_usec = 1000};
    CHECK(option(far, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) == 0);
    FAILS(anabranch_recv(far, big, sizeof big, 0), EAGAIN);

    /* No time limit for the calls below. */
    limit.tv_usec = 0;
    CHECK(option(far, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) == 0);

    /* SO_LINGER makes close wait until all data is delivered. */
    struct linger linger = {.l_onoff = 1, .l_linger = 100};
    CHECK(option(near, SOL_SOCKET, SO_LINGER, &linger, sizeof linger) == 0);
    CHECK(anabranch_write(near, "last", 4) == 4 && anabranch_close(near) == 0);
    wait_for(far, POLLIN);
    CHECK(anabranch_recv(far, big, sizeof big, 0) == 4);
    CHECK(anabranch_recv(far, big, sizeof big, 0) == 0);
    CHECK(anabranch_close(far) == 0 && anabranch_close(server.fd) == 0);
}

/* One-to-many style: implicit setup, association ids, notifications, peeling off, both kinds of end. */
static void one_to_many(void)
{
    struct server server = serve(SOCK_SEQPACKET, 1);
    subscribe(server.fd, SCTP_ASSOC_CHANGE);
    subscribe(server.fd, SCTP_SHUTDOWN_EVENT);
    subscribe(server.fd, SCTP_DATA_IO_EVENT);
    int near = client(SOCK_SEQPACKET, &server);
    subscribe(near, SCTP_ASSOC_CHANGE);
    FAILS(anabranch_accept(server.fd, NULL, NULL), EOPNOTSUPP);
    FAILS(anabranch_send(near, "x", 1, 0), ENOTCONN);
    FAILS(anabranch_shutdown(near, SHUT_WR), EOPNOTSUPP);

    struct sockaddr_in to = at("127.0.0.1", server.port), from;
    CHECK(anabranch_sctp_sendmsg(near, "hello", 5, SA(to), sizeof to, htonl(5), 0, 1, 0, 0) == 5);
    sctp_assoc_t id = changed(near, SCTP_COMM_UP);
    sctp_assoc_t far_id = changed(server.fd, SCTP_COMM_UP);
    struct sctp_sndrcvinfo info;
    socklen_t length = sizeof from;
    int flags = 0;
    CHECK(anabranch_sctp_recvmsg(server.fd, big, sizeof big, SA(from), &length, &info, &flags) == 5);
    CHECK(flags == MSG_EOR && info.sinfo_assoc_id == far_id && info.sinfo_stream == 1);
    CHECK(info.sinfo_ppid == htonl(5) && from.sin_addr.s_addr == to.sin_addr.s_addr);
    /* Sends to the address again, which is the same association, and then by its id. */
    CHECK(anabranch_sendto(near, "again", 5, 0, SA(to), sizeof to) == 5);
    CHECK(anabranch_recv(server.fd, big, sizeof big, 0) == 5);
    info = (struct sctp_sndrcvinfo){.sinfo_assoc_id = far_id, .sinfo_stream = 2};
    CHECK(anabranch_sctp_send(server.fd, "back", 4, &info, 0) == 4);
    CHECK(anabranch_recv(near, big, sizeof big, 0) == 4);
    info.sinfo_assoc_id = 12345678;
    FAILS(anabranch_sctp_send(server.fd, "back", 4, &info, 0), EINVAL);
    FAILS(anabranch_connect(near, SA(to), sizeof to), EISCONN);

    struct {
        uint32_t count;
        sctp_assoc_t ids[4];
    } ids;
    length = sizeof ids;
    CHECK(anabranch_getsockopt(near, IPPROTO_SCTP, SCTP_GET_ASSOC_ID_LIST, &ids, &length) == 0);
    CHECK(ids.count == 1 && ids.ids[0] == id && length == 8);
    struct sctp_status status;
    length = sizeof status;
    CHECK(anabranch_sctp_opt_info(near, id, SCTP_STATUS, &status, &length) == 0);
    CHECK(status.sstat_state == SCTP_ESTABLISHED && status.sstat_assoc_id == id);

    /* A second peer; SCTP_EOF ends the association after its message. */
    int other = client(SOCK_SEQPACKET, &server);
    sctp_assoc_t connected = 0;
    CHECK(anabranch_sctp_connectx(other, SA(to), 1, &connected) == 0 && connected > 2);
    sctp_assoc_t second = changed(server.fd, SCTP_COMM_UP);
    CHECK(second != far_id);
    CHECK(anabranch_sctp_sendmsg(other, "bye", 3, SA(to), sizeof to, 0, SCTP_EOF, 0, 0, 0) == 3);
    CHECK(anabranch_recv(server.fd, big, sizeof big, 0) == 3);
    union sctp_notification notification = notified(server.fd, SCTP_SHUTDOWN_EVENT);
    CHECK(notification.sn_shutdown_event.sse_assoc_id == second);
    CHECK(changed(server.fd, SCTP_SHUTDOWN_COMP) == second);
    CHECK(anabranch_close(other) == 0);

    /* A copy for each association. */
    other = client(SOCK_SEQPACKET, &server);
    CHECK(anabranch_connect(other, SA(to), sizeof to) == 0);
    sctp_assoc_t third = changed(server.fd, SCTP_COMM_UP);
    info = (struct sctp_sndrcvinfo){.sinfo_flags = SCTP_SENDALL};
    CHECK(anabranch_sctp_send(server.fd, "to all", 6, &info, 0) == 6);
    CHECK(anabranch_recv(near, big, sizeof big, 0) == 6);
    CHECK(anabranch_recv(other, big, sizeof big, 0) == 6);
    CHECK(anabranch_close(other) == 0);
    CHECK(notified(server.fd, SCTP_SHUTDOWN_EVENT).sn_shutdown_event.sse_assoc_id == third);
    CHECK(changed(server.fd, SCTP_SHUTDOWN_COMP) == third);

    /* The peer does not exist: the message is returned. */
    subscribe(near, SCTP_SEND_FAILED_EVENT);
    struct sockaddr_in nobody = at("127.0.0.1", 9);
    CHECK(anabranch_sctp_sendmsg(near, "lost", 4, SA(nobody), sizeof nobody, 0, 0, 2, 0, 99) == 4);
    sctp_assoc_t failed = changed(near, SCTP_CANT_STR_ASSOC);
    union sctp_notification back = notified(near, SCTP_SEND_FAILED_EVENT);
    CHECK(back.sn_send_failed_event.ssf_assoc_id == failed);
    CHECK(back.sn_send_failed_event.ssf_flags == SCTP_DATA_UNSENT);
    CHECK(back.sn_send_failed_event.ssfe_info.snd_sid == 2);
    CHECK(back.sn_send_failed_event.ssfe_info.snd_context == 99);
    CHECK(back.sn_header.sn_length == sizeof(struct sctp_send_failed_event) + 4);

    /* Peels off the first association; then the peer aborts it. */
    CHECK(anabranch_sctp_sendmsg(near, "peeled", 6, SA(to), sizeof to, 0, 0, 0, 0, 0) == 6);
    wait_for(server.fd, POLLIN);
    int peeled = anabranch_sctp_peeloff(server.fd, far_id);
    CHECK(peeled >= 0);
    FAILS(anabranch_sctp_peeloff(server.fd, far_id), EINVAL);
    CHECK(anabranch_recv(peeled, big, sizeof big, 0) == 6);
    CHECK(anabranch_send(peeled, "from it", 7, 0) == 7);
    CHECK(anabranch_recv(near, big, sizeof big, 0) == 7);
    length = sizeof from;
    CHECK(anabranch_getpeername(peeled, SA(from), &length) == 0);
    CHECK(anabranch_sctp_sendmsg(near, "why", 3, SA(to), sizeof to, 0, SCTP_ABORT, 0, 0, 0) == 3);
    CHECK(changed(near, SCTP_COMM_LOST) == id);
    CHECK(changed(peeled, SCTP_COMM_LOST) == far_id);
    FAILS(anabranch_recv(peeled, big, sizeof big, 0), ECONNRESET);
    CHECK(anabranch_recv(peeled, big, sizeof big, 0) == 0);
    CHECK(anabranch_close(peeled) == 0 && anabranch_close(near) == 0);
    CHECK(anabranch_close(server.fd) == 0);
}

/* Several addresses on both sides. */
static void multihoming(void)
{
    struct server server = serve(SOCK_STREAM, 2);
    int near = anabranch_socket(AF_INET, SOCK_STREAM, IPPROTO_SCTP);
    struct sctp_udpencaps encapsulation = {.sue_port = htons((uint16_t)server.udp)};
    SET(near, SCTP_REMOTE_UDP_ENCAPS_PORT, encapsulation);
    struct sockaddr_in list[2] = {at("127.0.0.3", 0), at("127.0.0.4", 0)};
    struct sockaddr_in strange = at("192.0.2.77", 0), removed = at("127.0.0.5", 0);
    FAILS(anabranch_sctp_bindx(near, SA(strange), 1, SCTP_BINDX_ADD_ADDR), EADDRNOTAVAIL);
    FAILS(anabranch_sctp_bindx(near, SA(list), 2, 0), EINVAL);
    CHECK(anabranch_sctp_bindx(near, SA(list), 2, SCTP_BINDX_ADD_ADDR) == 0);
    CHECK(anabranch_sctp_bindx(near, SA(removed), 1, SCTP_BINDX_ADD_ADDR) == 0);
    FAILS(anabranch_sctp_bindx(near, SA(removed), 1, SCTP_BINDX_ADD_ADDR), EADDRINUSE);
    CHECK(anabranch_sctp_bindx(near, SA(removed), 1, SCTP_BINDX_REM_ADDR) == 0);
    FAILS(anabranch_sctp_bindx(near, SA(removed), 1, SCTP_BINDX_REM_ADDR), EINVAL);
    subscribe(near, SCTP_PEER_ADDR_CHANGE);
    struct sockaddr_in to[2] = {at("127.0.0.2", server.port), at("127.0.0.1", server.port)};
    CHECK(anabranch_sctp_connectx(near, SA(to), 1, NULL) == 0);
    int far = anabranch_accept(server.fd, NULL, NULL);
    CHECK(far >= 0);
    /* The peer does not support changes (SCTP_ASCONF_SUPPORTED). */
    FAILS(anabranch_sctp_bindx(near, SA(list), 1, SCTP_BINDX_REM_ADDR), EOPNOTSUPP);
    FAILS(anabranch_sctp_bindx(near, SA(strange), 1, SCTP_BINDX_ADD_ADDR), EADDRNOTAVAIL);

    struct sockaddr *addresses;
    CHECK(anabranch_sctp_getpaddrs(near, 0, &addresses) == 2);
    struct sockaddr_in *known = (struct sockaddr_in *)addresses;
    CHECK(known[0].sin_addr.s_addr == to[0].sin_addr.s_addr);
    CHECK(known[1].sin_addr.s_addr == to[1].sin_addr.s_addr);
    CHECK(known[0].sin_port == htons(server.port));
    anabranch_sctp_freepaddrs(addresses);
    CHECK(anabranch_sctp_getladdrs(near, 0, &addresses) == 2);
    known = (struct sockaddr_in *)addresses;
    CHECK(known[0].sin_addr.s_addr == list[0].sin_addr.s_addr);
    anabranch_sctp_freeladdrs(addresses);

    /* The address that the peer announced is confirmed, and can then become the primary one. */
    union sctp_notification change = notified(near, SCTP_PEER_ADDR_CHANGE);
    CHECK(change.sn_paddr_change.spc_state == SCTP_ADDR_CONFIRMED);
    CHECK(memcmp(&change.sn_paddr_change.spc_aaddr, &to[1], sizeof to[1]) == 0);
    struct sctp_prim primary = {0};
    memcpy(&primary.ssp_addr, &to[1], sizeof to[1]);
    SET(near, SCTP_PRIMARY_ADDR, primary);
    memset(&primary, 0, sizeof primary);
    socklen_t length = sizeof primary;
    CHECK(anabranch_getsockopt(near, IPPROTO_SCTP, SCTP_PRIMARY_ADDR, &primary, &length) == 0);
    CHECK(((struct sockaddr_in *)&primary.ssp_addr)->sin_addr.s_addr == to[1].sin_addr.s_addr);
    struct sctp_paddrinfo info = {0};
    memcpy(&info.spinfo_address, &to[1], sizeof to[1]);
    length = sizeof info;
    CHECK(anabranch_getsockopt(near, IPPROTO_SCTP, SCTP_GET_PEER_ADDR_INFO, &info, &length) == 0);
    CHECK(info.spinfo_state == SCTP_ACTIVE && info.spinfo_cwnd > 0 && info.spinfo_mtu >= 1200);
    memcpy(&info.spinfo_address, &strange, sizeof strange);
    FAILS(anabranch_getsockopt(near, IPPROTO_SCTP, SCTP_GET_PEER_ADDR_INFO, &info, &length), EINVAL);
    CHECK(anabranch_close(near) == 0 && anabranch_close(far) == 0);
    CHECK(anabranch_close(server.fd) == 0);
}

/* Options, and their effect on later associations. */
/* The association is set up with the second address, because nobody is at the first one (SCTP_DSTADDRV4). */
static void further_destinations(void)
{
    struct server server = serve(SOCK_SEQPACKET, 1);
    int near = client(SOCK_SEQPACKET, &server);
    struct sockaddr_in first = at("127.0.0.3", server.port), second = at("127.0.0.1", 0);
    struct iovec piece = {"hello", 5};
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(struct in_addr))] = {0};
    struct msghdr message = {
        .msg_iov = &piece, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    struct cmsghdr *item = CMSG_FIRSTHDR(&message);
    *item = (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof(struct in_addr)),
                             .cmsg_level = IPPROTO_SCTP,
                             .cmsg_type = SCTP_DSTADDRV4};
    memcpy(CMSG_DATA(item), &second.sin_addr, sizeof second.sin_addr);
    FAILS(anabranch_sendmsg(near, &message, 0), EINVAL);
    message.msg_name = &first;
    message.msg_namelen = sizeof first;
    CHECK(anabranch_sendmsg(near, &message, 0) == 5);
    char got[8];
    CHECK(anabranch_recv(server.fd, got, sizeof got, 0) == 5 && memcmp(got, "hello", 5) == 0);
    CHECK(anabranch_close(near) == 0 && anabranch_close(server.fd) == 0);
}

static void options(void)
{
    struct server server = serve(SOCK_STREAM, 1);
    int near = client(SOCK_STREAM, &server), value;
    struct sctp_rtoinfo rto = {.srto_initial = 700, .srto_max = 9000, .srto_min = 300};
    SET(near, SCTP_RTOINFO, rto);
    rto = (struct sctp_rtoinfo){.srto_min = 20000};
    FAILS(option(near, IPPROTO_SCTP, SCTP_RTOINFO, &rto, sizeof rto), EINVAL);
    socklen_t length = sizeof rto;
    CHECK(anabranch_getsockopt(near, IPPROTO_SCTP, SCTP_RTOINFO, &rto, &length) == 0);
    CHECK(rto.srto_initial == 700 && rto.srto_max == 9000 && rto.srto_min == 300);
    struct sctp_initmsg init = {.sinit_num_ostreams = 5, .sinit_max_instreams = 6};
    SET(near, SCTP_INITMSG, init);
    struct sctp_paddrparams params = {.spp_flags = SPP_HB_DISABLE, .spp_pathmaxrxt = 3};
    SET(near, SCTP_PEER_ADDR_PARAMS, params);
    params = (struct sctp_paddrparams){0};
    length = sizeof params;
    CHECK(anabranch_getsockopt(near, IPPROTO_SCTP, SCTP_PEER_ADDR_PARAMS, &params, &length) == 0);
    CHECK(params.spp_pathmaxrxt == 3 && (params.spp_flags & SPP_HB_DISABLE));
    /* Thresholds: 0xffff means none, and the one for changing the primary path is at least that for PF. */
    struct sctp_paddrthlds_v2 limit = {.spt_pathmaxrxt = 4, .spt_pathcpthld = 2};
    SET(near, SCTP_PEER_ADDR_THLDS_V2, limit);
    struct sctp_paddrthlds both = {.spt_pathpfthld = 1};
    SET(near, SCTP_PEER_ADDR_THLDS, both);
    limit = (struct sctp_paddrthlds_v2){0};
    length = sizeof limit;
    CHECK(anabranch_getsockopt(near, IPPROTO_SCTP, SCTP_PEER_ADDR_THLDS_V2, &limit, &length) == 0);
    CHECK(limit.spt_pathmaxrxt == 4 && limit.spt_pathpfthld == 1 && limit.spt_pathcpthld == 2);
    limit.spt_pathcpthld = 0;
    FAILS(option(near, IPPROTO_SCTP, SCTP_PEER_ADDR_THLDS_V2, &limit, sizeof limit), EINVAL);
    struct sctp_assoc_value expose = {.assoc_value = 1};
    SET(near, SCTP_EXPOSE_POTENTIALLY_FAILED_STATE, expose);
    length = sizeof expose;
    expose.assoc_value = 0;
    CHECK(anabranch_getsockopt(near, IPPROTO_SCTP, SCTP_EXPOSE_POTENTIALLY_FAILED_STATE, &expose,
                               &length) == 0);
    CHECK(expose.assoc_value == 1);
    struct sctp_assoc_value nr_sack = {.assoc_value = 1};
    SET(near, SCTP_NRSACK_SUPPORTED, nr_sack);
    nr_sack.assoc_value = 0;
    length = sizeof nr_sack;
    CHECK(anabranch_getsockopt(near, IPPROTO_SCTP, SCTP_NRSACK_SUPPORTED, &nr_sack, &length) == 0);
    CHECK(nr_sack.assoc_value == 1);
    struct sctp_event_subscribe events = {.sctp_association_event = 1};
    CHECK(option(near, IPPROTO_SCTP, SCTP_EVENTS, &events, sizeof events) == 0);
    struct sctp_event event = {.se_type = SCTP_ASSOC_CHANGE};
    length = sizeof event;
    CHECK(anabranch_getsockopt(near, IPPROTO_SCTP, SCTP_EVENT, &event, &length) == 0 && event.se_on);
    length = sizeof value;
    CHECK(anabranch_getsockopt(near, SOL_SOCKET, SO_TYPE, &value, &length) == 0);
    CHECK(value == SOCK_STREAM);
    value = 1;
    SET(near, SCTP_DISABLE_FRAGMENTS, value);
    FAILS(option(near, IPPROTO_SCTP, SCTP_I_WANT_MAPPED_V4_ADDR, &value, sizeof value), EINVAL);
    FAILS(option(near, IPPROTO_SCTP, SCTP_RTOINFO, &value, sizeof value), EINVAL);
    FAILS(option(near, 9999, 1, &value, sizeof value), ENOPROTOOPT);
    FAILS(option(near, IPPROTO_SCTP, SCTP_RTOINFO, NULL, 16), EFAULT);
    FAILS(anabranch_getsockopt(near, IPPROTO_SCTP, SCTP_RTOINFO, &rto, NULL), EFAULT);

    connect_to(near, &server);
    CHECK(changed(near, SCTP_COMM_UP) > 2);
    struct sctp_status status = {0};
    struct sctp_paddrinfo info;
    length = sizeof status;
    CHECK(anabranch_getsockopt(near, IPPROTO_SCTP, SCTP_STATUS, &status, &length) == 0);
    CHECK(status.sstat_outstrms == 5 && status.sstat_instrms == 6);
    /* With SCTP_DISABLE_FRAGMENTS a message must fit into one packet. */
    size_t whole = status.sstat_fragmentation_point;
    CHECK(whole > 500 && whole < 65536);
    FAILS(anabranch_send(near, big, sizeof big, 0), EMSGSIZE);
    value = 0;
    SET(near, SCTP_DISABLE_FRAGMENTS, value);
    /* The server does not want NR-SACKs, and the negotiated setting does not change. */
    CHECK(anabranch_getsockopt(near, IPPROTO_SCTP, SCTP_NRSACK_SUPPORTED, &nr_sack, &length) == 0);
    CHECK(nr_sack.assoc_value == 0);
    FAILS(option(near, IPPROTO_SCTP, SCTP_NRSACK_SUPPORTED, &nr_sack, sizeof nr_sack), EOPNOTSUPP);
    /* Options of an established association can change, except those that the handshake negotiated. */
    rto = (struct sctp_rtoinfo){.srto_initial = 6000, .srto_min = 5000};
    SET(near, SCTP_RTOINFO, rto);
    memset(&info, 0, sizeof info);
    struct sockaddr_in to = at("127.0.0.1", server.port);
    memcpy(&info.spinfo_address, &to, sizeof to);
    length = sizeof info;
    CHECK(anabranch_getsockopt(near, IPPROTO_SCTP, SCTP_GET_PEER_ADDR_INFO, &info, &length) == 0);
    CHECK(info.spinfo_rto == 5000);
    value = 1;
    CHECK(option(near, IPPROTO_SCTP, SCTP_NODELAY, &value, sizeof value) == 0);
    struct sctp_assocparams limits = {.sasoc_asocmaxrxt = 4};
    SET(near, SCTP_ASSOCINFO, limits);
    struct sctp_sack_info sack = {.sack_delay = 50, .sack_freq = 3};
    SET(near, SCTP_DELAYED_SACK, sack);
    struct sctp_assoc_value burst = {.assoc_value = 3};
    SET(near, SCTP_MAX_BURST, burst);
    params = (struct sctp_paddrparams){.spp_flags = SPP_HB_ENABLE, .spp_hbinterval = 9000};
    SET(near, SCTP_PEER_ADDR_PARAMS, params);
    both.spt_pathpfthld = 0;
    SET(near, SCTP_PEER_ADDR_THLDS, both);
    init.sinit_num_ostreams = 6;
    FAILS(option(near, IPPROTO_SCTP, SCTP_INITMSG, &init, sizeof init), EOPNOTSUPP);
    value = 5000;
    /* Buffers are hints: an association keeps its own. */
    CHECK(option(near, SOL_SOCKET, SO_RCVBUF, &value, sizeof value) == 0);
    CHECK(option(near, SOL_SOCKET, SO_SNDBUF, &value, sizeof value) == 0);
    rto = (struct sctp_rtoinfo){.srto_min = 20000};
    FAILS(option(near, IPPROTO_SCTP, SCTP_RTOINFO, &rto, sizeof rto), EINVAL);

    /* SO_LINGER with 0 aborts. */
    int far = anabranch_accept(server.fd, NULL, NULL);
    struct linger linger = {.l_onoff = 1};
    CHECK(option(far, SOL_SOCKET, SO_LINGER, &linger, sizeof linger) == 0);
    CHECK(anabranch_close(far) == 0);
    CHECK(changed(near, SCTP_COMM_LOST) > 2);
    FAILS(anabranch_recv(near, big, sizeof big, 0), ECONNRESET);
    CHECK(anabranch_close(near) == 0 && anabranch_close(server.fd) == 0);
}

static int named(int fd, sctp_assoc_t id, const char *name, const char *value)
{
    struct anabranch_option option = {.assoc_id = id};
    snprintf(option.name, sizeof option.name, "%s", name);
    snprintf(option.value, sizeof option.value, "%s", value);
    return anabranch_setsockopt(fd, IPPROTO_SCTP, ANABRANCH_OPTION, &option, sizeof option);
}

static int is(int fd, sctp_assoc_t id, const char *name, const char *value)
{
    struct anabranch_option option = {0};
    socklen_t length = sizeof option;
    snprintf(option.name, sizeof option.name, "%s", name);
    CHECK(anabranch_sctp_opt_info(fd, id, ANABRANCH_OPTION, &option, &length) == 0);
    CHECK(length == sizeof option);
    return strcmp(option.value, value) == 0;
}

/* Options of the engine by name. */
static void options_by_name(void)
{
    struct server server = serve(SOCK_STREAM, 1);
    int near = client(SOCK_STREAM, &server), number;
    FAILS(named(near, 0, "no_such_option", "on"), ENOPROTOOPT);
    FAILS(named(near, 0, "multipath", "perhaps"), EINVAL);
    FAILS(named(near, 0, "profile", "rfc1"), EINVAL);
    FAILS(named(near, 0, "rto_min", "90 s"), EINVAL);
    struct anabranch_option endless;
    memset(&endless, 'x', sizeof endless);
    FAILS(option(near, IPPROTO_SCTP, ANABRANCH_OPTION, &endless, sizeof endless), EINVAL);
    FAILS(option(near, IPPROTO_SCTP, ANABRANCH_OPTION, &endless, 100), EINVAL);
    socklen_t length = sizeof endless;
    FAILS(anabranch_getsockopt(near, IPPROTO_SCTP, ANABRANCH_OPTION, &endless, &length), EINVAL);

    /* Standard options and options by name access the same values. */
    CHECK(named(near, 0, "profile", "rfc4960") == 0);
    struct sctp_rtoinfo rto = {0};
    length = sizeof rto;
    CHECK(anabranch_getsockopt(near, IPPROTO_SCTP, SCTP_RTOINFO, &rto, &length) == 0);
    CHECK(rto.srto_initial == 3000);
    CHECK(named(near, 0, "multipath", "cmt-pf") == 0 && is(near, 0, "multipath", "cmt-pf"));
    CHECK(named(near, 0, "nr-sack", "on") == 0);
    struct sctp_assoc_value nr_sack = {0};
    length = sizeof nr_sack;
    CHECK(anabranch_getsockopt(near, IPPROTO_SCTP, SCTP_NRSACK_SUPPORTED, &nr_sack, &length) == 0);
    CHECK(nr_sack.assoc_value == 1 && is(near, 0, "nr_sack", "on"));
    number = 1;
    SET(near, SCTP_NODELAY, number);
    CHECK(is(near, 0, "bundling", "none"));

    /* Some can change on an established association. */
    connect_to(near, &server);
    CHECK(named(near, 0, "rto_min", "250 ms") == 0 && is(near, 0, "rto_min", "250 ms"));
    FAILS(named(near, 0, "multipath", "off"), EOPNOTSUPP);
    FAILS(named(near, 0, "profile", "default"), EOPNOTSUPP);
    CHECK(anabranch_close(near) == 0);

    /* One of several associations, by its id. */
    near = client(SOCK_SEQPACKET, &server);
    struct sockaddr_in to = at("127.0.0.1", server.port);
    sctp_assoc_t id = 0;
    CHECK(anabranch_sctp_connectx(near, SA(to), 1, &id) == 0);
    CHECK(named(near, id, "rto_min", "450 ms") == 0 && is(near, id, "rto_min", "450 ms"));
    CHECK(is(near, SCTP_FUTURE_ASSOC, "rto_min", "300 ms"));
    CHECK(anabranch_close(near) == 0 && anabranch_close(server.fd) == 0);
}

/* Options of one association of several, or of all of them. */
static void options_of_one(void)
{
    struct server server = serve(SOCK_STREAM, 1), other = serve(SOCK_STREAM, 1);
    int near = client(SOCK_SEQPACKET, &server);
    struct sctp_event_subscribe events = {.sctp_association_event = 1};
    CHECK(option(near, IPPROTO_SCTP, SCTP_EVENTS, &events, sizeof events) == 0);
    connect_to(near, &server);
    int first = changed(near, SCTP_COMM_UP);
    struct sctp_udpencaps encapsulation = {.sue_port = htons((uint16_t)other.udp)};
    SET(near, SCTP_REMOTE_UDP_ENCAPS_PORT, encapsulation);
    connect_to(near, &other);
    int second = changed(near, SCTP_COMM_UP);
    CHECK(first > 2 && second > 2 && first != second);

    struct sctp_rtoinfo rto = {.srto_assoc_id = SCTP_FUTURE_ASSOC};
    socklen_t defaults = sizeof rto;
    CHECK(anabranch_getsockopt(near, IPPROTO_SCTP, SCTP_RTOINFO, &rto, &defaults) == 0);
    const int usual = (int)rto.srto_min;
    CHECK(usual > 0 && usual < 3000);
    rto = (struct sctp_rtoinfo){.srto_assoc_id = first, .srto_initial = 4000, .srto_min = 3000};
    SET(near, SCTP_RTOINFO, rto);
    const int ids[] = {first, second, SCTP_FUTURE_ASSOC}, expected[] = {3000, usual, usual};
    for (int i = 0; i < 3; i++) {
        rto = (struct sctp_rtoinfo){.srto_assoc_id = ids[i]};
        socklen_t length = sizeof rto;
        CHECK(anabranch_getsockopt(near, IPPROTO_SCTP, SCTP_RTOINFO, &rto, &length) == 0);
        CHECK((int)rto.srto_min == expected[i]);
    }
    rto = (struct sctp_rtoinfo){.srto_assoc_id = SCTP_ALL_ASSOC, .srto_min = 900};
    SET(near, SCTP_RTOINFO, rto);
    for (int i = 0; i < 3; i++) {
        rto = (struct sctp_rtoinfo){.srto_assoc_id = ids[i]};
        socklen_t length = sizeof rto;
        CHECK(anabranch_getsockopt(near, IPPROTO_SCTP, SCTP_RTOINFO, &rto, &length) == 0);
        CHECK(rto.srto_min == 900 && rto.srto_assoc_id == ids[i]);
    }
    rto.srto_assoc_id = second + 1000;
    FAILS(option(near, IPPROTO_SCTP, SCTP_RTOINFO, &rto, sizeof rto), EINVAL);
    /* Future associations can still have other buffers. */
    int size = 50000;
    CHECK(option(near, SOL_SOCKET, SO_RCVBUF, &size, sizeof size) == 0);
    CHECK(anabranch_close(near) == 0);
    CHECK(anabranch_close(server.fd) == 0 && anabranch_close(other.fd) == 0);
}

/* Calls that must fail. */
static void errors(void)
{
    struct server server = serve(SOCK_STREAM, 1);
    FAILS(anabranch_socket(AF_UNIX, SOCK_STREAM, 0), EAFNOSUPPORT);
    FAILS(anabranch_socket(AF_INET, SOCK_DGRAM, 0), EPROTONOSUPPORT);
    FAILS(anabranch_socket(AF_INET, SOCK_STREAM, IPPROTO_TCP), EPROTONOSUPPORT);
    FAILS(anabranch_listen(12345, 1), EBADF);
    FAILS(anabranch_close(0), EBADF);
    int fd = client(SOCK_STREAM, &server);
    struct sockaddr_in closed = at("127.0.0.1", 9), none = at("127.0.0.1", 0);
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons(1)};
    FAILS(anabranch_bind(fd, SA(none), sizeof none), EINVAL);
    FAILS(anabranch_bind(fd, NULL, 16), EFAULT);
    FAILS(anabranch_accept(fd, NULL, NULL), EINVAL);
    FAILS(anabranch_recv(fd, big, 1, 0), ENOTCONN);
    FAILS(anabranch_send(fd, big, 1, 0), ENOTCONN);
    FAILS(anabranch_send(fd, NULL, 1, 0), EFAULT);
    FAILS(anabranch_connect(fd, SA(none), sizeof none), EINVAL);
    FAILS(anabranch_connect(fd, SA(closed), 3), EINVAL);
    FAILS(anabranch_connect(fd, SA(v6), sizeof v6), EAFNOSUPPORT);
    FAILS(anabranch_sctp_connectx(fd, SA(closed), 0, NULL), EINVAL);
    FAILS(anabranch_sctp_connectx(fd, NULL, 1, NULL), EFAULT);
    FAILS(anabranch_sctp_getpaddrs(fd, 0, NULL), ENOTCONN);
    FAILS(anabranch_recvmsg(fd, NULL, 0), EFAULT);
    FAILS(anabranch_getpeername(fd, SA(none), &(socklen_t){sizeof none}), ENOTCONN);
    /* There is no listener at that address; blocking and non-blocking calls fail. */
    FAILS(anabranch_connect(fd, SA(closed), sizeof closed), ECONNREFUSED);
    CHECK(fcntl(fd, F_SETFL, O_NONBLOCK) == 0);
    FAILS(anabranch_connect(fd, SA(closed), sizeof closed), EINPROGRESS);
    wait_for(fd, POLLOUT);
    int error = 0;
    socklen_t length = sizeof error;
    CHECK(anabranch_getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length) == 0);
    CHECK(error == ECONNREFUSED);
    int same = anabranch_socket(AF_INET, SOCK_STREAM, IPPROTO_SCTP);
    struct sockaddr_in taken = at("127.0.0.1", server.port);
    SET(same, ANABRANCH_LOCAL_UDP_PORT, server.udp);
    CHECK(anabranch_bind(same, SA(taken), sizeof taken) == 0);
    FAILS(anabranch_listen(same, 1), EADDRINUSE);
    CHECK(anabranch_close(same) == 0 && anabranch_close(fd) == 0);
    FAILS(anabranch_close(fd), EBADF);
    CHECK(anabranch_close(server.fd) == 0);
}

static int shared;
static void *block(void *argument)
{
    (void)argument;
    char byte;
    FAILS(anabranch_recv(shared, &byte, 1, 0), EBADF);
    return NULL;
}

static void *send_many(void *argument)
{
    for (int i = 0; i < 200; i++)
        CHECK(anabranch_send(shared, argument, 1000, 0) == 1000);
    return NULL;
}

/* Many threads on one socket; closing it wakes waiting threads. */
static void threads(void)
{
    struct server server = serve(SOCK_STREAM, 1);
    shared = client(SOCK_STREAM, &server);
    connect_to(shared, &server);
    int far = anabranch_accept(server.fd, NULL, NULL);
    CHECK(far >= 0);
    pthread_t senders[4];
    static char letters[4][1000];
    for (int i = 0; i < 4; i++) {
        memset(letters[i], 'a' + i, sizeof letters[i]);
        CHECK(pthread_create(&senders[i], NULL, send_many, letters[i]) == 0);
    }
    int counts[4] = {0};
    for (int i = 0; i < 800; i++) {
        CHECK(anabranch_recv(far, big, sizeof big, 0) == 1000);
        CHECK(big[0] >= 'a' && big[0] < 'e' && memcmp(big, letters[big[0] - 'a'], 1000) == 0);
        counts[big[0] - 'a']++;
    }
    for (int i = 0; i < 4; i++) {
        CHECK(pthread_join(senders[i], NULL) == 0);
        CHECK(counts[i] == 200);
    }
    pthread_t blocked;
    CHECK(pthread_create(&blocked, NULL, block, NULL) == 0);
    CHECK(anabranch_close(shared) == 0);
    CHECK(pthread_join(blocked, NULL) == 0);
    /* The data of the closed socket arrives, and then the end. */
    CHECK(anabranch_recv(far, big, sizeof big, 0) == 0);
    CHECK(anabranch_close(far) == 0 && anabranch_close(server.fd) == 0);
}

/* IPv6, and explicit endpoints. */
static void endpoints(void)
{
    struct sockaddr_in6 local = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    anabranch_endpoint *endpoint = anabranch_endpoint_new(SA(local), 1, 0);
    CHECK(endpoint != NULL);
    int udp = anabranch_endpoint_udp_port(endpoint);
    CHECK(udp > 0);
    int listener = anabranch_endpoint_socket(endpoint, AF_INET6, SOCK_STREAM);
    local.sin6_port = htons(4000);
    CHECK(anabranch_bind(listener, SA(local), sizeof local) == 0);
    CHECK(anabranch_listen(listener, 1) == 0);
    int near = anabranch_socket(AF_INET6, SOCK_STREAM, IPPROTO_SCTP);
    struct sctp_udpencaps encapsulation = {.sue_port = htons((uint16_t)udp)};
    SET(near, SCTP_REMOTE_UDP_ENCAPS_PORT, encapsulation);
    CHECK(anabranch_connect(near, SA(local), sizeof local) == 0);
    int far = anabranch_accept(listener, NULL, NULL);
    CHECK(far >= 0 && anabranch_endpoint_associations(endpoint) == 1);
    struct sockaddr_in6 from;
    socklen_t length = sizeof from;
    CHECK(anabranch_write(near, "six", 3) == 3);
    CHECK(anabranch_recvfrom(far, big, sizeof big, 0, SA(from), &length) == 3);
    CHECK(length == sizeof from && IN6_IS_ADDR_LOOPBACK(&from.sin6_addr));
    FAILS(anabranch_endpoint_wait_idle(endpoint, 1), ETIMEDOUT);
    CHECK(anabranch_close(near) == 0 && anabranch_close(far) == 0);
    CHECK(anabranch_endpoint_wait_idle(endpoint, 20000) == 0);

    /* An IPv6 socket can talk to IPv4 peers; an option selects how it shows their addresses. */
    struct server server = serve(SOCK_STREAM, 1);
    near = anabranch_socket(AF_INET6, SOCK_STREAM, IPPROTO_SCTP);
    encapsulation.sue_port = htons((uint16_t)server.udp);
    SET(near, SCTP_REMOTE_UDP_ENCAPS_PORT, encapsulation);
    struct sockaddr_in6 mapped = {.sin6_family = AF_INET6, .sin6_port = htons(server.port)};
    CHECK(inet_pton(AF_INET6, "::ffff:127.0.0.1", &mapped.sin6_addr) == 1);
    CHECK(anabranch_connect(near, SA(mapped), sizeof mapped) == 0);
    length = sizeof from;
    CHECK(anabranch_getpeername(near, SA(from), &length) == 0 && from.sin6_family == AF_INET);
    int on = 1;
    SET(near, SCTP_I_WANT_MAPPED_V4_ADDR, on);
    length = sizeof from;
    CHECK(anabranch_getpeername(near, SA(from), &length) == 0 && from.sin6_family == AF_INET6);
    CHECK(memcmp(&from.sin6_addr, &mapped.sin6_addr, sizeof mapped.sin6_addr) == 0);
    CHECK(anabranch_close(near) == 0 && anabranch_close(server.fd) == 0);
    CHECK(anabranch_close(listener) == 0);
    anabranch_endpoint_free(endpoint);
    CHECK(strcmp(anabranch_version(), "0.1.0") == 0);
}

static int open_descriptors(void)
{
    int count = 0;
    for (int fd = 0; fd < 1024; fd++)
        count += fcntl(fd, F_GETFD) >= 0;
    return count;
}

/* Calls and options of Linux that RFC 6458 does not have. */
static void linux_programs(void)
{
    struct server server = serve(SOCK_STREAM, 1);
    int near = client(SOCK_STREAM, &server), value = 0, one = 1;
    socklen_t length = sizeof value;
    const int told[][2] = {{SO_DOMAIN, AF_INET}, {SO_PROTOCOL, IPPROTO_SCTP}, {SO_ACCEPTCONN, 1}};
    for (size_t i = 0; i < 3; i++) {
        CHECK(anabranch_getsockopt(server.fd, SOL_SOCKET, told[i][0], &value, &length) == 0);
        CHECK(value == told[i][1]);
    }
    CHECK(anabranch_getsockopt(near, SOL_SOCKET, SO_ACCEPTCONN, &value, &length) == 0 && value == 0);
    CHECK(option(near, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof one) == 0);
    CHECK(anabranch_getsockopt(near, SOL_SOCKET, SO_KEEPALIVE, &value, &length) == 0 && value == 1);
    CHECK(option(near, SOL_SOCKET, SO_REUSEPORT, &one, sizeof one) == 0);
    CHECK(option(near, SOL_SOCKET, SO_BROADCAST, &one, sizeof one) == 0);
    value = 0;
    CHECK(option(near, IPPROTO_IPV6, IPV6_V6ONLY, &value, sizeof value) == 0);
    FAILS(option(near, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof one), EOPNOTSUPP);
    FAILS(option(near, IPPROTO_IP, 9999, &one, sizeof one), ENOPROTOOPT);
    struct sctp_assoc_value segment = {.assoc_value = 1000};
    SET(near, SCTP_MAXSEG, segment);
    segment.assoc_value = 0;
    length = sizeof segment;
    CHECK(anabranch_getsockopt(near, IPPROTO_SCTP, SCTP_MAXSEG, &segment, &length) == 0);
    CHECK(segment.assoc_value == 1000);
    struct sctp_default_prinfo lifetime = {.pr_policy = SCTP_PR_SCTP_TTL, .pr_value = 60000};
    SET(near, SCTP_DEFAULT_PRINFO, lifetime);

    connect_to(near, &server);
    struct sockaddr_in from;
    length = sizeof from;
    int far = anabranch_accept4(server.fd, SA(from), &length, SOCK_NONBLOCK | SOCK_CLOEXEC);
    CHECK(far >= 0 && anabranch_is_socket(far) == 1 && anabranch_is_socket(STDIN_FILENO) == 0);
    FAILS(anabranch_recv(far, big, 1, 0), EAGAIN);
    struct sctp_status status = {0};
    length = sizeof status;
    CHECK(anabranch_getsockopt(near, IPPROTO_SCTP, SCTP_STATUS, &status, &length) == 0);
    CHECK(status.sstat_fragmentation_point <= 1000);

    /* An older size of the structure, and the current one with the peer's only address. */
    struct sctp_paddrparams params = {.spp_flags = SPP_HB_ENABLE, .spp_hbinterval = 7000};
    CHECK(option(near, IPPROTO_SCTP, SCTP_PEER_ADDR_PARAMS, &params, 152) == 0);
    memset(&params, 0, sizeof params);
    length = 152;
    CHECK(anabranch_getsockopt(near, IPPROTO_SCTP, SCTP_PEER_ADDR_PARAMS, &params, &length) == 0);
    CHECK(length == 152 && params.spp_hbinterval == 7000);
    struct sockaddr_in to = at("127.0.0.1", server.port);
    memcpy(&params.spp_address, &to, sizeof to);
    params.spp_hbinterval = 8000;
    SET(near, SCTP_PEER_ADDR_PARAMS, params);
    to = at("127.0.0.9", server.port);
    memcpy(&params.spp_address, &to, sizeof to);
    FAILS(option(near, IPPROTO_SCTP, SCTP_PEER_ADDR_PARAMS, &params, sizeof params), EOPNOTSUPP);

    /* Several buffers, and several messages. */
    struct iovec pieces[2] = {{"vec", 3}, {"tor", 3}};
    char first[4], second[8];
    struct iovec places[2] = {{first, 4}, {second, 8}};
    CHECK(anabranch_writev(near, pieces, 2) == 6);
    wait_for(far, POLLIN);
    CHECK(anabranch_ioctl(far, FIONREAD, &value) == 0 && value == 6);
    CHECK(anabranch_readv(far, places, 2) == 6);
    CHECK(memcmp(first, "vect", 4) == 0 && memcmp(second, "or", 2) == 0);
    struct mmsghdr out[3] = {0}, in[4] = {0};
    for (int i = 0; i < 3; i++) {
        out[i].msg_hdr.msg_iov = pieces;
        out[i].msg_hdr.msg_iovlen = 1 + (size_t)i % 2;
    }
    for (int i = 0; i < 4; i++) {
        in[i].msg_hdr.msg_iov = &places[1];
        in[i].msg_hdr.msg_iovlen = 1;
    }
    CHECK(anabranch_sendmmsg(near, out, 3, 0) == 3 && out[1].msg_len == 6);
    int came = 0;
    while (came < 3) {
        wait_for(far, POLLIN);
        int now = anabranch_recvmmsg(far, in, 4, MSG_WAITFORONE, NULL);
        CHECK(now > 0 && in[0].msg_len == (came % 2 ? 6u : 3u));
        came += now;
    }
    FAILS(anabranch_recvmmsg(far, in, 4, 0, NULL), EAGAIN);

    /* Addresses and association ids. */
    CHECK(anabranch_sctp_getaddrlen(AF_INET) == sizeof to);
    FAILS(anabranch_sctp_getaddrlen(AF_UNIX), EINVAL);
    to = at("127.0.0.1", server.port);
    CHECK(anabranch_sctp_getassocid(near, SA(to), sizeof to) > 2);
    to = at("127.0.0.1", 1);
    CHECK(anabranch_sctp_getassocid(near, SA(to), sizeof to) == 0 && errno == EINVAL);
    CHECK(anabranch_close(near) == 0 && anabranch_close(far) == 0);

    /* A message to a list of addresses sets up an association. */
    int many = client(SOCK_SEQPACKET, &server);
    to = at("127.0.0.1", server.port);
    struct sctp_sndrcvinfo info = {.sinfo_stream = 3};
    CHECK(anabranch_sctp_sendx(many, "x", 1, SA(to), 1, &info, 0) == 1);
    far = anabranch_accept(server.fd, NULL, NULL);
    CHECK(far >= 0 && anabranch_recv(far, big, 1, 0) == 1);
    sctp_assoc_t id = anabranch_sctp_getassocid(many, SA(to), sizeof to);
    int peeled = anabranch_sctp_peeloff_flags(many, id, SOCK_NONBLOCK);
    CHECK(id > 2 && peeled >= 0 && (fcntl(peeled, F_GETFL) & O_NONBLOCK));
    CHECK(anabranch_close(peeled) == 0 && anabranch_close(many) == 0);
    CHECK(anabranch_close(far) == 0 && anabranch_close(server.fd) == 0);
}

/* Closed sockets leak nothing, and their ports can be used again immediately. */
static void again_and_again(void)
{
    int at_first = 0, now = 0;
    struct sockaddr_in local = at("127.0.0.1", 4321);
    for (int i = 0; i < 50; i++) {
        struct server server = {.port = 4321};
        server.fd = anabranch_socket(AF_INET, SOCK_STREAM, IPPROTO_SCTP);
        SET(server.fd, ANABRANCH_LOCAL_UDP_PORT, server.udp);
        CHECK(anabranch_bind(server.fd, SA(local), sizeof local) == 0);
        CHECK(anabranch_listen(server.fd, 4) == 0);
        CHECK(anabranch_listen(server.fd, 0) == 0);
        CHECK(anabranch_listen(server.fd, 4) == 0);
        socklen_t length = sizeof server.udp;
        CHECK(anabranch_getsockopt(server.fd, IPPROTO_SCTP, ANABRANCH_LOCAL_UDP_PORT, &server.udp,
                                   &length) == 0);
        int near = client(SOCK_STREAM, &server), unaccepted = client(SOCK_STREAM, &server);
        connect_to(near, &server);
        connect_to(unaccepted, &server);
        int far = anabranch_accept(server.fd, NULL, NULL);
        CHECK(far >= 0 && anabranch_write(near, "x", 1) == 1);
        CHECK(anabranch_close(near) == 0 && anabranch_read(far, big, 1) == 1);
        CHECK(anabranch_read(far, big, 1) == 0);
        CHECK(anabranch_close(far) == 0 && anabranch_close(server.fd) == 0);
        /* Closing the listener aborts associations that were not accepted. */
        FAILS(anabranch_read(unaccepted, big, 1), ECONNRESET);
        CHECK(anabranch_close(unaccepted) == 0);
        if (i == 0)
            at_first = open_descriptors();
    }
    /* Tasks may hold the last descriptors a little longer. */
    for (int i = 0; i < 1000 && (now = open_descriptors()) > at_first; i++)
        usleep(10000);
    CHECK(now <= at_first);
}

/* The type of service in the first packet of an association, over IPv4 or IPv6. */
static int service_of(int family, int class)
{
    int level = family == AF_INET ? IPPROTO_IP : IPPROTO_IPV6, on = 1, got = -1;
    int name = family == AF_INET ? IP_TOS : IPV6_TCLASS;
    struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    struct sockaddr_in four = at("127.0.0.1", 0);
    struct sockaddr *to = family == AF_INET ? SA(four) : SA(six);
    socklen_t length = family == AF_INET ? sizeof four : sizeof six;
    int peer = socket(family, SOCK_DGRAM, 0);
    CHECK(peer >= 0 && bind(peer, to, length) == 0 && getsockname(peer, to, &length) == 0);
    CHECK(setsockopt(peer, level, family == AF_INET ? IP_RECVTOS : IPV6_RECVTCLASS, &on, sizeof on) == 0);
    int fd = anabranch_socket(family, SOCK_STREAM | SOCK_NONBLOCK, IPPROTO_SCTP);
    in_port_t *port = family == AF_INET ? &four.sin_port : &six.sin6_port;
    struct sctp_udpencaps encapsulation = {.sue_port = *port};
    SET(fd, SCTP_REMOTE_UDP_ENCAPS_PORT, encapsulation);
    CHECK(option(fd, level, name, &class, sizeof class) == 0);
    *port = htons(5000);
    FAILS(anabranch_connect(fd, to, length), EINPROGRESS);
    socklen_t size = sizeof got;
    CHECK(anabranch_getsockopt(fd, level, name, &got, &size) == 0 && got == (class & ~3));
    class ^= 0x40;
    FAILS(option(fd, level, name, &class, sizeof class), EOPNOTSUPP);

    char control[256];
    struct iovec piece = {big, sizeof big};
    struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1, .msg_control = control,
                             .msg_controllen = sizeof control};
    CHECK(recvmsg(peer, &message, 0) > 12);
    struct cmsghdr *only = CMSG_FIRSTHDR(&message);
    CHECK(only && only->cmsg_level == level && only->cmsg_type == name);
    got = *CMSG_DATA(only);
    CHECK(anabranch_close(fd) == 0 && close(peer) == 0);
    return got;
}

static void service(void)
{
    for (int family = AF_INET;; family = AF_INET6) {
        CHECK(service_of(family, 0) == 0);
        CHECK(service_of(family, 0xb8) == 0xb8);
        /* The user cannot set the ECN bits. */
        CHECK(service_of(family, 0x2b) == 0x28);
        if (family == AF_INET6)
            break;
    }
    int fd = anabranch_socket(AF_INET, SOCK_STREAM, IPPROTO_SCTP), too_much = 256, some = -1;
    FAILS(option(fd, IPPROTO_IP, IP_TOS, &too_much, sizeof too_much), EINVAL);
    FAILS(option(fd, IPPROTO_IP, IP_TOS, &some, sizeof some), EINVAL);
    CHECK(anabranch_close(fd) == 0);

    /* Messages of many packets in both directions. */
    struct server server = serve(SOCK_STREAM, 1);
    int near = client(SOCK_STREAM, &server), class = 0x48;
    CHECK(option(near, IPPROTO_IP, IP_TOS, &class, sizeof class) == 0);
    connect_to(near, &server);
    int far = anabranch_accept(server.fd, NULL, NULL);
    memset(big, 'y', sizeof big);
    CHECK(anabranch_send(near, big, sizeof big, 0) == sizeof big);
    size_t received = 0;
    while (received < sizeof big) {
        ssize_t count = anabranch_recv(far, big, sizeof big, 0);
        CHECK(count > 0);
        received += (size_t)count;
    }
    CHECK(anabranch_close(near) == 0 && anabranch_close(far) == 0 && anabranch_close(server.fd) == 0);
}

int main(void)
{
    /* Fail instead of hanging. */
    alarm(120);
    readiness();
    messages();
    service();
    one_to_many();
    multihoming();
    further_destinations();
    options();
    options_by_name();
    options_of_one();
    errors();
    threads();
    endpoints();
    linux_programs();
    again_and_again();
    CHECK(anabranch_finish(20000) == 0);
    printf("passed\n");
    return 0;
}
