/* 8-bit integer operators on cpu, compared with the reference: convolutions and GEMMs over types, zero points, scales,
 * pads, groups and sizes, and random networks between DequantizeLinear and QuantizeLinear. */
#include "loops.h"
#include "region_models.h"
#include "random.h"
#include "run_context.h"
#include <math.h>

enum { U8 = INLAY_UINT8, S8 = INLAY_INT8, I32 = INLAY_INT32 };

/* An integer constant with elements between low and high. */
static const char *ints(region_model *model, int dtype, uint32_t rank, const int64_t *dims, int64_t low, int64_t high)
{
    wire_mark mark = wire_begin(&model->wire, MW_INITIALIZER);
    int64_t count = 1;

    for (uint32_t i = 0; i < rank; i++)
        count *= dims[i];
    (void)snprintf(model->name, sizeof model->name, "c%u", model->constants++);
    mw_tensor_head(&model->wire, model->name, dtype, rank, dims);
    for (int64_t i = 0; i < count; i++)
        wire_int(&model->wire, 5, random_between(&model->dice, low, high));
    wire_end(&model->wire, mark);
    return model->name;
}

static int64_t lowest(int dtype)
{
    return dtype == S8 ? -128 : 0;
}

/* Weights of 8 bits or, with every third seed, of 7, for which cpu has other kernels (byte_set_of_pairs()). */
static const char *weights(region_model *model, uint64_t seed, int dtype, uint32_t rank, const int64_t *dims)
{
    const int64_t cut = seed % 3 == 1 ? 64 : 0;

    return ints(model, dtype, rank, dims, lowest(dtype) + cut, lowest(dtype) + (cut > 0 ? 128 + cut : 255));
}

/* A comma-separated list of inputs. */
struct list {
    char text[256];
};

static void put(struct list *list, const char *name)
{
    size_t used = strlen(list->text);

    (void)snprintf(list->text + used, sizeof list->text - used, "%s%s", used > 0 ? "," : "", name);
}
static void put_tensor(struct list *list, uint32_t t)
{
    char name[16];

    (void)snprintf(name, sizeof name, "t%u", t);
    put(list, name);
}

/* Adds a zero point: usually in the middle of the range, sometimes at its end. */
static void put_zero(region_model *model, struct list *list, int dtype, uint32_t rank, int64_t count, bool plain)
{
    int64_t middle = lowest(dtype) + 128, at = plain ? lowest(dtype) : middle;

    put(list, ints(model, dtype, rank, &count, plain ? at : at - 30, plain ? at : at + 30));
}

static void put_scale(region_model *model, struct list *list, uint32_t rank, int64_t count, float middle)
{
    put(list, model_constant(model, rank, &count, middle / 3, middle));
}

static wire_mark open_graph(region_model *model, uint64_t seed, int dtype, const char *dims)
{
    wire_mark mark;

    *model = (region_model){ .dice = seed * 6007 + 3, .tensors = 1 };
    mark = mw_begin(&model->wire, 9, 18);
    mw_value(&model->wire, MW_INPUT, "t0", dtype, dims);
    return mark;
}

static void close_graph(region_model *model, wire_mark mark, uint32_t y, int dtype)
{
    char name[16];

    (void)snprintf(name, sizeof name, "t%u", y);
    mw_value(&model->wire, MW_OUTPUT, name, dtype, NULL);
    wire_end(&model->wire, mark);
}

static struct rig open_rig(const struct wire *wire, const char *providers, const char *level, const char *threads)
{
    return model_open(wire,
                      (const char *const[]){ "providers", providers, "level", level, "intra_threads", threads, NULL });
}

static void fill(inlay_value *value, uint64_t *dice)
{
    void *data = inlay_value_data(value);

    for (int64_t i = 0; i < inlay_value_count(value); i++) {
        if (inlay_value_dtype(value) == INLAY_FLOAT)
            ((float *)data)[i] = 3 * random_signed(dice);
        else
            ((uint8_t *)data)[i] = (uint8_t)random_between(dice, 0, 255);
    }
}

static void run(struct rig *rig, inlay_value *value)
{
    inlay_diag diag = INLAY_DIAG_INIT;

    assert_int_equal(inlay_context_set_input(rig->context, 0, value, &diag), INLAY_OK);
    run_context(rig->context);
}

/* Runs both sessions on one input: no element may differ by more than `most`, and at most a `share` of them by more
 * than `least`. */
