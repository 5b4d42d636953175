/* Ancillary data, and the scope of options: one association, future associations, or the socket. */
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
    /* One byte less is not enough. */
    message.msg_controllen--;
    CHECK(anabranch_send(near, "x", 1, 0) == 1 && anabranch_recvmsg(far, &message, 0) == 1);
    CHECK(message.msg_flags == (MSG_EOR | MSG_CTRUNC) && message.msg_controllen == 0);
    CHECK(anabranch_close(near) == 0 && anabranch_close(far) == 0 && anabranch_close(server.fd) == 0);
}

/* Many programs enable all events, including those that never happen here. */
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
    CHECK(anabranch_close(fd) == 0);
}

/* The sockets do not use ASCONF, and programs need not notice. */
static void auto_asconf(void)
{
    int fd = anabranch_socket(AF_INET, SOCK_STREAM, IPPROTO_SCTP);
    for (int on = 1; on >= 0; on--) {
        int got = -1;
        socklen_t length = sizeof got;
        SET(fd, SCTP_AUTO_ASCONF, on);
        CHECK(anabranch_getsockopt(fd, IPPROTO_SCTP, SCTP_AUTO_ASCONF, &got, &length) == 0 && got == on);
    }
    CHECK(anabranch_close(fd) == 0);
}

/* A one-to-many socket with an association to each of two one-to-many servers. */
struct many {
    struct server one, other;
    int fd;
    sctp_assoc_t first, second;
};

static struct many many_of_two(void)
{
    struct many many = {.one = serve(SOCK_SEQPACKET, 1), .other = serve(SOCK_SEQPACKET, 1)};
    many.fd = client(SOCK_SEQPACKET, &many.one);
    subscribe(many.fd, SCTP_ASSOC_CHANGE);
    struct sockaddr_in to = at("127.0.0.1", many.one.port);
    CHECK(anabranch_sctp_connectx(many.fd, SA(to), 1, &many.first) == 0);
    CHECK(changed(many.fd, SCTP_COMM_UP) == many.first);
    struct sctp_udpencaps encapsulation = {.sue_port = htons((uint16_t)many.other.udp)};
    SET(many.fd, SCTP_REMOTE_UDP_ENCAPS_PORT, encapsulation);
    to = at("127.0.0.1", many.other.port);
    CHECK(anabranch_sctp_connectx(many.fd, SA(to), 1, &many.second) == 0);
    CHECK(changed(many.fd, SCTP_COMM_UP) == many.second);
    CHECK(many.first > 2 && many.second > 2 && many.first != many.second);
    /* Off by default; each test enables what it needs. */
    struct sctp_event event = {.se_assoc_id = SCTP_ALL_ASSOC, .se_type = SCTP_ASSOC_CHANGE};
    SET(many.fd, SCTP_EVENT, event);
    return many;
}

static void close_all(const struct many *many)
{
    CHECK(anabranch_close(many->fd) == 0);
    CHECK(anabranch_close(many->one.fd) == 0 && anabranch_close(many->other.fd) == 0);
}

/* An option set on one association is returned for that association only. */
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

/* Congestion controls by their numbers and by their names. */
static void controls(void)
{
    const struct {
        uint32_t number;
        const char *name;
    } all[] = {{SCTP_CC_RFC2581, "rfc9260"}, {ANABRANCH_CC_CUBIC, "cubic"}, {ANABRANCH_CC_BBR, "bbr"},
               {ANABRANCH_CC_BBR_LOSSY, "bbr-lossy"}};
    int fd = anabranch_socket(AF_INET, SOCK_SEQPACKET, IPPROTO_SCTP);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        struct sctp_assoc_value set = {.assoc_value = all[i].number};
        SET(fd, SCTP_PLUGGABLE_CC, set);
        struct sctp_assoc_value got = {.assoc_value = 99};
        struct anabranch_option named = {0, "congestion_control", ""};
        socklen_t length = sizeof got, size = sizeof named;
        CHECK(anabranch_getsockopt(fd, IPPROTO_SCTP, SCTP_PLUGGABLE_CC, &got, &length) == 0);
        CHECK(got.assoc_value == all[i].number);
        CHECK(anabranch_getsockopt(fd, IPPROTO_SCTP, ANABRANCH_OPTION, &named, &size) == 0);
        CHECK(strcmp(named.value, all[i].name) == 0);
    }
    /* FreeBSD's HSTCP. */
    struct sctp_assoc_value other = {.assoc_value = 1};
    FAILS(anabranch_setsockopt(fd, IPPROTO_SCTP, SCTP_PLUGGABLE_CC, &other, sizeof other), EINVAL);
    CHECK(anabranch_close(fd) == 0);
}

