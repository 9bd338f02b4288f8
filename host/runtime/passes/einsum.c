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
    struct rewrite *rewrite;
    const graph_node *node;
    inlay_dtype dtype;
    uint32_t v[2];
    struct term in[2], out;
    struct term batch, rows, columns, sum;
};

/* ------------------------------------------------------------------ equations */

static bool has(const struct term *term, char letter)
{
    return strchr(term->letters, letter) != NULL;
}

static void add(struct term *term, char letter)
{
    if (term->count < LETTERS)
        term->letters[term->count++] = letter;
}

static void add_all(struct term *term, const struct term *more)
{
    for (uint32_t i = 0; i < more->count; i++)
        add(term, more->letters[i]);
}

static bool same_letters(const struct term *a, const struct term *b)
{
    return strcmp(a->letters, b->letters) == 0;
}

/* "bij,bjk->bik" without spaces; false: something else, an ellipsis, no result, or a letter twice in a term. */
static bool parse_equation(const char *text, struct equation *equation)
{
    struct term *term = &equation->in[0];

    *equation = (struct equation){ .count = 1 };
    for (; *text != '\0'; text++) {
        if (*text == ' ')
            continue;
        if (*text == ',' && term != &equation->out && equation->count < MOST_TERMS) {
            term = &equation->in[equation->count++];
        } else if (*text == '-' && text[1] == '>' && term != &equation->out) {
            term = &equation->out;
            text++;
        } else if (((*text >= 'a' && *text <= 'z') || (*text >= 'A' && *text <= 'Z')) && term->count < MOST &&
                   !has(term, *text)) {
            add(term, *text);
        } else {
            return false;
        }
    }
    return term == &equation->out;
}

static inlay_dim size_of(const struct product *product, char letter)
{
    uint32_t k = has(&product->in[0], letter) ? 0 : 1;

    return rw_info(product->rewrite, product->v[k])
        ->dims[strchr(product->in[k].letters, letter) - product->in[k].letters];
}

/* A size of 1 would broadcast in Einsum, and reads as any other; so sizes of letters in both must be provably equal. */
static bool sizes_agree(const struct product *product)
{
    for (uint32_t i = 0; i < product->in[0].count; i++) {
        const char *at = strchr(product->in[1].letters, product->in[0].letters[i]);
        inlay_dim a = rw_info(product->rewrite, product->v[0])->dims[i], b;

        if (at == NULL)
            continue;
        b = rw_info(product->rewrite, product->v[1])->dims[at - product->in[1].letters];
        if (a.kind != b.kind || a.kind == INLAY_DIM_UNKNOWN ||
            (a.kind == INLAY_DIM_FIXED ? a.value != b.value : a.symbol != b.symbol))
            return false;
    }
    return true;
}

/* The operand that makes the columns: the one with the last letter of the result that is not in both. A matrix by a
 * vector stands where it need not be transposed. */
static uint32_t right_operand(const struct product *product)
{
    bool own[2] = { false, false };
    uint32_t right = 1;

    for (uint32_t i = 0; i < product->out.count; i++) {
        char c = product->out.letters[i];

        if (has(&product->in[0], c) == has(&product->in[1], c))
            continue;
        right = has(&product->in[0], c) ? 0 : 1;
        own[right] = true;
    }
    if (own[0] != own[1] && !has(&product->out, product->in[right].letters[product->in[right].count - 1]))
        right = 1 - right;
    return right;
}

