/* Ray's servers listen on every network interface, whatever address the node is given.  Preloaded into all processes of
 * a job, this makes "every interface" mean one of them: JOINTRL_BIND_ADDRESS, an IPv4 address.  Compiled by
 * train.cluster.network at a job's start:  cc -O2 -shared -fPIC -o bind.so bind.c -ldl */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dlfcn.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

int bind(int socket, const struct sockaddr *given, socklen_t length) {
    int (*system_bind)(int, const struct sockaddr *, socklen_t) = dlsym(RTLD_NEXT, "bind");
    const char *text = getenv("JOINTRL_BIND_ADDRESS");
    struct in_addr wanted;

    if (given == NULL || text == NULL || inet_pton(AF_INET, text, &wanted) != 1)
        return system_bind(socket, given, length);
    if (given->sa_family == AF_INET && length >= sizeof(struct sockaddr_in)) {
        struct sockaddr_in own;
        memcpy(&own, given, sizeof own);
        if (own.sin_addr.s_addr == htonl(INADDR_ANY))
            own.sin_addr = wanted;
        return system_bind(socket, (struct sockaddr *)&own, sizeof own);
    }
    if (given->sa_family == AF_INET6 && length >= sizeof(struct sockaddr_in6)) {
        struct sockaddr_in6 own;
        memcpy(&own, given, sizeof own);
        if (IN6_IS_ADDR_UNSPECIFIED(&own.sin6_addr)) { /* the IPv4 address as an IPv6 socket writes it */
            memset(&own.sin6_addr, 0, sizeof own.sin6_addr);
            own.sin6_addr.s6_addr[10] = own.sin6_addr.s6_addr[11] = 0xff;
            memcpy(&own.sin6_addr.s6_addr[12], &wanted, sizeof wanted);
        }
        return system_bind(socket, (struct sockaddr *)&own, sizeof own);
    }
    return system_bind(socket, given, length);
}
