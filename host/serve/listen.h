/* serve/listen.h - the listening sockets, and notifications to systemd. */
#ifndef SERVE_LISTEN_H
#define SERVE_LISTEN_H
#include "inlay/status.h"

/* Opens a listening socket at the address and port (0 = any), or takes one that the parent passed (LISTEN_FDS, as
 * systemd does): name "grpc" is the socket of that name, "rest" the first other one. out_name is, for example,
 * "127.0.0.1:8000" or "[::1]:8000". */
INLAY_NODISCARD inlay_status listen_open(const char *name, const char *address, int port, int *out_fd, int *out_family,
                                         char *out_name, size_t name_bytes, inlay_diag *diag);
/* sd_notify(3): "READY=1"; does nothing without NOTIFY_SOCKET. */
void listen_notify(const char *state);
#endif
