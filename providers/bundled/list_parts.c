/* Prints what a bundle can leave out, for `inlay bundle` to choose from:
 *   table NAME OPERATOR      a table of the provider reference with a row for the operator
 *   family NAME OPERATOR     a family of the provider cpu that reads the operator
 *   set NAME FAMILY...       kernels that are needed where one of the families is
 *   function NAME            needed where somebody calls it, which a first run tells
 *   level NAME               needed unless the program is for AVX2 alone
 *   baseline NAME            needed where no region of cpu is */
#include "reference.h"
#include <stdio.h>

int main(void)
{
    static const struct {
        const char *name;
        const kit_table *table;
    } tables[] = {
#define TABLE(stem) { #stem, &reference_##stem },
#include "kernels.def"
#undef TABLE
    };

    for (size_t t = 0; t < KIT_COUNT(tables); t++)
        for (uint32_t i = 0; i < tables[t].table->count; i++)
            (void)printf("table reference_%s %s\n", tables[t].name, tables[t].table->kernels[i].op_type);
#define X(op, first, last, family, rest) (void)printf("family " #family " %s\n", op);
#include "region/integers.def"
#include "region/operators.def"
#undef X
#define SET(name, families) (void)puts("set " #name " " families);
#define FUNCTION(name) (void)puts("function " #name);
#define BASELINE(name) (void)puts("baseline " #name);
#define LEVEL(name) (void)puts("level " #name);
#include "optional.def"
#undef SET
#undef FUNCTION
#undef BASELINE
#undef LEVEL
    return 0;
}
