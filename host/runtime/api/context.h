/* api/context.h - what a context of inlay.h is, for the files that make up the API. */
#ifndef API_CONTEXT_H
#define API_CONTEXT_H
#include "exec/context/run_shared.h"
#include "exec/context/run_states.h"
#include "measure/runs.h"
#include "session/session.h"

struct profile;
struct inlay_context {
    inlay_session *session;
    session_use use;
    run_shared shared;
    struct runner *runner;
    inlay_value **inputs;       /* [input_count] bound, a reference each */
    run_value *in;              /* room for a run's inputs */
    inlay_value **wanted;       /* [output_count] bound, a reference each */
    inlay_fence *ready;         /* [input_count + output_count] see runner_inputs.ready */
    inlay_value **defaults;     /* [input_count] initializers that stand in for unbound inputs */
    run_states *states;         /* NULL: the context keeps none */
    struct profile *profile;    /* while runs are profiled, otherwise NULL */
    struct inlay_context *next; /* among those that are left to a device that hangs */
    struct async_runs *async;   /* NULL: there was no such run */
    struct timings *timings;    /* while runs are timed step by step, otherwise NULL */
};

/* The open provider of that name. */
INLAY_NODISCARD inlay_status session_device(const inlay_session *session, const char *name, const struct provider **out,
                                            inlay_diag *diag);
/* Before a run, on the caller's thread: what comes before the use of the values that are bound. */
void context_find_ready(inlay_context *context);
/* An input, value v of the graph, that only a device reads, and can read where it is, is handed to it there: *in is. */
void context_import_input(const inlay_context *context, uint32_t v, inlay_value *value, run_value *in);
/* inlay_context_run() behind context_find_ready(). */
inlay_status context_run_ready(inlay_context *context, const inlay_run_options *options, inlay_diag *diag);
/* Ends the thread of runs that were started by inlay_context_run_async(), once they are over. */
void context_end_async(inlay_context *context);
/* Has the value the type and shape of the input? The error says how not. */
INLAY_NODISCARD inlay_status context_input_fits(const inlay_context *context, uint32_t index, const inlay_value *value,
                                                inlay_diag *diag);
#endif
