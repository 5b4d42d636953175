/* One program for two libraries: the calls of RFC 6458, in either role.
 *
 * rfc6458 server UDP_PORT SCTP_PORT
 * rfc6458 client UDP_PORT SCTP_PORT REMOTE_UDP_PORT
 *
 * Compiled with -DUSRSCTP it runs on usrsctp, otherwise on anabranch. The client sends messages of
 * many sizes on several streams, ordered and unordered; the server returns each. Then the client
 * shuts down, and both see the end. Meanwhile they check events, sequence numbers and the state. All data is
 * authenticated; half way through, both change to another secret. The client's second address leaves the association,
 * comes back and becomes the primary one. All runs over UDP on 127.0.0.1 and ::1. */
#include "rfc6458.h"

#include <stddef.h>

#define MESSAGES 64
#define LONGEST 60000
#define CONTEXT 4711
#define INDICATION 0x12345678
#define FIRST_KEY 1
#define SECOND_KEY 2
/* RFC 8260 */
#define I_DATA 0x40

static unsigned char buffer[LONGEST + 1], expected[LONGEST];
/* The active secret. */
static uint16_t active;
static uint16_t own_port;

/* What is sent from now on is authenticated with this secret. */
static void activate(sock s, uint16_t number)
{
    struct sctp_authkeyid key = {.scact_keynumber = number};
    SET(s, SCTP_AUTH_ACTIVE_KEY, key);
    active = number;
}

static ssize_t sendv(sock s, const void *data, size_t length, struct sctp_sndinfo *info)
{
    /* Nothing is lost for so long, or so often, that it would be given up. */
    const struct sctp_prinfo reliability[] = {{.pr_policy = SCTP_PR_SCTP_NONE},
                                              {.pr_policy = SCTP_PR_SCTP_TTL, .pr_value = 60000},
                                              {.pr_policy = SCTP_PR_SCTP_RTX, .pr_value = 10},
                                              {.pr_policy = SCTP_PR_SCTP_PRIO, .pr_value = 1}};
    struct sctp_sendv_spa spa = {.sendv_flags = SCTP_SEND_SNDINFO_VALID | SCTP_SEND_PRINFO_VALID,
                                 .sendv_sndinfo = *info,
                                 .sendv_prinfo = reliability[info->snd_sid % 4]};
#ifdef USRSCTP
    return usrsctp_sendv(s, data, length, NULL, 0, &spa, sizeof spa, SCTP_SENDV_SPA, 0);
#else
    /* usrsctp does not know it. */
    spa.sendv_flags |= SCTP_SEND_AUTHINFO_VALID;
    spa.sendv_authinfo.auth_keynumber = active;
    struct iovec piece = {(void *)data, length};
    return anabranch_sctp_sendv(s, &piece, 1, NULL, 0, &spa, sizeof spa, SCTP_SENDV_SPA, 0);
#endif
}

/* Sends a message in several calls (SCTP_EXPLICIT_EOR); only the last one ends it. */
static void send_in_pieces(sock s, const unsigned char *data, size_t length, size_t pieces,
                           struct sctp_sndinfo info)
{
    size_t most = length / pieces + 1;
    while (length > most) {
        CHECK(sendv(s, data, most, &info) == (ssize_t)most);
        data += most;
        length -= most;
    }
    info.snd_flags |= SCTP_EOR;
    CHECK(sendv(s, data, length, &info) == (ssize_t)length);
}

/* How often each event was reported, the peer's adaptation layer indication, its last new secret, and the one that this
 * side no longer needs. */
static struct {
    int up, dry, shutdown, adaptation, added, removed, made_primary;
    uint32_t indication;
    uint16_t new_key, free_key;
} told;

/* A change of the peer's address ::1. */
static void note_address(const struct sctp_paddr_change *change)
{
    struct sockaddr_in6 address;
    memcpy(&address, &change->spc_aaddr, sizeof address);
    if (address.sin6_family != AF_INET6 || !IN6_IS_ADDR_LOOPBACK(&address.sin6_addr))
        return;
    told.added += change->spc_state == SCTP_ADDR_ADDED;
    told.removed += change->spc_state == SCTP_ADDR_REMOVED;
    told.made_primary += change->spc_state == SCTP_ADDR_MADE_PRIM;
}

static void note_key(const struct sctp_authkey_event *event)
{
    CHECK(event->auth_indication != SCTP_AUTH_NO_AUTH);
    if (event->auth_indication == SCTP_AUTH_NEW_KEY)
        told.new_key = event->auth_keynumber;
    else if (event->auth_indication == SCTP_AUTH_FREE_KEY)
        told.free_key = event->auth_keynumber;
}

