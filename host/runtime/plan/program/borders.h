/* plan/program/borders.h - where the values that enter and leave a region lie, as its offers and its neighbours want
 * it. */
#ifndef PLAN_BORDERS_H
#define PLAN_BORDERS_H
#include "plan/program.h"

/* A placement for every boundary value, inputs first: other elements than the model's where all agree on them, then
 * what the offers asked for, otherwise the provider's default domain. NULL: no memory. */
inlay_placement *borders_negotiate(const struct program *program, const partition_region *region, struct arena *arena);
#endif
