/* Random calls with random arguments, on both ends of associations in one process:
 *
 *     fuzz SEED CALLS THREADS
 *
 * No argument may make the library crash, hang, read past a buffer or leak descriptors. Each buffer
 * ends at an unreadable page. All calls that might wait have a time limit. */
#define _GNU_SOURCE
#include "ends.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

enum { SOCKETS = 24, AREA = 1 << 19, PORTS = 4 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int sockets[SOCKETS];
static int udp;
static __thread uint64_t state;

static uint64_t next(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state * 0x2545f4914f6cdd1dULL >> 16;
}

static size_t below(size_t bound)
{
    return bound == 0 ? 0 : next() % bound;
}

static int one_in(size_t chances)
{
    return below(chances) == 0;
}

/* A buffer of this length with random content, in front of an inaccessible page. */
static void *buffer(int which, size_t size)
{
    static __thread char *areas[3];
    if (areas[which] == NULL) {
        size_t page = (size_t)sysconf(_SC_PAGESIZE);
        char *area = mmap(NULL, AREA + page, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        CHECK(area != MAP_FAILED && mprotect(area + AREA, page, PROT_NONE) == 0);
        areas[which] = area;
    }
    unsigned char *start = (unsigned char *)areas[which] + AREA - size;
    const size_t kind = below(4);
    for (size_t i = 0; i < size && i < 512; i++)
        start[i] = kind == 0 ? 0 : kind == 1 ? (unsigned char)next() : kind == 2 ? 0xff
                   : one_in(4) ? (unsigned char)below(8) : 0;
    return start;
}

static int any(void)
{
    if (one_in(50)) {
        const int others[] = {-1, 0, 2, INT32_MAX, INT32_MIN, 99999};
        return others[below(6)];
    }
    CHECK(pthread_mutex_lock(&lock) == 0);
    int fd = sockets[below(SOCKETS)];
    CHECK(pthread_mutex_unlock(&lock) == 0);
    return fd;
}

/* Keeps a socket and closes the one that it replaces. */
static void keep(int fd)
{
    if (fd < 0)
        return;
    CHECK(pthread_mutex_lock(&lock) == 0);
    size_t at = below(SOCKETS);
    int old = sockets[at];
    sockets[at] = fd;
    CHECK(pthread_mutex_unlock(&lock) == 0);
    if (old >= 0)
        anabranch_close(old);
}

static void forget(int fd)
{
    CHECK(pthread_mutex_lock(&lock) == 0);
    for (size_t i = 0; i < SOCKETS; i++)
        sockets[i] = sockets[i] == fd ? -1 : sockets[i];
    CHECK(pthread_mutex_unlock(&lock) == 0);
}

static void no_waiting(int fd)
{
    if (fd > 2)
        fcntl(fd, F_SETFL, O_NONBLOCK);
}

/* Gives up on silent peers soon, so that the end of the test does not wait for them. */
static void impatient(int fd)
{
    const char *const options = "rto_initial=100ms;rto_min=100ms;rto_max=500ms;"
                                "max_init_retransmits=2;association_max_retrans=4";
    if (fd >= 0)
        CHECK(anabranch_set_options(fd, options, NULL, 0) == 0);
}

static unsigned port(void)
{
    const unsigned odd[] = {0, 65535, 9};
    return one_in(6) ? odd[below(3)] : 5000 + (unsigned)below(PORTS);
}

static struct sockaddr_in loopback(void)
{
    struct sockaddr_in address = at("127.0.0.1", port());
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK + (uint32_t)below(3));
    return address;
}

/* A random address in its own buffer, and its length. */
static struct sockaddr *address(socklen_t *length)
{
    struct sockaddr_storage all;
    memset(&all, 0, sizeof all);
    struct sockaddr_in v4 = loopback();
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = v4.sin_port};
    const char *const texts[] = {"::1", "::ffff:127.0.0.1", "fe80::1", "::"};
    *length = sizeof v4;
    memcpy(&all, &v4, sizeof v4);
    if (one_in(3)) {
        CHECK(inet_pton(AF_INET6, texts[below(4)], &v6.sin6_addr) == 1);
        v6.sin6_scope_id = (uint32_t)below(4);
        *length = sizeof v6;
        memcpy(&all, &v6, sizeof v6);
    }
    if (one_in(12))
        *length = (socklen_t)below(sizeof all);
    void *copy = buffer(0, *length);
    if (!one_in(12))
        memcpy(copy, &all, *length);
    /* Longer than any address, or negative. */
    if (one_in(40))
        *length = sizeof all + 1 + (socklen_t)(next() & 0xffff0000);
    return one_in(40) ? NULL : copy;
}