static void note(const unsigned char *bytes, size_t length)
{
    union sctp_notification event;
    memset(&event, 0, sizeof event);
    memcpy(&event, bytes, length < sizeof event ? length : sizeof event);
    CHECK(event.sn_header.sn_length == length);
    switch (event.sn_header.sn_type) {
    case SCTP_ASSOC_CHANGE:
        told.up += event.sn_assoc_change.sac_state == SCTP_COMM_UP;
        break;
    case SCTP_SENDER_DRY_EVENT:
        CHECK(length == sizeof event.sn_sender_dry_event);
        told.dry++;
        break;
    case SCTP_SHUTDOWN_EVENT:
        CHECK(length == sizeof event.sn_shutdown_event);
        told.shutdown++;
        break;
    case SCTP_ADAPTATION_INDICATION:
        told.adaptation++;
        told.indication = event.sn_adaptation_event.sai_adaptation_ind;
        break;
    case SCTP_AUTHENTICATION_EVENT:
        CHECK(length == sizeof event.sn_authkey_event);
        note_key(&event.sn_authkey_event);
        break;
    case SCTP_PEER_ADDR_CHANGE:
        CHECK(length == sizeof event.sn_paddr_change);
        note_address(&event.sn_paddr_change);
        break;
    default:
        CHECK(!"an event that was not asked for");
    }
}

static void subscribe(sock s)
{
    const uint16_t types[] = {SCTP_ASSOC_CHANGE, SCTP_SENDER_DRY_EVENT, SCTP_SHUTDOWN_EVENT,
                              SCTP_ADAPTATION_INDICATION, SCTP_PARTIAL_DELIVERY_EVENT,
                              SCTP_AUTHENTICATION_EVENT, SCTP_PEER_ADDR_CHANGE};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        struct sctp_event event = {.se_type = types[i], .se_on = 1};
        SET(s, SCTP_EVENT, event);
        event.se_on = 0;
        GET(s, SCTP_EVENT, event);
        CHECK(event.se_on == 1);
    }
}

/* Receives a whole message, or if `wanted` is null, one event; returns 0 at the end. */
static ssize_t recvv(sock s, struct sctp_rcvinfo *wanted)
{
    struct sctp_rcvinfo unwanted, *info = wanted ? wanted : &unwanted;
    unsigned char event[512], *to = wanted ? buffer : event;
    const size_t room = wanted ? sizeof buffer : sizeof event;
    size_t got = 0;
    for (;;) {
        socklen_t length = sizeof *info;
        unsigned int type = 0;
        int flags = 0;
#ifdef USRSCTP
        struct sockaddr_storage from;
        socklen_t from_length = sizeof from;
        ssize_t count = usrsctp_recvv(s, to + got, room - got,
                                      (struct sockaddr *)&from, &from_length, info, &length, &type,
                                      &flags);
#else
        struct iovec piece = {to + got, room - got};
        ssize_t count =
            anabranch_sctp_recvv(s, &piece, 1, NULL, NULL, info, &length, &type, &flags);
#endif
        if (count <= 0)
            return count;
        if (flags & MSG_NOTIFICATION) {
            CHECK(got == 0 && (flags & MSG_EOR));
            note(to + got, (size_t)count);
            if (!wanted)
                return count;
            continue;
        }
        CHECK(wanted && type == SCTP_RECVV_RCVINFO && length == sizeof *info);
        got += (size_t)count;
        if (flags & MSG_EOR)
            return (ssize_t)got;
        CHECK(got < sizeof buffer);
    }
}

static struct sockaddr_in6 second_address(uint16_t port)
{
    struct sockaddr_in6 address = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
    address.sin6_addr = in6addr_loopback;
    return address;
}

