#include "data/csv.h"
#include "base/element.h"
#include "base/memory.h"
#include "data/literal.h"
#include "modelkit/sized_file.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* The end of the file name: the first ".csv" or ".tsv" that ends the path or that a colon follows. */
static const char *name_end(const char *path)
{
    static const char *const suffixes[] = { ".csv", ".tsv" };

    for (const char *at = path; (at = strchr(at, '.')) != NULL; at++)
        for (size_t i = 0; i < 2; i++)
            if (strncasecmp(at, suffixes[i], 4) == 0 && (at[4] == '\0' || at[4] == ':'))
                return at + 4;
    return NULL;
}

bool csv_is(const char *path)
{
    return name_end(path) != NULL;
}

const char *csv_columns(const char *path)
{
    const char *end = name_end(path);

    return end != NULL && *end == ':' ? end + 1 : NULL;
}

struct reader {
    const char *path;
    char *at; /* the text of the file, which ends in NUL; quoted cells are shortened in place */
    uint64_t line;
    char separator;
    inlay_diag *diag;
};

static inlay_status read_text(const char *path, struct arena *arena, char **out, inlay_diag *diag)
{
    enum { MAX_BYTES = 1 << 30 };
    FILE *file;
    size_t bytes;
    inlay_status status;

    INLAY_TRY(sized_file_open(path, MAX_BYTES, &file, &bytes, diag));
    *out = arena_alloc(arena, bytes + 1);
    INLAY_TRY(sized_file_read(file, path, *out, bytes, diag));
    if (memchr(*out, '\0', bytes) != NULL)
        status = inlay_fail(diag, INLAY_IO_ERROR, "%s is not a table of text: it has NUL bytes", path);
done:
    return status;
}

/* Reads one cell; the reader is then at the separator or at the end of the line. */
static inlay_status read_cell(struct reader *reader, inlay_str *out)
{
    char *to = reader->at, *from = reader->at;

    if (*from != '"') {
        size_t bytes = strcspn(from, (char[]){ reader->separator, '\n', '\0' });

        reader->at = from + bytes;
        while (bytes > 0 && strchr(" \t\r", from[bytes - 1]) != NULL)
            bytes--;
        for (; bytes > 0 && *from == ' '; from++)
            bytes--;
        *out = (inlay_str){ from, bytes };
        return INLAY_OK;
    }
    for (from++; *from != '"' || from[1] == '"'; from++) {
        if (*from == '\0')
            return inlay_fail(reader->diag, INLAY_IO_ERROR, "%s, line %llu: the closing quote is missing", reader->path,
                              (unsigned long long)reader->line);
        reader->line += *from == '\n';
        from += *from == '"';
        *to++ = *from;
    }
    *out = (inlay_str){ reader->at, (uint64_t)(to - reader->at) };
    for (from++; *from == ' ' || *from == '\r'; from++)
        ;
    reader->at = from;
    return *from == reader->separator || *from == '\n' || *from == '\0'
               ? INLAY_OK
               : inlay_fail(reader->diag, INLAY_IO_ERROR, "%s, line %llu: text after a closing quote", reader->path,
                            (unsigned long long)reader->line);
}

static char find_separator(const char *text)
{
    static const char separators[] = "\t;,";
    const char *end = text + strcspn(text, "\n");

    for (size_t i = 0; i < 3; i++)
        if (memchr(text, separators[i], (size_t)(end - text)) != NULL)
            return separators[i];
    return ',';
}

static bool same_text(inlay_str a, const char *b, size_t bytes)
{
    return a.bytes == bytes && memcmp(a.data, b, bytes) == 0;
}

