/* The rules for derivatives of operators, and their expansion. */
#include "modelkit/gradient.h"
#include "inlay/check.h"
#include <string.h>

enum { MOST_INPUTS = 5, MOST_TERMS = GRADIENT_TERMS, MOST_STACK = 16, MOST_TEXT = 24 };

/* Max and Min: all inputs equal to the result share the derivative. */
#define PICKED "iy=gN/0?,iy=gN/0?,iy=gN/0?\n"

/* The derivative by each input, in reverse Polish notation: `g` is the derivative by the first output, `y` this output,
 * `a` to `c` the inputs, `i` the current input, `p` and `q` attributes alpha and beta, 0 to 2 numbers, `k` 2 /
 * sqrt(pi). Capital letters and `u`, `v`, `s`, `r`, `x`, `n` are operations, see letters[], operand() and
 * apply_operation(). Broadcast axes are summed. An empty term is zero; the third term applies to all further inputs.
 * `!` stands for differentiate_moves(), `#` for differentiate_windows(), `$` for differentiate_concat(). One string
 * takes a third of the size of a table of pointers. */
static const char rules[] =
    "Abs gaG*\nAcos g1aa*-R/~\nAcosh gaa*1-R/\nAdd g,g\nAsin g1aa*-R/\nAsinh gaa*1+R/\nAtan g1aa*+/\nAtanh g1aa*-/\n"
    "AveragePool #\nCast g\nCeil \nClip ya=g0?,,\nConcat $\nConv #\nCos gaS*~\nCosh gaI*\nDepthToSpace !\n"
    "Div gb/,gy*b/~\nElu a0>ggyp+*?\nErf gkaa*~E**\nExp gy*\nExpand g,\nFlatten gr\nFloor \nGather !\n"
    "GatherElements !\nGatherND !\nGemm gbvT@p*u,auTg@p*v,gq*\nGlobalAveragePool xn*\nIdentity g\n"
    "LeakyRelu a0>ggp*?\nLog ga/\nLogSoftmax gyEgs*-\nMatMul gbT@,aTg@\nMax " PICKED "MaxPool !\nMin " PICKED
    "Mul gb*,ga*\nNeg g~\nPow b0=0gb*ab1-^*?,a0=0gy*aL*?\nReciprocal gyy**~\nReduceL2 xaY/*,\n"
    "ReduceLogSumExp xaY-E*,\nReduceMean xn*,\nReduceSum x,\nReduceSumSquare xa*2*,\nRelu a0>g0?\nReshape gr,\n"
    "Round \nSigmoid gy1y-**\nSign \nSin gaC*\nSinh gaH*\nSlice !\nSoftmax yggy*s-*\nSoftplus gaX*\n"
    "Softsign g1aJ+1aJ+*/\nSpaceToDepth !\nSqrt gyy+/\nSqueeze gr,\nSub g,g~\nSum g,g,g\nTan g1yy*+*\nTanh g1yy*-*\n"
    "Tile !\nTranspose gP\nUnsqueeze gr,\nWhere ,ag0?,a0g?\n";

/* The operators that letters apply to the top values of the stack. */
static const struct letter {
    char letter;
    uint8_t operands, opset;
    char op[8];
} letters[] = {
    { '+', 2, 14, "Add" },   { '-', 2, 14, "Sub" },     { '*', 2, 14, "Mul" },   { '/', 2, 14, "Div" },
    { '^', 2, 15, "Pow" },   { '>', 2, 13, "Greater" }, { '=', 2, 13, "Equal" }, { '@', 2, 13, "MatMul" },
    { '?', 3, 16, "Where" }, { '~', 1, 13, "Neg" },     { 'C', 1, 7, "Cos" },    { 'E', 1, 13, "Exp" },
    { 'G', 1, 13, "Sign" },  { 'H', 1, 9, "Cosh" },     { 'I', 1, 9, "Sinh" },   { 'J', 1, 13, "Abs" },
    { 'L', 1, 13, "Log" },   { 'R', 1, 13, "Sqrt" },    { 'S', 1, 7, "Sin" },    { 'X', 1, 13, "Sigmoid" },
};

static uint32_t op(struct gradient *gradient, const char *name, int64_t opset, uint32_t left, uint32_t right)
{
    return make_value(&gradient->maker, gradient->graph, name, opset, (const uint32_t[]){ left, right },
                      right == INLAY_NONE ? 1 : 2, NULL, 0);
}

