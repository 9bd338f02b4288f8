#include "serve/repository/ready.h"
#include "serve/process/listen.h"
#include "serve/base/log.h"
#include "serve/repository/repository.h"
#include "serve/process/supervise.h"

bool server_is_complete(struct server *server, uint32_t *out_ready, uint32_t *out_failed)
{
    *out_ready = repository_ready(server->repository, out_failed);
    return settings_int(server->settings, SET_strict) == 0 || (*out_failed == 0 && *out_ready > 0);
}

bool server_update_ready(struct server *server)
{
    uint32_t ready, failed;

    if (!atomic_load(&server->phase.loaded) || atomic_load(&server->phase.ready) ||
        settings_stopped(server->settings) || !server_is_complete(server, &ready, &failed) ||
        repository_lacks(server->repository) || /* a worker accepts no connections then */
        atomic_exchange(&server->phase.ready, true))
        return false;
    if (!settings_stopped(server->settings))
        return true;
    atomic_store(&server->phase.ready, false); /* drain() may store the same value before or after */
    return false;
}

void server_announce_ready(struct server *server)
{
    uint32_t failed, ready = repository_ready(server->repository, &failed);

    log_line(LOG_INFO_LINE, "ready, models: %u", ready);
    if (supervise_is_worker())
        supervise_ready();
    else
        listen_notify("READY=1");
}
