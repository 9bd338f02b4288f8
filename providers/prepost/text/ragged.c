/* ragged.c - onnxruntime-extensions' operators on ragged tensors: concatenated lists, and the index of the first value
 * of each list. RaggedTensorToSparse, RaggedTensorToDense, StringRaggedTensorToDense; SegmentExtraction. */
#include "prepost/prepost.h"
#include "inlay/check.h"

static void cost(const kit_node *node, const kit_plan *shapes, inlay_cost *cost)
{
    (void)node;
    prepost_cost_elements(cost, shapes, 500, 4, 64);
}

/* Checks the starts of the lists, whose last element is the end of the last list. They must be ascending, at least 0
 * and at most `values`. */
static inlay_status check_starts(const kit_call *call, const kit_tensor *starts, int64_t values, int64_t *out_longest)
{
    const int64_t *at = starts->data;

    *out_longest = 0;
    if (starts->rank != 1 || starts->count < 1)
        return inlay_fail(call->diag, INLAY_SHAPE_MISMATCH,
                          "the starts of the lists must be a tensor of rank 1 with at least one element");
    for (int64_t i = 0; i < starts->count; i++) {
        if (at[i] < (i > 0 ? at[i - 1] : 0) || at[i] > values)
            return inlay_fail(call->diag, INLAY_INVALID_ARGUMENT,
                              "list %lld starts at %lld; the starts must be ascending and at most %lld, the number of "
                              "values",
                              (long long)i, (long long)at[i], (long long)values);
        if (i > 0 && at[i] - at[i - 1] > *out_longest)
            *out_longest = at[i] - at[i - 1];
    }
    return INLAY_OK;
}

static inlay_status infer_sparse(void *ctx, inlay_infer *in, inlay_diag *diag)
{
    const inlay_dim places[2] = { prepost_open(), prepost_fixed(2) };
    inlay_status status = prepost_want_rank(in, 0, 1, 1, "[lists + 1]", diag);

    (void)ctx;
    if (status == INLAY_OK)
        status = prepost_set(in, 0, 2, places);
    return status == INLAY_OK ? prepost_set(in, 1, 1, places + 1) : status;
}

static inlay_status run_sparse(const kit_call *call)
{
    const int64_t *at = call->in[0].data;
    const int64_t lists = call->in[0].count - 1, first = lists >= 0 ? at[0] : 0;
    const int64_t values = lists >= 0 ? at[lists] : 0, two = 2, dims[2] = { values - first, 2 };
    int64_t longest, *to;
    inlay_status status;

    INLAY_TRY(check_starts(call, &call->in[0], values, &longest));
    INLAY_TRY(kit_alloc_output(call, 0, 2, dims));
    INLAY_TRY(kit_alloc_output(call, 1, 1, &two));
    to = kit_has_output(call, 0) ? call->out[0].data : NULL;
    for (int64_t i = 0; to != NULL && i < lists; i++) {
        for (int64_t k = at[i]; k < at[i + 1]; k++) {
            *to++ = i;
            *to++ = k - at[i];
        }
    }
    INLAY_CHECK(to == NULL || to == (int64_t *)call->out[0].data + 2 * dims[0]);
    if (kit_has_output(call, 1)) {
        ((int64_t *)call->out[1].data)[0] = lists;
        ((int64_t *)call->out[1].data)[1] = longest;
    }
done:
    return status;
}

/* The two operators have inputs 2 and 3 in opposite order: the value for missing elements, and the starts of the lists.
 */
static inlay_status infer_dense(void *ctx, inlay_infer *in, inlay_diag *diag)
{
    const inlay_dim dims[2] = { prepost_open(), prepost_open() };

    (void)ctx, (void)diag;
    return prepost_set(in, 0, 2, dims);
}

