/* An SCTP peer for interoperability tests and comparisons: one program, several stacks.
 *
 * `echo` returns every message on its stream, with its identifier and its order, and executes
 * messages that begin with "#!interop ":
 *   source COUNT SIZE STREAMS SEED   sends its own messages (odd streams unordered)
 *   mixed LONG SHORT COUNT SEED      sends a message of LONG bytes on stream 0, and then COUNT messages of SHORT
 *                                    bytes on streams 2 and 3
 *   sink                             stops returning messages
 *   report                           the same, and prints "reporting", and stream, length and hash of each message
 *   reset STREAM                     resets this outgoing stream, once its sources are done
 *   add OUT IN                       adds outgoing streams, and asks for incoming ones
 *   bind A                           adds a local address
 *   unbind A                         removes a local address
 *   prefer A                         asks the other side to send to this local address
 *   pause MS                         stops receiving for this time
 *   shutdown                         ends gracefully, once its sources are done
 *   abort                            ends immediately
 * `sink` receives and counts; `source` sends for --seconds or --count; `ping` sends one message at a
 * time to an echoing peer, compares what comes back and measures the round trip; `perf` is a server for `anabranch perf client`. */
#include "stack.h"

#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

enum mode { ECHO, SINK, SOURCE, PING, PERF, MODES };

static const char *const mode_names[] = {"echo", "sink", "source", "ping", "perf"};

static struct {
    int listens;
    enum mode mode;
    const char *local, *remote;
    const char *secret; /* for authentication, with the number 1 */
    uint16_t port, local_port, udp, remote_udp;
    int streams, unordered, buffer, mtu, associations, silent, interleave;
    uint32_t heartbeat, rto_min, rto_max, path_max_retrans;
    int set_path_max_retrans;
    size_t size;
    long count;
    double seconds;
} options = {.port = 5001, .streams = 1024, .buffer = 4 << 20, .size = 16384, .associations = 0};

static const size_t BUFFER = 4u << 20;
static const char COMMAND[] = "#!interop ";

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* CPU time of the process in seconds. */
static double cpu(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           1e-6 * (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

static void fail(const char *what)
{
    fprintf(stderr, "peer: %s: %s\n", what, strerror(errno));
    exit(1);
}

static void *allocate(size_t size)
{
    void *memory = malloc(size);
    if (!memory)
        fail("memory");
    return memory;
}

static int family_of(const char *list)
{
    return list && strchr(list, ':') ? AF_INET6 : AF_INET;
}

/* Whether the local addresses are all those of the host, of both IP versions. */
static int is_everywhere(void)
{
    return options.local && strcmp(options.local, "::") == 0;
}

/* Reads "A,B,C"; an absent list is the wildcard address of the family. */
static void read_addresses(const char *list, int family, uint16_t port, struct addresses *out)
{
    memset(out, 0, sizeof *out);
    char *copy = strdup(list ? list : family == AF_INET6 ? "::" : "0.0.0.0");
    char *rest = NULL;
    for (char *text = strtok_r(copy, ",", &rest); text; text = strtok_r(NULL, ",", &rest)) {
        struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons(port)};
        struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
        char *at = out->packed + out->bytes;
        if (out->count == MAX_ADDRESSES) {
            fprintf(stderr, "peer: more than %d addresses\n", MAX_ADDRESSES);
            exit(2);
        } else if (inet_pton(AF_INET, text, &v4.sin_addr) == 1) {
            memcpy(at, &v4, sizeof v4);
            out->bytes += sizeof v4;
        } else if (inet_pton(AF_INET6, text, &v6.sin6_addr) == 1) {
            memcpy(at, &v6, sizeof v6);
            out->bytes += sizeof v6;
        } else {
            fprintf(stderr, "peer: %s is not an IP address\n", text);
            exit(2);
        }
        out->count++;
    }
    free(copy);
}

static void set(stack_socket s, int level, int name, const void *value, socklen_t length,
                const char *what)
{
    if (stack_option(s, level, name, value, length) != 0)
        fail(what);
}

/* What a peer may ask for, and the events about it and about addresses. */
static void set_reconfiguration(stack_socket s)
{
    struct sctp_assoc_value all = {0};
    all.assoc_value = SCTP_ENABLE_RESET_STREAM_REQ | SCTP_ENABLE_CHANGE_ASSOC_REQ;
    set(s, IPPROTO_SCTP, SCTP_ENABLE_STREAM_RESET, &all, sizeof all, "SCTP_ENABLE_STREAM_RESET");
    static const uint16_t types[] = {SCTP_STREAM_RESET_EVENT, SCTP_STREAM_CHANGE_EVENT,
                                     SCTP_PEER_ADDR_CHANGE};
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        struct sctp_event event = {0};
        event.se_type = types[i];
        event.se_on = 1;
        set(s, IPPROTO_SCTP, SCTP_EVENT, &event, sizeof event, "SCTP_EVENT");
    }
}

