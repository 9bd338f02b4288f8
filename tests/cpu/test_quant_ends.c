/* Operators on 8-bit integers with weights and zero points at the ends of their types. Every filter and column contains
 * the smallest and the largest weight, so weights minus zero points reach -255 and 255. Results of cpu and of the
 * reference equal integer sums that the test computes, since the reference shares passes with cpu. Scales are powers of
 * two. */
#include "region_models.h"
#include "oracle.h"
#include <math.h>

enum { U8 = INLAY_UINT8, S8 = INLAY_INT8, I32 = INLAY_INT32, F32 = INLAY_FLOAT };
enum { MOST_AXES = 5, MOST_VALUES = 1 << 20, MOST_FILTERS = 64, IMAGES = 2, SIDE = 5 };

/* x and w are bytes; xf and wf are the floats of DequantizeLinear. y: the type of the output, U8 for both bytes. */
static const struct form {
    const char *op, *inputs;
    int y;
    bool product, turned; /* turned: the matrix is [columns, k] */
    bool quantizes;       /* QuantizeLinear follows */
    bool contributed;     /* of com.microsoft */
} forms[] = {
    { "Conv", "xf,wf", F32, false, false, false, false },
    { "Conv", "xf,wf", U8, false, false, true, false },
    { "QLinearConv", "x,xs,xz,w,ws,wz,ys,yz", U8, false, false, false, false },
    { "ConvInteger", "x,w,xz,wz", I32, false, false, false, false },
    { "MatMul", "xf,wf", F32, true, false, false, false },
    { "Gemm", "xf,wf", F32, true, true, false, false },
    { "MatMul", "xf,wf", U8, true, false, true, false },
    { "QLinearMatMul", "x,xs,xz,w,ws,wz,ys,yz", U8, true, false, false, false },
    { "MatMulInteger", "x,w,xz,wz", I32, true, false, false, false },
    { "MatMulIntegerToFloat", "x,w,xs,ws,xz,wz", F32, true, false, false, true },
    { "QGemm", "x,xs,xz,w,ws,wz,,ys,yz", U8, true, false, false, true },
};

static const struct shape {
    const char *name;
    uint32_t spatial; /* 0: matrix multiplication */
    int64_t in, filters, group, kernel;
} shapes[] = {
    { "1-D", 1, 20, 9, 1, 3 },     { "2-D", 2, 16, 33, 1, 3 },        { "1x1", 2, 33, 40, 1, 1 },
    { "grouped", 2, 16, 8, 4, 3 }, { "depthwise", 2, 36, 36, 36, 3 }, { "3-D", 3, 8, 5, 1, 3 },
    { "narrow", 0, 100, 3, 1, 1 }, { "wide", 0, 61, 40, 1, 1 },       { "3-D depthwise", 3, 8, 8, 8, 2 },
};

enum { ZERO_LOW, ZERO_HIGH, ZERO_MIDDLE, ZERO_EACH, ZEROS }; /* ZERO_EACH: alternates by filter */

struct row {
    const struct form *form;
    const struct shape *shape;
    int x_type, w_type, y_type;
    int32_t x[MOST_VALUES], w[MOST_VALUES], w_zero[MOST_FILTERS], x_zero, y_zero;
    int64_t x_dims[MOST_AXES], w_dims[MOST_AXES];
    bool each; /* scales and zero points of weights are per filter */
    double unit[MOST_FILTERS];
    float y_scale;
};

static int32_t lowest(int dtype)
{
    return dtype == S8 ? -128 : 0;
}

static int32_t end_of(int dtype, int zero)
{
    return lowest(dtype) + (zero == ZERO_LOW ? 0 : zero == ZERO_HIGH ? 255 : 128);
}

static int64_t count_of(const int64_t *dims, uint32_t rank)
{
    int64_t count = 1;

    for (uint32_t d = 0; d < rank; d++)
        count *= dims[d];
    assert_true(count <= MOST_VALUES);
    return count;
}

static uint32_t rank_of(const struct row *row)
{
    return row->shape->spatial + 2;
}

