/* Random graphs of the operators that the passes rewrite, optimised at each level and compared with level 0: equal
 * shapes and values, NaN and infinities at the same elements.
 *
 * `test_random_graphs ROUNDS [SEED]` runs more rounds than the test. There are two kinds of graphs: exact ones, with
 * inputs including NaN, infinities and zeros of both signs, whose operators do not round or always round equally;
 * and weighted ones, with matrix multiplications and fusible patterns, with ordinary numbers. */
#include "graph_script.h"
#include <math.h>

enum { MOST_VALUES = 48, MOST_AXES = 4 };

struct shaped {
    char name[12];
    int rank, dims[MOST_AXES + 1];
};

struct builder {
    char script[16384];
    struct shaped values[MOST_VALUES];
    int count, constants;
    uint64_t seed;
    bool exact;
};

static int pick(struct builder *builder, int n)
{
    return (int)random_below(&builder->seed, (uint64_t)n);
}

static void put(struct builder *builder, const char *format, ...)
{
    size_t used = strlen(builder->script);
    va_list args;

    va_start(args, format);
    (void)vsnprintf(builder->script + used, sizeof builder->script - used, format, args);
    va_end(args);
}

static const struct shaped *any(struct builder *builder)
{
    /* Recent values more often, so that chains grow. */
    int back = pick(builder, builder->count) * pick(builder, builder->count + 1) / (builder->count + 1);

    return &builder->values[builder->count - 1 - back];
}

static int64_t elements(const struct shaped *shaped)
{
    int64_t n = 1;

    for (int d = 0; d < shaped->rank; d++)
        n *= shaped->dims[d];
    return n;
}

/* Adds the value that the current line computes. */
static struct shaped *new_value(struct builder *builder, int rank, const int *dims)
{
    struct shaped *shaped = &builder->values[builder->count];

    (void)snprintf(shaped->name, sizeof shaped->name, "v%d", builder->count++);
    shaped->rank = rank;
    memcpy(shaped->dims, dims, (size_t)rank * sizeof *dims);
    return shaped;
}

static const char *ints(struct builder *builder, int count, const int *list, char *name)
{
    (void)sprintf(name, "k%d", builder->constants++);
    put(builder, "%s = i[%d] ", name, count);
    for (int i = 0; i < count; i++)
        put(builder, "%s%d", i > 0 ? "," : "", list[i]);
    put(builder, "\n");
    return name;
}

/* Returns a constant that broadcasts to `shaped`: a typical constant, or random elements for some of its axes. */
static const char *operand(struct builder *builder, const struct shaped *shaped, char *name)
{
    static const char *const numbers[] = { "0", "-0", "1", "-1", "2", "0.5", "3", "1e-5" };
    int from = shaped->rank == 0 ? 0 : pick(builder, shaped->rank + 1);

    (void)sprintf(name, "k%d", builder->constants++);
    put(builder, "%s = [", name);
    if (pick(builder, 2) == 0) {
        bool one = shaped->rank > 0 && pick(builder, 3) == 0;

        put(builder, "%s] %s\n", one ? "1" : "", numbers[pick(builder, 8)]);
        return name;
    }
    for (int d = from; d < shaped->rank; d++)
        put(builder, "%s%d", d > from ? "," : "", pick(builder, 3) == 0 ? 1 : shaped->dims[d]);
    put(builder, from == shaped->rank ? "] 1.5\n" : "]\n");
    return name;
}

/* Returns another value of the same shape, or `shaped`. */
static const struct shaped *pick_same_shape(struct builder *builder, const struct shaped *shaped)
{
    for (int tries = 0; tries < 12; tries++) {
        const struct shaped *o = any(builder);

        if (o->rank == shaped->rank && memcmp(o->dims, shaped->dims, (size_t)shaped->rank * sizeof *shaped->dims) == 0)
            return o;
    }
    return shaped;
}