static bool is_header(const csv_table *table, const char *const *names, uint32_t name_count)
{
    bool texts = true;

    for (uint64_t i = table->column_count; i < table->row_count * table->column_count && texts; i++)
        texts = !literal_is_number(table->cells[i].data, table->cells[i].bytes);
    for (uint32_t c = 0; c < table->column_count; c++) {
        if (!texts && table->cells[c].bytes > 0 && !literal_is_number(table->cells[c].data, table->cells[c].bytes))
            return true;
        for (uint32_t i = 0; i < name_count; i++)
            if (same_text(table->cells[c], names[i], strlen(names[i])))
                return true;
    }
    return false;
}

/* Reads the row at the reader, which is not blank. */
static inlay_status read_row(struct reader *reader, csv_table *table, uint64_t room)
{
    const uint64_t line = reader->line;
    uint32_t column = 0;
    inlay_str cell;

    for (bool more = true; more; column++) {
        const inlay_status status = read_cell(reader, &cell);

        if (status != INLAY_OK)
            return status;
        more = *reader->at == reader->separator;
        reader->at += *reader->at != '\0';
        if (table->row_count == 0)
            table->column_count = column + 1;
        if (column < table->column_count && table->row_count * table->column_count + column < room)
            table->cells[table->row_count * table->column_count + column] = cell;
    }
    reader->line++;
    if (column != table->column_count)
        return inlay_fail(reader->diag, INLAY_IO_ERROR, "%s, line %llu has %u cells, the first line %u", reader->path,
                          (unsigned long long)line, column, table->column_count);
    table->lines[table->row_count++] = line;
    return INLAY_OK;
}

inlay_status csv_read(const char *path, const char *const *names, uint32_t name_count, struct arena *arena,
                      csv_table *out, inlay_diag *diag)
{
    struct reader reader = { .line = 1, .diag = diag };
    uint64_t cells = 1, lines = 1;
    char *text;
    inlay_status status;

    *out = (csv_table){ .path = arena_copy(arena, path, (size_t)(name_end(path) - path) + 1) };
    if (out->path == NULL)
        return no_memory(diag, "for %s", path);
    ((char *)(uintptr_t)out->path)[name_end(path) - path] = '\0';
    reader.path = out->path;
    INLAY_TRY(read_text(out->path, arena, &text, diag));
    reader.at = strncmp(text, "\xef\xbb\xbf", 3) == 0 ? text + 3 : text;
    reader.separator = find_separator(reader.at);
    for (const char *at = reader.at; *at != '\0'; at++) {
        lines += *at == '\n';
        cells += *at == '\n' || *at == reader.separator;
    }
    out->cells = arena_array(arena, cells, sizeof *out->cells);
    out->lines = arena_array(arena, lines, sizeof *out->lines);
    if (out->cells == NULL || out->lines == NULL)
        return no_memory(diag, "for the cells of %s", out->path);
    while (*reader.at != '\0') {
        if (*reader.at == '\n' || strncmp(reader.at, "\r\n", 2) == 0) { /* a blank line */
            reader.at += *reader.at == '\n' ? 1 : 2;
            reader.line++;
            continue;
        }
        INLAY_TRY(read_row(&reader, out, cells));
    }
    if (out->row_count > 0 && is_header(out, names, name_count)) {
        out->head = out->cells;
        out->cells += out->column_count;
        out->lines++;
        out->row_count--;
    }
    if (out->row_count == 0)
        status = inlay_fail(diag, INLAY_IO_ERROR, "%s has no rows", out->path);
done:
    return status;
}

/* The names of the columns, or their number, for messages. */
static const char *columns_text(const csv_table *table, char *text, size_t bytes)
{
    size_t used = 0;

    (void)snprintf(text, bytes, "1 to %u", table->column_count);
    for (uint32_t c = 0; table->head != NULL && c < table->column_count && used < bytes; c++)
        used += (size_t)snprintf(text + used, bytes - used, "%s%.*s", c > 0 ? ", " : "", (int)table->head[c].bytes,
                                 table->head[c].data);
    return text;
}

