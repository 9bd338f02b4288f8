/* serve/process/listen.h - the listening sockets, and notifications to systemd. */
#ifndef SERVE_LISTEN_H
#define SERVE_LISTEN_H
#include "inlay/status.h"
#include <stdbool.h>

/* Opens a listening socket at the address and port (0 = any), or takes one that the parent passed (LISTEN_FDS, as
 * systemd does): names "grpc" and "admin" stand for the passed sockets of these names, "rest" for the first other one.
 * out_name is, for example, "127.0.0.1:8000" or "[::1]:8000". *out_is_ours: this call opened it, so no other process
 * has it. */
INLAY_NODISCARD inlay_status listen_open(const char *name, const char *address, int port, int *out_fd,
                                         bool *out_is_ours, char *out_name, size_t name_bytes, inlay_diag *diag);
/* Whether only this machine can reach the socket. */
bool listen_is_loopback(int fd);
struct settings;
/* Logs a warning if other machines can reach the server and no setting restricts who may use it. */
void listen_warn(const struct settings *settings, bool is_loopback);
/* sd_notify(3): "READY=1"; does nothing without NOTIFY_SOCKET. */
void listen_notify(const char *state);
#endif
