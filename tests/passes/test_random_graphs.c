/* Random graphs of the operators that the passes know, optimised at each level, against level 0: same shapes, same
 * values, NaN and infinities in the same places.
 *
 * `test_random_graphs ROUNDS [SEED]` runs so many beside the few that are a test. Graphs of two kinds: exact ones, fed
 * with NaN, infinities and zeros of both signs, whose operators round nowhere or always alike; and weighty ones, with
 * products and what passes put together, fed with ordinary numbers. */
#include "graph_script.h"
#include <math.h>

enum { MOST_VALUES = 48, MOST_AXES = 4 };

struct shaped {
    char name[12];
    int rank, dims[MOST_AXES + 1];
};

struct maker {
    char script[16384];
    struct shaped values[MOST_VALUES];
    int count, constants;
    uint32_t seed;
    bool exact;
};

static int pick(struct maker *m, int n)
{
    return (int)(script_random(&m->seed) * (float)n) % n;
}

static void put(struct maker *m, const char *format, ...)
{
    size_t used = strlen(m->script);
    va_list args;

    va_start(args, format);
    (void)vsnprintf(m->script + used, sizeof m->script - used, format, args);
    va_end(args);
}

static const struct shaped *any(struct maker *m)
{
    /* Late ones more often, so that chains grow. */
    int back = pick(m, m->count) * pick(m, m->count + 1) / (m->count + 1);

    return &m->values[m->count - 1 - back];
}

static int64_t elements(const struct shaped *v)
{
    int64_t n = 1;

    for (int d = 0; d < v->rank; d++)
        n *= v->dims[d];
    return n;
}

/* The value that the line being written makes. */
static struct shaped *fresh(struct maker *m, int rank, const int *dims)
{
    struct shaped *v = &m->values[m->count];

    (void)snprintf(v->name, sizeof v->name, "v%d", m->count++);
    v->rank = rank;
    memcpy(v->dims, dims, (size_t)rank * sizeof *dims);
    return v;
}

static const char *ints(struct maker *m, int count, const int *list, char *name)
{
    (void)sprintf(name, "k%d", m->constants++);
    put(m, "%s = i[%d] ", name, count);
    for (int i = 0; i < count; i++)
        put(m, "%s%d", i > 0 ? "," : "", list[i]);
    put(m, "\n");
    return name;
}

/* A constant that broadcasts to v: a number with a meaning, or random ones for some of its axes. */
static const char *operand(struct maker *m, const struct shaped *v, char *name)
{
    static const char *const numbers[] = { "0", "-0", "1", "-1", "2", "0.5", "3", "1e-5" };
    int from = v->rank == 0 ? 0 : pick(m, v->rank + 1);

    (void)sprintf(name, "k%d", m->constants++);
    put(m, "%s = [", name);
    if (pick(m, 2) == 0) {
        bool one = v->rank > 0 && pick(m, 3) == 0;

        put(m, "%s] %s\n", one ? "1" : "", numbers[pick(m, 8)]);
        return name;
    }
    for (int d = from; d < v->rank; d++)
        put(m, "%s%d", d > from ? "," : "", pick(m, 3) == 0 ? 1 : v->dims[d]);
    put(m, from == v->rank ? "] 1.5\n" : "]\n");
    return name;
}

/* Another value of the same shape, or v. */
static const struct shaped *alike(struct maker *m, const struct shaped *v)
{
    for (int tries = 0; tries < 12; tries++) {
        const struct shaped *o = any(m);

        if (o->rank == v->rank && memcmp(o->dims, v->dims, (size_t)v->rank * sizeof *v->dims) == 0)
            return o;
    }
    return v;
}

/* ------------------------------------------------------------------ operators */

static void unary(struct maker *m, const struct shaped *x)
{
    static const char *const exact[] = { "Neg",   "Abs",  "Relu",       "Identity", "Floor", "Sign",
                                         "Round", "Ceil", "Reciprocal", "Dropout",  "Neg",   "Relu" };
    static const char *const rough[] = { "Sigmoid", "Tanh", "Relu", "Neg", "Erf", "Softplus", "Identity", "Abs" };
    const char *op = m->exact ? exact[pick(m, 12)] : rough[pick(m, 8)];

    put(m, "%s = %s(%s)\n", fresh(m, x->rank, x->dims)->name, op, x->name);
}

