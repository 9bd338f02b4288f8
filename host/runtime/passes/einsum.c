/* Lowers Einsum (opset 12) to MatMul, Mul and ReduceSum, for which providers have fast kernels and other passes have
 * patterns (attention contains two such MatMuls).
 *
 * Handles two operands in which no letter occurs twice, and no letter is missing in both the other operand and the
 * result. Letters in both operands and the result form the batch. Letters that are missing in the result are summed
 * over. The others are the rows of the left operand and the columns of the right operand:
 *
 *     [batch, rows, sum] x [batch, sum, columns] = [batch, rows, columns]
 *
 * Operands are first transposed to this layout, and groups of several letters become one axis; the result is converted
 * back. Without summed letters it is a Mul; without rows and columns Mul and ReduceSum. More than two operands are
 * reduced pair by pair from the left. A single operand becomes ReduceSum and Transpose. */
#include "passes/rewrite.h"
#include "inlay/check.h"
#include <stdio.h>
#include <string.h>

enum { MAX_RANK = 8, MAX_TERMS = 4, LETTERS = 2 * MAX_RANK };

struct term {
    char letters[LETTERS + 1];
    uint32_t count;
};

struct equation {
    struct term in[MAX_TERMS], out;
    uint32_t count;
};

/* An Einsum of two operands, in the order of MatMul's operands. */
struct contraction {
    struct rewrite *rewrite;
    const graph_node *node;
    inlay_dtype dtype;
    uint32_t values[2];
    struct term in[2], out;
    struct term batch, rows, columns, sum;
};

static bool has(const struct term *term, char letter)
{
    return strchr(term->letters, letter) != NULL;
}

/* The axis of a letter that the term has. */
static uint32_t axis_of(const struct term *term, char letter)
{
    uint32_t axis = 0;

    INLAY_CHECK(has(term, letter));
    while (axis < term->count && term->letters[axis] != letter)
        axis++;
    return axis;
}

