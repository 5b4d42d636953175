/* What goes with messages, and what options are of: one association, those to come, the socket. */
#define _GNU_SOURCE
#include "ends.h"

#include <unistd.h>

/* Room without the padding after the last item is enough, as on Linux. */
static void control_without_padding(void)
{
    struct server server = serve(SOCK_STREAM, 1);
    int near = client(SOCK_STREAM, &server), on = 1;
    connect_to(near, &server);
    int far = anabranch_accept(server.fd, NULL, NULL);
    SET(far, SCTP_RECVRCVINFO, on);
    struct {
        struct cmsghdr header;
        unsigned char space[64];
    } control;
    struct iovec piece = {big, sizeof big};
    struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1, .msg_control = &control,
                             .msg_controllen = CMSG_LEN(sizeof(struct sctp_rcvinfo))};
    CHECK(message.msg_controllen < CMSG_SPACE(sizeof(struct sctp_rcvinfo)));
    memset(&control, 0xee, sizeof control);
    CHECK(anabranch_send(near, "x", 1, 0) == 1 && anabranch_recvmsg(far, &message, 0) == 1);
    CHECK(message.msg_flags == MSG_EOR);
    CHECK(message.msg_controllen == CMSG_LEN(sizeof(struct sctp_rcvinfo)));
    CHECK(control.header.cmsg_type == SCTP_RCVINFO);
    CHECK(control.header.cmsg_len == CMSG_LEN(sizeof(struct sctp_rcvinfo)));
    CHECK(((unsigned char *)&control)[message.msg_controllen] == 0xee);
    /* One byte less is not. */
    message.msg_controllen--;
    CHECK(anabranch_send(near, "x", 1, 0) == 1 && anabranch_recvmsg(far, &message, 0) == 1);
    CHECK(message.msg_flags == (MSG_EOR | MSG_CTRUNC) && message.msg_controllen == 0);
    CHECK(anabranch_close(near) == 0 && anabranch_close(far) == 0 && anabranch_close(server.fd) == 0);
}

/* Many programs switch everything on at once, also what never happens here. */
static void all_events(void)
{
    int fd = anabranch_socket(AF_INET, SOCK_SEQPACKET, IPPROTO_SCTP);
    struct sctp_event_subscribe events, set;
    memset(&events, 1, sizeof events);
    SET(fd, SCTP_EVENTS, events);
    socklen_t length = sizeof set;
    CHECK(anabranch_getsockopt(fd, IPPROTO_SCTP, SCTP_EVENTS, &set, &length) == 0);
    CHECK(length == sizeof set && memcmp(&set, &events, sizeof set) == 0);
    memset(&events, 0, sizeof events);
    SET(fd, SCTP_EVENTS, events);
    CHECK(anabranch_getsockopt(fd, IPPROTO_SCTP, SCTP_EVENTS, &set, &length) == 0);
    CHECK(memcmp(&set, &events, sizeof set) == 0);
    /* Who asks for one of them is told. */
    struct sctp_event event = {.se_type = SCTP_PARTIAL_DELIVERY_EVENT, .se_on = 1};
    FAILS(option(fd, IPPROTO_SCTP, SCTP_EVENT, &event, sizeof event), EOPNOTSUPP);
    CHECK(anabranch_close(fd) == 0);
}

/* A one-to-many socket with an association to each of two servers, which are one-to-many, too. */
struct many {
    struct server one, other;
    int fd;
    sctp_assoc_t first, second;
};

static struct many many_of_two(void)
{
    struct many many = {.one = serve(SOCK_SEQPACKET, 1), .other = serve(SOCK_SEQPACKET, 1)};
    many.fd = client(SOCK_SEQPACKET, &many.one);
    struct sockaddr_in to = at("127.0.0.1", many.one.port);
    CHECK(anabranch_sctp_connectx(many.fd, SA(to), 1, &many.first) == 0);
    struct sctp_udpencaps encapsulation = {.sue_port = htons((uint16_t)many.other.udp)};
    SET(many.fd, SCTP_REMOTE_UDP_ENCAPS_PORT, encapsulation);
    to = at("127.0.0.1", many.other.port);
    CHECK(anabranch_sctp_connectx(many.fd, SA(to), 1, &many.second) == 0);
    CHECK(many.first > 2 && many.second > 2 && many.first != many.second);
    return many;
}

static void close_all(const struct many *many)
{
    CHECK(anabranch_close(many->fd) == 0);
    CHECK(anabranch_close(many->one.fd) == 0 && anabranch_close(many->other.fd) == 0);
}

/* What was set of one association is what is told of it. */
static void thresholds(void)
{
    struct many many = many_of_two();
    struct sctp_paddrthlds set = {.spt_assoc_id = many.first, .spt_pathmaxrxt = 2, .spt_pathpfthld = 1};
    SET(many.fd, SCTP_PEER_ADDR_THLDS, set);
    struct sctp_paddrthlds usual = {0}, got = {0};
    socklen_t length = sizeof usual;
    CHECK(anabranch_getsockopt(many.fd, IPPROTO_SCTP, SCTP_PEER_ADDR_THLDS, &usual, &length) == 0);
    CHECK(usual.spt_pathmaxrxt > 2);
    CHECK(anabranch_sctp_opt_info(many.fd, many.first, SCTP_PEER_ADDR_THLDS, &got, &length) == 0);
    CHECK(got.spt_assoc_id == many.first && got.spt_pathmaxrxt == 2 && got.spt_pathpfthld == 1);
    CHECK(anabranch_sctp_opt_info(many.fd, many.second, SCTP_PEER_ADDR_THLDS, &got, &length) == 0);
    CHECK(got.spt_assoc_id == many.second && got.spt_pathmaxrxt == usual.spt_pathmaxrxt);
    FAILS(anabranch_sctp_opt_info(many.fd, 4321, SCTP_PEER_ADDR_THLDS, &got, &length), EINVAL);
    struct sctp_assoc_value burst = {.assoc_id = many.second, .assoc_value = 3};
    SET(many.fd, SCTP_MAX_BURST, burst);
    burst = (struct sctp_assoc_value){0};
    length = sizeof burst;
    CHECK(anabranch_sctp_opt_info(many.fd, many.second, SCTP_MAX_BURST, &burst, &length) == 0);
    CHECK(burst.assoc_id == many.second && burst.assoc_value == 3);
    close_all(&many);
}

int main(void)
{
    /* What hangs is to fail. */
    alarm(120);
    control_without_padding();
    all_events();
    thresholds();
    CHECK(anabranch_finish(20000) == 0);
    printf("passed\n");
    return 0;
}