static void binary(struct maker *m, const struct shaped *x)
{
    static const char *const exact[] = { "Add", "Sub", "Mul", "Div", "Max", "Min", "Pow" };
    char name[16];
    const char *op = exact[pick(m, m->exact ? 7 : 3)], *other = pick(m, 3) > 0 ? operand(m, x, name) : NULL;
    bool pow = strcmp(op, "Pow") == 0;

    if (other == NULL)
        other = pow ? operand(m, x, name) : alike(m, x)->name;
    if (pick(m, 3) == 0 && !pow)
        put(m, "%s = %s(%s, %s)\n", fresh(m, x->rank, x->dims)->name, op, other, x->name);
    else
        put(m, "%s = %s(%s, %s)\n", fresh(m, x->rank, x->dims)->name, op, x->name, other);
}

static void cast(struct maker *m, const struct shaped *x)
{
    struct shaped *v = fresh(m, x->rank, x->dims);

    put(m, "w%s = Cast(%s) to=11\n%s = Cast(w%s) to=1\n", v->name, x->name, v->name, v->name);
}

static void reshape(struct maker *m, const struct shaped *x)
{
    int dims[MOST_AXES], rank = 1 + pick(m, MOST_AXES), left = (int)elements(x), asked[MOST_AXES];
    char name[16];

    if (left == 0)
        return;
    for (int d = 0; d < rank; d++) {
        dims[d] = d + 1 == rank ? left : 1;
        for (int f = 2; d + 1 < rank && f <= 6; f++)
            if (left % f == 0 && pick(m, 2) == 0) {
                dims[d] = f;
                left /= f;
                break;
            }
        asked[d] = dims[d];
    }
    if (pick(m, 2) == 0)
        asked[pick(m, rank)] = -1;
    ints(m, rank, asked, name);
    put(m, "%s = Reshape(%s, %s)\n", fresh(m, rank, dims)->name, x->name, name);
}

/* Reshape to its own shape with the first axis computed, as exporters write it. */
static void computed_reshape(struct maker *m, const struct shaped *x)
{
    int dims[2];
    char k[3][16];

    if (x->rank < 1 || elements(x) == 0)
        return;
    dims[0] = x->dims[0];
    dims[1] = (int)elements(x) / x->dims[0];
    ints(m, 1, (int[]){ 0 }, k[0]);
    ints(m, 1, (int[]){ 0 }, k[1]);
    ints(m, 1, (int[]){ -1 }, k[2]);
    put(m, "s%d = Shape(%s)\ng%d = Gather(s%d, %s)\nc%d = Concat(g%d, %s) axis=0\n", m->constants, x->name,
        m->constants, m->constants, k[0], m->constants, m->constants, k[2]);
    put(m, "%s = Reshape(%s, c%d)\n", fresh(m, 2, dims)->name, x->name, m->constants++);
}

static void squeeze(struct maker *m, const struct shaped *x)
{
    int dims[MOST_AXES + 1], at = pick(m, x->rank + 1), n = 0;
    char name[16];

    if (x->rank < MOST_AXES && pick(m, 2) == 0) {
        for (int d = 0; d <= x->rank; d++)
            dims[d] = d == at ? 1 : x->dims[n++];
        ints(m, 1, &at, name);
        put(m, "%s = Unsqueeze(%s, %s)\n", fresh(m, x->rank + 1, dims)->name, x->name, name);
        return;
    }
    for (at = 0; at < x->rank && x->dims[at] != 1; at++)
        ;
    if (at == x->rank)
        return;
    for (int d = 0; d < x->rank; d++)
        if (d != at)
            dims[n++] = x->dims[d];
    at = pick(m, 2) == 0 ? at - x->rank : at;
    ints(m, 1, &at, name);
    put(m, "%s = Squeeze(%s, %s)\n", fresh(m, x->rank - 1, dims)->name, x->name, name);
}

