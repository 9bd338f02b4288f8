/* The derivatives of operators, as rows, and what writes them. */
#include "modelkit/gradient.h"
#include <string.h>

enum { MOST_INPUTS = 5, MOST_TERMS = GRADIENT_TERMS, MOST_STACK = 16, MOST_TEXT = 24 };

/* Of the least or largest: those that are it share what comes. */
#define PICKED "iy=gN/0?,iy=gN/0?,iy=gN/0?\n"

/* The derivative by each input, in reverse Polish notation: `g` is that by the first output, `y` this output, `a` to
 * `c` the inputs, `i` this input, `p` and `q` attributes alpha and beta, 0 to 2 numbers, `k` 2 / sqrt(pi); what the
 * letters in capitals, `u`, `v`, `s`, `r`, `x` and `n` make is told below. What broadcasting repeated is summed;
 * nothing between commas is zero, and the third stands for what comes after. `!` stands for moved(), `#` for windows(),
 * `$` for concat(). One text takes a third of what a table of pointers would. */
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

/* What a letter of a rule makes of the one or two values before it. */
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

/* ------------------------------------------------------------------ writing */

static uint32_t op(struct gradient *f, const char *name, int64_t opset, uint32_t a, uint32_t b)
{
    return make_value(&f->m, f->g, name, opset, (const uint32_t[]){ a, b }, b == INLAY_NONE ? 1 : 2, NULL, 0);
}

static uint32_t ints(struct gradient *f, const int64_t *list, uint32_t count)
{
    return make_constant(&f->m, f->g, INLAY_INT64, 1, count, list, count * sizeof *list);
}

static uint32_t cast(struct gradient *f, uint32_t v, inlay_dtype to)
{
    return make_value(&f->m, f->g, "Cast", 13, &v, 1, "to", to);
}

static uint32_t number(struct gradient *f, double x)
{
    const float narrow = (float)x;

    if (f->dtype == INLAY_DOUBLE)
        return make_constant(&f->m, f->g, INLAY_DOUBLE, 0, 0, &x, sizeof x);
    x = narrow;
    return f->dtype == INLAY_FLOAT
               ? make_constant(&f->m, f->g, INLAY_FLOAT, 0, 0, &narrow, sizeof narrow)
               : cast(f, make_constant(&f->m, f->g, INLAY_FLOAT, 0, 0, &narrow, sizeof narrow), f->dtype);
}

static uint32_t shape_of(struct gradient *f, uint32_t v)
{
    return op(f, "Shape", 13, v, INLAY_NONE);
}

uint32_t gradient_filled(struct gradient *f, double x, uint32_t like)
{
    return op(f, "Expand", 13, number(f, x), shape_of(f, like));
}

static uint32_t reshaped(struct gradient *f, uint32_t v, uint32_t like)
{
    return make_value(&f->m, f->g, "Reshape", 14, (const uint32_t[]){ v, shape_of(f, like) }, 2, "allowzero", 1);
}

static uint32_t sum(struct gradient *f, uint32_t v, uint32_t axes)
{
    return make_value(&f->m, f->g, "ReduceSum", 13, (const uint32_t[]){ v, axes }, 2, "noop_with_empty_axes", 1);
}

/* Sums v over the axes along which `to` was repeated: those where their shapes differ once that of `to` has leading
 * ones. */
static uint32_t unbroadcast(struct gradient *f, uint32_t v, uint32_t to)
{
    const int64_t one = 1, minus = -1;
    const uint32_t sv = shape_of(f, v), st = shape_of(f, to);
    const uint32_t more = op(f, "Sub", 14, shape_of(f, sv), shape_of(f, st));
    const uint32_t ones = op(f, "Expand", 13, ints(f, &one, 1), more);
    const uint32_t whole = make_value(&f->m, f->g, "Concat", 13, (const uint32_t[]){ ones, st }, 2, "axis", 0);
    const uint32_t differs = op(f, "Not", 1, op(f, "Equal", 13, whole, sv), INLAY_NONE);
    const uint32_t axes = op(f, "Reshape", 14, op(f, "NonZero", 13, differs, INLAY_NONE), ints(f, &minus, 1));

    return reshaped(f, sum(f, v, axes), to);
}

