/* Endpoints with sealed paths: keys, invitations, and sockets over two uplinks. */
#include "ends.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#define PORT 7007

static anabranch_endpoint *server, *guest;
static char line[1024], key[256], peer[256], reason[256];

static anabranch_endpoint *open_server(int flags)
{
    struct sockaddr_in any = at("127.0.0.1", 0);
    anabranch_endpoint *opened = anabranch_endpoint_sealed_server(SA(any), 1, "server.key", flags, reason, sizeof reason);
    CHECK(opened && reason[0] == 0);
    return opened;
}

static anabranch_endpoint *open_client(const char *file, const char *uplinks)
{
    anabranch_endpoint *opened = anabranch_endpoint_sealed_client(line, file, uplinks, reason, sizeof reason);
    CHECK(opened && reason[0] == 0);
    return opened;
}

static int listening(int type)
{
    struct sockaddr_in6 name = {.sin6_family = AF_INET6, .sin6_port = htons(PORT)};
    int fd = anabranch_endpoint_socket(server, AF_INET6, type);
    CHECK(fd >= 0 && anabranch_bind(fd, SA(name), sizeof name) == 0 && anabranch_listen(fd, 8) == 0);
    return fd;
}

static int connecting(int type)
{
    struct sockaddr *addresses;
    int fd = anabranch_endpoint_socket(guest, AF_INET6, type);
    int count = anabranch_endpoint_remotes(guest, PORT, &addresses);
    CHECK(fd >= 0 && count == 8);
    CHECK(anabranch_sctp_connectx(fd, addresses, count, NULL) == 0);
    anabranch_sctp_freepaddrs(addresses);
    return fd;
}

/* Messages in both directions. */
static void exchange(int near, int far)
{
    static char got[sizeof big];
    for (int i = 0; i < 20; i++) {
        memset(big, i, sizeof big);
        for (int back = 0; back < 2; back++) {
            int from = back ? far : near, to = back ? near : far, flags = 0;
            CHECK(anabranch_sctp_sendmsg(from, big, sizeof big, NULL, 0, htonl(7), 0, 1, 0, 0) == sizeof big);
            size_t length = 0;
            while (length < sizeof big) {
                ssize_t more = anabranch_sctp_recvmsg(to, got + length, sizeof got - length, NULL, NULL, NULL, &flags);
                CHECK(more > 0);
                length += (size_t)more;
            }
            CHECK((flags & MSG_EOR) && memcmp(got, big, sizeof big) == 0);
        }
    }
}

/* Number of paths of an association that carry data. */
static int active(int fd)
{
    struct sockaddr *list;
    int count = anabranch_sctp_getpaddrs(fd, 0, &list), found = 0;
    for (int i = 0; i < count; i++) {
        struct sctp_paddrinfo info = {0};
        socklen_t length = sizeof info;
        memcpy(&info.spinfo_address, (struct sockaddr_in6 *)list + i, sizeof(struct sockaddr_in6));
        CHECK(anabranch_sctp_opt_info(fd, 0, SCTP_GET_PEER_ADDR_INFO, &info, &length) == 0);
        found += info.spinfo_state == SCTP_ACTIVE;
    }
    anabranch_sctp_freepaddrs(list);
    return found;
}