static uint32_t find_column(const csv_table *table, const char *name, size_t bytes)
{
    char *end = NULL;
    long number;

    for (uint32_t c = 0; table->head != NULL && c < table->column_count; c++)
        if (same_text(table->head[c], name, bytes))
            return c;
    number = strtol(name, &end, 10);
    return end == name + bytes && bytes > 0 && number >= 1 && number <= (long)table->column_count ? (uint32_t)number - 1
                                                                                                  : INLAY_NONE;
}

bool csv_has_column(const csv_table *table, const char *name)
{
    for (uint32_t c = 0; table->head != NULL && c < table->column_count; c++)
        if (same_text(table->head[c], name, strlen(name)))
            return true;
    return false;
}

uint32_t csv_width(const inlay_io_info *info)
{
    int64_t width = 1;

    if (info->rank == INLAY_RANK_UNKNOWN || info->rank > INLAY_MAX_RANK)
        return 0;
    for (uint32_t axis = 1; axis < info->rank; axis++) {
        if (info->dims[axis] < 0 || width > 1 << 24 || info->dims[axis] > 1 << 24)
            return 0;
        width *= info->dims[axis];
    }
    return (uint32_t)width;
}

/* Lists the columns of an input; *out_count is their number. */
static inlay_status choose_columns(const csv_table *table, const inlay_io_info *info, const char *columns,
                                   uint32_t first, uint32_t others, uint32_t *out, uint32_t *out_count,
                                   inlay_diag *diag)
{
    const uint32_t width = csv_width(info);
    const uint32_t named =
        csv_has_column(table, info->name) ? find_column(table, info->name, strlen(info->name)) : INLAY_NONE;
    char have[256], want[128];

    *out_count = 0;
    for (size_t bytes; columns != NULL; columns = columns[bytes] == ',' ? columns + bytes + 1 : NULL) {
        uint32_t column;

        bytes = strcspn(columns, ",");
        column = find_column(table, columns, bytes);
        if (column == INLAY_NONE || *out_count == table->column_count)
            return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "%s has no column '%.*s'; it has %s", table->path,
                              (int)(bytes < 60 ? bytes : 60), columns, columns_text(table, have, sizeof have));
        out[(*out_count)++] = column;
    }
    if (*out_count == 0 && named != INLAY_NONE && width <= 1) {
        out[(*out_count)++] = named;
    } else if (*out_count == 0 && (others == 0 || (others != INLAY_NONE && others + width == table->column_count))) {
        /* By position: all columns, or, if the table has several inputs, the columns of this input. */
        const uint32_t count = others == 0 ? table->column_count : width;

        for (uint32_t i = 0; i < count && first + i < table->column_count; i++)
            out[(*out_count)++] = first + i;
    }
    if (*out_count > 0 && (width == 0 || width == *out_count ||
                           (info->rank == 1 && info->dims[0] == (int64_t)*out_count && table->row_count == 1)))
        return INLAY_OK;
    (void)dims_text(info->dims, info->rank == INLAY_RANK_UNKNOWN ? 0 : info->rank, ",", want, sizeof want);
    if (table->column_count < width)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "%s has %u columns, but input '%s' of shape %s needs %u",
                          table->path, table->column_count, info->name, want, width);
    return inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                      "%s has %u columns for input '%s' of shape %s: choose them, as in %s:COLUMN,... (columns %s)",
                      table->path, table->column_count, info->name, want, table->path,
                      columns_text(table, have, sizeof have));
}

