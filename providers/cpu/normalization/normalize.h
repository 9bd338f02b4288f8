/* normalize.h - parts of normalisations and reductions. */
#ifndef CPU_NORMALIZE_H
#define CPU_NORMALIZE_H
#include "cpu/region/build.h"

/* Lowers BatchNormalization of a row-major or channels-last image with constant operands to a native step (batch.c).
 * relu: the first post is Relu, and the step does it. *out_done = false: the image has another layout. */
inlay_status cpu_lower_batch_rows(cpu_build *build, const cpu_group *group, bool relu, bool *out_done);
/* The result of a reduction of no elements (reduce.c). */
float cpu_reduce_empty(const cpu_op *op);
#endif
