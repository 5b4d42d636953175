/* The library and its process: signals, forks, exit. Each case runs in its own process. */
#include "check.h"

#include <anabranch.h>
#include <arpa/inet.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

static struct sockaddr_in local;
static volatile sig_atomic_t signals;

#define SA(address) ((struct sockaddr *)&(address))

static void finish(void)
{
    printf("finish %d\n", anabranch_finish(20000));
}

static int listening(int *udp)
{
    int fd = anabranch_socket(AF_INET, SOCK_STREAM, IPPROTO_SCTP), zero = 0;
    socklen_t length = sizeof *udp;
    CHECK(anabranch_setsockopt(fd, IPPROTO_SCTP, ANABRANCH_LOCAL_UDP_PORT, &zero, sizeof zero) == 0);
    local = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(5000)};
    local.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    CHECK(anabranch_bind(fd, SA(local), sizeof local) == 0);
    CHECK(anabranch_listen(fd, 5) == 0);
    CHECK(anabranch_getsockopt(fd, IPPROTO_SCTP, ANABRANCH_LOCAL_UDP_PORT, udp, &length) == 0);
    return fd;
}

static int connected(int udp)
{
    int fd = anabranch_socket(AF_INET, SOCK_STREAM, IPPROTO_SCTP);
    struct sctp_udpencaps to = {.sue_port = htons((uint16_t)udp)};
    to.sue_address.ss_family = AF_INET;
    CHECK(anabranch_setsockopt(fd, IPPROTO_SCTP, SCTP_REMOTE_UDP_ENCAPS_PORT, &to, sizeof to) == 0);
    CHECK(anabranch_connect(fd, SA(local), sizeof local) == 0);
    return fd;
}

static void count(int number)
{
    (void)number;
    signals++;
}

/* Calls `count` repeatedly after a while: a single signal between the check of a flag and the wait would
 * be missed. */
static void tick(int flags)
{
    struct sigaction action = {.sa_handler = count, .sa_flags = flags};
    struct itimerval often = {{0, 20000}, {0, 20000}};
    CHECK(sigaction(SIGALRM, &action, NULL) == 0);
    CHECK(setitimer(ITIMER_REAL, &often, NULL) == 0);
}

/* A handler without SA_RESTART ends a wait; one with SA_RESTART does not, unless there is a time limit. */
static void interrupted(void)
{
    int udp, server = listening(&udp), near = connected(udp);
    int far = anabranch_accept(server, NULL, NULL);
    char byte;
    tick(0);
    CHECK(anabranch_accept(server, NULL, NULL) == -1 && errno == EINTR);
    CHECK(anabranch_recv(far, &byte, 1, 0) == -1 && errno == EINTR);
    tick(SA_RESTART);
    signals = 0;
    struct timeval limit = {60, 0};
    CHECK(anabranch_setsockopt(far, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) == 0);
    CHECK(anabranch_recv(far, &byte, 1, 0) == -1 && errno == EINTR && signals > 0);
    limit.tv_sec = 0;
    CHECK(anabranch_setsockopt(far, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) == 0);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        /* Let the parent handle signals while it waits, before it gets its message. */
        usleep(200000);
        _exit(0);
    }
    signals = 0;
    while (waitpid(child, NULL, 0) == -1)
        CHECK(errno == EINTR);
    CHECK(signals > 0);
    CHECK(anabranch_send(near, "x", 1, 0) == 1);
    CHECK(anabranch_recv(far, &byte, 1, 0) == 1 && byte == 'x');
}

/* Messages sent before the peer closed are received however late the association is accepted. */
static void late(void)
{
    int udp, server = listening(&udp), near = connected(udp);
    CHECK(anabranch_send(near, "hello", 5, 0) == 5);
    CHECK(anabranch_close(near) == 0);
    /* Only waits for clients: the association ends although it has not been accepted. */
    struct pollfd there = {server, POLLIN, 0};
    CHECK(poll(&there, 1, 20000) == 1);
    CHECK(anabranch_finish(20000) == 0);
    struct sockaddr_in from;
    socklen_t length = sizeof from;
    char bytes[10];
    int far = anabranch_accept(server, SA(from), &length);
    CHECK(far >= 0 && from.sin_addr.s_addr == local.sin_addr.s_addr && from.sin_port != 0);
    CHECK(anabranch_recv(far, bytes, sizeof bytes, 0) == 5 && memcmp(bytes, "hello", 5) == 0);
    CHECK(anabranch_recv(far, bytes, sizeof bytes, 0) == 0);
}

