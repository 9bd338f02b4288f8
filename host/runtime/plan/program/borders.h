/* plan/program/borders.h - placements of the values that enter and leave a region, negotiated between its offers and
 * its neighbours. */
#ifndef PLAN_BORDERS_H
#define PLAN_BORDERS_H
#include "plan/program.h"

/* A placement for every boundary value, inputs first: another element type than the model's if all regions support it,
 * then the placement requested by the offers, otherwise the provider's default domain. NULL: out of memory. */
inlay_placement *borders_negotiate(const struct program *program, const partition_region *region, struct arena *arena);
#endif
