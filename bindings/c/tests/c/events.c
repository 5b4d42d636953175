/* Notifications and ancillary data. */
#define _GNU_SOURCE
#include "ends.h"

#include <fcntl.h>
#include <unistd.h>

static sctp_assoc_t dry(int fd)
{
    union sctp_notification notification = notified(fd, SCTP_SENDER_DRY_EVENT);
    CHECK(notification.sn_header.sn_length == sizeof(struct sctp_sender_dry_event));
    return notification.sn_sender_dry_event.sender_dry_assoc_id;
}

/* Reads messages until `wanted` bytes have arrived. Returns the number of bytes. */
static size_t drain(int fd, size_t wanted)
{
    size_t received = 0;
    while (received < wanted) {
        ssize_t count = anabranch_recv(fd, big, sizeof big, 0);
        CHECK(count > 0);
        received += (size_t)count;
    }
    return received;
}

/* One-to-one: SCTP_SENDER_DRY_EVENT comes immediately if the sender is dry, and each time that it becomes dry. */
static void sender_dry(void)
{
    struct server server = serve(SOCK_STREAM, 1);
    int near = client(SOCK_STREAM, &server), size = 20000;
    CHECK(option(near, SOL_SOCKET, SO_SNDBUF, &size, sizeof size) == 0);
    connect_to(near, &server);
    int far = anabranch_accept(server.fd, NULL, NULL);
    CHECK(far >= 0 && !(ready(near) & POLLIN));
    subscribe(near, SCTP_SENDER_DRY_EVENT);
    CHECK(ready(near) & POLLIN);
    CHECK(dry(near) > 2);
    /* Subscribing again does not repeat it. */
    subscribe(near, SCTP_SENDER_DRY_EVENT);
    CHECK(!(ready(near) & POLLIN));

    CHECK(anabranch_send(near, "once", 4, 0) == 4);
    CHECK(dry(near) > 2);
    CHECK(drain(far, 4) == 4);

    /* Data that does not fit into the peer's window is still to be sent. */
    CHECK(fcntl(near, F_SETFL, O_NONBLOCK) == 0);
    size_t sent = 0;
    struct pollfd writable = {near, POLLOUT, 0};
    do {
        while (anabranch_send(near, big, 10000, 0) == 10000)
            sent += 10000;
        CHECK(errno == EAGAIN && sent < 100u * 1000 * 1000);
    } while (poll(&writable, 1, 200) == 1);
    /* The sender may have been dry between two of these messages. */
    while (ready(near) & POLLIN)
        dry(near);
    struct sctp_event event = {.se_type = SCTP_SENDER_DRY_EVENT};
    SET(near, SCTP_EVENT, event);
    event.se_on = 1;
    SET(near, SCTP_EVENT, event);
    CHECK(!(ready(near) & POLLIN));
    CHECK(drain(far, sent) == sent);
    wait_for(near, POLLIN);
    CHECK(dry(near) > 2);
    CHECK(anabranch_close(near) == 0 && anabranch_close(far) == 0);
    CHECK(anabranch_close(server.fd) == 0);
}

/* One-to-many: subscribing before there is an association does not report its beginning as dry. */
static void sender_dry_of_many(void)
{
    struct server server = serve(SOCK_SEQPACKET, 1);
    int near = client(SOCK_SEQPACKET, &server);
    struct sctp_event_subscribe events = {.sctp_association_event = 1, .sctp_sender_dry_event = 1};
    SET(near, SCTP_EVENTS, events);
    SET(server.fd, SCTP_EVENTS, events);
    struct sctp_event_subscribe set;
    socklen_t length = sizeof set;
    CHECK(anabranch_getsockopt(near, IPPROTO_SCTP, SCTP_EVENTS, &set, &length) == 0);
    CHECK(set.sctp_sender_dry_event == 1 && set.sctp_association_event == 1);
    struct sockaddr_in to = at("127.0.0.1", server.port);
    CHECK(anabranch_sctp_connectx(near, SA(to), 1, NULL) == 0);
    sctp_assoc_t id = changed(near, SCTP_COMM_UP), far = changed(server.fd, SCTP_COMM_UP);
    CHECK(anabranch_sctp_sendmsg(near, "hello", 5, SA(to), sizeof to, 0, 0, 1, 0, 0) == 5);
    CHECK(dry(near) == id);
    CHECK(anabranch_recv(server.fd, big, sizeof big, 0) == 5);
    struct sctp_sndrcvinfo info = {.sinfo_assoc_id = far};
    CHECK(anabranch_sctp_send(server.fd, "back", 4, &info, 0) == 4);
    CHECK(dry(server.fd) == far);
    CHECK(anabranch_recv(near, big, sizeof big, 0) == 4);
    CHECK(anabranch_close(near) == 0 && anabranch_close(server.fd) == 0);
}