static void agree(struct rig *ours, struct rig *theirs, int dtype, uint32_t rank, const int64_t *dims, uint64_t seed,
                  double most, double least, double share, const char *what)
{
    const inlay_value *a, *b;
    uint64_t dice = seed;
    inlay_value *value = NULL;
    int64_t off = 0;

    assert_int_equal(inlay_value_create((inlay_dtype)dtype, rank, dims, &value, NULL), INLAY_OK);
    fill(value, &dice);
    run(ours, value);
    run(theirs, value);
    inlay_value_unref(value);
    a = inlay_context_output(ours->context, 0);
    b = inlay_context_output(theirs->context, 0);
    assert_int_equal(inlay_value_dtype(a), inlay_value_dtype(b));
    assert_int_equal(inlay_value_count(a), inlay_value_count(b));
    for (int64_t i = 0; i < inlay_value_count(b); i++) {
        double distance = fabs(model_element(a, i) - model_element(b, i));

        if (!(distance <= most))
            fail_msg("%s %llu: element %lld is %g, the reference has %g", what, (unsigned long long)seed, (long long)i,
                     model_element(a, i), model_element(b, i));
        off += distance > least;
    }
    if ((double)off > 2 + share * (double)inlay_value_count(b))
        fail_msg("%s %llu: %lld of %lld elements differ", what, (unsigned long long)seed, (long long)off,
                 (long long)inlay_value_count(b));
}

static void against_reference(region_model *model, uint64_t seed, int dtype, uint32_t rank, const int64_t *dims,
                              double most, double least, double share, const char *what)
{
    struct rig ours, theirs = open_rig(&model->wire, "reference", "0", "1");

    assert_false(model->wire.failed);
    ours = open_rig(&model->wire, "cpu,reference", seed % 3 ? "99" : "0", seed % 2 ? "1" : "2");
    for (uint64_t i = 0; i < 2; i++)
        agree(&ours, &theirs, dtype, rank, dims, seed + 1000 * i, most, least, share, what);
    rig_close(&ours);
    rig_close(&theirs);
    wire_deinit(&model->wire);
}

/* Adds scales around `middle`; 0: scales of exactly 1/32. */
static void put_scale_of_conv(region_model *model, struct list *list, uint32_t rank, int64_t count, float middle)
{
    if (middle > 0)
        put_scale(model, list, rank, count, middle);
    else
        put(list, model_constant(model, rank, &count, 0, 0.03125f));
}

/* QLinearConv, sometimes with a Clip after it, or with scales that are powers of two: then many results are ties, which
 * round to even before the zero point is added. */
static void one_conv(uint64_t seed)
{
    static const int64_t widths[] = { 1, 3, 8, 16, 20, 33, 72, 100 };
    region_model model;
    uint64_t dice = seed * 31;
    uint32_t spatial = 1 + (uint32_t)(seed % 3), y;
    int x_type = random_between(&dice, 0, 1) ? U8 : S8, w_type = random_between(&dice, 0, 2) ? S8 : U8,
        y_type = random_between(&dice, 0, 1) ? U8 : S8;
    int64_t in = widths[random_between(&dice, 0, 7)], out = widths[random_between(&dice, 0, 7)], group = 1, x[5], w[5],
            pads[6], strides[3];
    int64_t dilations[3], zero = w_type == U8 ? 128 : 0, one = 1;
    bool each = random_between(&dice, 0, 1), clip = random_between(&dice, 0, 2) == 0, powers = seed % 4 == 0;
    char dims[64];
    struct list list = { "" };
    wire_mark mark, g;

    if (random_between(&dice, 0, 2) == 0)
        group = out = in;
    else if (in % 4 == 0 && random_between(&dice, 0, 1))
        group = 4, out = 4 * (out + 3);
    if (seed % 20 == 2) /* few filters per group */
        group = 4, in = 32, out = 4 * random_between(&dice, 1, 3);
    x[0] = random_between(&dice, 1, 2);
    x[1] = in;
    w[0] = out;
    w[1] = in / group;
    for (uint32_t i = 0; i < spatial; i++) {
        x[2 + i] = random_between(&dice, 7, 14);
        w[2 + i] = seed % 20 == 2 ? 1 : seed % 9 == 4 ? 5 : random_between(&dice, 1, 3);
        strides[i] = random_between(&dice, 1, 2);
        dilations[i] = w[2 + i] == 5 ? 1 : random_between(&dice, 1, 2);
        pads[i] = random_between(&dice, 0, w[2 + i] - 1);
        pads[spatial + i] = random_between(&dice, 0, w[2 + i] - 1);
    }
    (void)snprintf(dims, sizeof dims,
                   spatial == 1   ? "N,%lld,H"
                   : spatial == 2 ? "N,%lld,H,W"
                                  : "N,%lld,D,H,W",
                   (long long)in);
    g = open_graph(&model, seed, x_type, dims);
    put_tensor(&list, 0);
    put_scale_of_conv(&model, &list, 0, 1, powers ? 0 : 0.02f);
    put_zero(&model, &list, x_type, 0, 1, random_between(&dice, 0, 3) == 0);
    put(&list, weights(&model, seed, w_type, 2 + spatial, w));
    put_scale_of_conv(&model, &list, each, each ? out : 1, powers ? 0 : 0.01f);
    put(&list, ints(&model, w_type, each, each ? &out : &one, zero, zero));
    put_scale_of_conv(&model, &list, 0, 1, powers ? 0 : 0.03f);
    put_zero(&model, &list, y_type, 0, 1, random_between(&dice, 0, 3) == 0);
    if (random_between(&dice, 0, 3))
        put(&list, ints(&model, I32, 1, &out, -3000, 3000));
    mark = model_node(&model, "QLinearConv", list.text, &y);
    mw_attr_int(&model.wire, "group", group);
    mw_attr_ints(&model.wire, "strides", spatial, strides);
    mw_attr_ints(&model.wire, "dilations", spatial, dilations);
    if (random_between(&dice, 0, 3) == 0) {
        wire_mark a = mw_attr_begin(&model.wire, "auto_pad", 3);

        wire_text(&model.wire, 4, random_between(&dice, 0, 1) ? "SAME_UPPER" : "SAME_LOWER");
        wire_end(&model.wire, a);
    } else {
        mw_attr_ints(&model.wire, "pads", 2 * spatial, pads);
    }
    wire_end(&model.wire, mark);
    if (clip) {
        struct list c = { "" };

        put_tensor(&c, y);
        put(&c, ints(&model, y_type, 0, NULL, lowest(y_type) + 20, lowest(y_type) + 90));
        put(&c, ints(&model, y_type, 0, NULL, lowest(y_type) + 150, lowest(y_type) + 230));
        y = model_plain(&model, "Clip", c.text);
    }
    close_graph(&model, g, y, y_type);
    against_reference(&model, seed, x_type, 2 + spatial, x, 0, 0, 1, "convolution");
}

