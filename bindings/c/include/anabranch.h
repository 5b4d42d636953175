/* anabranch: SCTP in user space.
 *
 * The socket calls of POSIX and of RFC 6458 ("Sockets API Extensions for the Stream Control
 * Transmission Protocol") under the prefix anabranch_. Structures and constants come from the
 * system's headers. docs/c.md lists the differences from kernel sockets.
 *
 * A descriptor is a real file descriptor: poll, select and epoll can wait for it, and fcntl sets
 * O_NONBLOCK. For everything else use this library; close it only with anabranch_close.
 *
 * On error, calls return -1 and set errno. All calls are thread-safe. */
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

/* Definitions that <netinet/sctp.h> has and <linux/sctp.h> lacks. */
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

/* RFC 6458 section 8.1.26, which Linux lacks. With the option on (int) a message goes on over several
 * calls that send, until one with SCTP_EOR in its flags, or MSG_EOR. The number of the option is ours:
 * Linux has another one at FreeBSD's. */
#ifndef SCTP_EXPLICIT_EOR
#define SCTP_EXPLICIT_EOR 0x4105
#endif
#ifndef SCTP_EOR
#define SCTP_EOR 0x2000
#endif

/* Whether to offer NR-SACKs; for an established association, whether both sides negotiated them
 * (struct sctp_assoc_value, as in usrsctp; Linux has no such option). */
#ifndef SCTP_NRSACK_SUPPORTED
#define SCTP_NRSACK_SUPPORTED 0x30
#endif

/* The congestion control (struct sctp_assoc_value, as in FreeBSD and usrsctp; Linux has no such
 * option): that of RFC 9260, which is SCTP_CC_RFC2581 there, CUBIC, BBR version 3, or that
 * for paths that lose packets at random. Set it before listen or connect. FreeBSD's other numbers
 * are EINVAL. */
#ifndef SCTP_PLUGGABLE_CC
#define SCTP_PLUGGABLE_CC 0x1202
#define SCTP_CC_RFC2581 0
#endif
#define ANABRANCH_CC_CUBIC 0x4100
#define ANABRANCH_CC_BBR 0x4101
#define ANABRANCH_CC_BBR_LOSSY 0x4102

/* Schedulers for SCTP_STREAM_SCHEDULER that Linux's headers lack, or had not always. The number of
 * SCTP_SS_RR_PKT is ours. The value of a stream (SCTP_STREAM_SCHEDULER_VALUE) is its priority, where
 * smaller ones go first, or its weight. */
#define SCTP_SS_FC 3
#define SCTP_SS_FB SCTP_SS_FC
#define SCTP_SS_WFQ 4
#define SCTP_SS_RR_PKT 0x4100
/* The same by FreeBSD's and usrsctp's names. */
#ifndef SCTP_PLUGGABLE_SS
#define SCTP_PLUGGABLE_SS SCTP_STREAM_SCHEDULER
#define SCTP_SS_VALUE SCTP_STREAM_SCHEDULER_VALUE
#define SCTP_SS_FIRST_COME SCTP_SS_FCFS
#define SCTP_SS_ROUND_ROBIN SCTP_SS_RR
#define SCTP_SS_ROUND_ROBIN_PACKET SCTP_SS_RR_PKT
#define SCTP_SS_PRIORITY SCTP_SS_PRIO
#define SCTP_SS_FAIR_BANDWITH SCTP_SS_FC
#endif

/* Our own socket options, at the level IPPROTO_SCTP. Set them before bind, listen or connect opens
 * an endpoint. ANABRANCH_LOCAL_UDP_PORT is the local UDP port (int; the default is 9899 for sockets
 * that listen and a free port for those that connect). ANABRANCH_RAW_IP selects IP protocol 132
 * instead of UDP (int, needs CAP_NET_RAW). The option SCTP_REMOTE_UDP_ENCAPS_PORT (RFC 6951) sets
 * the peer's UDP port, 9899 by default. */
#define ANABRANCH_LOCAL_UDP_PORT 0x4100
#define ANABRANCH_RAW_IP 0x4101

/* An option of the engine by its name in docs/options.md: {0, "multipath", "cmt-pf"}. The name
 * "profile" sets all options to those of a profile. assoc_id selects future associations, an
 * established one or several (RFC 6458 section 7.1); some options cannot change once an association
 * is established. getsockopt returns the option's value. ENOPROTOOPT: unknown option; EINVAL:
 * invalid value. */
#define ANABRANCH_OPTION 0x4102
struct anabranch_option {
    sctp_assoc_t assoc_id;
    char name[60];
    char value[192];
};

/* A counter or measurement by its name in docs/counters.md (JSON, C). Without an address it is that of the
 * association, with one that of the path to it. Read-only. NaN: not measured yet. ENOPROTOOPT: unknown name. */
#define ANABRANCH_COUNTER 0x4104
struct anabranch_counter {
    sctp_assoc_t assoc_id;
    struct sockaddr_storage address;
    char name[60];
    double value;
};