/* A packed list of random addresses, and their number. */
static struct sockaddr *packed(int *count)
{
    static __thread struct sockaddr_in list[4];
    for (size_t i = 0; i < 4; i++)
        list[i] = loopback();
    const int odd[] = {0, -1, INT32_MIN, 1};
    *count = one_in(8) ? odd[below(4)] : 1 + (int)below(4);
    return SA(list);
}

static int flags(void)
{
    const int known[] = {MSG_PEEK, MSG_TRUNC, MSG_WAITALL, MSG_OOB, MSG_ERRQUEUE, MSG_EOR};
    int chosen = MSG_DONTWAIT;
    for (size_t i = 0; i < 6; i++)
        chosen |= one_in(8) ? known[i] : 0;
    return one_in(20) ? (int)next() | MSG_DONTWAIT : chosen;
}

static int option_name(void)
{
    const int ours[] = {0x30, 0x4100, 0x4101, 0x4102, 0x4103};
    return one_in(5) ? ours[below(5)] : one_in(12) ? (int)next() : (int)below(134);
}

/* The id of an association of the socket, or a random number. */
static sctp_assoc_t number(int fd)
{
    struct {
        uint32_t count;
        sctp_assoc_t ids[32];
    } all = {0};
    socklen_t length = sizeof all;
    if (one_in(2) &&
        anabranch_getsockopt(fd, IPPROTO_SCTP, SCTP_GET_ASSOC_ID_LIST, &all, &length) == 0 &&
        all.count > 0 && all.count <= 32)
        return all.ids[below(all.count)];
    return one_in(5) ? (sctp_assoc_t)next() : (sctp_assoc_t)below(40);
}