/* The index of weight i of a filter, of `each` weights. */
static int64_t weight_at(const struct row *row, int64_t filter, int64_t i, int64_t each)
{
    return row->form->product && !row->form->turned ? i * row->shape->filters + filter : filter * each + i;
}

static int64_t each_of(const struct row *row)
{
    return count_of(row->w_dims, rank_of(row)) / row->shape->filters;
}

static void fill_row(struct row *row, int w_zero, int x_zero, int y_zero, uint64_t *dice)
{
    const struct shape *shape = row->shape;
    const int64_t each_dims = shape->in / shape->group;
    int64_t each;

    row->x_dims[0] = IMAGES;
    row->x_dims[1] = shape->in;
    row->w_dims[0] = row->form->product && !row->form->turned ? shape->in : shape->filters;
    row->w_dims[1] = row->form->product && !row->form->turned ? shape->filters : each_dims;
    for (uint32_t d = 2; d < rank_of(row); d++) {
        row->x_dims[d] = SIDE;
        row->w_dims[d] = shape->kernel;
    }
    row->each = w_zero == ZERO_EACH;
    row->x_zero = end_of(row->x_type, x_zero);
    row->y_zero = end_of(row->y_type, y_zero);
    for (int64_t i = 0; i < count_of(row->x_dims, rank_of(row)); i++)
        row->x[i] = lowest(row->x_type) +
                    (int32_t)(i % 3 == 0 ? 255 * random_between(dice, 0, 1) : random_between(dice, 0, 255));
    each = each_of(row);
    for (int64_t f = 0; f < shape->filters; f++) {
        const int64_t first = random_between(dice, 0, each - 1);

        for (int64_t i = 0; i < each; i++)
            row->w[weight_at(row, f, i, each)] = lowest(row->w_type) + (int32_t)random_between(dice, 0, 255);
        row->w[weight_at(row, f, first, each)] = lowest(row->w_type);
        row->w[weight_at(row, f, (first + 1) % each, each)] = lowest(row->w_type) + 255;
        row->w_zero[f] = end_of(row->w_type, row->each ? (int)(f % ZERO_EACH) : w_zero);
        row->unit[f] = ldexp(1, -11 - (row->each ? (int)(f % 3) : 0));
    }
    row->y_scale = (float)ldexp(1, -4 + ilogb((double)each) / 2);
}

static void put_integers(struct wire *wire, const char *name, int dtype, uint32_t rank, const int64_t *dims,
                         const int32_t *values)
{
    wire_mark mark = wire_begin(wire, MW_INITIALIZER);

    mw_tensor_head(wire, name, dtype, rank, dims);
    for (int64_t i = 0; i < count_of(dims, rank); i++)
        wire_int(wire, 5, values[i]);
    wire_end(wire, mark);
}

static void put_scale(struct wire *wire, const char *name, uint32_t rank, int64_t count, const double *values,
                      double factor)
{
    wire_mark mark = wire_begin(wire, MW_INITIALIZER);

    mw_tensor_head(wire, name, F32, rank, &count);
    for (int64_t i = 0; i < (rank == 0 ? 1 : count); i++)
        wire_float(wire, 4, (float)(values[i] * factor));
    wire_end(wire, mark);
}

