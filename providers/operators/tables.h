/* tables.h - the tables of operators, as listed in tables.def, compiled in plain C. Kernel files do not include it, so
 * a new table does not recompile them. */
#ifndef OPERATORS_TABLES_H
#define OPERATORS_TABLES_H
#include "inlay/kit_table.h"

#define TABLE(stem) extern const kit_table operators_##stem;
#include "operators/tables.def"
#undef TABLE
#endif
