/* anabranch: SCTP in user space.
 *
 * The socket calls of POSIX and of RFC 6458 ("Sockets API Extensions for the Stream Control
 * Transmission Protocol") under the prefix anabranch_. Structures and constants are those of the
 * system's headers. docs/c.md says what differs from sockets of a kernel.
 *
 * A descriptor is one of the system: poll, select and epoll wait for it and fcntl sets O_NONBLOCK.
 * Everything else goes through this library; close it only with anabranch_close.
 *
 * Calls return -1 and set errno on errors, and are safe from any thread. */
#ifndef ANABRANCH_H
#define ANABRANCH_H

#include <netinet/in.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>

#ifdef __has_include
#if __has_include(<netinet/sctp.h>)
#include <netinet/sctp.h>
#endif
#endif
#include <linux/sctp.h>

#ifdef __cplusplus
extern "C" {
#endif

#ifndef IPPROTO_SCTP
#define IPPROTO_SCTP 132
#endif

/* What <linux/sctp.h> lacks and <netinet/sctp.h> has. */
#ifndef HAVE_SCTP_SENDV
enum { SCTP_SENDV_NOINFO, SCTP_SENDV_SNDINFO, SCTP_SENDV_PRINFO, SCTP_SENDV_AUTHINFO, SCTP_SENDV_SPA };
enum { SCTP_RECVV_NOINFO, SCTP_RECVV_RCVINFO, SCTP_RECVV_NXTINFO, SCTP_RECVV_RN };
#define SCTP_SEND_SNDINFO_VALID 0x1
#define SCTP_SEND_PRINFO_VALID 0x2
#define SCTP_SEND_AUTHINFO_VALID 0x4
struct sctp_sendv_spa {
    uint32_t sendv_flags;
    struct sctp_sndinfo sendv_sndinfo;
    struct sctp_prinfo sendv_prinfo;
    struct sctp_authinfo sendv_authinfo;
};
struct sctp_recvv_rn {
    struct sctp_rcvinfo recvv_rcvinfo;
    struct sctp_nxtinfo recvv_nxtinfo;
};
#endif

/* RFC 6458 section 5.3.6; Linux has no such flag. */
#ifndef SCTP_COMPLETE
#define SCTP_COMPLETE 0x100
#endif

/* RFC 6458 sections 5.3.3 and 8.1.22, which Linux lacks; the numbers are ours. With the option on (int)
 * and sctp_data_io_event, recvmsg returns SCTP_EXTRCV instead of SCTP_SNDRCV. */
#ifndef SCTP_USE_EXT_RCVINFO
#define SCTP_USE_EXT_RCVINFO 0x4103
#define SCTP_EXTRCV 0x100
#define SCTP_NEXT_MSG_AVAIL 0x1
#define SCTP_NEXT_MSG_ISCOMPLETE 0x2
#define SCTP_NEXT_MSG_IS_UNORDERED 0x4
#define SCTP_NEXT_MSG_IS_NOTIFICATION 0x8
struct sctp_extrcvinfo {
    uint16_t sinfo_stream;
    uint16_t sinfo_ssn;
    uint16_t sinfo_flags;
    uint32_t sinfo_ppid;
    uint32_t sinfo_context;
    uint32_t sinfo_pr_value;
    uint32_t sinfo_tsn;
    uint32_t sinfo_cumtsn;
    uint16_t serinfo_next_flags;
    uint16_t serinfo_next_stream;
    sctp_assoc_t serinfo_next_aid;
    uint32_t serinfo_next_length;
    uint32_t serinfo_next_ppid;
    sctp_assoc_t sinfo_assoc_id;
};
#endif

/* Whether to offer NR-SACKs; for an association that is up, whether both sides negotiated them
 * (struct sctp_assoc_value, as in usrsctp; Linux has no such option). */
#ifndef SCTP_NRSACK_SUPPORTED
#define SCTP_NRSACK_SUPPORTED 0x30
#endif

/* Socket options of our own, at the level IPPROTO_SCTP, before bind, listen or connect has opened
 * an endpoint: the UDP port of this side (int; the default is 9899 for sockets that listen and a
 * free one for those that connect), and IP protocol 132 in place of UDP (int, needs CAP_NET_RAW).
 * The peer's UDP port is the option SCTP_REMOTE_UDP_ENCAPS_PORT (RFC 6951), 9899 by default. */
#define ANABRANCH_LOCAL_UDP_PORT 0x4100
#define ANABRANCH_RAW_IP 0x4101

/* An option of the engine by its name in docs/options.md: {0, "multipath", "cmt-pf"}. The name
 * "profile" sets all options to those of a profile. Applies to later associations, to one that is up or
 * to several (RFC 6458 section 7.1), if the option may change; getsockopt returns the value of the
 * name. ENOPROTOOPT: unknown option; EINVAL: invalid value. */
#define ANABRANCH_OPTION 0x4102
struct anabranch_option {
    sctp_assoc_t assoc_id;
    char name[60];
    char value[192];
};

/* A number that docs/counters.md lists, by its name there (JSON, C): of an association, or with an address
 * of the path to it. Only getsockopt. A number that is not known yet is a NaN. ENOPROTOOPT: unknown name. */
#define ANABRANCH_COUNTER 0x4104
struct anabranch_counter {
    sctp_assoc_t assoc_id;
    struct sockaddr_storage address;
    char name[60];
    double value;
};

/* A notification of an event that RFC 6458 has none for, by its name in docs/events.md. A sentence that ends
 * with a 0 follows the structure. Enabled with SCTP_EVENT only. */
#define ANABRANCH_EVENT 0x8100
struct anabranch_event {
    uint16_t ae_type;
    uint16_t ae_flags;
    uint32_t ae_length;
    sctp_assoc_t ae_assoc_id;
    char ae_name[32];
};

/* Sets several of these options for later associations: "profile=bulk;rto_min=200ms". The order does
 * not matter, and either all are set or none. If that fails, `reason` (unless it is null) gets a text of
 * at most len - 1 bytes that begins with the name of the option at fault. */
int anabranch_set_options(int fd, const char *list, char *reason, size_t len);

/* Sockets: SOCK_STREAM is one-to-one style, SOCK_SEQPACKET one-to-many. */
int anabranch_socket(int domain, int type, int protocol);
int anabranch_bind(int fd, const struct sockaddr *address, socklen_t len);
int anabranch_listen(int fd, int backlog);
int anabranch_accept(int fd, struct sockaddr *address, socklen_t *len);
int anabranch_accept4(int fd, struct sockaddr *address, socklen_t *len, int flags);
int anabranch_connect(int fd, const struct sockaddr *address, socklen_t len);
int anabranch_shutdown(int fd, int how);
int anabranch_close(int fd);
/* Closes all open sockets, as the end of a process does; `anabranch_finish` waits for delivery. */
void anabranch_close_all(void);
/* FIONREAD only: bytes of the next message, as far as it has come. */
int anabranch_ioctl(int fd, unsigned long request, int *value);
/* Whether a descriptor is a socket of this library: 1 or 0. */
int anabranch_is_socket(int fd);
int anabranch_getsockname(int fd, struct sockaddr *address, socklen_t *len);
int anabranch_getpeername(int fd, struct sockaddr *address, socklen_t *len);
int anabranch_getsockopt(int fd, int level, int name, void *value, socklen_t *len);
int anabranch_setsockopt(int fd, int level, int name, const void *value, socklen_t len);

/* Messages. */
ssize_t anabranch_send(int fd, const void *data, size_t len, int flags);
ssize_t anabranch_sendto(int fd, const void *data, size_t len, int flags, const struct sockaddr *to,
                         socklen_t tolen);
ssize_t anabranch_sendmsg(int fd, const struct msghdr *message, int flags);
ssize_t anabranch_write(int fd, const void *data, size_t len);
ssize_t anabranch_writev(int fd, const struct iovec *list, int count);
ssize_t anabranch_recv(int fd, void *buffer, size_t len, int flags);
ssize_t anabranch_recvfrom(int fd, void *buffer, size_t len, int flags, struct sockaddr *from,
                           socklen_t *fromlen);
ssize_t anabranch_recvmsg(int fd, struct msghdr *message, int flags);
ssize_t anabranch_read(int fd, void *buffer, size_t len);
ssize_t anabranch_readv(int fd, const struct iovec *list, int count);
/* struct mmsghdr and struct timespec are those of _GNU_SOURCE; the time must be null. */
struct mmsghdr;
struct timespec;
int anabranch_sendmmsg(int fd, struct mmsghdr *messages, unsigned int count, int flags);
int anabranch_recvmmsg(int fd, struct mmsghdr *messages, unsigned int count, int flags,
                       struct timespec *timeout);

/* RFC 6458 section 9. Lists of addresses are packed: each takes its family's size. */
int anabranch_sctp_bindx(int fd, const struct sockaddr *addresses, int count, int flags);
int anabranch_sctp_connectx(int fd, const struct sockaddr *addresses, int count, sctp_assoc_t *id);
int anabranch_sctp_peeloff(int fd, sctp_assoc_t id);
int anabranch_sctp_peeloff_flags(int fd, sctp_assoc_t id, unsigned int flags);
sctp_assoc_t anabranch_sctp_getassocid(int fd, const struct sockaddr *address, socklen_t len);
int anabranch_sctp_getaddrlen(sa_family_t family);
int anabranch_sctp_getpaddrs(int fd, sctp_assoc_t id, struct sockaddr **addresses);
int anabranch_sctp_freepaddrs(struct sockaddr *addresses);
int anabranch_sctp_getladdrs(int fd, sctp_assoc_t id, struct sockaddr **addresses);
int anabranch_sctp_freeladdrs(struct sockaddr *addresses);
int anabranch_sctp_opt_info(int fd, sctp_assoc_t id, int name, void *value, socklen_t *len);
ssize_t anabranch_sctp_sendmsg(int fd, const void *data, size_t len, const struct sockaddr *to,
                               socklen_t tolen, uint32_t ppid, uint32_t flags, uint16_t stream,
                               uint32_t timetolive, uint32_t context);
ssize_t anabranch_sctp_recvmsg(int fd, void *buffer, size_t len, struct sockaddr *from,
                               socklen_t *fromlen, struct sctp_sndrcvinfo *info, int *flags);
ssize_t anabranch_sctp_send(int fd, const void *data, size_t len,
                            const struct sctp_sndrcvinfo *info, int flags);
ssize_t anabranch_sctp_sendx(int fd, const void *data, size_t len, const struct sockaddr *addresses,
                             int count, const struct sctp_sndrcvinfo *info, int flags);
ssize_t anabranch_sctp_sendv(int fd, const struct iovec *list, int count,
                             const struct sockaddr *addresses, int address_count, const void *info,
                             socklen_t info_len, unsigned int info_type, int flags);
ssize_t anabranch_sctp_recvv(int fd, const struct iovec *list, int count, struct sockaddr *from,
                             socklen_t *fromlen, void *info, socklen_t *info_len,
                             unsigned int *info_type, int *flags);

/* Endpoints of a program's own choice: UDP sockets of one port on some local addresses (count 0
 * means all of the host; ports in the list are ignored). udp_port 0 takes a free one, -1 is IP
 * protocol 132. Sockets opened on an endpoint use its addresses and its UDP port. */
typedef struct anabranch_endpoint anabranch_endpoint;
anabranch_endpoint *anabranch_endpoint_new(const struct sockaddr *addresses, int count, int udp_port);
void anabranch_endpoint_free(anabranch_endpoint *endpoint);
int anabranch_endpoint_udp_port(const anabranch_endpoint *endpoint);
int anabranch_endpoint_associations(const anabranch_endpoint *endpoint);
int anabranch_endpoint_wait_idle(const anabranch_endpoint *endpoint, int milliseconds);
int anabranch_endpoint_socket(const anabranch_endpoint *endpoint, int domain, int type);

/* Waits until what closed sockets sent is delivered, and closes the endpoints that sockets shared.
 * Gives up when nothing has moved for this many milliseconds; a negative number waits for ever. Without
 * this call associations end with the program. */
int anabranch_finish(int milliseconds);

/* The library's version, "0.1.0". */
const char *anabranch_version(void);

#ifdef __cplusplus
}
#endif

#endif
