/* plan/program/compile_region.h - compiles regions: one, or several at the same time. Internal to plan/program. */
#ifndef PLAN_COMPILE_REGION_H
#define PLAN_COMPILE_REGION_H
#include "plan/program/build_call.h"
#include "plan/program/compile.h"
#include "inlay/plugin.h"

/* A region that is being compiled. */
typedef struct region_build {
    struct program *program;
    program_step *step; /* region, node and provider are set */
    inlay_compile_request request;
    uint64_t coming; /* see build_call */
    const struct run_timings *timings;
    inlay_status status; /* of compile */
    inlay_diag why;      /* if status is not INLAY_OK; over the memory limit: the whole message */
    bool over_limit;
} region_build;

/* Fills in the request. *build and the scratch memory live until region_build_end(). */
INLAY_NODISCARD inlay_status region_build_begin(region_build *build, struct program *program, program_step *step,
                                                struct arena *scratch, inlay_diag *diag);
/* Calls the provider and sets build->status. fates: [value_count] what the provider did with the constants, all
 * INLAY_CONST_BORROWED before and after. team NULL: no other region is being compiled. Any thread. */
void region_build_run(region_build *build, uint8_t *fates, build_team *team, uint32_t position);
/* Returns build->status with its message, and records what the provider declined. */
inlay_status region_build_end(region_build *build, program_declined *out_declined, inlay_diag *diag);

/* Compiles the builds at the same time, on several threads, and sets their status. If one fails, later ones may be left
 * out: their status is INLAY_CANCELLED. Without threads or memory, compiles them sequentially. */
void region_builds_run(region_build *builds, uint32_t count);
#endif
