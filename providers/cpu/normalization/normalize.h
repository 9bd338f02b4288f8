/* normalize.h - parts of normalisations and reductions. */
#ifndef CPU_NORMALIZE_H
#define CPU_NORMALIZE_H
#include "cpu/region/build.h"

/* Lowers BatchNormalization with constant operands, and a Relu that is the first post, to one step (batch.c). */
inlay_status cpu_lower_batch(cpu_build *build, const cpu_group *group);
/* The result of a reduction of no elements (reduce.c). */
float cpu_reduce_empty(const cpu_op *op);
#endif