/* The stream and the context of a received message. */
static unsigned stream_of(int fd, uint32_t context)
{
    struct iovec piece = {big, sizeof big};
    struct sctp_rcvinfo info;
    socklen_t length = sizeof info;
    unsigned int type = 0;
    int flags = 0;
    CHECK(anabranch_sctp_recvv(fd, &piece, 1, NULL, NULL, &info, &length, &type, &flags) == 1);
    CHECK(type == SCTP_RECVV_RCVINFO && info.rcv_context == context);
    return info.rcv_sid;
}

/* Default send parameters, and SCTP_CONTEXT. */
static void messages_of_one(void)
{
    struct many many = many_of_two();
    const struct sockaddr_in one = at("127.0.0.1", many.one.port);
    const struct sockaddr_in other = at("127.0.0.1", many.other.port);
    int on = 1;
    SET(many.one.fd, SCTP_RECVRCVINFO, on);
    SET(many.other.fd, SCTP_RECVRCVINFO, on);
    struct sctp_sndinfo info = {.snd_sid = 3, .snd_assoc_id = many.first};
    SET(many.fd, SCTP_DEFAULT_SNDINFO, info);
    CHECK(anabranch_sendto(many.fd, "x", 1, 0, SA(one), sizeof one) == 1);
    CHECK(anabranch_sendto(many.fd, "x", 1, 0, SA(other), sizeof other) == 1);
    CHECK(stream_of(many.one.fd, 0) == 3 && stream_of(many.other.fd, 0) == 0);
    /* Future associations only; present ones keep their values. */
    info = (struct sctp_sndinfo){.snd_sid = 4};
    SET(many.fd, SCTP_DEFAULT_SNDINFO, info);
    CHECK(anabranch_sendto(many.fd, "x", 1, 0, SA(other), sizeof other) == 1);
    CHECK(stream_of(many.other.fd, 0) == 0);
    struct sctp_sndrcvinfo all = {.sinfo_stream = 5, .sinfo_assoc_id = SCTP_ALL_ASSOC};
    SET(many.fd, SCTP_DEFAULT_SEND_PARAM, all);
    const sctp_assoc_t ids[] = {many.first, many.second, SCTP_FUTURE_ASSOC};
    socklen_t length = sizeof info;
    for (int i = 0; i < 3; i++) {
        CHECK(anabranch_sctp_opt_info(many.fd, ids[i], SCTP_DEFAULT_SNDINFO, &info, &length) == 0);
        CHECK(info.snd_sid == 5 && info.snd_assoc_id == ids[i]);
    }
    info.snd_assoc_id = 4321;
    FAILS(option(many.fd, IPPROTO_SCTP, SCTP_DEFAULT_SNDINFO, &info, sizeof info), EINVAL);
    FAILS(anabranch_sctp_opt_info(many.fd, 4321, SCTP_DEFAULT_SNDINFO, &info, &length), EINVAL);
    struct sctp_default_prinfo lifetime = {.pr_assoc_id = many.second, .pr_policy = SCTP_PR_SCTP_TTL,
                                           .pr_value = 60000};
    SET(many.fd, SCTP_DEFAULT_PRINFO, lifetime);
    length = sizeof lifetime;
    CHECK(anabranch_sctp_opt_info(many.fd, many.first, SCTP_DEFAULT_PRINFO, &lifetime, &length) == 0);
    CHECK(lifetime.pr_policy == SCTP_PR_SCTP_NONE && lifetime.pr_value == 0);

    SET(many.fd, SCTP_RECVRCVINFO, on);
    struct sctp_assoc_value context = {.assoc_id = many.first, .assoc_value = 42};
    SET(many.fd, SCTP_CONTEXT, context);
    uint32_t list[2];
    for (int i = 0; i < 2; i++) {
        int fd = i == 0 ? many.one.fd : many.other.fd;
        length = sizeof list;
        CHECK(anabranch_getsockopt(fd, IPPROTO_SCTP, SCTP_GET_ASSOC_ID_LIST, list, &length) == 0);
        struct sctp_sndrcvinfo back = {.sinfo_assoc_id = (sctp_assoc_t)list[1]};
        CHECK(anabranch_sctp_send(fd, "x", 1, &back, 0) == 1);
        CHECK(stream_of(many.fd, i == 0 ? 42 : 0) == 0);
    }
    context.assoc_id = 4321;
    FAILS(option(many.fd, IPPROTO_SCTP, SCTP_CONTEXT, &context, sizeof context), EINVAL);
    close_all(&many);
}