/* Interleaves messages (RFC 8260) if the other side wants that, too. */
static void set_interleaving(stack_socket s)
{
    int several = 2;
    struct sctp_assoc_value on = {0};
    on.assoc_value = 1;
    set(s, IPPROTO_SCTP, SCTP_FRAGMENT_INTERLEAVE, &several, sizeof several,
        "SCTP_FRAGMENT_INTERLEAVE");
    set(s, IPPROTO_SCTP, SCTP_INTERLEAVING_SUPPORTED, &on, sizeof on,
        "SCTP_INTERLEAVING_SUPPORTED");
}

/* Authenticates with a secret, and accepts data and acknowledgements only if they are authenticated (RFC 4895). */
static void set_authentication(stack_socket s)
{
    static const uint8_t chunks[] = {0, 3};
    for (size_t i = 0; i < sizeof chunks; i++) {
        struct sctp_authchunk chunk = {chunks[i]};
        set(s, IPPROTO_SCTP, SCTP_AUTH_CHUNK, &chunk, sizeof chunk, "SCTP_AUTH_CHUNK");
    }
    size_t length = strlen(options.secret);
    struct sctp_authkey *key = allocate(sizeof *key + length);
    memset(key, 0, sizeof *key);
    key->sca_keynumber = 1;
    key->sca_keylength = (uint16_t)length;
    memcpy(key->sca_key, options.secret, length);
    set(s, IPPROTO_SCTP, SCTP_AUTH_KEY, key, (socklen_t)(sizeof *key + length), "SCTP_AUTH_KEY");
    free(key);
    struct sctp_authkeyid active = {0};
    active.scact_keynumber = 1;
    set(s, IPPROTO_SCTP, SCTP_AUTH_ACTIVE_KEY, &active, sizeof active, "SCTP_AUTH_ACTIVE_KEY");
}

static void set_options(stack_socket s, int family)
{
    int on = 1;
    set_reconfiguration(s);
    if (options.interleave)
        set_interleaving(s);
    if (options.secret)
        set_authentication(s);
    set(s, IPPROTO_SCTP, SCTP_NODELAY, &on, sizeof on, "SCTP_NODELAY");
    if (family == AF_INET6 && !is_everywhere()) /* usrsctp lacks this option and does not need it */
        stack_option(s, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on);
    set(s, SOL_SOCKET, SO_SNDBUF, &options.buffer, sizeof options.buffer, "SO_SNDBUF");
    set(s, SOL_SOCKET, SO_RCVBUF, &options.buffer, sizeof options.buffer, "SO_RCVBUF");

    struct sctp_initmsg streams = {0};
    streams.sinit_num_ostreams = (uint16_t)options.streams;
    streams.sinit_max_instreams = 2048;
    set(s, IPPROTO_SCTP, SCTP_INITMSG, &streams, sizeof streams, "SCTP_INITMSG");

    if (options.rto_min || options.rto_max) {
        struct sctp_rtoinfo rto = {0};
        rto.srto_min = options.rto_min;
        rto.srto_max = options.rto_max;
        rto.srto_initial = options.rto_min;
        set(s, IPPROTO_SCTP, SCTP_RTOINFO, &rto, sizeof rto, "SCTP_RTOINFO");
    }
    struct sctp_paddrparams path;
    memset(&path, 0, sizeof path);
    path.spp_address.ss_family = (sa_family_t)family;
    path.spp_pathmaxrxt = (uint16_t)options.path_max_retrans;
    if (options.heartbeat) {
        path.spp_flags |= SPP_HB_ENABLE;
        path.spp_hbinterval = options.heartbeat;
    }
    if (options.mtu) {
        path.spp_flags |= SPP_PMTUD_DISABLE;
        path.spp_pathmtu = (uint32_t)options.mtu;
    }
    if (path.spp_flags || options.set_path_max_retrans)
        set(s, IPPROTO_SCTP, SCTP_PEER_ADDR_PARAMS, &path, sizeof path, "SCTP_PEER_ADDR_PARAMS");

    if (options.remote_udp) {
        struct sctp_udpencaps udp;
        memset(&udp, 0, sizeof udp);
        udp.sue_address.ss_family = (sa_family_t)family;
        udp.sue_port = htons(options.remote_udp);
        set(s, IPPROTO_SCTP, SCTP_REMOTE_UDP_ENCAPS_PORT, &udp, sizeof udp,
            "SCTP_REMOTE_UDP_ENCAPS_PORT");
    }
}