static void unary(struct builder *builder, const struct shaped *shaped)
{
    static const char *const exact[] = { "Neg",   "Abs",  "Relu",       "Identity", "Floor", "Sign",
                                         "Round", "Ceil", "Reciprocal", "Dropout",  "Neg",   "Relu" };
    static const char *const rough[] = { "Sigmoid", "Tanh", "Relu", "Neg", "Erf", "Softplus", "Identity", "Abs" };
    const char *op = builder->exact ? exact[pick(builder, 12)] : rough[pick(builder, 8)];

    put(builder, "%s = %s(%s)\n", new_value(builder, shaped->rank, shaped->dims)->name, op, shaped->name);
}

static void binary(struct builder *builder, const struct shaped *shaped)
{
    static const char *const exact[] = { "Add", "Sub", "Mul", "Div", "Max", "Min", "Pow" };
    char name[16];
    const char *op = exact[pick(builder, builder->exact ? 7 : 3)],
               *other = pick(builder, 3) > 0 ? operand(builder, shaped, name) : NULL;
    bool pow = strcmp(op, "Pow") == 0;

    if (other == NULL)
        other = pow ? operand(builder, shaped, name) : pick_same_shape(builder, shaped)->name;
    if (pick(builder, 3) == 0 && !pow)
        put(builder, "%s = %s(%s, %s)\n", new_value(builder, shaped->rank, shaped->dims)->name, op, other,
            shaped->name);
    else
        put(builder, "%s = %s(%s, %s)\n", new_value(builder, shaped->rank, shaped->dims)->name, op, shaped->name,
            other);
}

static void cast(struct builder *builder, const struct shaped *shaped)
{
    struct shaped *v = new_value(builder, shaped->rank, shaped->dims);

    put(builder, "w%s = Cast(%s) to=11\n%s = Cast(w%s) to=1\n", v->name, shaped->name, v->name, v->name);
}

static void reshape(struct builder *builder, const struct shaped *shaped)
{
    int dims[MOST_AXES], rank = 1 + pick(builder, MOST_AXES), left = (int)elements(shaped), asked[MOST_AXES];
    char name[16];

    if (left == 0)
        return;
    for (int d = 0; d < rank; d++) {
        dims[d] = d + 1 == rank ? left : 1;
        for (int f = 2; d + 1 < rank && f <= 6; f++)
            if (left % f == 0 && pick(builder, 2) == 0) {
                dims[d] = f;
                left /= f;
                break;
            }
        asked[d] = dims[d];
    }
    if (pick(builder, 2) == 0)
        asked[pick(builder, rank)] = -1;
    ints(builder, rank, asked, name);
    put(builder, "%s = Reshape(%s, %s)\n", new_value(builder, rank, dims)->name, shaped->name, name);
}

/* Adds a Reshape to the same shape with the first axis computed, as exporters write it. */
static void computed_reshape(struct builder *builder, const struct shaped *shaped)
{
    int dims[2];
    char k[3][16];

    if (shaped->rank < 1 || elements(shaped) == 0)
        return;
    dims[0] = shaped->dims[0];
    dims[1] = (int)elements(shaped) / shaped->dims[0];
    ints(builder, 1, (int[]){ 0 }, k[0]);
    ints(builder, 1, (int[]){ 0 }, k[1]);
    ints(builder, 1, (int[]){ -1 }, k[2]);
    put(builder, "s%d = Shape(%s)\ng%d = Gather(s%d, %s)\nc%d = Concat(g%d, %s) axis=0\n", builder->constants,
        shaped->name, builder->constants, builder->constants, k[0], builder->constants, builder->constants, k[2]);
    put(builder, "%s = Reshape(%s, c%d)\n", new_value(builder, 2, dims)->name, shaped->name, builder->constants++);
}

