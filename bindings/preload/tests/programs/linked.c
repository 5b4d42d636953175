/* Linked with libsctp, in all versions of sctp_connectx: 'server' prints its port and accepts, 'client PORT' connects
 * three times. Prints how many files with the name libsctp the process has in its memory. */
#include <arpa/inet.h>
#include <dlfcn.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

int sctp_connectx(int, struct sockaddr *, int, int *);
int sctp_bindx(int, struct sockaddr *, int, int);
int oldest(int, struct sockaddr *, int);
int older(int, struct sockaddr *, int, int *);
__asm__(".symver oldest, sctp_connectx@VERS_1\n.symver older, sctp_connectx@VERS_2");

static void must(int is_true, const char *what)
{
	if (!is_true) {
		perror(what);
		exit(1);
	}
}

/* Other files than the one with the functions. */
static int others(void)
{
	char line[4096];
	int count = 0;
	FILE *maps = fopen("/proc/self/maps", "r");
	while (fgets(line, sizeof line, maps))
		count += !!strstr(line, "/libsctp");
	fclose(maps);
	return count;
}

int main(int count, char **arguments)
{
	struct sockaddr_in address = {.sin_family = AF_INET};
	socklen_t length = sizeof address;
	int fds[3], id = -1;
	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	must(dlsym(dlopen("libsctp.so.1", RTLD_LAZY), "sctp_bindx") == (void *)sctp_bindx, "dlopen");
	for (int n = 0; n < 3; n++)
		must((fds[n] = socket(AF_INET, SOCK_STREAM, IPPROTO_SCTP)) >= 0, "socket");
	if (count < 3) {
		must(!sctp_bindx(fds[0], (struct sockaddr *)&address, 1, 1) && !listen(fds[0], 5), "listen");
		must(!getsockname(fds[0], (struct sockaddr *)&address, &length), "getsockname");
		printf("%d\n", ntohs(address.sin_port));
		fflush(stdout);
		for (int n = 0; n < 3; n++)
			must(accept(fds[0], NULL, NULL) >= 0, "accept");
	} else {
		address.sin_port = htons(atoi(arguments[2]));
		must(!oldest(fds[0], (struct sockaddr *)&address, 1), "sctp_connectx@VERS_1");
		must(!older(fds[1], (struct sockaddr *)&address, 1, &id) && id > 0, "sctp_connectx@VERS_2");
		must(!sctp_connectx(fds[2], (struct sockaddr *)&address, 1, &id) && id > 0, "sctp_connectx");
	}
	printf("%d others\n", others());
	return 0;
}
