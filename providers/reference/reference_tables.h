/* reference_tables.h - the tables of all kernel files, which kernels.def lists. Kernel files do without it: another
 * table makes none of them anew. */
#ifndef REFERENCE_TABLES_H
#define REFERENCE_TABLES_H
#include "inlay/kit.h"

#define TABLE(stem) extern const kit_table reference_##stem;
#include "kernels.def"
#undef TABLE
#endif
