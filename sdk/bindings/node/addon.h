/* The native part of the npm package. It exports to index.js:
 *
 *     createSession(path | Uint8Array, [[name, value], ...], extras) -> Promise<session>
 *     describe(session)  -> { inputs: [...], outputs: [...] }
 *     run(session, [[index, kind, data, dims], ...], [output, ...], cancel, [threads, priority, power])
 *         -> Promise<[[kind, data, dims], ...]>
 *     control(session, action, provider, option, value, bytes) -> Promise<number of bytes that were released>
 *     endProfile(session) -> text, or undefined if the session is not profiled
 *     release(session)
 *     version()
 *
 * extras: { files: [[location, Uint8Array], ...], profiled, optimized }: the contents of external data, which are
 * copied; true if runs are profiled; the path of a file that receives the optimised model, or undefined.
 * kind is the number of an element type in ONNX; data is a typed array, or an array of strings. Typed arrays are used
 * without a copy. cancel is undefined or a Uint32Array whose first element stops the run when it is not 0.
 * threads is the number of threads, 0 for that of the session; priority and power are INLAY_PRIORITY_* and
 * INLAY_POWER_*, action is INLAY_CONTROL_*; option and value may be undefined, and for TRIM the provider: then the
 * memory of runs is given back (inlay_session_trim()). Results are in memory of the runtime, freed when JavaScript no
 * longer needs it. */
#ifndef INLAY_NODE_ADDON_H
#define INLAY_NODE_ADDON_H
#include "inlay/inlay.h"
#include <node_api.h>
#include <pthread.h>

/* js.c: JavaScript values. Functions that create a value return NULL on failure. */
napi_value js_throw(napi_env env, const char *text);              /* returns NULL */
napi_value js_error(napi_env env, const inlay_diag *diag);        /* an Error with inlay's message and code */
char *js_get_text(napi_env env, napi_value value, size_t *bytes); /* caller frees; NULL: no string. bytes may be NULL */
napi_value js_element(napi_env env, napi_value array, uint32_t i);
uint32_t js_length(napi_env env, napi_value array); /* 0 if it is not an array */
void js_put(napi_env env, napi_value object, const char *name, napi_value value);
napi_value js_text(napi_env env, const char *text, size_t bytes);
napi_value js_number(napi_env env, double number);
/* Reads the options of files and environment variables, then sets those of a list of pairs of strings. The caller
 * destroys *out also after a failure. */
inlay_status js_read_options(napi_env env, napi_value list, inlay_options **out, inlay_diag *diag);

/* session.c */
enum { MOST_IDLE = 64 };

struct session {
    uint32_t references; /* of JavaScript, and of active runs; atomic */
    uint32_t released;   /* atomic */
    inlay_session *session;
    void *bytes;
    void **files; /* [file_count] the contents of external data */
    uint32_t file_count;
    pthread_mutex_t lock;
    inlay_context *idle[MOST_IDLE];
    uint32_t idle_count;
    pthread_mutex_t profile_lock; /* serializes profiled runs */
    inlay_context *profiled;      /* NULL: not profiled, or no longer; atomic */
};

napi_value session_create(napi_env env, napi_callback_info info);
napi_value session_describe(napi_env env, napi_callback_info info);
napi_value session_release(napi_env env, napi_callback_info info);
struct session *session_of(napi_env env, napi_value value); /* borrowed; NULL: no session */
void session_unref(struct session *session);
/* Returns a context for one run, on any thread; NULL on failure. */
inlay_status session_take_context(struct session *session, inlay_context **out, inlay_diag *diag);
void session_give_context(struct session *session, inlay_context *context);

/* feed.c */
struct feed {
    uint32_t index;
    inlay_value *value;
    napi_ref memory; /* keeps the typed array until the run ends */
};

/* Reads a feed from [index, kind, data, dims]. The caller releases value and memory, also after a failure. */
inlay_status feed_read(napi_env env, napi_value from, struct feed *feed, inlay_diag *diag);

/* result.c: creates [kind, data, dims] of a tensor. */
napi_value result_make(napi_env env, inlay_value *value);

/* run.c */
napi_value run_start(napi_env env, napi_callback_info info);

/* profile.c */
inlay_status profile_begin(struct session *session, inlay_diag *diag);
napi_value profile_end(napi_env env, napi_callback_info info);

/* control.c */
napi_value control_start(napi_env env, napi_callback_info info);
#endif
