/* plan/program/compile.h - shared by the files that create and destroy programs: program.c, compile.c, and the files of
 * plan/create/. */
#ifndef PLAN_COMPILE_H
#define PLAN_COMPILE_H
#include "plan/program.h"
#include "inlay/execution.h"

/* Declined offers. The strings and the list are valid as long as the program. */
typedef struct program_declined {
    struct program *program; /* owner of the offers; NULL: nothing was declined */
    const uint8_t *offers;   /* [offer_count] 1 = declined */
    const char *call;        /* the declined call: "compile", or "specialize at these shapes" */
    const char *text;        /* the provider's reason */
} program_declined;

/* Compiles the regions of a program or fallback, bodies included; compiled regions are kept. INLAY_UNSUPPORTED:
 * *out_declined, which must be {0} before, has the declined offers of the program or of one of its bodies. Call again
 * after that program was partitioned without them. */
INLAY_NODISCARD inlay_status program_compile(struct program *program, program_declined *out_declined, inlay_diag *diag);
/* Adds the device memory of the step's region to program_env.memory.resident_bytes, or subtracts it. */
void program_count_resident(const program_env *env, const program_step *step, bool released);
inlay_status program_no_memory(const struct graph *graph, inlay_diag *diag);
/* Finds the states that the program's regions append to in place (states.c). False: out of memory. */
bool program_find_states(struct program *program);
/* The status of program_check_workspace() without a message. */
inlay_status program_workspace_status(const inlay_specialize_request *request);
/* Copies *why to diag, which may be NULL. */
void forward_diag(inlay_diag *diag, inlay_diag *why);
#endif
