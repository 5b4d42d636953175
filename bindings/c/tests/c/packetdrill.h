/* packetdrill's interface to user-space stacks, which it loads from a shared library. */
#ifndef PACKETDRILL_H
#define PACKETDRILL_H

#include <poll.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>

struct packetdrill_interface {
    void *userdata;
    void (*free)(void *);
    int (*socket)(void *, int, int, int);
    int (*bind)(void *, int, const struct sockaddr *, socklen_t);
    int (*listen)(void *, int, int);
    int (*accept)(void *, int, struct sockaddr *, socklen_t *);
    int (*connect)(void *, int, const struct sockaddr *, socklen_t);
    ssize_t (*read)(void *, int, void *, size_t);
    ssize_t (*recv)(void *, int, void *, size_t, int);
    ssize_t (*recvfrom)(void *, int, void *, size_t, int, struct sockaddr *, socklen_t *);
    ssize_t (*recvmsg)(void *, int, struct msghdr *, int);
    ssize_t (*write)(void *, int, const void *, size_t);
    ssize_t (*send)(void *, int, const void *, size_t, int);
    ssize_t (*sendto)(void *, int, const void *, size_t, int, const struct sockaddr *, socklen_t);
    ssize_t (*sendmsg)(void *, int, const struct msghdr *, int);
    int (*fcntl)(void *, int, int, long);
    int (*ioctl)(void *, int, unsigned long, void *);
    int (*close)(void *, int);
    int (*shutdown)(void *, int, int);
    int (*getsockopt)(void *, int, int, int, void *, socklen_t *);
    int (*setsockopt)(void *, int, int, int, const void *, socklen_t);
    int (*getpeername)(void *, int, struct sockaddr *, socklen_t *);
    int (*getsockname)(void *, int, struct sockaddr *, socklen_t *);
    int (*poll)(void *, struct pollfd *, nfds_t, int);
    int (*netdev_send)(void *, const void *, size_t);
    int (*netdev_receive)(void *, void *, size_t *, long long *);
    int (*sctp_bindx)(void *, int, struct sockaddr *, int, int);
    int (*sctp_connectx)(void *, int, struct sockaddr *, int, int32_t *);
    int (*sctp_peeloff)(void *, int, int32_t);
    int (*sctp_getpaddrs)(void *, int, int32_t, struct sockaddr **);
    int (*sctp_getladdrs)(void *, int, int32_t, struct sockaddr **);
    int (*sctp_sendmsg)(void *, int, const void *, size_t, struct sockaddr *, socklen_t, uint32_t,
                        uint32_t, uint16_t, uint32_t, uint32_t);
    int (*sctp_recvmsg)(void *, int, void *, size_t, struct sockaddr *, socklen_t *, void *, int *);
    int (*sctp_send)(void *, int, const void *, size_t, const void *, int);
    int (*sctp_sendv)(void *, int, const struct iovec *, int, struct sockaddr *, int, void *,
                      socklen_t, unsigned int, int);
    int (*sctp_recvv)(void *, int, const struct iovec *, int, struct sockaddr *, socklen_t *,
                      void *, socklen_t *, unsigned int *, int *);
};

void packetdrill_interface_init(const char *flags, struct packetdrill_interface *ifc);

#endif
