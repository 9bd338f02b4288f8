/* check/region_run.h - chooses a region among the offers for the graph of a struct regions, runs it, and compares its
 * results with those of the parts.
 *
 *     region_make_model(regions, &built) && region_make_states(&built)      region_graph.h
 *     region_assess(regions, &built)                                        the offers for the graph
 *     region_choose(regions, &built.snapshot, 2)                            offers that the host might merge ...
 *     region_choose_offer(regions, &built.snapshot, i)                      ... or one offer alone
 *     region_run(regions, &built)                                           compile, specialize, execute, compare */
#ifndef CHECK_REGION_RUN_H
#define CHECK_REGION_RUN_H
#include "check/region_graph.h"

/* Calls assess for the whole graph and collects its offers. False: assess failed. */
bool region_assess(struct regions *regions, const case_instance *built);
/* Chooses offers that may be merged, at random: a convex region of known sizes. Each offer of several nodes is left out
 * with odds of 1 in group_odds; 1: never. False: fewer than two nodes. */
bool region_choose(struct regions *regions, const inlay_graph *graph, uint32_t group_odds);
/* Chooses one offer. False: the host forms no such region, because it is not convex or has unknown sizes. */
bool region_choose_offer(struct regions *regions, const inlay_graph *graph, uint32_t index);
/* Runs the chosen region and reports failures. A region beyond the limits of its offers is not run. */
void region_run(struct regions *regions, case_instance *built);
/* Writes the operators of the parts, "Conv Relu<0 (Neg<1)": <k reads an output of part k, =k an input of it; those
 * outside of the region are in parentheses. */
void region_name(const struct regions *regions, char *text, size_t bytes);
#endif
