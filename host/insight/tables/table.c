#include "tables/table.h"
#include "inlay/check.h"
#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

enum {
    GAP = 2,         /* columns between two cells, or 1 */
    LEAST_CELL = 12, /* names are shortened to this width at most ... */
    LEAST_NAME = 24, /* ... and names of the widest column to this width */
    LEAST_TEXT = 24, /* minimum width of a wrapped text in a row with other cells */
    CONTINUATION = 4 /* more indentation of the second line of a row */
};

static const char CUT[] = "..";
enum { CUT_COLUMNS = sizeof CUT - 1 };
static const char BOLD[] = "\033[1m", PLAIN[] = "\033[0m";

void table_deinit(struct table *table)
{
    arena_deinit(&table->arena);
    table->rows = NULL;
    table->row_count = 0;
}

/* Control characters become '?', as in say_text(). */
static char *make_readable(char *text)
{
    for (char *c = text; c != NULL && *c != '\0'; c++)
        *c = (unsigned char)*c < 0x20 || *c == 0x7f ? '?' : *c;
    return text;
}

static char *format_text(struct table *table, const char *format, va_list args)
{
    va_list again;
    int bytes;
    char *text;

    va_copy(again, args);
    bytes = vsnprintf(NULL, 0, format, again);
    va_end(again);
    text = bytes < 0 ? NULL : arena_alloc(&table->arena, (size_t)bytes + 1);
    if (text == NULL)
        table->failed = true;
    else
        (void)vsnprintf(text, (size_t)bytes + 1, format, args);
    return make_readable(text);
}

static table_row_cells *add_row(struct table *table)
{
    if (table->failed || !ARENA_GROW(&table->arena, table->rows, table->row_count)) {
        table->failed = true;
        return NULL;
    }
    return &table->rows[table->row_count++];
}

void table_row(struct table *table)
{
    table_row_cells *row = add_row(table);

    INLAY_CHECK(table->column_count <= TABLE_COLUMNS);
    if (row == NULL)
        return;
    row->cells = arena_array(&table->arena, table->column_count, sizeof *row->cells);
    if (row->cells == NULL) {
        table->failed = true;
        table->row_count--;
    }
}

void table_line(struct table *table, const char *format, ...)
{
    table_row_cells *row = add_row(table);
    va_list args;

    if (row == NULL)
        return;
    va_start(args, format);
    row->line = format_text(table, format, args);
    va_end(args);
}

/* The cell of the last row; NULL: out of memory. */
static table_cell *cell_at(struct table *table, uint32_t column)
{
    INLAY_CHECK(column < table->column_count);
    if (table->failed)
        return NULL;
    INLAY_CHECK(table->row_count > 0 && table->rows[table->row_count - 1].cells != NULL);
    return &table->rows[table->row_count - 1].cells[column];
}

void table_text(struct table *table, uint32_t column, const char *text)
{
    table_cell *cell = cell_at(table, column);
    char *shown;

    if (cell == NULL || text == NULL)
        return;
    cell->type = TABLE_STRING;
    cell->value.string = arena_string(&table->arena, text);
    cell->text = shown = arena_string(&table->arena, text);
    table->failed = cell->value.string == NULL || make_readable(shown) == NULL;
}

void table_null(struct table *table, uint32_t column)
{
    table_cell *cell = cell_at(table, column);

    if (cell != NULL)
        cell->type = TABLE_NULL;
}

void table_say(struct table *table, uint32_t column, const char *format, ...)
{
    table_cell *cell = cell_at(table, column);
    va_list args;

    if (cell == NULL)
        return;
    va_start(args, format);
    cell->text = format_text(table, format, args);
    va_end(args);
}

void table_add(struct table *table, uint32_t column, const char *format, ...)
{
    table_cell *cell = cell_at(table, column);
    const char *more;
    va_list args;

    if (cell == NULL)
        return;
    va_start(args, format);
    more = format_text(table, format, args);
    va_end(args);
    if (more != NULL)
        table_say(table, column, "%s%s", cell->text != NULL ? cell->text : "", more);
}

void table_whole(struct table *table, uint32_t column, int64_t number)
{
    table_cell *cell = cell_at(table, column);

    if (cell == NULL)
        return;
    cell->type = TABLE_WHOLE;
    cell->value.whole = number;
    table_say(table, column, "%" PRId64, number);
}

void table_real(struct table *table, uint32_t column, double number, const char *format, ...)
{
    table_cell *cell = cell_at(table, column);
    va_list args;

    if (cell == NULL)
        return;
    cell->type = TABLE_REAL;
    cell->value.real = number;
    va_start(args, format);
    cell->text = format_text(table, format, args);
    va_end(args);
}