/* QLinearConv with windows of k x 1, whose output rows are contiguous, and images of many pixels. */
static void tall_windows(void **state)
{
    static const int64_t x[] = { 1, 64, 40, 40 }, w[] = { 32, 64, 3, 1 }, pads[] = { 1, 0, 1, 0 }, one = 1;

    (void)state;
    for (uint64_t seed = 1; seed <= 4; seed++) {
        const int64_t dilations[] = { 1 + (int64_t)(seed / 2 % 2), 1 };
        struct list list = { "" };
        region_model model;
        wire_mark graph, node;
        uint32_t y;

        graph = open_graph(&model, seed, U8, "1,64,40,40");
        put_tensor(&list, 0);
        put_scale_of_conv(&model, &list, 0, 1, 0.02f);
        put_zero(&model, &list, U8, 0, 1, false);
        put(&list, ints(&model, S8, 4, w, -128, 127));
        put_scale_of_conv(&model, &list, 0, 1, 0.01f);
        put(&list, ints(&model, S8, 0, &one, 0, 0));
        put_scale_of_conv(&model, &list, 0, 1, 0.3f);
        put_zero(&model, &list, U8, 0, 1, false);
        node = model_node(&model, "QLinearConv", list.text, &y);
        mw_attr_ints(&model.wire, "dilations", 2, dilations);
        mw_attr_ints(&model.wire, "pads", 4, pads);
        wire_end(&model.wire, node);
        close_graph(&model, graph, y, U8);
        against_reference(&model, seed, U8, 4, x, 0, 0, 1, "convolution with a tall window");
    }
}

/* Adds a bias in the unit of the sums y [N, filters, H, W]: Div by the scale, Floor, Cast, Reshape, Add. */
static uint32_t add_integer_bias(region_model *model, uint32_t y, uint32_t scale, int64_t filters, bool first)
{
    struct list quotient = { "" }, cast = { "" }, view = { "" }, sum = { "" };
    uint32_t integers, reshaped;
    wire_mark mark;

    put(&quotient, model_constant(model, 1, &filters, 1, 0));
    put_tensor(&quotient, scale);
    put_tensor(&cast, model_unary(model, "Floor", model_plain(model, "Div", quotient.text)));
    mark = model_node(model, "Cast", cast.text, &integers);
    mw_attr_int(&model->wire, "to", INLAY_INT32);
    wire_end(&model->wire, mark);
    mw_ints(&model->wire, "bias_shape", 1, 4, (const int64_t[]){ 1, -1, 1, 1 });
    put_tensor(&view, integers);
    put(&view, "bias_shape");
    reshaped = model_plain(model, "Reshape", view.text);
    put_tensor(&sum, first ? reshaped : y);
    put_tensor(&sum, first ? y : reshaped);
    return model_plain(model, "Add", sum.text);
}