/* A working socket: it listens, or is connected. */
static void good(int listens)
{
    int type = one_in(2) ? SOCK_SEQPACKET : SOCK_STREAM, on = 1;
    int fd = anabranch_socket(one_in(6) ? AF_INET6 : AF_INET, type, IPPROTO_SCTP);
    CHECK(fd >= 0);
    impatient(fd);
    struct timeval limit = {.tv_usec = 200000};
    option(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    option(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    option(fd, IPPROTO_SCTP, SCTP_RECVRCVINFO, &on, sizeof on);
    option(fd, IPPROTO_SCTP, SCTP_RECVNXTINFO, &on, sizeof on);
    if (one_in(2)) {
        struct sctp_event_subscribe all;
        memset(&all, 1, sizeof all);
        option(fd, IPPROTO_SCTP, SCTP_EVENTS, &all, sizeof all);
    }
    struct sockaddr_in there = at("127.0.0.1", 5000 + (unsigned)below(PORTS));
    if (listens) {
        option(fd, IPPROTO_SCTP, ANABRANCH_LOCAL_UDP_PORT, &udp, sizeof udp);
        anabranch_bind(fd, SA(there), sizeof there);
        anabranch_listen(fd, 1 + (int)below(10));
    } else {
        struct sctp_udpencaps remote = {.sue_port = htons((uint16_t)udp)};
        option(fd, IPPROTO_SCTP, SCTP_REMOTE_UDP_ENCAPS_PORT, &remote, sizeof remote);
        anabranch_connect(fd, SA(there), sizeof there);
    }
    no_waiting(fd);
    keep(fd);
}

static void setting_up(int fd)
{
    const int domains[] = {AF_INET, AF_INET6, AF_UNIX, -1}, protocols[] = {0, IPPROTO_SCTP, 6};
    const int backlogs[] = {-1, 0, 1, 5, INT32_MAX};
    socklen_t length;
    struct sockaddr *name;
    int count, made = -1;
    sctp_assoc_t id;
    no_waiting(fd);
    switch (below(9)) {
    case 0:
        made = anabranch_socket(domains[below(4)], (int)below(16) | SOCK_NONBLOCK,
                                protocols[below(3)]);
        impatient(made);
        break;
    case 1:
        name = address(&length);
        anabranch_bind(fd, name, length);
        break;
    case 2:
        anabranch_listen(fd, backlogs[below(5)]);
        break;
    case 3:
        length = (socklen_t)below(200);
        name = buffer(0, length);
        if (one_in(12))
            length = (socklen_t)-1;
        made = anabranch_accept4(fd, one_in(4) ? NULL : name, &length,
                                 one_in(4) ? (int)next() : SOCK_NONBLOCK);
        break;
    case 4:
        name = address(&length);
        anabranch_connect(fd, name, length);
        break;
    case 5:
        name = packed(&count);
        anabranch_sctp_connectx(fd, one_in(40) ? NULL : name, count, one_in(2) ? NULL : &id);
        break;
    case 6:
        name = packed(&count);
        anabranch_sctp_bindx(fd, name, count, 1 + (int)below(3));
        break;
    case 7:
        made = anabranch_sctp_peeloff_flags(fd, number(fd),
                                            one_in(4) ? (unsigned)next() : SOCK_NONBLOCK);
        break;
    default:
        anabranch_shutdown(fd, (int)below(5) - 1);
    }
    no_waiting(made);
    keep(made);
}

/* Buffers, some of them null and some with impossible lengths. */
static int vectors(struct iovec *list)
{
    int count = one_in(16) ? 1030 : (int)below(6);
    for (int i = 0; i < count; i++) {
        size_t size = below(400);
        list[i] = (struct iovec){one_in(100) ? NULL : buffer(1, size), size};
        if (one_in(200))
            list[i].iov_len = (size_t)next() << 32;
    }
    /* The library cannot detect a false length; use it with null only. */
    for (int i = 0; i < count; i++)
        list[i].iov_base = list[i].iov_len > AREA ? NULL : list[i].iov_base;
    return count;
}

/* Ancillary data with random lengths. */
static void control(struct msghdr *message)
{
    const size_t sizes[] = {16, 32, 4, 8, 0, 1, 20}, size = below(200);
    unsigned char *start = buffer(2, size);
    size_t used = 0;
    while (size - used >= sizeof(struct cmsghdr) && !one_in(3)) {
        struct cmsghdr item = {.cmsg_level = one_in(8) ? SOL_SOCKET : IPPROTO_SCTP};
        item.cmsg_type = (int)below(9);
        item.cmsg_len = CMSG_LEN(sizes[below(7)]);
        if (one_in(3))
            item.cmsg_len = one_in(2) ? (size_t)0 - below(80) : below(300);
        memcpy(start + used, &item, sizeof item);
        used += CMSG_ALIGN(item.cmsg_len) > size - used ? size - used : CMSG_ALIGN(item.cmsg_len);
        used += used == 0;
    }
    message->msg_control = one_in(30) ? NULL : start;
    message->msg_controllen = one_in(60) ? (size_t)next() << 32 : size;
}

static void sending(int fd)
{
    struct iovec list[1030];
    struct msghdr message = {.msg_iov = list};
    socklen_t length;
    int count;
    struct sctp_sndrcvinfo info = {.sinfo_stream = (uint16_t)below(12)};
    struct sctp_sendv_spa spa;
    size_t size = one_in(8) ? below(AREA) : below(2000);
    struct sockaddr *name = address(&length);
    no_waiting(fd);
    if (one_in(4))
        memcpy(&info, buffer(2, sizeof info), sizeof info);
    switch (below(6)) {
    case 0:
        anabranch_send(fd, one_in(40) ? NULL : buffer(1, size), size, flags());
        break;
    case 1:
        anabranch_sendto(fd, buffer(1, size), size, flags(), name, length);
        break;
    case 2:
        anabranch_sctp_sendmsg(fd, buffer(1, size), size, one_in(2) ? NULL : name, length, 7,
                               one_in(3) ? 1U << below(18) : 0, (uint16_t)below(12),
                               (uint32_t)below(100), 9);
        break;
    case 3:
        message.msg_iovlen = (size_t)vectors(list);
        if (one_in(2))
            message.msg_name = name, message.msg_namelen = length;
        /* This call cuts a name length that is too large to that of the largest address. */
        if (message.msg_namelen > sizeof(struct sockaddr_storage))
            message.msg_name = buffer(0, sizeof(struct sockaddr_storage));
        if (!one_in(3))
            control(&message);
        anabranch_sendmsg(fd, one_in(40) ? NULL : &message, flags());
        break;
    case 4:
        anabranch_sctp_send(fd, buffer(1, size), size, one_in(5) ? NULL : &info, flags());
        break;
    default:
        count = vectors(list);
        memcpy(&spa, buffer(2, sizeof spa), sizeof spa);
        name = packed(&(int){0});
        anabranch_sctp_sendv(fd, list, count, one_in(2) ? NULL : name, 1 + (int)below(4), &spa,
                             one_in(3) ? (socklen_t)below(sizeof spa) : sizeof spa,
                             (unsigned)below(6), flags());
    }
}

static void receiving(int fd)
{
    struct iovec list[1030];
    struct sctp_sndrcvinfo info;
    int chosen = flags();
    unsigned type = (unsigned)next();
    socklen_t length = (socklen_t)below(140), room = (socklen_t)below(100);
    void *name = buffer(0, length), *about = buffer(2, room);
    size_t size = one_in(4) ? below(AREA) : below(3000);
    if (one_in(20))
        length = (socklen_t)-1;
    no_waiting(fd);
    switch (below(4)) {
    case 0:
        anabranch_recvfrom(fd, one_in(40) ? NULL : buffer(1, size), size, chosen,
                           one_in(4) ? NULL : name, one_in(4) ? NULL : &length);
        break;
    case 1: {
        struct msghdr message = {.msg_iov = list, .msg_iovlen = (size_t)vectors(list)};
        message.msg_name = one_in(2) ? NULL : name;
        message.msg_namelen = length;
        message.msg_control = one_in(3) ? NULL : about;
        message.msg_controllen = room;
        anabranch_recvmsg(fd, &message, chosen);
        break;
    }
    case 2:
        anabranch_sctp_recvmsg(fd, buffer(1, size), size, name, &length,
                               one_in(2) ? NULL : &info, one_in(3) ? NULL : &chosen);
        break;
    default:
        anabranch_sctp_recvv(fd, list, vectors(list), name, &length, one_in(4) ? NULL : about,
                             one_in(4) ? NULL : &room, one_in(4) ? NULL : &type, &chosen);
    }
}

static void asking(int fd)
{
    const int levels[] = {IPPROTO_SCTP, IPPROTO_SCTP, SOL_SOCKET, IPPROTO_IP, IPPROTO_IPV6, 7};
    socklen_t length = (socklen_t)below(one_in(3) ? 400 : 64);
    char *value = buffer(0, length);
    struct sockaddr *list = NULL, *name;
    int level = levels[below(6)];
    sctp_assoc_t id = number(fd);
    if (one_in(3) && length >= sizeof id)
        memcpy(value, &id, sizeof id);
    if (one_in(40))
        length = (socklen_t)-1;
    switch (below(7)) {
    case 0:
        anabranch_setsockopt(fd, level, option_name(), one_in(40) ? NULL : value, length);
        break;
    case 1:
        anabranch_getsockopt(fd, level, option_name(), one_in(40) ? NULL : value, &length);
        break;
    case 2:
        anabranch_sctp_opt_info(fd, id, option_name(), value, &length);
        break;
    case 3:
        if ((one_in(2) ? anabranch_sctp_getpaddrs : anabranch_sctp_getladdrs)(fd, id, &list) > 0)
            anabranch_sctp_freepaddrs(list);
        break;
    case 4:
        (one_in(2) ? anabranch_getsockname : anabranch_getpeername)(fd, (struct sockaddr *)value,
                                                                    &length);
        break;
    case 5:
        name = address(&length);
        anabranch_sctp_getassocid(fd, name, length);
        break;
    default:
        anabranch_ioctl(fd, one_in(2) ? FIONREAD : (unsigned long)next(), one_in(9) ? NULL : &level);
    }
}

static void closing(int fd)
{
    struct linger at_once = {.l_onoff = 1};
    if (fd <= 2 || !one_in(4))
        return;
    if (one_in(4))
        option(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    forget(fd);
    anabranch_close(fd);
}

struct work {
    uint64_t seed;
    long calls;
};

static void *work(void *argument)
{
    const struct work *mine = argument;
    static void (*const kinds[])(int) = {setting_up, sending, sending,  receiving,
                                         receiving,  asking,  asking,   closing};
    state = mine->seed * 0x9e3779b97f4a7c15ULL + 1;
    for (long i = 0; i < mine->calls; i++) {
        if (one_in(30))
            good(one_in(3));
        else
            kinds[below(8)](any());
    }
    return NULL;
}

static int descriptors(void)
{
    int count = 0;
    DIR *directory = opendir("/proc/self/fd");
    CHECK(directory != NULL);
    while (readdir(directory) != NULL)
        count++;
    closedir(directory);
    return count;
}

int main(int count, char **arguments)
{
    enum { MOST = 16 };
    CHECK(count == 4);
    uint64_t seed = strtoull(arguments[1], NULL, 10);
    long calls = strtol(arguments[2], NULL, 10), threads = strtol(arguments[3], NULL, 10);
    CHECK(calls > 0 && threads > 0 && threads <= MOST);
    /* Fail instead of hanging. */
    alarm(600);
    for (size_t i = 0; i < SOCKETS; i++)
        sockets[i] = -1;
    /* Finds a free UDP port, and lets the library open its own descriptors before they are counted. */
    struct server server = serve(SOCK_STREAM, 1);
    udp = server.udp;
    CHECK(anabranch_close(server.fd) == 0 && anabranch_finish(20000) == 0);
    const int before = descriptors();
    pthread_t running[MOST];
    struct work shares[MOST];
    for (long i = 0; i < threads; i++) {
        shares[i] = (struct work){seed * MOST + (uint64_t)i, calls};
        CHECK(pthread_create(&running[i], NULL, work, &shares[i]) == 0);
    }
    for (long i = 0; i < threads; i++)
        CHECK(pthread_join(running[i], NULL) == 0);
    /* Abort what is left: some peers may be gone. */
    struct linger at_once = {.l_onoff = 1};
    for (size_t i = 0; i < SOCKETS; i++) {
        if (sockets[i] >= 0) {
            option(sockets[i], SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
            CHECK(anabranch_close(sockets[i]) == 0);
        }
    }
    CHECK(anabranch_finish(20000) == 0);
    CHECK(descriptors() == before);
    printf("passed\n");
    return 0;
}