/* Sorts the letters into batch, rows, columns and sum; false: there are others. */
static bool sort_letters(struct product *product)
{
    uint32_t order = rw_is_constant(product->rewrite, product->v[0]) ? 1 : 0; /* the other operand may lie as it lies */

    if (right_operand(product) == 0) {
        struct term term = product->in[0];
        uint32_t value = product->v[0];

        product->in[0] = product->in[1];
        product->v[0] = product->v[1];
        product->in[1] = term;
        product->v[1] = value;
        order = 1 - order;
    }
    for (uint32_t i = 0; i < product->out.count; i++) {
        char c = product->out.letters[i];
        bool left = has(&product->in[0], c), right = has(&product->in[1], c);

        if (!left && !right)
            return false;
        add(left && right ? &product->batch : left ? &product->rows : &product->columns, c);
    }
    for (uint32_t i = 0; i < product->in[order].count; i++)
        if (!has(&product->out, product->in[order].letters[i]))
            add(&product->sum, product->in[order].letters[i]);
    return product->in[0].count == product->batch.count + product->rows.count + product->sum.count &&
           product->in[1].count == product->batch.count + product->columns.count + product->sum.count;
}

/* ------------------------------------------------------------------ nodes */

/* A new node of one output, which is a new value; ints, if any, are its attribute. INLAY_NONE: no memory. */
static uint32_t put(const struct product *product, const char *op, const uint32_t *inputs, uint32_t count,
                    const char *attr, const int64_t *ints, uint32_t int_count)
{
    graph_node *node = rw_make(product->rewrite, op, product->node->opset, NULL, inputs, count, 1);

    if (node == NULL ||
        (attr != NULL && graph_set_attr_ints(product->rewrite->graph, node, attr, ints, int_count) != INLAY_OK) ||
        rw_insert(product->rewrite, node, product->dtype) != INLAY_OK)
        return INLAY_NONE;
    return node->info.outputs[0];
}

/* Squeeze, Unsqueeze, ReduceSum: axes are an input from version 13 on. */
static uint32_t put_axes(const struct product *product, const char *op, uint32_t value, const int64_t *axes,
                         uint32_t count)
{
    uint32_t inputs[2] = { value, INLAY_NONE };
    bool is_sum = strcmp(op, "ReduceSum") == 0;
    graph_node *node;

    if (value == INLAY_NONE || count == 0)
        return value;
    if (product->node->opset >= 13) {
        inputs[1] = rw_constant_ints(product->rewrite, axes, count);
        if (inputs[1] == INLAY_NONE)
            return INLAY_NONE;
    }
    node = rw_make(product->rewrite, op, product->node->opset, NULL, inputs, product->node->opset >= 13 ? 2 : 1, 1);
    if (node == NULL ||
        (product->node->opset < 13 &&
         graph_set_attr_ints(product->rewrite->graph, node, "axes", axes, count) != INLAY_OK) ||
        (is_sum && graph_set_attr_int(product->rewrite->graph, node, "keepdims", 0) != INLAY_OK) ||
        rw_insert(product->rewrite, node, product->dtype) != INLAY_OK)
        return INLAY_NONE;
    return node->info.outputs[0];
}

static uint32_t put_transpose(const struct product *product, uint32_t value, const struct term *have,
                              const struct term *want)
{
    int64_t perm[LETTERS];

    if (value == INLAY_NONE || same_letters(have, want))
        return value;
    for (uint32_t d = 0; d < want->count; d++)
        perm[d] = strchr(have->letters, want->letters[d]) - have->letters;
    return put(product, "Transpose", &value, 1, "perm", perm, want->count);
}

/* Sizes for Reshape: those that are known, 0 for axes that stay where they are. One -1 is allowed where all others are
 * known: beside an axis that is empty it would mean anything. false: they can't be told. */
struct sizes {
    int64_t dims[LETTERS];
    uint32_t count;
    uint32_t copied, guessed;
};

static bool add_size(struct sizes *sizes, int64_t known, bool stays)
{
    if (known == 0 || sizes->count == LETTERS)
        return false;
    sizes->dims[sizes->count++] = known > 0 ? known : stays ? 0 : -1;
    sizes->copied += known < 0 && stays;
    sizes->guessed += known < 0 && !stays;
    return sizes->guessed == 0 || (sizes->guessed == 1 && sizes->copied == 0);
}

static int64_t known_size(const struct product *product, char letter)
{
    inlay_dim dim = size_of(product, letter);

    return dim.kind == INLAY_DIM_FIXED ? dim.value : -1;
}