/* Generates the bytes of message `index` of a sequence; the other side generates the same. */
static void pattern(unsigned char *bytes, size_t length, uint64_t seed, uint64_t index)
{
    uint64_t state = (seed * 0x9e3779b97f4a7c15u + index) * 0xbf58476d1ce4e5b9u | 1;
    for (size_t i = 0; i < length; i++) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes[i] = (unsigned char)(state >> 24);
    }
}

struct association {
    stack_socket socket;
    uint16_t port;
    /* Of all received messages except commands, in order. */
    unsigned long long bytes;
    uint64_t hash;
};

static const uint64_t HASH_START = 0xcbf29ce484222325u;

/* FNV-1a. */
static uint64_t hash_of(uint64_t hash, const char *bytes, size_t length)
{
    for (size_t i = 0; i < length; i++)
        hash = (hash ^ (unsigned char)bytes[i]) * 0x100000001b3u;
    return hash;
}

static struct association *new_association(void)
{
    struct association *a = allocate(sizeof *a);
    memset(a, 0, sizeof *a);
    a->hash = HASH_START;
    return a;
}

struct source {
    stack_socket socket;
    long count;
    size_t size;
    size_t first;  /* length of a message on stream 0 before the others, or 0 */
    int streams;   /* of the others */
    uint64_t seed;
};

static void *run_source(void *argument)
{
    struct source *s = argument;
    unsigned char *bytes = allocate(s->size > s->first ? s->size : s->first);
    for (long i = 0; i < s->count; i++) {
        struct message m = {.stream = (uint16_t)(i % s->streams), .ppid = (uint32_t)(1000 + i)};
        size_t size = s->first && i == 0 ? s->first : s->size;
        if (s->first)
            m.stream = i == 0 ? 0 : (uint16_t)(2 + i % s->streams);
        m.unordered = m.stream % 2;
        pattern(bytes, size, s->seed, (uint64_t)i);
        if (stack_send(s->socket, bytes, size, &m) != 0)
            break;
    }
    free(bytes);
    free(s);
    return NULL;
}

static void start_source(stack_socket socket, const char *arguments, int mixed, pthread_t *thread)
{
    struct source *s = allocate(sizeof *s);
    unsigned long long size, seed, first = 0;
    s->socket = socket;
    int read = mixed ? sscanf(arguments, "%llu %llu %ld %llu", &first, &size, &s->count, &seed)
                     : sscanf(arguments, "%ld %llu %d %llu", &s->count, &size, &s->streams, &seed);
    if (mixed) {
        s->streams = 2;
        s->count++;
    }
    if (read != 4 || size == 0 || size > BUFFER || s->streams < 1 || first > BUFFER) {
        fprintf(stderr, "peer: source COUNT SIZE STREAMS SEED or mixed LONG SHORT COUNT SEED\n");
        exit(2);
    }
    s->size = size;
    s->first = first;
    s->seed = seed;
    if (pthread_create(thread, NULL, run_source, s) != 0)
        fail("thread");
}

/* Resets an outgoing stream. The Linux kernel refuses that while something is queued. */
static void reset_stream(stack_socket s, const char *arguments)
{
    struct {
        struct sctp_reset_streams head;
        uint16_t stream;
    } reset;
    memset(&reset, 0, sizeof reset);
    reset.head.srs_flags = SCTP_STREAM_RESET_OUTGOING;
    reset.head.srs_number_streams = 1;
    reset.stream = (uint16_t)atoi(arguments);
    while (stack_option(s, IPPROTO_SCTP, SCTP_RESET_STREAMS, &reset, sizeof reset) != 0) {
        if (errno != EAGAIN && errno != EALREADY && errno != EINPROGRESS)
            fail("SCTP_RESET_STREAMS");
        usleep(5000);
    }
}

/* Adds outgoing streams, and asks for incoming ones. */
static void add_streams(stack_socket s, const char *arguments)
{
    struct sctp_add_streams add = {0};
    if (sscanf(arguments, "%hu %hu", &add.sas_outstrms, &add.sas_instrms) != 2) {
        fprintf(stderr, "peer: add OUT IN\n");
        exit(2);
    }
    set(s, IPPROTO_SCTP, SCTP_ADD_STREAMS, &add, sizeof add, "SCTP_ADD_STREAMS");
}