static inlay_status open_dense(const kit_call *call, const kit_tensor *starts, int64_t dims[2])
{
    inlay_status status = check_starts(call, starts, call->in[1].count, &dims[1]);

    dims[0] = starts->count - 1;
    return status == INLAY_OK ? kit_alloc_output(call, 0, 2, dims) : status;
}

static inlay_status run_dense(const kit_call *call)
{
    const int64_t *values = call->in[1].data, *at = call->in[3].data;
    int64_t dims[2], *to;
    inlay_status status;

    if (call->in[2].count < 1)
        return inlay_fail(call->diag, INLAY_SHAPE_MISMATCH, "RaggedTensorToDense: input missing is empty");
    INLAY_TRY(open_dense(call, &call->in[3], dims));
    to = call->out[0].data;
    for (int64_t i = 0; i < dims[0]; i++)
        for (int64_t k = 0; k < dims[1]; k++)
            *to++ = at[i] + k < at[i + 1] ? values[at[i] + k] : *(const int64_t *)call->in[2].data;
done:
    return status;
}

static inlay_status run_string_dense(const kit_call *call)
{
    const inlay_str *values = call->in[1].data;
    const int64_t *at = call->in[2].data;
    int64_t dims[2];
    inlay_str *to;
    inlay_status status;

    INLAY_TRY(open_dense(call, &call->in[2], dims));
    to = call->out[0].data;
    for (int64_t i = 0; i < dims[0]; i++) {
        for (int64_t k = 0; k < dims[1]; k++) {
            const inlay_str string = at[i] + k < at[i + 1] ? values[at[i] + k] : (inlay_str){ "", 0 };

            INLAY_TRY(prepost_put_string(call, to++, string.data, string.bytes));
        }
    }
done:
    return status;
}

static inlay_status infer_segments(void *ctx, inlay_infer *in, inlay_diag *diag)
{
    const inlay_dim dims[2] = { prepost_open(), prepost_fixed(2) };
    inlay_status status = prepost_want_rank(in, 0, 1, 2, "[n] or [1, n]", diag);

    (void)ctx;
    if (status == INLAY_OK)
        status = prepost_set(in, 0, 2, dims);
    return status == INLAY_OK ? prepost_set(in, 1, 1, dims) : status;
}

static inlay_status run_segments(const kit_call *call)
{
    const kit_tensor *input = &call->in[0];
    const int64_t *of = input->data;
    int64_t dims[2] = { 0, 2 }, made = 0;
    inlay_status status;

    if (input->rank == 0 || input->rank > 2 || (input->rank == 2 && input->dims[0] != 1))
        return inlay_fail(call->diag, INLAY_SHAPE_MISMATCH, "SegmentExtraction: the input must be [n] or [1, n]");
    for (int64_t i = 0; i < input->count; i++)
        dims[0] += of[i] != 0 && (i == 0 || of[i - 1] != of[i]);
    INLAY_TRY(kit_alloc_output(call, 0, 2, dims));
    INLAY_TRY(kit_alloc_output(call, 1, 1, dims));
    for (int64_t i = 0, end; i < input->count; i = end) {
        for (end = i + 1; end < input->count && of[end] == of[i]; end++)
            ;
        if (of[i] == 0)
            continue;
        if (kit_has_output(call, 0)) {
            ((int64_t *)call->out[0].data)[2 * made] = i;
            ((int64_t *)call->out[0].data)[2 * made + 1] = end;
        }
        if (kit_has_output(call, 1))
            ((int64_t *)call->out[1].data)[made] = of[i];
        made++;
    }
    INLAY_CHECK(made == dims[0]); /* both passes find the same segments */
done:
    return status;
}

static const int64_t one_dims[] = { 1 }, two_dims[] = { 2 }, three_dims[] = { 3 }, four_dims[] = { 4 },
                     six_dims[] = { 6 };
