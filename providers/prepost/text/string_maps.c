/* string_maps.c - onnxruntime-extensions' operators that look up texts or integers in a table, and SegmentSum. */
#include "prepost/text/tokens.h"
#include "inlay/check.h"
#include <errno.h>
#include <stdlib.h>

/* A line "left TAB right" of the attribute `map`. `numbers` are the integers of the right part for StringToVector and
 * of the left part for VectorToString. */
struct map_row {
    inlay_str text, other;  /* the key; the right part of the line */
    const int64_t *numbers; /* [width] */
    uint32_t line;          /* of rows with equal keys the last line is used */
};

struct map_table {
    struct map_row *rows; /* [count], sorted by key, then by line */
    uint32_t count, width;
    int64_t *numbers; /* [count * width] */
    int64_t *unknown; /* [width], for StringToVector */
    inlay_str unknown_text;
    char *copy; /* of the attributes; the texts point into it */
};

static void release(void *state)
{
    struct map_table *table = state;

    if (table == NULL)
        return;
    free(table->rows);
    free(table->numbers);
    free(table->unknown);
    free(table->copy);
    free(table);
}

/* Returns the part of the text before the first `end`, and removes that part and `end` from the text. If the text has
 * no `end`, the part is the whole text. */
static inlay_str cut_off(inlay_str *text, char end)
{
    const char *at = text->bytes > 0 ? memchr(text->data, end, text->bytes) : NULL;
    const inlay_str part = { text->data, at != NULL ? (uint64_t)(at - text->data) : text->bytes };

    text->data += part.bytes + (at != NULL);
    text->bytes -= part.bytes + (at != NULL);
    return part;
}

/* Counts the integers in the text, and stores them in `to` unless it is NULL. -1 if the text has anything else. The
 * text must be part of a NUL-terminated string. */
static int64_t read_numbers(inlay_str text, int64_t *to)
{
    int64_t count = 0;

    while (text.bytes > 0) {
        const inlay_str word = cut_off(&text, ' ');
        char *end;
        long long value;

        if (word.bytes == 0)
            continue;
        if (word.data[0] != '-' && (word.data[0] < '0' || word.data[0] > '9'))
            return -1;
        errno = 0;
        value = strtoll(word.data, &end, 10);
        if (errno != 0 || end != word.data + word.bytes)
            return -1;
        if (to != NULL)
            to[count] = value;
        count++;
    }
    return count;
}

static int compare_texts(const char *a, uint64_t a_bytes, const char *b, uint64_t b_bytes)
{
    const uint64_t shared = a_bytes < b_bytes ? a_bytes : b_bytes;
    const int order = shared > 0 ? memcmp(a, b, shared) : 0;

    return order != 0 ? order : (a_bytes > b_bytes) - (a_bytes < b_bytes);
}

static int by_text(const void *pa, const void *pb)
{
    const struct map_row *a = pa, *b = pb;
    const int order = compare_texts(a->text.data, a->text.bytes, b->text.data, b->text.bytes);

    return order != 0 ? order : (a->line > b->line) - (a->line < b->line);
}

/* The last row with that key; NULL if there is none. */
static const struct map_row *find(const struct map_table *table, const char *key, uint64_t bytes)
{
    uint32_t low = 0, high = table->count;

    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;

        if (compare_texts(table->rows[middle].text.data, table->rows[middle].text.bytes, key, bytes) <= 0)
            low = middle + 1;
        else
            high = middle;
    }
    INLAY_CHECK(low <= table->count);
    return low > 0 && compare_texts(table->rows[low - 1].text.data, table->rows[low - 1].text.bytes, key, bytes) == 0
               ? &table->rows[low - 1]
               : NULL;
}

typedef enum map_kind { TEXT_TO_TEXT, TEXT_TO_NUMBERS, NUMBERS_TO_TEXT } map_kind;

static inlay_status fail_line(const char *op, uint32_t line, const char *what, inlay_diag *diag)
{
    return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "%s: line %u of the attribute map: %s", op, line, what);
}