static void squeeze(struct builder *builder, const struct shaped *shaped)
{
    int dims[MOST_AXES + 1], at = pick(builder, shaped->rank + 1), n = 0;
    char name[16];

    if (shaped->rank < MOST_AXES && pick(builder, 2) == 0) {
        for (int d = 0; d <= shaped->rank; d++)
            dims[d] = d == at ? 1 : shaped->dims[n++];
        ints(builder, 1, &at, name);
        put(builder, "%s = Unsqueeze(%s, %s)\n", new_value(builder, shaped->rank + 1, dims)->name, shaped->name, name);
        return;
    }
    for (at = 0; at < shaped->rank && shaped->dims[at] != 1; at++)
        ;
    if (at == shaped->rank)
        return;
    for (int d = 0; d < shaped->rank; d++)
        if (d != at)
            dims[n++] = shaped->dims[d];
    at = pick(builder, 2) == 0 ? at - shaped->rank : at;
    ints(builder, 1, &at, name);
    put(builder, "%s = Squeeze(%s, %s)\n", new_value(builder, shaped->rank - 1, dims)->name, shaped->name, name);
}

static void transpose(struct builder *builder, const struct shaped *shaped)
{
    int perm[MOST_AXES], dims[MOST_AXES];

    if (shaped->rank < 2)
        return;
    for (int d = 0; d < shaped->rank; d++)
        perm[d] = d;
    for (int d = shaped->rank - 1; d > 0; d--) {
        int o = pick(builder, d + 1), t = perm[d];

        perm[d] = perm[o];
        perm[o] = t;
    }
    for (int d = 0; d < shaped->rank; d++)
        dims[d] = shaped->dims[perm[d]];
    put(builder, "%s = Transpose(%s) perm=", new_value(builder, shaped->rank, dims)->name, shaped->name);
    for (int d = 0; d < shaped->rank; d++)
        put(builder, "%s%d", d > 0 ? "," : "", perm[d]);
    put(builder, "\n");
}

static void slice(struct builder *builder, const struct shaped *shaped)
{
    int dims[MOST_AXES], axis = shaped->rank == 0 ? 0 : pick(builder, shaped->rank), size, start, end, step, n = 0;
    char k[4][16];

    if (shaped->rank == 0)
        return;
    size = shaped->dims[axis];
    start = pick(builder, 2 * size + 5) - size - 2;
    end = pick(builder, 2 * size + 5) - size - 2;
    step = pick(builder, 5) - 2;
    step = step == 0 ? 1 : step;
    memcpy(dims, shaped->dims, sizeof dims);
    {
        int a = start < 0 ? start + size : start, b = end < 0 ? end + size : end, high = step > 0 ? size : size - 1;

        a = a < 0 ? 0 : a > high ? high : a;
        b = b < (step > 0 ? 0 : -1) ? (step > 0 ? 0 : -1) : b > high ? high : b;
        for (int i = a; size > 0 && (step > 0 ? i < b : i > b); i += step)
            n++;
    }
    dims[axis] = n;
    ints(builder, 1, &start, k[0]);
    ints(builder, 1, &end, k[1]);
    ints(builder, 1, &axis, k[2]);
    ints(builder, 1, &step, k[3]);
    put(builder, "%s = Slice(%s, %s, %s, %s, %s)\n", new_value(builder, shaped->rank, dims)->name, shaped->name, k[0],
        k[1], k[2], k[3]);
}