static void write_row(const struct row *row, struct wire *wire)
{
    static const double one = 1;
    const struct form *form = row->form;
    const struct shape *shape = row->shape;
    const bool floats = strcmp(form->inputs, "xf,wf") == 0;
    const int64_t pads[] = { 1, 1, 1, 1, 1, 1 };
    wire_mark graph, node;
    char dims[64];

    wire_int(wire, 1, 9);
    mw_opset(wire, 8, "", 18);
    mw_opset(wire, 8, "com.microsoft", 1);
    graph = wire_begin(wire, 7);
    wire_text(wire, 2, "g");
    (void)snprintf(dims, sizeof dims, "N,%lld%.*s", (long long)shape->in, (int)(2 * shape->spatial), ",H,W,D");
    mw_value(wire, MW_INPUT, "x", row->x_type, dims);
    put_integers(wire, "w", row->w_type, rank_of(row), row->w_dims, row->w);
    put_integers(wire, "xz", row->x_type, 0, NULL, &row->x_zero);
    put_integers(wire, "wz", row->w_type, row->each, &shape->filters, row->w_zero);
    put_integers(wire, "yz", row->y_type, 0, NULL, &row->y_zero);
    put_scale(wire, "xs", 0, 1, &one, 1.0 / 32);
    put_scale(wire, "ws", row->each, shape->filters, row->unit, 32);
    put_scale(wire, "ys", 0, 1, &one, row->y_scale);
    if (floats) {
        mw_node(wire, "DequantizeLinear", "x,xs,xz", "xf");
        node = mw_node_begin(wire, "DequantizeLinear", "w,ws,wz", "wf");
        mw_attr_int(wire, "axis", form->product && !form->turned ? 1 : 0);
        wire_end(wire, node);
    }
    node = mw_node_begin(wire, form->op, form->inputs, form->quantizes ? "yf" : "y");
    if (form->contributed)
        wire_text(wire, 7, "com.microsoft");
    if (form->turned)
        mw_attr_int(wire, "transB", 1);
    if (!form->product) {
        mw_attr_int(wire, "group", shape->group);
        mw_attr_ints(wire, "pads", 2 * shape->spatial, pads);
    }
    wire_end(wire, node);
    if (form->quantizes)
        mw_node(wire, "QuantizeLinear", "yf,ys,yz", "y");
    mw_value(wire, MW_OUTPUT, "y", form->y == U8 ? row->y_type : form->y, NULL);
    wire_end(wire, graph);
}

/* The sum for one filter and the window whose first element is at `at`, minus the padding; *out_size: of the absolute
 * values of its products. */
ORACLE static int64_t sum_of(const struct row *row, int64_t image, int64_t filter, const int64_t at[3],
                             int64_t *out_size)
{
    const struct shape *shape = row->shape;
    const int64_t depth = shape->in / shape->group, each = each_of(row), taps = each / depth,
                  pixels = count_of(row->x_dims + 2, shape->spatial);
    const int64_t first = filter / (shape->filters / shape->group) * depth;
    int64_t sum = 0;

    *out_size = 0;
    for (int64_t i = 0; i < each; i++) {
        const int64_t channel = first + i / taps;
        int64_t pixel = 0, tap = i % taps, product, step = 1;
        bool inside = true;

        for (uint32_t d = shape->spatial; d-- > 0; tap /= shape->kernel, step *= SIDE) {
            const int64_t place = at[d] + tap % shape->kernel - 1;

            inside &= place >= 0 && place < SIDE;
            pixel += place * step;
        }
        if (!inside)
            continue;
        product = (int64_t)(row->x[(image * shape->in + channel) * pixels + pixel] - row->x_zero) *
                  (row->w[weight_at(row, filter, i, each)] - row->w_zero[filter]);
        sum += product;
        *out_size += llabs(product);
    }
    return sum;
}

ORACLE static double quantized(const struct row *row, double value)
{
    const double low = lowest(row->y_type);

    return fmin(fmax(nearbyint(value / (double)row->y_scale) + row->y_zero, low), low + 255);
}

/* Checks element i of y. Float kernels, which run where there are no integer kernels, may be off by a rounding error,
 * also of Winograd's algorithm or of a long sum: far less than a change of a weight by 1 would make in the sums that
 * int32 holds. */
static void check(const struct row *row, const inlay_value *y, int64_t i, int64_t filter, int64_t sum, int64_t size,
                  const char *what)
{
    const double got = model_element(y, i), value = (double)sum * row->unit[filter],
                 off = (double)size * row->unit[filter] * 2e-6;
    bool good;

    if (row->form->y == I32)
        good = got == (double)sum;
    else if (row->form->y == F32)
        good = fabs(got - value) <= off;
    else
        good = got >= quantized(row, value - off) && got <= quantized(row, value + off);
    if (!good)
        fail_msg("%s, %s, %s: element %lld of filter %lld is %g, the sum is %lld, of weights %d to %d (zero point %d)",
                 row->form->op, row->shape->name, what, (long long)i, (long long)filter, got, (long long)sum,
                 lowest(row->w_type), lowest(row->w_type) + 255, row->w_zero[filter]);
}

