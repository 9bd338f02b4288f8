/* string_maps.c - onnxruntime-extensions' operators that look texts or numbers up in a table, and SegmentSum. */
#include "prepost.h"
#include <errno.h>
#include <stdlib.h>

/* ------------------------------------------------------------------ tables */

/* A line "left TAB right" of the attribute `map`. Numbers are `width` each, for StringToVector of right, for
 * VectorToString of left. */
struct row {
    inlay_str text, other;
    const int64_t *numbers;
    uint32_t line; /* of equal keys the last counts */
};

struct table {
    struct row *rows; /* [count], sorted by key */
    uint32_t count, width;
    int64_t *numbers;
    int64_t *unknown; /* [width]: StringToVector */
    inlay_str unknown_text;
    char *copy; /* of the attributes */
};

static void release(void *state)
{
    struct table *t = state;

    if (t == NULL)
        return;
    free(t->rows);
    free(t->numbers);
    free(t->unknown);
    free(t->copy);
    free(t);
}

static inlay_str attribute(const inlay_node_info *node, const char *name)
{
    const inlay_attr_info *a = kit_attr(node, name);

    return a != NULL && a->kind == INLAY_ATTR_STRING ? a->s : (inlay_str){ "", 0 };
}

/* Takes what stands before `end` or the end of the text off it. */
static inlay_str cut_off(inlay_str *text, char end)
{
    const char *at = text->bytes > 0 ? memchr(text->data, end, text->bytes) : NULL;
    const inlay_str part = { text->data, at != NULL ? (uint64_t)(at - text->data) : text->bytes };

    text->data += part.bytes + (at != NULL);
    text->bytes -= part.bytes + (at != NULL);
    return part;
}

/* How many numbers are in the text; they go to `to` unless it is NULL. -1: there is something else. The text ends in a
 * NUL somewhere behind. */
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

static int order(const char *a, uint64_t a_bytes, const char *b, uint64_t b_bytes)
{
    const uint64_t n = a_bytes < b_bytes ? a_bytes : b_bytes;
    const int c = n > 0 ? memcmp(a, b, n) : 0;

    return c != 0 ? c : (a_bytes > b_bytes) - (a_bytes < b_bytes);
}

static int by_text(const void *a, const void *b)
{
    const struct row *x = a, *y = b;
    const int c = order(x->text.data, x->text.bytes, y->text.data, y->text.bytes);

    return c != 0 ? c : (x->line > y->line) - (x->line < y->line);
}

/* The last of the rows with that text, NULL: there is none. */
static const struct row *find(const struct table *t, const char *key, uint64_t bytes)
{
    uint32_t low = 0, high = t->count;

    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;

        if (order(t->rows[middle].text.data, t->rows[middle].text.bytes, key, bytes) <= 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low > 0 && order(t->rows[low - 1].text.data, t->rows[low - 1].text.bytes, key, bytes) == 0
               ? &t->rows[low - 1]
               : NULL;
}

typedef enum map_kind { TEXT_TO_TEXT, TEXT_TO_NUMBERS, NUMBERS_TO_TEXT } map_kind;

static inlay_status bad_line(const char *op, uint32_t line, const char *what, inlay_diag *diag)
{
    return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "%s: line %u of the attribute map: %s", op, line, what);
}

/* The numbers of a row; those of all rows are as many. */
static inlay_status take_numbers(struct table *t, const char *op, inlay_str text, struct row *r, uint32_t line,
                                 inlay_diag *diag)
{
    const int64_t count = read_numbers(text, NULL);

    if (count < 1)
        return bad_line(op, line, "integers with a space between them are expected", diag);
    if (t->width == 0) {
        if (count > 1 << 20 || (t->numbers = calloc((size_t)t->count * (size_t)count, sizeof *t->numbers)) == NULL)
            return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "%s: no memory for its table", op);
        t->width = (uint32_t)count;
    } else if (count != t->width) {
        return bad_line(op, line, "it has another number of integers than the first line", diag);
    }
    r->numbers = t->numbers + (size_t)(line - 1) * t->width;
    (void)read_numbers(text, t->numbers + (size_t)(line - 1) * t->width);
    return INLAY_OK;
}

