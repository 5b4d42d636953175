/* Acts as packetdrill with a script: makes calls, injects packets and checks outgoing packets.
 * packetdrill 4|6 */
#include "check.h"
#include "packetdrill.h"

#include <anabranch.h>
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

enum { DATA, INIT, INIT_ACK, SACK, HEARTBEAT, HEARTBEAT_ACK, ABORT, SHUTDOWN, SHUTDOWN_ACK };
enum { COOKIE_ECHO = 10, COOKIE_ACK = 11, SHUTDOWN_COMPLETE = 14 };

#define PORT 5000
#define PEER_PORT 6000
#define PEER_TAG 0x11223344u
#define PEER_TSN 1000u
#define RWND 65536u

static struct packetdrill_interface ifc;
static int v6;
/* The values that the stack chose in its INIT or INIT ACK. */
static uint32_t tag, tsn;
static uint16_t port;

/* The last outgoing packet, starting at its first chunk. */
static unsigned char out[4096];
static size_t out_length;
static long long out_time;

static uint32_t crc32c(const unsigned char *data, size_t length)
{
    uint32_t crc = 0xffffffff;
    for (size_t i = 0; i < length; i++) {
        crc ^= data[i];
        for (int bit = 0; bit < 8; bit++)
            crc = (crc >> 1) ^ (crc & 1 ? 0x82f63b78u : 0);
    }
    return ~crc;
}

static void put16(unsigned char *at, unsigned value)
{
    at[0] = (unsigned char)(value >> 8);
    at[1] = (unsigned char)value;
}

static void put32(unsigned char *at, uint32_t value)
{
    put16(at, value >> 16);
    put16(at + 2, value & 0xffff);
}

static unsigned get16(const unsigned char *at) { return (unsigned)at[0] << 8 | at[1]; }
static uint32_t get32(const unsigned char *at) { return get16(at) << 16 | get16(at + 2); }

/* Injects a packet of the peer with one chunk and this verification tag. */
static void inject(uint32_t with_tag, int type, int flags, const void *value, size_t length)
{
    unsigned char packet[4096] = {0};
    size_t ip = v6 ? 40 : 20, padded = (length + 3) & ~(size_t)3, sctp = 12 + 4 + padded;
    if (v6) {
        packet[0] = 0x60;
        put16(packet + 4, (unsigned)sctp);
        packet[6] = 132;
        packet[7] = 64;
        CHECK(inet_pton(AF_INET6, "2001:db8::1", packet + 8) == 1);
        CHECK(inet_pton(AF_INET6, "fd3d:fa7b:d17d::1", packet + 24) == 1);
    } else {
        packet[0] = 0x45;
        put16(packet + 2, (unsigned)(ip + sctp));
        packet[8] = 64;
        packet[9] = 132;
        CHECK(inet_pton(AF_INET, "192.0.2.1", packet + 12) == 1);
        CHECK(inet_pton(AF_INET, "192.168.0.1", packet + 16) == 1);
    }
    unsigned char *header = packet + ip;
    put16(header, PEER_PORT);
    put16(header + 2, port);
    put32(header + 4, with_tag);
    header[12] = (unsigned char)type;
    header[13] = (unsigned char)flags;
    put16(header + 14, (unsigned)(4 + length));
    if (length > 0)
        memcpy(header + 16, value, length);
    uint32_t crc = crc32c(header, sctp);
    for (int i = 0; i < 4; i++)
        header[8 + i] = (unsigned char)(crc >> (8 * i));
    CHECK(ifc.netdev_send(ifc.userdata, packet, ip + sctp) == 0);
}