static void one_line_works_once(void)
{
    server = open_server(0);
    CHECK(anabranch_endpoint_udp_port(server) > 0);
    int length = anabranch_endpoint_invite(server, NULL, 0, ANABRANCH_INVITE_ONCE, line, sizeof line);
    CHECK(length > 50 && strlen(line) == (size_t)length && strncmp(line, "anb1:", 5) == 0);
    guest = open_client("client.key", "127.0.0.2, 127.0.0.3");
    int listener = listening(SOCK_STREAM), near = connecting(SOCK_STREAM);
    struct sockaddr_in6 name;
    socklen_t size = sizeof name;
    int far = anabranch_accept(listener, SA(name), &size);
    CHECK(far >= 0 && name.sin6_family == AF_INET6);
    exchange(near, far);
    while (active(near) < 2 || active(far) < 2)
        usleep(10000);
    /* Both know whom they talk to. */
    CHECK(anabranch_endpoint_key(server, SA(name), size, peer, sizeof peer) > 0);
    CHECK(anabranch_endpoint_key(guest, NULL, 0, key, sizeof key) > 0 && strcmp(key, peer) == 0);
    CHECK(anabranch_getpeername(near, SA(name), &size) == 0);
    CHECK(anabranch_endpoint_key(guest, SA(name), size, peer, sizeof peer) > 0);
    CHECK(anabranch_endpoint_key(server, NULL, 0, key, sizeof key) > 0 && strcmp(key, peer) == 0);
    CHECK(anabranch_close(near) == 0);
    CHECK(anabranch_recv(far, big, sizeof big, 0) == 0);
    CHECK(anabranch_close(far) == 0);

    /* Another client gets no answer, until its key is allowed. */
    anabranch_endpoint *other = open_client("other.key", NULL);
    CHECK(anabranch_endpoint_key(other, NULL, 0, key, sizeof key) > 0);
    struct sockaddr *addresses;
    near = anabranch_endpoint_socket(other, AF_INET6, SOCK_STREAM);
    int count = anabranch_endpoint_remotes(other, PORT, &addresses);
    CHECK(fcntl(near, F_SETFL, O_NONBLOCK) == 0);
    FAILS(anabranch_sctp_connectx(near, addresses, count, NULL), EINPROGRESS);
    struct pollfd waiting = {near, POLLOUT, 0};
    CHECK(poll(&waiting, 1, 500) == 0);
    CHECK(anabranch_endpoint_allow(server, key) == 0);
    wait_for(near, POLLOUT);
    far = anabranch_accept(listener, NULL, NULL);
    CHECK(far >= 0);
    CHECK(anabranch_sctp_sendmsg(near, "hello", 5, NULL, 0, 0, 0, 0, 0, 0) == 5);
    CHECK(anabranch_recv(far, big, sizeof big, 0) == 5);
    CHECK(anabranch_close(near) == 0 && anabranch_close(far) == 0);
    CHECK(anabranch_endpoint_wait_idle(other, 20000) == 0);
    /* And when it is allowed no more. */
    CHECK(anabranch_endpoint_revoke(server, key) == 0);
    near = anabranch_endpoint_socket(other, AF_INET6, SOCK_STREAM);
    struct linger abort_it = {1, 0};
    CHECK(option(near, SOL_SOCKET, SO_LINGER, &abort_it, sizeof abort_it) == 0);
    CHECK(fcntl(near, F_SETFL, O_NONBLOCK) == 0);
    FAILS(anabranch_sctp_connectx(near, addresses, count, NULL), EINPROGRESS);
    waiting.fd = near;
    CHECK(poll(&waiting, 1, 500) == 0);
    anabranch_sctp_freepaddrs(addresses);
    CHECK(anabranch_close(near) == 0 && anabranch_close(listener) == 0);
    anabranch_endpoint_free(other);
    anabranch_endpoint_free(guest);
    anabranch_endpoint_free(server);
}

static void everyone_may_connect(void)
{
    server = open_server(ANABRANCH_SEALED_ANYONE);
    /* The key is that of before. */
    CHECK(anabranch_endpoint_key(server, NULL, 0, key, sizeof key) > 0 && strcmp(key, peer) == 0);
    CHECK(anabranch_endpoint_invite(server, NULL, 0, 0, line, sizeof line) > 0);
    guest = open_client("other.key", "");
    int listener = listening(SOCK_STREAM), near = connecting(SOCK_STREAM);
    int far = anabranch_accept(listener, NULL, NULL);
    CHECK(far >= 0);
    exchange(near, far);
    CHECK(anabranch_close(near) == 0 && anabranch_close(far) == 0 && anabranch_close(listener) == 0);
    anabranch_endpoint_free(guest);
    anabranch_endpoint_free(server);
}

