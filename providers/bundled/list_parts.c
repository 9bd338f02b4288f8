/* Prints the tables and families that a bundle may omit, for `inlay bundle`:
 *   table NAME OPERATOR      a table with a row for the operator: one of providers/operators or providers/reference in
 *                            plain C, or one of providers/operators for an instruction level
 *   family NAME OPERATOR     a family of the provider cpu that handles the operator
 * merge.sh in host/tools/bundle/runtime adds further parts, which it finds in the object files. */
#include "operators/tables.h"
#include "reference/reference_tables.h"
#include "simd/instances.h"
#include <stdio.h>

#define TABLE(stem) KERNEL_INSTANCES(kit_table, operators_##stem)
#include "operators/tables.def"
#undef TABLE

int main(void)
{
    static const struct {
        const char *name;
        const kit_table *table;
    } tables[] = {
#define TABLE(stem) { "reference_" #stem, &reference_##stem },
#include "reference/kernels.def"
#undef TABLE
#define TABLE(stem) { "operators_" #stem, &operators_##stem },
#include "operators/tables.def"
#undef TABLE
#if defined(__x86_64__)
#ifndef OPERATORS_WITHOUT_AVX512
#define TABLE(stem) { "operators_" #stem "_avx512", &operators_##stem##_avx512 },
#include "operators/tables.def"
#undef TABLE
#endif
#define TABLE(stem) { "operators_" #stem "_avx2", &operators_##stem##_avx2 },
#include "operators/tables.def"
#undef TABLE
#elif defined(__aarch64__)
#define TABLE(stem) { "operators_" #stem "_neon", &operators_##stem##_neon },
#include "operators/tables.def"
#undef TABLE
#elif defined(__wasm__)
#define TABLE(stem) { "operators_" #stem "_wasm", &operators_##stem##_wasm },
#include "operators/tables.def"
#undef TABLE
#endif
    };

    for (size_t table_index = 0; table_index < KIT_COUNT(tables); table_index++)
        for (uint32_t i = 0; i < tables[table_index].table->count; i++)
            (void)printf("table %s %s\n", tables[table_index].name, tables[table_index].table->kernels[i].op_type);
#define X(op, first, last, family, rest) (void)printf("family " #family " %s\n", op);
#include "cpu/region/integers.def"
#include "cpu/region/operators.def"
#undef X
    (void)printf("family cpu_pool ReduceMean\nfamily cpu_pool ReduceMax\n"); /* cpu_reduce calls it for images */
    return 0;
}
