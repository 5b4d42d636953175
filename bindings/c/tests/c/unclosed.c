/* Written for kernel SCTP: programs that do not close their sockets before exit. */
#include "check.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/sctp.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

static struct sockaddr_in local;

static int open_socket(void)
{
    int fd = socket(AF_INET, SOCK_STREAM, IPPROTO_SCTP);
    CHECK(fd >= 0);
    return fd;
}

/* Closes nothing; one socket waits for peers. */
static void client(void)
{
    int near = open_socket(), hard = open_socket(), listener = open_socket();
    struct linger at_once = {.l_onoff = 1};
    struct sockaddr_in own = {.sin_family = AF_INET, .sin_addr = local.sin_addr};
    CHECK(bind(listener, (struct sockaddr *)&own, sizeof own) == 0 && listen(listener, 1) == 0);
    CHECK(connect(near, (struct sockaddr *)&local, sizeof local) == 0);
    CHECK(connect(hard, (struct sockaddr *)&local, sizeof local) == 0);
    CHECK(setsockopt(hard, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once) == 0);
    CHECK(send(near, "hello", 5, 0) == 5);
}

/* Sees one association end gracefully, and the other one as SO_LINGER demands. */
static void server(void)
{
    int listener = open_socket();
    char bytes[10];
    CHECK(bind(listener, (struct sockaddr *)&local, sizeof local) == 0 && listen(listener, 5) == 0);
    CHECK(write(STDOUT_FILENO, "ready\n", 6) == 6);
    int far = accept(listener, NULL, NULL), hard = accept(listener, NULL, NULL);
    CHECK(far >= 0 && hard >= 0);
    CHECK(recv(far, bytes, sizeof bytes, 0) == 5 && memcmp(bytes, "hello", 5) == 0);
    CHECK(recv(far, bytes, sizeof bytes, 0) == 0);
    CHECK(recv(hard, bytes, sizeof bytes, 0) == -1 && errno == ECONNRESET);
}

int main(int count, char **arguments)
{
    CHECK(count == 4);
    local = (struct sockaddr_in){.sin_family = AF_INET};
    local.sin_port = htons((uint16_t)atoi(arguments[3]));
    local.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    alarm(60);
    if (strcmp(arguments[1], "server") == 0)
        server();
    else
        client();
    return 0;
}
