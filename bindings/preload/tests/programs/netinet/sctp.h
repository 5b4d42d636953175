/* What libsctp's header has besides <linux/sctp.h>, for hosts without it. */
#ifndef NETINET_SCTP_H
#define NETINET_SCTP_H
#include <linux/sctp.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>

#ifndef SOL_SCTP
#define SOL_SCTP 132
#endif

#ifndef SCTP_SENDV_NOINFO
#define SCTP_SENDV_NOINFO 0
#define SCTP_SENDV_SNDINFO 1
#endif

int sctp_bindx(int fd, struct sockaddr *addresses, int count, int flags);
int sctp_connectx(int fd, struct sockaddr *addresses, int count, sctp_assoc_t *id);
int sctp_getpaddrs(int fd, sctp_assoc_t id, struct sockaddr **addresses);
int sctp_freepaddrs(struct sockaddr *addresses);
ssize_t sctp_sendmsg(int fd, const void *data, size_t length, struct sockaddr *to, socklen_t tolen, uint32_t ppid,
                     uint32_t flags, uint16_t stream, uint32_t timetolive, uint32_t context);
ssize_t sctp_sendv(int fd, const struct iovec *list, int count, struct sockaddr *addresses, int address_count,
                   void *info, socklen_t info_length, unsigned int info_type, int flags);
ssize_t sctp_recvmsg(int fd, void *data, size_t length, struct sockaddr *from, socklen_t *fromlen,
                     struct sctp_sndrcvinfo *info, int *flags);
#endif