static void add(struct term *term, char letter)
{
    INLAY_CHECK(!has(term, letter));
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

/* Parses "bij,bjk->bik" without spaces. Returns false for anything else: an ellipsis, no result, a letter twice in a
 * term. */
static bool parse_equation(const char *text, struct equation *equation)
{
    struct term *term = &equation->in[0];

    *equation = (struct equation){ .count = 1 };
    for (; *text != '\0'; text++) {
        if (*text == ' ')
            continue;
        if (*text == ',' && term != &equation->out && equation->count < MAX_TERMS) {
            term = &equation->in[equation->count++];
        } else if (*text == '-' && text[1] == '>' && term != &equation->out) {
            term = &equation->out;
            text++;
        } else if (((*text >= 'a' && *text <= 'z') || (*text >= 'A' && *text <= 'Z')) && term->count < MAX_RANK &&
                   !has(term, *text)) {
            add(term, *text);
        } else {
            return false;
        }
    }
    return term == &equation->out;
}

static inlay_dim size_of(const struct contraction *contraction, char letter)
{
    uint32_t k = has(&contraction->in[0], letter) ? 0 : 1;

    return rewrite_value_info(contraction->rewrite, contraction->values[k])->dims[axis_of(&contraction->in[k], letter)];
}

/* A size of 1 broadcasts in Einsum, so the sizes of letters in both operands must be provably equal. */
static bool sizes_agree(const struct contraction *contraction)
{
    for (uint32_t i = 0; i < contraction->in[0].count; i++) {
        char letter = contraction->in[0].letters[i];
        inlay_dim a = rewrite_value_info(contraction->rewrite, contraction->values[0])->dims[i], b;

        if (!has(&contraction->in[1], letter))
            continue;
        b = rewrite_value_info(contraction->rewrite, contraction->values[1])
                ->dims[axis_of(&contraction->in[1], letter)];
        if (a.kind != b.kind || a.kind == INLAY_DIM_UNKNOWN ||
            (a.kind == INLAY_DIM_FIXED ? a.value != b.value : a.symbol != b.symbol))
            return false;
    }
    return true;
}

/* Index of the operand that provides the columns: the operand with the last of those letters of the result that only
 * one operand has. For a matrix and a vector, the choice avoids a Transpose of the matrix. */
static uint32_t right_operand(const struct contraction *contraction)
{
    bool own[2] = { false, false };
    uint32_t right = 1;

    for (uint32_t i = 0; i < contraction->out.count; i++) {
        char c = contraction->out.letters[i];

        if (has(&contraction->in[0], c) == has(&contraction->in[1], c))
            continue;
        right = has(&contraction->in[0], c) ? 0 : 1;
        own[right] = true;
    }
    if (own[0] != own[1] && !has(&contraction->out, contraction->in[right].letters[contraction->in[right].count - 1]))
        right = 1 - right;
    return right;
}

/* Returns true if the operand has the letters of the three groups and no others. */
static bool has_exactly(const struct term *operand, const struct term *batch, const struct term *own,
                        const struct term *sum)
{
    for (uint32_t i = 0; i < operand->count; i++)
        if (!has(batch, operand->letters[i]) && !has(own, operand->letters[i]) && !has(sum, operand->letters[i]))
            return false;
    return operand->count == batch->count + own->count + sum->count;
}

/* Sorts the letters into batch, rows, columns and sum. Returns false if a letter fits none of them, such as a summed
 * letter of one operand: summing it before the product would make 0 * x of products that are infinite. */
static bool sort_letters(struct contraction *contraction)
{
    /* follow the other operand if the first is constant: a constant is transposed when it is folded */
    uint32_t order = rewrite_is_constant(contraction->rewrite, contraction->values[0]) ? 1 : 0;

    if (right_operand(contraction) == 0) {
        struct term term = contraction->in[0];
        uint32_t value = contraction->values[0];

        contraction->in[0] = contraction->in[1];
        contraction->values[0] = contraction->values[1];
        contraction->in[1] = term;
        contraction->values[1] = value;
        order = 1 - order;
    }
    for (uint32_t i = 0; i < contraction->out.count; i++) {
        char c = contraction->out.letters[i];
        bool left = has(&contraction->in[0], c), right = has(&contraction->in[1], c);

        if (!left && !right)
            return false;
        add(left && right ? &contraction->batch : left ? &contraction->rows : &contraction->columns, c);
    }
    for (uint32_t i = 0; i < contraction->in[order].count; i++)
        if (!has(&contraction->out, contraction->in[order].letters[i]))
            add(&contraction->sum, contraction->in[order].letters[i]);
    return has_exactly(&contraction->in[0], &contraction->batch, &contraction->rows, &contraction->sum) &&
           has_exactly(&contraction->in[1], &contraction->batch, &contraction->columns, &contraction->sum);
}

/* Inserts a node with one output and, if attr is given, a list attribute. INLAY_NONE: out of memory. */
static uint32_t emit(const struct contraction *contraction, const char *op, const uint32_t *inputs, uint32_t count,
                     const char *attr, const int64_t *ints, uint32_t int_count)
{
    graph_node *node = rewrite_make_node(contraction->rewrite, op, contraction->node->opset, NULL, inputs, count, 1);

    if (node == NULL ||
        (attr != NULL && graph_set_attr_ints(contraction->rewrite->graph, node, attr, ints, int_count) != INLAY_OK) ||
        rewrite_insert_node(contraction->rewrite, node, contraction->dtype) != INLAY_OK)
        return INLAY_NONE;
    return node->info.outputs[0];
}

/* Inserts Squeeze, Unsqueeze or ReduceSum; their axes are an input from version 13 on. */
static uint32_t emit_with_axes(const struct contraction *contraction, const char *op, uint32_t value,
                               const int64_t *axes, uint32_t count)
{
    uint32_t inputs[2] = { value, INLAY_NONE };
    bool is_sum = strcmp(op, "ReduceSum") == 0;
    graph_node *node;

    if (value == INLAY_NONE || count == 0)
        return value;
    if (contraction->node->opset >= 13) {
        inputs[1] = rewrite_constant_ints(contraction->rewrite, axes, count);
        if (inputs[1] == INLAY_NONE)
            return INLAY_NONE;
    }
    node = rewrite_make_node(contraction->rewrite, op, contraction->node->opset, NULL, inputs,
                             contraction->node->opset >= 13 ? 2 : 1, 1);
    if (node == NULL ||
        (contraction->node->opset < 13 &&
         graph_set_attr_ints(contraction->rewrite->graph, node, "axes", axes, count) != INLAY_OK) ||
        (is_sum && graph_set_attr_int(contraction->rewrite->graph, node, "keepdims", 0) != INLAY_OK) ||
        rewrite_insert_node(contraction->rewrite, node, contraction->dtype) != INLAY_OK)
        return INLAY_NONE;
    return node->info.outputs[0];
}

static uint32_t emit_transpose(const struct contraction *contraction, uint32_t value, const struct term *have,
                               const struct term *want)
{
    int64_t perm[LETTERS];

    if (value == INLAY_NONE || same_letters(have, want))
        return value;
    for (uint32_t d = 0; d < want->count; d++)
        perm[d] = axis_of(have, want->letters[d]);
    return emit(contraction, "Transpose", &value, 1, "perm", perm, want->count);
}

/* Sizes for Reshape: known sizes, 0 for an axis that is copied, or one -1. A -1 is allowed only if all other sizes are
 * known, because next to an empty axis it is ambiguous. add_*() return false if the sizes cannot be expressed. */
struct reshape_sizes {
    int64_t dims[LETTERS];
    uint32_t count;
    uint32_t copied, guessed;
};

static bool add_size(struct reshape_sizes *sizes, int64_t known, bool stays)
{
    if (known == 0 || sizes->count == LETTERS)
        return false;
    sizes->dims[sizes->count++] = known > 0 ? known : stays ? 0 : -1;
    sizes->copied += known < 0 && stays;
    sizes->guessed += known < 0 && !stays;
    return sizes->guessed == 0 || (sizes->guessed == 1 && sizes->copied == 0);
}

static int64_t known_size(const struct contraction *contraction, char letter)
{
    inlay_dim dim = size_of(contraction, letter);

    return dim.kind == INLAY_DIM_FIXED ? dim.value : -1;
}

/* Appends the letters of the group, merged into one axis. */
static bool add_group(const struct contraction *contraction, const struct term *group, struct reshape_sizes *sizes)
{
    int64_t all = 1;

    for (uint32_t i = 0; i < group->count; i++) {
        int64_t size = known_size(contraction, group->letters[i]);

        if (size < 0 || all < 0)
            all = -1;
        else if (__builtin_mul_overflow(all, size, &all))
            return false;
    }
    return add_size(sizes, all, false);
}

static bool add_each(const struct contraction *contraction, const struct term *group, struct reshape_sizes *sizes,
                     bool stay)
{
    for (uint32_t i = 0; i < group->count; i++)
        if (!add_size(sizes, known_size(contraction, group->letters[i]), stay))
            return false;
    return true;
}

static uint32_t emit_reshape(const struct contraction *contraction, uint32_t value, const struct reshape_sizes *sizes)
{
    uint32_t inputs[2] = { value, INLAY_NONE };

    if (sizes->count == 0 || value == INLAY_NONE)
        return value;
    inputs[1] = rewrite_constant_ints(contraction->rewrite, sizes->dims, sizes->count);
    return inputs[1] == INLAY_NONE ? INLAY_NONE : emit(contraction, "Reshape", inputs, 2, NULL, NULL, 0);
}

/* Operand k with its letters in the order of `want`; letters that it lacks become axes of size 1. */
static uint32_t emit_broadcastable(const struct contraction *contraction, uint32_t k, const struct term *want)
{
    struct term mine = { 0 };
    int64_t axes[LETTERS];
    uint32_t count = 0;

    for (uint32_t i = 0; i < want->count; i++) {
        if (has(&contraction->in[k], want->letters[i]))
            add(&mine, want->letters[i]);
        else
            axes[count++] = i;
    }
    return emit_with_axes(contraction, "Unsqueeze",
                          emit_transpose(contraction, contraction->values[k], &contraction->in[k], &mine), axes, count);
}

/* Mul of broadcast operands, then ReduceSum over the summed letters. */
static uint32_t emit_elementwise(const struct contraction *contraction)
{
    struct term all = contraction->out;
    uint32_t operands[2], output;
    int64_t axes[LETTERS];

    add_all(&all, &contraction->sum);
    for (uint32_t k = 0; k < 2; k++) {
        operands[k] = emit_broadcastable(contraction, k, &all);
        if (operands[k] == INLAY_NONE)
            return INLAY_NONE;
    }
    output = emit(contraction, "Mul", operands, 2, NULL, NULL, 0);
    for (uint32_t i = 0; i < contraction->sum.count; i++)
        axes[i] = contraction->out.count + i;
    return emit_with_axes(contraction, "ReduceSum", output, axes, contraction->sum.count);
}

/* Layout of the operands of MatMul. */
typedef struct matmul_layout {
    struct term left, right, result;              /* letters in order */
    struct reshape_sizes to_left, to_right, back; /* count 0: no Reshape */
    bool vector_left, vector_right;               /* no rows, no columns: an axis of size 1 is added */
} matmul_layout;

/* Returns true if only the last column letter is a matrix axis, and the other column letters precede the rows in the
 * result as well. */
static bool is_stacked(const struct contraction *contraction, matmul_layout *layout)
{
    struct term order = { 0 }, last = { 0 };

    if (contraction->batch.count > 0 || contraction->rows.count != 1 || contraction->columns.count < 2 ||
        contraction->sum.count != 1)
        return false;
    order = contraction->columns;
    order.letters[--order.count] = '\0';
    layout->right = order;
    add(&last, contraction->columns.letters[contraction->columns.count - 1]);
    add_all(&order, &contraction->rows);
    add_all(&order, &last);
    if (!same_letters(&order, &contraction->out))
        return false;
    add_all(&layout->right, &contraction->sum);
    add_all(&layout->right, &last);
    layout->result = order;
    return true;
}

/* Finds the layout of the operands. Returns false if the axes cannot be merged as MatMul requires. */
static bool find_matmul_layout(const struct contraction *contraction, matmul_layout *layout)
{
    /* without a batch, MatMul accepts any number of row axes */
    bool joins_rows = contraction->batch.count > 0 && contraction->rows.count > 1;

    *layout =
        (matmul_layout){ .vector_left = contraction->rows.count == 0, .vector_right = contraction->columns.count == 0 };
    add_all(&layout->left, &contraction->batch);
    add_all(&layout->left, &contraction->rows);
    add_all(&layout->left, &contraction->sum);
    if (is_stacked(contraction, layout))
        return true;
    *layout = (matmul_layout){ .left = layout->left,
                               .vector_left = layout->vector_left,
                               .vector_right = layout->vector_right };
    add_all(&layout->right, &contraction->batch);
    add_all(&layout->right, &contraction->sum);
    add_all(&layout->right, &contraction->columns);
    add_all(&layout->result, &contraction->batch);
    add_all(&layout->result, &contraction->rows);
    add_all(&layout->result, &contraction->columns);
    if ((joins_rows || contraction->sum.count > 1) &&
        (!add_each(contraction, &contraction->batch, &layout->to_left, true) ||
         (joins_rows ? !add_group(contraction, &contraction->rows, &layout->to_left)
                     : !add_each(contraction, &contraction->rows, &layout->to_left, true)) ||
         !add_group(contraction, &contraction->sum, &layout->to_left)))
        return false;
    if ((contraction->columns.count > 1 || contraction->sum.count > 1) &&
        (!add_each(contraction, &contraction->batch, &layout->to_right, true) ||
         !add_group(contraction, &contraction->sum, &layout->to_right) ||
         (contraction->columns.count > 0 && !add_group(contraction, &contraction->columns, &layout->to_right))))
        return false;
    return (!joins_rows && contraction->columns.count <= 1) ||
           (add_each(contraction, &contraction->batch, &layout->back, true) &&
            add_each(contraction, &contraction->rows, &layout->back, !joins_rows) &&
            add_each(contraction, &contraction->columns, &layout->back, false));
}

static uint32_t emit_matmul(const struct contraction *contraction, const matmul_layout *layout)
{
    int64_t row = contraction->batch.count, axes[2];
    uint32_t operands[2], output, count = 0;

    operands[0] = emit_reshape(contraction,
                               emit_transpose(contraction, contraction->values[0], &contraction->in[0], &layout->left),
                               &layout->to_left);
    if (layout->vector_left)
        operands[0] = emit_with_axes(contraction, "Unsqueeze", operands[0], &row, 1);
    operands[1] = emit_reshape(contraction,
                               emit_transpose(contraction, contraction->values[1], &contraction->in[1], &layout->right),
                               &layout->to_right);
    if (layout->vector_right)
        operands[1] = emit_with_axes(contraction, "Unsqueeze", operands[1], (const int64_t[]){ -1 }, 1);
    if (operands[0] == INLAY_NONE || operands[1] == INLAY_NONE)
        return INLAY_NONE;
    output = emit(contraction, "MatMul", operands, 2, NULL, NULL, 0);
    if (layout->vector_left)
        axes[count++] = row;
    if (layout->vector_right)
        axes[count++] = -1;
    output = emit_reshape(contraction, emit_with_axes(contraction, "Squeeze", output, axes, count), &layout->back);
    return emit_transpose(contraction, output, &layout->result, &contraction->out);
}

static inlay_status lower_pair(struct rewrite *rewrite, graph_node *node, const struct equation *equation)
{
    struct contraction contraction = { .rewrite = rewrite,
                                       .node = node,
                                       .dtype = rewrite_value_info(rewrite, rewrite_input(rewrite, node, 0))->dtype,
                                       .out = equation->out };
    uint32_t output;
    bool done;
    matmul_layout layout;

    for (uint32_t k = 0; k < 2; k++) {
        contraction.in[k] = equation->in[k];
        contraction.values[k] = rewrite_input(rewrite, node, k);
        if (rewrite_value_info(rewrite, contraction.values[k])->rank != equation->in[k].count)
            return INLAY_OK;
    }
    if (!sizes_agree(&contraction) || !sort_letters(&contraction))
        return INLAY_OK;
    if (contraction.sum.count == 0 || (contraction.rows.count == 0 && contraction.columns.count == 0))
        output = emit_elementwise(&contraction);
    else if (find_matmul_layout(&contraction, &layout))
        output = emit_matmul(&contraction, &layout);
    else
        return INLAY_OK;
    return output == INLAY_NONE ? rewrite_no_memory(rewrite)
                                : rewrite_forward(rewrite, node->info.outputs[0], output, &done);
}

/* A single operand: sums, then a permutation of the axes. */
static inlay_status lower_single(struct rewrite *rewrite, graph_node *node, const struct equation *equation)
{
    struct contraction contraction = { .rewrite = rewrite,
                                       .node = node,
                                       .dtype = rewrite_value_info(rewrite, rewrite_input(rewrite, node, 0))->dtype };
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
        rewrite_value_info(rewrite, rewrite_input(rewrite, node, 0))->rank != equation->in[0].count)
        return INLAY_OK;
    output = emit_transpose(&contraction,
                            emit_with_axes(&contraction, "ReduceSum", rewrite_input(rewrite, node, 0), axes, count),
                            &kept, &equation->out);
    return output == INLAY_NONE ? rewrite_no_memory(rewrite)
                                : rewrite_forward(rewrite, node->info.outputs[0], output, &done);
}