/* Takes the next outgoing packet. Its first chunk must have this type. */
static const unsigned char *expect(int type)
{
    unsigned char packet[4096];
    size_t length = sizeof packet, ip = v6 ? 40 : 20;
    CHECK(ifc.netdev_receive(ifc.userdata, packet, &length, &out_time) == 0);
    CHECK(length > ip + 16 - 1);
    CHECK(packet[0] >> 4 == (v6 ? 6 : 4) && packet[v6 ? 6 : 9] == 132);
    unsigned char *header = packet + ip;
    uint32_t crc = 0;
    for (int i = 0; i < 4; i++)
        crc |= (uint32_t)header[8 + i] << (8 * i);
    memset(header + 8, 0, 4);
    CHECK(crc == crc32c(header, length - ip));
    CHECK(get16(header + 2) == PEER_PORT);
    if (type == INIT)
        port = (uint16_t)get16(header);
    CHECK(get16(header) == port);
    CHECK(get32(header + 4) == (type == INIT ? 0 : PEER_TAG));
    out_length = length - ip - 12;
    memcpy(out, header + 12, out_length);
    if (out[0] != type) {
        fprintf(stderr, "got chunk %d instead of %d\n", out[0], type);
        exit(1);
    }
    return out;
}

static struct sockaddr_storage address(const char *text, unsigned of_port, socklen_t *length)
{
    struct sockaddr_storage storage = {0};
    if (v6) {
        struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)&storage;
        in6->sin6_family = AF_INET6;
        in6->sin6_port = htons((uint16_t)of_port);
        CHECK(inet_pton(AF_INET6, text, &in6->sin6_addr) == 1);
        *length = sizeof *in6;
    } else {
        struct sockaddr_in *in = (struct sockaddr_in *)&storage;
        in->sin_family = AF_INET;
        in->sin_port = htons((uint16_t)of_port);
        CHECK(inet_pton(AF_INET, text, &in->sin_addr) == 1);
        *length = sizeof *in;
    }
    return storage;
}

static int open_socket(void)
{
    int fd = ifc.socket(ifc.userdata, v6 ? AF_INET6 : AF_INET, SOCK_STREAM, IPPROTO_SCTP);
    CHECK(fd >= 0);
    return fd;
}

/* The value of the peer's INIT or INIT ACK. */
static void initiation(unsigned char *value)
{
    put32(value, PEER_TAG);
    put32(value + 4, RWND);
    put16(value + 8, 10);
    put16(value + 10, 10);
    put32(value + 12, PEER_TSN);
}

/* The stack connects. */
static int connect_out(void)
{
    socklen_t length;
    struct sockaddr_storage peer = address(v6 ? "2001:db8::1" : "192.0.2.1", PEER_PORT, &length);
    int fd = open_socket();
    /* Descriptors are the system's, so packetdrill calls the host's fcntl and poll. */
    CHECK(!ifc.fcntl && !ifc.poll);
    CHECK(fcntl(fd, F_SETFL, O_NONBLOCK) == 0);
    struct sctp_initmsg init = {.sinit_num_ostreams = 3, .sinit_max_instreams = 4};
    CHECK(ifc.setsockopt(ifc.userdata, fd, IPPROTO_SCTP, SCTP_INITMSG, &init, sizeof init) == 0);
    CHECK(ifc.connect(ifc.userdata, fd, (struct sockaddr *)&peer, length) == -1);
    CHECK(errno == EINPROGRESS);
    const unsigned char *chunk = expect(INIT);
    tag = get32(chunk + 4);
    tsn = get32(chunk + 16);
    CHECK(get16(chunk + 12) == 3 && get16(chunk + 14) == 4);
    unsigned char value[24] = {0};
    initiation(value);
    put16(value + 16, 7); /* State Cookie */
    put16(value + 18, 8);
    memcpy(value + 20, "abcd", 4);
    inject(tag, INIT_ACK, 0, value, sizeof value);
    CHECK(memcmp(expect(COOKIE_ECHO) + 4, "abcd", 4) == 0);
    struct pollfd waiting = {fd, POLLOUT, 0};
    CHECK(poll(&waiting, 1, 0) == 0);
    inject(tag, COOKIE_ACK, 0, NULL, 0);
    CHECK(poll(&waiting, 1, 0) == 1 && waiting.revents == POLLOUT);
    int error = -1;
    length = sizeof error;
    CHECK(ifc.getsockopt(ifc.userdata, fd, SOL_SOCKET, SO_ERROR, &error, &length) == 0);
    CHECK(error == 0);
    struct sctp_status status = {0};
    length = sizeof status;
    CHECK(ifc.getsockopt(ifc.userdata, fd, IPPROTO_SCTP, SCTP_STATUS, &status, &length) == 0);
    CHECK(status.sstat_state == SCTP_ESTABLISHED && status.sstat_rwnd == RWND);
    CHECK(status.sstat_outstrms == 3 && status.sstat_instrms == 4);
    return fd;
}