/* Reads the integers of a row; all rows must have the same number of them. */
static inlay_status read_row_numbers(struct map_table *table, const char *op, inlay_str text, struct map_row *row,
                                     uint32_t line, inlay_diag *diag)
{
    const int64_t count = read_numbers(text, NULL);

    INLAY_CHECK(line >= 1 && line <= table->count);
    if (count < 1)
        return fail_line(op, line, "expected integers with a space between them", diag);
    if (table->width == 0) {
        if (count > 1 << 20 ||
            (table->numbers = calloc((size_t)table->count * (size_t)count, sizeof *table->numbers)) == NULL)
            return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "%s: no memory for its table", op);
        table->width = (uint32_t)count;
    } else if (count != table->width) {
        return fail_line(op, line, "the number of integers differs from the first line", diag);
    }
    row->numbers = table->numbers + (size_t)(line - 1) * table->width;
    (void)read_numbers(text, table->numbers + (size_t)(line - 1) * table->width);
    return INLAY_OK;
}

static inlay_status read_rows(struct map_table *table, const char *op, map_kind kind, inlay_str text, inlay_diag *diag)
{
    inlay_status status = INLAY_OK;
    uint32_t count = 0, line = 0;

    for (inlay_str rest = text; rest.bytes > 0;)
        count += cut_off(&rest, '\n').bytes > 0;
    table->rows = calloc((size_t)count + 1, sizeof *table->rows);
    if (table->rows == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "%s: no memory for its table", op);
    table->count = count;
    while (text.bytes > 0) {
        inlay_str right = cut_off(&text, '\n'), left;
        struct map_row *row = &table->rows[line];

        if (right.bytes == 0)
            continue;
        line++;
        left = cut_off(&right, '\t');
        if (left.bytes == 0 || right.bytes == 0 || memchr(right.data, '\t', right.bytes) != NULL)
            return fail_line(op, line, "expected two parts with a tab between them", diag);
        row->line = line;
        row->text = left;
        row->other = right;
        if (kind != TEXT_TO_TEXT)
            INLAY_TRY(read_row_numbers(table, op, kind == TEXT_TO_NUMBERS ? right : left, row, line, diag));
        if (kind == NUMBERS_TO_TEXT) { /* the key is the bytes of the integers */
            row->text = (inlay_str){ (const char *)row->numbers, table->width * sizeof *row->numbers };
        }
    }
    INLAY_CHECK(line == table->count);
    qsort(table->rows, table->count, sizeof *table->rows, by_text);
done:
    return status;
}

static inlay_status create_table(const kit_node *node, map_kind kind, void **out, inlay_diag *diag)
{
    const char *op = kit_op_type(node);
    const inlay_str map = tokens_attr(node->info, "map"), unknown = tokens_attr(node->info, "unk");
    struct map_table *table = calloc(1, sizeof *table);
    inlay_status status = INLAY_OK;

    if (table == NULL || (table->copy = calloc(1, map.bytes + unknown.bytes + 2)) == NULL) {
        release(table);
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "%s: no memory for its table", op);
    }
    if (map.bytes > 0)
        memcpy(table->copy, map.data, map.bytes);
    if (unknown.bytes > 0)
        memcpy(table->copy + map.bytes + 1, unknown.data, unknown.bytes);
    table->unknown_text = (inlay_str){ table->copy + map.bytes + 1, unknown.bytes };
    INLAY_TRY(read_rows(table, op, kind, (inlay_str){ table->copy, map.bytes }, diag));
    if (kind == TEXT_TO_NUMBERS) {
        table->unknown = calloc((size_t)table->width + 1, sizeof *table->unknown);
        if (table->unknown == NULL)
            status = inlay_fail(diag, INLAY_OUT_OF_MEMORY, "%s: no memory for its table", op);
        else if (read_numbers(table->unknown_text, NULL) != table->width)
            status =
                inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                           "%s: the attribute unk must have %u integers, as the lines of map have", op, table->width);
        else
            (void)read_numbers(table->unknown_text, table->unknown);
    }