void table_truth(struct table *table, uint32_t column, bool value, const char *text)
{
    table_cell *cell = cell_at(table, column);

    if (cell == NULL)
        return;
    cell->type = TABLE_TRUTH;
    cell->value.truth = value;
    table_say(table, column, "%s", text);
}

/* A column with text, and its place. */
struct place {
    uint32_t column;
    int widest; /* of its texts */
    int width;
    int left;      /* of its line */
    uint32_t line; /* of the row */
    int head;      /* columns before the cut of a shortened name */
};

struct layout {
    const struct table *table;
    int width; /* of a line; 0: any */
    int gap;
    struct place places[TABLE_COLUMNS];
    uint32_t count;
};

static int columns_of(const char *text)
{
    return text == NULL ? 0 : text_columns(text, strlen(text));
}

/* NULL: empty. */
static const char *text_at(const struct table *table, uint32_t row, uint32_t column)
{
    return table->rows[row].cells == NULL ? NULL : table->rows[row].cells[column].text;
}

static bool is_kind(const struct layout *layout, const struct place *place, uint32_t kind)
{
    return layout->table->columns[place->column].kind == kind;
}

/* The columns with text, in their full widths. */
static void find_places(struct layout *layout)
{
    const struct table *table = layout->table;

    for (uint32_t column = 0; column < table->column_count; column++) {
        int widest = 0;

        for (uint32_t row = 0; table->columns[column].title != NULL && row < table->row_count; row++) {
            const int columns = columns_of(text_at(table, row, column));

            widest = columns > widest ? columns : widest;
        }
        if (widest == 0)
            continue;
        if (columns_of(table->columns[column].title) > widest)
            widest = columns_of(table->columns[column].title);
        layout->places[layout->count++] = (struct place){ .column = column, .widest = widest, .width = widest };
    }
}

static int total_width(const struct layout *layout)
{
    int total = layout->table->indent;

    for (uint32_t i = 0; i < layout->count; i++)
        total += layout->places[i].width + (i > 0 ? layout->gap : 0);
    return total;
}

/* The widest column of names that are longer than `least`; NULL: none. */
static struct place *widest_names(struct layout *layout, const struct place *except, int least)
{
    struct place *widest = NULL;

    for (uint32_t i = 0; i < layout->count; i++) {
        struct place *place = &layout->places[i];

        if (place != except && is_kind(layout, place, TABLE_NAME) && place->width > least &&
            (widest == NULL || place->width > widest->width))
            widest = place;
    }
    return widest;
}

static bool is_too_wide(const struct layout *layout)
{
    return layout->width > 0 && total_width(layout) > layout->width;
}

static void choose_widths(struct layout *layout)
{
    struct place *last = layout->count > 0 ? &layout->places[layout->count - 1] : NULL;
    struct place *names = widest_names(layout, NULL, 0);

    layout->gap = GAP;
    if (is_too_wide(layout))
        layout->gap = 1;
    if (last != NULL && is_kind(layout, last, TABLE_TEXT) && is_too_wide(layout)) {
        const int room = layout->width - (total_width(layout) - last->width);

        last->width = room > LEAST_TEXT ? room : LEAST_TEXT < last->width ? LEAST_TEXT : last->width;
    }
    while (is_too_wide(layout)) {
        struct place *widest = widest_names(layout, names, LEAST_CELL);

        if (names != NULL && names->width > LEAST_NAME && (widest == NULL || names->width > widest->width))
            names->width--;
        else if (widest != NULL)
            widest->width--;
        else
            break;
    }
    for (uint32_t i = 0; is_too_wide(layout) && i < layout->count; i++) { /* with a second line, names have room */
        struct place *place = &layout->places[i];
        const int room = layout->width - layout->table->indent - (i > 0 ? CONTINUATION : 0);

        if (is_kind(layout, place, TABLE_NAME))
            place->width = place->widest < room ? place->widest : room > LEAST_CELL ? room : LEAST_CELL;
    }
}

/* Columns that do not fit are on a second line, or a third one. */
static void place_columns(struct layout *layout)
{
    int at = layout->table->indent;
    uint32_t line = 0;

    for (uint32_t i = 0; i < layout->count; i++) {
        struct place *place = &layout->places[i];
        const int gap = i > 0 ? layout->gap : 0;

        if (layout->width > 0 && i > 0 && at + gap + place->width > layout->width) {
            line++;
            at = layout->table->indent + CONTINUATION;
        } else {
            at += gap;
        }
        place->left = at;
        place->line = line;
        at += place->width;
    }
}

