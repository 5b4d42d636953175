/* Uses the plain names of the socket calls, with both ends in one process. Programs define _GNU_SOURCE as 1
 * or empty; test both. */
#ifdef GNU_IS_ONE
#define _GNU_SOURCE 1
#else
#define _GNU_SOURCE
#endif
#include "ends.h"

#include <fcntl.h>
#include <netinet/sctp.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* Makes later sockets connect to this server. */
static void to(const struct server *server)
{
    char udp[12];
    snprintf(udp, sizeof udp, "%d", server->udp);
    CHECK(setenv("ANABRANCH_REMOTE_UDP_PORT", udp, 1) == 0);
}

/* One-to-one style: each side sends a message. */
static void plain(void)
{
    struct server server = serve(SOCK_STREAM, 1);
    to(&server);
    int near = socket(AF_INET, SOCK_STREAM, IPPROTO_SCTP);
    struct sockaddr_in there = at("127.0.0.1", server.port);
    CHECK(connect(near, SA(there), sizeof there) == 0);
    int far = accept(server.fd, NULL, NULL);
    CHECK(far >= 0 && send(near, "there", 5, 0) == 5 && recv(far, big, sizeof big, 0) == 5);
    CHECK(write(far, "back", 4) == 4 && read(near, big, sizeof big) == 4);
    CHECK(close(near) == 0 && close(far) == 0 && close(server.fd) == 0);
}

/* Calls that only Linux has. */
static void of_linux(void)
{
    struct server server = serve(SOCK_STREAM, 1);
    to(&server);
    int near = socket(AF_INET, SOCK_STREAM, IPPROTO_SCTP), on = 1, waiting = -1, ends[2];
    struct sockaddr_in there = at("127.0.0.1", server.port);
    CHECK(connect(near, SA(there), sizeof there) == 0);
    int far = accept4(server.fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    CHECK(far >= 0 && (fcntl(far, F_GETFL) & O_NONBLOCK));
    struct iovec piece = {big, 10};
    struct mmsghdr messages[2] = {0};
    messages[0].msg_hdr = (struct msghdr){.msg_iov = &piece, .msg_iovlen = 1};
    CHECK(sendmmsg(near, messages, 1, 0) == 1 && messages[0].msg_len == 10);
    wait_for(far, POLLIN);
    CHECK(ioctl(far, FIONREAD, &waiting) == 0 && waiting == 10);
    CHECK(recvmmsg(far, messages, 1, MSG_DONTWAIT, NULL) == 1 && messages[0].msg_len == 10);
    CHECK(ioctl(near, FIONBIO, &on) == 0 && (fcntl(near, F_GETFL) & O_NONBLOCK));
    FAILS(recv(near, big, 1, 0), EAGAIN);
    /* Calls on the system's descriptors still go to the system. */
    CHECK(pipe(ends) == 0 && write(ends[1], "pipe", 4) == 4);
    CHECK(ioctl(ends[0], FIONREAD, &waiting) == 0 && waiting == 4);
    CHECK(close(ends[0]) == 0 && close(ends[1]) == 0);
    CHECK(close(near) == 0 && close(far) == 0 && close(server.fd) == 0);
}

/* An IPv6 socket shows IPv4 peers as mapped addresses, as on Linux. */
static void mapped(void)
{
    int listener, near, far, value = 0;
    struct sockaddr_in6 from = {.sin6_family = AF_INET6, .sin6_port = htons(4500)};
    CHECK(setenv("ANABRANCH_UDP_PORT", "0", 1) == 0);
    listener = socket(AF_INET6, SOCK_STREAM, IPPROTO_SCTP);
    CHECK(unsetenv("ANABRANCH_UDP_PORT") == 0);
    socklen_t length = sizeof value;
    CHECK(getsockopt(listener, IPPROTO_SCTP, SCTP_I_WANT_MAPPED_V4_ADDR, &value, &length) == 0);
    CHECK(value == 1);
    CHECK(bind(listener, SA(from), sizeof from) == 0 && listen(listener, 1) == 0);
    struct server server = {.fd = listener, .port = 4500};
    CHECK(getsockopt(listener, IPPROTO_SCTP, ANABRANCH_LOCAL_UDP_PORT, &server.udp, &length) == 0);
    to(&server);
    near = socket(AF_INET, SOCK_STREAM, IPPROTO_SCTP);
    struct sockaddr_in here = at("127.0.0.1", 0), there = at("127.0.0.1", server.port);
    CHECK(bind(near, SA(here), sizeof here) == 0);
    CHECK(connect(near, SA(there), sizeof there) == 0);
    length = sizeof from;
    far = accept(listener, SA(from), &length);
    CHECK(far >= 0 && length == sizeof from && from.sin6_family == AF_INET6);
    CHECK(IN6_IS_ADDR_V4MAPPED(&from.sin6_addr));
    /* It accepts the address that it showed: this is the peer's only one. */
    struct sctp_paddrparams params = {.spp_hbinterval = 7000, .spp_flags = SPP_HB_ENABLE};
    memcpy(&params.spp_address, &from, sizeof from);
    CHECK(setsockopt(far, IPPROTO_SCTP, SCTP_PEER_ADDR_PARAMS, &params, sizeof params) == 0);
    CHECK(close(near) == 0 && close(far) == 0 && close(listener) == 0);
}

int main(void)
{
    /* Fail instead of hanging. */
    alarm(120);
    plain();
    of_linux();
    mapped();
    printf("passed\n");
    return 0;
}
