/* data/csv.h - tables of text as inputs: a row for each sample, a column for each number. */
#ifndef DATA_CSV_H
#define DATA_CSV_H
#include "base/arena.h"
#include "inlay/inlay.h"

/* Cells are separated by commas, semicolons or tabs, whichever the first line has, and may be in double quotes. The
 * first line is a header if a cell of it is not a number; in a table of texts, if a name occurs in it. */
typedef struct csv_table {
    const char *path;
    inlay_str *cells;      /* [row_count * column_count] */
    uint64_t *lines;       /* [row_count] where a row begins in the file, from 1 */
    const inlay_str *head; /* [column_count], or NULL */
    uint64_t row_count;
    uint32_t column_count;
} csv_table;

/* Whether the path, without ":COLUMNS", ends in .csv or .tsv. */
bool csv_is(const char *path);
/* Reads the file before ":COLUMNS" into the arena. names: those that make a header of a line of texts. */
INLAY_NODISCARD inlay_status csv_read(const char *path, const char *const *names, uint32_t name_count,
                                      struct arena *arena, csv_table *out, inlay_diag *diag);
/* Whether a column has the name. */
bool csv_has_column(const csv_table *table, const char *name);
/* Makes the value of an input, of [row_count, ...]; of rank 1 also of a single row.
 * columns: "a,b,2" selects columns by name or by number from 1; NULL: the column with the name of the input, or else
 * those from `first` on, as many as a row of the input has numbers. `others` is the number of columns that belong to
 * other inputs; INLAY_NONE: columns have no order. */
INLAY_NODISCARD inlay_status csv_value(const csv_table *table, const inlay_io_info *info, const char *columns,
                                       uint32_t first, uint32_t others, inlay_value **out_value, inlay_diag *diag);
/* The part of a path after the file: ":COLUMNS" without the colon; NULL: none. */
const char *csv_columns(const char *path);
/* Numbers in a row of the input; 0: unknown. */
uint32_t csv_width(const inlay_io_info *info);
#endif
