/* Einsum (ONNX 12) as products of matrices, of elements, and sums: what providers have fast kernels for, and what other
 * passes know (attention is two such products).
 *
 * Two operands without a letter twice, and without a letter that only one of them has and the result lacks. Letters of
 * both and of the result are the batch, those that the result lacks are summed over, the others are rows of the left
 * and columns of the right operand:
 *
 *     [batch, rows, sum] x [batch, sum, columns] = [batch, rows, columns]
 *
 * Operands are transposed to that first, and groups of several letters become one axis; the result goes the other way.
 * Without sums it is Mul, without rows and columns Mul and ReduceSum. More than two operands are taken two by two, from
 * the left; one alone is ReduceSum and Transpose. */
#include "passes/rewrite.h"
#include <stdio.h>
#include <string.h>

enum { MOST = 8, MOST_TERMS = 4, LETTERS = 2 * MOST };

struct term {
    char letters[LETTERS + 1];
    uint32_t count;
};

struct equation {
    struct term in[MOST_TERMS], out;
    uint32_t count;
};

/* An Einsum of two operands, in the order in which MatMul has them. */
struct product {
    struct rewrite *w;
    const graph_node *n;
    inlay_dtype dtype;
    uint32_t v[2];
    struct term in[2], out;
    struct term batch, rows, columns, sum;
};

/* ------------------------------------------------------------------ equations */

static bool has(const struct term *t, char letter)
{
    return strchr(t->letters, letter) != NULL;
}

static void add(struct term *t, char letter)
{
    if (t->count < LETTERS)
        t->letters[t->count++] = letter;
}

static void add_all(struct term *t, const struct term *more)
{
    for (uint32_t i = 0; i < more->count; i++)
        add(t, more->letters[i]);
}

static bool same_letters(const struct term *a, const struct term *b)
{
    return strcmp(a->letters, b->letters) == 0;
}

/* "bij,bjk->bik" without spaces; false: something else, an ellipsis, no result, or a letter twice in a term. */
static bool parse_equation(const char *text, struct equation *e)
{
    struct term *t = &e->in[0];

    *e = (struct equation){ .count = 1 };
    for (; *text != '\0'; text++) {
        if (*text == ' ')
            continue;
        if (*text == ',' && t != &e->out && e->count < MOST_TERMS) {
            t = &e->in[e->count++];
        } else if (*text == '-' && text[1] == '>' && t != &e->out) {
            t = &e->out;
            text++;
        } else if (((*text >= 'a' && *text <= 'z') || (*text >= 'A' && *text <= 'Z')) && t->count < MOST &&
                   !has(t, *text)) {
            add(t, *text);
        } else {
            return false;
        }
    }
    return t == &e->out;
}

static inlay_dim size_of(const struct product *p, char letter)
{
    uint32_t k = has(&p->in[0], letter) ? 0 : 1;

    return rw_info(p->w, p->v[k])->dims[strchr(p->in[k].letters, letter) - p->in[k].letters];
}

/* A size of 1 would broadcast in Einsum, and reads as any other; so sizes of letters in both must be provably equal. */
static bool sizes_agree(const struct product *p)
{
    for (uint32_t i = 0; i < p->in[0].count; i++) {
        const char *at = strchr(p->in[1].letters, p->in[0].letters[i]);
        inlay_dim a = rw_info(p->w, p->v[0])->dims[i], b;

        if (at == NULL)
            continue;
        b = rw_info(p->w, p->v[1])->dims[at - p->in[1].letters];
        if (a.kind != b.kind || a.kind == INLAY_DIM_UNKNOWN ||
            (a.kind == INLAY_DIM_FIXED ? a.value != b.value : a.symbol != b.symbol))
            return false;
    }
    return true;
}

/* The operand that makes the columns: the one with the last letter of the result that is not in both. A matrix by a
 * vector stands where it need not be transposed. */