static uint32_t turned(struct gradient *f, uint32_t v)
{
    graph_node *n = make_node(&f->m, f->g, NULL, "Einsum", 12, &v, 1, 1);

    f->m.failed |= n == NULL || graph_set_attr_string(f->g, n, "equation", "...ij->...ji") != INLAY_OK;
    return n == NULL ? INLAY_NONE : n->info.outputs[0];
}

static int64_t attr_int(const struct gradient *f, const char *name, int64_t otherwise)
{
    const inlay_attr_info *a = graph_attr(f->at, name);

    return a != NULL && a->kind == INLAY_ATTR_INT ? a->i : otherwise;
}

/* The opposite of the node's permutation; without one, axes were reversed. */
static uint32_t turned_back(struct gradient *f, uint32_t v)
{
    const inlay_attr_info *perm = graph_attr(f->at, "perm");
    graph_node *n = make_node(&f->m, f->g, NULL, "Transpose", 13, &v, 1, 1);
    int64_t back[INLAY_MAX_RANK];

    if (n != NULL && perm != NULL) {
        for (uint32_t i = 0; i < perm->count; i++)
            back[perm->ints[i]] = i; /* inference has checked it */
        f->m.failed |= graph_set_attr_ints(f->g, n, "perm", back, perm->count) != INLAY_OK;
    }
    return n == NULL ? INLAY_NONE : n->info.outputs[0];
}

/* A value with the reduced axes back, as long as they were in the input. */
static uint32_t spread(struct gradient *f, uint32_t v)
{
    const inlay_attr_info *axes = graph_attr(f->at, "axes");
    const uint32_t given = axes != NULL && axes->kind == INLAY_ATTR_INTS ? ints(f, axes->ints, axes->count) : f->in[1];

    if (given != INLAY_NONE && attr_int(f, "keepdims", 1) == 0)
        v = op(f, "Unsqueeze", 13, v, given);
    return op(f, "Expand", 13, v, shape_of(f, f->in[0]));
}

/* The sum over what Softmax normalises: one axis, or below opset 13 all from it on. */
static uint32_t axis_sum(struct gradient *f, uint32_t v)
{
    const bool old = f->at->info.since_version < 13;
    const inlay_value_info *y = &f->g->values[f->at->info.outputs[0]].info;
    const int64_t axis = attr_int(f, "axis", old ? 1 : -1);
    int64_t list[INLAY_MAX_RANK] = { axis };
    uint32_t count = 1;

    if (old && y->rank != INLAY_RANK_UNKNOWN)
        for (int64_t d = axis < 0 ? axis + y->rank : axis; ++d < (int64_t)y->rank;)
            list[count++] = d;
    return sum(f, v, ints(f, list, count));
}

/* How many inputs the output equals. */
static uint32_t equals(struct gradient *f)
{
    uint32_t sum = INLAY_NONE;

    for (uint32_t i = 0; i < f->at->info.input_count; i++) {
        const uint32_t is = cast(f, op(f, "Equal", 13, f->now[f->at->info.inputs[i]], f->y), f->dtype);
        sum = sum == INLAY_NONE ? is : op(f, "Add", 14, sum, is);
    }
    return sum;
}

static uint32_t operand(struct gradient *f, char letter)
{
    const inlay_attr_info *x = letter == 'p' ? graph_attr(f->at, "alpha") : graph_attr(f->at, "beta");

    switch (letter) {
    case 'g':
        return f->g_y;
    case 'y':
        return f->y;
    case 'Y':
        return spread(f, f->y);
    case 'x':
        return spread(f, f->g_y);
    case 'i':
        return f->now[f->by];
    case 'N':
        return equals(f);
    case 'n': /* the share of one element in a mean */
        return op(f, "Div", 14, cast(f, op(f, "Size", 13, f->y, INLAY_NONE), f->dtype),
                  cast(f, op(f, "Size", 13, f->in[0], INLAY_NONE), f->dtype));
    case 'p':
    case 'q':
        return number(f, x != NULL ? x->f : 1);
    case 'k':
        return number(f, 1.12837916709551257390);
    default:
        return letter >= 'a' ? f->in[letter - 'a'] : number(f, letter - '0');
    }
}