/* Appends the group's letters as one axis. */
static bool add_group(const struct product *product, const struct term *group, struct sizes *sizes)
{
    int64_t all = 1;

    for (uint32_t i = 0; i < group->count; i++) {
        int64_t size = known_size(product, group->letters[i]);

        if (size < 0 || all < 0)
            all = -1;
        else if (__builtin_mul_overflow(all, size, &all))
            return false;
    }
    return add_size(sizes, all, false);
}

static bool add_each(const struct product *product, const struct term *group, struct sizes *sizes, bool stay)
{
    for (uint32_t i = 0; i < group->count; i++)
        if (!add_size(sizes, known_size(product, group->letters[i]), stay))
            return false;
    return true;
}

static uint32_t put_reshape(const struct product *product, uint32_t value, const struct sizes *sizes)
{
    uint32_t inputs[2] = { value, INLAY_NONE };

    if (sizes->count == 0 || value == INLAY_NONE)
        return value;
    inputs[1] = rw_constant_ints(product->rewrite, sizes->dims, sizes->count);
    return inputs[1] == INLAY_NONE ? INLAY_NONE : put(product, "Reshape", inputs, 2, NULL, NULL, 0);
}

/* ------------------------------------------------------------------ the three forms */

/* The operand with its letters in the order of `want`, and axes of 1 where it lacks one. */
static uint32_t put_spread(const struct product *product, uint32_t k, const struct term *want)
{
    struct term mine = { 0 };
    int64_t axes[LETTERS];
    uint32_t count = 0;

    for (uint32_t i = 0; i < want->count; i++) {
        if (has(&product->in[k], want->letters[i]))
            add(&mine, want->letters[i]);
        else
            axes[count++] = i;
    }
    return put_axes(product, "Unsqueeze", put_transpose(product, product->v[k], &product->in[k], &mine), axes, count);
}

/* Elements side by side, then what is to be summed. */
static uint32_t put_elements(const struct product *product)
{
    struct term all = product->out;
    uint32_t ab[2], output;
    int64_t axes[LETTERS];

    add_all(&all, &product->sum);
    for (uint32_t k = 0; k < 2; k++) {
        ab[k] = put_spread(product, k, &all);
        if (ab[k] == INLAY_NONE)
            return INLAY_NONE;
    }
    output = put(product, "Mul", ab, 2, NULL, NULL, 0);
    for (uint32_t i = 0; i < product->sum.count; i++)
        axes[i] = product->out.count + i;
    return put_axes(product, "ReduceSum", output, axes, product->sum.count);
}

/* How the operands of MatMul lie. */
struct form {
    struct term left, right, result;      /* letters in order */
    struct sizes to_left, to_right, back; /* none: no Reshape */
    bool vector_left, vector_right;       /* no rows, no columns: an axis of 1 is put in */
};

/* Columns of which only the last is one of the matrix: the others stand before the rows, in the result, too. */
static bool is_stack(const struct product *product, struct form *form)
{
    struct term order = { 0 }, last = { 0 };

    if (product->batch.count > 0 || product->rows.count != 1 || product->columns.count < 2 || product->sum.count != 1)
        return false;
    order = product->columns;
    order.letters[--order.count] = '\0';
    form->right = order;
    add(&last, product->columns.letters[product->columns.count - 1]);
    add_all(&order, &product->rows);
    add_all(&order, &last);
    if (!same_letters(&order, &product->out))
        return false;
    add_all(&form->right, &product->sum);
    add_all(&form->right, &last);
    form->result = order;
    return true;
}

