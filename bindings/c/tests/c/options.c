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

int main(void)
{
    /* What hangs is to fail. */
    alarm(120);
    control_without_padding();
    all_events();
    CHECK(anabranch_finish(20000) == 0);
    printf("passed\n");
    return 0;
}