static sock open_bound(uint16_t port)
{
    sock s = OPEN(SOCK_STREAM);
    CHECK(VALID(s));
    int on = 1;
    SET(s, SCTP_RECVRCVINFO, on);
    SET(s, SCTP_NODELAY, on);
    struct sctp_assoc_value nr_sack = {.assoc_value = 1}, context = {.assoc_value = CONTEXT};
    struct sctp_assoc_value partial_reliability = {.assoc_value = 1};
    SET(s, SCTP_NRSACK_SUPPORTED, nr_sack);
    SET(s, SCTP_PR_SUPPORTED, partial_reliability);
    struct sctp_assoc_value interleaving = {.assoc_value = 1};
    int level = 2;
    SET(s, SCTP_FRAGMENT_INTERLEAVE, level);
    SET(s, SCTP_INTERLEAVING_SUPPORTED, interleaving);
    struct sctp_assoc_value ecn = {.assoc_value = 1};
    SET(s, SCTP_ECN_SUPPORTED, ecn);
    SET(s, SCTP_CONTEXT, context);
    struct sctp_initmsg init = {.sinit_num_ostreams = 8, .sinit_max_instreams = 8};
    SET(s, SCTP_INITMSG, init);
    struct sctp_setadaptation layer = {.ssb_adaptation_ind = INDICATION};
    SET(s, SCTP_ADAPTATION_LAYER, layer);
    set_key(s, FIRST_KEY, "the first secret");
    set_key(s, SECOND_KEY, "another one");
    activate(s, FIRST_KEY);
    struct sctp_authchunk data = {.sauth_chunk = 0}, interleaved = {.sauth_chunk = I_DATA};
    SET(s, SCTP_AUTH_CHUNK, data);
    SET(s, SCTP_AUTH_CHUNK, interleaved);
    struct sctp_assoc_value changes = {.assoc_value = 1};
    SET(s, SCTP_ASCONF_SUPPORTED, changes);
    subscribe(s);
    struct sockaddr_in local = {.sin_family = AF_INET, .sin_port = htons(port)};
    local.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    CHECK(BINDX(s, (struct sockaddr *)&local, 1, SCTP_BINDX_ADD_ADDR) == 0);
    struct sockaddr_in6 second = second_address(port);
    CHECK(BINDX(s, (struct sockaddr *)&second, 1, SCTP_BINDX_ADD_ADDR) == 0);
    return s;
}

/* Checks the state of an association whose data has all arrived. */
static void at_rest(sock s, struct sockaddr_in *peer)
{
    struct sctp_status status = {0};
    GET(s, SCTP_STATUS, status);
    CHECK(status.sstat_state == SCTP_ESTABLISHED);
    CHECK(status.sstat_unackdata == 0 && status.sstat_penddata == 0 && status.sstat_rwnd > 0);
    CHECK(status.sstat_fragmentation_point >= 500);
    struct sctp_paddrinfo path = {0};
    memcpy(&path.spinfo_address, peer, sizeof *peer);
    GET(s, SCTP_GET_PEER_ADDR_INFO, path);
    CHECK(path.spinfo_state == SCTP_ACTIVE && path.spinfo_mtu >= 500 && path.spinfo_rto > 0);
    CHECK(path.spinfo_cwnd >= path.spinfo_mtu);
    struct sctp_assocparams params = {0};
    GET(s, SCTP_ASSOCINFO, params);
    CHECK(params.sasoc_number_peer_destinations == 2 && params.sasoc_peer_rwnd > 0);
}

/* Checks that both sides negotiated NR-SACKs, partial reliability, interleaving and ECN. */
static void agreed_on_extensions(sock s)
{
    struct sctp_assoc_value nr_sack = {0}, partial_reliability = {0}, interleaving = {0};
    GET(s, SCTP_NRSACK_SUPPORTED, nr_sack);
    GET(s, SCTP_PR_SUPPORTED, partial_reliability);
    GET(s, SCTP_INTERLEAVING_SUPPORTED, interleaving);
    CHECK(interleaving.assoc_value == 1);
    struct sctp_assoc_value ecn = {0};
    GET(s, SCTP_ECN_SUPPORTED, ecn);
    CHECK(ecn.assoc_value == 1);
    CHECK(nr_sack.assoc_value == 1 && partial_reliability.assoc_value == 1);
    struct sctp_assoc_value authentication = {0}, changes = {0};
    GET(s, SCTP_AUTH_SUPPORTED, authentication);
    GET(s, SCTP_ASCONF_SUPPORTED, changes);
    CHECK(authentication.assoc_value == 1 && changes.assoc_value == 1);
    const int lists[] = {SCTP_LOCAL_AUTH_CHUNKS, SCTP_PEER_AUTH_CHUNKS};
    for (size_t i = 0; i < 2; i++) {
        struct { struct sctp_authchunks head; uint8_t chunks[64]; } list = {0};
        socklen_t length = sizeof list;
        CHECK(CALL(getsockopt)(s, IPPROTO_SCTP, lists[i], &list, &length) == 0);
        size_t before = offsetof(struct sctp_authchunks, gauth_chunks);
        CHECK(length > before && memchr((char *)&list + before, 0, length - before));
        CHECK(memchr((char *)&list + before, I_DATA, length - before));
    }
}

