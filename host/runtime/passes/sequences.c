/* Sequences whose elements are known one by one: SequenceAt is the element, SequenceLength a constant,
 * ConcatFromSequence a Concat. What exporters write where a program kept tensors in a list. SplitToSequence into parts
 * that are known is a Split. */
#include "passes/rewrite.h"
#include <string.h>

enum { MOST = 4096 }; /* elements, and nodes that make a sequence */

struct list {
    uint32_t *values; /* [MOST] */
    uint32_t count;
};

/* The constant position in [0, places) that input i names, places - 1 where it is omitted; false: it is not known, or
 * outside. */
static bool read_position(struct rewrite *w, const graph_node *n, uint32_t i, int64_t places, int64_t *out)
{
    const int64_t *ints;
    uint32_t count;

    *out = places - 1;
    if (rw_input(w, n, i) != INLAY_NONE) {
        if (!rw_ints(w, rw_input(w, n, i), &ints, &count) || count != 1)
            return false;
        *out = ints[0];
    }
    return *out >= 0 && *out < places;
}

/* Positions count from the end when they are negative: of n elements, -1 is the last one for SequenceErase and
 * SequenceAt, and the place before it for SequenceInsert. */
static bool find_position(struct rewrite *w, const graph_node *n, uint32_t i, int64_t elements, bool insert,
                          int64_t *out)
{
    const int64_t *ints;
    uint32_t count;

    if (rw_input(w, n, i) != INLAY_NONE && rw_ints(w, rw_input(w, n, i), &ints, &count) && count == 1 && ints[0] < 0) {
        *out = ints[0] + elements;
        return *out >= 0;
    }
    return read_position(w, n, i, elements + insert, out);
}

static bool is_root(const graph_node *n)
{
    return pass_is_op(n, "SequenceEmpty") || pass_is_op(n, "SequenceConstruct");
}

/* One node's change of the list; false: not known. */
static bool apply(struct rewrite *w, const graph_node *n, struct list *l)
{
    int64_t at;

    if (is_root(n)) {
        l->count = 0;
        for (uint32_t i = 0; i < n->info.input_count && i < MOST; i++)
            l->values[l->count++] = rw_input(w, n, i);
        return n->info.input_count <= MOST;
    }
    if (pass_is_op(n, "SequenceInsert")) {
        if (l->count == MOST || !find_position(w, n, 2, l->count, true, &at))
            return false;
        memmove(l->values + at + 1, l->values + at, (l->count - (size_t)at) * sizeof *l->values);
        l->values[at] = rw_input(w, n, 1);
        l->count++;
        return true;
    }
    if (l->count == 0 || !find_position(w, n, 1, l->count, false, &at))
        return false;
    memmove(l->values + at, l->values + at + 1, (l->count - (size_t)at - 1) * sizeof *l->values);
    l->count--;
    return true;
}

/* The elements of sequence v; false: they are not known. */
static inlay_status read_list(struct rewrite *w, uint32_t v, struct list *out, bool *out_known)
{
    const graph_node **nodes = arena_array(&w->scratch, MOST, sizeof(const graph_node *)), *n;
    uint32_t count = 0;

    *out = (struct list){ arena_array(&w->scratch, MOST, sizeof *out->values), 0 };
    *out_known = false;
    if (nodes == NULL || out->values == NULL)
        return rw_no_memory(w);
    for (;;) { /* back to where it begins */
        n = rw_maker(w, v);
        if (n == NULL || count == MOST ||
            !(is_root(n) || pass_is_op(n, "SequenceInsert") || pass_is_op(n, "SequenceErase")))
            return INLAY_OK;
        nodes[count++] = n;
        if (is_root(n))
            break;
        v = rw_input(w, n, 0);
    }
    while (count > 0)
        if (!apply(w, nodes[--count], out))
            return INLAY_OK;
    *out_known = true;
    return INLAY_OK;
}

static inlay_status take_element(struct rewrite *w, graph_node *n)
{
    inlay_status status;
    bool known, done;
    int64_t at;
    struct list l;

    status = read_list(w, rw_input(w, n, 0), &l, &known);
    if (status != INLAY_OK || !known || !find_position(w, n, 1, l.count, false, &at))
        return status;
    return rw_forward(w, n->info.outputs[0], l.values[at], &done);
}