static inlay_status read_rows(struct table *t, const char *op, map_kind kind, inlay_str text, inlay_diag *diag)
{
    inlay_status status = INLAY_OK;
    uint32_t count = 0, line = 0;

    for (inlay_str rest = text; rest.bytes > 0;)
        count += cut_off(&rest, '\n').bytes > 0;
    t->rows = calloc((size_t)count + 1, sizeof *t->rows);
    if (t->rows == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "%s: no memory for its table", op);
    t->count = count;
    while (text.bytes > 0) {
        inlay_str right = cut_off(&text, '\n'), left;
        struct row *r = &t->rows[line];

        if (right.bytes == 0)
            continue;
        line++;
        left = cut_off(&right, '\t');
        if (left.bytes == 0 || right.bytes == 0 || memchr(right.data, '\t', right.bytes) != NULL)
            return bad_line(op, line, "two parts with a tab between them are expected", diag);
        r->line = line;
        r->text = left;
        r->other = right;
        if (kind != TEXT_TO_TEXT)
            INLAY_TRY(take_numbers(t, op, kind == TEXT_TO_NUMBERS ? right : left, r, line, diag));
        if (kind == NUMBERS_TO_TEXT) { /* found by the bytes of the numbers */
            r->text = (inlay_str){ (const char *)r->numbers, t->width * sizeof *r->numbers };
        }
    }
    qsort(t->rows, t->count, sizeof *t->rows, by_text);
done:
    return status;
}

static inlay_status make_table(const kit_node *node, map_kind kind, void **out, inlay_diag *diag)
{
    const char *op = node->info->op_type.data;
    const inlay_str map = attribute(node->info, "map"), unknown = attribute(node->info, "unk");
    struct table *t = calloc(1, sizeof *t);
    inlay_status status = INLAY_OK;

    if (t == NULL || (t->copy = calloc(1, map.bytes + unknown.bytes + 2)) == NULL) {
        release(t);
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "%s: no memory for its table", op);
    }
    if (map.bytes > 0)
        memcpy(t->copy, map.data, map.bytes);
    if (unknown.bytes > 0)
        memcpy(t->copy + map.bytes + 1, unknown.data, unknown.bytes);
    t->unknown_text = (inlay_str){ t->copy + map.bytes + 1, unknown.bytes };
    INLAY_TRY(read_rows(t, op, kind, (inlay_str){ t->copy, map.bytes }, diag));
    if (kind == TEXT_TO_NUMBERS) {
        t->unknown = calloc((size_t)t->width + 1, sizeof *t->unknown);
        if (t->unknown == NULL)
            status = inlay_fail(diag, INLAY_OUT_OF_MEMORY, "%s: no memory for its table", op);
        else if (read_numbers(t->unknown_text, NULL) != t->width)
            status = inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                                "%s: the attribute unk has other integers than the %u that "
                                "the lines of map have",
                                op, t->width);
        else
            (void)read_numbers(t->unknown_text, t->unknown);
    }
done:
    if (status != INLAY_OK) {
        release(t);
        t = NULL;
    }
    *out = t;
    return status;
}

static void cost(const kit_node *node, const kit_plan *shapes, inlay_cost *cost)
{
    const int64_t count = shapes->in[0].count;

    (void)node;
    pp_cost(cost, count >= 0, 200.0 * (count >= 0 ? (double)count : 16) + 500);
}

/* ------------------------------------------------------------------ StringMapping */

static inlay_status infer_mapping(void *ctx, inlay_infer *in, inlay_diag *diag)
{
    const inlay_value_info *x = in->inputs[0];

    (void)ctx, (void)diag;
    return pp_knows_rank(x) ? pp_set(in, 0, x->rank, x->dims) : INLAY_OK;
}

static inlay_status prepare_mapping(const kit_node *node, void **out_state, inlay_diag *diag)
{
    return make_table(node, TEXT_TO_TEXT, out_state, diag);
}

static inlay_status run_mapping(const kit_call *call)
{
    const inlay_str *x = call->in[0].data;
    inlay_status status = kit_alloc_output(call, 0, call->in[0].rank, call->in[0].dims);

    for (int64_t i = 0; i < call->in[0].count && status == INLAY_OK; i++) {
        const struct row *r = find(call->state, x[i].data, x[i].bytes);
        const inlay_str to = r != NULL ? r->other : x[i];

        status = pp_put_string(call, (inlay_str *)call->out[0].data + i, to.data, to.bytes);
    }
    return status;
}

/* ------------------------------------------------------------------ StringToVector, VectorToString */

static inlay_status infer_to_vector(void *ctx, inlay_infer *in, inlay_diag *diag)
{
    const inlay_value_info *x = in->inputs[0];
    inlay_dim dims[9];

    (void)ctx, (void)diag;
    if (!pp_knows_rank(x) || x->rank >= 9)
        return INLAY_OK;
    for (uint32_t d = 0; d < x->rank; d++)
        dims[d] = x->dims[d];
    dims[x->rank] = pp_open();
    return pp_set(in, 0, x->rank + 1, dims);
}

static inlay_status prepare_to_vector(const kit_node *node, void **out_state, inlay_diag *diag)
{
    return make_table(node, TEXT_TO_NUMBERS, out_state, diag);
}