/* Checks that no message was given up. */
static void kept_all(sock s)
{
    const uint16_t policies[] = {SCTP_PR_SCTP_ALL, SCTP_PR_SCTP_TTL, SCTP_PR_SCTP_RTX, SCTP_PR_SCTP_PRIO};
#ifdef USRSCTP
    /* By stream, it counts only all policies together. */
    const size_t by_stream = 1;
#else
    const size_t by_stream = sizeof policies / sizeof *policies;
#endif
    for (size_t i = 0; i < sizeof policies / sizeof *policies; i++) {
        struct sctp_prstatus status = {.sprstat_policy = policies[i]};
        GET(s, SCTP_PR_ASSOC_STATUS, status);
        CHECK(status.sprstat_abandoned_unsent == 0 && status.sprstat_abandoned_sent == 0);
    }
    for (size_t i = 0; i < 8 * by_stream; i++) {
        struct sctp_prstatus status = {.sprstat_policy = policies[i / 8], .sprstat_sid = i % 8};
        GET(s, SCTP_PR_STREAM_STATUS, status);
        CHECK(status.sprstat_abandoned_unsent == 0 && status.sprstat_abandoned_sent == 0);
    }
}

static size_t size_of(unsigned number)
{
    return 1 + (number * 7919u * 31u) % (number % 8 == 7 ? LONGEST - 1 : 3000);
}

static int is_first_address(const struct sockaddr_storage *from)
{
    if (from->ss_family == AF_INET)
        return ((const struct sockaddr_in *)from)->sin_addr.s_addr == htonl(INADDR_LOOPBACK);
    const struct in6_addr *address = &((const struct sockaddr_in6 *)from)->sin6_addr;
    const uint32_t first = htonl(INADDR_LOOPBACK);
    return IN6_IS_ADDR_V4MAPPED(address) && memcmp(address->s6_addr + 12, &first, 4) == 0;
}

static void server(sock listener)
{
    CHECK(CALL(listen)(listener, 1) == 0);
    printf("ready\n");
    fflush(stdout);
    struct sockaddr_storage from;
    socklen_t length = sizeof from;
    sock s = CALL(accept)(listener, (struct sockaddr *)&from, &length);
    CHECK(VALID(s));
    CHECK(is_first_address(&from));
    agreed_on_extensions(s);
    int on = 1;
    SET(s, SCTP_RECVRCVINFO, on);
    struct sctp_rcvinfo got;
    ssize_t count;
    unsigned messages = 0;
    while ((count = recvv(s, &got)) > 0) {
        struct sctp_sndinfo info = {.snd_sid = got.rcv_sid, .snd_ppid = got.rcv_ppid};
        if (got.rcv_flags & SCTP_UNORDERED)
            info.snd_flags = SCTP_UNORDERED;
        if (told.new_key == SECOND_KEY && active != SECOND_KEY)
            activate(s, SECOND_KEY);
        /* The last message waits for the changes of addresses. */
        while (messages == MESSAGES - 1 && told.made_primary == 0)
            CHECK(recvv(s, NULL) > 0);
        CHECK(sendv(s, buffer, (size_t)count, &info) == count);
        messages++;
    }
    CHECK(count == 0 && messages == MESSAGES);
    CHECK(told.up == 1 && told.shutdown == 1 && told.dry >= 1);
    CHECK(told.adaptation == 1 && told.indication == INDICATION);
    CHECK(told.removed == 1 && told.added == 1 && told.made_primary == 1);
    CHECK(active == SECOND_KEY);
    CALL(close)(s);
    CALL(close)(listener);
}

/* The second address leaves and comes back, and the peer is asked to send there. */
static void change_addresses(sock s, unsigned number)
{
    struct sockaddr_in6 second = second_address(own_port);
    struct sctp_setpeerprim preferred = {0};
    memcpy(&preferred.sspp_addr, &second, sizeof second);
    if (number == MESSAGES / 4)
        CHECK(BINDX(s, (struct sockaddr *)&second, 1, SCTP_BINDX_REM_ADDR) == 0);
    if (number == MESSAGES / 2)
        CHECK(BINDX(s, (struct sockaddr *)&second, 1, SCTP_BINDX_ADD_ADDR) == 0);
    if (number == MESSAGES * 3 / 4)
        SET(s, SCTP_SET_PEER_PRIMARY_ADDR, preferred);
}

