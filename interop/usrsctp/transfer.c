/* A transfer over usrsctp for the laboratory: `usrsctp-transfer receive|send LOCAL REMOTE PORT SIZE MESSAGE`.
 * docs/lab.md, "Programs", describes its output and when it ends. */
#include "../peer/stack.h"

#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static void say(const char *what)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    printf("%" PRIu64 " %s\n", (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec, what);
}

static void fail(const char *what)
{
    fprintf(stderr, "usrsctp-transfer: %s: %s\n", what, strerror(errno));
    exit(1);
}

static void address(const char *text, uint16_t port, struct addresses *out)
{
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons(port)};
    if (inet_pton(AF_INET, text, &v4.sin_addr) != 1) {
        fprintf(stderr, "usrsctp-transfer: %s is not an IPv4 address\n", text);
        exit(2);
    }
    memset(out, 0, sizeof *out);
    memcpy(out->packed, &v4, sizeof v4);
    out->count = 1;
    out->bytes = sizeof v4;
}

/* The parent process closes the input when the transfer is over. */
static void *wait_for_end(void *sender)
{
    char byte;
    while (read(0, &byte, 1) > 0)
        ;
    struct sctpstat counted;
    memset(&counted, 0, sizeof counted);
    usrsctp_get_stat(&counted);
    if (sender) {
        char text[80];
        snprintf(text, sizeof text, "told timeouts %u", counted.sctps_timodata);
        say(text);
        snprintf(text, sizeof text, "told retransmitted_chunks_path1 %u", counted.sctps_sendretransdata);
        say(text);
        snprintf(text, sizeof text, "told fast_retransmitted_chunks %u", counted.sctps_sendfastretrans);
        say(text);
    }
    /* The parent ends the peer, too, so no shutdown is needed. */
    exit(0);
}

/* It subscribes to nothing. */
void notified(const void *notification, size_t length)
{
    (void)notification;
    (void)length;
}

static void receive(stack_socket s)
{
    static char buffer[1 << 20];
    struct message m;
    uint16_t port;
    if (stack_listen(s) != 0)
        fail("listen");
    say("ready");
    stack_socket from = stack_accept(s, &port);
    if (!from)
        fail("accept");
    ssize_t count;
    while ((count = stack_receive(from, buffer, sizeof buffer, &m)) > 0) {
        char text[40];
        snprintf(text, sizeof text, "arrived %zd", count);
        say(text);
    }
}

static void send_all(stack_socket s, struct addresses *remote, size_t size, size_t each)
{
    char *bytes = calloc(1, each);
    struct message m = {0};
    say("started");
    if (stack_connect(s, remote) != 0)
        return; /* the transfer reports that */
    say("connected");
    while (size > 0) {
        size_t length = size < each ? size : each;
        if (stack_send(s, bytes, length, &m) != 0)
            return;
        size -= length;
    }
    for (;;)
        pause();
}

int main(int argc, char **argv)
{
    int sends = argc == 7 && strcmp(argv[1], "send") == 0;
    if (argc != 7 || (!sends && strcmp(argv[1], "receive") != 0)) {
        fprintf(stderr, "usrsctp-transfer receive|send LOCAL REMOTE PORT SIZE MESSAGE\n");
        return 2;
    }
    uint16_t port = (uint16_t)atoi(argv[4]);
    size_t size = strtoull(argv[5], NULL, 10), each = strtoull(argv[6], NULL, 10);
    struct addresses local, remote;
    address(argv[2], sends ? 0 : port, &local);
    address(argv[3], port, &remote);
    setvbuf(stdout, NULL, _IOLBF, 0);
    stack_start(0, 0);
    stack_socket s = stack_open(AF_INET);
    if (!s)
        fail("socket");
    int buffer = 1 << 20, on = 1;
    stack_option(s, SOL_SOCKET, SO_SNDBUF, &buffer, sizeof buffer);
    stack_option(s, SOL_SOCKET, SO_RCVBUF, &buffer, sizeof buffer);
    stack_option(s, IPPROTO_SCTP, SCTP_NODELAY, &on, sizeof on);
    if (stack_bind(s, &local) != 0)
        fail("bind");
    pthread_t waiting;
    if (pthread_create(&waiting, NULL, wait_for_end, sends ? s : NULL) != 0)
        fail("thread");
    if (sends)
        send_all(s, &remote, size, each);
    else
        receive(s);
    return 0;
}
