/* Both ends of an association, with system calls as a static program makes them. 'server' prints its port and echoes
 * on the same stream; 'client PORT' checks what comes back. The environment variable SERVER may have another address than
 * that of loopback, and 'server PORT' another port than a free one. */
#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#define SCTP 132
#define LONGEST 100000

/* struct sctp_sndrcvinfo */
struct info {
	uint16_t stream, ssn, flags;
	uint32_t ppid, context, ttl, tsn, cumulative;
	int32_t id;
};

static char sent[LONGEST], back[LONGEST];

static int fails(long result, int expected)
{
	if (result == -1 && errno == expected)
		return 1;
	fprintf(stderr, "%ld, errno %d in place of %d\n", result, errno, expected);
	return 0;
}

static int opened(void)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, SCTP);
	assert(fd >= 0 && fcntl(fd, F_GETFD) == FD_CLOEXEC);
	/* SCTP_EVENTS: only data_io_event. */
	char events[14] = {1};
	assert(!setsockopt(fd, SCTP, 11, events, sizeof events));
	return fd;
}

static struct sockaddr_in local(int port)
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
	address.sin_addr.s_addr = inet_addr(getenv("SERVER") ? getenv("SERVER") : "127.0.0.1");
	return address;
}

static void send_on(int fd, int stream, const char *data, size_t length)
{
	union {
		struct cmsghdr head;
		char room[CMSG_SPACE(sizeof(struct info))];
	} control = {0};
	/* In two pieces. */
	struct iovec pieces[2] = {{(char *)data, length / 2}, {(char *)data + length / 2, length - length / 2}};
	struct msghdr message = {.msg_iov = pieces, .msg_iovlen = 2};
	struct info info = {.stream = stream, .ppid = htonl(7)};
	message.msg_control = &control;
	message.msg_controllen = sizeof control;
	control.head.cmsg_level = SCTP;
	control.head.cmsg_type = 1;
	control.head.cmsg_len = CMSG_LEN(sizeof info);
	memcpy(CMSG_DATA(&control.head), &info, sizeof info);
	assert(sendmsg(fd, &message, 0) == (ssize_t)length);
}

/* Receives a message in parts. Returns its length, 0 at the end, or -1. */
static ssize_t receive(int fd, int *stream, size_t part)
{
	size_t length = 0;
	for (;;) {
		char control[256];
		size_t room = sizeof back - length < part ? sizeof back - length : part;
		struct iovec pieces[2] = {{back + length, room / 3}, {back + length + room / 3, room - room / 3}};
		struct msghdr message = {.msg_iov = pieces, .msg_iovlen = 2, .msg_control = control,
					 .msg_controllen = sizeof control};
		ssize_t got = recvmsg(fd, &message, 0);
		if (got <= 0)
			return got;
		length += got;
		struct cmsghdr *head = CMSG_FIRSTHDR(&message);
		assert(head && head->cmsg_level == SCTP && head->cmsg_type == 1);
		struct info info;
		memcpy(&info, CMSG_DATA(head), sizeof info);
		*stream = info.stream;
		if (message.msg_flags & MSG_EOR)
			return length;
	}
}

static void serve(int port)
{
	int listener = opened();
	struct sockaddr_in address = local(port), peer;
	socklen_t length = sizeof address;
	assert(!bind(listener, (struct sockaddr *)&address, sizeof address) && !listen(listener, 5));
	assert(!getsockname(listener, (struct sockaddr *)&address, &length) && length == sizeof address);
	printf("%d\n", ntohs(address.sin_port));
	fflush(stdout);
	for (int peers = 0; peers < 2; peers++) {
		struct pollfd waits = {.fd = listener, .events = POLLIN};
		assert(poll(&waits, 1, 30000) == 1);
		int fd = accept4(listener, (struct sockaddr *)&peer, &length, SOCK_CLOEXEC), stream;
		assert(fd >= 0 && peer.sin_family == AF_INET && peer.sin_port);
		/* Accepted sockets have the options of the listener. */
		ssize_t got;
		while ((got = receive(fd, &stream, 30000)) > 0)
			send_on(fd, stream, back, got);
		assert(got == 0 && !close(fd));
	}
	puts("served");
}

static void nothing(int number) { (void)number; }

/* A timer that ends calls, or begins them again. */
static void interrupt(int flags)
{
	struct sigaction action = {.sa_handler = nothing, .sa_flags = flags};
	struct itimerval soon = {.it_value = {0, 50000}};
	assert(!sigaction(SIGALRM, &action, NULL) && !setitimer(ITIMER_REAL, &soon, NULL));
}