static uint32_t int_constant(struct gradient *gradient, const int64_t *list, uint32_t count)
{
    return make_constant(&gradient->maker, gradient->graph, INLAY_INT64, 1, count, list, count * sizeof *list);
}

static uint32_t cast(struct gradient *gradient, uint32_t value, inlay_dtype to)
{
    return make_value(&gradient->maker, gradient->graph, "Cast", 13, &value, 1, "to", to);
}

static uint32_t float_constant(struct gradient *gradient, double x)
{
    const float narrow = (float)x;

    if (gradient->dtype == INLAY_DOUBLE)
        return make_constant(&gradient->maker, gradient->graph, INLAY_DOUBLE, 0, 0, &x, sizeof x);
    x = narrow;
    return gradient->dtype == INLAY_FLOAT
               ? make_constant(&gradient->maker, gradient->graph, INLAY_FLOAT, 0, 0, &narrow, sizeof narrow)
               : cast(gradient,
                      make_constant(&gradient->maker, gradient->graph, INLAY_FLOAT, 0, 0, &narrow, sizeof narrow),
                      gradient->dtype);
}

static uint32_t shape_of(struct gradient *gradient, uint32_t value)
{
    return op(gradient, "Shape", 13, value, INLAY_NONE);
}

uint32_t gradient_filled(struct gradient *gradient, double x, uint32_t like)
{
    return op(gradient, "Expand", 13, float_constant(gradient, x), shape_of(gradient, like));
}

static uint32_t reshaped(struct gradient *gradient, uint32_t value, uint32_t like)
{
    return make_value(&gradient->maker, gradient->graph, "Reshape", 14,
                      (const uint32_t[]){ value, shape_of(gradient, like) }, 2, "allowzero", 1);
}

static uint32_t sum(struct gradient *gradient, uint32_t value, uint32_t axes)
{
    return make_value(&gradient->maker, gradient->graph, "ReduceSum", 13, (const uint32_t[]){ value, axes }, 2,
                      "noop_with_empty_axes", 1);
}

/* Sums value over the axes along which `to` was broadcast: those whose sizes differ after the shape of `to` was padded
 * with leading ones. */
static uint32_t unbroadcast(struct gradient *gradient, uint32_t value, uint32_t to)
{
    const int64_t one = 1, minus = -1;
    const uint32_t value_shape = shape_of(gradient, value), target_shape = shape_of(gradient, to);
    const uint32_t more = op(gradient, "Sub", 14, shape_of(gradient, value_shape), shape_of(gradient, target_shape));
    const uint32_t ones = op(gradient, "Expand", 13, int_constant(gradient, &one, 1), more);
    const uint32_t whole = make_value(&gradient->maker, gradient->graph, "Concat", 13,
                                      (const uint32_t[]){ ones, target_shape }, 2, "axis", 0);
    const uint32_t differs = op(gradient, "Not", 1, op(gradient, "Equal", 13, whole, value_shape), INLAY_NONE);
    const uint32_t axes = op(gradient, "Reshape", 14, op(gradient, "NonZero", 13, differs, INLAY_NONE),
                             int_constant(gradient, &minus, 1));

    return reshaped(gradient, sum(gradient, value, axes), to);
}

static uint32_t transposed_matrix(struct gradient *gradient, uint32_t value)
{
    graph_node *node = make_node(&gradient->maker, gradient->graph, NULL, "Einsum", 12, &value, 1, 1);

    gradient->maker.failed |=
        node == NULL || graph_set_attr_string(gradient->graph, node, "equation", "...ij->...ji") != INLAY_OK;
    return node == NULL ? INLAY_NONE : node->info.outputs[0];
}

/* Applies the inverse of the node's permutation; without the attribute, axes were reversed. */
static uint32_t inverse_transposed(struct gradient *gradient, uint32_t value)
{
    const inlay_attr_info *perm = graph_attr(gradient->at, "perm");
    graph_node *node = make_node(&gradient->maker, gradient->graph, NULL, "Transpose", 13, &value, 1, 1);
    int64_t back[INLAY_MAX_RANK];

    if (node != NULL && perm != NULL) {
        for (uint32_t i = 0; i < perm->count; i++)
            back[perm->ints[i]] = i; /* checked by inference */
        gradient->maker.failed |= graph_set_attr_ints(gradient->graph, node, "perm", back, perm->count) != INLAY_OK;
    }
    return node == NULL ? INLAY_NONE : node->info.outputs[0];
}

