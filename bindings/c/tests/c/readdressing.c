/* Addresses that leave and join associations that are up (RFC 5061): sctp_bindx and SCTP_SET_PEER_PRIMARY_ADDR. */
#include "ends.h"

#include <unistd.h>

static struct server server;
static int near, far;

/* Waits until the peer has changed one of its addresses, and passes over other changes of paths. */
static void told(int fd, int state, const char *text)
{
    struct sockaddr_in expected = at(text, 0);
    for (;;) {
        union sctp_notification event = notified(fd, SCTP_PEER_ADDR_CHANGE);
        struct sockaddr_in address;
        memcpy(&address, &event.sn_paddr_change.spc_aaddr, sizeof address);
        if (event.sn_paddr_change.spc_state != state)
            continue;
        CHECK(address.sin_addr.s_addr == expected.sin_addr.s_addr);
        return;
    }
}

static void begin(int changes)
{
    struct sctp_assoc_value on = {.assoc_value = (uint32_t)changes};
    socklen_t length = sizeof on;
    server = serve(SOCK_STREAM, 2);
    near = client(SOCK_STREAM, &server);
    SET(server.fd, SCTP_ASCONF_SUPPORTED, on);
    SET(near, SCTP_ASCONF_SUPPORTED, on);
    subscribe(near, SCTP_PEER_ADDR_CHANGE);
    connect_to(near, &server);
    far = anabranch_accept(server.fd, NULL, NULL);
    CHECK(far >= 0);
    on.assoc_value = 2;
    CHECK(anabranch_getsockopt(near, IPPROTO_SCTP, SCTP_ASCONF_SUPPORTED, &on, &length) == 0);
    CHECK(on.assoc_value == (uint32_t)changes);
}

static void end(void)
{
    CHECK(anabranch_close(near) == 0 && anabranch_close(far) == 0);
    CHECK(anabranch_close(server.fd) == 0);
}

static int peer_addresses(int fd)
{
    struct sockaddr *list;
    int count = anabranch_sctp_getpaddrs(fd, 0, &list);
    anabranch_sctp_freepaddrs(list);
    return count;
}

static void addresses_go_and_come_back(void)
{
    struct sockaddr_in second = at("127.0.0.2", 0), other = at("127.0.0.3", 0), first = at("127.0.0.1", 0);
    struct sctp_setpeerprim preferred = {0};
    begin(1);
    CHECK(peer_addresses(near) == 2);
    CHECK(anabranch_sctp_bindx(far, SA(second), 1, SCTP_BINDX_REM_ADDR) == 0);
    told(near, SCTP_ADDR_REMOVED, "127.0.0.2");
    CHECK(peer_addresses(near) == 1);
    FAILS(anabranch_sctp_bindx(far, SA(first), 1, SCTP_BINDX_REM_ADDR), EINVAL);
    FAILS(anabranch_sctp_bindx(far, SA(first), 1, SCTP_BINDX_ADD_ADDR), EADDRINUSE);
    FAILS(anabranch_sctp_bindx(far, SA(other), 1, SCTP_BINDX_REM_ADDR), EOPNOTSUPP);
    CHECK(anabranch_sctp_bindx(far, SA(second), 1, SCTP_BINDX_ADD_ADDR) == 0);
    told(near, SCTP_ADDR_ADDED, "127.0.0.2");
    CHECK(peer_addresses(near) == 2);
    memcpy(&preferred.sspp_addr, &second, sizeof second);
    SET(far, SCTP_SET_PEER_PRIMARY_ADDR, preferred);
    told(near, SCTP_ADDR_MADE_PRIM, "127.0.0.2");
    /* One that the socket was not bound to. */
    CHECK(anabranch_sctp_bindx(far, SA(other), 1, SCTP_BINDX_ADD_ADDR) == 0);
    told(near, SCTP_ADDR_ADDED, "127.0.0.3");
    CHECK(peer_addresses(near) == 3);
    other = at("127.0.0.4", 0);
    memcpy(&preferred.sspp_addr, &other, sizeof other);
    FAILS(option(far, IPPROTO_SCTP, SCTP_SET_PEER_PRIMARY_ADDR, &preferred, sizeof preferred), EADDRNOTAVAIL);
    end();
}

static void a_peer_without(void)
{
    struct sockaddr_in second = at("127.0.0.2", 0);
    struct sctp_setpeerprim preferred = {0};
    begin(0);
    memcpy(&preferred.sspp_addr, &second, sizeof second);
    FAILS(anabranch_sctp_bindx(far, SA(second), 1, SCTP_BINDX_REM_ADDR), EOPNOTSUPP);
    FAILS(option(far, IPPROTO_SCTP, SCTP_SET_PEER_PRIMARY_ADDR, &preferred, sizeof preferred), EPERM);
    end();
}

int main(void)
{
    addresses_go_and_come_back();
    a_peer_without();
    return 0;
}