static void mistakes_are_named(void)
{
    struct sockaddr_in any = at("127.0.0.1", 0);
    CHECK(anabranch_endpoint_sealed_server(SA(any), 1, "none/server.key", 0, reason, sizeof reason) == NULL);
    CHECK(errno == ENOENT && strstr(reason, "none/server.key"));
    CHECK(chmod("other.key", 0644) == 0);
    CHECK(anabranch_endpoint_sealed_server(SA(any), 1, "other.key", 0, reason, sizeof reason) == NULL);
    CHECK(errno == EACCES && strstr(reason, "chmod 600"));
    CHECK(anabranch_endpoint_sealed_server(SA(any), 1, "server.key", 8, reason, sizeof reason) == NULL && errno == EINVAL);
    CHECK(anabranch_endpoint_sealed_server(SA(any), 1, NULL, 0, NULL, 0) == NULL && errno == EFAULT);
    CHECK(anabranch_endpoint_sealed_client("anb1:x", "client.key", NULL, reason, sizeof reason) == NULL && errno == EINVAL);
    CHECK(reason[0] != 0);
    char tiny[4] = "abc";
    CHECK(anabranch_endpoint_sealed_client("anb1:x", "client.key", NULL, tiny, sizeof tiny) == NULL && tiny[3] == 0);

    server = open_server(0);
    CHECK(anabranch_endpoint_invite(server, NULL, 0, 0, line, sizeof line) > 0);
    FAILS(anabranch_endpoint_invite(server, NULL, 0, 0, reason, 8), ERANGE);
    FAILS(anabranch_endpoint_invite(server, NULL, 0, 0, NULL, 8), EFAULT);
    FAILS(anabranch_endpoint_invite(server, NULL, 0, 2, line, sizeof line), EINVAL);
    FAILS(anabranch_endpoint_allow(server, "anbk:x"), EINVAL);
    FAILS(anabranch_endpoint_allow(server, NULL), EFAULT);
    FAILS(anabranch_endpoint_key(server, NULL, 0, key, 8), ERANGE);
    struct sockaddr_in6 nobody = {.sin6_family = AF_INET6};
    FAILS(anabranch_endpoint_key(server, SA(nobody), sizeof nobody, key, sizeof key), EADDRNOTAVAIL);
    struct sockaddr *addresses;
    FAILS(anabranch_endpoint_remotes(server, PORT, &addresses), EINVAL);

    /* The port is in use. */
    struct sockaddr_in same = at("127.0.0.1", (unsigned)anabranch_endpoint_udp_port(server));
    CHECK(anabranch_endpoint_sealed_server(SA(same), 1, "client.key", 0, reason, sizeof reason) == NULL);
    CHECK(errno == EADDRINUSE && strstr(reason, "127.0.0.1"));

    guest = open_client("client.key", NULL);
    FAILS(anabranch_endpoint_invite(guest, NULL, 0, 0, line, sizeof line), EINVAL);
    FAILS(anabranch_endpoint_allow(guest, peer), EINVAL);
    FAILS(anabranch_endpoint_remotes(guest, PORT, NULL), EFAULT);
    anabranch_endpoint *plain = anabranch_endpoint_new(SA(any), 1, 0);
    CHECK(plain);
    FAILS(anabranch_endpoint_remotes(plain, PORT, &addresses), EINVAL);
    FAILS(anabranch_endpoint_key(plain, NULL, 0, key, sizeof key), EINVAL);
    FAILS(anabranch_endpoint_allow(NULL, peer), EFAULT);
    anabranch_endpoint_free(plain);
    anabranch_endpoint_free(guest);
    anabranch_endpoint_free(server);
}

int main(void)
{
    one_line_works_once();
    everyone_may_connect();
    mistakes_are_named();
    return anabranch_finish(5000);
}