static void transpose(struct maker *m, const struct shaped *x)
{
    int perm[MOST_AXES], dims[MOST_AXES];

    if (x->rank < 2)
        return;
    for (int d = 0; d < x->rank; d++)
        perm[d] = d;
    for (int d = x->rank - 1; d > 0; d--) {
        int o = pick(m, d + 1), t = perm[d];

        perm[d] = perm[o];
        perm[o] = t;
    }
    for (int d = 0; d < x->rank; d++)
        dims[d] = x->dims[perm[d]];
    put(m, "%s = Transpose(%s) perm=", fresh(m, x->rank, dims)->name, x->name);
    for (int d = 0; d < x->rank; d++)
        put(m, "%s%d", d > 0 ? "," : "", perm[d]);
    put(m, "\n");
}

static void slice(struct maker *m, const struct shaped *x)
{
    int dims[MOST_AXES], axis = x->rank == 0 ? 0 : pick(m, x->rank), size, start, end, step, n = 0;
    char k[4][16];

    if (x->rank == 0)
        return;
    size = x->dims[axis];
    start = pick(m, 2 * size + 5) - size - 2;
    end = pick(m, 2 * size + 5) - size - 2;
    step = pick(m, 5) - 2;
    step = step == 0 ? 1 : step;
    memcpy(dims, x->dims, sizeof dims);
    {
        int a = start < 0 ? start + size : start, b = end < 0 ? end + size : end, high = step > 0 ? size : size - 1;

        a = a < 0 ? 0 : a > high ? high : a;
        b = b < (step > 0 ? 0 : -1) ? (step > 0 ? 0 : -1) : b > high ? high : b;
        for (int i = a; size > 0 && (step > 0 ? i < b : i > b); i += step)
            n++;
    }
    dims[axis] = n;
    ints(m, 1, &start, k[0]);
    ints(m, 1, &end, k[1]);
    ints(m, 1, &axis, k[2]);
    ints(m, 1, &step, k[3]);
    put(m, "%s = Slice(%s, %s, %s, %s, %s)\n", fresh(m, x->rank, dims)->name, x->name, k[0], k[1], k[2], k[3]);
}

static void concat_or_split(struct maker *m, const struct shaped *x)
{
    const struct shaped *o = alike(m, x);
    int dims[MOST_AXES], axis = x->rank == 0 ? 0 : pick(m, x->rank), sizes[2];
    char name[16], first[12], second[12];

    if (x->rank == 0)
        return;
    memcpy(dims, x->dims, sizeof dims);
    if (pick(m, 2) == 0) {
        bool one = pick(m, 6) == 0;

        dims[axis] *= one ? 1 : 2;
        if (dims[axis] > 12)
            return;
        put(m, "%s = Concat(%s%s%s) axis=%d\n", fresh(m, x->rank, dims)->name, x->name, one ? "" : ", ",
            one ? "" : o->name, axis);
        return;
    }
    if (m->count + 2 >= MOST_VALUES)
        return;
    sizes[0] = x->dims[axis] / 2;
    sizes[1] = x->dims[axis] - sizes[0];
    ints(m, 2, sizes, name);
    dims[axis] = sizes[0];
    (void)strcpy(first, fresh(m, x->rank, dims)->name);
    dims[axis] = sizes[1];
    (void)strcpy(second, fresh(m, x->rank, dims)->name);
    put(m, "%s, %s = Split(%s, %s) axis=%d\n", first, second, x->name, name, axis);
}

static void widen(struct maker *m, const struct shaped *x)
{
    int dims[MOST_AXES], pads[2 * MOST_AXES] = { 0 }, repeats[MOST_AXES], which = pick(m, 3);
    char name[16], value[16];

    if (x->rank == 0 || elements(x) > 200)
        return;
    memcpy(dims, x->dims, sizeof dims);
    for (int d = 0; d < x->rank; d++) {
        repeats[d] = which == 0 && pick(m, 4) == 0 ? 2 : 1;
        if (which == 1 && dims[d] == 1 && pick(m, 2) == 0)
            dims[d] = 3;
        if (which == 2 && pick(m, 3) == 0)
            pads[d + x->rank * pick(m, 2)] = pick(m, 3);
        dims[d] = dims[d] * repeats[d] + pads[d] + pads[d + x->rank];
    }
    if (which == 0) {
        ints(m, x->rank, repeats, name);
        put(m, "%s = Tile(%s, %s)\n", fresh(m, x->rank, dims)->name, x->name, name);
    } else if (which == 1) {
        ints(m, x->rank, dims, name);
        put(m, "%s = Expand(%s, %s)\n", fresh(m, x->rank, dims)->name, x->name, name);
    } else {
        ints(m, 2 * x->rank, pads, name);
        (void)sprintf(value, "k%d", m->constants++);
        put(m, "%s = [] %s\n%s = Pad(%s, %s, %s)\n", value, pick(m, 2) == 0 ? "0" : "1.5",
            fresh(m, x->rank, dims)->name, x->name, name, value);
    }
}

