/* One program for two libraries: options of sockets without associations (RFC 6458 section 8). getsockopt
 * returns the value that was set. Invalid values are refused and change nothing. */
#include "rfc6458.h"

#include <stddef.h>

#define REFUSED(s, name, value, with)                                                        \
    CHECK((errno = 0, CALL(setsockopt)(s, IPPROTO_SCTP, name, &(value), sizeof(value)) == -1 \
                          && errno == (with)))

static void timers(sock s)
{
    struct sctp_rtoinfo rto = {.srto_initial = 1700, .srto_max = 9000, .srto_min = 700};
    SET(s, SCTP_RTOINFO, rto);
    struct sctp_rtoinfo bad = {.srto_initial = 100, .srto_max = 200, .srto_min = 300};
    REFUSED(s, SCTP_RTOINFO, bad, EINVAL);
    /* 0 leaves a value as it is. */
    rto = (struct sctp_rtoinfo){.srto_min = 600};
    SET(s, SCTP_RTOINFO, rto);
    memset(&rto, 0, sizeof rto);
    GET(s, SCTP_RTOINFO, rto);
    CHECK(rto.srto_initial == 1700 && rto.srto_max == 9000 && rto.srto_min == 600);
    struct sctp_assocparams params = {.sasoc_asocmaxrxt = 6};
    SET(s, SCTP_ASSOCINFO, params);
    memset(&params, 0, sizeof params);
    GET(s, SCTP_ASSOCINFO, params);
    CHECK(params.sasoc_asocmaxrxt == 6 && params.sasoc_local_rwnd > 0);
    CHECK(params.sasoc_cookie_life > 0 && params.sasoc_number_peer_destinations == 0);
}

static void paths(sock s)
{
    struct sctp_paddrparams path = {.spp_flags = SPP_HB_ENABLE, .spp_hbinterval = 4000,
                                    .spp_pathmaxrxt = 3};
    SET(s, SCTP_PEER_ADDR_PARAMS, path);
    memset(&path, 0, sizeof path);
    GET(s, SCTP_PEER_ADDR_PARAMS, path);
    CHECK(path.spp_hbinterval == 4000 && path.spp_pathmaxrxt == 3);
    CHECK((path.spp_flags & SPP_HB_ENABLE) && !(path.spp_flags & SPP_HB_DISABLE));
    path = (struct sctp_paddrparams){.spp_flags = SPP_HB_ENABLE | SPP_HB_DISABLE};
    REFUSED(s, SCTP_PEER_ADDR_PARAMS, path, EINVAL);
    path.spp_flags = SPP_HB_DISABLE;
    SET(s, SCTP_PEER_ADDR_PARAMS, path);
    GET(s, SCTP_PEER_ADDR_PARAMS, path);
    CHECK(!(path.spp_flags & SPP_HB_ENABLE));
    struct sctp_sack_info sack = {.sack_delay = 150, .sack_freq = 3};
    SET(s, SCTP_DELAYED_SACK, sack);
    memset(&sack, 0, sizeof sack);
    GET(s, SCTP_DELAYED_SACK, sack);
    CHECK(sack.sack_delay == 150 && sack.sack_freq == 3);
}

static void association(sock s)
{
    struct sctp_initmsg init = {.sinit_num_ostreams = 17, .sinit_max_instreams = 18,
                                .sinit_max_attempts = 4};
    SET(s, SCTP_INITMSG, init);
    memset(&init, 0, sizeof init);
    GET(s, SCTP_INITMSG, init);
    CHECK(init.sinit_num_ostreams == 17 && init.sinit_max_instreams == 18);
    CHECK(init.sinit_max_attempts == 4);
    struct sctp_setadaptation layer = {.ssb_adaptation_ind = 99};
    SET(s, SCTP_ADAPTATION_LAYER, layer);
    memset(&layer, 0, sizeof layer);
    GET(s, SCTP_ADAPTATION_LAYER, layer);
    CHECK(layer.ssb_adaptation_ind == 99);
    struct sctp_assoc_value value = {.assoc_value = 5};
    SET(s, SCTP_CONTEXT, value);
    value.assoc_value = 0;
    GET(s, SCTP_CONTEXT, value);
    CHECK(value.assoc_value == 5);
    value.assoc_value = 7;
    SET(s, SCTP_MAX_BURST, value);
    value.assoc_value = 0;
    GET(s, SCTP_MAX_BURST, value);
    CHECK(value.assoc_value == 7);
    value.assoc_value = 900;
    SET(s, SCTP_MAXSEG, value);
    value.assoc_value = 0;
    GET(s, SCTP_MAXSEG, value);
    CHECK(value.assoc_value == 900);
    struct sctp_sndinfo info = {.snd_sid = 3, .snd_flags = SCTP_UNORDERED, .snd_ppid = htonl(8),
                                .snd_context = 44};
    SET(s, SCTP_DEFAULT_SNDINFO, info);
    memset(&info, 0, sizeof info);
    GET(s, SCTP_DEFAULT_SNDINFO, info);
    CHECK(info.snd_sid == 3 && (info.snd_flags & SCTP_UNORDERED));
    CHECK(info.snd_ppid == htonl(8) && info.snd_context == 44);
}

