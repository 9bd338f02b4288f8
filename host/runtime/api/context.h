/* api/context.h - the struct behind inlay_context, for the files of the API. */
#ifndef API_CONTEXT_H
#define API_CONTEXT_H
#include "api/ladder.h"
#include "exec/context/run_shared.h"
#include "exec/context/run_states.h"
#include "session/trim.h"
#include "session/versions.h"

/* The rows of a context's states. */
typedef struct context_rows {
    inlay_rows_info info; /* struct_size 0: the context keeps no rows */
    int64_t *lengths;     /* [count] tokens of each row */
    uint32_t count;
    int64_t added;    /* tokens of each row in the next run; 0: not set */
    int64_t *numbers; /* [number_room] the bound tokens, mask and positions */
    uint64_t number_room;
} context_rows;

struct inlay_context {
    inlay_session *session;
    session_context entry; /* in the session's list */
    run_shared shared;
    struct runner *runner;
    session_version *version;    /* of the runner's program; a reference */
    bool outdated;               /* a run must fail: there was no memory to change to the latest version */
    inlay_value **inputs;        /* [input_count] bound, a reference each */
    run_value *in;               /* [input_count] the inputs of a run */
    inlay_value **bound_outputs; /* [output_count] bound, a reference each */
    inlay_fence *ready;          /* [input_count + output_count] see runner_inputs.ready */
    inlay_value **defaults;      /* [input_count] initializers that are used for unbound inputs */
    run_states *states;          /* NULL: the context keeps no states */
    context_rows rows;
    struct inlay_context *next; /* in the list of abandoned contexts */
    struct async_runs *async;   /* NULL: no asynchronous run was started */
    run_observer *measuring;    /* of host/insight, while runs are measured or profiled; otherwise NULL */
    context_ladder *ladder;     /* NULL: without option ladder */
};

/* *out: the open provider of that name. INLAY_NOT_FOUND: the session has none. */
INLAY_NODISCARD inlay_status session_device(const inlay_session *session, const char *name, const struct provider **out,
                                            inlay_diag *diag);
/* Creates the defaults of inputs that are not bound, for runs of the program. After a failure the context has its
 * previous ones. */
INLAY_NODISCARD inlay_status context_make_defaults(inlay_context *context, const struct program *program,
                                                   inlay_diag *diag);
void context_free_defaults(inlay_value **list, uint32_t count); /* list NULL is a no-op */
/* Collects the fences of pending work on the bound values, which the run waits for. Called before a run, on the
 * application's thread. */
void context_find_ready(inlay_context *context);
/* The part of inlay_context_run() after context_find_ready(). Both are called between session_context_enter() and
 * session_context_leave(). */
inlay_status context_run_ready(inlay_context *context, const inlay_run_options *options, inlay_diag *diag);
/* The context whose runner did the last run. */
static inline inlay_context *context_last(inlay_context *context)
{
    return context->ladder != NULL ? context->ladder->contexts[context->ladder->last] : context;
}
/* Before a run of a context that keeps rows: its tokens are bound, and its states are not. */
INLAY_NODISCARD inlay_status context_check_rows(const inlay_context *context, inlay_diag *diag);
/* The context keeps no rows any more. */
void context_drop_rows(inlay_context *context);
/* After a run: adds its tokens to the rows if it succeeded (`ran`), and unbinds them. */
void context_end_rows(inlay_context *context, bool ran);
/* Ends the measuring, if there is any, and makes the context run the latest program of the session. */
INLAY_NODISCARD inlay_status context_end_measuring(inlay_context *context, inlay_diag *diag);
/* Begins to measure runs: takes the observer over. The context keeps its program until context_end_measuring(). */
void context_begin_measuring(inlay_context *context, run_observer *observer);
/* Is a run of inlay_context_run_async() pending? */
bool context_is_pending(const inlay_context *context);
/* session_context.trim */
bool context_trim_idle(session_context *entry);
/* Waits for the runs of inlay_context_run_async() and ends their thread. */
void context_end_async(inlay_context *context);
#endif