/* The socket that waits for associations, if there is one. */
static stack_socket listener;

/* Adds a local address to an association that is up, or removes it. While the listening socket has the address, too, no
 * other one can add it. */
static void rebind(stack_socket s, const char *text, int add)
{
    struct addresses one;
    read_addresses(text, AF_INET, options.listens ? options.port : options.local_port, &one);
    if (listener && !add)
        stack_rebind(listener, &one, 0);
    if (stack_rebind(s, &one, add) != 0)
        fail(add ? "bind" : "unbind");
}

static void prefer(stack_socket s, const char *text)
{
    struct addresses one;
    struct sctp_setpeerprim preferred;
    read_addresses(text, AF_INET, options.listens ? options.port : options.local_port, &one);
    memset(&preferred, 0, sizeof preferred);
    memcpy(&preferred.sspp_addr, one.packed, one.bytes);
    set(s, IPPROTO_SCTP, SCTP_SET_PEER_PRIMARY_ADDR, &preferred, sizeof preferred,
        "SCTP_SET_PEER_PRIMARY_ADDR");
}

/* Prints that the other side has an address more or less, or prefers one. */
static void print_address_change(const struct sctp_paddr_change *change)
{
    struct sockaddr_storage address;
    char text[INET6_ADDRSTRLEN] = "";
    memcpy(&address, &change->spc_aaddr, sizeof address);
    const struct in6_addr *v6 = &((struct sockaddr_in6 *)&address)->sin6_addr;
    if (address.ss_family == AF_INET)
        inet_ntop(AF_INET, &((struct sockaddr_in *)&address)->sin_addr, text, sizeof text);
    else if (IN6_IS_ADDR_V4MAPPED(v6))
        inet_ntop(AF_INET, &v6->s6_addr[12], text, sizeof text);
    else
        inet_ntop(AF_INET6, v6, text, sizeof text);
    if (change->spc_state == SCTP_ADDR_ADDED)
        printf("address added %s\n", text);
    else if (change->spc_state == SCTP_ADDR_REMOVED)
        printf("address removed %s\n", text);
    else if (change->spc_state == SCTP_ADDR_MADE_PRIM)
        printf("address preferred %s\n", text);
}

/* Prints resets of streams of the other side, and changes of the number of streams and of addresses. */
void notified(const void *notification, size_t length)
{
    union sctp_notification n;
    memset(&n, 0, sizeof n);
    memcpy(&n, notification, length < sizeof n ? length : sizeof n);
    const char *bytes = notification;
    if (n.sn_header.sn_type == SCTP_STREAM_RESET_EVENT) {
        unsigned flags = n.sn_strreset_event.strreset_flags;
        int done = !(flags & (SCTP_STREAM_RESET_DENIED | SCTP_STREAM_RESET_FAILED));
        for (size_t at = sizeof n.sn_strreset_event; done && at + 2 <= length; at += 2) {
            uint16_t stream;
            memcpy(&stream, bytes + at, sizeof stream);
            if (flags & SCTP_STREAM_RESET_INCOMING_SSN)
                printf("reset incoming %u\n", stream);
            if (flags & SCTP_STREAM_RESET_OUTGOING_SSN)
                printf("reset outgoing %u\n", stream);
        }
        if (!done)
            printf("reset failed\n");
    } else if (n.sn_header.sn_type == SCTP_STREAM_CHANGE_EVENT) {
        printf("streams out=%u in=%u flags=%u\n", n.sn_strchange_event.strchange_outstrms,
               n.sn_strchange_event.strchange_instrms, n.sn_strchange_event.strchange_flags);
    } else if (n.sn_header.sn_type == SCTP_PEER_ADDR_CHANGE) {
        print_address_change(&n.sn_paddr_change);
    }
}

/* Closing with a linger time of zero is ABORT. */
static void abort_association(stack_socket s)
{
    struct linger linger = {.l_onoff = 1, .l_linger = 0};
    stack_option(s, SOL_SOCKET, SO_LINGER, &linger, sizeof linger);
    stack_close(s);
}

/* The arguments after the command's name, or NULL if this is another message. */
static const char *command(const char *bytes, size_t length, const char *name)
{
    size_t prefix = sizeof COMMAND - 1, name_length = strlen(name);
    int found = length >= prefix + name_length && memcmp(bytes, COMMAND, prefix) == 0 &&
                memcmp(bytes + prefix, name, name_length) == 0;
    return found ? bytes + prefix + name_length : NULL;
}