static void authentication(sock s)
{
    /* Not all builds of usrsctp have SHA-256. */
    struct { uint32_t count; uint16_t identifiers[2]; } sha1 = {1, {SCTP_AUTH_HMAC_ID_SHA1, 0}},
                                                       got = {0};
    CHECK(CALL(setsockopt)(s, IPPROTO_SCTP, SCTP_HMAC_IDENT, &sha1, 6) == 0);
    socklen_t listed = sizeof got;
    CHECK(CALL(getsockopt)(s, IPPROTO_SCTP, SCTP_HMAC_IDENT, &got, &listed) == 0 && listed == 6);
    CHECK(got.count == 1 && got.identifiers[0] == SCTP_AUTH_HMAC_ID_SHA1);
    /* SHA-1 must be in the list. */
    struct { uint32_t count; uint16_t identifiers[2]; } without = {1, {SCTP_AUTH_HMAC_ID_SHA256, 0}};
    CHECK(CALL(setsockopt)(s, IPPROTO_SCTP, SCTP_HMAC_IDENT, &without, 6) == -1 && errno == EINVAL);
    struct sctp_authchunk data = {0}, init = {1};
    SET(s, SCTP_AUTH_CHUNK, data);
    REFUSED(s, SCTP_AUTH_CHUNK, init, EINVAL);
    struct { struct sctp_authchunks head; uint8_t chunks[64]; } local = {0};
    socklen_t length = sizeof local;
    CHECK(CALL(getsockopt)(s, IPPROTO_SCTP, SCTP_LOCAL_AUTH_CHUNKS, &local, &length) == 0);
    /* usrsctp's structure has no field for the number. */
    size_t before = offsetof(struct sctp_authchunks, gauth_chunks);
    CHECK(length > before && memchr((char *)&local + before, 0, length - before));
    set_key(s, 7, "secret");
    struct sctp_authkeyid active = {.scact_keynumber = 8};
    REFUSED(s, SCTP_AUTH_ACTIVE_KEY, active, EINVAL);
    active.scact_keynumber = 7;
    SET(s, SCTP_AUTH_ACTIVE_KEY, active);
    active.scact_keynumber = 0;
    GET(s, SCTP_AUTH_ACTIVE_KEY, active);
    CHECK(active.scact_keynumber == 7);
    REFUSED(s, SCTP_AUTH_DELETE_KEY, active, EINVAL);
}

static void reliability(sock s)
{
    for (unsigned on = 2; on-- > 0;) {
        struct sctp_assoc_value value = {.assoc_value = on};
        SET(s, SCTP_PR_SUPPORTED, value);
        value.assoc_value = 9;
        GET(s, SCTP_PR_SUPPORTED, value);
        CHECK(value.assoc_value == on);
    }
    const uint16_t policies[] = {SCTP_PR_SCTP_TTL, SCTP_PR_SCTP_RTX, SCTP_PR_SCTP_PRIO};
    for (size_t i = 0; i < sizeof policies / sizeof *policies; i++) {
        struct sctp_default_prinfo info = {.pr_policy = policies[i], .pr_value = 5};
        SET(s, SCTP_DEFAULT_PRINFO, info);
        memset(&info, 0, sizeof info);
        GET(s, SCTP_DEFAULT_PRINFO, info);
        CHECK(info.pr_policy == policies[i] && info.pr_value == 5);
    }
    struct sctp_default_prinfo none = {.pr_policy = SCTP_PR_SCTP_NONE}, bad = {.pr_policy = 0xff};
    SET(s, SCTP_DEFAULT_PRINFO, none);
    REFUSED(s, SCTP_DEFAULT_PRINFO, bad, EINVAL);
    /* Without an association, nothing was given up. */
    struct sctp_prstatus status = {.sprstat_policy = SCTP_PR_SCTP_TTL};
    socklen_t length = sizeof status;
    CHECK(CALL(getsockopt)(s, IPPROTO_SCTP, SCTP_PR_ASSOC_STATUS, &status, &length) == -1);
}

static void switches(sock s)
{
    const int names[] = {SCTP_NODELAY, SCTP_DISABLE_FRAGMENTS, SCTP_RECVRCVINFO,
                         SCTP_RECVNXTINFO, SCTP_EXPLICIT_EOR};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        for (int on = 1; on >= 0; on--) {
            int now = -1;
            SET(s, names[i], on);
            GET(s, names[i], now);
            CHECK(!now == !on);
        }
    int point = 4000, now = 0;
    SET(s, SCTP_PARTIAL_DELIVERY_POINT, point);
    GET(s, SCTP_PARTIAL_DELIVERY_POINT, now);
    CHECK(now == point);
}