/* Restores the reduced axes at their original size. */
static uint32_t expand_reduced(struct gradient *gradient, uint32_t value)
{
    const inlay_attr_info *axes = graph_attr(gradient->at, "axes");
    const uint32_t given = axes != NULL && axes->kind == INLAY_ATTR_INTS
                               ? int_constant(gradient, axes->ints, axes->count)
                               : gradient->in[1];

    if (given != INLAY_NONE && graph_attr_int(gradient->at, "keepdims", 1) == 0)
        value = op(gradient, "Unsqueeze", 13, value, given);
    return op(gradient, "Expand", 13, value, shape_of(gradient, gradient->in[0]));
}

/* The sum over the axes that Softmax normalises: one axis, or below opset 13 all axes from it on. */
static uint32_t axis_sum(struct gradient *gradient, uint32_t value)
{
    const bool old = gradient->at->info.since_version < 13;
    const inlay_value_info *output = &gradient->graph->values[gradient->at->info.outputs[0]].info;
    const int64_t axis = graph_attr_int(gradient->at, "axis", old ? 1 : -1);
    int64_t list[INLAY_MAX_RANK] = { axis };
    uint32_t count = 1;

    if (old && output->rank != INLAY_RANK_UNKNOWN)
        for (int64_t d = axis < 0 ? axis + output->rank : axis; ++d < (int64_t)output->rank;)
            list[count++] = d;
    return sum(gradient, value, int_constant(gradient, list, count));
}

/* The number of inputs that equal the output, for each element. */
static uint32_t equals(struct gradient *gradient)
{
    uint32_t sum = INLAY_NONE;

    for (uint32_t i = 0; i < gradient->at->info.input_count; i++) {
        const uint32_t is =
            cast(gradient, op(gradient, "Equal", 13, gradient->replacement[gradient->at->info.inputs[i]], gradient->y),
                 gradient->dtype);
        sum = sum == INLAY_NONE ? is : op(gradient, "Add", 14, sum, is);
    }
    return sum;
}

static uint32_t operand(struct gradient *gradient, char letter)
{
    const inlay_attr_info *attribute =
        letter == 'p' ? graph_attr(gradient->at, "alpha") : graph_attr(gradient->at, "beta");

    switch (letter) {
    case 'g':
        return gradient->g_y;
    case 'y':
        return gradient->y;
    case 'Y':
        return expand_reduced(gradient, gradient->y);
    case 'x':
        return expand_reduced(gradient, gradient->g_y);
    case 'i':
        return gradient->replacement[gradient->by];
    case 'N':
        return equals(gradient);
    case 'n': /* 1 / number of averaged elements */
        return op(gradient, "Div", 14,
                  cast(gradient, op(gradient, "Size", 13, gradient->y, INLAY_NONE), gradient->dtype),
                  cast(gradient, op(gradient, "Size", 13, gradient->in[0], INLAY_NONE), gradient->dtype));
    case 'p':
    case 'q':
        return float_constant(gradient, attribute != NULL ? attribute->f : 1);
    case 'k':
        return float_constant(gradient, 1.12837916709551257390);
    default:
        return letter >= 'a' ? gradient->in[letter - 'a'] : float_constant(gradient, letter - '0');
    }
}

/* Applies an operation that is not in letters[] to one value. */
static uint32_t apply_operation(struct gradient *gradient, char letter, uint32_t value)
{
    switch (letter) {
    case 'T':
        return transposed_matrix(gradient, value);
    case 'u':
        return graph_attr_int(gradient->at, "transA", 0) != 0 ? transposed_matrix(gradient, value) : value;
    case 'v':
        return graph_attr_int(gradient->at, "transB", 0) != 0 ? transposed_matrix(gradient, value) : value;
    case 'P':
        return inverse_transposed(gradient, value);
    case 's':
        return axis_sum(gradient, value);
    default:
        return reshaped(gradient, value, gradient->in[0]); /* 'r' */
    }
}