/* A forked child cannot use its parent's sockets, but can open its own. */
static void forked(void)
{
    int udp, server = listening(&udp), near = connected(udp);
    int far = anabranch_accept(server, NULL, NULL), status;
    char byte;
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        CHECK(anabranch_send(near, "x", 1, 0) == -1 && errno == EBADF);
        CHECK(anabranch_recv(far, &byte, 1, 0) == -1 && errno == EBADF);
        CHECK(anabranch_accept(server, NULL, NULL) == -1 && errno == EBADF);
        CHECK(anabranch_is_socket(near) == 0);
        int own = connected(udp);
        CHECK(anabranch_send(own, "c", 1, 0) == 1 && anabranch_close(own) == 0);
        CHECK(anabranch_finish(20000) == 0);
        _exit(0);
    }
    int of_child = anabranch_accept(server, NULL, NULL);
    CHECK(of_child >= 0 && anabranch_recv(of_child, &byte, 1, 0) == 1 && byte == 'c');
    CHECK(anabranch_recv(of_child, &byte, 1, 0) == 0 && anabranch_close(of_child) == 0);
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    CHECK(anabranch_send(near, "p", 1, 0) == 1);
    CHECK(anabranch_recv(far, &byte, 1, 0) == 1 && byte == 'p');
}

/* A forked child inherits `atexit` handlers but has nothing to finish. */
static void child_ends(void)
{
    int status;
    CHECK(atexit(finish) == 0);
    CHECK(anabranch_close(anabranch_socket(AF_INET, SOCK_STREAM, IPPROTO_SCTP)) == 0);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0)
        exit(3);
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 3);
}

/* With SO_LINGER, close reports whether sent data was delivered. */
static void lingered(void)
{
    static char block[60000];
    int udp, server = listening(&udp), near = connected(udp), slow = connected(udp);
    int far = anabranch_accept(server, NULL, NULL);
    struct linger wait = {1, 20}, moment = {1, 1};
    CHECK(anabranch_setsockopt(near, SOL_SOCKET, SO_LINGER, &wait, sizeof wait) == 0);
    CHECK(anabranch_setsockopt(slow, SOL_SOCKET, SO_LINGER, &moment, sizeof moment) == 0);
    CHECK(anabranch_send(near, "x", 1, 0) == 1);
    CHECK(anabranch_close(near) == 0);
    CHECK(anabranch_recv(far, block, 1, 0) == 1);
    /* The peer does not read. */
    while (anabranch_send(slow, block, sizeof block, MSG_DONTWAIT) > 0)
        ;
    CHECK(errno == EAGAIN);
    CHECK(anabranch_close(slow) == -1 && errno == ETIMEDOUT);
    CHECK(anabranch_close(slow) == -1 && errno == EBADF);
}

/* Data is still delivered at exit, when thread-local variables are already gone. */
static void at_exit(const char *udp)
{
    CHECK(atexit(finish) == 0);
    local = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(5000)};
    local.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = connected(atoi(udp));
    CHECK(anabranch_send(fd, "bye", 3, 0) == 3 && anabranch_close(fd) == 0);
    exit(0);
}

static void parent_of_exit(const char *program)
{
    int udp, server = listening(&udp), status;
    char text[16], bytes[10];
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        snprintf(text, sizeof text, "%d", udp);
        execl(program, program, "at-exit", text, (char *)NULL);
        _exit(1);
    }
    int far = anabranch_accept(server, NULL, NULL);
    CHECK(far >= 0 && anabranch_recv(far, bytes, sizeof bytes, 0) == 3);
    CHECK(anabranch_recv(far, bytes, sizeof bytes, 0) == 0 && anabranch_close(far) == 0);
    CHECK(waitpid(child, &status, 0) == child && status == 0);
}

int main(int count, char **arguments)
{
    const char *what = count > 1 ? arguments[1] : "";
    if (strcmp(what, "interrupted") == 0)
        interrupted();
    else if (strcmp(what, "late") == 0)
        late();
    else if (strcmp(what, "forked") == 0)
        forked();
    else if (strcmp(what, "lingered") == 0)
        lingered();
    else if (strcmp(what, "child-ends") == 0)
        child_ends();
    else if (strcmp(what, "exit") == 0)
        parent_of_exit(arguments[0]);
    else if (strcmp(what, "at-exit") == 0 && count > 2)
        at_exit(arguments[2]);
    else
        return 2;
    printf("passed\n");
    return 0;
}