/* Events of one association. */
static void events_of_one(void)
{
    struct many many = many_of_two();
    struct sctp_event event = {.se_assoc_id = many.second, .se_type = SCTP_SENDER_DRY_EVENT, .se_on = 1};
    SET(many.fd, SCTP_EVENT, event);
    union sctp_notification dry = notified(many.fd, SCTP_SENDER_DRY_EVENT);
    CHECK(dry.sn_sender_dry_event.sender_dry_assoc_id == many.second);
    CHECK(!(ready(many.fd) & POLLIN));
    const sctp_assoc_t ids[] = {many.first, many.second, SCTP_FUTURE_ASSOC};
    socklen_t length = sizeof event;
    for (int i = 0; i < 3; i++) {
        event.se_on = 9;
        CHECK(anabranch_sctp_opt_info(many.fd, ids[i], SCTP_EVENT, &event, &length) == 0);
        CHECK(event.se_on == (i == 1));
    }
    /* Present associations, not future ones. */
    event = (struct sctp_event){.se_assoc_id = SCTP_CURRENT_ASSOC, .se_type = SCTP_ASSOC_CHANGE, .se_on = 1};
    SET(many.fd, SCTP_EVENT, event);
    CHECK(anabranch_sctp_opt_info(many.fd, SCTP_FUTURE_ASSOC, SCTP_EVENT, &event, &length) == 0);
    CHECK(event.se_on == 0);
    event = (struct sctp_event){.se_assoc_id = many.first, .se_type = SCTP_ASSOC_CHANGE};
    SET(many.fd, SCTP_EVENT, event);
    const struct sockaddr_in one = at("127.0.0.1", many.one.port);
    const struct sockaddr_in other = at("127.0.0.1", many.other.port);
    CHECK(anabranch_sctp_sendmsg(many.fd, NULL, 0, SA(one), sizeof one, 0, SCTP_EOF, 0, 0, 0) == 0);
    uint32_t list[3] = {2};
    for (length = sizeof list; list[0] > 1; length = sizeof list)
        CHECK(anabranch_getsockopt(many.fd, IPPROTO_SCTP, SCTP_GET_ASSOC_ID_LIST, list, &length) == 0);
    CHECK(anabranch_sctp_sendmsg(many.fd, NULL, 0, SA(other), sizeof other, 0, SCTP_EOF, 0, 0, 0) == 0);
    CHECK(changed(many.fd, SCTP_SHUTDOWN_COMP) == many.second);
    event.se_assoc_id = many.second;
    FAILS(option(many.fd, IPPROTO_SCTP, SCTP_EVENT, &event, sizeof event), EINVAL);
    close_all(&many);
}

/* Sends a message with SCTP_INIT. */
static ssize_t send_with_init(int fd, const struct sockaddr_in *to, unsigned streams)
{
    union {
        struct cmsghdr header;
        unsigned char space[CMSG_SPACE(sizeof(struct sctp_initmsg))];
    } control = {.header = {.cmsg_level = IPPROTO_SCTP, .cmsg_type = SCTP_INIT}};
    struct sctp_initmsg init = {.sinit_num_ostreams = (uint16_t)streams};
    struct sockaddr_in name = *to;
    struct iovec piece = {"x", 1};
    struct msghdr message = {.msg_name = &name, .msg_namelen = sizeof name, .msg_iov = &piece,
                             .msg_iovlen = 1, .msg_control = &control,
                             .msg_controllen = sizeof control};
    control.header.cmsg_len = CMSG_LEN(sizeof init);
    memcpy(CMSG_DATA(&control.header), &init, sizeof init);
    return anabranch_sendmsg(fd, &message, 0);
}