/* ConvInteger, alone or in the pattern of dynamic quantization. */
static void one_integer_conv(uint64_t seed)
{
    region_model model;
    uint64_t dice = seed * 53;
    bool dynamic = random_between(&dice, 0, 1), zero = random_between(&dice, 0, 2) > 0,
         depthwise = random_between(&dice, 0, 2) == 0;
    int x_type = dynamic || random_between(&dice, 0, 1) ? U8 : S8, w_type = random_between(&dice, 0, 1) ? U8 : S8;
    int64_t in = random_between(&dice, 1, 3) * 8, pads[] = { 1, 0, 1, 2 },
            group = depthwise ? in : (int64_t[]){ 1, 2, 4 }[random_between(&dice, 0, 2)];
    int64_t out = depthwise ? in : group * random_between(&dice, 1, 40), w[] = { out, in / group, 3, 3 },
            x[] = { 1, in, 9, 8 };
    /* Weights minus their zero point reach both ends of int8 as far as uint8 does. */
    int64_t around = w_type == S8 ? 0 : random_between(&dice, 0, 1) ? 128 : random_between(&dice, 0, 255);
    int64_t least = w_type == S8   ? -128
                    : around > 128 ? around - 128
                                   : 0,
            most = w_type == S8   ? 127
                   : around < 128 ? around + 127
                                  : 255;
    char dims[32];
    uint32_t y;
    struct list list = { "" };
    wire_mark mark, g;

    (void)snprintf(dims, sizeof dims, "N,%lld,H,W", (long long)in);
    g = open_graph(&model, seed, dynamic ? INLAY_FLOAT : x_type, dims);
    if (dynamic) {
        wire_end(&model.wire, mw_node_begin(&model.wire, "DynamicQuantizeLinear", "t0", "xq,xs,xz"));
        put(&list, "xq");
    } else {
        put_tensor(&list, 0);
    }
    put(&list, ints(&model, w_type, 4, w, least, most));
    if (dynamic)
        put(&list, "xz");
    else if (zero)
        put_zero(&model, &list, x_type, 0, 1, false);
    if (dynamic || zero)
        put(&list, ints(&model, w_type, 0, NULL, around, around));
    mark = model_node(&model, "ConvInteger", list.text, &y);
    mw_attr_ints(&model.wire, "pads", 4, pads);
    mw_attr_int(&model.wire, "group", group);
    wire_end(&model.wire, mark);
    if (dynamic) {
        struct list s = { "xs" }, c = { "" };
        uint32_t floats, scale;

        put(&s, model_constant(&model, 0, NULL, 0, 0.01f));
        scale = model_plain(&model, "Mul", s.text);
        if (random_between(&dice, 0, 1))
            y = add_integer_bias(&model, y, scale, out, random_between(&dice, 0, 1));
        put_tensor(&c, y);
        mark = model_node(&model, "Cast", c.text, &floats);
        mw_attr_int(&model.wire, "to", INLAY_FLOAT);
        wire_end(&model.wire, mark);
        y = model_binary(&model, "Mul", floats, scale);
        if (random_between(&dice, 0, 1))
            y = model_unary(&model, "Relu", y);
    }
    close_graph(&model, g, y, dynamic ? INLAY_FLOAT : I32);
    against_reference(&model, seed, dynamic ? INLAY_FLOAT : x_type, 4, x, dynamic ? 2e-3 : 0, 0, 1,
                      "integer convolution");
}

static void convolutions(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= random_rounds(200); seed++)
        one_conv(seed);
    for (uint64_t seed = 1; seed <= random_rounds(60); seed++)
        one_integer_conv(seed);
}