static void client(sock s, uint16_t port, uint16_t remote_udp)
{
    struct sctp_udpencaps encapsulation;
    memset(&encapsulation, 0, sizeof encapsulation);
    encapsulation.sue_address.ss_family = AF_INET;
    encapsulation.sue_port = htons(remote_udp);
    SET(s, SCTP_REMOTE_UDP_ENCAPS_PORT, encapsulation);
    struct sockaddr_in peer = {.sin_family = AF_INET, .sin_port = htons(port)};
    peer.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    CHECK(CONNECTX(s, (struct sockaddr *)&peer, 1, NULL) == 0);

    /* usrsctp_connectx does not wait. */
    struct sctp_status status;
    do {
        memset(&status, 0, sizeof status);
        GET(s, SCTP_STATUS, status);
    } while (status.sstat_state != SCTP_ESTABLISHED && usleep(1000) == 0);
    CHECK(status.sstat_outstrms == 8 && status.sstat_instrms == 8);
    agreed_on_extensions(s);
    struct sockaddr *addresses;
    CHECK(GETPADDRS(s, 0, &addresses) == 2);
    FREEPADDRS(addresses);

    uint32_t tsn = 0;
    uint16_t ssns[8] = {0};
    for (unsigned number = 0; number < MESSAGES; number++) {
        size_t size = size_of(number);
        for (size_t i = 0; i < size; i++)
            expected[i] = (unsigned char)(number * 131 + i * 7);
        struct sctp_sndinfo info = {.snd_sid = (uint16_t)(number % 8),
                                    .snd_ppid = htonl(number),
                                    .snd_flags = number % 3 == 2 ? SCTP_UNORDERED : 0};
        /* The event after the last message says that all of them have arrived. */
        told.dry = 0;
        if (number == MESSAGES / 2)
            activate(s, SECOND_KEY);
        change_addresses(s, number);
        /* Some messages are sent in pieces; later ones do not have to say where they end. usrsctp stops amid a long one
         * whose chunks are authenticated. */
        int explicit_end = number < MESSAGES / 2 && size < 4000;
        SET(s, SCTP_EXPLICIT_EOR, explicit_end);
        if (explicit_end)
            send_in_pieces(s, expected, size, 1 + number % 3, info);
        else
            CHECK(sendv(s, expected, size, &info) == (ssize_t)size);
        struct sctp_rcvinfo got;
        CHECK(recvv(s, &got) == (ssize_t)size);
        CHECK(memcmp(buffer, expected, size) == 0);
        CHECK(got.rcv_sid == number % 8 && got.rcv_ppid == htonl(number));
        CHECK(!(got.rcv_flags & SCTP_UNORDERED) == (number % 3 != 2));
        CHECK(got.rcv_context == CONTEXT);
        /* The SSN counts the ordered messages of a stream, the TSN all chunks of the association. */
        if (number % 3 != 2)
            CHECK(got.rcv_ssn == ssns[number % 8]++);
        CHECK(number == 0 || (int32_t)(got.rcv_tsn - tsn) > 0);
        tsn = got.rcv_tsn;
    }
    /* Events after the last message, including SCTP_SENDER_DRY_EVENT. */
    while (told.dry == 0)
        CHECK(recvv(s, NULL) > 0);
    CHECK(told.up == 1 && told.shutdown == 0);
    CHECK(told.adaptation == 1 && told.indication == INDICATION);
    /* The server has changed, too, so that this side no longer needs the first secret. */
    while (told.new_key != SECOND_KEY)
        CHECK(recvv(s, NULL) > 0);
    struct sctp_authkeyid old = {.scact_keynumber = FIRST_KEY};
    SET(s, SCTP_AUTH_DEACTIVATE_KEY, old);
    while (told.free_key != FIRST_KEY)
        CHECK(recvv(s, NULL) > 0);
    SET(s, SCTP_AUTH_DELETE_KEY, old);
    at_rest(s, &peer);
    kept_all(s);
    CHECK(CALL(shutdown)(s, SHUT_WR) == 0);
    struct sctp_rcvinfo none;
    CHECK(recvv(s, &none) == 0);
    CALL(close)(s);
    printf("%d messages came back\n", MESSAGES);
}

int main(int argc, char **argv)
{
    /* Fail instead of hanging. */
    alarm(120);
    CHECK(argc >= 4);
    int is_server = strcmp(argv[1], "server") == 0, udp = atoi(argv[2]);
    uint16_t port = (uint16_t)atoi(argv[3]);
    begin(udp);
    own_port = is_server ? port : (uint16_t)(port + 1);
    sock s = open_bound(own_port);
#ifndef USRSCTP
    SET(s, ANABRANCH_LOCAL_UDP_PORT, udp);
#endif
    if (is_server) {
        server(s);
    } else {
        CHECK(argc == 5);
        client(s, port, (uint16_t)atoi(argv[4]));
    }
    finish();
    return 0;
}