static uint32_t compute(struct gradient *gradient, const char *term)
{
    uint32_t stack[MOST_STACK], depth = 0;

    INLAY_CHECK(strlen(term) < MOST_TEXT);
    for (; *term != '\0'; term++) {
        const struct letter *letter = letters, *end = letters + sizeof letters / sizeof letters[0];

        while (letter < end && letter->letter != *term)
            letter++;
        INLAY_CHECK(depth < MOST_STACK);
        if (letter < end) {
            INLAY_CHECK(depth >= letter->operands);
            depth -= letter->operands;
            stack[depth] = make_value(&gradient->maker, gradient->graph, letter->op, letter->opset, stack + depth,
                                      letter->operands, NULL, 0);
            depth++;
        } else if (strchr("TuvPsr", *term) != NULL) {
            stack[depth - 1] = apply_operation(gradient, *term, stack[depth - 1]);
        } else {
            stack[depth++] = operand(gradient, *term);
        }
    }
    return stack[0];
}

static void add_derivative(struct gradient *gradient, uint32_t value, uint32_t by)
{
    gradient->derivative[value] =
        gradient->derivative[value] == INLAY_NONE ? by : op(gradient, "Add", 14, gradient->derivative[value], by);
}

/* Unsqueezes vector operands of MatMul, so that the rule sees matrices. */
static inlay_status as_matrices(struct gradient *gradient, inlay_diag *diag)
{
    const int64_t first = 0, last = -1, before = -2;

    for (uint32_t i = 0; i < 2; i++) {
        const uint32_t rank = gradient->graph->values[gradient->at->info.inputs[i]].info.rank;

        if (rank == INLAY_RANK_UNKNOWN)
            return graph_fail(gradient->graph, gradient->at, NULL, INLAY_UNSUPPORTED, diag,
                              "Gradient: the rank of input %u is not known", i);
        if (rank != 1)
            continue;
        gradient->in[i] =
            op(gradient, "Unsqueeze", 13, gradient->in[i], int_constant(gradient, i == 0 ? &first : &last, 1));
        gradient->g_y = op(
            gradient, "Unsqueeze", 13, gradient->g_y,
            int_constant(
                gradient,
                i == 0 && gradient->graph->values[gradient->at->info.inputs[1]].info.rank != 1 ? &before : &last, 1));
    }
    return INLAY_OK;
}

/* Concat: each input gets its slice of the derivative. */
static void differentiate_concat(struct gradient *gradient)
{
    const graph_node *node = gradient->at;
    const int64_t axis = graph_attr_int(gradient->at, "axis", 0);
    const uint32_t at = int_constant(gradient, &axis, 1);
    uint32_t *sizes = arena_array(&gradient->arena, node->info.input_count, sizeof *sizes);
    graph_node *split;

    for (uint32_t i = 0; sizes != NULL && i < node->info.input_count; i++)
        sizes[i] = op(gradient, "Gather", 13, shape_of(gradient, gradient->replacement[node->info.inputs[i]]), at);
    if (sizes == NULL) {
        gradient->maker.failed = true;
        return;
    }
    sizes[0] = make_value(&gradient->maker, gradient->graph, "Concat", 13, sizes, node->info.input_count, "axis", 0);
    split = make_node(&gradient->maker, gradient->graph, NULL, "Split", 13,
                      (const uint32_t[]){ gradient->g_y, sizes[0] }, 2, node->info.input_count);
    if (split == NULL || graph_set_attr_int(gradient->graph, split, "axis", axis) != INLAY_OK)
        gradient->maker.failed = true;
    for (uint32_t i = 0; split != NULL && i < node->info.input_count; i++)
        if (gradient_reaches(gradient, node->info.inputs[i]))
            add_derivative(gradient, node->info.inputs[i], split->info.outputs[i]);
}

/* Copies the current node with other inputs and without attribute `without`. */
static graph_node *copy_node(struct gradient *gradient, int64_t opset, const uint32_t *inputs, uint32_t count,
                             uint32_t outputs, const char *without)
{
    graph_node *node = make_node(&gradient->maker, gradient->graph, NULL, gradient->at->info.op_type.data, opset,
                                 inputs, count, outputs);

    for (uint32_t i = 0; node != NULL && i < gradient->at->own_attr_count; i++) {
        const inlay_attr_info *attribute =
            INLAY_AT(inlay_attr_info, gradient->at->info.attrs, gradient->at->info.attr_stride, i);
        gradient->maker.failed |=
            strcmp(attribute->name.data, without) != 0 && graph_set_attr(gradient->graph, node, attribute) != INLAY_OK;
    }
    return node;
}