/* MatMulInteger, alone or in the pattern into which dynamic quantization converts a MatMul. */
static void one_product(uint64_t seed)
{
    region_model model;
    uint64_t dice = seed * 77;
    bool dynamic = random_between(&dice, 0, 1), each = random_between(&dice, 0, 1),
         zeros = random_between(&dice, 0, 2) > 0;
    int x_type = dynamic || random_between(&dice, 0, 1) ? U8 : S8, w_type = random_between(&dice, 0, 1) ? U8 : S8;
    const bool wide = seed % 8 == 5; /* columns beyond those whose sums are finished together */
    int64_t k = random_between(&dice, 1, 90), n = random_between(&dice, 1, wide ? 600 : 70), w[] = { k, n },
            x[] = { random_between(&dice, 1, 3), random_between(&dice, 1, 40), k };
    int y_type = dynamic ? INLAY_FLOAT : I32;
    uint32_t y;
    char dims[32];
    struct list list = { "" };
    wire_mark mark;

    (void)snprintf(dims, sizeof dims, "B,S,%lld", (long long)k);
    mark = open_graph(&model, seed, dynamic ? INLAY_FLOAT : x_type, dims);
    if (dynamic) {
        wire_mark q = mw_node_begin(&model.wire, "DynamicQuantizeLinear", "t0", "xq,xs,xz");

        wire_end(&model.wire, q);
        put(&list, "xq");
    } else {
        put_tensor(&list, 0);
    }
    put(&list, weights(&model, seed, w_type, 2, w));
    if (dynamic)
        put(&list, "xz");
    else if (zeros)
        put_zero(&model, &list, x_type, 0, 1, false);
    if (zeros || dynamic)
        put_zero(&model, &list, w_type, each, each ? n : 1, false);
    y = model_plain(&model, "MatMulInteger", list.text);
    if (dynamic) {
        struct list s = { "xs" }, c = { "" }, scaled = { "" };
        wire_mark cast;
        uint32_t floats, scale;

        put_scale(&model, &s, each, each ? n : 1, 0.01f);
        scale = model_plain(&model, "Mul", s.text);
        put_tensor(&c, y);
        cast = model_node(&model, "Cast", c.text, &floats);
        mw_attr_int(&model.wire, "to", INLAY_FLOAT);
        wire_end(&model.wire, cast);
        y = random_between(&dice, 0, 1) ? model_binary(&model, "Mul", floats, scale)
                                        : model_binary(&model, "Mul", scale, floats);
        put_tensor(&scaled, y);
        put(&scaled, model_constant(&model, 1, &n, 1, 0));
        if (random_between(&dice, 0, 2))
            y = model_plain(&model, "Add", scaled.text);
        if (random_between(&dice, 0, 1))
            y = model_unary(&model, random_between(&dice, 0, 1) ? "Relu" : "Tanh", y);
        else if (random_between(&dice, 0, 1)) { /* the kernel rounds as the single operators do */
            struct list q = { "" };

            y_type = random_between(&dice, 0, 1) ? U8 : S8;
            put_tensor(&q, y);
            put_scale(&model, &q, 0, 1, 0.02f);
            put_zero(&model, &q, y_type, 0, 1, false);
            y = model_plain(&model, "QuantizeLinear", q.text);
        }
    }
    close_graph(&model, mark, y, y_type);
    against_reference(&model, seed, dynamic ? INLAY_FLOAT : x_type, 3, x, y_type == INLAY_FLOAT ? 2e-4 : 0, 0, 1,
                      "product");
}

/* MatMulInteger of two computed matrices, and of batches of them. */
static void one_computed_product(uint64_t seed)
{
    static const struct {
        uint32_t rank;
        int64_t turn[4]; /* of the matrix */
        const char *dims;
    } forms[] = { { 2, { 1, 0 }, "%lld,%lld" },
                  { 2, { 1, 0 }, "R,%lld" },
                  { 3, { 0, 2, 1 }, "B,R,%lld" },
                  { 4, { 1, 0, 3, 2 }, "1,R,S,%lld" } }; /* [R, 1, k, S]: both operands are broadcast */
    region_model model;
    uint64_t dice = seed * 83;
    const uint64_t form = seed % 4;
    const uint32_t rank = forms[form].rank;
    const bool dynamic = random_between(&dice, 0, 1), zeros = random_between(&dice, 0, 2) > 0;
    const int types[] = { random_between(&dice, 0, 1) ? U8 : S8, random_between(&dice, 0, 1) ? U8 : S8 };
    const int64_t k = random_between(&dice, 1, 90), rows = random_between(&dice, 1, seed % 8 < 4 ? 40 : 300);
    int64_t x[] = { form == 3 ? 1 : random_between(&dice, 1, 5), random_between(&dice, 1, 9), rows, k };
    char dims[48];
    struct list list = { "" }, turned = { "t0" }, zero = { "" };
    uint32_t t, y;
    wire_mark mark, node;

    (void)snprintf(dims, sizeof dims, forms[form].dims, (long long)(form == 0 ? rows : k), (long long)k);
    mark = open_graph(&model, seed, INLAY_FLOAT, dims);
    node = model_node(&model, "Transpose", turned.text, &t);
    mw_attr_ints(&model.wire, "perm", rank, forms[form].turn);
    wire_end(&model.wire, node);
    for (int side = 0; side < 2; side++) {
        struct list q = { "" };

        put_tensor(&q, side == 0 ? 0 : t);
        if (dynamic) {
            char outputs[32];

            (void)snprintf(outputs, sizeof outputs, "q%d,s%d,z%d", side, side, side);
            wire_end(&model.wire, mw_node_begin(&model.wire, "DynamicQuantizeLinear", q.text, outputs));
            put(&list, side == 0 ? "q0" : "q1");
            put(&zero, side == 0 ? "z0" : "z1");
            continue;
        }
        put_scale(&model, &q, 0, 1, 0.03f);
        put_zero(&model, &q, types[side], 0, 1, false);
        put_tensor(&list, model_plain(&model, "QuantizeLinear", q.text));
        if (zeros)
            put_zero(&model, &zero, types[side], side == 1 && form == 0, side == 1 && form == 0 ? rows : 1, false);
    }
    if (zeros || dynamic)
        put(&list, zero.text);
    y = model_plain(&model, "MatMulInteger", list.text);
    close_graph(&model, mark, y, I32);
    against_reference(&model, seed, INLAY_FLOAT, rank, x + 4 - rank, 0, 0, 1, "computed product");
}

