/* Scarce resources, race conditions and rare events, with both ends in one process. */
#define _GNU_SOURCE
#include "ends.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

/* If accept fails for lack of descriptors, the association waits for the next accept. */
static void descriptors(void)
{
    struct server server = serve(SOCK_STREAM, 1);
    int near = client(SOCK_STREAM, &server), taken[1024], count = 0;
    connect_to(near, &server);
    CHECK(anabranch_send(near, "x", 1, 0) == 1);
    wait_for(server.fd, POLLIN);
    struct rlimit all, few;
    CHECK(getrlimit(RLIMIT_NOFILE, &all) == 0);
    few = all;
    few.rlim_cur = 256;
    CHECK(setrlimit(RLIMIT_NOFILE, &few) == 0);
    while (count < 1024 && (taken[count] = dup(STDERR_FILENO)) >= 0)
        count++;
    FAILS(anabranch_accept(server.fd, NULL, NULL), EMFILE);
    while (count > 0)
        close(taken[--count]);
    CHECK(setrlimit(RLIMIT_NOFILE, &all) == 0);
    wait_for(server.fd, POLLIN);
    int far = anabranch_accept(server.fd, NULL, NULL);
    CHECK(far >= 0 && anabranch_recv(far, big, 1, 0) == 1);
    CHECK(anabranch_close(near) == 0 && anabranch_close(far) == 0);
    CHECK(anabranch_close(server.fd) == 0);
}

/* A length that exceeds the memory. */
static void lengths(void)
{
    struct server server = serve(SOCK_STREAM, 1);
    int near = client(SOCK_STREAM, &server);
    connect_to(near, &server);
    FAILS(anabranch_send(near, big, (size_t)1 << (8 * sizeof(size_t) - 3), 0), ENOBUFS);
    CHECK(anabranch_send(near, big, 1, 0) == 1);
    CHECK(anabranch_close(near) == 0 && anabranch_close(server.fd) == 0);
}

enum { PEELED = 200, MESSAGES = 60 };
static struct server crowded;

static void *send_often(void *unused)
{
    (void)unused;
    for (int i = 0; i < PEELED; i++) {
        int near = client(SOCK_STREAM, &crowded);
        connect_to(near, &crowded);
        for (int k = 0; k < MESSAGES; k++)
        {
            CHECK(anabranch_send(near, "message", 8, 0) == 8);
            if (k % 3 == 0)
                usleep((useconds_t)(rand() % 60));
        }
        CHECK(anabranch_close(near) == 0);
    }
    return NULL;
}

/* Messages that arrive while an association is peeled off are not lost. */
static void peeling(void)
{
    pthread_t sender;
    struct sctp_sndrcvinfo info;
    crowded = serve(SOCK_SEQPACKET, 1);
    subscribe(crowded.fd, SCTP_DATA_IO_EVENT);
    CHECK(pthread_create(&sender, NULL, send_often, NULL) == 0);
    for (int i = 0; i < PEELED; i++) {
        int flags = 0, count = 1;
        CHECK(anabranch_sctp_recvmsg(crowded.fd, big, 8, NULL, NULL, &info, &flags) == 8);
        int peeled = anabranch_sctp_peeloff(crowded.fd, info.sinfo_assoc_id);
        CHECK(peeled >= 0);
        while (anabranch_recv(peeled, big, 8, 0) == 8)
            count++;
        CHECK(count == MESSAGES && anabranch_close(peeled) == 0);
    }
    CHECK(pthread_join(sender, NULL) == 0);
    CHECK(anabranch_close(crowded.fd) == 0);
}

/* A silent peer: a UDP socket that is never read. */
static int silent(struct server *server)
{
    struct sockaddr_in address = at("127.0.0.1", 0);
    socklen_t length = sizeof address;
    int udp = socket(AF_INET, SOCK_DGRAM, 0);
    CHECK(udp >= 0 && bind(udp, SA(address), sizeof address) == 0);
    CHECK(getsockname(udp, SA(address), &length) == 0);
    *server = (struct server){.fd = -1, .udp = ntohs(address.sin_port), .port = 5000};
    return udp;
}

/* Starts to connect a one-to-many socket without waiting. */
static sctp_assoc_t begin(int fd, const struct server *server)
{
    struct sockaddr_in to = at("127.0.0.1", server->port);
    sctp_assoc_t id = 0;
    CHECK(fcntl(fd, F_SETFL, O_NONBLOCK) == 0);
    FAILS(anabranch_sctp_connectx(fd, SA(to), 1, &id), EINPROGRESS);
    CHECK(id > 2 && fcntl(fd, F_SETFL, 0) == 0);
    return id;
}

