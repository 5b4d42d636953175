/* Authenticated chunks (RFC 4895): secrets of sockets and associations, and their notifications. */
#include "ends.h"

#include <unistd.h>

static struct server server;
static int near, far;

static void set_key(int fd, uint16_t number, const char *secret)
{
    _Alignas(8) char room[sizeof(struct sctp_authkey) + 32];
    struct sctp_authkey *key = (struct sctp_authkey *)room;
    size_t length = strlen(secret);
    *key = (struct sctp_authkey){.sca_keynumber = number, .sca_keylength = (uint16_t)length};
    memcpy(room + sizeof *key, secret, length);
    CHECK(option(fd, IPPROTO_SCTP, SCTP_AUTH_KEY, room, (socklen_t)(sizeof *key + length)) == 0);
    FAILS(option(fd, IPPROTO_SCTP, SCTP_AUTH_KEY, room, sizeof *key), EINVAL);
}

static void activate(int fd, uint16_t number)
{
    struct sctp_authkeyid active = {.scact_keynumber = number};
    SET(fd, SCTP_AUTH_ACTIVE_KEY, active);
}

static void say(int from, int to, const char *text)
{
    char room[64];
    int flags = 0;
    struct sctp_sndrcvinfo info;
    CHECK(anabranch_sctp_sendmsg(from, text, strlen(text), NULL, 0, 0, 0, 0, 0, 0) == (ssize_t)strlen(text));
    ssize_t got = anabranch_sctp_recvmsg(to, room, sizeof room, NULL, NULL, &info, &flags);
    CHECK(got == (ssize_t)strlen(text) && memcmp(room, text, (size_t)got) == 0);
}

/* Sends a message that names its secret: as ancillary data, then by sctp_sendv. */
static ssize_t send_with(int fd, uint16_t number)
{
    struct iovec piece = {"key", 3};
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(struct sctp_authinfo))] = {0};
    struct msghdr message = {
        .msg_iov = &piece, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    struct cmsghdr *item = CMSG_FIRSTHDR(&message);
    *item = (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof(struct sctp_authinfo)),
                             .cmsg_level = IPPROTO_SCTP,
                             .cmsg_type = SCTP_AUTHINFO};
    struct sctp_authinfo info = {.auth_keynumber = number};
    memcpy(CMSG_DATA(item), &info, sizeof info);
    errno = 0;
    ssize_t sent = anabranch_sendmsg(fd, &message, 0);
    int error = errno;
    CHECK(anabranch_sctp_sendv(fd, &piece, 1, NULL, 0, &info, sizeof info, SCTP_SENDV_AUTHINFO, 0) == sent);
    struct sctp_sendv_spa all = {.sendv_flags = SCTP_SEND_AUTHINFO_VALID, .sendv_authinfo = info};
    CHECK(anabranch_sctp_sendv(fd, &piece, 1, NULL, 0, &all, sizeof all, SCTP_SENDV_SPA, 0) == sent);
    CHECK(sent == 3 || errno == error);
    return sent;
}

static void told(int fd, uint32_t indication, uint16_t number)
{
    _Alignas(8) char room[256];
    int flags = 0;
    struct sctp_sndrcvinfo info;
    ssize_t got = anabranch_sctp_recvmsg(fd, room, sizeof room, NULL, NULL, &info, &flags);
    const struct sctp_authkey_event *event = (const struct sctp_authkey_event *)room;
    CHECK(got == (ssize_t)sizeof *event && (flags & MSG_NOTIFICATION));
    CHECK(event->auth_type == SCTP_AUTHENTICATION_EVENT && event->auth_length == sizeof *event);
    CHECK(event->auth_indication == indication && event->auth_keynumber == number);
}

static unsigned chunks(int fd, int name)
{
    struct { struct sctp_authchunks head; uint8_t chunks[64]; } list;
    socklen_t length = sizeof list;
    memset(&list, 0, sizeof list);
    CHECK(anabranch_getsockopt(fd, IPPROTO_SCTP, name, &list, &length) == 0);
    return list.head.gauth_number_of_chunks;
}