static void reduce(struct maker *m, const struct shaped *x)
{
    static const char *const names[] = { "ReduceMax", "ReduceMin", "ReduceSum", "ReduceMean", "ReduceL2" };
    int dims[MOST_AXES], axis = x->rank == 0 ? 0 : pick(m, x->rank), op = pick(m, m->exact ? 2 : 5), n = 0;
    bool keep = pick(m, 2) == 0;
    char name[16];

    if (x->rank == 0 || x->dims[axis] == 0)
        return;
    for (int d = 0; d < x->rank; d++)
        if (d != axis || keep)
            dims[n++] = d == axis ? 1 : x->dims[d];
    if (op == 2) { /* ReduceSum-13 */
        ints(m, 1, &axis, name);
        put(m, "%s = ReduceSum(%s, %s) keepdims=%d\n", fresh(m, n, dims)->name, x->name, name, keep);
        return;
    }
    put(m, "%s = %s(%s) axes=%d, keepdims=%d\n", fresh(m, n, dims)->name, names[op], x->name, axis, keep);
}

/* Both branches read values from outside. */
static void branch(struct maker *m, const struct shaped *x)
{
    const struct shaped *o = alike(m, x);
    int k = m->constants++;

    put(m, "a%d = [] %d\nb%d = [] 1\n%c%d = Less(a%d, b%d)\n", k, pick(m, 3), k, 'q', k, k, k);
    put(m, "%s = If(q%d) then:Neg(%s) else:Add(%s,%s)\n", fresh(m, x->rank, x->dims)->name, k, x->name, x->name,
        o->name);
}

static void choose(struct maker *m, const struct shaped *x)
{
    const struct shaped *o = alike(m, x);
    int k = m->constants++;

    if (m->exact && pick(m, 2) == 0)
        put(m, "z%d = [] 0.25\nl%d = Less(%s, z%d)\n%s = Where(l%d, %s, %s)\n", k, k, x->name, k,
            fresh(m, x->rank, x->dims)->name, k, x->name, o->name);
    else
        put(m, "z%d = [] -0.5\nl%d = [] 1\n%s = Clip(%s, z%d, l%d)\n", k, k, fresh(m, x->rank, x->dims)->name, x->name,
            k, k);
}

static void softmax(struct maker *m, const struct shaped *x)
{
    int axis = x->rank == 0 ? 0 : pick(m, x->rank);

    if (x->rank == 0)
        return;
    put(m, "%s = %s(%s) axis=%d\n", fresh(m, x->rank, x->dims)->name, pick(m, 3) > 0 ? "Softmax" : "LogSoftmax",
        x->name, axis - (pick(m, 2) == 0 ? x->rank : 0));
}

static void product(struct maker *m, const struct shaped *x)
{
    int dims[MOST_AXES], k = m->constants++, columns = 1 + pick(m, 5);

    if (x->rank < 2 || x->dims[x->rank - 1] == 0)
        return;
    memcpy(dims, x->dims, sizeof dims);
    dims[x->rank - 1] = columns;
    if (x->rank == 2 && pick(m, 3) == 0) {
        put(m, "p%d = [%d,%d]\nq%d = [%d]\n%s = Gemm(%s, p%d, q%d) transB=1 alpha=0.5 beta=2.0\n", k, columns,
            x->dims[1], k, columns, fresh(m, 2, dims)->name, x->name, k, k);
        return;
    }
    put(m, "p%d = [%d,%d]\n%s = MatMul(%s, p%d)\n", k, x->dims[x->rank - 1], columns, fresh(m, x->rank, dims)->name,
        x->name, k);
}

