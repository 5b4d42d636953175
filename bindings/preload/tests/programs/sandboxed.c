/* Forbids itself to open sockets once it has one, as sandboxed programs do. */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

static void die(const char *what)
{
    perror(what);
    exit(1);
}

static void forbid_sockets(void)
{
    struct sock_filter rules[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_socket, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EACCES),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof rules / sizeof *rules, rules};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
        die("seccomp");
}

static void exchange(int fd, const char *text)
{
    char back[100];
    ssize_t length = strlen(text);
    if (send(fd, text, length, 0) != length)
        die("send");
    if (recv(fd, back, sizeof back, 0) != length || memcmp(text, back, length))
        die("recv");
}

int main(int argc, char **argv)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof at;
    int fd = socket(AF_INET, SOCK_STREAM, IPPROTO_SCTP);
    at.sin_port = htons(argc > 1 ? atoi(argv[1]) : 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&at, sizeof at))
        die("connect");
    exchange(fd, "before");
    forbid_sockets();
    /* Data needs no further socket. */
    exchange(fd, "after");
    /* A call to the engine does: it fails with the sandbox's error. */
    if (getpeername(fd, (struct sockaddr *)&at, &length) != -1 || errno != EACCES)
        die("getpeername");
    if (socket(AF_INET, SOCK_STREAM, IPPROTO_SCTP) != -1 || errno != EACCES)
        die("socket");
    exchange(fd, "still");
    puts("done");
    return 0;
}
