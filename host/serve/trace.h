/* serve/trace.h - timestamps of requests in a file, as Triton's tracing writes them.
 *
 * The file is the server's setting `trace_file`; requests turn tracing on and off, for all models or for one, and say
 * how many requests it leaves out. It is a JSON array at any time, which Triton's trace_summary.py reads. */
#ifndef SERVE_TRACE_H
#define SERVE_TRACE_H
#include "serve/model.h"

struct trace;

/* path "": no file, so that tracing cannot be turned on. */
INLAY_NODISCARD inlay_status trace_create(const char *path, struct trace **out_trace, inlay_diag *diag);
void trace_destroy(struct trace *trace); /* NULL is a no-op */

typedef enum trace_key { TRACE_LEVEL, TRACE_RATE, TRACE_COUNT, TRACE_KEYS } trace_key;
/* Settings to be changed. Starts as {0}. */
typedef struct trace_change {
    bool given[TRACE_KEYS], cleared[TRACE_KEYS]; /* cleared: back to what holds for all models, or at the start */
    int64_t values[TRACE_KEYS];                  /* TRACE_LEVEL: 1 = timestamps */
} trace_change;
/* Adds "trace_level": ["TIMESTAMPS"] and the like; no value = cleared. */
INLAY_NODISCARD inlay_status trace_change_add(const struct trace *trace, trace_change *change, const char *key,
                                              const char *const *values, uint32_t count, inlay_diag *diag);
/* name: of a model, NULL = all. INLAY_LIMIT_EXCEEDED: too many models have settings of their own. */
INLAY_NODISCARD inlay_status trace_apply(struct trace *trace, const char *name, const trace_change *change,
                                         inlay_diag *diag);

/* What holds for a model, NULL = all, as texts. */
enum { TRACE_SETTINGS = 6 };
typedef struct trace_setting {
    const char *key;
    char value[256];
    bool is_list; /* trace_level: a list of one */
} trace_setting;
void trace_read(struct trace *trace, const char *name, trace_setting out[TRACE_SETTINGS]);

/* A request that has run; answered_ns: when its answer was made. Writes it if its turn has come. */
void trace_request(struct trace *trace, const struct job *job, uint64_t answered_ns);
#endif