/* The bytes of the first `columns` characters. */
static size_t head_bytes(const char *text, int columns)
{
    size_t bytes = 0;

    while (text[bytes] != '\0' && (columns > 0 || ((unsigned char)text[bytes] & 0xc0) == 0x80))
        columns -= ((unsigned char)text[bytes++] & 0xc0) != 0x80;
    return bytes;
}

static const char *tail_of(const char *text, int columns)
{
    return text + head_bytes(text, columns_of(text) - columns);
}

/* Would two different names look the same, cut after `head` columns? */
static bool look_alike(const char *above, const char *below, const struct place *place, int head)
{
    const int tail = place->width - head - CUT_COLUMNS;

    return columns_of(above) > place->width && columns_of(below) > place->width && strcmp(above, below) != 0 &&
           strncmp(above, below, head_bytes(above, head)) == 0 &&
           strcmp(tail_of(above, tail), tail_of(below, tail)) == 0;
}

static uint32_t count_alike(const struct layout *layout, const struct place *place, int head)
{
    const char *above = NULL;
    uint32_t count = 0;

    for (uint32_t row = 0; row < layout->table->row_count; row++) {
        const char *below = text_at(layout->table, row, place->column);

        if (below == NULL)
            continue;
        count += above != NULL && look_alike(above, below, place, head);
        above = below;
    }
    return count;
}

/* Names are cut in the middle, unless that makes names equal and a cut at another place keeps more of them distinct. */
static void choose_cut(const struct layout *layout, struct place *place)
{
    const int room = place->width - CUT_COLUMNS;
    uint32_t least = UINT32_MAX;

    for (int i = 0; i <= room && least > 0; i++) {
        const int head = room / 2 + (i % 2 == 0 ? -i / 2 : (i + 1) / 2);
        const uint32_t alike = head < 0 || head > room ? UINT32_MAX : count_alike(layout, place, head);

        if (alike < least) {
            least = alike;
            place->head = head;
        }
    }
}

static void write_name(const char *text, const struct place *place, const explain_sink *sink)
{
    sink->write(sink->user, text, head_bytes(text, place->head));
    say(sink, "%s", CUT);
    say_text(sink, tail_of(text, place->width - place->head - CUT_COLUMNS));
}

/* Writes a row, or the titles (row UINT32_MAX). */
static void write_cells(const struct layout *layout, uint32_t row, const explain_sink *sink)
{
    uint32_t line = 0;
    int at = 0;

    for (uint32_t i = 0; i < layout->count; i++) {
        const struct place *place = &layout->places[i];
        const char *text = row == UINT32_MAX ? layout->table->columns[place->column].title
                                             : text_at(layout->table, row, place->column);
        const int columns = columns_of(text);
        const bool right = is_kind(layout, place, TABLE_NUMBER) && columns < place->width;
        const int left = place->left + (right ? place->width - columns : 0);

        if (columns == 0)
            continue;
        if (place->line != line && at > 0) {
            say(sink, "\n");
            at = 0;
        }
        line = place->line;
        say(sink, "%*s", left - at, "");
        at = left + columns;
        if (is_kind(layout, place, TABLE_TEXT)) {
            say_words(sink, text, strlen(text), left, left, layout->width);
        } else if (is_kind(layout, place, TABLE_NAME) && columns > place->width) {
            write_name(text, place, sink);
            at = left + place->width;
        } else {
            say_text(sink, text);
        }
    }
}

static bool has_titles(const struct layout *layout)
{
    for (uint32_t i = 0; i < layout->count; i++)
        if (layout->table->columns[layout->places[i].column].title[0] != '\0')
            return true;
    return false;
}

void table_write(const struct table *table, const explain_sink *sink)
{
    struct layout layout = { .table = table, .width = sink->columns };

    if (table->failed) {
        say(sink, "(no memory for this table)\n");
        return;
    }
    find_places(&layout);
    choose_widths(&layout);
    place_columns(&layout);
    for (uint32_t i = 0; i < layout.count; i++)
        if (is_kind(&layout, &layout.places[i], TABLE_NAME) && layout.places[i].width < layout.places[i].widest)
            choose_cut(&layout, &layout.places[i]);
    if (has_titles(&layout)) {
        say(sink, "%s", sink->bold ? BOLD : "");
        write_cells(&layout, UINT32_MAX, sink);
        say(sink, "%s\n", sink->bold ? PLAIN : "");
    }
    for (uint32_t row = 0; row < table->row_count; row++) {
        if (table->rows[row].cells == NULL) {
            say_line(sink, table->rows[row].line, strlen(table->rows[row].line), table->indent);
            continue;
        }
        write_cells(&layout, row, sink);
        say(sink, "\n");
    }
}
