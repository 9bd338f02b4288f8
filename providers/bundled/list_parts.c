/* Prints the tables and families that a bundle may omit, for `inlay bundle`:
 *   table NAME OPERATOR      a table with a row for the operator: a table of the provider reference, or the variant of
 *                            such a table that the provider cpu compiles for an instruction level
 *   family NAME OPERATOR     a family of the provider cpu that handles the operator
 * merge.sh in host/tools/bundle/runtime adds further parts, which it finds in the object files. */
#include "reference/reference_tables.h"
#include "simd/instances.h"
#include <stdio.h>

#define TABLE(stem) KERNEL_INSTANCES(kit_table, reference_##stem)
#include "cpu/operators/tables.def"
#undef TABLE

int main(void)
{
    static const struct {
        const char *name;
        const kit_table *table;
    } tables[] = {
#define TABLE(stem) { #stem, &reference_##stem },
#include "reference/kernels.def"
#undef TABLE
#if defined(__x86_64__)
#define TABLE(stem) { #stem "_avx512", &reference_##stem##_avx512 }, { #stem "_avx2", &reference_##stem##_avx2 },
#include "cpu/operators/tables.def"
#undef TABLE
#elif defined(__aarch64__)
#define TABLE(stem) { #stem "_neon", &reference_##stem##_neon },
#include "cpu/operators/tables.def"
#undef TABLE
#endif
    };

    for (size_t table_index = 0; table_index < KIT_COUNT(tables); table_index++)
        for (uint32_t i = 0; i < tables[table_index].table->count; i++)
            (void)printf("table reference_%s %s\n", tables[table_index].name,
                         tables[table_index].table->kernels[i].op_type);
#define X(op, first, last, family, rest) (void)printf("family " #family " %s\n", op);
#include "cpu/region/integers.def"
#include "cpu/region/operators.def"
#undef X
    return 0;
}