/* Ends associations during setup. */
static void early_ends(void)
{
    struct server server = serve(SOCK_SEQPACKET, 1), nobody;
    int udp = silent(&nobody), near = client(SOCK_SEQPACKET, &server);
    int other = client(SOCK_SEQPACKET, &nobody);
    subscribe(server.fd, SCTP_ASSOC_CHANGE);
    subscribe(near, SCTP_ASSOC_CHANGE);
    subscribe(other, SCTP_ASSOC_CHANGE);
    subscribe(other, SCTP_SEND_FAILED_EVENT);
    struct sctp_sndrcvinfo end = {.sinfo_flags = SCTP_EOF};
    end.sinfo_assoc_id = begin(near, &server);
    CHECK(anabranch_sctp_send(near, NULL, 0, &end, 0) == 0);
    CHECK(changed(near, SCTP_COMM_UP) == (sctp_assoc_t)end.sinfo_assoc_id);
    CHECK(changed(near, SCTP_SHUTDOWN_COMP) == (sctp_assoc_t)end.sinfo_assoc_id);
    CHECK(changed(server.fd, SCTP_COMM_UP) == changed(server.fd, SCTP_SHUTDOWN_COMP));

    end = (struct sctp_sndrcvinfo){.sinfo_assoc_id = begin(other, &nobody)};
    CHECK(anabranch_sctp_send(other, "early", 5, &end, 0) == 5);
    end.sinfo_flags = SCTP_ABORT;
    CHECK(anabranch_sctp_send(other, NULL, 0, &end, 0) == 0);
    CHECK(changed(other, SCTP_CANT_STR_ASSOC) == (sctp_assoc_t)end.sinfo_assoc_id);
    notified(other, SCTP_SEND_FAILED_EVENT);
    FAILS(anabranch_sctp_send(other, "late", 4, &end, 0), EINVAL);
    CHECK(close(udp) == 0 && anabranch_close(near) == 0 && anabranch_close(other) == 0);
    CHECK(anabranch_close(server.fd) == 0);
}

/* An unbound one-to-many socket uses one port for all its associations. */
static void unbound(void)
{
    struct server servers[2] = {serve(SOCK_SEQPACKET, 1), serve(SOCK_SEQPACKET, 1)};
    int near = anabranch_socket(AF_INET, SOCK_SEQPACKET, IPPROTO_SCTP);
    struct sockaddr_in name, from;
    socklen_t length = sizeof name;
    for (int i = 0; i < 2; i++) {
        struct sctp_udpencaps encapsulation = {.sue_port = htons((uint16_t)servers[i].udp)};
        struct sockaddr_in to = at("127.0.0.1", servers[i].port);
        SET(near, SCTP_REMOTE_UDP_ENCAPS_PORT, encapsulation);
        CHECK(anabranch_sendto(near, "x", 1, 0, SA(to), sizeof to) == 1);
    }
    CHECK(anabranch_getsockname(near, SA(name), &length) == 0 && name.sin_port != 0);
    for (int i = 0; i < 2; i++) {
        length = sizeof from;
        CHECK(anabranch_recvfrom(servers[i].fd, big, 1, 0, SA(from), &length) == 1);
        CHECK(from.sin_port == name.sin_port);
    }
    CHECK(anabranch_listen(near, 1) == 0);
    length = sizeof from;
    CHECK(anabranch_getsockname(near, SA(from), &length) == 0 && from.sin_port == name.sin_port);
    CHECK(anabranch_close(near) == 0);
    CHECK(anabranch_close(servers[0].fd) == 0 && anabranch_close(servers[1].fd) == 0);
}

/* The last notification of an association still has the peer's address. */
static void last_words(void)
{
    struct server server = serve(SOCK_SEQPACKET, 1);
    int near = client(SOCK_SEQPACKET, &server), flags;
    connect_to(near, &server);
    struct sockaddr_in name, from;
    socklen_t length = sizeof name;
    CHECK(anabranch_getsockname(near, SA(name), &length) == 0);
    subscribe(server.fd, SCTP_ASSOC_CHANGE);
    CHECK(anabranch_close(near) == 0);
    int state;
    do {
        struct sctp_assoc_change change;
        memset(&from, 0, sizeof from);
        length = sizeof from, flags = 0;
        CHECK(anabranch_sctp_recvmsg(server.fd, &change, sizeof change, SA(from), &length, NULL,
                                     &flags) == sizeof change);
        CHECK((flags & MSG_NOTIFICATION) && length == sizeof from);
        CHECK(from.sin_family == AF_INET && from.sin_port == name.sin_port);
        state = change.sac_state;
    } while (state != SCTP_SHUTDOWN_COMP);
    CHECK(anabranch_close(server.fd) == 0);
}

/* MSG_ERRQUEUE does not return messages. */
static void no_errors(void)
{
    struct server server = serve(SOCK_STREAM, 1);
    int near = client(SOCK_STREAM, &server);
    connect_to(near, &server);
    int far = anabranch_accept(server.fd, NULL, NULL);
    CHECK(far >= 0 && anabranch_send(near, "x", 1, 0) == 1);
    wait_for(far, POLLIN);
    FAILS(anabranch_recv(far, big, 1, MSG_ERRQUEUE), EAGAIN);
    CHECK(anabranch_recv(far, big, 1, 0) == 1);
    CHECK(anabranch_close(near) == 0 && anabranch_close(far) == 0);
    CHECK(anabranch_close(server.fd) == 0);
}