/* QLinearMatMul. */
static void one_linear_product(uint64_t seed)
{
    region_model model;
    uint64_t dice = seed * 91;
    bool each = random_between(&dice, 0, 1);
    int x_type = random_between(&dice, 0, 1) ? U8 : S8, w_type = random_between(&dice, 0, 1) ? U8 : S8,
        y_type = random_between(&dice, 0, 1) ? U8 : S8;
    int64_t k = random_between(&dice, 1, 90), n = random_between(&dice, 1, 70), w[] = { k, n },
            x[] = { random_between(&dice, 1, 3), random_between(&dice, 1, 40), k };
    char dims[32];
    struct list list = { "" };
    uint32_t y;
    wire_mark mark;

    (void)snprintf(dims, sizeof dims, "B,S,%lld", (long long)k);
    mark = open_graph(&model, seed, x_type, dims);
    put_tensor(&list, 0);
    put_scale(&model, &list, 0, 1, 0.02f);
    put_zero(&model, &list, x_type, 0, 1, false);
    put(&list, weights(&model, seed, w_type, 2, w));
    put_scale(&model, &list, each, each ? n : 1, 0.01f);
    put_zero(&model, &list, w_type, each, each ? n : 1, false);
    put_scale(&model, &list, 0, 1, 0.1f);
    put_zero(&model, &list, y_type, 0, 1, false);
    y = model_plain(&model, "QLinearMatMul", list.text);
    close_graph(&model, mark, y, y_type);
    against_reference(&model, seed, x_type, 3, x, 0, 0, 1, "QLinearMatMul");
}

static void products(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= random_rounds(150); seed++)
        one_product(seed);
    for (uint64_t seed = 1; seed <= random_rounds(120); seed++)
        one_computed_product(seed);
    for (uint64_t seed = 1; seed <= random_rounds(60); seed++)
        one_linear_product(seed);
}

struct network {
    region_model model;
    float scale; /* of the last quantized tensor */
    int type;
};

static uint32_t linear(struct network *network, const char *op, uint32_t x, float scale, int type, int64_t zero)
{
    struct list list = { "" };

    put_tensor(&list, x);
    put(&list, model_constant(&network->model, 0, NULL, 0, scale));
    put(&list, ints(&network->model, type, 0, NULL, zero, zero));
    return model_plain(&network->model, op, list.text);
}

/* QuantizeLinear and DequantizeLinear of x. */
static uint32_t through_bytes(struct network *network, uint32_t x, float scale)
{
    int64_t zero;

    network->type = random_between(&network->model.dice, 0, 1) ? U8 : S8;
    zero = lowest(network->type) + random_between(&network->model.dice, 100, 150);
    network->scale = scale;
    return linear(network, "DequantizeLinear", linear(network, "QuantizeLinear", x, scale, network->type, zero), scale,
                  network->type, zero);
}

/* Constant weights with DequantizeLinear, with one scale per index of the axis. */
static void put_weights(struct network *network, struct list *list, uint32_t rank, const int64_t *dims, int64_t axis,
                        float size)
{
    region_model *model = &network->model;
    bool each = random_between(&model->dice, 0, 1);
    struct list w = { "" };
    wire_mark node;
    uint32_t y;

    put(&w, ints(model, S8, rank, dims, -127, 127));
    put_scale(model, &w, each, each ? dims[axis] : 1, size / 127);
    put(&w, ints(model, S8, each, each ? &dims[axis] : NULL, 0, 0));
    node = model_node(model, "DequantizeLinear", w.text, &y);
    if (each)
        mw_attr_int(&model->wire, "axis", axis);
    wire_end(&model->wire, node);
    put_tensor(list, y);
}