/* The peer connects to a listening socket. */
static int connect_in(int listener)
{
    unsigned char value[16], cookie[2048];
    port = PORT;
    initiation(value);
    inject(0, INIT, 0, value, sizeof value);
    const unsigned char *chunk = expect(INIT_ACK);
    tag = get32(chunk + 4);
    tsn = get32(chunk + 16);
    size_t at = 20, end = get16(chunk + 2), length = 0;
    while (at + 4 <= end) {
        size_t size = get16(chunk + at + 2);
        CHECK(size >= 4);
        if (get16(chunk + at) == 7) {
            length = size - 4;
            memcpy(cookie, chunk + at + 4, length);
        }
        at += (size + 3) & ~(size_t)3;
    }
    CHECK(length > 0);
    inject(tag, COOKIE_ECHO, 0, cookie, length);
    expect(COOKIE_ACK);
    struct sockaddr_storage from;
    socklen_t size = sizeof from;
    int fd = ifc.accept(ifc.userdata, listener, (struct sockaddr *)&from, &size);
    CHECK(fd >= 0 && from.ss_family == (v6 ? AF_INET6 : AF_INET));
    CHECK(ntohs(((struct sockaddr_in *)&from)->sin_port) == PEER_PORT);
    return fd;
}

static void inject_data(uint32_t number, uint16_t ssn, const char *text)
{
    unsigned char value[128];
    put32(value, number);
    put16(value + 4, 0);
    put16(value + 6, ssn);
    put32(value + 8, 42);
    memcpy(value + 12, text, strlen(text));
    inject(tag, DATA, 3, value, 12 + strlen(text));
}

static void inject_sack(uint32_t number)
{
    unsigned char value[12] = {0};
    put32(value, number);
    put32(value + 4, RWND);
    inject(tag, SACK, 0, value, sizeof value);
}

struct reading {
    int fd;
    char buffer[32];
    ssize_t count;
    int error;
};

static void *read_blocking(void *argument)
{
    struct reading *reading = argument;
    reading->count =
        ifc.read(ifc.userdata, reading->fd, reading->buffer, sizeof reading->buffer);
    reading->error = errno;
    return NULL;
}

/* The stack connects: data both ways, and a shutdown that the stack begins. */
static void active(void)
{
    int fd = connect_out();
    char buffer[32];
    CHECK(ifc.read(ifc.userdata, fd, buffer, sizeof buffer) == -1 && errno == EAGAIN);

    CHECK(ifc.write(ifc.userdata, fd, "hello", 5) == 5);
    struct timeval before;
    gettimeofday(&before, NULL);
    const unsigned char *chunk = expect(DATA);
    long long now = before.tv_sec * 1000000LL + before.tv_usec;
    CHECK(out_time <= now && now - out_time < 10000000);
    CHECK(get32(chunk + 4) == tsn && memcmp(chunk + 16, "hello", 5) == 0);
    inject_sack(tsn);

    /* The first one is acknowledged immediately, the second one when the timer expires. */
    inject_data(PEER_TSN, 0, "first");
    CHECK(get32(expect(SACK) + 4) == PEER_TSN);
    long long first = out_time;
    inject_data(PEER_TSN + 1, 1, "second");
    CHECK(get32(expect(SACK) + 4) == PEER_TSN + 1);
    CHECK(out_time - first > 100000);
    struct sctp_sndrcvinfo info = {0};
    struct sctp_event event = {.se_type = SCTP_DATA_IO_EVENT, .se_on = 1};
    CHECK(ifc.setsockopt(ifc.userdata, fd, IPPROTO_SCTP, SCTP_EVENT, &event, sizeof event) == 0);
    int flags = 0;
    CHECK(ifc.sctp_recvmsg(ifc.userdata, fd, buffer, sizeof buffer, NULL, NULL, &info, &flags) == 5);
    CHECK(memcmp(buffer, "first", 5) == 0 && flags == MSG_EOR && info.sinfo_ppid == htonl(42));
    CHECK(ifc.read(ifc.userdata, fd, buffer, sizeof buffer) == 6);

    CHECK(ifc.sctp_sendmsg(ifc.userdata, fd, "x", 1, NULL, 0, htonl(9), SCTP_UNORDERED, 2, 0, 0) ==
          1);
    chunk = expect(DATA);
    CHECK(chunk[1] == 7 && get16(chunk + 8) == 2 && get32(chunk + 12) == 9);
    inject_sack(tsn + 1);

    CHECK(ifc.shutdown(ifc.userdata, fd, SHUT_WR) == 0);
    CHECK(get32(expect(SHUTDOWN) + 4) == PEER_TSN + 1);
    inject(tag, SHUTDOWN_ACK, 0, NULL, 0);
    expect(SHUTDOWN_COMPLETE);
    CHECK(ifc.read(ifc.userdata, fd, buffer, sizeof buffer) == 0);
    CHECK(ifc.close(ifc.userdata, fd) == 0);
    CHECK(ifc.close(ifc.userdata, fd) == -1 && errno == EBADF);
}

