/* Partial reliability (RFC 7496): policies, what was given up, and messages whose rest does not come. */
#include "ends.h"

#include <unistd.h>

/* A server with a small receive buffer and its client with a small send buffer. */
static struct server server;
static int near, far;

static void begin(void)
{
    server = (struct server){.fd = anabranch_socket(AF_INET, SOCK_STREAM, IPPROTO_SCTP)};
    int receive = 5000, point = 2000, send = 20000;
    CHECK(option(server.fd, SOL_SOCKET, SO_RCVBUF, &receive, sizeof receive) == 0);
    SET(server.fd, SCTP_PARTIAL_DELIVERY_POINT, point);
    SET(server.fd, ANABRANCH_LOCAL_UDP_PORT, server.udp);
    struct sockaddr_in local = at("127.0.0.1", 0);
    socklen_t length = sizeof local;
    CHECK(anabranch_bind(server.fd, SA(local), sizeof local) == 0);
    CHECK(anabranch_listen(server.fd, 1) == 0);
    CHECK(anabranch_getsockname(server.fd, SA(local), &length) == 0);
    server.port = ntohs(local.sin_port);
    length = sizeof server.udp;
    CHECK(anabranch_getsockopt(server.fd, IPPROTO_SCTP, ANABRANCH_LOCAL_UDP_PORT, &server.udp,
                               &length) == 0);
    near = client(SOCK_STREAM, &server);
    CHECK(option(near, SOL_SOCKET, SO_SNDBUF, &send, sizeof send) == 0);
    connect_to(near, &server);
    far = anabranch_accept(server.fd, NULL, NULL);
    CHECK(far >= 0);
}

static void end(void)
{
    CHECK(anabranch_close(near) == 0 && anabranch_close(far) == 0);
    CHECK(anabranch_close(server.fd) == 0);
}

static ssize_t send_with(uint16_t policy, uint32_t value, const char *data, size_t length, int flags)
{
    struct sctp_prinfo info = {.pr_policy = policy, .pr_value = value};
    struct iovec piece = {(void *)data, length};
    return anabranch_sctp_sendv(near, &piece, 1, NULL, 0, &info, sizeof info, SCTP_SENDV_PRINFO, flags);
}

/* What was given up, as SCTP_PR_ASSOC_STATUS or SCTP_PR_STREAM_STATUS has it. */
static struct sctp_prstatus status(int name, uint16_t policy, uint16_t stream)
{
    struct sctp_prstatus status = {.sprstat_policy = policy, .sprstat_sid = stream};
    socklen_t length = sizeof status;
    CHECK(anabranch_getsockopt(near, IPPROTO_SCTP, name, &status, &length) == 0);
    CHECK(length == sizeof status && status.sprstat_policy == policy);
    return status;
}

/* Values and policies that do not exist are refused in all calls. */
static void refused(void)
{
    begin();
    const struct {
        uint16_t policy;
        uint32_t value;
    } wrong[] = {{SCTP_PR_SCTP_RTX, 65536}, {0x40, 1}, {SCTP_PR_SCTP_TTL | SCTP_UNORDERED, 1}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        FAILS(send_with(wrong[i].policy, wrong[i].value, "x", 1, 0), EINVAL);
        struct sctp_default_prinfo usual = {.pr_policy = wrong[i].policy, .pr_value = wrong[i].value};
        FAILS(option(near, IPPROTO_SCTP, SCTP_DEFAULT_PRINFO, &usual, sizeof usual), EINVAL);
    }
    struct sctp_sndrcvinfo old = {.sinfo_flags = SCTP_PR_SCTP_RTX, .sinfo_timetolive = 65536};
    FAILS(anabranch_sctp_send(near, "x", 1, &old, 0), EINVAL);
    FAILS(option(near, IPPROTO_SCTP, SCTP_DEFAULT_SEND_PARAM, &old, sizeof old), EINVAL);
    FAILS(anabranch_sctp_sendmsg(near, "x", 1, NULL, 0, 0, SCTP_PR_SCTP_RTX, 0, 65536, 0), EINVAL);
    /* As in Linux, the policy is not among the flags of this option. */
    struct sctp_sndinfo info = {.snd_flags = SCTP_PR_SCTP_TTL};
    FAILS(option(near, IPPROTO_SCTP, SCTP_DEFAULT_SNDINFO, &info, sizeof info), EINVAL);
    const uint16_t policies[] = {SCTP_PR_SCTP_NONE, 0x40, SCTP_PR_SCTP_ALL | SCTP_PR_SCTP_TTL};
    for (size_t i = 0; i < sizeof policies / sizeof *policies; i++) {
        struct sctp_prstatus asked = {.sprstat_policy = policies[i]};
        socklen_t length = sizeof asked;
        FAILS(anabranch_getsockopt(near, IPPROTO_SCTP, SCTP_PR_ASSOC_STATUS, &asked, &length), EINVAL);
    }
    struct sctp_prstatus asked = {.sprstat_policy = SCTP_PR_SCTP_ALL, .sprstat_sid = 65535};
    socklen_t length = sizeof asked;
    FAILS(anabranch_getsockopt(near, IPPROTO_SCTP, SCTP_PR_STREAM_STATUS, &asked, &length), EINVAL);
    FAILS(option(near, IPPROTO_SCTP, SCTP_PR_ASSOC_STATUS, &asked, sizeof asked), ENOPROTOOPT);
    length--;
    FAILS(anabranch_getsockopt(near, IPPROTO_SCTP, SCTP_PR_STREAM_STATUS, &asked, &length), EINVAL);
    end();
}