done:
    if (status != INLAY_OK) {
        release(table);
        table = NULL;
    }
    *out = table;
    return status;
}

static void cost(const kit_node *node, const kit_plan *shapes, inlay_cost *cost)
{
    (void)node;
    prepost_cost_elements(cost, shapes, 500, 200, 16);
}

static inlay_status prepare_mapping(const kit_node *node, void **out_state, inlay_diag *diag)
{
    return create_table(node, TEXT_TO_TEXT, out_state, diag);
}

static inlay_status run_mapping(const kit_call *call)
{
    const inlay_str *string = call->in[0].data;
    inlay_status status = kit_alloc_output(call, 0, call->in[0].rank, call->in[0].dims);

    for (int64_t i = 0; i < call->in[0].count && status == INLAY_OK; i++) {
        const struct map_row *row = find(call->state, string[i].data, string[i].bytes);
        const inlay_str to = row != NULL ? row->other : string[i];

        status = prepost_put_string(call, (inlay_str *)call->out[0].data + i, to.data, to.bytes);
    }
    return status;
}

static inlay_status infer_to_vector(void *ctx, inlay_infer *in, inlay_diag *diag)
{
    const inlay_value_info *input = in->inputs[0];
    inlay_dim dims[9];

    (void)ctx, (void)diag;
    if (!prepost_knows_rank(input) || input->rank >= 9)
        return INLAY_OK;
    for (uint32_t d = 0; d < input->rank; d++)
        dims[d] = input->dims[d];
    dims[input->rank] = prepost_open();
    return prepost_set(in, 0, input->rank + 1, dims);
}

static inlay_status prepare_to_vector(const kit_node *node, void **out_state, inlay_diag *diag)
{
    return create_table(node, TEXT_TO_NUMBERS, out_state, diag);
}

static inlay_status run_to_vector(const kit_call *call)
{
    const struct map_table *table = call->state;
    const inlay_str *string = call->in[0].data;
    int64_t dims[9];
    inlay_status status;

    if (call->in[0].rank >= 9)
        return inlay_fail(call->diag, INLAY_UNSUPPORTED, "StringToVector: the rank is above the limit of 8");
    for (uint32_t d = 0; d < call->in[0].rank; d++)
        dims[d] = call->in[0].dims[d];
    dims[call->in[0].rank] = table->width;
    INLAY_TRY(kit_alloc_output(call, 0, call->in[0].rank + 1, dims));
    for (int64_t i = 0; i < call->in[0].count && table->width > 0; i++) {
        const struct map_row *row = find(table, string[i].data, string[i].bytes);

        memcpy((int64_t *)call->out[0].data + i * table->width, row != NULL ? row->numbers : table->unknown,
               table->width * sizeof(int64_t));
    }
done:
    return status;
}

static inlay_status prepare_to_string(const kit_node *node, void **out_state, inlay_diag *diag)
{
    return create_table(node, NUMBERS_TO_TEXT, out_state, diag);
}

static inlay_status run_to_string(const kit_call *call)
{
    const struct map_table *table = call->state;
    const kit_tensor *input = &call->in[0];
    const bool flat = table->width == 1 && input->rank <= 1; /* each element is a key */
    const uint32_t rank = flat ? input->rank : input->rank > 0 ? input->rank - 1 : 0;
    inlay_status status;

    if (table->width == 0 || (!flat && (input->rank == 0 || input->dims[input->rank - 1] != table->width)))
        return inlay_fail(call->diag, INLAY_SHAPE_MISMATCH,
                          "VectorToString: the last dimension is %lld, but the lines of map have %u integers",
                          input->rank > 0 ? (long long)input->dims[input->rank - 1] : 0, table->width);
    INLAY_TRY(kit_alloc_output(call, 0, rank, input->dims));
    for (int64_t i = 0; i < input->count / table->width; i++) {
        const struct map_row *row = find(table, (const char *)((const int64_t *)input->data + i * table->width),
                                         table->width * sizeof(int64_t));
        const inlay_str to = row != NULL ? row->other : table->unknown_text;

        INLAY_TRY(prepost_put_string(call, (inlay_str *)call->out[0].data + i, to.data, to.bytes));
    }
done:
    return status;
}