/* What changes one value that is no letter of the table. */
static uint32_t changed(struct gradient *f, char letter, uint32_t v)
{
    switch (letter) {
    case 'T':
        return turned(f, v);
    case 'u':
        return attr_int(f, "transA", 0) != 0 ? turned(f, v) : v;
    case 'v':
        return attr_int(f, "transB", 0) != 0 ? turned(f, v) : v;
    case 'P':
        return turned_back(f, v);
    case 's':
        return axis_sum(f, v);
    default:
        return reshaped(f, v, f->in[0]); /* 'r' */
    }
}

static uint32_t compute(struct gradient *f, const char *term)
{
    uint32_t stack[MOST_STACK], depth = 0;

    for (; *term != '\0'; term++) {
        const struct letter *l = letters, *end = letters + sizeof letters / sizeof letters[0];

        while (l < end && l->letter != *term)
            l++;
        if (l < end) {
            depth -= l->operands;
            stack[depth] = make_value(&f->m, f->g, l->op, l->opset, stack + depth, l->operands, NULL, 0);
            depth++;
        } else if (strchr("TuvPsr", *term) != NULL) {
            stack[depth - 1] = changed(f, *term, stack[depth - 1]);
        } else {
            stack[depth++] = operand(f, *term);
        }
    }
    return stack[0];
}

/* ------------------------------------------------------------------ one node */

static void add_slope(struct gradient *f, uint32_t v, uint32_t by)
{
    f->slope[v] = f->slope[v] == INLAY_NONE ? by : op(f, "Add", 14, f->slope[v], by);
}

/* A product of vectors is one of matrices with an axis more. */
static inlay_status as_matrices(struct gradient *f, inlay_diag *diag)
{
    const int64_t first = 0, last = -1, before = -2;

    for (uint32_t i = 0; i < 2; i++) {
        const uint32_t rank = f->g->values[f->at->info.inputs[i]].info.rank;

        if (rank == INLAY_RANK_UNKNOWN)
            return graph_fail(f->g, f->at, NULL, INLAY_UNSUPPORTED, diag, "Gradient: the rank of input %u is not known",
                              i);
        if (rank != 1)
            continue;
        f->in[i] = op(f, "Unsqueeze", 13, f->in[i], ints(f, i == 0 ? &first : &last, 1));
        f->g_y = op(f, "Unsqueeze", 13, f->g_y,
                    ints(f, i == 0 && f->g->values[f->at->info.inputs[1]].info.rank != 1 ? &before : &last, 1));
    }
    return INLAY_OK;
}

/* Concat: each input has its part of the derivative. */
static void concat(struct gradient *f)
{
    const graph_node *n = f->at;
    const int64_t axis = attr_int(f, "axis", 0);
    const uint32_t at = ints(f, &axis, 1);
    uint32_t *sizes = arena_array(&f->a, n->info.input_count, sizeof *sizes);
    graph_node *split;

    for (uint32_t i = 0; sizes != NULL && i < n->info.input_count; i++)
        sizes[i] = op(f, "Gather", 13, shape_of(f, f->now[n->info.inputs[i]]), at);
    if (sizes == NULL) {
        f->m.failed = true;
        return;
    }
    sizes[0] = make_value(&f->m, f->g, "Concat", 13, sizes, n->info.input_count, "axis", 0);
    split = make_node(&f->m, f->g, NULL, "Split", 13, (const uint32_t[]){ f->g_y, sizes[0] }, 2, n->info.input_count);
    if (split == NULL || graph_set_attr_int(f->g, split, "axis", axis) != INLAY_OK)
        f->m.failed = true;
    for (uint32_t i = 0; split != NULL && i < n->info.input_count; i++)
        if (gradient_reaches(f, n->info.inputs[i]))
            add_slope(f, n->info.inputs[i], split->info.outputs[i]);
}