struct echo {
    stack_socket socket;
    int sink, report, sourcing, aborted;
    pthread_t source;
};

static void end_source(struct echo *e)
{
    if (e->sourcing)
        pthread_join(e->source, NULL);
    e->sourcing = 0;
}

/* Executes a command. Returns whether the message was one. */
static int obey(struct echo *e, const char *bytes, size_t length)
{
    const char *arguments;
    int mixed = 0;
    if ((arguments = command(bytes, length, "source ")) ||
        (arguments = command(bytes, length, "mixed "))) {
        mixed = command(bytes, length, "mixed ") != NULL;
        end_source(e);
        start_source(e->socket, arguments, mixed, &e->source);
        e->sourcing = 1;
    } else if (command(bytes, length, "sink")) {
        e->sink = 1;
    } else if (command(bytes, length, "report")) {
        e->sink = e->report = 1;
        printf("reporting\n");
    } else if ((arguments = command(bytes, length, "pause "))) {
        usleep((useconds_t)(atol(arguments) * 1000));
    } else if ((arguments = command(bytes, length, "reset "))) {
        end_source(e);
        reset_stream(e->socket, arguments);
    } else if ((arguments = command(bytes, length, "add "))) {
        add_streams(e->socket, arguments);
    } else if ((arguments = command(bytes, length, "bind "))) {
        rebind(e->socket, arguments, 1);
    } else if ((arguments = command(bytes, length, "unbind "))) {
        rebind(e->socket, arguments, 0);
    } else if ((arguments = command(bytes, length, "prefer "))) {
        prefer(e->socket, arguments);
    } else if (command(bytes, length, "shutdown")) {
        end_source(e);
        stack_shutdown(e->socket);
    } else if (command(bytes, length, "abort")) {
        abort_association(e->socket);
        e->aborted = 1;
    } else {
        return 0;
    }
    return 1;
}

/* Returns every message. Result 1: this side aborted, and the socket is closed. */
static int run_echo(struct association *a, ssize_t *end)
{
    struct echo e = {.socket = a->socket};
    char *buffer = allocate(BUFFER + 1);
    size_t held = 0;
    struct message m;
    ssize_t n;
    while (!e.aborted && (n = stack_receive(e.socket, buffer + held, BUFFER - held, &m)) > 0) {
        held += (size_t)n;
        if (!m.whole && held < BUFFER)
            continue;
        buffer[held] = 0;
        if (!obey(&e, buffer, held)) {
            a->bytes += held;
            a->hash = hash_of(a->hash, buffer, held);
            if (e.report)
                printf("message %u %zu %016llx\n", m.stream, held,
                       (unsigned long long)hash_of(HASH_START, buffer, held));
            if (!e.sink && stack_send(e.socket, buffer, held, &m) != 0) {
                n = -1;
                break;
            }
        }
        held = 0;
    }
    int error = errno;
    end_source(&e);
    errno = error;
    free(buffer);
    *end = n;
    return e.aborted;
}

/* Payload protocol identifiers of `anabranch perf`: JSON, data, messages to echo. */
static const uint32_t PERF_CONTROL = 0x616e7063, PERF_DATA = 0x616e7064, PERF_ECHO = 0x616e7065;

/* The request of an `anabranch perf` client. */
struct perf {
    stack_socket socket;
    size_t size;
    int streams, unordered;
    double seconds;           /* 0 if `bytes` is set */
    unsigned long long bytes;
};

/* The text after "name": in JSON without spaces, or an empty string. */
static const char *json_value(const char *json, const char *name)
{
    char quoted[32];
    snprintf(quoted, sizeof quoted, "\"%s\":", name);
    const char *at = strstr(json, quoted);
    return at ? at + strlen(quoted) : "";
}

static int json_is(const char *json, const char *name, const char *value)
{
    return strncmp(json_value(json, name), value, strlen(value)) == 0;
}

/* The content of each data message. */
static char *perf_filler(size_t size)
{
    char *bytes = allocate(size);
    for (size_t i = 0; i < size; i++)
        bytes[i] = (char)i;
    return bytes;
}

