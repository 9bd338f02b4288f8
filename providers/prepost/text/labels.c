/* labels.c - TopKLabels: the names of the best classes; and lists of lines (lines.h). */
#include "prepost/text/lines.h"
#include "prepost/prepost.h"
#include "inlay/check.h"
#include <stdio.h>
#include <stdlib.h>

static const char *text_of(const inlay_node_info *node, const char *attr, uint64_t *bytes)
{
    const inlay_attr_info *attribute = kit_attr(node, attr);
    const bool has = attribute != NULL && attribute->kind == INLAY_ATTR_STRING;

    *bytes = has ? attribute->s.bytes : 0;
    return has ? attribute->s.data : "";
}

struct lines *lines_create(const inlay_node_info *node, const char *attr, size_t head)
{
    uint64_t bytes;
    const char *text = text_of(node, attr, &bytes);
    uint32_t count = bytes > 0 && text[bytes - 1] != '\n' ? 1 : 0;
    char *copy, *base;
    struct lines *lines;

    for (uint64_t i = 0; i < bytes; i++)
        count += text[i] == '\n';
    base = calloc(1, head + sizeof *lines + count * sizeof *lines->list + bytes + 1);
    if (base == NULL)
        return NULL;
    lines = (struct lines *)(void *)(base + head);
    lines->list = (inlay_str *)(void *)(lines + 1);
    copy = (char *)(lines->list + count);
    memcpy(copy, text, bytes);
    for (uint64_t at = 0; lines->count < count; lines->count++) {
        const char *end = memchr(copy + at, '\n', bytes - at);
        const uint64_t n = (end != NULL ? (uint64_t)(end - copy) : bytes) - at;

        INLAY_CHECK(at < bytes);
        lines->list[lines->count] = (inlay_str){ copy + at, n > 0 && copy[at + n - 1] == '\r' ? n - 1 : n };
        at += n + 1;
    }
    return lines;
}

typedef struct top_state {
    int64_t k;
    struct lines labels; /* last, see lines.h */
} top_state;

static inlay_status infer(void *ctx, inlay_infer *in, inlay_diag *diag)
{
    const inlay_value_info *input = in->inputs[0];
    inlay_dim dims[2] = { prepost_fixed(1), prepost_fixed(kit_attr_int(in->node, "k", 5)) };
    inlay_status status = prepost_want_rank(in, 0, 1, 2, "[classes] or [N, classes]", diag);

    (void)ctx;
    if (status != INLAY_OK)
        return status;
    if (dims[1].value < 1)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "TopKLabels: k must be 1 or more");
    if (!prepost_knows_rank(input))
        dims[0] = dims[1] = prepost_open();
    else if (input->rank == 2)
        dims[0] = input->dims[0];
    if (prepost_knows_rank(input) && input->dims[input->rank - 1].kind != INLAY_DIM_FIXED)
        dims[1] = prepost_open();
    else if (prepost_knows_rank(input) && input->dims[input->rank - 1].value < dims[1].value)
        dims[1] = input->dims[input->rank - 1];
    for (uint32_t i = 0; i < 3 && status == INLAY_OK; i++)
        status = prepost_set(in, i, 2, dims);
    return status;
}

static inlay_status prepare(const kit_node *node, void **out_state, inlay_diag *diag)
{
    struct lines *lines = lines_create(node->info, "labels", offsetof(top_state, labels));
    top_state *state;

    if (lines == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "TopKLabels: no memory for the labels");
    state = (top_state *)(void *)((char *)lines - offsetof(top_state, labels));
    state->k = kit_attr_int(node->info, "k", 5);
    *out_state = state;
    return INLAY_OK;
}

static void cost(const kit_node *node, const kit_plan *shapes, inlay_cost *cost)
{
    const kit_tensor *input = &shapes->in[0];
    const int64_t rows = input->count >= 0 && input->rank == 2 ? input->dims[0] : 1;

    /* The run allocates a string for each label. */
    prepost_cost(cost, input->count >= 0,
                 500 + 2.0 * (input->count >= 0 ? (double)input->count : 1000) +
                     800.0 * (double)(rows * kit_attr_int(node->info, "k", 5)));
}

static inlay_status put_label(const kit_call *call, const struct lines *labels, int64_t class, inlay_str *to)
{
    char number[24];

    if (class < labels->count)
        return prepost_put_string(call, to, labels->list[class].data, labels->list[class].bytes);
    return prepost_put_string(call, to, number, (size_t)snprintf(number, sizeof number, "%lld", (long long)class));
}