static inlay_status take_length(struct rewrite *w, graph_node *n)
{
    inlay_status status;
    int64_t length;
    bool known, done;
    uint32_t v;
    struct list l;

    status = read_list(w, rw_input(w, n, 0), &l, &known);
    if (status != INLAY_OK || !known)
        return status;
    length = l.count;
    v = rw_constant(w, INLAY_INT64, 0, NULL, &length, sizeof length);
    return v == INLAY_NONE ? rw_no_memory(w) : rw_forward(w, n->info.outputs[0], v, &done);
}

/* Along an axis that there is; new axes are left to the runtime. */
static inlay_status take_concat(struct rewrite *w, graph_node *n)
{
    graph_node *fresh;
    inlay_status status;
    bool known;
    struct list l;

    if (rw_attr_int(n, "new_axis", 0) != 0)
        return INLAY_OK;
    status = read_list(w, rw_input(w, n, 0), &l, &known);
    if (status != INLAY_OK || !known || l.count == 0)
        return status;
    fresh = rw_make(w, "Concat", n->opset, n, l.values, l.count, 1);
    if (fresh == NULL || graph_set_attr_int(w->g, fresh, "axis", rw_attr_int(n, "axis", 0)) != INLAY_OK)
        return rw_no_memory(w);
    return rw_replace(w, n, fresh);
}

/* Sizes of the parts; 0: they are not known. */
static uint32_t read_parts(struct rewrite *w, const graph_node *n, int64_t size, int64_t **out)
{
    uint32_t split = rw_input(w, n, 1), count = 0;
    const int64_t *ints;
    int64_t step = 1, sum = 0;

    *out = arena_array(&w->scratch, MOST, sizeof **out);
    if (*out == NULL || (split == INLAY_NONE && rw_attr_int(n, "keepdims", 1) == 0))
        return 0;
    if (split != INLAY_NONE) {
        if (!rw_ints(w, split, &ints, &count))
            return 0;
        step = ints != NULL && count == 1 ? ints[0] : 0;
    }
    if (split != INLAY_NONE && rw_info(w, split)->rank == 1) {
        for (uint32_t i = 0; i < count && i < MOST; sum += ints[i++]) {
            if (ints[i] < 0 || ints[i] > size)
                return 0;
            (*out)[i] = ints[i];
        }
        return count <= MOST && sum == size ? count : 0;
    }
    if (step < 1 || size < 1 || (size - 1) / step >= MOST)
        return 0;
    for (count = 0; size > 0; size -= step)
        (*out)[count++] = size < step ? size : step;
    return count;
}

static inlay_status take_split(struct rewrite *w, graph_node *n)
{
    const inlay_value_info *x = rw_info(w, rw_input(w, n, 0));
    int64_t axis = rw_attr_int(n, "axis", 0), *sizes;
    uint32_t inputs[2] = { rw_input(w, n, 0), INLAY_NONE }, count;
    graph_node *parts, *construct;
    inlay_status status;

    if (n->opset < 13 || x->rank == INLAY_RANK_UNKNOWN || axis < -(int64_t)x->rank || axis >= (int64_t)x->rank)
        return INLAY_OK;
    count = read_parts(w, n, rw_dim(x, axis), &sizes);
    if (count == 0)
        return INLAY_OK;
    inputs[1] = rw_constant_ints(w, sizes, count);
    parts = inputs[1] == INLAY_NONE ? NULL : rw_make(w, "Split", n->opset, n, inputs, 2, count);
    if (parts == NULL || graph_set_attr_int(w->g, parts, "axis", axis) != INLAY_OK)
        return rw_no_memory(w);
    status = rw_insert(w, parts, x->dtype);
    if (status != INLAY_OK)
        return status;
    construct = rw_make(w, "SequenceConstruct", n->opset, n, parts->info.outputs, count, 1);
    return construct == NULL ? rw_no_memory(w) : rw_replace(w, n, construct);
}

static inlay_status match(struct rewrite *w, graph_node *n)
{
    if (pass_is_op(n, "SequenceAt"))
        return take_element(w, n);
    if (pass_is_op(n, "SequenceLength"))
        return take_length(w, n);
    if (pass_is_op(n, "ConcatFromSequence"))
        return take_concat(w, n);
    return pass_is_op(n, "SplitToSequence") ? take_split(w, n) : INLAY_OK;
}

inlay_status pass_sequences(pass_ctx *ctx, bool *out_changed)
{
    return rewrite_each_graph(ctx, match, out_changed);
}