static uint32_t flat(struct gradient *gradient, uint32_t value)
{
    const int64_t all = -1;
    return op(gradient, "Reshape", 14, value, int_constant(gradient, &all, 1));
}

/* Operators that only move elements of their first input: the same operator is applied to the indices of the elements,
 * and ScatterElements adds the derivative at the resulting indices. MaxPool returns the indices itself. */
static void differentiate_moves(struct gradient *gradient)
{
    const inlay_node_info *node = &gradient->at->info;
    const uint32_t input = gradient->replacement[node->inputs[0]],
                   zeros = flat(gradient, gradient_filled(gradient, 0, input));
    const bool pool = pass_is_op(gradient->at, "MaxPool");
    uint32_t inputs[MOST_INPUTS], by;
    const int64_t step[] = { 0, 1 };
    graph_node *places, *sums;

    INLAY_CHECK(node->input_count <= MOST_INPUTS);
    if (!gradient_reaches(gradient, node->inputs[0]))
        return;
    for (uint32_t i = 0; i < node->input_count && i < MOST_INPUTS; i++)
        inputs[i] = node->inputs[i] == INLAY_NONE ? INLAY_NONE : gradient->replacement[node->inputs[i]];
    if (!pool) {
        const uint32_t range[] = {
            make_constant(&gradient->maker, gradient->graph, INLAY_INT64, 0, 0, &step[0], sizeof *step),
            op(gradient, "Size", 13, input, INLAY_NONE),
            make_constant(&gradient->maker, gradient->graph, INLAY_INT64, 0, 0, &step[1], sizeof *step),
        };
        inputs[0] =
            reshaped(gradient, make_value(&gradient->maker, gradient->graph, "Range", 11, range, 3, NULL, 0), input);
    }
    places =
        copy_node(gradient, pool ? 12 : gradient->at->opset, inputs, node->input_count, pool ? 2 : 1, "storage_order");
    if (places == NULL)
        return;
    by = flat(gradient, places->info.outputs[pool ? 1 : 0]);
    sums = make_node(&gradient->maker, gradient->graph, NULL, "ScatterElements", 16,
                     (const uint32_t[]){ zeros, by, flat(gradient, gradient->g_y) }, 3, 1);
    if (sums == NULL)
        return;
    gradient->maker.failed |= graph_set_attr_string(gradient->graph, sums, "reduction", "add") != INLAY_OK;
    add_derivative(gradient, node->inputs[0], reshaped(gradient, sums->info.outputs[0], input));
}

/* The axes [from, from + count) as a constant. */
static uint32_t axes_from(struct gradient *gradient, int64_t from, uint32_t count)
{
    int64_t axes[INLAY_MAX_RANK];

    for (uint32_t d = 0; d < count; d++)
        axes[d] = from + d;
    return int_constant(gradient, axes, count);
}

/* A Reshape target: the numbers `first`, followed by the sizes of the value from the third axis on. */
static uint32_t sizes_behind(struct gradient *gradient, const int64_t *first, uint32_t count, uint32_t value,
                             uint32_t spatial)
{
    const uint32_t in[] = { int_constant(gradient, first, count),
                            op(gradient, "Gather", 13, shape_of(gradient, value), axes_from(gradient, 2, spatial)) };

    return make_value(&gradient->maker, gradient->graph, "Concat", 13, in, 2, "axis", 0);
}

/* Reverses the first two or three axes. */
static uint32_t swapped(struct gradient *gradient, uint32_t value, uint32_t axes, uint32_t spatial)
{
    graph_node *node = make_node(&gradient->maker, gradient->graph, NULL, "Transpose", 13, &value, 1, 1);
    int64_t perm[INLAY_MAX_RANK];

    for (uint32_t d = 0; d < axes + spatial; d++)
        perm[d] = d < axes ? axes - 1 - d : d;
    gradient->maker.failed |=
        node == NULL || graph_set_attr_ints(gradient->graph, node, "perm", perm, axes + spatial) != INLAY_OK;
    return node == NULL ? INLAY_NONE : node->info.outputs[0];
}