/* Can the axes be put together as MatMul wants them? */
static bool find_form(const struct product *product, struct form *form)
{
    bool joins_rows =
        product->batch.count > 0 && product->rows.count > 1; /* without a batch rows are any number of axes */

    *form = (struct form){ .vector_left = product->rows.count == 0, .vector_right = product->columns.count == 0 };
    add_all(&form->left, &product->batch);
    add_all(&form->left, &product->rows);
    add_all(&form->left, &product->sum);
    if (is_stack(product, form))
        return true;
    *form = (struct form){ .left = form->left, .vector_left = form->vector_left, .vector_right = form->vector_right };
    add_all(&form->right, &product->batch);
    add_all(&form->right, &product->sum);
    add_all(&form->right, &product->columns);
    add_all(&form->result, &product->batch);
    add_all(&form->result, &product->rows);
    add_all(&form->result, &product->columns);
    if ((joins_rows || product->sum.count > 1) &&
        (!add_each(product, &product->batch, &form->to_left, true) ||
         (joins_rows ? !add_group(product, &product->rows, &form->to_left)
                     : !add_each(product, &product->rows, &form->to_left, true)) ||
         !add_group(product, &product->sum, &form->to_left)))
        return false;
    if ((product->columns.count > 1 || product->sum.count > 1) &&
        (!add_each(product, &product->batch, &form->to_right, true) ||
         !add_group(product, &product->sum, &form->to_right) ||
         (product->columns.count > 0 && !add_group(product, &product->columns, &form->to_right))))
        return false;
    return (!joins_rows && product->columns.count <= 1) ||
           (add_each(product, &product->batch, &form->back, true) &&
            add_each(product, &product->rows, &form->back, !joins_rows) &&
            add_each(product, &product->columns, &form->back, false));
}

static uint32_t put_product(const struct product *product, const struct form *form)
{
    int64_t row = product->batch.count, axes[2];
    uint32_t ab[2], output, count = 0;

    ab[0] = put_reshape(product, put_transpose(product, product->v[0], &product->in[0], &form->left), &form->to_left);
    if (form->vector_left)
        ab[0] = put_axes(product, "Unsqueeze", ab[0], &row, 1);
    ab[1] = put_reshape(product, put_transpose(product, product->v[1], &product->in[1], &form->right), &form->to_right);
    if (form->vector_right)
        ab[1] = put_axes(product, "Unsqueeze", ab[1], (const int64_t[]){ -1 }, 1);
    if (ab[0] == INLAY_NONE || ab[1] == INLAY_NONE)
        return INLAY_NONE;
    output = put(product, "MatMul", ab, 2, NULL, NULL, 0);
    if (form->vector_left)
        axes[count++] = row;
    if (form->vector_right)
        axes[count++] = -1;
    output = put_reshape(product, put_axes(product, "Squeeze", output, axes, count), &form->back);
    return put_transpose(product, output, &form->result, &product->out);
}

static inlay_status take_pair(struct rewrite *rewrite, graph_node *node, const struct equation *equation)
{
    struct product product = { .rewrite = rewrite,
                               .node = node,
                               .dtype = rw_info(rewrite, rw_input(rewrite, node, 0))->dtype,
                               .out = equation->out };
    uint32_t output;
    bool done;
    struct form form;

    for (uint32_t k = 0; k < 2; k++) {
        product.in[k] = equation->in[k];
        product.v[k] = rw_input(rewrite, node, k);
        if (rw_info(rewrite, product.v[k])->rank != equation->in[k].count)
            return INLAY_OK;
    }
    if (!sizes_agree(&product) || !sort_letters(&product))
        return INLAY_OK;
    if (product.sum.count == 0 || (product.rows.count == 0 && product.columns.count == 0))
        output = put_elements(&product);
    else if (find_form(&product, &form))
        output = put_product(&product, &form);
    else
        return INLAY_OK;
    return output == INLAY_NONE ? rw_no_memory(rewrite) : rw_forward(rewrite, node->info.outputs[0], output, &done);
}

