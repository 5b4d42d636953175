/* Behaviour of kernels that programs may rely on: odd lengths, ports, error numbers, backlogs. Both ends
 * in one process. */
#define _GNU_SOURCE
#include "ends.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

/* Memory between two inaccessible pages. */
static unsigned char *edge(size_t size)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    unsigned char *pages =
        mmap(NULL, 3 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(pages != MAP_FAILED && mprotect(pages + page, page, PROT_READ | PROT_WRITE) == 0);
    return pages + 2 * page - size;
}

/* No length in ancillary data makes the library read outside of it or loop forever. */
static void control_lengths(void)
{
    struct server server = serve(SOCK_STREAM, 1);
    int near = client(SOCK_STREAM, &server);
    connect_to(near, &server);
    struct iovec piece = {"x", 1};
    struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1};
    const size_t space = CMSG_SPACE(sizeof(struct sctp_sndinfo));
    const int levels[] = {IPPROTO_SCTP, SOL_SOCKET};
    const size_t header = sizeof(struct cmsghdr);
    for (size_t shift = 0; shift < 8; shift++) {
        unsigned char *control = edge(space + 8);
        struct cmsghdr item = {.cmsg_type = SCTP_SNDINFO};
        message.msg_control = control + shift;
        message.msg_controllen = space;
        for (int i = 0; i < 2; i++) {
            item.cmsg_level = levels[i];
            for (size_t bit = 0; bit < 8 * sizeof(size_t) + 8; bit++) {
                /* Powers of two, negative numbers, and the ends of headers and data. */
                const size_t odd[] = {0, (size_t)-1, (size_t)-7, (size_t)-8, (size_t)-64,
                                      header - 1, space + 1, SIZE_MAX / 2};
                item.cmsg_len = bit < 8 ? odd[bit] : (size_t)1 << (bit - 8);
                if (item.cmsg_len >= header && item.cmsg_len <= space)
                    continue;
                memset(control, 0xff, space + 8);
                memcpy(message.msg_control, &item, sizeof item);
                FAILS(anabranch_sendmsg(near, &message, MSG_DONTWAIT), EINVAL);
            }
        }
        /* Only the length of its structure is valid. */
        item.cmsg_level = IPPROTO_SCTP;
        for (size_t size = 0; size <= space - header; size++) {
            item.cmsg_len = CMSG_LEN(size);
            memset(control, 0, space + 8);
            memcpy(message.msg_control, &item, sizeof item);
            if (size == sizeof(struct sctp_sndinfo))
                CHECK(anabranch_sendmsg(near, &message, 0) == 1);
            else
                FAILS(anabranch_sendmsg(near, &message, 0), EINVAL);
        }
    }
    /* A program that forgot to initialise it. */
    unsigned char *control = edge(space);
    memset(control, 0xff, space);
    message.msg_control = control;
    FAILS(anabranch_sendmsg(near, &message, 0), EINVAL);
    message.msg_controllen = SIZE_MAX;
    FAILS(anabranch_sendmsg(near, &message, 0), ENOBUFS);
    message.msg_control = NULL;
    message.msg_controllen = space;
    FAILS(anabranch_sendmsg(near, &message, 0), EFAULT);
    /* Less than a header is padding. */
    message.msg_control = control;
    message.msg_controllen = header - 1;
    CHECK(anabranch_sendmsg(near, &message, 0) == 1);
    CHECK(anabranch_close(near) == 0 && anabranch_close(server.fd) == 0);
}