/* An event that has no notification in RFC 6458, by its name in docs/events.md. A null-terminated sentence
 * follows the structure. Only SCTP_EVENT enables it. */
#define ANABRANCH_EVENT 0x8100
struct anabranch_event {
    uint16_t ae_type;
    uint16_t ae_flags;
    uint32_t ae_length;
    sctp_assoc_t ae_assoc_id;
    char ae_name[32];
};

/* Sets several of these options for future associations: "profile=bulk;rto_min=200ms". The order does
 * not matter. Either all options are set or none. On failure the call writes a text of at most len - 1
 * bytes to `reason`, unless that is null; the text begins with the name of the invalid option. */
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
/* Closes all open sockets, as process exit does; `anabranch_finish` waits for delivery. */
void anabranch_close_all(void);
/* FIONREAD only: number of bytes of the next message that have arrived. */
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
/* struct mmsghdr needs _GNU_SOURCE; `timeout` must be null. */
struct mmsghdr;
struct timespec;
int anabranch_sendmmsg(int fd, struct mmsghdr *messages, unsigned int count, int flags);
int anabranch_recvmmsg(int fd, struct mmsghdr *messages, unsigned int count, int flags,
                       struct timespec *timeout);

/* RFC 6458 section 9. Address lists are packed: each address has the size of its family. */
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

/* Explicit endpoints: UDP sockets with the same port on the given local addresses (count 0 means all
 * addresses of the host; ports in the list are ignored). udp_port 0 picks a free port, -1 selects IP
 * protocol 132. Sockets opened on an endpoint use its addresses and its UDP port. */
typedef struct anabranch_endpoint anabranch_endpoint;
anabranch_endpoint *anabranch_endpoint_new(const struct sockaddr *addresses, int count, int udp_port);
void anabranch_endpoint_free(anabranch_endpoint *endpoint);
int anabranch_endpoint_udp_port(const anabranch_endpoint *endpoint);
int anabranch_endpoint_associations(const anabranch_endpoint *endpoint);
int anabranch_endpoint_wait_idle(const anabranch_endpoint *endpoint, int milliseconds);
int anabranch_endpoint_socket(const anabranch_endpoint *endpoint, int domain, int type);

/* Endpoints with sealed paths (docs/sealed.md): everything is encrypted, and each uplink of a client is a path, also
 * behind address translators. Their addresses are virtual ones of IPv6, so their sockets are of AF_INET6. `key_file` has
 * the secret key, and is made if it is missing. On failure they return NULL and write a text of at most len - 1 bytes to
 * `reason`, unless that is null.
 *
 * A server listens on real addresses with their UDP ports: 0 is a free one, and count 0 means port 9899 of all addresses.
 * ANABRANCH_SEALED_ANYONE in `flags` lets everyone connect who knows its public key.
 *
 * A client has the server's invitation, a line. `uplinks` names interfaces or local addresses, "wlan0,10.0.0.1"; null
 * leaves the choice to the system's routes. */
#define ANABRANCH_SEALED_ANYONE 1
anabranch_endpoint *anabranch_endpoint_sealed_server(const struct sockaddr *addresses, int count, const char *key_file,
                                                     int flags, char *reason, size_t len);
anabranch_endpoint *anabranch_endpoint_sealed_client(const char *line, const char *key_file, const char *uplinks,
                                                     char *reason, size_t len);

/* Server: lets the client with this public key connect, or no longer, which ends its associations. A program that wants
 * to know its clients again after a restart stores their keys. */
int anabranch_endpoint_allow(const anabranch_endpoint *endpoint, const char *key);
int anabranch_endpoint_revoke(const anabranch_endpoint *endpoint, const char *key);

/* Server: writes an invitation with the addresses under which clients reach it; count 0 means those that it listens on.
 * ANABRANCH_INVITE_ONCE in `flags` admits whoever uses the line first. Returns the length; ERANGE: it does not fit. */
#define ANABRANCH_INVITE_ONCE 1
int anabranch_endpoint_invite(const anabranch_endpoint *endpoint, const struct sockaddr *addresses, int count, int flags,
                              char *line, size_t len);

/* Client: the server's addresses with this SCTP port (host byte order), for anabranch_sctp_connectx. Returns how many;
 * anabranch_sctp_freepaddrs frees them. */
int anabranch_endpoint_remotes(const anabranch_endpoint *endpoint, uint16_t port, struct sockaddr **addresses);

/* Writes the public key of the peer with this address (getpeername), or with NULL this endpoint's own. Returns its length;
 * ERANGE: it does not fit; EADDRNOTAVAIL: no peer has the address. */
int anabranch_endpoint_key(const anabranch_endpoint *endpoint, const struct sockaddr *address, socklen_t len, char *key,
                           size_t size);

/* Waits until the data that closed sockets sent is delivered, then closes the shared endpoints.
 * Gives up after this many milliseconds without progress; a negative number waits forever. Without
 * this call, associations end with the program. */
int anabranch_finish(int milliseconds);

/* The library's version, "0.1.0". */
const char *anabranch_version(void);

#ifdef __cplusplus
}
#endif

#endif