static inlay_status run_to_vector(const kit_call *call)
{
    const struct table *t = call->state;
    const inlay_str *x = call->in[0].data;
    int64_t dims[9];
    inlay_status status;

    if (call->in[0].rank >= 9)
        return inlay_fail(call->diag, INLAY_UNSUPPORTED, "StringToVector: more than 8 dimensions");
    for (uint32_t d = 0; d < call->in[0].rank; d++)
        dims[d] = call->in[0].dims[d];
    dims[call->in[0].rank] = t->width;
    INLAY_TRY(kit_alloc_output(call, 0, call->in[0].rank + 1, dims));
    for (int64_t i = 0; i < call->in[0].count && t->width > 0; i++) {
        const struct row *r = find(t, x[i].data, x[i].bytes);

        memcpy((int64_t *)call->out[0].data + i * t->width, r != NULL ? r->numbers : t->unknown,
               t->width * sizeof(int64_t));
    }
done:
    return status;
}

static inlay_status prepare_to_string(const kit_node *node, void **out_state, inlay_diag *diag)
{
    return make_table(node, NUMBERS_TO_TEXT, out_state, diag);
}

static inlay_status run_to_string(const kit_call *call)
{
    const struct table *t = call->state;
    const kit_tensor *x = &call->in[0];
    const bool flat = t->width == 1 && x->rank <= 1; /* a list of numbers that are a key each */
    const uint32_t rank = flat ? x->rank : x->rank > 0 ? x->rank - 1 : 0;
    inlay_status status;

    if (t->width == 0 || (!flat && (x->rank == 0 || x->dims[x->rank - 1] != t->width)))
        return inlay_fail(call->diag, INLAY_SHAPE_MISMATCH,
                          "VectorToString: the last dimension is %lld; the lines of map "
                          "have %u integers",
                          x->rank > 0 ? (long long)x->dims[x->rank - 1] : 0, t->width);
    INLAY_TRY(kit_alloc_output(call, 0, rank, x->dims));
    for (int64_t i = 0; i < x->count / t->width; i++) {
        const struct row *r =
            find(t, (const char *)((const int64_t *)x->data + i * t->width), t->width * sizeof(int64_t));
        const inlay_str to = r != NULL ? r->other : t->unknown_text;

        INLAY_TRY(pp_put_string(call, (inlay_str *)call->out[0].data + i, to.data, to.bytes));
    }
done:
    return status;
}

/* ------------------------------------------------------------------ SegmentSum */

static inlay_status infer_sum(void *ctx, inlay_infer *in, inlay_diag *diag)
{
    const inlay_value_info *x = in->inputs[0];
    inlay_dim dims[9];

    (void)ctx, (void)diag;
    if (!pp_knows_rank(x) || x->rank == 0 || x->rank >= 9)
        return INLAY_OK;
    for (uint32_t d = 0; d < x->rank; d++)
        dims[d] = d == 0 ? pp_open() : x->dims[d];
    return pp_set(in, 0, x->rank, dims);
}

static inlay_status run_sum(const kit_call *call)
{
    const kit_tensor *x = &call->in[0], *ids = &call->in[1];
    const int64_t *of = ids->data;
    const int64_t rows = x->rank > 0 ? x->dims[0] : 0, size = rows > 0 ? x->count / rows : 0;
    int64_t dims[9];
    inlay_status status;

    if (x->rank == 0 || x->rank >= 9 || ids->rank != 1 || ids->dims[0] != rows)
        return inlay_fail(call->diag, INLAY_SHAPE_MISMATCH, "SegmentSum: segment_ids has one for each of the %lld rows",
                          (long long)rows);
    for (int64_t i = 0; i < rows; i++)
        if (of[i] < 0 || of[i] > rows || (i > 0 && of[i] != of[i - 1] && of[i] != of[i - 1] + 1))
            return inlay_fail(call->diag, INLAY_INVALID_ARGUMENT,
                              "SegmentSum: segment_ids count up from 0, by 1 at most; "
                              "number %lld is %lld",
                              (long long)i, (long long)of[i]);
    for (uint32_t d = 1; d < x->rank; d++)
        dims[d] = x->dims[d];
    dims[0] = rows > 0 ? of[rows - 1] + 1 : 0;
    INLAY_TRY(kit_alloc_output(call, 0, x->rank, dims));
    if (dims[0] * size > 0)
        memset(call->out[0].data, 0, (size_t)(dims[0] * size) * sizeof(float));
    for (int64_t i = 0; i < rows; i++)
        for (int64_t k = 0; k < size; k++)
            ((float *)call->out[0].data)[of[i] * size + k] += ((const float *)x->data)[i * size + k];
done:
    return status;
}

/* ------------------------------------------------------------------ examples, and the table */

