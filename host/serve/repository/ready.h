/* serve/repository/ready.h - whether the server is ready for requests. */
#ifndef SERVE_READY_H
#define SERVE_READY_H
#include "serve/base/server.h"

/* Whether at least one model was found and all that were found are ready; always true with strict = 0. Counts versions.
 * */
bool server_is_complete(struct server *server, uint32_t *out_ready, uint32_t *out_failed);
/* After a load: the server becomes ready if it is complete, and stays ready until SIGTERM. true: it has just become
 * ready; call server_announce_ready(). Any thread. */
bool server_update_ready(struct server *server);
void server_announce_ready(struct server *server);
#endif