/* A node as the one at hand is, over other inputs; its attributes but for `without`. */
static graph_node *again(struct gradient *f, int64_t opset, const uint32_t *inputs, uint32_t count, uint32_t outputs,
                         const char *without)
{
    graph_node *n = make_node(&f->m, f->g, NULL, f->at->info.op_type.data, opset, inputs, count, outputs);

    for (uint32_t i = 0; n != NULL && i < f->at->own_attr_count; i++) {
        const inlay_attr_info *a = INLAY_AT(inlay_attr_info, f->at->info.attrs, f->at->info.attr_stride, i);
        f->m.failed |= strcmp(a->name.data, without) != 0 && graph_set_attr(f->g, n, a) != INLAY_OK;
    }
    return n;
}

static uint32_t flat(struct gradient *f, uint32_t v)
{
    const int64_t all = -1;
    return op(f, "Reshape", 14, v, ints(f, &all, 1));
}

/* Operators that only move elements of their first input: each element's place goes the same way, and what comes is
 * added there. MaxPool tells places itself. */
static void moved(struct gradient *f)
{
    const inlay_node_info *n = &f->at->info;
    const uint32_t x = f->now[n->inputs[0]], zeros = flat(f, gradient_filled(f, 0, x));
    const bool pool = pass_is_op(f->at, "MaxPool");
    uint32_t inputs[MOST_INPUTS], by;
    const int64_t step[] = { 0, 1 };
    graph_node *places, *sums;

    if (!gradient_reaches(f, n->inputs[0]))
        return;
    for (uint32_t i = 0; i < n->input_count && i < MOST_INPUTS; i++)
        inputs[i] = n->inputs[i] == INLAY_NONE ? INLAY_NONE : f->now[n->inputs[i]];
    if (!pool) {
        const uint32_t range[] = {
            make_constant(&f->m, f->g, INLAY_INT64, 0, 0, &step[0], sizeof *step),
            op(f, "Size", 13, x, INLAY_NONE),
            make_constant(&f->m, f->g, INLAY_INT64, 0, 0, &step[1], sizeof *step),
        };
        inputs[0] = reshaped(f, make_value(&f->m, f->g, "Range", 11, range, 3, NULL, 0), x);
    }
    places = again(f, pool ? 12 : f->at->opset, inputs, n->input_count, pool ? 2 : 1, "storage_order");
    if (places == NULL)
        return;
    by = flat(f, places->info.outputs[pool ? 1 : 0]);
    sums = make_node(&f->m, f->g, NULL, "ScatterElements", 16, (const uint32_t[]){ zeros, by, flat(f, f->g_y) }, 3, 1);
    if (sums == NULL)
        return;
    f->m.failed |= graph_set_attr_string(f->g, sums, "reduction", "add") != INLAY_OK;
    add_slope(f, n->inputs[0], reshaped(f, sums->info.outputs[0], x));
}

/* The numbers of the axes [from, from + count). */
static uint32_t axes_from(struct gradient *f, int64_t from, uint32_t count)
{
    int64_t axes[INLAY_MAX_RANK];

    for (uint32_t d = 0; d < count; d++)
        axes[d] = from + d;
    return ints(f, axes, count);
}

/* The sizes of a value from the third axis on, behind others as Reshape has them. */
static uint32_t sizes_behind(struct gradient *f, const int64_t *first, uint32_t count, uint32_t v, uint32_t spatial)
{
    const uint32_t in[] = { ints(f, first, count), op(f, "Gather", 13, shape_of(f, v), axes_from(f, 2, spatial)) };

    return make_value(&f->m, f->g, "Concat", 13, in, 2, "axis", 0);
}

