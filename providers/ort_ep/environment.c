/* The environment: ONNX Runtime has one for a process. Here each library has its own, and the function that returns
 * it has no argument that names the library: it returns the environment of the library that is being called; on threads
 * that a library has started, the environment of the library that was opened last. */
#include "ort_ep/provider.h"
#include <stdlib.h>

static _Thread_local const ep_state *calling;
static struct {
    pthread_mutex_t lock;
    const ep_state *state; /* NULL: it is closed */
} opened_last = { .lock = PTHREAD_MUTEX_INITIALIZER };

const ep_state *ep_enter(const ep_state *state)
{
    const ep_state *before = calling;

    calling = state;
    return before;
}

void ep_environment_open(const ep_state *state)
{
    (void)pthread_mutex_lock(&opened_last.lock);
    opened_last.state = state;
    (void)pthread_mutex_unlock(&opened_last.lock);
}

void ep_environment_close(ep_state *state)
{
    (void)pthread_mutex_lock(&opened_last.lock);
    if (opened_last.state == state)
        opened_last.state = NULL;
    (void)pthread_mutex_unlock(&opened_last.lock);
    ort_pairs_clear(&state->environment);
}

OrtStatus *ort_GetEnvConfigEntries(OrtKeyValuePairs **config_entries)
{
    const ep_state *state;
    bool ok;

    ORT_NEED(config_entries);
    *config_entries = calloc(1, sizeof **config_entries);
    (void)pthread_mutex_lock(&opened_last.lock);
    state = calling != NULL ? calling : opened_last.state;
    ok = *config_entries != NULL && (state == NULL || ort_pairs_copy(*config_entries, &state->environment));
    (void)pthread_mutex_unlock(&opened_last.lock);
    if (ok)
        return NULL;
    ort_ReleaseKeyValuePairs(*config_entries);
    *config_entries = NULL;
    return ort_no_memory();
}
