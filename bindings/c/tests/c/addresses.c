/* Tests the addresses that sockets use and report: their family and the scope of link-local ones. The
 * arguments are two interfaces: the first has 192.0.2.1, 192.0.2.2, 2001:db8::1 and fe80::1, the second
 * fe80::2. */
#define _GNU_SOURCE
#include "ends.h"

#include <net/if.h>
#include <unistd.h>

static unsigned first, second;

static struct sockaddr_in6 at6(const char *text, unsigned port, unsigned scope)
{
    struct sockaddr_in6 address = {.sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port)};
    CHECK(inet_pton(AF_INET6, text, &address.sin6_addr) == 1);
    address.sin6_scope_id = scope;
    return address;
}

/* A socket that listens on all addresses of its family. */
static struct server everywhere(int domain, int type, int udp)
{
    struct server server = {.fd = anabranch_socket(domain, type, IPPROTO_SCTP), .udp = udp};
    struct sockaddr_storage name;
    socklen_t length = sizeof name;
    SET(server.fd, ANABRANCH_LOCAL_UDP_PORT, server.udp);
    CHECK(anabranch_listen(server.fd, 8) == 0);
    CHECK(anabranch_getsockname(server.fd, SA(name), &length) == 0);
    CHECK(name.ss_family == domain);
    server.port = ntohs(((struct sockaddr_in *)&name)->sin_port);
    length = sizeof server.udp;
    CHECK(anabranch_getsockopt(server.fd, IPPROTO_SCTP, ANABRANCH_LOCAL_UDP_PORT, &server.udp,
                               &length) == 0);
    return server;
}

/* An unbound socket that knows the server's UDP port. */
static int unbound(int domain, int type, const struct server *server)
{
    int fd = anabranch_socket(domain, type, IPPROTO_SCTP);
    struct sctp_udpencaps remote = {.sue_port = htons((uint16_t)server->udp)};
    SET(fd, SCTP_REMOTE_UDP_ENCAPS_PORT, remote);
    return fd;
}

/* The number of addresses in a list, all of which must be of this family. */
static int count(int (*get)(int, sctp_assoc_t, struct sockaddr **), int fd, sctp_assoc_t id,
                 int family)
{
    struct sockaddr *list = NULL;
    int found = get(fd, id, &list);
    char *next = (char *)list;
    for (int i = 0; i < found; i++) {
        sa_family_t each;
        memcpy(&each, next, sizeof each);
        CHECK(each == family);
        next += anabranch_sctp_getaddrlen(each);
    }
    CHECK(found > 0 && anabranch_sctp_freepaddrs(list) == 0);
    return found;
}

