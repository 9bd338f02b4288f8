/* concat.h - concatenations. */
#ifndef CPU_CONCAT_H
#define CPU_CONCAT_H
#include "cpu/region/build.h"

/* Concatenates row-major tensors along the op's axis into the group's output (concat_rows.c). */
inlay_status cpu_concat_rows(cpu_build *build, const cpu_group *group, const cpu_place *places, uint32_t count);
#endif