static void convolution(struct maker *m, const struct shaped *x)
{
    int dims[MOST_AXES], k = m->constants++, filters = 2;

    if (x->rank != 4 || x->dims[1] == 0 || x->dims[2] < 2 || x->dims[3] < 2 || x->dims[2] > 12 || x->dims[3] > 12)
        return;
    memcpy(dims, x->dims, sizeof dims);
    dims[1] = filters;
    if (pick(m, 3) == 0) {
        dims[1] = x->dims[1];
        put(m, "%s = %s(%s) kernel_shape=3,3 pads=1,1,1,1\n", fresh(m, 4, dims)->name,
            pick(m, 2) == 0 ? "MaxPool" : "AveragePool", x->name);
        return;
    }
    put(m, "p%d = [%d,%d,3,3]\n%s = Conv(%s, p%d) pads=1,1,1,1\n", k, filters, x->dims[1], fresh(m, 4, dims)->name,
        x->name, k);
    if (pick(m, 2) == 0 && m->count < MOST_VALUES) {
        x = &m->values[m->count - 1];
        put(m, "n%d = [2]\no%d = [2]\n", k, k);
        put(m, "%s = BatchNormalization(%s, n%d, o%d, o%d, n%d) epsilon=0.01\n", fresh(m, 4, dims)->name, x->name, k, k,
            k, k);
    }
}

/* What passes put together: a norm, an activation, an attention. */
static void idiom(struct maker *m, const struct shaped *x)
{
    int k = m->constants++, n = x->rank == 0 ? 0 : x->dims[x->rank - 1], which = pick(m, 4), turned[MOST_AXES];

    if (n == 0 || elements(x) == 0)
        return;
    if (which == 0) {
        put(m,
            "m%d = ReduceMean(%s) axes=-1,\nd%d = Sub(%s, m%d)\nq%d = Mul(d%d, d%d)\ny%d = ReduceMean(q%d) axes=-1,\n"
            "e%d = [] 0.01\nf%d = Add(y%d, e%d)\nr%d = Sqrt(f%d)\nt%d = Div(d%d, r%d)\ng%d = [%d]\n",
            k, x->name, k, x->name, k, k, k, k, k, k, k, k, k, k, k, k, k, k, k, k, n);
        put(m, "%s = Mul(t%d, g%d)\n", fresh(m, x->rank, x->dims)->name, k, k);
    } else if (which == 1) {
        put(m, "a%d = Sigmoid(%s)\n", k, x->name);
        put(m, "%s = Mul(%s, a%d)\n", fresh(m, x->rank, x->dims)->name, x->name, k);
    } else if (which == 2) {
        put(m,
            "r%d = [] 1.41421354\no%d = [] 1\nh%d = [] 0.5\na%d = Div(%s, r%d)\nb%d = Erf(a%d)\nc%d = Add(b%d, o%d)\n"
            "d%d = Mul(%s, c%d)\n",
            k, k, k, k, x->name, k, k, k, k, k, k, k, x->name, k);
        put(m, "%s = Mul(d%d, h%d)\n", fresh(m, x->rank, x->dims)->name, k, k);
    } else if (x->rank >= 3) {
        memcpy(turned, x->dims, sizeof turned);
        put(m,
            "r%d = [] 0.5\nt%d = Transpose(%s) perm=%s\nq%d = Mul(%s, r%d)\ns%d = MatMul(q%d, t%d)\n"
            "p%d = Softmax(s%d) axis=-1\n",
            k, k, x->name, x->rank == 3 ? "0,2,1" : "0,1,3,2", k, x->name, k, k, k, k, k, k);
        put(m, "%s = MatMul(p%d, %s)\n", fresh(m, x->rank, turned)->name, k, x->name);
    }
}

