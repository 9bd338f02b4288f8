/* serve/listen.h - the sockets that the server waits on, and what it tells systemd. */
#ifndef SERVE_LISTEN_H
#define SERVE_LISTEN_H
#include "inlay/status.h"

/* A listening socket at that address and port (0 = any), or the one that was passed (LISTEN_FDS, as systemd does it):
 * name is "grpc" for the one of that name, "rest" for the first other one. out_name is "127.0.0.1:8000" or
 * "[::1]:8000". */
INLAY_NODISCARD inlay_status listen_open(const char *name, const char *address, int port, int *out_fd, int *out_family,
                                         char *out_name, size_t name_bytes, inlay_diag *diag);
/* sd_notify(3): "READY=1"; does nothing without NOTIFY_SOCKET. */
void listen_notify(const char *state);
#endif