static void concat_or_split(struct builder *builder, const struct shaped *shaped)
{
    const struct shaped *o = pick_same_shape(builder, shaped);
    int dims[MOST_AXES], axis = shaped->rank == 0 ? 0 : pick(builder, shaped->rank), sizes[2];
    char name[16], first[12], second[12];

    if (shaped->rank == 0)
        return;
    memcpy(dims, shaped->dims, sizeof dims);
    if (pick(builder, 2) == 0) {
        bool one = pick(builder, 6) == 0;

        dims[axis] *= one ? 1 : 2;
        if (dims[axis] > 12)
            return;
        put(builder, "%s = Concat(%s%s%s) axis=%d\n", new_value(builder, shaped->rank, dims)->name, shaped->name,
            one ? "" : ", ", one ? "" : o->name, axis);
        return;
    }
    if (builder->count + 2 >= MOST_VALUES)
        return;
    sizes[0] = shaped->dims[axis] / 2;
    sizes[1] = shaped->dims[axis] - sizes[0];
    ints(builder, 2, sizes, name);
    dims[axis] = sizes[0];
    (void)strcpy(first, new_value(builder, shaped->rank, dims)->name);
    dims[axis] = sizes[1];
    (void)strcpy(second, new_value(builder, shaped->rank, dims)->name);
    put(builder, "%s, %s = Split(%s, %s) axis=%d\n", first, second, shaped->name, name, axis);
}

static void widen(struct builder *builder, const struct shaped *shaped)
{
    int dims[MOST_AXES], pads[2 * MOST_AXES] = { 0 }, repeats[MOST_AXES], which = pick(builder, 3);
    char name[16], value[16];

    if (shaped->rank == 0 || elements(shaped) > 200)
        return;
    memcpy(dims, shaped->dims, sizeof dims);
    for (int d = 0; d < shaped->rank; d++) {
        repeats[d] = which == 0 && pick(builder, 4) == 0 ? 2 : 1;
        if (which == 1 && dims[d] == 1 && pick(builder, 2) == 0)
            dims[d] = 3;
        if (which == 2 && pick(builder, 3) == 0)
            pads[d + shaped->rank * pick(builder, 2)] = pick(builder, 3);
        dims[d] = dims[d] * repeats[d] + pads[d] + pads[d + shaped->rank];
    }
    if (which == 0) {
        ints(builder, shaped->rank, repeats, name);
        put(builder, "%s = Tile(%s, %s)\n", new_value(builder, shaped->rank, dims)->name, shaped->name, name);
    } else if (which == 1) {
        ints(builder, shaped->rank, dims, name);
        put(builder, "%s = Expand(%s, %s)\n", new_value(builder, shaped->rank, dims)->name, shaped->name, name);
    } else {
        ints(builder, 2 * shaped->rank, pads, name);
        (void)sprintf(value, "k%d", builder->constants++);
        put(builder, "%s = [] %s\n%s = Pad(%s, %s, %s)\n", value, pick(builder, 2) == 0 ? "0" : "1.5",
            new_value(builder, shaped->rank, dims)->name, shaped->name, name, value);
    }
}

static void reduce(struct builder *builder, const struct shaped *shaped)
{
    static const char *const names[] = { "ReduceMax", "ReduceMin", "ReduceSum", "ReduceMean", "ReduceL2" };
    int dims[MOST_AXES], axis = shaped->rank == 0 ? 0 : pick(builder, shaped->rank),
                         op = pick(builder, builder->exact ? 2 : 5), n = 0;
    bool keep = pick(builder, 2) == 0;
    char name[16];

    if (shaped->rank == 0 || shaped->dims[axis] == 0)
        return;
    for (int d = 0; d < shaped->rank; d++)
        if (d != axis || keep)
            dims[n++] = d == axis ? 1 : shaped->dims[d];
    if (op == 2) { /* ReduceSum-13 */
        ints(builder, 1, &axis, name);
        put(builder, "%s = ReduceSum(%s, %s) keepdims=%d\n", new_value(builder, n, dims)->name, shaped->name, name,
            keep);
        return;
    }
    put(builder, "%s = %s(%s) axes=%d, keepdims=%d\n", new_value(builder, n, dims)->name, names[op], shaped->name, axis,
        keep);
}

/* Adds an If; both branches read values from outside. */
static void branch(struct builder *builder, const struct shaped *shaped)
{
    const struct shaped *o = pick_same_shape(builder, shaped);
    int k = builder->constants++;

    put(builder, "a%d = [] %d\nb%d = [] 1\n%c%d = Less(a%d, b%d)\n", k, pick(builder, 3), k, 'q', k, k, k);
    put(builder, "%s = If(q%d) then:Neg(%s) else:Add(%s,%s)\n", new_value(builder, shaped->rank, shaped->dims)->name, k,
        shaped->name, shaped->name, o->name);
}