static void *run_perf_source(void *argument)
{
    struct perf *p = argument;
    char *bytes = perf_filler(p->size), text[128];
    struct message m = {.ppid = PERF_DATA, .unordered = p->unordered};
    unsigned long long messages = 0, sent = 0;
    double begun = now();
    while (p->seconds > 0 ? now() - begun < p->seconds : sent < p->bytes) {
        size_t length = p->size;
        if (p->seconds == 0 && p->bytes - sent < length)
            length = (size_t)(p->bytes - sent);
        m.stream = (uint16_t)(messages % (unsigned)p->streams);
        if (stack_send(p->socket, bytes, length, &m) != 0)
            break;
        messages++;
        sent += length;
    }
    struct message control = {.ppid = PERF_CONTROL};
    int length = snprintf(text, sizeof text, "{\"control\":\"end\",\"messages\":%llu,\"bytes\":%llu}",
                          messages, sent);
    stack_send(p->socket, text, (size_t)length, &control);
    free(bytes);
    return NULL;
}

/* Reads a request. Returns whether this side is to send. */
static int read_perf_request(const char *json, struct perf *p)
{
    p->size = strtoul(json_value(json, "size"), NULL, 10);
    p->streams = (int)strtoul(json_value(json, "streams"), NULL, 10);
    p->unordered = json_is(json, "unordered", "true");
    p->seconds = strtod(json_value(json, "seconds"), NULL);
    p->bytes = strtoull(json_value(json, "bytes"), NULL, 10);
    return p->size > 0 && p->size <= BUFFER && p->streams > 0 &&
           (json_is(json, "mode", "\"both\"") || json_is(json, "mode", "\"receive\""));
}

/* Serves an `anabranch perf` client and checks all data from it. Result 1: data was changed, and the
 * association was aborted. */
static int run_perf(struct association *a, ssize_t *end)
{
    char *buffer = allocate(BUFFER + 1), *filler = perf_filler(BUFFER), text[256];
    struct perf p = {.socket = a->socket};
    pthread_t source;
    int sourcing = 0, ended = 0, told = 0, aborted = 0;
    unsigned long long messages = 0, all_messages = 0, all_bytes = 0;
    double begun = now();
    size_t held = 0;
    struct message m;
    ssize_t n = 0;
    while (!aborted && (n = stack_receive(a->socket, buffer + held, BUFFER - held, &m)) > 0) {
        held += (size_t)n;
        if (!m.whole && held < BUFFER)
            continue;
        buffer[held] = 0;
        if (m.ppid == PERF_ECHO) {
            stack_send(a->socket, buffer, held, &m);
        } else if (m.ppid != PERF_CONTROL) {
            messages++;
            a->bytes += held;
            if (memcmp(buffer, filler, held) != 0) {
                abort_association(a->socket);
                aborted = 1;
            }
        } else if (json_is(buffer, "control", "\"request\"") && !sourcing) {
            begun = now();
            sourcing = read_perf_request(buffer, &p);
            if (sourcing && pthread_create(&source, NULL, run_perf_source, &p) != 0)
                fail("thread");
        } else if (json_is(buffer, "control", "\"end\"")) {
            all_messages = strtoull(json_value(buffer, "messages"), NULL, 10);
            all_bytes = strtoull(json_value(buffer, "bytes"), NULL, 10);
            ended = 1;
        }
        held = 0;
        if (!aborted && ended && !told && messages == all_messages && a->bytes == all_bytes) {
            struct message control = {.ppid = PERF_CONTROL};
            int length = snprintf(text, sizeof text,
                                  "{\"control\":\"report\",\"messages\":%llu,\"bytes\":%llu,"
                                  "\"seconds\":%.6f,\"cpu_seconds\":%.6f}",
                                  messages, a->bytes, now() - begun, cpu());
            stack_send(a->socket, text, (size_t)length, &control);
            told = 1;
        }
    }
    int error = errno;
    if (sourcing)
        pthread_join(source, NULL);
    errno = error;
    free(filler);
    free(buffer);
    *end = n;
    return aborted;
}

static ssize_t run_sink(stack_socket s)
{
    char *buffer = allocate(BUFFER);
    struct message m;
    unsigned long long bytes = 0, messages = 0;
    double begun = 0, cpu_before = 0;
    ssize_t n;
    while ((n = stack_receive(s, buffer, BUFFER, &m)) > 0) {
        if (begun == 0) {
            begun = now();
            cpu_before = cpu();
        }
        bytes += (unsigned long long)n;
        messages += m.whole;
    }
    double seconds = begun == 0 ? 0 : now() - begun;
    if (messages > 0)
        printf("received bytes=%llu messages=%llu seconds=%.3f mb_per_s=%.2f cpu=%.3f\n", bytes,
               messages, seconds, seconds > 0 ? (double)bytes / seconds / 1e6 : 0,
               cpu() - cpu_before);
    free(buffer);
    return n;
}

