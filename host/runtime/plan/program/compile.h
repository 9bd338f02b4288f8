/* plan/program/compile.h - what the files share that make programs and take them apart: program.c and compile.c here,
 * and those of plan/create/. */
#ifndef PLAN_COMPILE_H
#define PLAN_COMPILE_H
#include "plan/program.h"

/* Offers that their provider takes back; the strings and the list live as long as the program. */
typedef struct program_declined {
    struct program *program; /* whose offers they are; NULL: nothing was declined */
    const uint8_t *offers;   /* [offer_count] 1 = declined */
    const char *call;        /* "compile" */
    const char *text;        /* the provider's reason */
} program_declined;

/* Compiles the regions of a program, or of one that stands in for it, bodies included; regions that are compiled
 * already stay so. INLAY_UNSUPPORTED: *out_declined, which is {0} before, says which offers a provider has declined, of
 * the program or of one of its bodies. Once that is assigned without them, this is called again. */
INLAY_NODISCARD inlay_status program_compile(struct program *program, program_declined *out_declined, inlay_diag *diag);
/* Adds what the step's region keeps of its device to program_env.resident_bytes, or takes it off. */
void program_count_resident(const program_env *env, const program_step *step, bool released);
inlay_status program_no_memory(const struct graph *graph, inlay_diag *diag);
/* Hands what *why says on to diag, which may be NULL. */
void program_tell(inlay_diag *diag, inlay_diag *why);
#endif
