/* Uses files, pipes and the kernel's sockets in the ways that the library looks at, and nothing of SCTP. */
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

static void need(int right)
{
    if (!right)
        _exit(1);
}

static void exchange(int from, int to)
{
    char bytes[8];
    struct iovec part = {bytes, sizeof bytes};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    struct pollfd ready = {to, POLLIN, 0};
    int length = 0;
    need(write(from, "one", 3) == 3 && poll(&ready, 1, -1) == 1 && !ioctl(to, FIONREAD, &length) && length == 3);
    need(read(to, bytes, sizeof bytes) == 3);
    need(send(from, "two", 3, 0) == 3 && recv(to, bytes, sizeof bytes, 0) == 3);
    memcpy(bytes, "three", 5);
    part.iov_len = 5;
    need(sendmsg(from, &message, 0) == 5 && recvmsg(to, &message, 0) == 5);
    need(writev(from, &part, 1) == 5 && readv(to, &part, 1) == 5);
}

int main(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof at;
    int one = 1, pair[2], pipes[2], status, listener, client, server;
    char byte;
    pid_t child;
    /* What comes before this is the loading of the program. */
    need(write(-1, "main", 4) == -1);
    need((listener = socket(AF_INET, SOCK_STREAM, 0)) >= 0);
    need(!setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one));
    need(!bind(listener, (struct sockaddr *)&at, sizeof at) && !listen(listener, 1));
    need(!getsockname(listener, (struct sockaddr *)&at, &length));
    need((client = socket(AF_INET, SOCK_STREAM, 0)) >= 0 && !connect(client, (struct sockaddr *)&at, sizeof at));
    need((server = accept4(listener, NULL, NULL, SOCK_CLOEXEC)) >= 0);
    exchange(client, server);
    need(!shutdown(client, SHUT_WR) && read(server, &byte, 1) == 0);
    need(!socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
    exchange(pair[0], pair[1]);
    need(!pipe(pipes) && write(pipes[1], "!", 1) == 1 && read(pipes[0], &byte, 1) == 1);
    need(dup2(pipes[1], 50) == 50 && !close(50) && fcntl(pipes[0], F_DUPFD_CLOEXEC, 60) >= 60);
    need((child = fork()) >= 0);
    if (child == 0)
        _exit(write(pair[0], "?", 1) != 1);
    need(waitpid(child, &status, 0) == child && status == 0 && read(pair[1], &byte, 1) == 1);
    return 0;
}