static uint32_t right_operand(const struct product *p)
{
    bool own[2] = { false, false };
    uint32_t right = 1;

    for (uint32_t i = 0; i < p->out.count; i++) {
        char c = p->out.letters[i];

        if (has(&p->in[0], c) == has(&p->in[1], c))
            continue;
        right = has(&p->in[0], c) ? 0 : 1;
        own[right] = true;
    }
    if (own[0] != own[1] && !has(&p->out, p->in[right].letters[p->in[right].count - 1]))
        right = 1 - right;
    return right;
}

/* Sorts the letters into batch, rows, columns and sum; false: there are others. */
static bool sort_letters(struct product *p)
{
    uint32_t order = rw_is_constant(p->w, p->v[0]) ? 1 : 0; /* the other operand may lie as it lies */

    if (right_operand(p) == 0) {
        struct term t = p->in[0];
        uint32_t v = p->v[0];

        p->in[0] = p->in[1];
        p->v[0] = p->v[1];
        p->in[1] = t;
        p->v[1] = v;
        order = 1 - order;
    }
    for (uint32_t i = 0; i < p->out.count; i++) {
        char c = p->out.letters[i];
        bool left = has(&p->in[0], c), right = has(&p->in[1], c);

        if (!left && !right)
            return false;
        add(left && right ? &p->batch : left ? &p->rows : &p->columns, c);
    }
    for (uint32_t i = 0; i < p->in[order].count; i++)
        if (!has(&p->out, p->in[order].letters[i]))
            add(&p->sum, p->in[order].letters[i]);
    return p->in[0].count == p->batch.count + p->rows.count + p->sum.count &&
           p->in[1].count == p->batch.count + p->columns.count + p->sum.count;
}

/* ------------------------------------------------------------------ nodes */

/* A new node of one output, which is a new value; ints, if any, are its attribute. INLAY_NONE: no memory. */
static uint32_t put(const struct product *p, const char *op, const uint32_t *inputs, uint32_t count, const char *attr,
                    const int64_t *ints, uint32_t int_count)
{
    graph_node *n = rw_make(p->w, op, p->n->opset, NULL, inputs, count, 1);

    if (n == NULL || (attr != NULL && graph_set_attr_ints(p->w->g, n, attr, ints, int_count) != INLAY_OK) ||
        rw_insert(p->w, n, p->dtype) != INLAY_OK)
        return INLAY_NONE;
    return n->info.outputs[0];
}

/* Squeeze, Unsqueeze, ReduceSum: axes are an input from version 13 on. */
static uint32_t put_axes(const struct product *p, const char *op, uint32_t v, const int64_t *axes, uint32_t count)
{
    uint32_t inputs[2] = { v, INLAY_NONE };
    bool is_sum = strcmp(op, "ReduceSum") == 0;
    graph_node *n;

    if (v == INLAY_NONE || count == 0)
        return v;
    if (p->n->opset >= 13) {
        inputs[1] = rw_constant_ints(p->w, axes, count);
        if (inputs[1] == INLAY_NONE)
            return INLAY_NONE;
    }
    n = rw_make(p->w, op, p->n->opset, NULL, inputs, p->n->opset >= 13 ? 2 : 1, 1);
    if (n == NULL || (p->n->opset < 13 && graph_set_attr_ints(p->w->g, n, "axes", axes, count) != INLAY_OK) ||
        (is_sum && graph_set_attr_int(p->w->g, n, "keepdims", 0) != INLAY_OK) ||
        rw_insert(p->w, n, p->dtype) != INLAY_OK)
        return INLAY_NONE;
    return n->info.outputs[0];
}

static uint32_t put_transpose(const struct product *p, uint32_t v, const struct term *have, const struct term *want)
{
    int64_t perm[LETTERS];

    if (v == INLAY_NONE || same_letters(have, want))
        return v;
    for (uint32_t d = 0; d < want->count; d++)
        perm[d] = strchr(have->letters, want->letters[d]) - have->letters;
    return put(p, "Transpose", &v, 1, "perm", perm, want->count);
}

/* Sizes for Reshape: those that are known, 0 for axes that stay where they are. One -1 is allowed where all others are
 * known: beside an axis that is empty it would mean anything. false: they can't be told. */
