/* kit/grids.h - the types of blocks whose codes are rows of a table: IQ1, IQ2 and IQ3 of GGUF. For kit/blocks.c. */
#ifndef KIT_GRIDS_H
#define KIT_GRIDS_H
#include "blocks.h"

enum { KIT_GRID_TYPES = 7 };
extern const kit_block_type kit_grid_types[KIT_GRID_TYPES];
/* The value of a float16 in two bytes. */
float kit_half_at(const uint8_t *at);

#endif