static const int64_t three_dims[] = { 3 }, vectors_dims[] = { 3, 2 }, four_dims[] = { 4 }, pairs_dims[] = { 3, 2 };
static const int64_t rows_dims[] = { 4, 2 };
static const inlay_str words[] = { PP_STR("a"), PP_STR("b c"), PP_STR("?") };
static const inlay_str mapped[] = { PP_STR("one"), PP_STR("two"), PP_STR("?") };
static const int64_t vectors[] = { 0, 1, -2, 3, -9, -9 };
static const inlay_str named[] = { PP_STR("a"), PP_STR("b c"), PP_STR("none") };
static const float data[] = { 1, 2, 3, 4, 5, 6, 7, 8 }, sums[] = { 4, 6, 5, 6, 7, 8 };
static const int64_t segments[] = { 0, 0, 1, 2 };

static const inlay_tensor_view words_in[] = { PP_VIEW(words, three_dims, INLAY_STRING) };
static const inlay_tensor_view mapped_out[] = { PP_VIEW(mapped, three_dims, INLAY_STRING) };
static const inlay_tensor_view vectors_view[] = { PP_VIEW(vectors, vectors_dims, INLAY_INT64) };
static const inlay_tensor_view named_out[] = { PP_VIEW(named, three_dims, INLAY_STRING) };
static const inlay_tensor_view sum_in[] = { PP_VIEW(data, rows_dims, INLAY_FLOAT),
                                            PP_VIEW(segments, four_dims, INLAY_INT64) };
static const inlay_tensor_view sum_out[] = { PP_VIEW(sums, pairs_dims, INLAY_FLOAT) };
static const inlay_attr_info map_attrs[] = { PP_ATTR_STRING("map", "a\tone\nb c\ttwo\n") };
static const inlay_attr_info to_attrs[] = { PP_ATTR_STRING("map", "a\t0 1\nb c\t-2 3\n"),
                                            PP_ATTR_STRING("unk", "-9 -9") };
static const inlay_attr_info from_attrs[] = { PP_ATTR_STRING("map", "0 1\ta\n-2 3\tb c\n"),
                                              PP_ATTR_STRING("unk", "none") };

static const inlay_op_example map_examples[] = {
    PP_EXAMPLE("two of three are in the table", map_attrs, words_in, mapped_out, 0),
};
static const inlay_op_example to_examples[] = {
    PP_EXAMPLE("two of three are in the table", to_attrs, words_in, vectors_view, 0),
};
static const inlay_op_example from_examples[] = {
    PP_EXAMPLE("two of three are in the table", from_attrs, vectors_view, named_out, 0),
};
static const inlay_op_example sum_examples[] = {
    { .name = "three segments of four rows",
      .attr_stride = sizeof(inlay_attr_info),
      .inputs = sum_in,
      .input_count = KIT_COUNT(sum_in),
      .outputs = sum_out,
      .output_count = KIT_COUNT(sum_out) },
};

const pp_operator pp_string_mapping = {
    .op_type = "StringMapping",
    .signature = "input:S -> output:S; S=string; map:s!",
    .doc = "What the table has for a text, otherwise the text. map: lines of text TAB text.",
    .extensions = true,
    .infer = infer_mapping,
    PP_EXAMPLES(map_examples),
    .kernel = { .flags = KIT_SHAPES_AT_RUN,
                .cost = cost,
                .prepare = prepare_mapping,
                .release = release,
                .run = run_mapping },
};

const pp_operator pp_string_to_vector = {
    .op_type = "StringToVector",
    .signature = "input:S -> output:I; S=string, I=int64; map:s!, unk:s!",
    .doc =
        "The integers that the table has for each text, along a new last axis; unk for others. map: lines of text TAB "
        "integers with a space between them.",
    .extensions = true,
    .infer = infer_to_vector,
    PP_EXAMPLES(to_examples),
    .kernel = { .flags = KIT_SHAPES_AT_RUN,
                .cost = cost,
                .prepare = prepare_to_vector,
                .release = release,
                .run = run_to_vector },
};

const pp_operator pp_vector_to_string = {
    .op_type = "VectorToString",
    .signature = "input:I -> output:S; S=string, I=int64; map:s!, unk:s!",
    .doc =
        "The text that the table has for the integers along the last axis; unk for others. map: lines of integers TAB "
        "text.",
    .extensions = true,
    PP_EXAMPLES(from_examples),
    .kernel = { .flags = KIT_SHAPES_AT_RUN,
                .cost = cost,
                .prepare = prepare_to_string,
                .release = release,
                .run = run_to_string },
};

const pp_operator pp_segment_sum = {
    .op_type = "SegmentSum",
    .signature = "data:F, segment_ids:I -> output:F; F=float, I=int64",
    .doc = "Sums of the rows of each segment. segment_ids has the segment of each row, counting up from 0.",
    .extensions = true,
    .infer = infer_sum,
    PP_EXAMPLES(sum_examples),
    .kernel = { .flags = KIT_SHAPES_AT_RUN, .cost = cost, .run = run_sum },
};