/* The first two or three axes in another order. */
static uint32_t swapped(struct gradient *f, uint32_t v, uint32_t axes, uint32_t spatial)
{
    graph_node *n = make_node(&f->m, f->g, NULL, "Transpose", 13, &v, 1, 1);
    int64_t perm[INLAY_MAX_RANK];

    for (uint32_t d = 0; d < axes + spatial; d++)
        perm[d] = d < axes ? axes - 1 - d : d;
    f->m.failed |= n == NULL || graph_set_attr_ints(f->g, n, "perm", perm, axes + spatial) != INLAY_OK;
    return n == NULL ? INLAY_NONE : n->info.outputs[0];
}

/* Attribute `from` of the node at hand, where it is there, as attribute `to`. */
static void hand_on(struct gradient *f, graph_node *n, const char *from, const char *to)
{
    const inlay_attr_info *a = graph_attr(f->at, from);

    if (n != NULL && a != NULL && a->kind == INLAY_ATTR_INTS)
        f->m.failed |= graph_set_attr_ints(f->g, n, to, a->ints, a->count) != INLAY_OK;
}

/* Adds what each window holds to where it was taken: columns are [N, C * elements of a window, windows]. */
static void put_windows(struct gradient *f, uint32_t columns, const int64_t *kernel, uint32_t spatial)
{
    const uint32_t x = f->at->info.inputs[0];
    const uint32_t in[] = { columns, sizes_behind(f, NULL, 0, f->now[x], spatial), ints(f, kernel, spatial) };
    graph_node *n = make_node(&f->m, f->g, NULL, "Col2Im", 18, in, 3, 1);

    hand_on(f, n, "pads", "pads");
    hand_on(f, n, "strides", "strides");
    hand_on(f, n, "dilations", "dilations");
    if (n != NULL)
        add_slope(f, x, n->info.outputs[0]);
}

/* Each element of a window has its share in the mean; without count_include_pad fewer share it at the border. */
static void average_pool(struct gradient *f, const int64_t *kernel, uint32_t spatial, int64_t elements)
{
    const int64_t apart[] = { 0, 0, 1, -1 }, joined[] = { 0, -1 }, last = 3;
    const int64_t repeat[] = { 1, 1, elements, 1 };
    uint32_t v = op(f, "Div", 14, f->g_y, number(f, (double)elements)), ones, sizes;

    if (attr_int(f, "count_include_pad", 0) == 0 && graph_attr(f->at, "pads") != NULL) {
        graph_node *n;
        ones = gradient_filled(f, 1, f->now[f->at->info.inputs[0]]);
        n = again(f, f->at->opset, &ones, 1, 1, "count_include_pad");
        f->m.failed |= n == NULL || graph_set_attr_int(f->g, n, "count_include_pad", 1) != INLAY_OK;
        v = n == NULL ? INLAY_NONE : op(f, "Div", 14, v, n->info.outputs[0]);
    }
    v = op(f, "Reshape", 14, v, ints(f, apart, 4));
    sizes = op(f, "Gather", 13, shape_of(f, v), ints(f, &last, 1));
    v = op(f, "Expand", 13, v, ints(f, repeat, 4));
    sizes = make_value(&f->m, f->g, "Concat", 13, (const uint32_t[]){ ints(f, joined, 2), sizes }, 2, "axis", 0);
    put_windows(f, op(f, "Reshape", 14, v, sizes), kernel, spatial);
}

/* By the weights [M, C / groups, ...]: a convolution of what it read by what comes, in which images and channels have
 * changed places and strides and dilations, too. It may have a few elements beyond the window's. */