/* Negative lengths of names and options. */
static void negative_lengths(void)
{
    struct server server = serve(SOCK_STREAM, 1);
    int near = client(SOCK_STREAM, &server), value = 0;
    connect_to(near, &server);
    int far = anabranch_accept(server.fd, NULL, NULL);
    CHECK(anabranch_send(near, "x", 1, 0) == 1);
    wait_for(far, POLLIN);
    struct sockaddr_in name = at("127.0.0.1", 0);
    socklen_t length = (socklen_t)-1;
    FAILS(anabranch_getsockname(near, SA(name), &length), EINVAL);
    FAILS(anabranch_getpeername(near, SA(name), &length), EINVAL);
    FAILS(anabranch_accept(server.fd, SA(name), &length), EINVAL);
    FAILS(anabranch_recvfrom(far, big, 1, 0, SA(name), &length), EINVAL);
    FAILS(anabranch_getsockopt(near, SOL_SOCKET, SO_TYPE, &value, &length), EINVAL);
    FAILS(anabranch_setsockopt(near, IPPROTO_SCTP, SCTP_NODELAY, &value, length), EINVAL);
    FAILS(anabranch_connect(near, SA(name), length), EINVAL);
    FAILS(anabranch_bind(near, SA(name), sizeof(struct sockaddr_storage) + 1), EINVAL);
    /* The failed call did not take the message. */
    CHECK(anabranch_recv(far, big, sizeof big, MSG_DONTWAIT) == 1);
    CHECK(anabranch_close(near) == 0 && anabranch_close(far) == 0);
    CHECK(anabranch_close(server.fd) == 0);
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

static int listening(const char *address, int udp)
{
    int fd = anabranch_socket(AF_INET, SOCK_STREAM, IPPROTO_SCTP);
    struct sockaddr_in local = at(address, 0);
    CHECK(fd >= 0);
    SET(fd, ANABRANCH_LOCAL_UDP_PORT, udp);
    CHECK(anabranch_bind(fd, SA(local), sizeof local) == 0);
    if (anabranch_listen(fd, 5) == 0)
        return fd;
    int error = errno;
    CHECK(anabranch_close(fd) == 0);
    errno = error;
    return -1;
}

static int udp_port(int fd)
{
    int port = 0;
    socklen_t length = sizeof port;
    CHECK(anabranch_getsockopt(fd, IPPROTO_SCTP, ANABRANCH_LOCAL_UDP_PORT, &port, &length) == 0);
    return port;
}

/* Closed sockets release their UDP ports. */
static void ports(void)
{
    int fds[50], udp[50];
    CHECK(anabranch_close(listening("127.0.0.1", 0)) == 0);
    /* Wait until earlier sockets have delivered their data and released their ports. */
    CHECK(anabranch_finish(20000) == 0);
    const int before = descriptors();
    for (int i = 0; i < 50; i++) {
        fds[i] = listening("127.0.0.1", 0);
        CHECK(fds[i] >= 0);
        udp[i] = udp_port(fds[i]);
    }
    for (int i = 0; i < 50; i++)
        CHECK(anabranch_close(fds[i]) == 0);
    CHECK(descriptors() == before);
    /* Each port is free immediately, for this library and for others. */
    for (int i = 0; i < 50; i++) {
        const char *const addresses[] = {"0.0.0.0", "127.0.0.1", "127.0.0.2"};
        for (int k = 0; k < 3; k++) {
            int fd = listening(addresses[k], udp[i]);
            CHECK(fd >= 0);
            CHECK(udp_port(fd) == udp[i] && anabranch_close(fd) == 0);
        }
        struct sockaddr_in local = at("127.0.0.1", (unsigned)udp[i]);
        int other = socket(AF_INET, SOCK_DGRAM, 0);
        CHECK(bind(other, SA(local), sizeof local) == 0 && close(other) == 0);
    }
    CHECK(descriptors() == before);
}

/* An open socket keeps a shared port when the others are closed. */
static void shared_ports(void)
{
    struct server server = serve(SOCK_STREAM, 1);
    int near = client(SOCK_STREAM, &server);
    connect_to(near, &server);
    int far = anabranch_accept(server.fd, NULL, NULL);
    CHECK(far >= 0 && anabranch_close(server.fd) == 0);
    FAILS(listening("0.0.0.0", server.udp), EADDRINUSE);
    CHECK(anabranch_send(near, "to", 2, 0) == 2 && anabranch_recv(far, big, sizeof big, 0) == 2);
    CHECK(anabranch_send(far, "fro", 3, 0) == 3 && anabranch_recv(near, big, sizeof big, 0) == 3);
    CHECK(anabranch_close(near) == 0 && anabranch_recv(far, big, sizeof big, 0) == 0);
    CHECK(anabranch_close(far) == 0);
    int next = listening("0.0.0.0", server.udp);
    CHECK(next >= 0 && anabranch_close(next) == 0);
    /* The same with an explicit endpoint. */
    struct sockaddr_in local = at("127.0.0.1", 0);
    for (int i = 0; i < 3; i++) {
        anabranch_endpoint *own = anabranch_endpoint_new(SA(local), 1, server.udp);
        CHECK(own != NULL);
        int fd = anabranch_endpoint_socket(own, AF_INET, SOCK_STREAM);
        CHECK(fd >= 0 && anabranch_listen(fd, 1) == 0);
        if (i == 0)
            CHECK(anabranch_close(fd) == 0);
        anabranch_endpoint_free(own);
        if (i > 0)
            CHECK(anabranch_close(fd) == 0);
    }
    next = listening("0.0.0.0", server.udp);
    CHECK(next >= 0 && anabranch_close(next) == 0);
}

enum { LARGE = 3000000 };

static void *drain(void *fd)
{
    size_t total = 0;
    ssize_t count;
    usleep(100000);
    while ((count = anabranch_recv(*(int *)fd, big, sizeof big, 0)) > 0)
        total += (size_t)count;
    CHECK(count == 0 && total == LARGE);
    return NULL;
}

/* A closed socket's data is delivered, and then its port is free. */
static void delivered_first(void)
{
    struct server server = serve(SOCK_STREAM, 1);
    int near = client(SOCK_STREAM, &server);
    connect_to(near, &server);
    const int before = descriptors();
    int far = anabranch_accept(server.fd, NULL, NULL), udp = udp_port(near);
    char *data = calloc(1, LARGE);
    pthread_t reader;
    CHECK(pthread_create(&reader, NULL, drain, &far) == 0);
    CHECK(anabranch_send(near, data, LARGE, 0) == LARGE && anabranch_close(near) == 0);
    /* Another socket with the same binding uses the same endpoint. */
    near = client(SOCK_STREAM, &server);
    connect_to(near, &server);
    int next = anabranch_accept(server.fd, NULL, NULL);
    CHECK(next >= 0);
    CHECK(pthread_join(reader, NULL) == 0 && anabranch_close(far) == 0);
    CHECK(anabranch_close(near) == 0 && anabranch_recv(next, big, 1, 0) == 0);
    CHECK(anabranch_close(next) == 0);
    free(data);
    int again = listening("127.0.0.2", udp);
    CHECK(again >= 0 && anabranch_close(again) == 0);
    CHECK(anabranch_close(server.fd) == 0);
    CHECK(descriptors() < before);
}

/* Clients that connect to a server in one thread, without waiting for accept. */
static void crowd(int *fds, int count, const struct server *server)
{
    for (int i = 0; i < count; i++) {
        fds[i] = client(SOCK_STREAM, server);
        connect_to(fds[i], server);
    }
}

/* A one-to-many socket only checks whether the backlog is 0. */
static void backlog_of_many(void)
{
    struct server server = serve(SOCK_SEQPACKET, 1);
    struct sockaddr_in to = at("127.0.0.1", 0);
    socklen_t length = sizeof to;
    int fds[40];
    CHECK(anabranch_close(server.fd) == 0);
    server.fd = anabranch_socket(AF_INET, SOCK_SEQPACKET, IPPROTO_SCTP);
    SET(server.fd, ANABRANCH_LOCAL_UDP_PORT, server.udp);
    CHECK(anabranch_bind(server.fd, SA(to), sizeof to) == 0);
    CHECK(anabranch_listen(server.fd, 1) == 0);
    CHECK(anabranch_getsockname(server.fd, SA(to), &length) == 0);
    for (int i = 0; i < 40; i++) {
        fds[i] = client(SOCK_SEQPACKET, &server);
        subscribe(fds[i], SCTP_ASSOC_CHANGE);
        CHECK(anabranch_sendto(fds[i], "x", 1, 0, SA(to), sizeof to) == 1);
    }
    for (int i = 0; i < 40; i++)
        changed(fds[i], SCTP_COMM_UP);
    for (int i = 0; i < 40; i++)
        CHECK(anabranch_close(fds[i]) == 0);
    CHECK(anabranch_close(server.fd) == 0);
}

/* Non-blocking calls miss nothing: all waiting associations can be accepted, and their messages received. */
static void nothing_is_missed(void)
{
    struct server server = serve(SOCK_STREAM, 1);
    int fds[20];
    CHECK(anabranch_listen(server.fd, 64) == 0);
    CHECK(fcntl(server.fd, F_SETFL, O_NONBLOCK) == 0);
    crowd(fds, 20, &server);
    for (int i = 0; i < 20; i++)
        CHECK(anabranch_send(fds[i], "first", 5, 0) == 5);
    /* When its acknowledgement has arrived, a message has been delivered. */
    for (int i = 0; i < 20; i++) {
        subscribe(fds[i], SCTP_SENDER_DRY_EVENT);
        notified(fds[i], SCTP_SENDER_DRY_EVENT);
    }
    for (int i = 0; i < 20; i++) {
        int far = anabranch_accept(server.fd, NULL, NULL);
        CHECK(far >= 0 && anabranch_recv(far, big, sizeof big, MSG_DONTWAIT) == 5);
        FAILS(anabranch_recv(far, big, sizeof big, MSG_DONTWAIT), EAGAIN);
        CHECK(anabranch_close(far) == 0);
    }
    FAILS(anabranch_accept(server.fd, NULL, NULL), EAGAIN);
    for (int i = 0; i < 20; i++)
        CHECK(anabranch_close(fds[i]) == 0);
    /* The end of an association is not missed, either. */
    crowd(fds, 1, &server);
    struct linger linger = {.l_onoff = 1, .l_linger = 20};
    CHECK(option(fds[0], SOL_SOCKET, SO_LINGER, &linger, sizeof linger) == 0);
    CHECK(anabranch_close(fds[0]) == 0);
    int far = anabranch_accept(server.fd, NULL, NULL);
    CHECK(anabranch_recv(far, big, sizeof big, MSG_DONTWAIT) == 0);
    CHECK(anabranch_close(far) == 0 && anabranch_close(server.fd) == 0);
}

/* A second listen changes the backlog. */
static void backlog_of_one(void)
{
    struct server server = serve(SOCK_STREAM, 1);
    struct sockaddr_in to = at("127.0.0.1", server.port);
    int fds[5], up = 0;
    /* As in a kernel, one more association than the backlog may wait. */
    CHECK(anabranch_listen(server.fd, 2) == 0);
    crowd(fds, 3, &server);
    for (int i = 0; i < 3; i++) {
        int near = client(SOCK_STREAM, &server);
        /* It is aborted as soon as it is established, or before this side knows that it is. */
        if (anabranch_connect(near, SA(to), sizeof to) == 0)
            FAILS(anabranch_recv(near, big, 1, 0), ECONNRESET);
        else
            CHECK(errno == ECONNREFUSED);
        CHECK(anabranch_close(near) == 0);
    }
    CHECK(anabranch_listen(server.fd, 4) == 0);
    crowd(fds + 3, 2, &server);
    CHECK(fcntl(server.fd, F_SETFL, O_NONBLOCK) == 0);
    int far;
    while ((far = anabranch_accept(server.fd, NULL, NULL)) >= 0) {
        CHECK(anabranch_close(far) == 0);
        up++;
    }
    CHECK(errno == EAGAIN && up == 5);
    for (int i = 0; i < 5; i++)
        CHECK(anabranch_close(fds[i]) == 0);
    CHECK(anabranch_close(server.fd) == 0);
}

/* Error numbers. */
static void numbers(void)
{
    FAILS(anabranch_socket(AF_INET, SOCK_RDM, IPPROTO_SCTP), ESOCKTNOSUPPORT);
    FAILS(anabranch_socket(AF_INET, 0, IPPROTO_SCTP), ESOCKTNOSUPPORT);
    FAILS(anabranch_socket(AF_INET, SOCK_DGRAM, IPPROTO_SCTP), EPROTONOSUPPORT);
    FAILS(anabranch_socket(AF_INET, -1, IPPROTO_SCTP), EINVAL);
    FAILS(anabranch_socket(AF_INET, SOCK_STREAM | 0x10, IPPROTO_SCTP), EINVAL);
    struct server one = serve(SOCK_STREAM, 1), many = serve(SOCK_SEQPACKET, 1);
    struct sockaddr_in to = at("127.0.0.1", many.port);
    FAILS(anabranch_send(one.fd, "x", 1, 0), EPIPE);
    FAILS(anabranch_sendto(one.fd, "x", 1, 0, SA(to), sizeof to), EPIPE);
    FAILS(anabranch_recv(one.fd, big, 1, 0), ENOTCONN);
    /* No peer can connect, so waiting would never end. */
    int near = client(SOCK_SEQPACKET, &many);
    FAILS(anabranch_recv(near, big, 1, 0), ENOTCONN);
    FAILS(anabranch_recv(near, big, 1, MSG_DONTWAIT), EAGAIN);
    CHECK(anabranch_sendto(near, "x", 1, 0, SA(to), sizeof to) == 1);
    CHECK(anabranch_recv(many.fd, big, 1, 0) == 1 && anabranch_close(many.fd) == 0);
    /* Its only association ends. */
    FAILS(anabranch_recv(near, big, 1, 0), ENOTCONN);
    CHECK(anabranch_close(near) == 0 && anabranch_close(one.fd) == 0);
}

/* Without a subscription the information is zeroed, not left as it was. */
static void unsubscribed(void)
{
    struct server server = serve(SOCK_STREAM, 1);
    int near = client(SOCK_STREAM, &server), flags = 0;
    connect_to(near, &server);
    int far = anabranch_accept(server.fd, NULL, NULL);
    struct sctp_sndrcvinfo info, zero;
    memset(&info, 0xaa, sizeof info);
    memset(&zero, 0, sizeof zero);
    CHECK(anabranch_send(near, "x", 1, 0) == 1);
    CHECK(anabranch_sctp_recvmsg(far, big, 1, NULL, NULL, &info, &flags) == 1);
    CHECK(memcmp(&info, &zero, sizeof info) == 0);
    CHECK(anabranch_close(near) == 0 && anabranch_close(far) == 0);
    CHECK(anabranch_close(server.fd) == 0);
}

static int peers_port(int fd, sctp_assoc_t id, const struct sockaddr_in *address)
{
    struct sctp_udpencaps ask = {.sue_assoc_id = id};
    socklen_t length = sizeof ask;
    if (address != NULL)
        memcpy(&ask.sue_address, address, sizeof *address);
    int result =
        anabranch_getsockopt(fd, IPPROTO_SCTP, SCTP_REMOTE_UDP_ENCAPS_PORT, &ask, &length);
    return result == 0 ? ntohs(ask.sue_port) : -1;
}

/* SCTP_REMOTE_UDP_ENCAPS_PORT returns the peer's current port. */
static void peers_udp_port(void)
{
    struct server server = serve(SOCK_SEQPACKET, 2);
    subscribe(server.fd, SCTP_ASSOC_CHANGE);
    int near = client(SOCK_STREAM, &server);
    CHECK(peers_port(near, 0, NULL) == server.udp);
    connect_to(near, &server);
    sctp_assoc_t id = changed(server.fd, SCTP_COMM_UP);
    struct sockaddr_in first = at("127.0.0.1", server.port), second = at("127.0.0.2", server.port);
    struct sockaddr_in peer = at("127.0.0.1", 0), wildcard = at("0.0.0.0", 0);
    CHECK(peers_port(server.fd, id, NULL) == udp_port(near));
    CHECK(peers_port(server.fd, id, &peer) == udp_port(near));
    CHECK(peers_port(server.fd, id, &wildcard) == udp_port(near));
    CHECK(peers_port(near, 0, &first) == server.udp && peers_port(near, 0, &second) == server.udp);
    CHECK(peers_port(near, 77, NULL) == server.udp);
    /* For future associations it returns the value of the option. */
    CHECK(peers_port(server.fd, SCTP_FUTURE_ASSOC, NULL) == 9899);
    struct sockaddr_in stranger = at("127.0.0.9", 0);
    CHECK(peers_port(server.fd, id, &stranger) == -1 && errno == EINVAL);
    CHECK(peers_port(server.fd, id + 1000, NULL) == -1 && errno == EINVAL);
    CHECK(peers_port(server.fd, SCTP_ALL_ASSOC, NULL) == -1 && errno == EINVAL);
    struct sctp_udpencaps all = {.sue_assoc_id = SCTP_CURRENT_ASSOC, .sue_port = htons(7)};
    FAILS(option(server.fd, IPPROTO_SCTP, SCTP_REMOTE_UDP_ENCAPS_PORT, &all, sizeof all), EINVAL);
    CHECK(anabranch_close(near) == 0 && anabranch_close(server.fd) == 0);
}

/* ANABRANCH_COUNTER for an association and for a path. */
static void counters(void)
{
    struct server server = serve(SOCK_STREAM, 1);
    int near = client(SOCK_STREAM, &server);
    connect_to(near, &server);
    struct anabranch_counter counter = {.name = "messages_sent"};
    socklen_t length = sizeof counter;
    CHECK(anabranch_send(near, "a", 1, 0) == 1);
    CHECK(anabranch_getsockopt(near, IPPROTO_SCTP, ANABRANCH_COUNTER, &counter, &length) == 0);
    CHECK(counter.value <= 1);
    strcpy(counter.name, "delivery_rate");
    FAILS(anabranch_getsockopt(near, IPPROTO_SCTP, ANABRANCH_COUNTER, &counter, &length), ENOPROTOOPT);
    struct sockaddr_in remote = at("127.0.0.1", server.port);
    memcpy(&counter.address, &remote, sizeof remote);
    CHECK(anabranch_getsockopt(near, IPPROTO_SCTP, ANABRANCH_COUNTER, &counter, &length) == 0);
    CHECK(counter.value != counter.value);
    strcpy(counter.name, "rto_seconds");
    CHECK(anabranch_getsockopt(near, IPPROTO_SCTP, ANABRANCH_COUNTER, &counter, &length) == 0);
    CHECK(counter.value > 0.1);
    FAILS(anabranch_setsockopt(near, IPPROTO_SCTP, ANABRANCH_COUNTER, &counter, length), ENOPROTOOPT);
    CHECK(anabranch_close(near) == 0 && anabranch_close(server.fd) == 0);
}

/* anabranch_set_options: only the options together must be valid, not each step. */
static void options_at_once(void)
{
    int fd = anabranch_socket(AF_INET, SOCK_STREAM, IPPROTO_SCTP);
    struct anabranch_option option = {0, "rto_initial", ""};
    char reason[200];
    socklen_t length = sizeof option;
    const char *const lists[] = {"rto_initial=200ms;rto_min=200ms", "rto_min=200ms;rto_initial=200ms",
                                 "rto_initial=200ms;rto_min=200ms;profile=rfc9260;", ";;"};
    for (int i = 0; i < 4; i++) {
        CHECK(anabranch_set_options(fd, lists[i], reason, sizeof reason) == 0);
        CHECK(anabranch_getsockopt(fd, IPPROTO_SCTP, ANABRANCH_OPTION, &option, &length) == 0);
        CHECK(strcmp(option.value, "200 ms") == 0 && reason[0] == '\0');
    }
    const struct {
        const char *list, *names;
        int error;
    } wrong[] = {
        {"rto_min=200ms;no_such=1", "no_such", ENOPROTOOPT},
        {"rto_min=soon;bundling=none", "rto_min", EINVAL},
        {"rto_min", "rto_min", EINVAL},
        {"rto_min=50ms;rto_initial=20ms", "rto_", EINVAL},
        {"profile=fast", "profile", EINVAL},
    };
    for (int i = 0; i < 5; i++) {
        FAILS(anabranch_set_options(fd, wrong[i].list, reason, sizeof reason), wrong[i].error);
        CHECK(strncmp(reason, wrong[i].names, strlen(wrong[i].names)) == 0);
        CHECK(strlen(reason) > strlen(wrong[i].names));
        /* The reason is cut to the buffer, or the caller passes none. */
        FAILS(anabranch_set_options(fd, wrong[i].list, reason, 4), wrong[i].error);
        CHECK(strlen(reason) == 3);
        FAILS(anabranch_set_options(fd, wrong[i].list, NULL, 0), wrong[i].error);
    }
    FAILS(anabranch_set_options(fd, NULL, NULL, 0), EFAULT);
    CHECK(anabranch_getsockopt(fd, IPPROTO_SCTP, ANABRANCH_OPTION, &option, &length) == 0);
    CHECK(strcmp(option.value, "200 ms") == 0 && anabranch_close(fd) == 0);
}

static const struct {
    const char *name;
    void (*run)(void);
} cases[] = {
    {"control lengths", control_lengths},
    {"negative lengths", negative_lengths},
    {"ports", ports},
    {"shared ports", shared_ports},
    {"delivered first", delivered_first},
    {"backlog of many", backlog_of_many},
    {"nothing is missed", nothing_is_missed},
    {"backlog of one", backlog_of_one},
    {"numbers", numbers},
    {"unsubscribed", unsubscribed},
    {"peers' UDP port", peers_udp_port},
    {"counters", counters},
    {"options at once", options_at_once},
};

/* Runs all cases, or the named one. */
int main(int count, char **arguments)
{
    /* Fail instead of hanging. */
    alarm(120);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (count < 2 || strcmp(arguments[1], cases[i].name) == 0)
            cases[i].run();
    }
    CHECK(anabranch_finish(20000) == 0);
    printf("passed\n");
    return 0;
}
