/* tables/table.h - rows of cells under columns, written as lines of a given width; the cells also carry the values that
 * a program wants of them.
 *
 *     enum { NAME, TIME, COLUMNS };
 *     static const table_column columns[COLUMNS] = { { "name", "name", TABLE_NAME }, { "time", "ns", TABLE_NUMBER } };
 *     struct table table = { .columns = columns, .column_count = COLUMNS };
 *     table_row(&table);
 *     table_text(&table, NAME, "first");
 *     table_real(&table, TIME, 1500, "%s", format_ns(1500, text));
 *     table_write(&table, &sink);
 *     table_deinit(&table);
 *
 * A cell that is not set is empty; a column without any text is left out. When memory runs out, `failed` becomes true
 * and later cells are dropped; table_write() then says so. Texts are copied. One thread at a time. */
#ifndef TABLES_TABLE_H
#define TABLES_TABLE_H
#include "base/arena.h"
#include "tables/words.h"

enum { TABLE_COLUMNS = 32 }; /* at most */

typedef struct table_column {
    const char *title; /* "": none; NULL: the column is not for people */
    const char *key;   /* of the values, in JSON; NULL: the column is only for people */
    enum {
        TABLE_NUMBER, /* right-aligned, never shortened */
        TABLE_NAME,   /* a long one is shortened in the middle if the lines are too narrow */
        TABLE_TEXT    /* is wrapped at words; the last column only */
    } kind;
} table_column;

typedef struct table_cell {
    const char *text; /* for people; NULL: empty */
    enum { TABLE_NO_VALUE, TABLE_NULL, TABLE_STRING, TABLE_WHOLE, TABLE_REAL, TABLE_TRUTH } type;
    union {
        const char *string;
        int64_t whole;
        double real;
        bool truth;
    } value;
} table_cell;

typedef struct table_row_cells {
    table_cell *cells; /* [column_count]; NULL: a line between rows */
    const char *line;
} table_row_cells;

struct table {
    const table_column *columns;
    uint32_t column_count;
    int indent; /* of all lines */
    table_row_cells *rows;
    uint32_t row_count;
    struct arena arena;
    bool failed; /* out of memory */
};

void table_deinit(struct table *table);

/* Begins a row. */
void table_row(struct table *table);
/* Adds a line of text between rows; it is wrapped at words, and its leading blanks are its indentation. */
INLAY_PRINTF(2, 3) void table_line(struct table *table, const char *format, ...);

/* These set a cell of the last row: its value and its text. */
void table_text(struct table *table, uint32_t column, const char *text); /* NULL: empty */
void table_null(struct table *table, uint32_t column);                   /* the value is null */
void table_whole(struct table *table, uint32_t column, int64_t number);
INLAY_PRINTF(4, 5) void table_real(struct table *table, uint32_t column, double number, const char *format, ...);
void table_truth(struct table *table, uint32_t column, bool value, const char *text);
/* Sets the text alone; a value stays. */
INLAY_PRINTF(3, 4) void table_say(struct table *table, uint32_t column, const char *format, ...);
/* Adds to the text of a cell. */
INLAY_PRINTF(3, 4) void table_add(struct table *table, uint32_t column, const char *format, ...);

/* Writes the titles and rows in lines of at most sink->columns. What is too wide loses gaps first,
 * then the middles of long names. Columns that do not fit even so continue on a second line of each row: none is left
 * out. Without a row, nothing is written. */
void table_write(const struct table *table, const explain_sink *sink);
#endif