static uint32_t network_step(struct network *network, uint32_t x, int64_t *channels)
{
    static const char *const functions[] = { "Relu", "HardSwish", "Sigmoid", "LeakyRelu", "Tanh" };
    region_model *model = &network->model;
    int64_t out = random_between(&model->dice, 0, 1) ? 16 : 24, w[] = { out, *channels, 3, 3 }, pads[] = { 1, 1, 1, 1 };
    struct list list = { "" };
    uint32_t y;
    wire_mark mark;

    switch (random_between(&model->dice, 0, 4)) {
    case 0: /* pooling, a function */
        return through_bytes(
            network, model_pool(model, random_between(&model->dice, 0, 1) ? "MaxPool" : "AveragePool", x), 0.03f);
    case 1: /* residual */
        y = through_bytes(network, model_unary(model, functions[random_between(&model->dice, 0, 4)], x), 0.02f);
        y = random_between(&model->dice, 0, 1) ? model_binary(model, "Add", x, y) : model_binary(model, "Mul", y, x);
        return through_bytes(network, random_between(&model->dice, 0, 1) ? model_unary(model, "Relu", y) : y, 0.03f);
    case 2: /* depthwise */
        w[0] = out = *channels;
        w[1] = 1;
        break;
    default:
        break;
    }
    put_tensor(&list, x);
    put_weights(network, &list, 4, w, 0, 0.5f / (float)w[1]);
    if (random_between(&model->dice, 0, 1))
        put(&list, model_constant(model, 1, &out, 0.3f, 0));
    mark = model_node(model, "Conv", list.text, &y);
    mw_attr_ints(&model->wire, "pads", 4, pads);
    mw_attr_int(&model->wire, "group", w[1] == 1 ? *channels : 1);
    wire_end(&model->wire, mark);
    *channels = out;
    if (random_between(&model->dice, 0, 1))
        y = model_unary(model, "Relu", y);
    return through_bytes(network, y, 0.03f);
}

static void one_network(uint64_t seed)
{
    struct network network;
    int64_t channels = 16, x[] = { 1 + (int64_t)seed % 2, 16, 9, 11 }, flat[2];
    uint32_t y, steps = 1 + seed % 4;
    struct list list = { "" };
    wire_mark mark;

    mark = open_graph(&network.model, seed, INLAY_FLOAT, "N,16,H,W");
    y = through_bytes(&network, 0, 0.03f);
    for (uint32_t s = 0; s < steps; s++)
        y = network_step(&network, y, &channels);
    if (seed % 3 == 0) { /* a classifier */
        y = model_axis(&network.model, "Flatten",
                       (put_tensor(&list, model_unary(&network.model, "GlobalAveragePool", y)), list.text), 1);
        y = through_bytes(&network, y, 0.03f);
        list = (struct list){ "" };
        put_tensor(&list, y);
        flat[0] = channels;
        flat[1] = 10;
        put_weights(&network, &list, 2, flat, 1, 0.4f);
        put(&list, model_constant(&network.model, 1, &flat[1], 0.3f, 0));
        y = model_plain(&network.model, "Gemm", list.text);
    }
    close_graph(&network.model, mark, y, INLAY_FLOAT);
    /* One step of the scale per layer, and its effect on the layers after it. */
    against_reference(&network.model, seed, INLAY_FLOAT, 4, x, 0.03 * (1 + steps), 1e-5,
                      seed % 3 == 0 ? 1 : 0.03 * steps, "network");
}

static void networks(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= random_rounds(120); seed++)
        one_network(seed);
}

/* Weights with any zero point, with one scale or one per filter. */
static void put_any_weights(struct network *network, struct list *list, const int64_t *dims, bool centred)
{
    region_model *model = &network->model;
    const bool each = random_between(&model->dice, 0, 1);
    const int type = random_between(&model->dice, 0, 1) ? S8 : U8;
    const int64_t middle = lowest(type) + 128, off = centred ? 0 : 100;
    struct list w = { "" };
    wire_mark node;
    uint32_t y;

    put(&w, ints(model, type, 4, dims, lowest(type), lowest(type) + 255));
    put_scale(model, &w, each, each ? dims[0] : 1, 0.004f);
    put(&w, ints(model, type, each, each ? dims : NULL, middle - off, middle + off));
    node = model_node(model, "DequantizeLinear", w.text, &y);
    if (each)
        mw_attr_int(&model->wire, "axis", 0);
    wire_end(&model->wire, node);
    put_tensor(list, y);
}