/* The shape of the rows: that of the input, in which the first size counts rows. */
static inlay_status shape_rows(const csv_table *table, const inlay_io_info *info, uint32_t columns, int64_t *dims,
                               uint32_t *out_rank, inlay_diag *diag)
{
    const bool row = info->rank == 1 && columns > 1;
    const int64_t rows = (int64_t)table->row_count;
    int64_t declared[INLAY_MAX_RANK] = { rows, columns };
    inlay_io_info rank_2 = { .rank = 2, .dims = declared }, *shape = &rank_2;
    inlay_io_info same = *info;
    char want[128];

    if (info->rank <= INLAY_MAX_RANK) {
        for (uint32_t axis = 0; axis < info->rank; axis++)
            declared[axis] = axis > 0 ? info->dims[axis] : row ? columns : rows;
        same.dims = declared;
        shape = &same;
    }
    if (literal_fill(shape, rows * columns, dims, out_rank))
        return INLAY_OK;
    return inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                      "%s: %lld rows of %u columns do not fit input '%s' of shape %s, whose first axis counts rows%s",
                      table->path, (long long)rows, columns, info->name,
                      dims_text(info->dims, info->rank == INLAY_RANK_UNKNOWN ? 0 : info->rank, ",", want, sizeof want),
                      csv_width(info) == 0 ? ": --dim NAME=N gives a size that is open, '?'" : "");
}

/* The end of the message about a cell that is not a number: a file of one line may be a header alone. */
static const char *may_be_header(const csv_table *table, const inlay_str *cell)
{
    return table->head == NULL && table->row_count == 1 && !literal_is_number(cell->data, cell->bytes)
               ? "; if this line is a header, the file has no rows"
               : "";
}

static inlay_status put_cells(const csv_table *table, const inlay_io_info *info, const uint32_t *columns,
                              uint32_t count, inlay_value *value, inlay_str *texts, inlay_diag *diag)
{
    for (uint64_t row = 0; row < table->row_count; row++)
        for (uint32_t i = 0; i < count; i++) {
            const inlay_str cell = table->cells[row * table->column_count + columns[i]];
            const int64_t at = (int64_t)(row * count + i);
            const char *wrong = NULL;

            if (texts != NULL)
                texts[at] = cell;
            else
                wrong = literal_put(cell.data, cell.bytes, inlay_value_dtype(value), inlay_value_data(value), at);
            if (wrong != NULL)
                return inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                                  "%s, line %llu, column %u: '%.*s' %s; input '%s' is %s%s", table->path,
                                  (unsigned long long)table->lines[row], columns[i] + 1,
                                  (int)(cell.bytes < 60 ? cell.bytes : 60), cell.data, wrong, info->name,
                                  inlay_dtype_name(inlay_value_dtype(value)), may_be_header(table, &cell));
        }
    return INLAY_OK;
}

inlay_status csv_value(const csv_table *table, const inlay_io_info *info, const char *columns, uint32_t first,
                       uint32_t others, inlay_value **out_value, inlay_diag *diag)
{
    uint32_t *chosen = calloc(table->column_count, sizeof *chosen), count, rank;
    inlay_str *texts = NULL;
    inlay_value *value = NULL;
    int64_t dims[INLAY_MAX_RANK] = { 0 };
    inlay_status status;

    *out_value = NULL;
    if (chosen == NULL)
        return no_memory(diag, "for the columns of %s", table->path);
    INLAY_TRY(choose_columns(table, info, columns, first, others, chosen, &count, diag));
    INLAY_TRY(shape_rows(table, info, count, dims, &rank, diag));
    if (info->dtype == INLAY_STRING) {
        texts = calloc(table->row_count * count, sizeof *texts);
        if (texts == NULL) {
            status = no_memory(diag, "for the cells of %s", table->path);
            goto done;
        }
    } else {
        INLAY_TRY(
            inlay_value_create(info->dtype == INLAY_UNDEFINED ? INLAY_FLOAT : info->dtype, rank, dims, &value, diag));
    }
    INLAY_TRY(put_cells(table, info, chosen, count, value, texts, diag));
    if (texts != NULL)
        INLAY_TRY(inlay_value_create_strings(rank, dims, texts, &value, diag));
    *out_value = value;
    value = NULL;
done:
    inlay_value_unref(value);
    free(texts);
    free(chosen);
    return status;
}
