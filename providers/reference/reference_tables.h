/* reference_tables.h - the tables of the kernel files of this folder, as listed in kernels.def. Kernel files do not
 * include it, so a new table does not recompile them. */
#ifndef REFERENCE_TABLES_H
#define REFERENCE_TABLES_H
#include "inlay/kit_table.h"

#define TABLE(stem) extern const kit_table reference_##stem;
#include "reference/kernels.def"
#undef TABLE
#endif
