#include "serve/process/listen.h"
#include "serve/base/log.h"
#include "serve/base/settings.h"
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* Returns the socket that socket activation passed for `name` (sd_listen_fds_with_names(3)), or -1. */
static int passed_socket(const char *name)
{
    const char *pid = getenv("LISTEN_PID"), *count = getenv("LISTEN_FDS"), *names = getenv("LISTEN_FDNAMES");
    bool wants_rest = strcmp(name, "rest") == 0;
    long sockets;

    if (pid == NULL || count == NULL || strtol(pid, NULL, 10) != getpid())
        return -1;
    sockets = strtol(count, NULL, 10);
    for (int i = 0; i < sockets && i < 16; i++) {
        size_t bytes = names != NULL ? strcspn(names, ":") : 0;
        bool is_named = bytes == strlen(name) && strncmp(names, name, bytes) == 0,
             is_other =
                 (bytes == 4 && strncmp(names, "grpc", 4) == 0) || (bytes == 5 && strncmp(names, "admin", 5) == 0);

        if (wants_rest ? !is_other : is_named)
            return 3 + i;
        if (names != NULL)
            names += bytes + (names[bytes] == ':');
    }
    return -1;
}

static int open_socket(const struct addrinfo *address)
{
    int fd = socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), on = 1;

    if (fd < 0)
        return -1;
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(fd, address->ai_addr, address->ai_addrlen) == 0 && listen(fd, SOMAXCONN) == 0)
        return fd;
    on = errno;
    (void)close(fd);
    errno = on;
    return -1;
}

inlay_status listen_open(const char *name, const char *address, int port, int *out_fd, bool *out_is_ours,
                         char *out_name, size_t name_bytes, inlay_diag *diag)
{
    struct addrinfo hints = { .ai_flags = AI_PASSIVE | AI_NUMERICHOST, .ai_socktype = SOCK_STREAM }, *list = NULL;
    struct sockaddr_storage bound;
    socklen_t bytes = sizeof bound;
    char service[16], host[64];
    int fd = passed_socket(name);

    (void)snprintf(service, sizeof service, "%d", port);
    *out_is_ours = fd < 0;
    if (fd >= 0) {
        (void)fcntl(fd, F_SETFD, FD_CLOEXEC);
        (void)fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
    } else {
        if (getaddrinfo(address, service, &hints, &list) != 0)
            return inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                              "listen: '%s' is not an IP address such as 127.0.0.1 or ::", address);
        fd = open_socket(list);
        freeaddrinfo(list);
        if (fd < 0)
            return inlay_fail(diag, INLAY_IO_ERROR, "cannot listen on %s, port %d: %s", address, port, strerror(errno));
    }
    if (getsockname(fd, (struct sockaddr *)&bound, &bytes) != 0 ||
        getnameinfo((struct sockaddr *)&bound, bytes, host, sizeof host, service, sizeof service,
                    NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
        (void)close(fd);
        return inlay_fail(diag, INLAY_IO_ERROR, "the socket passed by the parent has no IP address");
    }
    (void)snprintf(out_name, name_bytes, bound.ss_family == AF_INET6 ? "[%s]:%s" : "%s:%s", host, service);
    *out_fd = fd;
    return INLAY_OK;
}

bool listen_is_loopback(int fd)
{
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } bound;
    socklen_t bytes = sizeof bound;

    if (getsockname(fd, &bound.any, &bytes) != 0)
        return false;
    if (bound.any.sa_family == AF_INET)
        return (ntohl(bound.v4.sin_addr.s_addr) >> 24) == IN_LOOPBACKNET;
    return bound.any.sa_family == AF_INET6 &&
           (IN6_IS_ADDR_LOOPBACK(&bound.v6.sin6_addr) ||
            (IN6_IS_ADDR_V4MAPPED(&bound.v6.sin6_addr) && bound.v6.sin6_addr.s6_addr[12] == IN_LOOPBACKNET));
}

void listen_warn(const struct settings *settings, bool is_loopback)
{
    if (!is_loopback && settings_text(settings, SET_token_file)[0] == '\0' &&
        settings_text(settings, SET_tls_client_ca)[0] == '\0')
        log_line(LOG_WARNING_LINE, "warning: every client that reaches this machine may use the models; set token_file "
                                   "or tls_client_ca, or listen on 127.0.0.1");
}

void listen_notify(const char *state)
{
    const char *path = getenv("NOTIFY_SOCKET");
    struct sockaddr_un to = { .sun_family = AF_UNIX };
    size_t bytes = path != NULL ? strlen(path) : 0;
    int fd;

    if (bytes == 0 || bytes >= sizeof to.sun_path || (path[0] != '/' && path[0] != '@'))
        return;
    memcpy(to.sun_path, path, bytes);
    if (path[0] == '@')
        to.sun_path[0] = '\0';
    fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return;
    (void)sendto(fd, state, strlen(state), MSG_NOSIGNAL, (const struct sockaddr *)&to,
                 (socklen_t)(offsetof(struct sockaddr_un, sun_path) + bytes));
    (void)close(fd);
}