/* SCTP_DEFAULT_PRINFO and SCTP_DEFAULT_SEND_PARAM show the same default. */
static void defaults(void)
{
    begin();
    const uint16_t policies[] = {SCTP_PR_SCTP_TTL, SCTP_PR_SCTP_RTX, SCTP_PR_SCTP_PRIO, SCTP_PR_SCTP_NONE};
    for (size_t i = 0; i < sizeof policies / sizeof *policies; i++) {
        struct sctp_default_prinfo usual = {.pr_policy = policies[i], .pr_value = 7};
        uint32_t value = policies[i] == SCTP_PR_SCTP_NONE ? 0 : 7;
        SET(near, SCTP_DEFAULT_PRINFO, usual);
        usual = (struct sctp_default_prinfo){.pr_policy = 9, .pr_value = 9};
        socklen_t length = sizeof usual;
        CHECK(anabranch_getsockopt(near, IPPROTO_SCTP, SCTP_DEFAULT_PRINFO, &usual, &length) == 0);
        CHECK(usual.pr_policy == policies[i] && usual.pr_value == value);
        struct sctp_sndrcvinfo old;
        length = sizeof old;
        CHECK(anabranch_getsockopt(near, IPPROTO_SCTP, SCTP_DEFAULT_SEND_PARAM, &old, &length) == 0);
        CHECK((old.sinfo_flags & SCTP_PR_SCTP_MASK) == policies[i] && old.sinfo_timetolive == value);
        /* Back as it came. */
        old.sinfo_flags |= SCTP_UNORDERED;
        SET(near, SCTP_DEFAULT_SEND_PARAM, old);
        length = sizeof usual;
        CHECK(anabranch_getsockopt(near, IPPROTO_SCTP, SCTP_DEFAULT_PRINFO, &usual, &length) == 0);
        CHECK(usual.pr_policy == policies[i] && usual.pr_value == value);
        struct sctp_sndinfo info;
        length = sizeof info;
        CHECK(anabranch_getsockopt(near, IPPROTO_SCTP, SCTP_DEFAULT_SNDINFO, &info, &length) == 0);
        CHECK(info.snd_flags == SCTP_UNORDERED);
    }
    end();
}

/* Without a policy, a time to live is a lifetime. */
static void lifetimes(void)
{
    begin();
    subscribe(near, SCTP_SEND_FAILED_EVENT);
    /* The server reads nothing. */
    CHECK(send_with(SCTP_PR_SCTP_NONE, 0, big, 15000, 0) == 15000);
    CHECK(anabranch_sctp_sendmsg(near, "late", 4, NULL, 0, 0, 0, 3, 20, 77) == 4);
    union sctp_notification back = notified(near, SCTP_SEND_FAILED_EVENT);
    CHECK(back.sn_send_failed_event.ssfe_info.snd_sid == 3);
    CHECK(back.sn_send_failed_event.ssfe_info.snd_context == 77);
    CHECK(back.sn_send_failed_event.ssf_flags == SCTP_DATA_UNSENT);
    struct sctp_prstatus all = status(SCTP_PR_ASSOC_STATUS, SCTP_PR_SCTP_ALL, 0);
    CHECK(all.sprstat_abandoned_unsent == 1 && all.sprstat_abandoned_sent == 0);
    CHECK(status(SCTP_PR_STREAM_STATUS, SCTP_PR_SCTP_TTL, 3).sprstat_abandoned_unsent == 1);
    CHECK(status(SCTP_PR_STREAM_STATUS, SCTP_PR_SCTP_TTL, 2).sprstat_abandoned_unsent == 0);
    CHECK(status(SCTP_PR_STREAM_STATUS, SCTP_PR_SCTP_RTX, 3).sprstat_abandoned_unsent == 0);
    /* Also after the end. */
    struct sctp_sndrcvinfo abort = {.sinfo_flags = SCTP_ABORT};
    CHECK(anabranch_sctp_send(near, "", 0, &abort, 0) == 0);
    CHECK(anabranch_close(far) == 0);
    CHECK(status(SCTP_PR_ASSOC_STATUS, SCTP_PR_SCTP_TTL, 0).sprstat_abandoned_unsent == 1);
    CHECK(anabranch_close(near) == 0 && anabranch_close(server.fd) == 0);
}