/* AF_INET sockets and their peers see only IPv4 addresses. */
static void ipv4(void)
{
    struct server old = everywhere(AF_INET, SOCK_SEQPACKET, 0);
    subscribe(old.fd, SCTP_ASSOC_CHANGE);
    subscribe(old.fd, SCTP_PEER_ADDR_CHANGE);
    /* Peers elsewhere do not learn 127.0.0.1. */
    const int domains[] = {AF_INET, AF_INET6};
    struct sockaddr_in to = at("192.0.2.1", old.port), name;
    for (int i = 0; i < 2; i++) {
        int near = unbound(domains[i], SOCK_STREAM, &old);
        CHECK(anabranch_connect(near, SA(to), sizeof to) == 0);
        sctp_assoc_t id = changed(old.fd, SCTP_COMM_UP);
        CHECK(count(anabranch_sctp_getpaddrs, near, 0, AF_INET) == 2);
        CHECK(count(anabranch_sctp_getladdrs, old.fd, id, AF_INET) == 2);
        CHECK(count(anabranch_sctp_getpaddrs, old.fd, id, AF_INET) == 2);
        CHECK(count(anabranch_sctp_getladdrs, near, 0, AF_INET) == 2);
        CHECK(anabranch_send(near, "x", 1, 0) == 1);
        ssize_t got;
        int flags;
        do {
            unsigned char buffer[512];
            union sctp_notification event;
            socklen_t length = sizeof name;
            flags = 0;
            got = anabranch_sctp_recvmsg(old.fd, buffer, sizeof buffer, SA(name), &length, NULL,
                                         &flags);
            CHECK(got > 0 && length == sizeof name && name.sin_family == AF_INET);
            memcpy(&event, buffer, sizeof event);
            if ((flags & MSG_NOTIFICATION) && event.sn_header.sn_type == SCTP_PEER_ADDR_CHANGE)
                CHECK(event.sn_paddr_change.spc_aaddr.ss_family == AF_INET);
        } while (flags & MSG_NOTIFICATION);
        CHECK(got == 1 && anabranch_close(near) == 0);
        do
            CHECK(anabranch_recv(old.fd, big, sizeof big, 0) > 0);
        while (((struct sctp_assoc_change *)big)->sac_type != SCTP_ASSOC_CHANGE);
    }
    /* There is no IPv6 listener, until a second server starts on the same UDP port. */
    struct sockaddr_in6 to6 = at6("2001:db8::1", old.port, 0);
    int near = unbound(AF_INET6, SOCK_STREAM, &old);
    FAILS(anabranch_connect(near, SA(to6), sizeof to6), ECONNREFUSED);
    struct server new = everywhere(AF_INET6, SOCK_STREAM, old.udp);
    CHECK(new.udp == old.udp && new.port != old.port);
    to6.sin6_port = htons(new.port);
    CHECK(anabranch_connect(near, SA(to6), sizeof to6) == 0);
    int far = anabranch_accept(new.fd, NULL, NULL);
    CHECK(far >= 0 && anabranch_close(far) == 0 && anabranch_close(near) == 0);
    /* The server has IPv6 addresses, too, but an AF_INET socket does not see them. */
    near = unbound(AF_INET, SOCK_STREAM, &new);
    to.sin_port = htons(new.port);
    CHECK(anabranch_connect(near, SA(to), sizeof to) == 0);
    CHECK(count(anabranch_sctp_getpaddrs, near, 0, AF_INET) == 2);
    far = anabranch_accept(new.fd, NULL, NULL);
    CHECK(count(anabranch_sctp_getpaddrs, far, 0, AF_INET) == 2);
    CHECK(anabranch_close(far) == 0 && anabranch_close(near) == 0);
    /* An AF_INET6 socket bound to all IPv4 addresses. */
    struct server part = {.fd = unbound(AF_INET6, SOCK_STREAM, &old)};
    struct sockaddr_in6 mapped = at6("::ffff:0.0.0.0", 5077, 0);
    SET(part.fd, ANABRANCH_LOCAL_UDP_PORT, old.udp);
    CHECK(anabranch_bind(part.fd, SA(mapped), sizeof mapped) == 0);
    CHECK(anabranch_listen(part.fd, 1) == 0);
    near = unbound(AF_INET6, SOCK_STREAM, &old);
    to6.sin6_port = to.sin_port = htons(5077);
    FAILS(anabranch_connect(near, SA(to6), sizeof to6), ECONNREFUSED);
    CHECK(anabranch_connect(near, SA(to), sizeof to) == 0);
    CHECK(anabranch_close(near) == 0 && anabranch_close(part.fd) == 0);
    CHECK(anabranch_close(old.fd) == 0 && anabranch_close(new.fd) == 0);
}

/* Whether this is the link-local address of the first interface. */
static int is_here(const struct sockaddr_in6 *name, socklen_t length)
{
    struct sockaddr_in6 here = at6("fe80::1", ntohs(name->sin6_port), first);
    return length == sizeof *name && name->sin6_family == AF_INET6 &&
           memcmp(&name->sin6_addr, &here.sin6_addr, sizeof here.sin6_addr) == 0 &&
           name->sin6_scope_id == first;
}

/* Checks all names of an association over the first interface. */
static void check_names(int near, int far, const struct sockaddr_in6 *accepted)
{
    struct sockaddr_in6 name;
    struct sockaddr *list = NULL;
    const int fds[] = {near, far};
    CHECK(is_here(accepted, sizeof *accepted));
    for (int i = 0; i < 2; i++) {
        socklen_t length = sizeof name;
        CHECK(anabranch_getpeername(fds[i], SA(name), &length) == 0 && is_here(&name, length));
        length = sizeof name;
        CHECK(anabranch_getsockname(fds[i], SA(name), &length) == 0 && is_here(&name, length));
        CHECK(anabranch_sctp_getpaddrs(fds[i], 0, &list) >= 1);
        memcpy(&name, list, sizeof name);
        CHECK(is_here(&name, sizeof name) && anabranch_sctp_freepaddrs(list) == 0);
        struct sctp_status status = {0};
        length = sizeof status;
        CHECK(anabranch_getsockopt(fds[i], IPPROTO_SCTP, SCTP_STATUS, &status, &length) == 0);
        memcpy(&name, &status.sstat_primary.spinfo_address, sizeof name);
        CHECK(is_here(&name, sizeof name));
    }
    CHECK(anabranch_send(near, "x", 1, 0) == 1);
    socklen_t length = sizeof name;
    CHECK(anabranch_recvfrom(far, big, 1, 0, SA(name), &length) == 1 && is_here(&name, length));
}

