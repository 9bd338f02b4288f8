/* library.h - convolutions that are oneDNN's own (conv.c). */
#ifndef CPU_LIBRARY_H
#define CPU_LIBRARY_H
#include "choice/kernels.h"

/* Which algorithm, and which layout is asked for: what oneDNN likes best, the blocks that the input has already, or
 * Winograd's. */
typedef enum lib_variant { LIB_ANY_LAYOUT, LIB_INPUT_LAYOUT, LIB_WINOGRAD } lib_variant;

/* *out_done is false where oneDNN has no fast one of this variant; LIB_ANY_LAYOUT fails instead. */
inlay_status library_lower(cpu_build *build, const cpu_group *group, const kernel_layer *layer, lib_variant variant,
                       bool *out_done);
/* Has oneDNN nothing for it but windows unfolded in memory, or a plain loop? */
bool lib_unfolds(cpu_build *build, const cpu_group *group, const kernel_layer *layer);
#endif