/* Adds what follows the convolution: nothing, a function, scale and shift, the input, another tensor, or
 * QuantizeLinear. */
static uint32_t ending(struct network *network, uint32_t x, uint32_t y, int64_t channels, bool same, double *most)
{
    static const char *const functions[] = { "Relu", "HardSwish", "Sigmoid", "Tanh" };
    region_model *model = &network->model;
    const int64_t wide[] = { channels, 1, 1 };
    struct list scaled = { "" }, shifted = { "" };

    if (random_between(&model->dice, 0, 2) == 0)
        return y;
    *most = 2e-5;
    y = model_unary(model, functions[random_between(&model->dice, 0, 3)], y);
    if (random_between(&model->dice, 0, 1)) {
        put_tensor(&scaled, y);
        put(&scaled, random_between(&model->dice, 0, 1) ? model_constant(model, 3, wide, 1, 0.5f)
                                                        : model_constant(model, 0, NULL, 0, 0.7f));
        y = model_plain(model, "Mul", scaled.text);
        put_tensor(&shifted, y);
        put(&shifted, model_constant(model, 3, wide, 1, 0.5f));
        y = model_plain(model, "Add", shifted.text);
    }
    if (same && random_between(&model->dice, 0, 1))
        y = model_binary(model, "Add", x, y);
    return y;
}

static void one_float_conv(uint64_t seed)
{
    static const int64_t widths[] = { 3, 8, 16, 20, 33, 64, 72, 100, 130 };
    struct network network;
    region_model *model = &network.model;
    uint64_t dice = seed * 17;
    const bool depthwise = random_between(&dice, 0, 2) == 0, bytes = random_between(&dice, 0, 2) == 0,
               centred = random_between(&dice, 0, 2) > 0;
    const int64_t in = widths[random_between(&dice, 0, 8)], out = depthwise ? in : widths[random_between(&dice, 0, 8)],
                  size = random_between(&dice, 1, 3);
    const int64_t w[] = { out, depthwise ? 1 : in, size, size }, pads[] = { size / 2, size / 2, size / 2, size / 2 };
    const int64_t stride = random_between(&dice, 1, 2), strides[] = { stride, stride },
                  x[] = { random_between(&dice, 1, 2), in, 9, 11 };
    double most =
        centred && (!depthwise || in >= 16) ? 0 : 1e-5; /* AVX2 has no depthwise int8 kernel for so few channels */
    char dims[32];
    struct list list = { "" };
    wire_mark mark, c;
    uint32_t y;

    (void)snprintf(dims, sizeof dims, "N,%lld,H,W", (long long)in);
    mark = open_graph(model, seed, INLAY_FLOAT, dims);
    put_tensor(&list, through_bytes(&network, 0, 0.03f));
    put_any_weights(&network, &list, w, centred);
    if (random_between(&dice, 0, 1))
        put(&list, model_constant(model, 1, &out, 0.3f, 0));
    c = model_node(model, "Conv", list.text, &y);
    mw_attr_ints(&model->wire, "pads", 4, pads);
    mw_attr_ints(&model->wire, "strides", 2, strides);
    mw_attr_int(&model->wire, "group", depthwise ? in : 1);
    wire_end(&model->wire, c);
    y = ending(&network, 0, y, out, stride == 1 && out == in && size % 2 == 1, &most);
    if (is_below_avx2())
        most = 5e-4; /* no int8 kernel: float sums of up to a thousand terms without fused multiply-add */
    if (bytes)
        y = through_bytes(&network, y, 0.05f);
    close_graph(model, mark, y, INLAY_FLOAT);
    {
        const bool exact = most == 0;
        struct rig ours = open_rig(&model->wire, "cpu,reference", seed % 3 ? "99" : "0", seed % 2 ? "1" : "2");
        struct rig theirs = model_open(&model->wire, (const char *const[]){ "providers", "reference", "level", "0",
                                                                            "pass", "quantized_ops", NULL });

        assert_false(model->wire.failed);
        agree(&ours, &theirs, INLAY_FLOAT, 4, x, seed, bytes && !exact ? 0.0501 : most, bytes ? 1e-6 : most,
              bytes ? 0.02 : 0, "convolution into floats");
        rig_close(&ours);
        rig_close(&theirs);
        wire_deinit(&model->wire);
    }
}

static void float_convolutions(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= random_rounds(200); seed++)
        one_float_conv(seed);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(convolutions), cmocka_unit_test(tall_windows),
                                        cmocka_unit_test(products), cmocka_unit_test(networks),
                                        cmocka_unit_test(float_convolutions) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
