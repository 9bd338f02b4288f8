/* api/context.h - what a context of inlay.h is, for the files that make up the API. */
#ifndef API_CONTEXT_H
#define API_CONTEXT_H
#include "exec/run_states.h"
#include "measure/runs.h"
#include "session/session.h"

struct profile;
struct inlay_context {
    inlay_session *session;
    run_shared shared;
    runner *runner;
    inlay_value **inputs;    /* [input_count] bound, a reference each */
    rt_value *in;            /* room for a run's inputs */
    inlay_value **wanted;    /* [output_count] bound, a reference each */
    inlay_value **defaults;  /* [input_count] initializers that stand in for unbound inputs */
    run_states *states;      /* NULL: the context keeps none */
    struct profile *profile; /* while runs are profiled, otherwise NULL */
    struct inlay_context *next; /* among those that are left to a device that hangs */
    timings *timings;        /* while runs are timed step by step, otherwise NULL */
};

/* Has the value the type and shape of the input? The error says how not. */
INLAY_NODISCARD inlay_status context_input_fits(const inlay_context *context, uint32_t index, const inlay_value *value,
                                                inlay_diag *diag);
#endif