static void choose(struct builder *builder, const struct shaped *shaped)
{
    const struct shaped *o = pick_same_shape(builder, shaped);
    int k = builder->constants++;

    if (builder->exact && pick(builder, 2) == 0)
        put(builder, "z%d = [] 0.25\nl%d = Less(%s, z%d)\n%s = Where(l%d, %s, %s)\n", k, k, shaped->name, k,
            new_value(builder, shaped->rank, shaped->dims)->name, k, shaped->name, o->name);
    else
        put(builder, "z%d = [] -0.5\nl%d = [] 1\n%s = Clip(%s, z%d, l%d)\n", k, k,
            new_value(builder, shaped->rank, shaped->dims)->name, shaped->name, k, k);
}

static void softmax(struct builder *builder, const struct shaped *shaped)
{
    int axis = shaped->rank == 0 ? 0 : pick(builder, shaped->rank);

    if (shaped->rank == 0)
        return;
    put(builder, "%s = %s(%s) axis=%d\n", new_value(builder, shaped->rank, shaped->dims)->name,
        pick(builder, 3) > 0 ? "Softmax" : "LogSoftmax", shaped->name,
        axis - (pick(builder, 2) == 0 ? shaped->rank : 0));
}

static void product(struct builder *builder, const struct shaped *shaped)
{
    int dims[MOST_AXES], k = builder->constants++, columns = 1 + pick(builder, 5);

    if (shaped->rank < 2 || shaped->dims[shaped->rank - 1] == 0)
        return;
    memcpy(dims, shaped->dims, sizeof dims);
    dims[shaped->rank - 1] = columns;
    if (shaped->rank == 2 && pick(builder, 3) == 0) {
        put(builder, "p%d = [%d,%d]\nq%d = [%d]\n%s = Gemm(%s, p%d, q%d) transB=1 alpha=0.5 beta=2.0\n", k, columns,
            shaped->dims[1], k, columns, new_value(builder, 2, dims)->name, shaped->name, k, k);
        return;
    }
    put(builder, "p%d = [%d,%d]\n%s = MatMul(%s, p%d)\n", k, shaped->dims[shaped->rank - 1], columns,
        new_value(builder, shaped->rank, dims)->name, shaped->name, k);
}

static void convolution(struct builder *builder, const struct shaped *shaped)
{
    int dims[MOST_AXES], k = builder->constants++, filters = 2;

    if (shaped->rank != 4 || shaped->dims[1] == 0 || shaped->dims[2] < 2 || shaped->dims[3] < 2 ||
        shaped->dims[2] > 12 || shaped->dims[3] > 12)
        return;
    memcpy(dims, shaped->dims, sizeof dims);
    dims[1] = filters;
    if (pick(builder, 3) == 0) {
        dims[1] = shaped->dims[1];
        put(builder, "%s = %s(%s) kernel_shape=3,3 pads=1,1,1,1\n", new_value(builder, 4, dims)->name,
            pick(builder, 2) == 0 ? "MaxPool" : "AveragePool", shaped->name);
        return;
    }
    put(builder, "p%d = [%d,%d,3,3]\n%s = Conv(%s, p%d) pads=1,1,1,1\n", k, filters, shaped->dims[1],
        new_value(builder, 4, dims)->name, shaped->name, k);
    if (pick(builder, 2) == 0 && builder->count < MOST_VALUES) {
        shaped = &builder->values[builder->count - 1];
        put(builder, "n%d = [2]\no%d = [2]\n", k, k);
        put(builder, "%s = BatchNormalization(%s, n%d, o%d, o%d, n%d) epsilon=0.01\n",
            new_value(builder, 4, dims)->name, shaped->name, k, k, k, k);
    }
}

