#include "cli/cells.h"
#include "cli/screen.h"
#include "data/value.h"

void cells_print(struct table *table)
{
    const explain_sink sink = screen_sink();

    table_write(table, &sink);
    table_deinit(table);
}

static json_t *value_of(const table_cell *cell)
{
    json_t *text;

    switch (cell->type) {
    case TABLE_STRING:
        text = json_string(cell->value.string);
        return text != NULL ? text : json_string("(not printable)"); /* not UTF-8 */
    case TABLE_NULL:
        return json_null();
    case TABLE_WHOLE:
        return json_integer(cell->value.whole);
    case TABLE_REAL:
        return value_number_json(cell->value.real);
    case TABLE_TRUTH:
        return json_boolean(cell->value.truth);
    default:
        return NULL;
    }
}

static json_t *row_json(const struct table *table, const table_cell *cells)
{
    json_t *row = json_object();

    for (uint32_t i = 0; i < table->column_count; i++)
        if (table->columns[i].key != NULL && cells[i].type != TABLE_NO_VALUE)
            (void)json_object_set_new(row, table->columns[i].key, value_of(&cells[i]));
    return row;
}

json_t *cells_json(struct table *table)
{
    json_t *rows = table->failed ? NULL : json_array();

    for (uint32_t i = 0; rows != NULL && i < table->row_count; i++)
        if (table->rows[i].cells != NULL)
            (void)json_array_append_new(rows, row_json(table, table->rows[i].cells));
    table_deinit(table);
    return rows;
}