/* Receives a message of this length with its SCTP_RCVINFO. */
static struct sctp_rcvinfo next(int fd, size_t size)
{
    struct iovec piece = {big, sizeof big};
    struct sctp_rcvinfo info;
    socklen_t length = sizeof info;
    unsigned int type = 0;
    int flags = 0;
    CHECK(anabranch_sctp_recvv(fd, &piece, 1, NULL, NULL, &info, &length, &type, &flags) ==
          (ssize_t)size);
    CHECK(type == SCTP_RECVV_RCVINFO && (flags & MSG_EOR));
    return info;
}

/* The sequence numbers of messages: SSN, TSN and cumulative TSN. */
static void numbers(void)
{
    struct server server = serve(SOCK_STREAM, 1);
    int near = client(SOCK_STREAM, &server), on = 1;
    connect_to(near, &server);
    int far = anabranch_accept(server.fd, NULL, NULL);
    CHECK(far >= 0);
    SET(far, SCTP_RECVRCVINFO, on);
    /* The stream of each message, its SSN and its length; the third one has several chunks. */
    const unsigned streams[] = {3, 3, 5, 3, 5}, ssns[] = {0, 1, 0, 2, 1};
    const size_t sizes[] = {10, 20, 20000, 30, 40};
    for (int i = 0; i < 5; i++)
        CHECK(anabranch_sctp_sendmsg(near, big, sizes[i], NULL, 0, 0, 0, (uint16_t)streams[i], 0,
                                     0) == (ssize_t)sizes[i]);
    uint32_t tsn = 0;
    for (int i = 0; i < 5; i++) {
        struct sctp_rcvinfo info = next(far, sizes[i]);
        CHECK(info.rcv_sid == streams[i] && info.rcv_ssn == ssns[i]);
        uint32_t step = info.rcv_tsn - tsn;
        CHECK(i == 0 || (i == 3 ? step >= 10 && step < 100 : step == 1));
        tsn = info.rcv_tsn;
        /* A delivered message has arrived completely, and so have the TSNs before it. */
        CHECK(info.rcv_cumtsn - tsn < 100);
    }
    /* The same with the older structure. */
    struct sctp_event_subscribe events = {.sctp_data_io_event = 1};
    SET(far, SCTP_EVENTS, events);
    CHECK(anabranch_send(near, "last", 4, 0) == 4);
    struct sctp_sndrcvinfo info;
    int flags = 0;
    CHECK(anabranch_sctp_recvmsg(far, big, sizeof big, NULL, NULL, &info, &flags) == 4);
    CHECK(info.sinfo_stream == 0 && info.sinfo_ssn == 0);
    CHECK(info.sinfo_tsn == tsn + 1 && info.sinfo_cumtsn == tsn + 1);
    /* The information is still there after the end of the association. */
    CHECK(anabranch_sctp_sendmsg(near, "bye", 3, NULL, 0, 0, SCTP_UNORDERED, 4, 0, 0) == 3);
    CHECK(anabranch_close(near) == 0 && anabranch_finish(20000) == 0);
    CHECK(anabranch_sctp_recvmsg(far, big, sizeof big, NULL, NULL, &info, &flags) == 3);
    CHECK(info.sinfo_tsn == tsn + 2 && info.sinfo_cumtsn == tsn + 2);
    CHECK(info.sinfo_flags == SCTP_UNORDERED);
    CHECK(anabranch_close(far) == 0 && anabranch_close(server.fd) == 0);
}

static struct sctp_assoc_stats totals(int fd, sctp_assoc_t id)
{
    struct sctp_assoc_stats stats;
    socklen_t length = sizeof stats;
    CHECK(anabranch_sctp_opt_info(fd, id, SCTP_GET_ASSOC_STATS, &stats, &length) == 0);
    CHECK(length == sizeof stats);
    return stats;
}

