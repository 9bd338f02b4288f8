/* check/features.h - how new a random case is: its features (ranks, sizes, types, attributes), and which pairs of them
 * a walk has tried so far. One feature of a case is rarely enough for a mistake; two together often are.
 *
 *     feature_map *map = calloc(1, sizeof *map);
 *     features_new(map, &entry)                    how many pairs are new
 *     features_note(map, &entry)                   tried now */
#ifndef CHECK_FEATURES_H
#define CHECK_FEATURES_H
#include "check/case.h"

enum { FEATURE_PAIRS = 1 << 20 };

/* For each pair, by its hash, how often it was tried. All zero at first. */
typedef struct feature_map {
    uint8_t tried[FEATURE_PAIRS];
} feature_map;

/* The number of pairs of the case that were tried a few times at most: many cases with them are not legal. */
uint32_t features_new(const feature_map *map, const op_case *entry);
void features_note(feature_map *map, const op_case *entry);
#endif
