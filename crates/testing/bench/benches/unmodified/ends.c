/* Ends of one-to-one sockets on 127.0.0.1: ends echo | ping COUNT | hold | idle COUNT */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { PORT = 5000, SIZE = 64, WARM = 100 };

static void die(const char *what)
{
    perror(what);
    exit(1);
}

static int open_socket(void)
{
    int fd = socket(AF_INET, SOCK_STREAM, IPPROTO_SCTP);
    if (fd < 0)
        die("socket");
    return fd;
}

static struct sockaddr_in where(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(PORT)};
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return at;
}

static int connected(void)
{
    struct sockaddr_in at = where();
    int fd = open_socket();
    if (connect(fd, (struct sockaddr *)&at, sizeof at))
        die("connect");
    return fd;
}

static int listener(void)
{
    struct sockaddr_in at = where();
    int fd = open_socket();
    if (bind(fd, (struct sockaddr *)&at, sizeof at) || listen(fd, 1000))
        die("listen");
    return fd;
}

/* Sends the messages of one peer back. */
static void echo(void)
{
    char message[SIZE];
    ssize_t length;
    int fd = accept(listener(), NULL, NULL);
    if (fd < 0)
        die("accept");
    while ((length = recv(fd, message, sizeof message, 0)) > 0)
        if (send(fd, message, length, 0) != length)
            die("send");
    close(fd);
}

static int by_value(const void *left, const void *right)
{
    int64_t one = *(const int64_t *)left, other = *(const int64_t *)right;
    return (one > other) - (one < other);
}

static int64_t now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

/* Prints the median time of a message and its echo, in nanoseconds. */
static void ping(int count)
{
    char message[SIZE] = "ping";
    int64_t *times = calloc(count, sizeof *times);
    int fd = connected();
    if (!times)
        die("calloc");
    for (int i = -WARM; i < count; i++) {
        int64_t begun = now();
        if (send(fd, message, sizeof message, 0) != sizeof message || recv(fd, message, sizeof message, 0) != sizeof message)
            die("ping");
        if (i >= 0)
            times[i] = now() - begun;
    }
    qsort(times, count, sizeof *times, by_value);
    printf("%lld\n", (long long)times[count / 2]);
    close(fd);
}

/* Accepts until it is killed, and keeps all. */
static void hold(void)
{
    int fd = listener();
    while (accept(fd, NULL, NULL) >= 0)
        ;
    die("accept");
}

/* Connects, and keeps all until it is killed. Says when the first and the last one are there. */
static void idle(int count)
{
    for (int i = 0; i < count; i++) {
        connected();
        if (i == 0)
            puts("begun");
        fflush(stdout);
    }
    puts("done");
    fflush(stdout);
    for (;;)
        pause();
}

int main(int argc, char **argv)
{
    const char *role = argc > 1 ? argv[1] : "";
    int count = argc > 2 ? atoi(argv[2]) : 0;
    if (!strcmp(role, "echo"))
        echo();
    else if (!strcmp(role, "ping") && count > 0)
        ping(count);
    else if (!strcmp(role, "hold"))
        hold();
    else if (!strcmp(role, "idle") && count > 0)
        idle(count);
    else
        return 2;
    return 0;
}
