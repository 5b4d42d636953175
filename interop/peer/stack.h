/* The peer program's interface to an SCTP stack. One file implements it for usrsctp, one for the
 * sockets of the Linux kernel. The names of options and structures are those of RFC 6458. */
#ifndef STACK_H
#define STACK_H

#include <netinet/in.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>

#ifdef STACK_USRSCTP
#include <usrsctp.h>
#ifndef SCTP_INTERLEAVING_SUPPORTED /* missing in Debian's header */
#define SCTP_INTERLEAVING_SUPPORTED 0x00001206
#endif
#else
#include <linux/sctp.h>
#endif

#define MAX_ADDRESSES 16

/* A socket of the stack. */
typedef struct stack_socket *stack_socket;

/* Packed socket addresses, as the socket API requires. */
struct addresses {
    int count;
    size_t bytes;
    char packed[MAX_ADDRESSES * sizeof(struct sockaddr_in6)];
};

/* Attributes of a message. */
struct message {
    uint16_t stream;
    uint32_t ppid;
    int unordered;
    int whole; /* the last byte of a message was received */
};

/* Starts the stack. `udp` is the local UDP port, 0 without encapsulation. If `silent`, the stack does not
 * answer packets that do not belong to an association. */
void stack_start(uint16_t udp, int silent);
void stack_finish(void);

stack_socket stack_open(int family);
int stack_option(stack_socket s, int level, int name, const void *value, socklen_t length);
int stack_query(stack_socket s, int level, int name, void *value, socklen_t *length);
int stack_bind(stack_socket s, struct addresses *local);
/* Adds addresses to a socket that is bound, or removes them. */
int stack_rebind(stack_socket s, struct addresses *local, int add);
int stack_connect(stack_socket s, struct addresses *remote);
int stack_listen(stack_socket s);
/* Accepts the next association, and stores the SCTP port of its peer. */
stack_socket stack_accept(stack_socket s, uint16_t *port);
/* Called by stack_receive for each notification that the socket's user has subscribed to. */
void notified(const void *notification, size_t length);
/* Bytes received, 0 after the peer's SHUTDOWN, -1 with errno when the association is lost. */
ssize_t stack_receive(stack_socket s, void *buffer, size_t size, struct message *m);
int stack_send(stack_socket s, const void *bytes, size_t length, const struct message *m);
/* Ends sending: SHUTDOWN. */
void stack_shutdown(stack_socket s);
void stack_close(stack_socket s);

#endif
