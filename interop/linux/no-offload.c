/* Turns off a network device's segmentation and checksum offloads: with them, Linux loses packets when it
 * sends SCTP over UDP through the device. Usage: no-offload DEVICE */
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

int main(int argc, char **argv)
{
    static const unsigned int features[] = {ETHTOOL_SGSO, ETHTOOL_STSO, ETHTOOL_SSG,
                                            ETHTOOL_STXCSUM};
    int s = socket(AF_INET, SOCK_DGRAM, 0);
    if (argc != 2 || s < 0)
        return 1;
    for (size_t i = 0; i < sizeof features / sizeof *features; i++) {
        struct ethtool_value value = {.cmd = features[i], .data = 0};
        struct ifreq request;
        memset(&request, 0, sizeof request);
        strncpy(request.ifr_name, argv[1], IFNAMSIZ - 1);
        request.ifr_data = (void *)&value;
        ioctl(s, SIOCETHTOOL, &request); /* fails if the device lacks the offload */
    }
    return 0;
}