static void make(struct maker *m, uint32_t seed, bool exact)
{
    static const char *const sizes[] = { "3,4,5", "2,3,4,4", "N,6", "1,4", "2,0,3", "4,1,3", "1,2,6,6", "B,2,S", "" };
    static const int dims[][MOST_AXES] = { { 3, 4, 5 }, { 2, 3, 4, 4 }, { 3, 6 },    { 1, 4 }, { 2, 0, 3 },
                                           { 4, 1, 3 }, { 1, 2, 6, 6 }, { 3, 2, 3 }, { 0 } };
    static const int ranks[] = { 3, 4, 2, 2, 3, 3, 4, 3, 0 };
    static void (*const any_op[])(struct maker *, const struct shaped *) = {
        unary,     binary, unary, binary,          cast,  reshape, computed_reshape, squeeze, transpose,
        transpose, slice,  slice, concat_or_split, widen, reduce,  branch,           choose
    };
    static void (*const weighty_op[])(struct maker *, const struct shaped *) = { softmax, product, convolution,
                                                                                 idiom,   product, convolution };
    int nodes, outputs;

    *m = (struct maker){ .seed = seed * 2654435761u + 1, .exact = exact };
    for (int i = 0; i < 3; i++) {
        int s = pick(m, 9);
        struct shaped *v = fresh(m, ranks[s], dims[s]);

        put(m, "%s : %s\n", v->name, ranks[s] == 0 ? "-" : sizes[s]);
    }
    nodes = 3 + pick(m, 18);
    for (int tries = 0; m->count < 3 + nodes && tries < 4 * nodes && m->count + 3 < MOST_VALUES; tries++) {
        const struct shaped x = *any(m);

        if (!exact && pick(m, 3) == 0)
            weighty_op[pick(m, 6)](m, &x);
        else
            any_op[pick(m, 17)](m, &x);
    }
    put(m, "out = Identity(%s)\n-> out", m->values[m->count - 1].name);
    outputs = pick(m, 3); /* in the middle */
    for (int i = 0, last = 2; i < outputs && last + 1 < m->count; i++) {
        last += 1 + pick(m, m->count - last - 1);
        put(m, ", %s", m->values[last].name);
    }
    put(m, "\n");
}

/* ------------------------------------------------------------------ comparing */

static bool same_element(float a, float b, bool exact)
{
    if (isnan(a) || isnan(b))
        return isnan(a) && isnan(b);
    if (isinf(a) || isinf(b) || (exact && (a == 0 || b == 0)))
        return a == b && (!exact || signbit(a) == signbit(b));
    return fabsf(a - b) <= (exact ? 1e-6f * fabsf(b) : 1e-3f * (1 + fabsf(b))); /* Pow has loops of several kinds */
}

static void compare(const struct maker *m, const char *level, struct rig *best, struct rig *plain)
{
    for (uint32_t o = 0; o < inlay_session_output_count(plain->session); o++) {
        inlay_value *got = inlay_context_output(best->context, o), *want = inlay_context_output(plain->context, o);
        const float *a = inlay_value_data(got), *b = inlay_value_data(want);

        if (inlay_value_rank(got) != inlay_value_rank(want) || inlay_value_count(got) != inlay_value_count(want))
            fail_msg("another shape of output %u at level %s, in\n%s", o, level, m->script);
        for (uint32_t d = 0; d < inlay_value_rank(want); d++)
            if (inlay_value_dims(got)[d] != inlay_value_dims(want)[d])
                fail_msg("another shape of output %u at level %s, in\n%s", o, level, m->script);
        for (int64_t i = 0; i < inlay_value_count(want); i++)
            if (!same_element(a[i], b[i], m->exact))
                fail_msg("output %u, element %lld is %g, not %g, at level %s, in\n%s", o, (long long)i, (double)a[i],
                         (double)b[i], level, m->script);
    }
}

static void one_graph(uint32_t seed, bool exact)
{
    static const char *const levels[] = { "1", "2", "3", "99" };
    static struct maker m;
    struct rig plain;
    struct wire w = { 0 };

    make(&m, seed, exact);
    script_model(&w, m.script, 17);
    plain = rig_open(&w, (const char *const[]){ "level", "0", NULL });
    script_feed_odd(&plain, seed, exact ? 0.3f : 0);
    rig_run(&plain);
    for (int l = 0; l < 4; l++) {
        struct wire again = { 0 };
        struct rig best;

        script_model(&again, m.script, 17);
        best = rig_open(&again, (const char *const[]){ "level", levels[l], NULL });
        script_feed_odd(&best, seed, exact ? 0.3f : 0);
        rig_run(&best);
        compare(&m, levels[l], &best, &plain);
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

static void weighty_graphs(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < rounds; i++)
        one_graph(first_seed + i, false);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(exact_graphs), cmocka_unit_test(weighty_graphs) };

    rounds = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : rounds;
    first_seed = argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 10) : first_seed;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
