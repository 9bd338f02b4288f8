#include "plugin/shared_probe.h"
#include "base/memory.h"
#include "inlay/check.h"
#include "threads/fork.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

typedef enum probe_state { PROBE_RUNNING, PROBE_READ, PROBE_ENDED } probe_state; /* READ: a thread reads the report */

struct shared_probe {
    struct probe probe;
    verdict_key key; /* of the session that started it */
    probe_state state;
    struct verdict verdict; /* when it has ended */
    uint32_t references;
    uint32_t forks; /* fork_count when it was started */
    pthread_t starter;
    pthread_cond_t ended;
    struct shared_probe *next;
};

static shared_probe *running; /* the probes that have not ended */
static pthread_mutex_t probes_mutex = PTHREAD_MUTEX_INITIALIZER;

static __attribute__((constructor)) void guard_probes(void)
{
    fork_guard(&probes_mutex);
}

/* The probe with this key, or NULL; the lock is held. */
static shared_probe *find_running(const verdict_key *key)
{
    shared_probe *probe = running;

    while (probe != NULL && (probe->forks != fork_count || strcmp(probe->key.text, key->text) != 0))
        probe = probe->next;
    return probe;
}

static void remove_running(const shared_probe *probe)
{
    shared_probe **link = &running;

    while (*link != probe)
        link = &(*link)->next;
    *link = probe->next;
}

/* Starts a probe and adds it to the list; the lock is held. */
static inlay_status start(const char *helper, const char *path, uint32_t limit_ms, bool is_isolated,
                          const verdict_key *key, shared_probe **out_probe, inlay_diag *diag)
{
    shared_probe *probe = calloc(1, sizeof *probe);
    inlay_status status;

    if (probe == NULL)
        return no_memory(diag, "to probe a plugin");
    status = probe_start(helper, path, NULL, limit_ms, is_isolated, &probe->probe, diag);
    if (status != INLAY_OK) {
        free(probe);
        return status;
    }
    probe->key = *key;
    probe->forks = fork_count;
    probe->starter = pthread_self();
    (void)pthread_cond_init(&probe->ended, NULL);
    probe->next = running;
    running = probe;
    *out_probe = probe;
    return INLAY_OK;
}

inlay_status shared_probe_join(const char *helper, const char *path, uint32_t limit_ms, bool is_isolated,
                               const verdict_key *key, shared_probe **out_probe, struct verdict *verdict,
                               inlay_diag *diag)
{
    inlay_status status = INLAY_OK;

    (void)pthread_mutex_lock(&probes_mutex);
    *out_probe = find_running(key);
    if (*out_probe == NULL) {
        verdict_find(key, verdict); /* known before the probe leaves the list */
        if (verdict->kind == VERDICT_NONE)
            status = start(helper, path, limit_ms, is_isolated, key, out_probe, diag);
    }
    if (*out_probe != NULL)
        (*out_probe)->references++;
    (void)pthread_mutex_unlock(&probes_mutex);
    return status;
}

/* Waits until the probe has ended. The lock is held, and released meanwhile. */
static void wait_for_end(shared_probe *probe)
{
    INLAY_CHECK(probe->references > 0);
    while (probe->state == PROBE_READ)
        (void)pthread_cond_wait(&probe->ended, &probes_mutex);
    if (probe->state == PROBE_ENDED)
        return;
    probe->state = PROBE_READ;
    (void)pthread_mutex_unlock(&probes_mutex);
    probe_finish(&probe->probe, &probe->verdict);
    verdict_keep(&probe->key, &probe->verdict);
    (void)pthread_mutex_lock(&probes_mutex);
    probe->state = PROBE_ENDED;
    remove_running(probe);
    (void)pthread_cond_broadcast(&probe->ended);
}

void shared_probe_wait(shared_probe *probe, const verdict_key *key, struct verdict *out)
{
    (void)pthread_mutex_lock(&probes_mutex);
    wait_for_end(probe);
    (void)pthread_mutex_unlock(&probes_mutex);
    *out = probe->verdict;
    if (strcmp(key->file, probe->key.file) != 0)
        verdict_keep(key, out);
}

void shared_probe_leave(shared_probe *probe)
{
    bool is_last;

    if (probe == NULL)
        return;
    (void)pthread_mutex_lock(&probes_mutex);
    if (probe->references > 1 && pthread_equal(probe->starter, pthread_self()))
        wait_for_end(probe);
    is_last = --probe->references == 0;
    if (is_last && probe->state == PROBE_RUNNING)
        remove_running(probe);
    (void)pthread_mutex_unlock(&probes_mutex);
    if (!is_last)
        return;
    probe_abandon(&probe->probe);
    (void)pthread_cond_destroy(&probe->ended);
    free(probe);
}