static void interleaving(sock s)
{
    struct sctp_assoc_value on = {.assoc_value = 1}, off = {0}, now = {.assoc_value = 7};
    GET(s, SCTP_INTERLEAVING_SUPPORTED, now);
    CHECK(now.assoc_value == 0);
    int level = 0, got = 7;
#ifndef USRSCTP
    REFUSED(s, SCTP_INTERLEAVING_SUPPORTED, on, EPERM);
#endif
    for (; level < 3; level++) {
        SET(s, SCTP_FRAGMENT_INTERLEAVE, level);
        GET(s, SCTP_FRAGMENT_INTERLEAVE, got);
        CHECK(got == level);
    }
    SET(s, SCTP_INTERLEAVING_SUPPORTED, on);
    GET(s, SCTP_INTERLEAVING_SUPPORTED, now);
    CHECK(now.assoc_value == 1);
    SET(s, SCTP_INTERLEAVING_SUPPORTED, off);
    GET(s, SCTP_INTERLEAVING_SUPPORTED, now);
    CHECK(now.assoc_value == 0);
}

static void schedulers(sock s)
{
    const uint32_t all[] = {SCTP_SS_ROUND_ROBIN, SCTP_SS_ROUND_ROBIN_PACKET, SCTP_SS_PRIORITY,
                            SCTP_SS_FAIR_BANDWITH, SCTP_SS_FIRST_COME, SCTP_SS_DEFAULT};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        struct sctp_assoc_value chosen = {.assoc_value = all[i]}, now = {.assoc_value = 7};
        SET(s, SCTP_PLUGGABLE_SS, chosen);
        GET(s, SCTP_PLUGGABLE_SS, now);
        CHECK(now.assoc_value == all[i] || all[i] == SCTP_SS_DEFAULT);
    }
    struct sctp_assoc_value bad = {.assoc_value = 77};
    REFUSED(s, SCTP_PLUGGABLE_SS, bad, EINVAL);
#ifndef USRSCTP
    /* usrsctp has values for the streams of associations only. */
    struct sctp_stream_value value = {.stream_id = 3, .stream_value = 9}, now = {.stream_id = 3};
    SET(s, SCTP_STREAM_SCHEDULER_VALUE, value);
    GET(s, SCTP_STREAM_SCHEDULER_VALUE, now);
    CHECK(now.stream_value == 9);
    value.stream_id = 65535;
    REFUSED(s, SCTP_STREAM_SCHEDULER_VALUE, value, EINVAL);
#endif
}

static void events(sock s)
{
    const uint16_t types[] = {SCTP_ASSOC_CHANGE,   SCTP_PEER_ADDR_CHANGE,
                              SCTP_REMOTE_ERROR,   SCTP_SHUTDOWN_EVENT,
                              SCTP_SEND_FAILED_EVENT, SCTP_ADAPTATION_INDICATION,
                              SCTP_SENDER_DRY_EVENT,  SCTP_PARTIAL_DELIVERY_EVENT};
    const size_t count = sizeof types / sizeof *types;
    for (size_t i = 0; i < count; i++) {
        struct sctp_event event = {.se_type = types[i], .se_on = 1};
        SET(s, SCTP_EVENT, event);
        /* Only that event is on. */
        for (size_t j = 0; j < count; j++) {
            struct sctp_event other = {.se_type = types[j], .se_on = 1};
            GET(s, SCTP_EVENT, other);
            CHECK(other.se_on == (i == j));
        }
        event.se_on = 0;
        SET(s, SCTP_EVENT, event);
    }
}

/* Options that only one-to-many sockets have. */
static void of_many(sock s)
{
    int seconds = 30, now = 0;
    SET(s, SCTP_AUTOCLOSE, seconds);
    GET(s, SCTP_AUTOCLOSE, now);
    CHECK(now == 30);
    uint32_t number = 77;
    GET(s, SCTP_GET_ASSOC_NUMBER, number);
    CHECK(number == 0);
    struct sctp_status status = {.sstat_assoc_id = 4321};
    socklen_t length = sizeof status;
    CHECK(CALL(getsockopt)(s, IPPROTO_SCTP, SCTP_STATUS, &status, &length) == -1);
}

int main(void)
{
    /* Fail instead of hanging. */
    alarm(60);
    begin(0);
    const int types[] = {SOCK_STREAM, SOCK_SEQPACKET};
    for (int i = 0; i < 2; i++) {
        sock s = OPEN(types[i]);
        CHECK(VALID(s));
        timers(s);
        paths(s);
        association(s);
        reliability(s);
        authentication(s);
        switches(s);
        interleaving(s);
        schedulers(s);
        events(s);
        if (types[i] == SOCK_SEQPACKET)
            of_many(s);
        CALL(close)(s);
    }
    finish();
    printf("passed\n");
    return 0;
}
