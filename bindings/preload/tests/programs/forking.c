/* A server that forks a process for each peer, which executes a program on the socket, as socat and inetd do. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static void die(const char *what)
{
    perror(what);
    exit(1);
}

int main(int argc, char **argv)
{
    struct sockaddr_in own = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof own;
    int peers = argc > 1 ? atoi(argv[1]) : 1, peer, status, fd = socket(AF_INET, SOCK_STREAM, IPPROTO_SCTP);
    if (fd < 0)
        die("socket");
    if (bind(fd, (struct sockaddr *)&own, sizeof own) || listen(fd, 100))
        die("listen");
    /* The lowest free number, as POSIX promises. */
    close(0);
    if ((peer = socket(AF_INET, SOCK_STREAM, IPPROTO_SCTP)) != 0)
        die("not the lowest descriptor");
    if (dup2(fd, 100) != 100 || close(fd))
        die("dup2");
    fd = 100;
    if (getsockname(fd, (struct sockaddr *)&own, &len))
        die("getsockname");
    printf("%d\n", ntohs(own.sin_port));
    fflush(stdout);
    for (int i = 0; i < peers; i++) {
        do
            peer = accept4(fd, NULL, NULL, SOCK_CLOEXEC);
        while (peer < 0 && errno == EINTR);
        if (peer < 0)
            die("accept4");
        if (!(fcntl(peer, F_GETFD) & FD_CLOEXEC))
            die("not closed by exec");
        if (fork() == 0) {
            if (dup2(peer, 0) != 0 || dup2(peer, 1) != 1)
                die("dup2");
            execlp("cat", "cat", (char *)NULL);
            die("cat");
        }
        close(peer);
    }
    for (int i = 0; i < peers; i++)
        if (wait(&status) < 0 || !WIFEXITED(status) || WEXITSTATUS(status))
            die("a child failed");
    return 0;
}
