/* cli/cells.h - what becomes of a verb's table: lines of the terminal, or JSON. */
#ifndef CLI_CELLS_H
#define CLI_CELLS_H
#include "tables/table.h"
#include <jansson.h>

/* Prints the table to stdout and releases it. */
void cells_print(struct table *table);
/* The rows as an array of objects; releases the table. NULL: no memory. Cells without a value have no member; numbers
 * that are not finite are as value_number_json() writes them. */
json_t *cells_json(struct table *table);
#endif