/* Link-local addresses on unbound sockets, and on sockets bound to an address or to a device. */
static void links(void)
{
    struct server server = everywhere(AF_INET6, SOCK_STREAM, 0);
    struct sockaddr_in6 to = at6("fe80::1", server.port, first), local = at6("fe80::1", 0, first);
    struct sockaddr_in6 name;
    const char *const names[] = {if_indextoname(first, (char[IF_NAMESIZE]){0}), NULL};
    for (int way = 0; way < 4; way++) {
        int near = unbound(AF_INET6, SOCK_STREAM, &server);
        if (way == 1)
            CHECK(anabranch_bind(near, SA(local), sizeof local) == 0);
        if (way == 2)
            CHECK(anabranch_sctp_bindx(near, SA(local), 1, SCTP_BINDX_ADD_ADDR) == 0);
        if (way == 3)
            CHECK(option(near, SOL_SOCKET, SO_BINDTODEVICE, names[0], strlen(names[0]) + 1) == 0);
        CHECK(anabranch_connect(near, SA(to), sizeof to) == 0);
        socklen_t length = sizeof name;
        int far = anabranch_accept(server.fd, SA(name), &length);
        CHECK(far >= 0);
        check_names(near, far, &name);
        /* A program can connect to a name that the library returned. */
        CHECK(anabranch_getpeername(near, SA(name), &length) == 0);
        CHECK(anabranch_close(near) == 0 && anabranch_close(far) == 0);
        near = unbound(AF_INET6, SOCK_STREAM, &server);
        CHECK(anabranch_connect(near, SA(name), sizeof name) == 0);
        CHECK(anabranch_close(near) == 0);
        far = anabranch_accept(server.fd, NULL, NULL);
        CHECK(far >= 0 && anabranch_close(far) == 0);
    }
    /* A server on the link-local address itself. */
    struct server bound = {.fd = anabranch_socket(AF_INET6, SOCK_SEQPACKET, IPPROTO_SCTP)};
    SET(bound.fd, ANABRANCH_LOCAL_UDP_PORT, bound.udp);
    local.sin6_port = htons(5078);
    CHECK(anabranch_bind(bound.fd, SA(local), sizeof local) == 0);
    socklen_t length = sizeof name;
    CHECK(anabranch_getsockname(bound.fd, SA(name), &length) == 0 && is_here(&name, length));
    CHECK(anabranch_listen(bound.fd, 1) == 0);
    length = sizeof bound.udp;
    CHECK(anabranch_getsockopt(bound.fd, IPPROTO_SCTP, ANABRANCH_LOCAL_UDP_PORT, &bound.udp,
                               &length) == 0);
    int many = unbound(AF_INET6, SOCK_SEQPACKET, &bound);
    CHECK(anabranch_sendto(many, "x", 1, 0, SA(local), sizeof local) == 1);
    length = sizeof name;
    CHECK(anabranch_recvfrom(bound.fd, big, 1, 0, SA(name), &length) == 1);
    CHECK(is_here(&name, length));
    CHECK(anabranch_sendto(bound.fd, "y", 1, 0, SA(name), sizeof name) == 1);
    length = sizeof name;
    CHECK(anabranch_recvfrom(many, big, 1, 0, SA(name), &length) == 1 && is_here(&name, length));
    CHECK(anabranch_close(many) == 0 && anabranch_close(bound.fd) == 0);

    /* The scope is required, and must be a link that has the address. */
    int near = unbound(AF_INET6, SOCK_STREAM, &server);
    to.sin6_scope_id = 0;
    FAILS(anabranch_connect(near, SA(to), sizeof to), EINVAL);
    local.sin6_scope_id = second;
    FAILS(anabranch_bind(near, SA(local), sizeof local), EADDRNOTAVAIL);
    local.sin6_scope_id = 4711;
    FAILS(anabranch_bind(near, SA(local), sizeof local), EADDRNOTAVAIL);
    CHECK(anabranch_close(near) == 0 && anabranch_close(server.fd) == 0);
}

int main(int count, char **arguments)
{
    alarm(120);
    CHECK(count == 3);
    first = if_nametoindex(arguments[1]);
    second = if_nametoindex(arguments[2]);
    CHECK(first != 0 && second != 0);
    ipv4();
    links();
    CHECK(anabranch_finish(20000) == 0);
    printf("passed\n");
    return 0;
}
