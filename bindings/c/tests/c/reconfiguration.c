/* Stream reconfiguration (RFC 6525): resets of streams and of TSNs, more streams, and their notifications. */
#include "ends.h"

#include <unistd.h>

static struct server server;
static int near, far;

static void begin(void)
{
    server = serve(SOCK_STREAM, 1);
    struct sctp_initmsg streams = {.sinit_num_ostreams = 4, .sinit_max_instreams = 8};
    SET(server.fd, SCTP_INITMSG, streams);
    near = client(SOCK_STREAM, &server);
    SET(near, SCTP_INITMSG, streams);
    connect_to(near, &server);
    far = anabranch_accept(server.fd, NULL, NULL);
    CHECK(far >= 0);
    const int types[] = {SCTP_STREAM_RESET_EVENT, SCTP_ASSOC_RESET_EVENT, SCTP_STREAM_CHANGE_EVENT};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        subscribe(near, types[i]);
        subscribe(far, types[i]);
    }
}

static void end(void)
{
    CHECK(anabranch_close(near) == 0 && anabranch_close(far) == 0);
    CHECK(anabranch_close(server.fd) == 0);
}

/* The next notification of a socket. */
static union sctp_notification *notification(int fd, size_t length)
{
    static _Alignas(8) char room[256];
    int flags = 0;
    struct sctp_sndrcvinfo info;
    ssize_t got = anabranch_sctp_recvmsg(fd, room, sizeof room, NULL, NULL, &info, &flags);
    CHECK(got == (ssize_t)length && (flags & MSG_NOTIFICATION));
    union sctp_notification *event = (union sctp_notification *)room;
    CHECK(event->sn_header.sn_length == length);
    return event;
}

static int reset(int fd, uint16_t direction, uint16_t count, uint16_t stream)
{
    _Alignas(8) char room[sizeof(struct sctp_reset_streams) + 2];
    struct sctp_reset_streams *wanted = (struct sctp_reset_streams *)room;
    *wanted = (struct sctp_reset_streams){.srs_flags = direction, .srs_number_streams = count};
    memcpy(room + sizeof *wanted, &stream, 2);
    return option(fd, IPPROTO_SCTP, SCTP_RESET_STREAMS, room, sizeof *wanted + 2u * (count > 0));
}

static void resets(void)
{
    begin();
    struct sctp_assoc_value supported;
    socklen_t length = sizeof supported;
    CHECK(anabranch_getsockopt(near, IPPROTO_SCTP, SCTP_RECONFIG_SUPPORTED, &supported, &length) == 0);
    CHECK(supported.assoc_value == 1);
    FAILS(reset(near, 0, 1, 1), EINVAL);
    FAILS(reset(near, SCTP_STREAM_RESET_OUTGOING, 2, 1), EINVAL);
    FAILS(reset(near, SCTP_STREAM_RESET_OUTGOING, 1, 4), EINVAL);
    CHECK(reset(near, SCTP_STREAM_RESET_OUTGOING, 1, 1) == 0);
    const int ends[] = {near, far};
    const uint16_t directions[] = {SCTP_STREAM_RESET_OUTGOING_SSN, SCTP_STREAM_RESET_INCOMING_SSN};
    for (int i = 0; i < 2; i++) {
        const struct sctp_stream_reset_event *event =
            &notification(ends[i], sizeof *event + 2)->sn_strreset_event;
        CHECK(event->strreset_type == SCTP_STREAM_RESET_EVENT);
        CHECK(event->strreset_flags == directions[i]);
        CHECK(event->strreset_stream_list[0] == 1);
    }
    /* The server denies what it does not enable. */
    struct sctp_assoc_value enabled = {.assoc_value = SCTP_ENABLE_CHANGE_ASSOC_REQ};
    SET(far, SCTP_ENABLE_STREAM_RESET, enabled);
    enabled.assoc_value = 0;
    length = sizeof enabled;
    CHECK(anabranch_getsockopt(far, IPPROTO_SCTP, SCTP_ENABLE_STREAM_RESET, &enabled, &length) == 0);
    CHECK(enabled.assoc_value == SCTP_ENABLE_CHANGE_ASSOC_REQ);
    enabled.assoc_value = 8;
    FAILS(option(far, IPPROTO_SCTP, SCTP_ENABLE_STREAM_RESET, &enabled, sizeof enabled), EINVAL);
    CHECK(reset(near, SCTP_STREAM_RESET_OUTGOING, 0, 0) == 0);
    const struct sctp_stream_reset_event *event =
        &notification(near, sizeof *event)->sn_strreset_event;
    CHECK(event->strreset_flags == (SCTP_STREAM_RESET_OUTGOING_SSN | SCTP_STREAM_RESET_DENIED));
    end();
}

static void tsns(void)
{
    begin();
    struct sctp_assoc_value enabled = {.assoc_value = SCTP_ENABLE_RESET_ASSOC_REQ};
    SET(far, SCTP_ENABLE_STREAM_RESET, enabled);
    sctp_assoc_t ignored = 0;
    SET(near, SCTP_RESET_ASSOC, ignored);
    const struct sctp_assoc_reset_event *event =
        &notification(near, sizeof *event)->sn_assocreset_event;
    CHECK(event->assocreset_type == SCTP_ASSOC_RESET_EVENT && event->assocreset_flags == 0);
    uint32_t local = event->assocreset_local_tsn, remote = event->assocreset_remote_tsn;
    event = &notification(far, sizeof *event)->sn_assocreset_event;
    CHECK(event->assocreset_local_tsn == remote && event->assocreset_remote_tsn == local);
    FAILS(option(near, IPPROTO_SCTP, SCTP_RESET_ASSOC, &ignored, sizeof ignored), EALREADY);
    end();
}

static void more_streams(void)
{
    begin();
    struct sctp_add_streams more = {.sas_outstrms = 2, .sas_instrms = 1};
    SET(near, SCTP_ADD_STREAMS, more);
    uint16_t in = 0, out = 0;
    for (int i = 0; i < 2; i++) {
        const struct sctp_stream_change_event *event =
            &notification(near, sizeof *event)->sn_strchange_event;
        CHECK(event->strchange_type == SCTP_STREAM_CHANGE_EVENT && event->strchange_flags == 0);
        in = event->strchange_instrms, out = event->strchange_outstrms;
    }
    CHECK(in == 5 && out == 6);
    more.sas_outstrms = 65535;
    FAILS(option(near, IPPROTO_SCTP, SCTP_ADD_STREAMS, &more, sizeof more), EINVAL);
    CHECK(anabranch_sctp_sendmsg(near, "x", 1, NULL, 0, 0, 0, 5, 0, 0) == 1);
    end();
}

int main(void)
{
    resets();
    tsns();
    more_streams();
    return 0;
}