struct sizes {
    int64_t dims[LETTERS];
    uint32_t count;
    uint32_t copied, guessed;
};

static bool add_size(struct sizes *s, int64_t known, bool stays)
{
    if (known == 0 || s->count == LETTERS)
        return false;
    s->dims[s->count++] = known > 0 ? known : stays ? 0 : -1;
    s->copied += known < 0 && stays;
    s->guessed += known < 0 && !stays;
    return s->guessed == 0 || (s->guessed == 1 && s->copied == 0);
}

static int64_t known_size(const struct product *p, char letter)
{
    inlay_dim d = size_of(p, letter);

    return d.kind == INLAY_DIM_FIXED ? d.value : -1;
}

/* Appends the group's letters as one axis. */
static bool add_group(const struct product *p, const struct term *group, struct sizes *s)
{
    int64_t all = 1;

    for (uint32_t i = 0; i < group->count; i++) {
        int64_t size = known_size(p, group->letters[i]);

        if (size < 0 || all < 0)
            all = -1;
        else if (__builtin_mul_overflow(all, size, &all))
            return false;
    }
    return add_size(s, all, false);
}

static bool add_each(const struct product *p, const struct term *group, struct sizes *s, bool stay)
{
    for (uint32_t i = 0; i < group->count; i++)
        if (!add_size(s, known_size(p, group->letters[i]), stay))
            return false;
    return true;
}

static uint32_t put_reshape(const struct product *p, uint32_t v, const struct sizes *s)
{
    uint32_t inputs[2] = { v, INLAY_NONE };

    if (s->count == 0 || v == INLAY_NONE)
        return v;
    inputs[1] = rw_constant_ints(p->w, s->dims, s->count);
    return inputs[1] == INLAY_NONE ? INLAY_NONE : put(p, "Reshape", inputs, 2, NULL, NULL, 0);
}

/* ------------------------------------------------------------------ the three forms */

/* The operand with its letters in the order of `want`, and axes of 1 where it lacks one. */
static uint32_t put_spread(const struct product *p, uint32_t k, const struct term *want)
{
    struct term mine = { 0 };
    int64_t axes[LETTERS];
    uint32_t count = 0;

    for (uint32_t i = 0; i < want->count; i++) {
        if (has(&p->in[k], want->letters[i]))
            add(&mine, want->letters[i]);
        else
            axes[count++] = i;
    }
    return put_axes(p, "Unsqueeze", put_transpose(p, p->v[k], &p->in[k], &mine), axes, count);
}

/* Elements side by side, then what is to be summed. */
static uint32_t put_elements(const struct product *p)
{
    struct term all = p->out;
    uint32_t ab[2], y;
    int64_t axes[LETTERS];

    add_all(&all, &p->sum);
    for (uint32_t k = 0; k < 2; k++) {
        ab[k] = put_spread(p, k, &all);
        if (ab[k] == INLAY_NONE)
            return INLAY_NONE;
    }
    y = put(p, "Mul", ab, 2, NULL, NULL, 0);
    for (uint32_t i = 0; i < p->sum.count; i++)
        axes[i] = p->out.count + i;
    return put_axes(p, "ReduceSum", y, axes, p->sum.count);
}

/* How the operands of MatMul lie. */
struct form {
    struct term left, right, result;      /* letters in order */
    struct sizes to_left, to_right, back; /* none: no Reshape */
    bool vector_left, vector_right;       /* no rows, no columns: an axis of 1 is put in */
};

/* Columns of which only the last is one of the matrix: the others stand before the rows, in the result, too. */
static bool is_stack(const struct product *p, struct form *f)
{
    struct term order = { 0 }, last = { 0 };

    if (p->batch.count > 0 || p->rows.count != 1 || p->columns.count < 2 || p->sum.count != 1)
        return false;
    order = p->columns;
    order.letters[--order.count] = '\0';
    f->right = order;
    add(&last, p->columns.letters[p->columns.count - 1]);
    add_all(&order, &p->rows);
    add_all(&order, &last);
    if (!same_letters(&order, &p->out))
        return false;
    add_all(&f->right, &p->sum);
    add_all(&f->right, &last);
    f->result = order;
    return true;
}

