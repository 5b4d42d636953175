/* Calls that are answered from outside ('anabranch run --trap'), made by a program that gives no peace: thousands at once,
 * processes that die in the middle of one, and descriptors and memory that are gone before the answer. The argument is the
 * port of a server that echoes to any number of peers. */
#include <arpa/inet.h>
#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define SCTP 132
#define THREADS 4
#define PAGE 4096

static struct sockaddr_in server = {.sin_family = AF_INET};

static int opened(void)
{
	int fd = socket(AF_INET, SOCK_STREAM, SCTP);
	assert(fd >= 0);
	return fd;
}

static int connected(void)
{
	int fd = opened();
	assert(!connect(fd, (struct sockaddr *)&server, sizeof server));
	return fd;
}

static void *open_and_close(void *unused)
{
	for (int n = 0; n < 1000; n++) {
		char data[10];
		struct sockaddr_in name;
		socklen_t length = sizeof name;
		int fd = opened();
		assert(!getsockname(fd, (struct sockaddr *)&name, &length) && name.sin_family == AF_INET);
		assert(recv(fd, data, sizeof data, MSG_DONTWAIT) == -1 && (errno == EAGAIN || errno == ENOTCONN));
		setsockopt(fd, SCTP, n, data, 1);
		assert(!close(fd));
	}
	return unused;
}

/* Thousands of calls from several threads. */
static void thousands(void)
{
	pthread_t threads[THREADS];
	for (int n = 0; n < THREADS; n++)
		assert(!pthread_create(&threads[n], NULL, open_and_close, NULL));
	for (int n = 0; n < THREADS; n++)
		assert(!pthread_join(threads[n], NULL));
}

static void *wait_for_data(void *fd)
{
	char data[100];
	recv(*(int *)fd, data, sizeof data, 0);
	return NULL;
}

/* Processes that die while they set associations up, send, and wait: killed, or by themselves while a thread waits. */
static void deaths(void)
{
	for (int n = 0; n < 60; n++) {
		pid_t child = fork();
		if (!child) {
			pthread_t thread;
			int fd = connected(), other = n % 3 ? fd : opened();
			char data[PAGE] = {0};
			send(fd, data, sizeof data, 0);
			pthread_create(&thread, NULL, wait_for_data, &other);
			if (n % 2)
				_exit(0);
			for (;;)
				send(fd, data, sizeof data, 0);
		}
		assert(child > 0);
		if (n % 2 == 0) {
			usleep(n * 300);
			kill(child, SIGKILL);
		}
		assert(waitpid(child, NULL, 0) == child);
	}
}

static atomic_int stop;
/* A number that is a connected socket, a new one, or none. */
static int shared;

static void *exchange_descriptors(void *unused)
{
	int kinds[] = {connected(), opened(), open("/dev/null", O_RDWR)};
	for (int n = 0; !stop; n++) {
		if (n % 7 == 0)
			close(shared);
		else
			assert(dup2(kinds[n % 3], shared) == shared);
	}
	for (int n = 0; n < 3; n++)
		close(kinds[n]);
	return unused;
}

/* Answers belong to a descriptor that had the number during the call. */
static void races(void)
{
	pthread_t thread;
	int found = 0;
	shared = fcntl(0, F_DUPFD, 500);
	assert(shared >= 0 && !pthread_create(&thread, NULL, exchange_descriptors, NULL));
	for (int n = 0; n < 3000; n++) {
		char data[10];
		struct sockaddr_in peer = {0};
		socklen_t length = sizeof peer;
		if (!getpeername(shared, (struct sockaddr *)&peer, &length)) {
			/* The kernel answers if the number was another file at first: the end of a channel has a Unix name. */
			assert(peer.sin_family == AF_UNIX || peer.sin_port == server.sin_port);
			found++;
		} else {
			assert(errno == ENOTCONN || errno == ENOTSOCK || errno == EBADF);
		}
		ssize_t sent = send(shared, "x", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
		assert(sent == 1 || (sent == -1 && errno != EFAULT));
		/* What comes back was sent by this, or it is another end. */
		ssize_t got = recv(shared, data, sizeof data, MSG_DONTWAIT);
		assert(got <= 0 || (got == 1 && data[0] == 'x'));
	}
	stop = 1;
	assert(!pthread_join(thread, NULL) && found);
	close(shared);
}

static void *unmap_and_map(void *page)
{
	while (!stop) {
		munmap(page, PAGE);
		assert(mmap(page, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == page);
	}
	return NULL;
}

/* Memory that goes while it is read and written: EFAULT, and nothing is lost. */
static void memory(void)
{
	pthread_t thread;
	char data[10];
	int fd = connected();
	char *page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert(page != MAP_FAILED);
	stop = 0;
	assert(!pthread_create(&thread, NULL, unmap_and_map, page));
	for (int n = 0; n < 300; n++) {
		ssize_t sent = send(fd, page, 5, 0), got;
		if (sent == -1) {
			assert(errno == EFAULT);
			continue;
		}
		assert(sent == 5);
		while ((got = recv(fd, page, 5, 0)) == -1)
			assert(errno == EFAULT);
		assert(got == 5);
		/* A list of pieces that is not there. */
		struct msghdr message = {.msg_iov = (struct iovec *)page, .msg_iovlen = 200};
		assert(sendmsg(fd, &message, MSG_DONTWAIT) <= 0);
	}
	stop = 1;
	assert(!pthread_join(thread, NULL));
	munmap(page, PAGE);
	assert(send(fd, "still", 5, 0) == 5);
	ssize_t got;
	/* Empty messages of the lists came before. */
	while ((got = recv(fd, data, sizeof data, 0)) == 0)
		;
	assert(got == 5 && !memcmp(data, "still", 5));
	close(fd);
}

/* The last close of a socket in which another thread waits. */
static void closed_while_waiting(void)
{
	for (int n = 0; n < 20; n++) {
		pthread_t thread;
		int fd = connected();
		assert(!pthread_create(&thread, NULL, wait_for_data, &fd));
		usleep(n * 500);
		int copy = fd;
		assert(!close(copy));
		assert(!pthread_join(thread, NULL));
	}
}

/* Descriptors of the engine, which started this program. */
static int engines_descriptors(void)
{
	char name[64];
	int count = 0;
	snprintf(name, sizeof name, "/proc/%d/fd", getppid());
	DIR *directory = opendir(name);
	assert(directory);
	while (readdir(directory))
		count++;
	closedir(directory);
	return count;
}

int main(int count, char **arguments)
{
	server.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	server.sin_port = htons(count > 1 ? atoi(arguments[1]) : 0);
	/* A call that hangs ends the program. */
	alarm(120);
	close(connected());
	int before = engines_descriptors();
	thousands();
	deaths();
	races();
	memory();
	closed_while_waiting();
	/* Sockets go when their associations have ended. */
	while (engines_descriptors() > before + 5)
		usleep(50000);
	int fd = connected();
	char data[10];
	assert(send(fd, "answered", 8, 0) == 8 && recv(fd, data, sizeof data, 0) == 8 && !memcmp(data, "answered", 8));
	puts("still answered");
	return 0;
}