static void algorithms(int fd)
{
    const struct { uint32_t count; uint16_t list[2]; } best = {2, {3, 1}}, other = {2, {1, 3}}, wrong = {1, {3, 1}};
    struct { uint32_t count; uint16_t list[2]; } got = {0};
    SET(fd, SCTP_HMAC_IDENT, best);
    socklen_t length = sizeof got;
    CHECK(anabranch_getsockopt(fd, IPPROTO_SCTP, SCTP_HMAC_IDENT, &got, &length) == 0);
    CHECK(length == sizeof got && memcmp(&best, &got, sizeof got) == 0);
    FAILS(option(fd, IPPROTO_SCTP, SCTP_HMAC_IDENT, &other, sizeof other), EOPNOTSUPP);
    FAILS(option(fd, IPPROTO_SCTP, SCTP_HMAC_IDENT, &wrong, sizeof wrong), EINVAL);
    FAILS(option(fd, IPPROTO_SCTP, SCTP_HMAC_IDENT, &best, 6), EINVAL);
}

static void begin(int authenticates)
{
    server = serve(SOCK_STREAM, 1);
    near = client(SOCK_STREAM, &server);
    algorithms(near);
    struct sctp_authchunk data = {0};
    if (authenticates) {
        SET(server.fd, SCTP_AUTH_CHUNK, data);
        set_key(server.fd, 1, "first");
        activate(server.fd, 1);
    }
    set_key(near, 1, "first");
    activate(near, 1);
    subscribe(near, SCTP_AUTHENTICATION_EVENT);
    connect_to(near, &server);
    far = anabranch_accept(server.fd, NULL, NULL);
    CHECK(far >= 0);
    subscribe(far, SCTP_AUTHENTICATION_EVENT);
}

static void end(void)
{
    CHECK(anabranch_close(near) == 0 && anabranch_close(far) == 0);
    CHECK(anabranch_close(server.fd) == 0);
}

static void keys(void)
{
    begin(1);
    CHECK(chunks(near, SCTP_PEER_AUTH_CHUNKS) == 1 && chunks(near, SCTP_LOCAL_AUTH_CHUNKS) == 0);
    CHECK(chunks(far, SCTP_PEER_AUTH_CHUNKS) == 0 && chunks(far, SCTP_LOCAL_AUTH_CHUNKS) == 1);
    struct sctp_assoc_value supported = {0};
    socklen_t length = sizeof supported;
    CHECK(anabranch_getsockopt(near, IPPROTO_SCTP, SCTP_AUTH_SUPPORTED, &supported, &length) == 0);
    CHECK(supported.assoc_value == 1);
    say(near, far, "one");
    set_key(near, 2, "second");
    set_key(far, 2, "second");
    activate(near, 2);
    CHECK(anabranch_sctp_sendmsg(near, "two", 3, NULL, 0, 0, 0, 0, 0, 0) == 3);
    told(far, SCTP_AUTH_NEW_KEY, 2);
    char room[8];
    CHECK(anabranch_recv(far, room, sizeof room, 0) == 3);
    /* A message may name the active secret only. */
    CHECK(send_with(near, 2) == 3);
    for (int i = 0; i < 3; i++)
        CHECK(anabranch_recv(far, room, sizeof room, 0) == 3);
    FAILS(send_with(near, 1), EOPNOTSUPP);
    FAILS(send_with(near, 9), EINVAL);
    struct sctp_authkeyid old = {.scact_keynumber = 1}, active = {.scact_keynumber = 2};
    FAILS(option(near, IPPROTO_SCTP, SCTP_AUTH_DEACTIVATE_KEY, &active, sizeof active), EINVAL);
    SET(near, SCTP_AUTH_DEACTIVATE_KEY, old);
    told(near, SCTP_AUTH_FREE_KEY, 1);
    SET(near, SCTP_AUTH_DELETE_KEY, old);
    FAILS(option(near, IPPROTO_SCTP, SCTP_AUTH_DELETE_KEY, &old, sizeof old), EINVAL);
    say(near, far, "three");
    /* The handshake is over. */
    struct sctp_authchunk data = {0};
    FAILS(option(near, IPPROTO_SCTP, SCTP_AUTH_CHUNK, &data, sizeof data), EOPNOTSUPP);
    end();
}

static void a_peer_without(void)
{
    begin(0);
    told(near, SCTP_AUTH_NO_AUTH, 0);
    say(near, far, "as it is");
    end();
}

int main(void)
{
    keys();
    a_peer_without();
    return 0;
}
