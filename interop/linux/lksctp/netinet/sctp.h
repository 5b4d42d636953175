/* Replaces <netinet/sctp.h> of lksctp in a guest without libsctp: the structures come from the kernel's
 * header, and the calls use recvmsg, sendmsg and setsockopt. */
#ifndef INTEROP_NETINET_SCTP_H
#define INTEROP_NETINET_SCTP_H

/* Defines names that the kernel's header lacks, such as the types of information and SOL_SCTP. */
#include <anabranch/netinet/sctp.h>
#include <errno.h>
#include <string.h>

/* Appends ancillary data to a message. */
static inline void sctp_put(struct msghdr *message, int type, const void *data, size_t length)
{
    struct cmsghdr *header = (struct cmsghdr *)((char *)message->msg_control + message->msg_controllen);
    header->cmsg_level = IPPROTO_SCTP;
    header->cmsg_type = type;
    header->cmsg_len = CMSG_LEN(length);
    memcpy(CMSG_DATA(header), data, length);
    message->msg_controllen += CMSG_SPACE(length);
}

/* Copies ancillary data of a type from a message. Returns whether there was any. */
static inline int sctp_take(struct msghdr *message, int type, void *data, size_t length)
{
    for (struct cmsghdr *at = CMSG_FIRSTHDR(message); at; at = CMSG_NXTHDR(message, at))
        if (at->cmsg_level == IPPROTO_SCTP && at->cmsg_type == type) {
            memcpy(data, CMSG_DATA(at), length);
            return 1;
        }
    return 0;
}

static inline int sctp_connectx(int fd, struct sockaddr *addresses, int count, sctp_assoc_t *id)
{
    size_t length = 0;
    for (int i = 0; i < count; i++) {
        const struct sockaddr *address = (const void *)((char *)addresses + length);
        length += address->sa_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
    }
    int number = setsockopt(fd, IPPROTO_SCTP, SCTP_SOCKOPT_CONNECTX, addresses, (socklen_t)length);
    if (id && number > 0)
        *id = number;
    return number < 0 ? -1 : 0;
}

static inline int sctp_sendmsg(int fd, const void *data, size_t length, struct sockaddr *to,
                               socklen_t to_length, uint32_t ppid, uint32_t flags, uint16_t stream,
                               uint32_t lifetime, uint32_t context)
{
    char control[CMSG_SPACE(sizeof(struct sctp_sndrcvinfo))] = {0};
    struct sctp_sndrcvinfo info = {.sinfo_stream = stream, .sinfo_flags = (uint16_t)flags,
                                   .sinfo_ppid = ppid, .sinfo_context = context,
                                   .sinfo_timetolive = lifetime};
    struct iovec piece = {(void *)data, length};
    struct msghdr message = {.msg_name = to, .msg_namelen = to_length, .msg_iov = &piece,
                             .msg_iovlen = 1, .msg_control = control};
    sctp_put(&message, SCTP_SNDRCV, &info, sizeof info);
    return (int)sendmsg(fd, &message, 0);
}

static inline int sctp_recvmsg(int fd, void *buffer, size_t length, struct sockaddr *from,
                               socklen_t *from_length, struct sctp_sndrcvinfo *info, int *flags)
{
    char control[256];
    struct iovec piece = {buffer, length};
    struct msghdr message = {.msg_name = from, .msg_namelen = from_length ? *from_length : 0,
                             .msg_iov = &piece, .msg_iovlen = 1, .msg_control = control,
                             .msg_controllen = sizeof control};
    int n = (int)recvmsg(fd, &message, flags ? *flags : 0);
    if (n < 0)
        return n;
    if (from_length)
        *from_length = message.msg_namelen;
    if (flags)
        *flags = message.msg_flags;
    if (info)
        sctp_take(&message, SCTP_SNDRCV, info, sizeof *info);
    return n;
}

/* Sends to the socket's peer. Sending to addresses is not supported. */
static inline int sctp_sendv(int fd, const struct iovec *pieces, int count, struct sockaddr *to,
                             int to_count, void *info, socklen_t info_length, unsigned int type, int flags)
{
    char control[CMSG_SPACE(sizeof(struct sctp_sndinfo)) + CMSG_SPACE(sizeof(struct sctp_prinfo))] = {0};
    struct msghdr message = {.msg_iov = (struct iovec *)pieces, .msg_iovlen = (size_t)count,
                             .msg_control = control};
    struct sctp_sendv_spa all = {0};
    if (type == SCTP_SENDV_SNDINFO && info_length >= sizeof all.sendv_sndinfo) {
        all.sendv_flags = SCTP_SEND_SNDINFO_VALID;
        memcpy(&all.sendv_sndinfo, info, sizeof all.sendv_sndinfo);
    } else if (type == SCTP_SENDV_SPA && info_length >= sizeof all) {
        memcpy(&all, info, sizeof all);
    } else {
        errno = EINVAL;
        return -1;
    }
    if (to && to_count > 0) {
        errno = EOPNOTSUPP;
        return -1;
    }
    if (all.sendv_flags & SCTP_SEND_SNDINFO_VALID)
        sctp_put(&message, SCTP_SNDINFO, &all.sendv_sndinfo, sizeof all.sendv_sndinfo);
    if (all.sendv_flags & SCTP_SEND_PRINFO_VALID)
        sctp_put(&message, SCTP_PRINFO, &all.sendv_prinfo, sizeof all.sendv_prinfo);
    return (int)sendmsg(fd, &message, flags);
}

static inline int sctp_recvv(int fd, const struct iovec *pieces, int count, struct sockaddr *from,
                             socklen_t *from_length, void *info, socklen_t *info_length,
                             unsigned int *type, int *flags)
{
    char control[256];
    struct msghdr message = {.msg_name = from, .msg_namelen = from_length ? *from_length : 0,
                             .msg_iov = (struct iovec *)pieces, .msg_iovlen = (size_t)count,
                             .msg_control = control, .msg_controllen = sizeof control};
    int n = (int)recvmsg(fd, &message, flags ? *flags : 0);
    if (n < 0)
        return n;
    if (from_length)
        *from_length = message.msg_namelen;
    if (flags)
        *flags = message.msg_flags;
    *type = SCTP_RECVV_NOINFO;
    if (*info_length >= sizeof(struct sctp_rcvinfo) &&
        sctp_take(&message, SCTP_RCVINFO, info, sizeof(struct sctp_rcvinfo))) {
        *type = SCTP_RECVV_RCVINFO;
        *info_length = sizeof(struct sctp_rcvinfo);
    }
    return n;
}

#endif