static unsigned streams_to(int fd, const struct sockaddr_in *to)
{
    struct sctp_status status;
    socklen_t length = sizeof status;
    sctp_assoc_t id = anabranch_sctp_getassocid(fd, SA(*to), sizeof *to);
    CHECK(anabranch_sctp_opt_info(fd, id, SCTP_STATUS, &status, &length) == 0);
    return status.sstat_outstrms;
}

/* SCTP_INIT applies to the association that its message sets up, also on a listening socket. */
static void init_of_one(void)
{
    struct server one = serve(SOCK_SEQPACKET, 1), other = serve(SOCK_SEQPACKET, 1);
    struct server near = serve(SOCK_SEQPACKET, 1);
    struct sctp_udpencaps encapsulation = {.sue_port = htons((uint16_t)one.udp)};
    SET(near.fd, SCTP_REMOTE_UDP_ENCAPS_PORT, encapsulation);
    struct sockaddr_in to = at("127.0.0.1", one.port);
    struct sctp_initmsg usual, after;
    socklen_t length = sizeof usual;
    CHECK(anabranch_getsockopt(near.fd, IPPROTO_SCTP, SCTP_INITMSG, &usual, &length) == 0);
    CHECK(send_with_init(near.fd, &to, 7) == 1 && anabranch_recv(one.fd, big, sizeof big, 0) == 1);
    CHECK(streams_to(near.fd, &to) == 7);
    CHECK(anabranch_getsockopt(near.fd, IPPROTO_SCTP, SCTP_INITMSG, &after, &length) == 0);
    CHECK(memcmp(&usual, &after, sizeof usual) == 0);
    /* There is an association already: SCTP_INIT has no effect. */
    CHECK(send_with_init(near.fd, &to, 9) == 1 && streams_to(near.fd, &to) == 7);
    encapsulation.sue_port = htons((uint16_t)other.udp);
    SET(near.fd, SCTP_REMOTE_UDP_ENCAPS_PORT, encapsulation);
    to = at("127.0.0.1", other.port);
    connect_to(near.fd, &other);
    CHECK(streams_to(near.fd, &to) == usual.sinit_num_ostreams);
    CHECK(anabranch_close(near.fd) == 0);
    CHECK(anabranch_close(one.fd) == 0 && anabranch_close(other.fd) == 0);
}

/* Too little room for an option, and too many buffers. */
static void bounds(void)
{
    int fd = anabranch_socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, IPPROTO_SCTP);
    struct sockaddr_in nobody = at("127.0.0.1", 9);
    FAILS(anabranch_connect(fd, SA(nobody), sizeof nobody), EINPROGRESS);
    wait_for(fd, POLLOUT);
    unsigned char error[2] = {0, 0xee};
    socklen_t length = 1;
    CHECK(anabranch_getsockopt(fd, SOL_SOCKET, SO_ERROR, error, &length) == 0 && length == 1);
    /* The cut integer has its first byte only, whose value depends on the byte order. */
    const int refused = ECONNREFUSED;
    CHECK(error[0] == *(const unsigned char *)&refused && error[1] == 0xee);
    static struct iovec pieces[1025];
    struct msghdr message = {.msg_iov = pieces, .msg_iovlen = 1025};
    FAILS(anabranch_sendmsg(fd, &message, 0), EMSGSIZE);
    FAILS(anabranch_recvmsg(fd, &message, 0), EMSGSIZE);
    FAILS(anabranch_writev(fd, pieces, 1025), EINVAL);
    FAILS(anabranch_readv(fd, pieces, 1025), EINVAL);
    CHECK(anabranch_close(fd) == 0);
}

int main(void)
{
    /* Fail instead of hanging. */
    alarm(120);
    control_without_padding();
    all_events();
    auto_asconf();
    thresholds();
    controls();
    messages_of_one();
    events_of_one();
    init_of_one();
    bounds();
    CHECK(anabranch_finish(20000) == 0);
    printf("passed\n");
    return 0;
}
