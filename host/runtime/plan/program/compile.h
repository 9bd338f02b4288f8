/* plan/program/compile.h - what the files share that make programs and take them apart: program.c, assign.c, compile.c,
 * instead.c, create.c. */
#ifndef PLAN_COMPILE_H
#define PLAN_COMPILE_H
#include "plan/program.h"

/* Compiles the regions of a program, or of one that stands in for it, bodies included. Offers that compile declines go
 * to the runner-up. */
INLAY_NODISCARD inlay_status program_compile(program *p, inlay_diag *diag);
/* Adds what the step's region keeps of its device to program_env.resident_bytes, or takes it off. */
void program_count_resident(const program_env *env, const program_step *s, bool released);
inlay_status program_no_memory(const graph *g, inlay_diag *diag);
/* Hands what *why says on to diag, which may be NULL. */
void program_tell(inlay_diag *diag, inlay_diag *why);
#endif