/* Indices of the k largest elements of a row, in descending order. Equal elements keep their order; NaN is last. */
static void find_top(const float *row, int64_t count, int64_t k, int64_t *at)
{
    int64_t have = 0;

    for (int64_t i = 0; i < count; i++) {
        int64_t place = have;

        while (place > 0 &&
               (row[i] > row[at[place - 1]] || (row[at[place - 1]] != row[at[place - 1]] && row[i] == row[i])))
            place--;
        if (place >= k)
            continue;
        have += have < k;
        memmove(at + place + 1, at + place, (size_t)(have - place - 1) * sizeof *at);
        at[place] = i;
    }
    INLAY_CHECK(have <= k);
}

static inlay_status shape(const void *state, kit_plan *plan, inlay_diag *diag)
{
    const top_state *top_k = state;

    (void)diag;
    plan->workspace_bytes = (uint64_t)top_k->k * sizeof(int64_t);
    for (uint32_t i = 0; i < plan->out_count; i++)
        plan->allocates |= plan->out[i].count < 0 ? 1u << i : 0;
    return INLAY_OK;
}

static inlay_status run(const kit_call *call)
{
    const top_state *state = call->state;
    const kit_tensor *input = &call->in[0];
    const bool ranked = input->rank == 1 || input->rank == 2; /* inference may not have known the rank */
    const int64_t classes = ranked ? input->dims[input->rank - 1] : 0, rows = input->rank == 2 ? input->dims[0] : 1;
    const int64_t k = state->k < classes ? state->k : classes, dims[2] = { rows, k };
    int64_t *at = call->workspace;
    inlay_status status = INLAY_OK;

    if (!ranked)
        return inlay_fail(call->diag, INLAY_SHAPE_MISMATCH, "TopKLabels: input 0 must be [classes] or [N, classes]");
    for (uint32_t i = 0; i < 3; i++)
        if (kit_has_output(call, i))
            INLAY_TRY(prepost_output(call, i, 2, dims));
    for (int64_t r = 0; r < rows; r++) {
        const float *row = (const float *)input->data + r * classes;

        find_top(row, classes, k, at);
        for (int64_t i = 0; i < k; i++) {
            if (kit_has_output(call, 0))
                INLAY_TRY(put_label(call, &state->labels, at[i], (inlay_str *)call->out[0].data + r * k + i));
            if (kit_has_output(call, 1))
                ((float *)call->out[1].data)[r * k + i] = row[at[i]];
            if (kit_has_output(call, 2))
                ((int64_t *)call->out[2].data)[r * k + i] = at[i];
        }
    }
done:
    return status;
}

static const int64_t score_dims[] = { 1, 3 }, best_dims[] = { 1, 2 };
static const float scores[] = { 0.25f, 0.5f, 0.125f }, best[] = { 0.5f, 0.25f };
static const int64_t places[] = { 1, 0 };
static const inlay_str names[] = { PREPOST_STR("dog"), PREPOST_STR("cat") };
static const inlay_tensor_view score_view[] = { PREPOST_VIEW(scores, score_dims, INLAY_FLOAT) };
static const inlay_tensor_view best_view[] = { PREPOST_VIEW(names, best_dims, INLAY_STRING),
                                               PREPOST_VIEW(best, best_dims, INLAY_FLOAT),
                                               PREPOST_VIEW(places, best_dims, INLAY_INT64) };
static const inlay_attr_info two[] = { PREPOST_ATTR_INT("k", 2), PREPOST_ATTR_STRING("labels", "cat\ndog\nbird\n") };
static const inlay_op_example examples[] = { PREPOST_EXAMPLE("the two best of three", two, score_view, best_view, 0) };

const prepost_operator prepost_top_k_labels = {
    .op_type = "TopKLabels",
    .signature = "scores:F -> labels:S, values?:F, indices?:I; F=float, S=string, I=int64; k:i=5, labels:s=''",
    .doc =
        "Finds the k largest scores of each row of [N, classes] or [classes], in descending order, and returns their "
        "labels, scores and classes as [N, k]. labels has one label a line; a class without a label is named by its "
        "number.",
    .infer = infer,
    PREPOST_EXAMPLES(examples),
    .kernel = { .cost = cost, .prepare = prepare, .shape = shape, .run = run },
};