/* Adds a pattern that passes fuse: a norm, an activation, an attention. */
static void fusible_pattern(struct builder *builder, const struct shaped *shaped)
{
    int k = builder->constants++, n = shaped->rank == 0 ? 0 : shaped->dims[shaped->rank - 1], which = pick(builder, 4),
        dims[MOST_AXES];

    if (n == 0 || elements(shaped) == 0)
        return;
    if (which == 0) {
        put(builder,
            "m%d = ReduceMean(%s) axes=-1,\nd%d = Sub(%s, m%d)\nq%d = Mul(d%d, d%d)\ny%d = ReduceMean(q%d) axes=-1,\n"
            "e%d = [] 0.01\nf%d = Add(y%d, e%d)\nr%d = Sqrt(f%d)\nt%d = Div(d%d, r%d)\ng%d = [%d]\n",
            k, shaped->name, k, shaped->name, k, k, k, k, k, k, k, k, k, k, k, k, k, k, k, k, n);
        put(builder, "%s = Mul(t%d, g%d)\n", new_value(builder, shaped->rank, shaped->dims)->name, k, k);
    } else if (which == 1) {
        put(builder, "a%d = Sigmoid(%s)\n", k, shaped->name);
        put(builder, "%s = Mul(%s, a%d)\n", new_value(builder, shaped->rank, shaped->dims)->name, shaped->name, k);
    } else if (which == 2) {
        put(builder,
            "r%d = [] 1.41421354\no%d = [] 1\nh%d = [] 0.5\na%d = Div(%s, r%d)\nb%d = Erf(a%d)\nc%d = Add(b%d, o%d)\n"
            "d%d = Mul(%s, c%d)\n",
            k, k, k, k, shaped->name, k, k, k, k, k, k, k, shaped->name, k);
        put(builder, "%s = Mul(d%d, h%d)\n", new_value(builder, shaped->rank, shaped->dims)->name, k, k);
    } else if (shaped->rank >= 3) {
        memcpy(dims, shaped->dims, sizeof dims);
        put(builder,
            "r%d = [] 0.5\nt%d = Transpose(%s) perm=%s\nq%d = Mul(%s, r%d)\ns%d = MatMul(q%d, t%d)\n"
            "p%d = Softmax(s%d) axis=-1\n",
            k, k, shaped->name, shaped->rank == 3 ? "0,2,1" : "0,1,3,2", k, shaped->name, k, k, k, k, k, k);
        put(builder, "%s = MatMul(p%d, %s)\n", new_value(builder, shaped->rank, dims)->name, k, shaped->name);
    }
}

static void make(struct builder *builder, uint32_t seed, bool exact)
{
    static const char *const sizes[] = { "3,4,5", "2,3,4,4", "N,6", "1,4", "2,0,3", "4,1,3", "1,2,6,6", "B,2,S", "" };
    static const int dims[][MOST_AXES] = { { 3, 4, 5 }, { 2, 3, 4, 4 }, { 3, 6 },    { 1, 4 }, { 2, 0, 3 },
                                           { 4, 1, 3 }, { 1, 2, 6, 6 }, { 3, 2, 3 }, { 0 } };
    static const int ranks[] = { 3, 4, 2, 2, 3, 3, 4, 3, 0 };
    static void (*const any_op[])(struct builder *, const struct shaped *) = {
        unary,     binary, unary, binary,          cast,  reshape, computed_reshape, squeeze, transpose,
        transpose, slice,  slice, concat_or_split, widen, reduce,  branch,           choose
    };
    static void (*const weighty_op[])(struct builder *, const struct shaped *) = { softmax,     product,
                                                                                   convolution, fusible_pattern,
                                                                                   product,     convolution };
    int nodes, outputs;

    *builder = (struct builder){ .seed = seed, .exact = exact };
    for (int i = 0; i < 3; i++) {
        int size = pick(builder, 9);
        struct shaped *v = new_value(builder, ranks[size], dims[size]);

        put(builder, "%s : %s\n", v->name, ranks[size] == 0 ? "-" : sizes[size]);
    }
    nodes = 3 + pick(builder, 18);
    for (int tries = 0; builder->count < 3 + nodes && tries < 4 * nodes && builder->count + 3 < MOST_VALUES; tries++) {
        const struct shaped shaped = *any(builder);

        if (!exact && pick(builder, 3) == 0)
            weighty_op[pick(builder, 6)](builder, &shaped);
        else
            any_op[pick(builder, 17)](builder, &shaped);
    }
    put(builder, "out = Identity(%s)\n-> out", builder->values[builder->count - 1].name);
    outputs = pick(builder, 3); /* values in the middle */
    for (int i = 0, last = 2; i < outputs && last + 1 < builder->count; i++) {
        last += 1 + pick(builder, builder->count - last - 1);
        put(builder, ", %s", builder->values[last].name);
    }
    put(builder, "\n");
}