/* Copies attribute `from` of the current node, if present, as attribute `to`. */
static void copy_attr(struct gradient *gradient, graph_node *node, const char *from, const char *to)
{
    const inlay_attr_info *attribute = graph_attr(gradient->at, from);

    if (node != NULL && attribute != NULL && attribute->kind == INLAY_ATTR_INTS)
        gradient->maker.failed |=
            graph_set_attr_ints(gradient->graph, node, to, attribute->ints, attribute->count) != INLAY_OK;
}

/* Adds the elements of each window to the positions that they were read from (Col2Im): columns are [N, C * elements of
 * a window, number of windows]. */
static void add_windows(struct gradient *gradient, uint32_t columns, const int64_t *kernel, uint32_t spatial)
{
    const uint32_t input = gradient->at->info.inputs[0];
    const uint32_t in[] = { columns, sizes_behind(gradient, NULL, 0, gradient->replacement[input], spatial),
                            int_constant(gradient, kernel, spatial) };
    graph_node *node = make_node(&gradient->maker, gradient->graph, NULL, "Col2Im", 18, in, 3, 1);

    copy_attr(gradient, node, "pads", "pads");
    copy_attr(gradient, node, "strides", "strides");
    copy_attr(gradient, node, "dilations", "dilations");
    if (node != NULL)
        add_derivative(gradient, input, node->info.outputs[0]);
}

/* Each element of a window gets an equal share; without count_include_pad the share is larger at the border. */
static void differentiate_average_pool(struct gradient *gradient, const int64_t *kernel, uint32_t spatial,
                                       int64_t elements)
{
    const int64_t apart[] = { 0, 0, 1, -1 }, joined[] = { 0, -1 }, last = 3;
    const int64_t repeat[] = { 1, 1, elements, 1 };
    uint32_t value = op(gradient, "Div", 14, gradient->g_y, float_constant(gradient, (double)elements)), ones, sizes;

    if (graph_attr_int(gradient->at, "count_include_pad", 0) == 0 && graph_attr(gradient->at, "pads") != NULL) {
        graph_node *node;
        ones = gradient_filled(gradient, 1, gradient->replacement[gradient->at->info.inputs[0]]);
        node = copy_node(gradient, gradient->at->opset, &ones, 1, 1, "count_include_pad");
        gradient->maker.failed |=
            node == NULL || graph_set_attr_int(gradient->graph, node, "count_include_pad", 1) != INLAY_OK;
        value = node == NULL ? INLAY_NONE : op(gradient, "Div", 14, value, node->info.outputs[0]);
    }
    value = op(gradient, "Reshape", 14, value, int_constant(gradient, apart, 4));
    sizes = op(gradient, "Gather", 13, shape_of(gradient, value), int_constant(gradient, &last, 1));
    value = op(gradient, "Expand", 13, value, int_constant(gradient, repeat, 4));
    sizes = make_value(&gradient->maker, gradient->graph, "Concat", 13,
                       (const uint32_t[]){ int_constant(gradient, joined, 2), sizes }, 2, "axis", 0);
    add_windows(gradient, op(gradient, "Reshape", 14, value, sizes), kernel, spatial);
}

/* The derivative by the weights [M, C / groups, ...]: a convolution of the input with the derivative, with batch and
 * channel axes swapped, and strides and dilations swapped. The result may be larger than the filter by a few elements
 * and is sliced. */
static uint32_t conv_weights(struct gradient *gradient, const int64_t *weight_dims, int64_t groups, uint32_t spatial)
{
    static const int64_t from[INLAY_MAX_RANK];
    const int64_t parted[] = { 0, groups, weight_dims[1] }, joined[] = { weight_dims[1], -1 };
    const uint32_t input = gradient->in[0];
    uint32_t value = op(gradient, "Reshape", 14, input, sizes_behind(gradient, parted, 3, input, spatial)), in[4];
    graph_node *node;

    value = swapped(gradient, value, 3, spatial);
    in[0] = op(gradient, "Reshape", 14, value, sizes_behind(gradient, joined, 2, input, spatial));
    in[1] = swapped(gradient, gradient->g_y, 2, spatial);
    node = make_node(&gradient->maker, gradient->graph, NULL, "Conv", 11, in, 2, 1);
    copy_attr(gradient, node, "pads", "pads");
    copy_attr(gradient, node, "strides", "dilations");
    copy_attr(gradient, node, "dilations", "strides");
    gradient->maker.failed |= node == NULL || graph_set_attr_int(gradient->graph, node, "group", groups) != INLAY_OK;
    in[0] = node == NULL ? INLAY_NONE : node->info.outputs[0];
    in[1] = int_constant(gradient, from, spatial);
    in[2] = int_constant(gradient, weight_dims + 2, spatial);
    in[3] = axes_from(gradient, 2, spatial);
    return swapped(gradient, make_value(&gradient->maker, gradient->graph, "Slice", 13, in, 4, NULL, 0), 2, spatial);
}