static void send_for_a_while(stack_socket s)
{
    unsigned char *bytes = allocate(options.size);
    pattern(bytes, options.size, 1, 0);
    unsigned long long messages = 0;
    double begun = now(), cpu_before = cpu();
    while (options.count ? messages < (unsigned long long)options.count
                         : (messages % 16 != 0 && options.size < 16384) ||
                               now() - begun < options.seconds) {
        struct message m = {.stream = (uint16_t)(messages % (unsigned)options.streams)};
        m.unordered = options.unordered;
        if (stack_send(s, bytes, options.size, &m) != 0)
            fail("send");
        messages++;
    }
    double seconds = now() - begun, sent = (double)messages * (double)options.size;
    printf("sent bytes=%.0f messages=%llu seconds=%.3f mb_per_s=%.2f cpu=%.3f\n", sent, messages,
           seconds, sent / seconds / 1e6, cpu() - cpu_before);
    free(bytes);
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static void send_pings(stack_socket s)
{
    long count = options.count ? options.count : 10000, warm_up = count / 10;
    unsigned char *bytes = allocate(options.size), *back = allocate(BUFFER);
    double *times = allocate(sizeof *times * (size_t)count);
    pattern(bytes, options.size, 1, 0);
    for (long i = -warm_up; i < count; i++) {
        struct message m = {0};
        double begun = now();
        if (stack_send(s, bytes, options.size, &m) != 0)
            fail("send");
        for (size_t got = 0; got < options.size;) {
            ssize_t n = stack_receive(s, back + got, options.size - got, &m);
            if (n <= 0)
                fail("receive");
            got += (size_t)n;
        }
        if (i >= 0)
            times[i] = (now() - begun) * 1e6;
        if (memcmp(bytes, back, options.size) != 0) {
            fprintf(stderr, "peer: other bytes came back\n");
            exit(1);
        }
    }
    qsort(times, (size_t)count, sizeof *times, compare);
    printf("pinged count=%ld size=%zu p50_us=%.1f p90_us=%.1f p99_us=%.1f max_us=%.1f\n", count,
           options.size, times[count / 2], times[count * 9 / 10], times[count * 99 / 100],
           times[count - 1]);
    free(times);
    free(back);
    free(bytes);
}

/* Serves one association. */
static void *serve(void *argument)
{
    struct association *a = argument;
    ssize_t end = 0;
    printf("up port=%u\n", a->port);
    int closed = 0;
    if (options.mode == ECHO) {
        closed = run_echo(a, &end);
    } else if (options.mode == PERF) {
        closed = run_perf(a, &end);
    } else {
        if (options.mode == SOURCE)
            send_for_a_while(a->socket);
        else if (options.mode == PING)
            send_pings(a->socket);
        if (options.mode != SINK)
            stack_shutdown(a->socket);
        end = run_sink(a->socket);
    }
    const char *how = closed ? "aborted" : end == 0 ? "shutdown" : strerror(errno);
    if (!closed)
        stack_close(a->socket);
    printf("end bytes=%llu hash=%016llx how=%s\n", a->bytes, (unsigned long long)a->hash, how);
    free(a);
    return NULL;
}

static void listen_and_serve(stack_socket s)
{
    pthread_t threads[64];
    int served = 0;
    if (stack_listen(s) != 0)
        fail("listen");
    listener = s;
    printf("ready port=%u\n", options.port);
    while (options.associations == 0 || served < options.associations) {
        struct association *a = new_association();
        a->socket = stack_accept(s, &a->port);
        if (!a->socket) {
            free(a);
            if (errno == EINTR || errno == ECONNABORTED)
                continue;
            fail("accept");
        }
        int on = 1;
        stack_option(a->socket, IPPROTO_SCTP, SCTP_NODELAY, &on, sizeof on);
        pthread_t *thread = &threads[options.associations ? served : 0];
        if (pthread_create(thread, NULL, serve, a) != 0)
            fail("thread");
        if (options.associations == 0)
            pthread_detach(*thread);
        served++;
    }
    for (int i = 0; i < served; i++)
        pthread_join(threads[i], NULL);
}

static void usage(void)
{
    fprintf(stderr,
            "peer listen|connect --mode echo|sink|source|ping|perf [--local A,..] [--remote A,..]\n"
            "  [--port N] [--local-port N] [--udp N] [--remote-udp N] [--streams N] [--buffer N]\n"
            "  [--mtu N] [--size N] [--count N] [--seconds S] [--unordered] [--associations N]\n"
            "  [--heartbeat MS] [--rto-min MS] [--rto-max MS] [--pmr N]\n"
            "  [--silent] [--interleave] [--secret TEXT]\n"
            "UDP port 0, the default, is native SCTP. Without --associations it serves forever.\n"
            "--local :: is all addresses of both IP versions.\n"
            "--silent does not answer packets of unknown associations; two native peers on one\n"
            "host need that.\n");
    exit(2);
}

static void read_options(int argc, char **argv)
{
    static const struct option known[] = {
        {"mode", 1, 0, 'm'},       {"local", 1, 0, 'l'},      {"remote", 1, 0, 'r'},
        {"port", 1, 0, 'p'},       {"local-port", 1, 0, 'P'}, {"udp", 1, 0, 'u'},
        {"remote-udp", 1, 0, 'U'}, {"streams", 1, 0, 's'},    {"buffer", 1, 0, 'b'},
        {"mtu", 1, 0, 'M'},        {"size", 1, 0, 'z'},       {"count", 1, 0, 'c'},
        {"seconds", 1, 0, 't'},    {"unordered", 0, 0, 'o'},  {"associations", 1, 0, 'a'},
        {"heartbeat", 1, 0, 'h'},  {"rto-min", 1, 0, 'i'},    {"rto-max", 1, 0, 'x'},
        {"pmr", 1, 0, 'R'},        {"silent", 0, 0, 'S'},
        {"interleave", 0, 0, 'I'}, {"secret", 1, 0, 'k'}, {0, 0, 0, 0}};
    if (argc < 2)
        usage();
    options.listens = strcmp(argv[1], "listen") == 0;
    if (!options.listens && strcmp(argv[1], "connect") != 0)
        usage();
    optind = 2;
    int found;
    while ((found = getopt_long(argc, argv, "", known, NULL)) != -1) {
        long number = optarg ? atol(optarg) : 0;
        switch (found) {
        case 'm': {
            int mode = 0;
            while (mode < MODES && strcmp(optarg, mode_names[mode]) != 0)
                mode++;
            if (mode == MODES)
                usage();
            options.mode = (enum mode)mode;
            break;
        }
        case 'l': options.local = optarg; break;
        case 'r': options.remote = optarg; break;
        case 'p': options.port = (uint16_t)number; break;
        case 'P': options.local_port = (uint16_t)number; break;
        case 'u': options.udp = (uint16_t)number; break;
        case 'U': options.remote_udp = (uint16_t)number; break;
        case 's': options.streams = (int)number; break;
        case 'b': options.buffer = (int)number; break;
        case 'M': options.mtu = (int)number; break;
        case 'z': options.size = (size_t)number; break;
        case 'c': options.count = number; break;
        case 't': options.seconds = atof(optarg); break;
        case 'o': options.unordered = 1; break;
        case 'S': options.silent = 1; break;
        case 'I': options.interleave = 1; break;
        case 'k': options.secret = optarg; break;
        case 'a': options.associations = (int)number; break;
        case 'h': options.heartbeat = (uint32_t)number; break;
        case 'i': options.rto_min = (uint32_t)number; break;
        case 'x': options.rto_max = (uint32_t)number; break;
        case 'R':
            options.path_max_retrans = (uint32_t)number;
            options.set_path_max_retrans = 1;
            break;
        default: usage();
        }
    }
    if (options.size == 0 || options.size > BUFFER || options.streams < 1 ||
        options.streams > 65535 || options.associations > 64 ||
        (!options.listens && !options.remote))
        usage();
}

int main(int argc, char **argv)
{
    read_options(argc, argv);
    setvbuf(stdout, NULL, _IOLBF, 0);
    stack_start(options.udp, options.silent);
    int family = family_of(options.listens || is_everywhere() ? options.local : options.remote);
    stack_socket s = stack_open(family);
    if (!s)
        fail("socket");
    set_options(s, family);
    struct addresses local, remote;
    uint16_t local_port = options.listens ? options.port : options.local_port;
    read_addresses(options.local, family, local_port, &local);
    if ((options.listens || options.local || local_port) && stack_bind(s, &local) != 0)
        fail("bind");
    if (options.listens) {
        listen_and_serve(s);
        stack_close(s);
    } else {
        struct association *a = new_association();
        read_addresses(options.remote, family, options.port, &remote);
        if (stack_connect(s, &remote) != 0)
            fail("connect");
        a->socket = s;
        a->port = options.port;
        serve(a);
    }
    stack_finish();
    return 0;
}
