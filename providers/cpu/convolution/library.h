/* library.h - convolutions that run by oneDNN (conv.c). */
#ifndef CPU_LIBRARY_H
#define CPU_LIBRARY_H
#include "cpu/choice/kernels.h"

/* Algorithm and layout: direct with oneDNN's preferred layout, direct with the blocks of the input, or Winograd. */
typedef enum library_variant { LIBRARY_ANY_LAYOUT, LIBRARY_INPUT_LAYOUT, LIBRARY_WINOGRAD } library_variant;

/* *out_done is false if oneDNN has no fast kernel of this variant; LIBRARY_ANY_LAYOUT fails instead. */
inlay_status library_lower(cpu_build *build, const cpu_group *group, const kernel_layer *layer, library_variant variant,
                           bool *out_done);
/* True if oneDNN has only a kernel by im2col, or a reference loop. */
bool library_uses_im2col(cpu_build *build, const cpu_group *group, const kernel_layer *layer);
#endif
