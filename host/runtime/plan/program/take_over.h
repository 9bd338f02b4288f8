/* plan/program/take_over.h - compiled regions that a program of changed weights takes over from the program before it
 * (program_env.donor).
 *
 * A region is taken over if all that its provider can see of it is equal: nodes, attributes, types, shapes, the
 * elements of constants, placements, and also the indexes of nodes and values, because the provider knows them by
 * these. A region that reads a changed tensor, or what was computed from it, is therefore compiled again. */
#ifndef PLAN_TAKE_OVER_H
#define PLAN_TAKE_OVER_H
#include "plan/program.h"

/* Takes over regions for steps that are described, but not compiled. Those for which memory is missing are compiled. */
void program_take_over(struct program *program);
#endif