static void in_other_ways(int fd)
{
	int stream;
	/* The kernel's own calls. */
	for (int n = 1; n < 20; n++) {
		assert(write(fd, sent, n * 100) == n * 100);
		assert(read(fd, back, sizeof back) == n * 100 && !memcmp(sent, back, n * 100));
	}
	/* Both kinds, one after the other. */
	assert(write(fd, "one", 3) == 3 && send(fd, "two", 3, 0) == 3 && write(fd, "three", 5) == 5);
	assert(read(fd, back, 100) == 3 && !memcmp(back, "one", 3));
	assert(receive(fd, &stream, 100) == 3 && !memcmp(back, "two", 3));
	assert(receive(fd, &stream, 100) == 5 && !memcmp(back, "three", 5));
	/* The rest of a message stays, and a look leaves all of it. */
	assert(send(fd, "a longer message", 16, 0) == 16);
	assert(recv(fd, back, 100, MSG_PEEK) == 16 && recv(fd, back, 2, 0) == 2 && recv(fd, back, 6, 0) == 6);
	assert(!memcmp(back, "longer", 6) && read(fd, back, 100) == 8);
	/* Without waiting. */
	assert(fails(recv(fd, back, 100, MSG_DONTWAIT), EAGAIN));
	struct timeval limit = {0, 20000};
	assert(!setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit));
	assert(fails(recv(fd, back, 100, 0), EAGAIN) && fails(read(fd, back, 100), EAGAIN));
	limit.tv_usec = 0;
	assert(!setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit));
	/* Signals. */
	interrupt(0);
	assert(fails(recv(fd, back, 100, 0), EINTR));
	interrupt(SA_RESTART);
	pid_t child = fork();
	if (!child) {
		usleep(200000);
		_exit(send(fd, "late", 4, 0) != 4);
	}
	assert(recv(fd, back, 100, 0) == 4 && !memcmp(back, "late", 4));
	int status;
	assert(wait(&status) == child && status == 0);
	/* What is wrong fails. */
	assert(fails(send(fd, (char *)16, 100, 0), EFAULT));
	assert(fails(sendmsg(fd, NULL, 0), EFAULT));
	/* Go's programs use -1 after they have closed a descriptor. */
	assert(fails(recv(-1, back, 100, 0), EBADF) && fails(shutdown(1 << 30, SHUT_WR), EBADF));
	assert(fails(setsockopt(fd, SCTP, 9999, &stream, sizeof stream), ENOPROTOOPT));
	assert(fails(sendmmsg(fd, NULL, 0, 0), EOPNOTSUPP));
}

static void check(int port)
{
	struct sockaddr_in address = local(port), nobody = local(1), peer;
	socklen_t length = sizeof peer;
	int fd = opened(), stream;
	assert(fails(recv(fd, back, 100, 0), ENOTCONN));
	assert(fails(getpeername(fd, (struct sockaddr *)&peer, &length), ENOTCONN));
	assert(fails(connect(fd, (struct sockaddr *)&nobody, sizeof nobody), ECONNREFUSED));
	close(fd);
	fd = opened();
	assert(!connect(fd, (struct sockaddr *)&address, sizeof address));
	assert(!getpeername(fd, (struct sockaddr *)&peer, &length) && peer.sin_port == address.sin_port);
	for (int n = 1; n <= 30; n++) {
		size_t size = n == 30 ? LONGEST : n * 50;
		memset(sent, n, size);
		send_on(fd, n % 5, sent, size);
		assert(receive(fd, &stream, n == 7 ? 11 : LONGEST) == (ssize_t)size && stream == n % 5);
		assert(!memcmp(sent, back, size));
	}
	in_other_ways(fd);
	/* The end. Usually the association has gone when the program reads what is left. */
	struct pollfd answer = {.fd = fd, .events = POLLIN};
	send_on(fd, 2, "left over", 9);
	assert(poll(&answer, 1, 30000) == 1 && !shutdown(fd, SHUT_WR));
	usleep(200000);
	assert(recv(fd, back, 4, 0) == 4 && receive(fd, &stream, 100) == 5 && stream == 2);
	assert(receive(fd, &stream, 100) == 0 && read(fd, back, 1) == 0 && receive(fd, &stream, 100) == 0);
	assert(fails(send(fd, "more", 4, MSG_NOSIGNAL), EPIPE));
	close(fd);
	/* Without waiting for the association. */
	fd = opened();
	assert(!fcntl(fd, F_SETFL, O_NONBLOCK));
	assert(fails(connect(fd, (struct sockaddr *)&address, sizeof address), EINPROGRESS));
	struct pollfd waits = {.fd = fd, .events = POLLOUT};
	int error = 1;
	length = sizeof error;
	assert(poll(&waits, 1, 30000) == 1 && !getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length) && !error);
	send_on(fd, 3, "last", 4);
	waits.events = POLLIN;
	assert(poll(&waits, 1, 30000) == 1 && receive(fd, &stream, 100) == 4 && stream == 3);
	close(fd);
	puts("all came back");
}

int main(int count, char **arguments)
{
	int port = count > 2 ? atoi(arguments[2]) : 0;
	if (count > 1 && !strcmp(arguments[1], "client"))
		check(port);
	else
		serve(port);
	return 0;
}
