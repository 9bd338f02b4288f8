/* plan/program/borders.h - placements of the values that enter and leave a region, negotiated between its offers and
 * its neighbours. */
#ifndef PLAN_BORDERS_H
#define PLAN_BORDERS_H
#include "plan/program.h"

/* A placement for every boundary value, inputs first: if all regions around the value support another element type than
 * the model's, a placement with that type; otherwise the placement that the region's offers request; otherwise the
 * provider's default domain. NULL: out of memory. */
inlay_placement *borders_negotiate(const struct program *program, const partition_region *region, struct arena *arena);
#endif