static void check_all(const struct row *row, const inlay_value *y, const char *what)
{
    const struct shape *shape = row->shape;
    const int64_t length = SIDE + 3 - shape->kernel;
    int64_t pixels = 1;

    for (uint32_t d = 0; d < shape->spatial; d++)
        pixels *= length;
    assert_int_equal(inlay_value_count(y), IMAGES * shape->filters * pixels);
    for (int64_t i = 0; i < inlay_value_count(y); i++) {
        const int64_t filter = i / pixels % shape->filters;
        int64_t at[3] = { 0 }, rest = i % pixels, size, sum;

        for (uint32_t d = shape->spatial; d-- > 0; rest /= length)
            at[d] = rest % length;
        sum = sum_of(row, i / pixels / shape->filters, filter, at, &size);
        check(row, y, i, filter, sum, size, what);
    }
}

static void run_row(const struct row *row, const char *providers, const char *level, const char *threads)
{
    struct wire wire = { 0 };
    struct rig rig;
    inlay_value *x = NULL;
    inlay_diag diag = INLAY_DIAG_INIT;

    write_row(row, &wire);
    assert_false(wire.failed);
    rig = model_open(&wire,
                     (const char *const[]){ "providers", providers, "level", level, "intra_threads", threads, NULL });
    assert_int_equal(inlay_value_create((inlay_dtype)row->x_type, rank_of(row), row->x_dims, &x, NULL), INLAY_OK);
    for (int64_t i = 0; i < inlay_value_count(x); i++)
        ((uint8_t *)inlay_value_data(x))[i] = (uint8_t)row->x[i];
    assert_int_equal(inlay_context_set_input(rig.context, 0, x, &diag), INLAY_OK);
    inlay_value_unref(x);
    if (inlay_context_run(rig.context, NULL, &diag) != INLAY_OK)
        fail_msg("%s, %s: %s", row->form->op, row->shape->name, diag.text);
    check_all(row, inlay_context_output(rig.context, 0), providers);
    rig_close(&rig);
    wire_deinit(&wire);
}

static void weights_at_the_ends(void **state)
{
    static struct row row;
    uint64_t dice = 255;
    int turn = 0;

    (void)state;
    for (size_t f = 0; f < sizeof forms / sizeof *forms; f++)
        for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
            for (int w = 0; w < 2 * ZEROS; w++, turn++) {
                const int w_zero = w / 2;

                if (forms[f].product != (shapes[s].spatial == 0))
                    continue;
                row.form = &forms[f];
                row.shape = &shapes[s];
                row.w_type = w % 2 ? U8 : S8;
                row.x_type = turn / 2 % 2 ? U8 : S8;
                row.y_type = forms[f].contributed ? row.x_type : turn / 3 % 2 ? U8 : S8; /* QGemm has one type */
                fill_row(&row, w_zero, turn % 3, turn / 5 % 3, &dice);
                run_row(&row, "reference", "0", "1");
                run_row(&row, "cpu,reference", turn % 3 ? "99" : "0", turn % 2 ? "1" : "2");
            }
}

/* The sum of a filter exceeds int32, so float kernels compute it. */
static void sums_beyond_int32(void **state)
{
    static const struct shape shape = { "long", 1, 70000, 1, 1, 1 };
    static struct row row;
    uint64_t dice = 1;

    (void)state;
    for (size_t f = 0; f < 2; f++) {
        row = (struct row){ .form = &forms[f], .shape = &shape, .x_type = U8, .w_type = S8, .y_type = U8 };
        fill_row(&row, ZERO_MIDDLE, ZERO_LOW, ZERO_HIGH, &dice);
        for (int64_t i = 0; i < shape.in; i++)
            row.w[i] = -128;
        for (int64_t i = 0; i < count_of(row.x_dims, rank_of(&row)); i++)
            row.x[i] = 255;
        row.y_scale = 8192;
        run_row(&row, "reference", "0", "1");
        run_row(&row, "cpu,reference", "99", "1");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(weights_at_the_ends), cmocka_unit_test(sums_beyond_int32) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