/* One operand: sums, and axes in another order. */
static inlay_status take_one(struct rewrite *rewrite, graph_node *node, const struct equation *equation)
{
    struct product product = { .rewrite = rewrite,
                               .node = node,
                               .dtype = rw_info(rewrite, rw_input(rewrite, node, 0))->dtype };
    int64_t axes[LETTERS];
    uint32_t count = 0, output;
    struct term kept = { 0 };
    bool done;

    for (uint32_t i = 0; i < equation->in[0].count; i++) {
        if (has(&equation->out, equation->in[0].letters[i]))
            add(&kept, equation->in[0].letters[i]);
        else
            axes[count++] = i;
    }
    if (kept.count != equation->out.count ||
        rw_info(rewrite, rw_input(rewrite, node, 0))->rank != equation->in[0].count)
        return INLAY_OK;
    output = put_transpose(&product, put_axes(&product, "ReduceSum", rw_input(rewrite, node, 0), axes, count), &kept,
                           &equation->out);
    return output == INLAY_NONE ? rw_no_memory(rewrite) : rw_forward(rewrite, node->info.outputs[0], output, &done);
}

/* The first two operands become one, with the letters that are still wanted. */
static inlay_status take_first(struct rewrite *rewrite, graph_node *node, const struct equation *equation)
{
    char text[2 * MOST_TERMS * LETTERS];
    uint32_t inputs[MOST_TERMS], used = 0;
    graph_node *pair, *rest;
    struct term kept = { 0 };

    for (uint32_t k = 0; k < 2; k++)
        for (uint32_t i = 0; i < equation->in[k].count; i++) {
            char c = equation->in[k].letters[i];
            bool wanted = has(&equation->out, c);

            for (uint32_t later = 2; later < equation->count; later++)
                wanted |= has(&equation->in[later], c);
            if (wanted && !has(&kept, c))
                add(&kept, c);
        }
    if (kept.count > MOST)
        return INLAY_OK;
    pair = rw_make(rewrite, "Einsum", node->opset, NULL, node->info.inputs, 2, 1);
    used = (uint32_t)snprintf(text, sizeof text, "%s,%s->%s", equation->in[0].letters, equation->in[1].letters,
                              kept.letters);
    if (pair == NULL || graph_set_attr_string(rewrite->graph, pair, "equation", text) != INLAY_OK ||
        rw_insert(rewrite, pair, rw_info(rewrite, rw_input(rewrite, node, 0))->dtype) != INLAY_OK)
        return rw_no_memory(rewrite);
    inputs[0] = pair->info.outputs[0];
    used = (uint32_t)snprintf(text, sizeof text, "%s", kept.letters);
    for (uint32_t k = 2; k < equation->count; k++) {
        inputs[k - 1] = rw_input(rewrite, node, k);
        used += (uint32_t)snprintf(text + used, sizeof text - used, ",%s", equation->in[k].letters);
    }
    (void)snprintf(text + used, sizeof text - used, "->%s", equation->out.letters);
    rest = rw_make(rewrite, "Einsum", node->opset, node, inputs, equation->count - 1, 1);
    if (rest == NULL || graph_set_attr_string(rewrite->graph, rest, "equation", text) != INLAY_OK)
        return rw_no_memory(rewrite);
    return rw_replace(rewrite, node, rest);
}

static inlay_status match(struct rewrite *rewrite, graph_node *node)
{
    const inlay_attr_info *text = graph_attr(node, "equation");
    inlay_dtype dtype;
    struct equation equation;

    if (!pass_is_op(node, "Einsum") || text == NULL || !parse_equation(text->s.data, &equation) ||
        equation.count != node->info.input_count)
        return INLAY_OK;
    for (uint32_t k = 0; k < equation.count; k++)
        if (rw_input(rewrite, node, k) == INLAY_NONE)
            return INLAY_OK;
    dtype = rw_info(rewrite, rw_input(rewrite, node, 0))->dtype;
    if (dtype != INLAY_FLOAT && dtype != INLAY_DOUBLE)
        return INLAY_OK;
    return equation.count == 1   ? take_one(rewrite, node, &equation)
           : equation.count == 2 ? take_pair(rewrite, node, &equation)
                                 : take_first(rewrite, node, &equation);
}

inlay_status pass_einsum(pass_ctx *ctx, bool *out_changed)
{
    return rewrite_each_graph(ctx, match, out_changed);
}