static void differentiate_conv(struct gradient *gradient, const int64_t *weight_dims, uint32_t spatial,
                               int64_t elements)
{
    const inlay_node_info *node = &gradient->at->info;
    const int64_t groups = graph_attr_int(gradient->at, "group", 1), column = weight_dims[1] * elements;
    const int64_t kernels[] = { groups, weight_dims[0] / groups, column },
                  made[] = { 0, groups, weight_dims[0] / groups, -1 };
    const int64_t columns[] = { 0, groups * column, -1 };

    if (gradient_reaches(gradient, node->inputs[0])) {
        const uint32_t turned_w = transposed_matrix(
            gradient, op(gradient, "Reshape", 14, gradient->in[1], int_constant(gradient, kernels, 3)));
        const uint32_t value = op(gradient, "MatMul", 13, turned_w,
                                  op(gradient, "Reshape", 14, gradient->g_y, int_constant(gradient, made, 4)));
        add_windows(gradient, op(gradient, "Reshape", 14, value, int_constant(gradient, columns, 3)), weight_dims + 2,
                    spatial);
    }
    if (gradient_reaches(gradient, node->inputs[1]))
        add_derivative(gradient, node->inputs[1], conv_weights(gradient, weight_dims, groups, spatial));
    if (node->input_count > 2 &&
        gradient_reaches(gradient, node->inputs[2])) { /* sums over all axes except the channel axis */
        const uint32_t value = sum(gradient, gradient->g_y, axes_from(gradient, 2, spatial));
        const int64_t first = 0;
        add_derivative(gradient, node->inputs[2],
                       reshaped(gradient, sum(gradient, value, int_constant(gradient, &first, 1)),
                                gradient->replacement[node->inputs[2]]));
    }
}

/* Conv and AveragePool; their window sizes must be known. */
static inlay_status differentiate_windows(struct gradient *gradient, inlay_diag *diag)
{
    const inlay_attr_info *attribute = graph_attr(gradient->at, "kernel_shape"),
                          *automatic = graph_attr(gradient->at, "auto_pad");
    const bool pool = pass_is_op(gradient->at, "AveragePool");
    const inlay_value_info *weights = pool ? NULL : &gradient->graph->values[gradient->at->info.inputs[1]].info;
    int64_t sizes[INLAY_MAX_RANK] = { 0 }, elements = 1;
    uint32_t rank = pool                                  ? (attribute != NULL ? attribute->count + 2 : 0)
                    : weights->rank == INLAY_RANK_UNKNOWN ? 0
                                                          : weights->rank;
    bool known = rank > 2 && rank + 1 < INLAY_MAX_RANK && graph_attr_int(gradient->at, "ceil_mode", 0) == 0 &&
                 (automatic == NULL || strncmp(automatic->s.data, "SAME", 4) != 0);

    for (uint32_t d = 0; known && d < rank; d++) {
        known = pool || weights->dims[d].kind == INLAY_DIM_FIXED;
        sizes[d] = pool ? (d < 2 ? 1 : attribute->ints[d - 2]) : weights->dims[d].value;
        elements *= d < 2 ? 1 : sizes[d];
    }
    if (!known)
        return graph_fail(gradient->graph, gradient->at, NULL, INLAY_UNSUPPORTED, diag,
                          "Gradient '%s' has no rule for %s with auto_pad SAME, ceil_mode or sizes that are not known",
                          gradient->node->info.name.data, gradient->at->info.op_type.data);
    gradient->in[0] = gradient->replacement[gradient->at->info.inputs[0]];
    if (pool)
        differentiate_average_pool(gradient, sizes + 2, rank - 2, elements);
    else {
        gradient->in[1] = gradient->replacement[gradient->at->info.inputs[1]];
        differentiate_conv(gradient, sizes, rank - 2, elements);
    }
    return INLAY_OK;
}