/* Linux's counters of an association. */
static void counters(void)
{
    struct server server = serve(SOCK_SEQPACKET, 1);
    int near = client(SOCK_SEQPACKET, &server);
    struct sctp_assoc_stats stats;
    socklen_t length = sizeof stats;
    FAILS(anabranch_getsockopt(near, IPPROTO_SCTP, SCTP_GET_ASSOC_STATS, &stats, &length), EINVAL);
    subscribe(near, SCTP_SENDER_DRY_EVENT);
    subscribe(server.fd, SCTP_ASSOC_CHANGE);
    struct sockaddr_in to = at("127.0.0.1", server.port);
    sctp_assoc_t id = 0;
    CHECK(anabranch_sctp_connectx(near, SA(to), 1, &id) == 0);
    sctp_assoc_t far = changed(server.fd, SCTP_COMM_UP);
    struct sctp_assoc_stats before = totals(near, id);
    CHECK(before.sas_oodchunks == 0 && before.sas_isacks == 0 && before.sas_opackets >= 2);
    /* One at a time, each acknowledged before the next is sent. */
    for (int i = 0; i < 7; i++) {
        CHECK(anabranch_sctp_sendmsg(near, "one", 3, SA(to), sizeof to, 0, 0, 0, 0, 0) == 3);
        CHECK(anabranch_recv(server.fd, big, sizeof big, 0) == 3);
        CHECK(dry(near) == id);
    }
    stats = totals(near, id);
    CHECK(stats.sas_assoc_id == id && stats.sas_oodchunks >= 7);
    CHECK(stats.sas_oodchunks == 7 + stats.sas_rtxchunks);
    CHECK(stats.sas_isacks >= 7 && stats.sas_osacks == 0);
    CHECK(stats.sas_opackets >= before.sas_opackets + 7 && stats.sas_ipackets >= 7);
    CHECK(stats.sas_maxrto >= 300 && stats.sas_maxrto <= 60000);
    CHECK(memcmp(&stats.sas_obs_rto_ipaddr, &to, sizeof to) == 0);
    /* Sent: INIT and COOKIE ECHO. Received: INIT ACK and COOKIE ACK, then the SACKs, without gaps. */
    CHECK(before.sas_octrlchunks >= 2 && before.sas_ictrlchunks >= 2);
    CHECK(stats.sas_ictrlchunks >= before.sas_ictrlchunks + stats.sas_isacks);
    CHECK(stats.sas_gapcnt == 0 && stats.sas_outofseqtsns == 0);
    stats = totals(server.fd, far);
    CHECK(stats.sas_octrlchunks > stats.sas_osacks && stats.sas_outofseqtsns == 0);
    CHECK(stats.sas_iodchunks == 7 && stats.sas_osacks >= 7 && stats.sas_isacks == 0);
    CHECK(anabranch_close(near) == 0 && anabranch_close(server.fd) == 0);
}

/* SCTP_EXTRCV: information about a message and about the next one (RFC 6458 section 5.3.3). */
static struct sctp_extrcvinfo extended(int fd, const char *expected)
{
    char buffer[64], control[256];
    struct iovec piece = {buffer, sizeof buffer};
    struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1, .msg_control = control,
                             .msg_controllen = sizeof control};
    struct sctp_extrcvinfo info;
    size_t length = strlen(expected);
    CHECK(anabranch_recvmsg(fd, &message, 0) == (ssize_t)length && !memcmp(buffer, expected, length));
    struct cmsghdr *only = CMSG_FIRSTHDR(&message);
    CHECK(only && only->cmsg_level == IPPROTO_SCTP && only->cmsg_type == SCTP_EXTRCV);
    CHECK(only->cmsg_len == CMSG_LEN(sizeof info) && !CMSG_NXTHDR(&message, only));
    memcpy(&info, CMSG_DATA(only), sizeof info);
    return info;
}

static void next_message(void)
{
    struct server server = serve(SOCK_STREAM, 1);
    int near = client(SOCK_STREAM, &server), on = 1;
    connect_to(near, &server);
    int far = anabranch_accept(server.fd, NULL, NULL);
    struct sctp_event_subscribe events = {.sctp_data_io_event = 1};
    SET(far, SCTP_EVENTS, events);
    SET(far, SCTP_USE_EXT_RCVINFO, on);
    CHECK(anabranch_sctp_sendmsg(near, "one", 3, NULL, 0, htonl(7), 0, 3, 0, 0) == 3);
    CHECK(anabranch_sctp_sendmsg(near, "three", 5, NULL, 0, htonl(8), SCTP_UNORDERED, 4, 0, 0) == 5);
    while (totals(far, 0).sas_iodchunks < 2)
        poll(NULL, 0, 1);
    struct sctp_extrcvinfo info = extended(far, "one");
    CHECK(info.sinfo_stream == 3 && info.sinfo_ppid == htonl(7) && info.sinfo_flags == 0);
    CHECK(info.serinfo_next_flags ==
          (SCTP_NEXT_MSG_AVAIL | SCTP_NEXT_MSG_ISCOMPLETE | SCTP_NEXT_MSG_IS_UNORDERED));
    CHECK(info.serinfo_next_stream == 4 && info.serinfo_next_ppid == htonl(8));
    CHECK(info.serinfo_next_length == 5 && info.serinfo_next_aid == info.sinfo_assoc_id);
    uint32_t tsn = info.sinfo_tsn;
    info = extended(far, "three");
    CHECK(info.sinfo_tsn == tsn + 1 && info.sinfo_flags == SCTP_UNORDERED);
    CHECK(info.serinfo_next_flags == 0 && info.serinfo_next_length == 0);
    CHECK(anabranch_close(near) == 0 && anabranch_close(far) == 0 && anabranch_close(server.fd) == 0);
}

int main(void)
{
    /* Fail instead of hanging. */
    alarm(120);
    sender_dry();
    sender_dry_of_many();
    counters();
    numbers();
    next_message();
    CHECK(anabranch_finish(20000) == 0);
    printf("passed\n");
    return 0;
}