static inlay_status infer_sum(void *ctx, inlay_infer *in, inlay_diag *diag)
{
    const inlay_value_info *input = in->inputs[0];
    inlay_dim dims[9];

    (void)ctx, (void)diag;
    if (!prepost_knows_rank(input) || input->rank == 0 || input->rank >= 9)
        return INLAY_OK;
    for (uint32_t d = 0; d < input->rank; d++)
        dims[d] = d == 0 ? prepost_open() : input->dims[d];
    return prepost_set(in, 0, input->rank, dims);
}

static inlay_status run_sum(const kit_call *call)
{
    const kit_tensor *input = &call->in[0], *ids = &call->in[1];
    const int64_t *of = ids->data;
    const int64_t rows = input->rank > 0 ? input->dims[0] : 0, size = rows > 0 ? input->count / rows : 0;
    int64_t dims[9];
    inlay_status status;

    if (input->rank == 0 || input->rank >= 9 || ids->rank != 1 || ids->dims[0] != rows)
        return inlay_fail(call->diag, INLAY_SHAPE_MISMATCH,
                          "SegmentSum: segment_ids must be a list of one element for each of the %lld rows",
                          (long long)rows);
    for (int64_t i = 0; i < rows; i++)
        if (of[i] < 0 || of[i] > rows || (i > 0 && of[i] != of[i - 1] && of[i] != of[i - 1] + 1))
            return inlay_fail(call->diag, INLAY_INVALID_ARGUMENT,
                              "SegmentSum: segment_ids must start at 0 and increase by at most 1, but element %lld is "
                              "%lld",
                              (long long)i, (long long)of[i]);
    for (uint32_t d = 1; d < input->rank; d++)
        dims[d] = input->dims[d];
    dims[0] = rows > 0 ? of[rows - 1] + 1 : 0;
    INLAY_TRY(kit_alloc_output(call, 0, input->rank, dims));
    if (dims[0] * size > 0)
        memset(call->out[0].data, 0, (size_t)(dims[0] * size) * sizeof(float));
    for (int64_t i = 0; i < rows; i++)
        for (int64_t k = 0; k < size; k++)
            ((float *)call->out[0].data)[of[i] * size + k] += ((const float *)input->data)[i * size + k];
done:
    return status;
}

static const int64_t three_dims[] = { 3 }, vectors_dims[] = { 3, 2 }, four_dims[] = { 4 }, pairs_dims[] = { 3, 2 };
static const int64_t rows_dims[] = { 4, 2 };
static const inlay_str words[] = { PREPOST_STR("a"), PREPOST_STR("b c"), PREPOST_STR("?") };
static const inlay_str mapped[] = { PREPOST_STR("one"), PREPOST_STR("two"), PREPOST_STR("?") };
static const int64_t vectors[] = { 0, 1, -2, 3, -9, -9 };
static const inlay_str named[] = { PREPOST_STR("a"), PREPOST_STR("b c"), PREPOST_STR("none") };
static const float data[] = { 1, 2, 3, 4, 5, 6, 7, 8 }, sums[] = { 4, 6, 5, 6, 7, 8 };
static const int64_t segments[] = { 0, 0, 1, 2 };

static const inlay_tensor_view words_in[] = { PREPOST_VIEW(words, three_dims, INLAY_STRING) };
static const inlay_tensor_view mapped_out[] = { PREPOST_VIEW(mapped, three_dims, INLAY_STRING) };
static const inlay_tensor_view vectors_view[] = { PREPOST_VIEW(vectors, vectors_dims, INLAY_INT64) };
static const inlay_tensor_view named_out[] = { PREPOST_VIEW(named, three_dims, INLAY_STRING) };
static const inlay_tensor_view sum_in[] = { PREPOST_VIEW(data, rows_dims, INLAY_FLOAT),
                                            PREPOST_VIEW(segments, four_dims, INLAY_INT64) };