/* The rule of the operator; NULL: none. */
static const char *rule_of(const graph_node *node)
{
    const char *op = node->info.op_type.data, *at = strcmp(node->info.domain.data, "ai.onnx") == 0 ? rules : "";

    for (; *at != '\0'; at = strchr(at, '\n') + 1)
        if (strncmp(at, op, strlen(op)) == 0 && at[strlen(op)] == ' ')
            return at + strlen(op) + 1;
    return NULL;
}

/* Copies term i of a rule; "" if absent. */
static const char *term_of(const char *rule, uint32_t i, char text[MOST_TEXT])
{
    size_t bytes;

    for (; i > 0 && *(rule += strcspn(rule, ",\n")) == ','; i--)
        rule++;
    bytes = i > 0 ? 0 : strcspn(rule, ",\n");
    INLAY_CHECK(bytes < MOST_TEXT);
    memcpy(text, rule, bytes);
    text[bytes] = '\0';
    return text;
}

inlay_status gradient_back(struct gradient *gradient, const graph_node *node, inlay_diag *diag)
{
    const char *rule = rule_of(node);
    const uint32_t out = node->info.outputs[0];
    inlay_status status = INLAY_OK;
    bool matrices;

    for (uint32_t output = 1; output < node->info.output_count; output++)
        if (gradient_reaches(gradient, node->info.outputs[output]) &&
            gradient->derivative[node->info.outputs[output]] != INLAY_NONE)
            rule = NULL;
    gradient->at = node;
    gradient->g_y = gradient->derivative[out];
    gradient->dtype = gradient->graph->values[out].info.dtype;
    if (rule == NULL)
        return graph_fail(gradient->graph, node, NULL, INLAY_UNSUPPORTED, diag, "Gradient '%s' has no rule for %s",
                          gradient->node->info.name.data, node->info.op_type.data);
    if (rule[0] == '#')
        return differentiate_windows(gradient, diag);
    if (rule[0] == '$' || rule[0] == '!') {
        (rule[0] == '$' ? differentiate_concat : differentiate_moves)(gradient);
        return INLAY_OK;
    }
    matrices = pass_is_op(node, "MatMul");
    for (uint32_t i = 0; i < node->info.input_count; i++) {
        const uint32_t value = node->info.inputs[i];
        char text[MOST_TEXT];
        const char *term = term_of(rule, i < MOST_TERMS ? i : MOST_TERMS - 1, text);
        bool fits;
        uint32_t made;

        if (!gradient_reaches(gradient, value) || term[0] == '\0')
            continue;
        gradient->g_y = gradient->derivative[out];
        gradient->by = value;
        gradient->y = gradient->replacement[out];
        gradient->dtype = gradient->graph->values[out].info.dtype;
        for (uint32_t k = 0; k < MOST_TERMS; k++) {
            const uint32_t input = graph_input_at(node, k);
            const inlay_dtype dtype = input == INLAY_NONE ? INLAY_UNDEFINED : gradient->graph->values[input].info.dtype;

            gradient->in[k] = input == INLAY_NONE ? INLAY_NONE : gradient->replacement[input];
            if (gradient_is_float(dtype) && dtype != gradient->dtype && strchr(term, 'a' + (char)k) != NULL)
                gradient->in[k] = cast(gradient, gradient->in[k], gradient->dtype);
        }
        fits = strpbrk(term, "xrPs") != NULL || (!matrices && graph_same_sizes(&gradient->graph->values[value].info,
                                                                               &gradient->graph->values[out].info));
        if (matrices)
            INLAY_TRY(as_matrices(gradient, diag));
        made = compute(gradient, term);
        made = fits ? made : unbroadcast(gradient, made, matrices ? gradient->in[i] : gradient->replacement[value]);
        if (matrices)
            made = reshaped(gradient, made, gradient->replacement[value]);
        if (gradient->graph->values[value].info.dtype != gradient->dtype)
            made = cast(gradient, made, gradient->graph->values[value].info.dtype);
        add_derivative(gradient, value, made);
    }
done:
    return status;
}
