/* Sends messages on several streams and checks the replies.
 *
 * echo_client UDP_PORT SCTP_PORT ADDRESS... */
#include <anabranch.h>
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST 16

static void check(int result, const char *call)
{
    if (result < 0) {
        perror(call);
        exit(1);
    }
}

int main(int argc, char **argv)
{
    if (argc < 4) {
        fprintf(stderr, "usage: %s UDP_PORT SCTP_PORT ADDRESS...\n", argv[0]);
        return 2;
    }
    struct sockaddr_in addresses[MOST] = {{0}};
    int count = 0;
    for (int i = 3; i < argc && count < MOST; i++, count++) {
        addresses[count].sin_family = AF_INET;
        addresses[count].sin_port = htons((uint16_t)atoi(argv[2]));
        if (inet_pton(AF_INET, argv[i], &addresses[count].sin_addr) != 1) {
            fprintf(stderr, "%s is not an IPv4 address\n", argv[i]);
            return 2;
        }
    }

    int fd = anabranch_socket(AF_INET, SOCK_STREAM, IPPROTO_SCTP);
    check(fd, "socket");
    struct sctp_udpencaps encapsulation = {0};
    encapsulation.sue_address.ss_family = AF_INET;
    encapsulation.sue_port = htons((uint16_t)atoi(argv[1]));
    check(anabranch_setsockopt(fd, IPPROTO_SCTP, SCTP_REMOTE_UDP_ENCAPS_PORT, &encapsulation,
                               sizeof encapsulation),
          "SCTP_REMOTE_UDP_ENCAPS_PORT");
    check(anabranch_sctp_connectx(fd, (struct sockaddr *)addresses, count, NULL), "sctp_connectx");

    struct sockaddr *peer;
    int paths = anabranch_sctp_getpaddrs(fd, 0, &peer);
    check(paths, "sctp_getpaddrs");
    anabranch_sctp_freepaddrs(peer);

    for (uint16_t stream = 0; stream < 4; stream++) {
        char sent[64], back[64];
        int length = snprintf(sent, sizeof sent, "message on stream %d", stream);
        check((int)anabranch_sctp_sendmsg(fd, sent, (size_t)length, NULL, 0, htonl(7), 0, stream,
                                          0, 0),
              "sctp_sendmsg");
        ssize_t got = anabranch_recv(fd, back, sizeof back, 0);
        if (got != length || memcmp(sent, back, (size_t)length) != 0) {
            fprintf(stderr, "stream %d: the reply differs from the message\n", stream);
            return 1;
        }
    }
    printf("4 messages came back from a peer with %d addresses\n", paths);
    check(anabranch_close(fd), "close");
    check(anabranch_finish(5000), "finish");
    return 0;
}