/* Can the axes be put together as MatMul wants them? */
static bool find_form(const struct product *p, struct form *f)
{
    bool joins_rows = p->batch.count > 0 && p->rows.count > 1; /* without a batch rows are any number of axes */

    *f = (struct form){ .vector_left = p->rows.count == 0, .vector_right = p->columns.count == 0 };
    add_all(&f->left, &p->batch);
    add_all(&f->left, &p->rows);
    add_all(&f->left, &p->sum);
    if (is_stack(p, f))
        return true;
    *f = (struct form){ .left = f->left, .vector_left = f->vector_left, .vector_right = f->vector_right };
    add_all(&f->right, &p->batch);
    add_all(&f->right, &p->sum);
    add_all(&f->right, &p->columns);
    add_all(&f->result, &p->batch);
    add_all(&f->result, &p->rows);
    add_all(&f->result, &p->columns);
    if ((joins_rows || p->sum.count > 1) &&
        (!add_each(p, &p->batch, &f->to_left, true) ||
         (joins_rows ? !add_group(p, &p->rows, &f->to_left) : !add_each(p, &p->rows, &f->to_left, true)) ||
         !add_group(p, &p->sum, &f->to_left)))
        return false;
    if ((p->columns.count > 1 || p->sum.count > 1) &&
        (!add_each(p, &p->batch, &f->to_right, true) || !add_group(p, &p->sum, &f->to_right) ||
         (p->columns.count > 0 && !add_group(p, &p->columns, &f->to_right))))
        return false;
    return (!joins_rows && p->columns.count <= 1) ||
           (add_each(p, &p->batch, &f->back, true) && add_each(p, &p->rows, &f->back, !joins_rows) &&
            add_each(p, &p->columns, &f->back, false));
}

static uint32_t put_product(const struct product *p, const struct form *f)
{
    int64_t row = p->batch.count, axes[2];
    uint32_t ab[2], y, count = 0;

    ab[0] = put_reshape(p, put_transpose(p, p->v[0], &p->in[0], &f->left), &f->to_left);
    if (f->vector_left)
        ab[0] = put_axes(p, "Unsqueeze", ab[0], &row, 1);
    ab[1] = put_reshape(p, put_transpose(p, p->v[1], &p->in[1], &f->right), &f->to_right);
    if (f->vector_right)
        ab[1] = put_axes(p, "Unsqueeze", ab[1], (const int64_t[]){ -1 }, 1);
    if (ab[0] == INLAY_NONE || ab[1] == INLAY_NONE)
        return INLAY_NONE;
    y = put(p, "MatMul", ab, 2, NULL, NULL, 0);
    if (f->vector_left)
        axes[count++] = row;
    if (f->vector_right)
        axes[count++] = -1;
    y = put_reshape(p, put_axes(p, "Squeeze", y, axes, count), &f->back);
    return put_transpose(p, y, &f->result, &p->out);
}

static inlay_status take_pair(struct rewrite *w, graph_node *n, const struct equation *e)
{
    struct product p = { .w = w, .n = n, .dtype = rw_info(w, rw_input(w, n, 0))->dtype, .out = e->out };
    uint32_t y;
    bool done;
    struct form f;

    for (uint32_t k = 0; k < 2; k++) {
        p.in[k] = e->in[k];
        p.v[k] = rw_input(w, n, k);
        if (rw_info(w, p.v[k])->rank != e->in[k].count)
            return INLAY_OK;
    }
    if (!sizes_agree(&p) || !sort_letters(&p))
        return INLAY_OK;
    if (p.sum.count == 0 || (p.rows.count == 0 && p.columns.count == 0))
        y = put_elements(&p);
    else if (find_form(&p, &f))
        y = put_product(&p, &f);
    else
        return INLAY_OK;
    return y == INLAY_NONE ? rw_no_memory(w) : rw_forward(w, n->info.outputs[0], y, &done);
}