/* A full send buffer makes room for what is more important. */
static void priorities(void)
{
    begin();
    struct sctp_default_prinfo usual = {.pr_policy = SCTP_PR_SCTP_PRIO, .pr_value = 5};
    SET(near, SCTP_DEFAULT_PRINFO, usual);
    do {
        while (anabranch_send(near, big, 1000, MSG_DONTWAIT) == 1000)
            ;
        CHECK(errno == EAGAIN && usleep(50000) == 0);
    } while (ready(near) & POLLOUT);
    CHECK(send_with(SCTP_PR_SCTP_PRIO, 1, "urgent", 6, MSG_DONTWAIT) == 6);
    while (send_with(SCTP_PR_SCTP_PRIO, 1, big, 1000, MSG_DONTWAIT) == 1000)
        ;
    CHECK(status(SCTP_PR_ASSOC_STATUS, SCTP_PR_SCTP_PRIO, 0).sprstat_abandoned_unsent > 0);
    while (anabranch_recv(far, big, sizeof big, 0) != 6)
        ;
    CHECK(memcmp(big, "urgent", 6) == 0);
    memset(big, 0, 6);
    end();
}

/* SCTP_PARTIAL_DELIVERY_EVENT follows the parts that were received. */
static void cut_short(void)
{
    begin();
    subscribe(far, SCTP_PARTIAL_DELIVERY_EVENT);
    subscribe(near, SCTP_SEND_FAILED_EVENT);
    CHECK(send_with(SCTP_PR_SCTP_TTL, 100, big, 60000, 0) == 60000);
    static union {
        struct sctp_send_failed_event failed;
        unsigned char bytes[100000];
    } back;
    int flags = 0;
    ssize_t count;
    while ((count = anabranch_sctp_recvmsg(near, &back, sizeof back, NULL, NULL, NULL, &flags)) < 0)
        ;
    CHECK((flags & MSG_NOTIFICATION) && back.failed.ssf_flags == SCTP_DATA_SENT);
    CHECK(status(SCTP_PR_ASSOC_STATUS, SCTP_PR_SCTP_TTL, 0).sprstat_abandoned_sent == 1);
    CHECK(anabranch_send(near, "next", 4, 0) == 4);
    ssize_t got = 0;
    union sctp_notification event;
    for (;;) {
        static unsigned char buffer[100000];
        flags = 0;
        count = anabranch_sctp_recvmsg(far, buffer, sizeof buffer, NULL, NULL, NULL, &flags);
        CHECK(count > 0);
        if (flags & MSG_NOTIFICATION) {
            CHECK(count == sizeof event.sn_pdapi_event);
            memcpy(&event, buffer, (size_t)count);
            break;
        }
        CHECK(!(flags & MSG_EOR));
        got += count;
    }
    CHECK(got > 0 && got < 60000);
    CHECK(event.sn_pdapi_event.pdapi_type == SCTP_PARTIAL_DELIVERY_EVENT);
    CHECK(event.sn_pdapi_event.pdapi_length == sizeof event.sn_pdapi_event);
    CHECK(event.sn_pdapi_event.pdapi_indication == SCTP_PARTIAL_DELIVERY_ABORTED);
    CHECK(event.sn_pdapi_event.pdapi_stream == 0 && event.sn_pdapi_event.pdapi_seq == 0);
    CHECK(anabranch_recv(far, big, sizeof big, 0) == 4 && memcmp(big, "next", 4) == 0);
    memset(big, 0, 4);
    end();
}

/* Each side may leave it out. */
static void negotiated(void)
{
    struct server peer = serve(SOCK_STREAM, 1);
    int fd = client(SOCK_SEQPACKET, &peer);
    struct sctp_assoc_value supported = {.assoc_value = 0};
    SET(fd, SCTP_PR_SUPPORTED, supported);
    connect_to(fd, &peer);
    int other = anabranch_accept(peer.fd, NULL, NULL);
    socklen_t length = sizeof supported;
    CHECK(anabranch_getsockopt(other, IPPROTO_SCTP, SCTP_PR_SUPPORTED, &supported, &length) == 0);
    CHECK(supported.assoc_value == 0);
    supported.assoc_value = 9;
    CHECK(anabranch_getsockopt(peer.fd, IPPROTO_SCTP, SCTP_PR_SUPPORTED, &supported, &length) == 0);
    CHECK(supported.assoc_value == 1);
    struct sockaddr_in to = at("127.0.0.1", peer.port);
    sctp_assoc_t id = anabranch_sctp_getassocid(fd, SA(to), sizeof to);
    struct sctp_prstatus none = {.sprstat_policy = SCTP_PR_SCTP_ALL};
    length = sizeof none;
    CHECK(anabranch_sctp_opt_info(fd, id, SCTP_PR_ASSOC_STATUS, &none, &length) == 0);
    CHECK(none.sprstat_assoc_id == id && none.sprstat_abandoned_unsent == 0);
    FAILS(anabranch_sctp_opt_info(fd, 4321, SCTP_PR_STREAM_STATUS, &none, &length), EINVAL);
    CHECK(anabranch_close(fd) == 0 && anabranch_close(other) == 0 && anabranch_close(peer.fd) == 0);
}

int main(void)
{
    /* Fail instead of hanging. */
    alarm(120);
    refused();
    defaults();
    lifetimes();
    priorities();
    cut_short();
    negotiated();
    CHECK(anabranch_finish(20000) == 0);
    printf("passed\n");
    return 0;
}