static uint32_t conv_weights(struct gradient *f, const int64_t *w, int64_t groups, uint32_t spatial)
{
    static const int64_t from[INLAY_MAX_RANK];
    const int64_t parted[] = { 0, groups, w[1] }, joined[] = { w[1], -1 };
    const uint32_t x = f->in[0];
    uint32_t v = op(f, "Reshape", 14, x, sizes_behind(f, parted, 3, x, spatial)), in[4];
    graph_node *n;

    v = swapped(f, v, 3, spatial);
    in[0] = op(f, "Reshape", 14, v, sizes_behind(f, joined, 2, x, spatial));
    in[1] = swapped(f, f->g_y, 2, spatial);
    n = make_node(&f->m, f->g, NULL, "Conv", 11, in, 2, 1);
    hand_on(f, n, "pads", "pads");
    hand_on(f, n, "strides", "dilations");
    hand_on(f, n, "dilations", "strides");
    f->m.failed |= n == NULL || graph_set_attr_int(f->g, n, "group", groups) != INLAY_OK;
    in[0] = n == NULL ? INLAY_NONE : n->info.outputs[0];
    in[1] = ints(f, from, spatial);
    in[2] = ints(f, w + 2, spatial);
    in[3] = axes_from(f, 2, spatial);
    return swapped(f, make_value(&f->m, f->g, "Slice", 13, in, 4, NULL, 0), 2, spatial);
}

static void conv(struct gradient *f, const int64_t *w, uint32_t spatial, int64_t elements)
{
    const inlay_node_info *n = &f->at->info;
    const int64_t groups = attr_int(f, "group", 1), column = w[1] * elements;
    const int64_t kernels[] = { groups, w[0] / groups, column }, made[] = { 0, groups, w[0] / groups, -1 };
    const int64_t columns[] = { 0, groups * column, -1 };

    if (gradient_reaches(f, n->inputs[0])) {
        const uint32_t turned_w = turned(f, op(f, "Reshape", 14, f->in[1], ints(f, kernels, 3)));
        const uint32_t v = op(f, "MatMul", 13, turned_w, op(f, "Reshape", 14, f->g_y, ints(f, made, 4)));
        put_windows(f, op(f, "Reshape", 14, v, ints(f, columns, 3)), w + 2, spatial);
    }
    if (gradient_reaches(f, n->inputs[1]))
        add_slope(f, n->inputs[1], conv_weights(f, w, groups, spatial));
    if (n->input_count > 2 && gradient_reaches(f, n->inputs[2])) { /* all axes but that of the channels */
        const uint32_t v = sum(f, f->g_y, axes_from(f, 2, spatial));
        const int64_t first = 0;
        add_slope(f, n->inputs[2], reshaped(f, sum(f, v, ints(f, &first, 1)), f->now[n->inputs[2]]));
    }
}

/* Conv and AveragePool, whose windows have to be known. */
static inlay_status windows(struct gradient *f, inlay_diag *diag)
{
    const inlay_attr_info *k = graph_attr(f->at, "kernel_shape"), *automatic = graph_attr(f->at, "auto_pad");
    const bool pool = pass_is_op(f->at, "AveragePool");
    const inlay_value_info *w = pool ? NULL : &f->g->values[f->at->info.inputs[1]].info;
    int64_t sizes[INLAY_MAX_RANK] = { 0 }, elements = 1;
    uint32_t rank = pool ? (k != NULL ? k->count + 2 : 0) : w->rank == INLAY_RANK_UNKNOWN ? 0 : w->rank;
    bool known = rank > 2 && rank + 1 < INLAY_MAX_RANK && attr_int(f, "ceil_mode", 0) == 0 &&
                 (automatic == NULL || strncmp(automatic->s.data, "SAME", 4) != 0);

    for (uint32_t d = 0; known && d < rank; d++) {
        known = pool || w->dims[d].kind == INLAY_DIM_FIXED;
        sizes[d] = pool ? (d < 2 ? 1 : k->ints[d - 2]) : w->dims[d].value;
        elements *= d < 2 ? 1 : sizes[d];
    }
    if (!known)
        return graph_fail(f->g, f->at, NULL, INLAY_UNSUPPORTED, diag,
                          "Gradient '%s' has no rule for %s with auto_pad SAME, ceil_mode or sizes that are not known",
                          f->n->info.name.data, f->at->info.op_type.data);
    f->in[0] = f->now[f->at->info.inputs[0]];
    if (pool)
        average_pool(f, sizes + 2, rank - 2, elements);
    else {
        f->in[1] = f->now[f->at->info.inputs[1]];
        conv(f, sizes, rank - 2, elements);
    }
    return INLAY_OK;
}