/* One operand: sums, and axes in another order. */
static inlay_status take_one(struct rewrite *w, graph_node *n, const struct equation *e)
{
    struct product p = { .w = w, .n = n, .dtype = rw_info(w, rw_input(w, n, 0))->dtype };
    int64_t axes[LETTERS];
    uint32_t count = 0, y;
    struct term kept = { 0 };
    bool done;

    for (uint32_t i = 0; i < e->in[0].count; i++) {
        if (has(&e->out, e->in[0].letters[i]))
            add(&kept, e->in[0].letters[i]);
        else
            axes[count++] = i;
    }
    if (kept.count != e->out.count || rw_info(w, rw_input(w, n, 0))->rank != e->in[0].count)
        return INLAY_OK;
    y = put_transpose(&p, put_axes(&p, "ReduceSum", rw_input(w, n, 0), axes, count), &kept, &e->out);
    return y == INLAY_NONE ? rw_no_memory(w) : rw_forward(w, n->info.outputs[0], y, &done);
}

/* The first two operands become one, with the letters that are still wanted. */
static inlay_status take_first(struct rewrite *w, graph_node *n, const struct equation *e)
{
    char text[2 * MOST_TERMS * LETTERS];
    uint32_t inputs[MOST_TERMS], used = 0;
    graph_node *pair, *rest;
    struct term kept = { 0 };

    for (uint32_t k = 0; k < 2; k++)
        for (uint32_t i = 0; i < e->in[k].count; i++) {
            char c = e->in[k].letters[i];
            bool wanted = has(&e->out, c);

            for (uint32_t later = 2; later < e->count; later++)
                wanted |= has(&e->in[later], c);
            if (wanted && !has(&kept, c))
                add(&kept, c);
        }
    if (kept.count > MOST)
        return INLAY_OK;
    pair = rw_make(w, "Einsum", n->opset, NULL, n->info.inputs, 2, 1);
    used = (uint32_t)snprintf(text, sizeof text, "%s,%s->%s", e->in[0].letters, e->in[1].letters, kept.letters);
    if (pair == NULL || graph_set_attr_string(w->g, pair, "equation", text) != INLAY_OK ||
        rw_insert(w, pair, rw_info(w, rw_input(w, n, 0))->dtype) != INLAY_OK)
        return rw_no_memory(w);
    inputs[0] = pair->info.outputs[0];
    used = (uint32_t)snprintf(text, sizeof text, "%s", kept.letters);
    for (uint32_t k = 2; k < e->count; k++) {
        inputs[k - 1] = rw_input(w, n, k);
        used += (uint32_t)snprintf(text + used, sizeof text - used, ",%s", e->in[k].letters);
    }
    (void)snprintf(text + used, sizeof text - used, "->%s", e->out.letters);
    rest = rw_make(w, "Einsum", n->opset, n, inputs, e->count - 1, 1);
    if (rest == NULL || graph_set_attr_string(w->g, rest, "equation", text) != INLAY_OK)
        return rw_no_memory(w);
    return rw_replace(w, n, rest);
}

static inlay_status match(struct rewrite *w, graph_node *n)
{
    const inlay_attr_info *text = graph_attr(n, "equation");
    inlay_dtype dtype;
    struct equation e;

    if (!pass_is_op(n, "Einsum") || text == NULL || !parse_equation(text->s.data, &e) || e.count != n->info.input_count)
        return INLAY_OK;
    for (uint32_t k = 0; k < e.count; k++)
        if (rw_input(w, n, k) == INLAY_NONE)
            return INLAY_OK;
    dtype = rw_info(w, rw_input(w, n, 0))->dtype;
    if (dtype != INLAY_FLOAT && dtype != INLAY_DOUBLE)
        return INLAY_OK;
    return e.count == 1 ? take_one(w, n, &e) : e.count == 2 ? take_pair(w, n, &e) : take_first(w, n, &e);
}

inlay_status pass_einsum(pass_ctx *ctx, bool *out_changed)
{
    return rewrite_each_graph(ctx, match, out_changed);
}