/* A peer that does not answer: SO_SNDTIMEO ends the blocking call, and the setup continues. */
static void unanswered(void)
{
    struct server nobody;
    int udp = silent(&nobody), near = client(SOCK_STREAM, &nobody);
    struct sockaddr_in to = at("127.0.0.1", nobody.port);
    struct timeval moment = {.tv_usec = 1000};
    CHECK(option(near, SOL_SOCKET, SO_SNDTIMEO, &moment, sizeof moment) == 0);
    FAILS(anabranch_connect(near, SA(to), sizeof to), EINPROGRESS);
    FAILS(anabranch_connect(near, SA(to), sizeof to), EALREADY);
    struct sctp_status status = {0};
    socklen_t length = sizeof status;
    CHECK(anabranch_getsockopt(near, IPPROTO_SCTP, SCTP_STATUS, &status, &length) == 0);
    CHECK(status.sstat_state == SCTP_COOKIE_WAIT && status.sstat_assoc_id > 2);
    CHECK(memcmp(&status.sstat_primary.spinfo_address, &to, sizeof to) == 0);
    CHECK(anabranch_close(near) == 0 && close(udp) == 0);
}

/* An address can be bound only once. */
static void twice(void)
{
    int fd = anabranch_socket(AF_INET, SOCK_STREAM, IPPROTO_SCTP);
    struct sockaddr_in list[2] = {at("127.0.0.1", 0), at("127.0.0.1", 0)};
    FAILS(anabranch_sctp_bindx(fd, SA(list), 2, SCTP_BINDX_ADD_ADDR), EADDRINUSE);
    CHECK(anabranch_sctp_bindx(fd, SA(list), 1, SCTP_BINDX_ADD_ADDR) == 0);
    CHECK(anabranch_close(fd) == 0);
}

static void *send_to_all(void *near)
{
    struct sctp_sndrcvinfo all = {.sinfo_flags = SCTP_SENDALL};
    CHECK(anabranch_sctp_send(*(int *)near, "to all", 6, &all, 0) == 6);
    return NULL;
}

/* SCTP_SENDALL waits for associations without room, or if non-blocking, reports their copies as failed. */
static void to_all(void)
{
    struct server full = serve(SOCK_STREAM, 1), empty = serve(SOCK_STREAM, 1);
    int near = client(SOCK_SEQPACKET, &full), size = 20000;
    CHECK(option(near, SOL_SOCKET, SO_SNDBUF, &size, sizeof size) == 0);
    connect_to(near, &full);
    struct sockaddr_in to = at("127.0.0.1", full.port);
    struct sctp_udpencaps encapsulation = {.sue_port = htons((uint16_t)empty.udp)};
    struct sctp_sndrcvinfo all = {.sinfo_flags = SCTP_SENDALL};
    int slow = anabranch_accept(full.fd, NULL, NULL);
    CHECK(slow >= 0);
    subscribe(near, SCTP_SEND_FAILED_EVENT);
    sctp_assoc_t id = anabranch_sctp_getassocid(near, SA(to), sizeof to);
    struct pollfd writable = {near, POLLOUT, 0};
    do {
        while (anabranch_sendto(near, big, 10000, MSG_DONTWAIT, SA(to), sizeof to) == 10000)
            ;
        CHECK(errno == EAGAIN);
        /* Until there is no more progress. */
    } while (poll(&writable, 1, 200) == 1);
    /* No association accepted a copy. */
    FAILS(anabranch_sctp_send(near, "all", 3, &all, MSG_DONTWAIT), EAGAIN);

    SET(near, SCTP_REMOTE_UDP_ENCAPS_PORT, encapsulation);
    connect_to(near, &empty);
    int quick = anabranch_accept(empty.fd, NULL, NULL);
    CHECK(anabranch_sctp_send(near, "all", 3, &all, MSG_DONTWAIT) == 3);
    CHECK(anabranch_recv(quick, big, sizeof big, 0) == 3);
    union sctp_notification back = notified(near, SCTP_SEND_FAILED_EVENT);
    CHECK(back.sn_send_failed_event.ssf_assoc_id == id);

    /* With a reader both get it eventually. */
    pthread_t sender;
    CHECK(pthread_create(&sender, NULL, send_to_all, &near) == 0);
    CHECK(anabranch_recv(quick, big, sizeof big, 0) == 6);
    while (anabranch_recv(slow, big, sizeof big, 0) != 6)
        ;
    CHECK(pthread_join(sender, NULL) == 0);
    CHECK(anabranch_close(near) == 0 && anabranch_close(slow) == 0 && anabranch_close(quick) == 0);
    CHECK(anabranch_close(full.fd) == 0 && anabranch_close(empty.fd) == 0);
}

static const struct {
    const char *name;
    void (*run)(void);
} cases[] = {
    {"descriptors", descriptors},
    {"lengths", lengths},
    {"peeling", peeling},
    {"early ends", early_ends},
    {"unbound", unbound},
    {"last words", last_words},
    {"no errors", no_errors},
    {"unanswered", unanswered},
    {"twice", twice},
    {"to all", to_all},
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