static const int64_t table_dims[] = { 3, 2 }, places_dims[] = { 3, 2 }, pair_dims[] = { 2, 2 };
static const int64_t starts[] = { 0, 2, 2, 3 }, places[] = { 0, 0, 0, 1, 2, 0 }, sizes[] = { 3, 2 };
static const int64_t numbers[] = { 7, 8, 9 }, none[] = { -1 }, filled[] = { 7, 8, -1, -1, 9, -1 };
static const inlay_str words[] = { PREPOST_STR("a"), PREPOST_STR("b"), PREPOST_STR("c") };
static const inlay_str in_rows[] = { PREPOST_STR("a"), PREPOST_STR("b"), PREPOST_STR(""),
                                     PREPOST_STR(""),  PREPOST_STR("c"), PREPOST_STR("") };
static const int64_t marks[] = { 0, 5, 5, 0, 0, 3 }, spans[] = { 1, 3, 5, 6 }, marked[] = { 5, 3 };

#define NUMBERS(array, dims) PREPOST_VIEW(array, dims, INLAY_INT64)
#define TEXTS(array, dims) PREPOST_VIEW(array, dims, INLAY_STRING)
static const inlay_tensor_view starts_in[] = { NUMBERS(starts, four_dims) };
static const inlay_tensor_view sparse_out[] = { NUMBERS(places, places_dims), NUMBERS(sizes, two_dims) };
static const inlay_tensor_view dense_in[] = { NUMBERS(starts, four_dims), NUMBERS(numbers, three_dims),
                                              NUMBERS(none, one_dims), NUMBERS(starts, four_dims) };
static const inlay_tensor_view dense_out[] = { NUMBERS(filled, table_dims) };
static const inlay_tensor_view words_in[] = { NUMBERS(starts, four_dims), TEXTS(words, three_dims),
                                              NUMBERS(starts, four_dims), TEXTS(words, three_dims) };
static const inlay_tensor_view words_out[] = { TEXTS(in_rows, table_dims) };
static const inlay_tensor_view marks_in[] = { NUMBERS(marks, six_dims) };
static const inlay_tensor_view marks_out[] = { NUMBERS(spans, pair_dims), NUMBERS(marked, two_dims) };
#define EXAMPLE(title, ins, outs) PREPOST_PLAIN_EXAMPLE(title, ins, outs, 0)
static const inlay_op_example sparse_examples[] = { EXAMPLE("lists of 2, 0 and 1 values", starts_in, sparse_out) };
static const inlay_op_example dense_examples[] = { EXAMPLE("lists of 2, 0 and 1 numbers", dense_in, dense_out) };
static const inlay_op_example words_examples[] = { EXAMPLE("lists of 2, 0 and 1 texts", words_in, words_out) };
static const inlay_op_example marks_examples[] = { EXAMPLE("two segments", marks_in, marks_out) };

#define RAGGED(name, type, sign, text, shapes, list)                                                                   \
    PREPOST_EXTENSION(name, type, sign, text, shapes, list, .cost = cost, .run = run_##name)
RAGGED(
    sparse, "RaggedTensorToSparse", "starts:I -> indices:I, shape:I; I=int64",
    "Returns row and column of each value of the lists that start at `starts`, the number of lists and the length of "
    "the longest one.",
    infer_sparse, sparse_examples)
RAGGED(dense, "RaggedTensorToDense", "shape:I, values:I, missing:I, starts:I -> dense:I; I=int64; missing_value:i=-1",
       "Converts lists to rows, as long as the longest list and padded with `missing`.", infer_dense, dense_examples)
RAGGED(string_dense, "StringRaggedTensorToDense",
       "shape:I, values:S, starts:I, missing:S -> dense:S; S=string, I=int64",
       "Converts lists of texts to rows, as long as the longest list and padded with empty texts.", infer_dense,
       words_examples)
RAGGED(segments, "SegmentExtraction", "input:I -> position:I, value:I; I=int64",
       "Finds the runs of equal integers other than 0: returns begin and end of each run, and its integer.",
       infer_segments, marks_examples)