static const inlay_tensor_view sum_out[] = { PREPOST_VIEW(sums, pairs_dims, INLAY_FLOAT) };
static const inlay_attr_info map_attrs[] = { PREPOST_ATTR_STRING("map", "a\tone\nb c\ttwo\n") };
static const inlay_attr_info to_attrs[] = { PREPOST_ATTR_STRING("map", "a\t0 1\nb c\t-2 3\n"),
                                            PREPOST_ATTR_STRING("unk", "-9 -9") };
static const inlay_attr_info from_attrs[] = { PREPOST_ATTR_STRING("map", "0 1\ta\n-2 3\tb c\n"),
                                              PREPOST_ATTR_STRING("unk", "none") };

static const inlay_op_example map_examples[] = {
    PREPOST_EXAMPLE("two of three are in the table", map_attrs, words_in, mapped_out, 0),
};
static const inlay_op_example to_examples[] = {
    PREPOST_EXAMPLE("two of three are in the table", to_attrs, words_in, vectors_view, 0),
};
static const inlay_op_example from_examples[] = {
    PREPOST_EXAMPLE("two of three are in the table", from_attrs, vectors_view, named_out, 0),
};
static const inlay_op_example sum_examples[] = {
    { .name = "three segments of four rows",
      .attr_stride = sizeof(inlay_attr_info),
      .inputs = sum_in,
      .input_count = KIT_COUNT(sum_in),
      .outputs = sum_out,
      .output_count = KIT_COUNT(sum_out) },
};

const prepost_operator prepost_string_mapping = {
    .op_type = "StringMapping",
    .signature = "input:S -> output:S; S=string; map:s!",
    .doc = "Replaces each text that the table has; other texts are unchanged. map has lines of text TAB replacement.",
    .extensions = true,
    .infer = prepost_infer_same,
    PREPOST_EXAMPLES(map_examples),
    .kernel = { .flags = KIT_SHAPES_AT_RUN,
                .cost = cost,
                .prepare = prepare_mapping,
                .release = release,
                .run = run_mapping },
};

const prepost_operator prepost_string_to_vector = {
    .op_type = "StringToVector",
    .signature = "input:S -> output:I; S=string, I=int64; map:s!, unk:s!",
    .doc = "Looks up the integers of each text, along a new last axis; other texts have the integers of unk. map has "
           "lines "
           "of text TAB integers with a space between them.",
    .extensions = true,
    .infer = infer_to_vector,
    PREPOST_EXAMPLES(to_examples),
    .kernel = { .flags = KIT_SHAPES_AT_RUN,
                .cost = cost,
                .prepare = prepare_to_vector,
                .release = release,
                .run = run_to_vector },
};

const prepost_operator prepost_vector_to_string = {
    .op_type = "VectorToString",
    .signature = "input:I -> output:S; S=string, I=int64; map:s!, unk:s!",
    .doc = "Looks up the text of the integers along the last axis; other integers have the text unk. map has lines of "
           "integers TAB text.",
    .extensions = true,
    PREPOST_EXAMPLES(from_examples),
    .kernel = { .flags = KIT_SHAPES_AT_RUN,
                .cost = cost,
                .prepare = prepare_to_string,
                .release = release,
                .run = run_to_string },
};

const prepost_operator prepost_segment_sum = {
    .op_type = "SegmentSum",
    .signature = "data:F, segment_ids:I -> output:F; F=float, I=int64",
    .doc = "Adds the rows of each segment. segment_ids has the segment of each row, from 0 in ascending order.",
    .extensions = true,
    .infer = infer_sum,
    PREPOST_EXAMPLES(sum_examples),
    .kernel = { .flags = KIT_SHAPES_AT_RUN, .cost = cost, .run = run_sum },
};