/* Replaces the first two operands by one, with the letters that are used later. */
static inlay_status split_first_pair(struct rewrite *rewrite, graph_node *node, const struct equation *equation)
{
    char text[2 * MAX_TERMS * LETTERS];
    uint32_t inputs[MAX_TERMS], used = 0;
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
    if (kept.count > MAX_RANK)
        return INLAY_OK;
    pair = rewrite_make_node(rewrite, "Einsum", node->opset, NULL, node->info.inputs, 2, 1);
    used = (uint32_t)snprintf(text, sizeof text, "%s,%s->%s", equation->in[0].letters, equation->in[1].letters,
                              kept.letters);
    if (pair == NULL || graph_set_attr_string(rewrite->graph, pair, "equation", text) != INLAY_OK ||
        rewrite_insert_node(rewrite, pair, rewrite_value_info(rewrite, rewrite_input(rewrite, node, 0))->dtype) !=
            INLAY_OK)
        return rewrite_no_memory(rewrite);
    inputs[0] = pair->info.outputs[0];
    used = (uint32_t)snprintf(text, sizeof text, "%s", kept.letters);
    for (uint32_t k = 2; k < equation->count; k++) {
        inputs[k - 1] = rewrite_input(rewrite, node, k);
        used += (uint32_t)snprintf(text + used, sizeof text - used, ",%s", equation->in[k].letters);
    }
    (void)snprintf(text + used, sizeof text - used, "->%s", equation->out.letters);
    rest = rewrite_make_node(rewrite, "Einsum", node->opset, node, inputs, equation->count - 1, 1);
    if (rest == NULL || graph_set_attr_string(rewrite->graph, rest, "equation", text) != INLAY_OK)
        return rewrite_no_memory(rewrite);
    return rewrite_replace_node(rewrite, node, rest);
}

inlay_status match_einsum(struct rewrite *rewrite, graph_node *node)
{
    const inlay_attr_info *text = graph_attr(node, "equation");
    inlay_dtype dtype;
    struct equation equation;

    if (!pass_is_op(node, "Einsum") || text == NULL || !parse_equation(text->s.data, &equation) ||
        equation.count != node->info.input_count)
        return INLAY_OK;
    for (uint32_t k = 0; k < equation.count; k++)
        if (rewrite_input(rewrite, node, k) == INLAY_NONE)
            return INLAY_OK;
    dtype = rewrite_value_info(rewrite, rewrite_input(rewrite, node, 0))->dtype;
    if (dtype != INLAY_FLOAT && dtype != INLAY_DOUBLE)
        return INLAY_OK;
    return equation.count == 1   ? lower_single(rewrite, node, &equation)
           : equation.count == 2 ? lower_pair(rewrite, node, &equation)
                                 : split_first_pair(rewrite, node, &equation);
}