/* The peer connects: a blocking call, a shutdown that the peer begins, and aborts. */
static void passive(void)
{
    socklen_t length;
    struct sockaddr_storage local = address(v6 ? "::" : "0.0.0.0", PORT, &length);
    int listener = open_socket();
    CHECK(ifc.bind(ifc.userdata, listener, (struct sockaddr *)&local, length) == 0);
    CHECK(ifc.listen(ifc.userdata, listener, 1) == 0);

    int fd = connect_in(listener);
    struct reading reading = {.fd = fd};
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, read_blocking, &reading) == 0);
    inject_data(PEER_TSN, 0, "ping");
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(reading.count == 4 && memcmp(reading.buffer, "ping", 4) == 0);
    CHECK(get32(expect(SACK) + 4) == PEER_TSN);
    unsigned char cumulative[4];
    put32(cumulative, tsn - 1);
    inject(tag, SHUTDOWN, 0, cumulative, sizeof cumulative);
    expect(SHUTDOWN_ACK);
    inject(tag, SHUTDOWN_COMPLETE, 0, NULL, 0);
    CHECK(ifc.read(ifc.userdata, fd, reading.buffer, sizeof reading.buffer) == 0);
    CHECK(ifc.write(ifc.userdata, fd, "x", 1) == -1 && errno == EPIPE);
    CHECK(ifc.close(ifc.userdata, fd) == 0);

    /* The peer aborts while a thread reads. */
    fd = connect_in(listener);
    reading = (struct reading){.fd = fd};
    CHECK(pthread_create(&thread, NULL, read_blocking, &reading) == 0);
    inject(tag, ABORT, 0, NULL, 0);
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(reading.count == -1 && reading.error == ECONNRESET);
    CHECK(ifc.close(ifc.userdata, fd) == 0);

    /* The stack aborts. */
    fd = connect_in(listener);
    struct linger linger = {.l_onoff = 1, .l_linger = 0};
    CHECK(ifc.setsockopt(ifc.userdata, fd, SOL_SOCKET, SO_LINGER, &linger, sizeof linger) == 0);
    CHECK(ifc.close(ifc.userdata, fd) == 0);
    expect(ABORT);

    CHECK(ifc.close(ifc.userdata, listener) == 0);
    unsigned char value[16];
    initiation(value);
    inject(0, INIT, 0, value, sizeof value);
    expect(ABORT);
}

int main(int argc, char **argv)
{
    /* Fail instead of hanging. */
    alarm(120);
    CHECK(argc == 2);
    v6 = strcmp(argv[1], "6") == 0;
    packetdrill_interface_init(
        v6 ? "local_ip=fd3d:fa7b:d17d::1,remote_ip=2001:db8::1,gateway_ip=fd3d:fa7b:d17d::2,mtu=1500,"
           : "local_ip=192.168.0.1,remote_ip=192.0.2.1/24,gateway_ip=192.168.0.2,mtu=1500,",
        &ifc);
    CHECK(ifc.userdata != NULL);
    active();
    passive();
    ifc.free(ifc.userdata);
    printf("passed\n");
    return 0;
}