static bool same_element(float got, float want, bool exact)
{
    if (isnan(got) || isnan(want))
        return isnan(got) && isnan(want);
    if (isinf(got) || isinf(want) || (exact && (got == 0 || want == 0)))
        return got == want && (!exact || signbit(got) == signbit(want));
    return fabsf(got - want) <=
           (exact ? 1e-6f * fabsf(want) : 1e-3f * (1 + fabsf(want))); /* Pow has several implementations */
}

static void compare(const struct builder *builder, const char *level, struct rig *best, struct rig *plain)
{
    for (uint32_t o = 0; o < inlay_session_output_count(plain->session); o++) {
        inlay_value *got = inlay_context_output(best->context, o), *want = inlay_context_output(plain->context, o);
        const float *a = inlay_value_data(got), *b = inlay_value_data(want);

        if (inlay_value_rank(got) != inlay_value_rank(want) || inlay_value_count(got) != inlay_value_count(want))
            fail_msg("another shape of output %u at level %s, in\n%s", o, level, builder->script);
        for (uint32_t d = 0; d < inlay_value_rank(want); d++)
            if (inlay_value_dims(got)[d] != inlay_value_dims(want)[d])
                fail_msg("another shape of output %u at level %s, in\n%s", o, level, builder->script);
        for (int64_t i = 0; i < inlay_value_count(want); i++)
            if (!same_element(a[i], b[i], builder->exact))
                fail_msg("output %u, element %lld is %g, not %g, at level %s, in\n%s", o, (long long)i, (double)a[i],
                         (double)b[i], level, builder->script);
    }
}

static void one_graph(uint32_t seed, bool exact)
{
    static const char *const levels[] = { "1", "2", "3", "99" };
    static struct builder builder;
    struct rig plain;
    struct wire wire = { 0 };

    make(&builder, seed, exact);
    script_model(&wire, 17, builder.script);
    plain = rig_open(&wire, (const char *const[]){ "level", "0", NULL });
    script_feed_odd(&plain, seed, exact ? 0.3f : 0);
    rig_run(&plain);
    for (int l = 0; l < 4; l++) {
        struct wire again = { 0 };
        struct rig best;

        script_model(&again, 17, builder.script);
        best = rig_open(&again, (const char *const[]){ "level", levels[l], NULL });
        script_feed_odd(&best, seed, exact ? 0.3f : 0);
        rig_run(&best);
        compare(&builder, levels[l], &best, &plain);
        rig_close(&best);
    }
    rig_close(&plain);
}

static uint32_t rounds = 60, first_seed = 1;

static void exact_graphs(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < rounds; i++)
        one_graph(first_seed + i, true);
}

static void weighted_graphs(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < rounds; i++)
        one_graph(first_seed + i, false);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(exact_graphs), cmocka_unit_test(weighted_graphs) };

    rounds = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : rounds;
    first_seed = argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 10) : first_seed;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