/* The terms of the operator; NULL: there is no rule. */
static const char *rule_of(const graph_node *n)
{
    const char *op = n->info.op_type.data, *at = strcmp(n->info.domain.data, "ai.onnx") == 0 ? rules : "";

    for (; *at != '\0'; at = strchr(at, '\n') + 1)
        if (strncmp(at, op, strlen(op)) == 0 && at[strlen(op)] == ' ')
            return at + strlen(op) + 1;
    return NULL;
}

/* Term i of a rule; "" where there is none. */
static const char *term_of(const char *rule, uint32_t i, char text[MOST_TEXT])
{
    size_t bytes;

    for (; i > 0 && *(rule += strcspn(rule, ",\n")) == ','; i--)
        rule++;
    bytes = i > 0 ? 0 : strcspn(rule, ",\n");
    memcpy(text, rule, bytes);
    text[bytes] = '\0';
    return text;
}

inlay_status gradient_back(struct gradient *f, const graph_node *n, inlay_diag *diag)
{
    const char *rule = rule_of(n);
    const uint32_t out = n->info.outputs[0];
    inlay_status status = INLAY_OK;
    bool matrices;

    for (uint32_t o = 1; o < n->info.output_count; o++)
        if (gradient_reaches(f, n->info.outputs[o]) && f->slope[n->info.outputs[o]] != INLAY_NONE)
            rule = NULL;
    f->at = n;
    f->g_y = f->slope[out];
    f->dtype = f->g->values[out].info.dtype;
    if (rule == NULL)
        return graph_fail(f->g, n, NULL, INLAY_UNSUPPORTED, diag, "Gradient '%s' has no rule for %s",
                          f->n->info.name.data, n->info.op_type.data);
    if (rule[0] == '#')
        return windows(f, diag);
    if (rule[0] == '$' || rule[0] == '!') {
        (rule[0] == '$' ? concat : moved)(f);
        return INLAY_OK;
    }
    matrices = pass_is_op(n, "MatMul");
    for (uint32_t i = 0; i < n->info.input_count; i++) {
        const uint32_t v = n->info.inputs[i];
        char text[MOST_TEXT];
        const char *term = term_of(rule, i < MOST_TERMS ? i : MOST_TERMS - 1, text);
        bool fits;
        uint32_t made;

        if (!gradient_reaches(f, v) || term[0] == '\0')
            continue;
        f->g_y = f->slope[out];
        f->by = v;
        f->y = f->now[out];
        f->dtype = f->g->values[out].info.dtype;
        for (uint32_t k = 0; k < MOST_TERMS; k++) {
            const uint32_t u = k < n->info.input_count ? n->info.inputs[k] : INLAY_NONE;
            const inlay_dtype dtype = u == INLAY_NONE ? INLAY_UNDEFINED : f->g->values[u].info.dtype;

            f->in[k] = u == INLAY_NONE ? INLAY_NONE : f->now[u];
            if (gradient_is_float(dtype) && dtype != f->dtype && strchr(term, 'a' + (char)k) != NULL)
                f->in[k] = cast(f, f->in[k], f->dtype);
        }
        fits = strpbrk(term, "xrPs") != NULL ||
               (!matrices && graph_same_sizes(&f->g->values[v].info, &f->g->values[out].info));
        if (matrices)
            INLAY_TRY(as_matrices(f, diag));
        made = compute(f, term);
        made = fits ? made : unbroadcast(f, made, matrices ? f->in[i] : f->now[v]);
        if (matrices)
            made = reshaped(f, made, f->now[v]);
        if (f->g->values[v].info.dtype != f->dtype)
            made = cast(f, made, f->g->values[v].info.dtype);
        add_slope(f, v, made);
    }
done:
    return status;
}
