/* serve/schedule/trace.h - timestamps of requests in a file, in the format of Triton's tracing.
 *
 * The setting `trace_file` names the file. Requests enable and disable tracing, for all models or for one, and set the
 * sampling rate. The file is always a valid JSON array, which Triton's trace_summary.py reads. */
#ifndef SERVE_TRACE_H
#define SERVE_TRACE_H
#include "serve/model/model.h"

struct trace;

/* path "": no file, so tracing cannot be enabled. */
INLAY_NODISCARD inlay_status trace_create(const char *path, board_counts *counts, struct trace **out_trace,
                                          inlay_diag *diag);
void trace_destroy(struct trace *trace); /* NULL is a no-op */

typedef enum trace_key { TRACE_LEVEL, TRACE_RATE, TRACE_COUNT, TRACE_KEYS } trace_key;
/* Changes of settings. Starts as {0}. */
typedef struct trace_change {
    bool given[TRACE_KEYS], cleared[TRACE_KEYS]; /* cleared: reset to the global setting, or to the default */
    int64_t values[TRACE_KEYS];                  /* TRACE_LEVEL: 1 = timestamps */
} trace_change;
/* Adds, for example, "trace_level": ["TIMESTAMPS"]; no value = cleared. */
INLAY_NODISCARD inlay_status trace_change_add(const struct trace *trace, trace_change *change, const char *key,
                                              const char *const *values, uint32_t count, inlay_diag *diag);
/* name: of a model, NULL = global. INLAY_LIMIT_EXCEEDED: too many models have separate settings. */
INLAY_NODISCARD inlay_status trace_apply(struct trace *trace, const char *name, const trace_change *change,
                                         inlay_diag *diag);

/* The settings of a model, NULL = global, as texts. */
enum { TRACE_SETTINGS = 6 };
typedef struct trace_setting {
    const char *key;
    char value[256];
    bool is_list; /* trace_level: a list with one element */
} trace_setting;
void trace_read(struct trace *trace, const char *name, trace_setting out[TRACE_SETTINGS]);

/* Records a request that has run, if it is sampled; answered_ns: time of its reply. */
void trace_request(struct trace *trace, const struct job *job, uint64_t answered_ns);
#endif
