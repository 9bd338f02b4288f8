/* Limits of integers, in sessions: division by 0 and by -1, conversion from floats out of range, and tensor sizes
 * that are too large. Each for values that are known when the model is loaded, when a plan is built, and during the
 * run. */
#include "rig.h"
#include <malloc.h>
#include <math.h>

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static const char *const provider_lists[] = {
    "reference",
    "cpu,reference",
#ifdef HAVE_OPENBLAS
    "openblas,reference",
#endif
};

static const inlay_dtype integer_types[] = { INLAY_INT8,  INLAY_INT16,  INLAY_INT32,  INLAY_INT64,
                                             INLAY_UINT8, INLAY_UINT16, INLAY_UINT32, INLAY_UINT64 };

/* Writes count elements of an integer type, converted from int64. */
static void put_integers(inlay_dtype dtype, void *to, size_t count, const int64_t *values)
{
    size_t bytes = inlay_dtype_bits(dtype) / 8;

    for (size_t i = 0; i < count; i++)
        memcpy((char *)to + i * bytes, &values[i], bytes); /* little endian: the low bytes come first */
}

static void add_constant(struct wire *wire, const char *name, inlay_dtype dtype, uint32_t rank, int64_t count,
                         const int64_t *values)
{
    wire_mark mark = wire_begin(wire, MW_INITIALIZER);
    char raw[64];

    mw_tensor_head(wire, name, (int)dtype, rank, &count);
    put_integers(dtype, raw, (size_t)count, values);
    wire_bytes(wire, 9, raw, (size_t)count * inlay_dtype_bits(dtype) / 8);
    wire_end(wire, mark);
}

static void add_node(struct wire *wire, const char *op, const char *name, const char *inputs, const char *outputs,
                     int64_t fmod)
{
    wire_mark mark = mw_node_begin(wire, op, inputs, outputs);

    wire_text(wire, 3, name);
    if (fmod != 0)
        mw_attr_int(wire, "fmod", fmod);
    wire_end(wire, mark);
}

/* Opens a session and runs it. Returns the status; the message is in diag. */
static inlay_status open_and_run(struct rig *rig, struct wire *wire, const char *providers, inlay_diag *diag,
                                 void (*bind)(struct rig *rig, const void *user), const void *user)
{
    const char *const options[] = { "providers", providers, NULL };
    inlay_status status = rig_try_open(wire, options, rig, diag);

    if (status != INLAY_OK)
        return status;
    bind(rig, user);
    return inlay_context_run(rig->context, NULL, diag);
}

struct division {
    const char *op;
    int64_t fmod;
    inlay_dtype dtype;
    const char *a_shape, *b_shape;
    int64_t a[2], b[2];
};

static void bind_division(struct rig *rig, const void *user)
{
    const struct division *division = user;
    char raw[16];

    put_integers(division->dtype, raw, 2, division->a);
    rig_set(rig, 0, division->dtype, division->a_shape, raw);
    put_integers(division->dtype, raw, 2, division->b);
    rig_set(rig, 1, division->dtype, division->b_shape, raw);
}

static void bind_nothing(struct rig *rig, const void *user)
{
    (void)rig;
    (void)user;
}

static void expect_division_error(inlay_status status, const inlay_diag *diag, const char *op)
{
    assert_int_equal(status, INLAY_INVALID_ARGUMENT);
    assert_string_equal(diag->node, "half");
    assert_non_null(strstr(diag->text, op));
    assert_non_null(strstr(diag->text, "'half'"));
    assert_non_null(strstr(diag->text, "of the divisor is 0"));
    assert_null(strchr(diag->text, '\n'));
}

static void divide(const struct division *division, const char *providers, bool constant)
{
    struct wire wire = { 0 };
    wire_mark mark = mw_begin(&wire, 8, 17);
    inlay_diag diag = INLAY_DIAG_INIT;
    bool vector = division->b_shape[0] != '\0';
    struct rig rig;

    if (constant) {
        add_constant(&wire, "a", division->dtype, 1, 2, division->a);
        add_constant(&wire, "b", division->dtype, vector, vector ? 2 : 1, division->b);
    } else {
        mw_value(&wire, MW_INPUT, "a", (int)division->dtype, division->a_shape);
        mw_value(&wire, MW_INPUT, "b", (int)division->dtype, division->b_shape);
    }
    add_node(&wire, division->op, "half", "a,b", "y", division->fmod);
    mw_value(&wire, MW_OUTPUT, "y", (int)division->dtype, NULL);
    wire_end(&wire, mark);
    expect_division_error(
        open_and_run(&rig, &wire, providers, &diag, constant ? bind_nothing : bind_division, division), &diag,
        division->op);
    rig_close(&rig);
}

static void division_by_zero_names_the_node(void **state)
{
    (void)state;
    for (size_t provider_list = 0; provider_list < COUNT(provider_lists); provider_list++)
        for (size_t type = 0; type < COUNT(integer_types); type++)
            for (int op = 0; op < 3; op++) {
                struct division division = {
                    op == 0 ? "Div" : "Mod", op == 2, integer_types[type], "2", "2", { 7, 9 }, { 2, 0 }
                };

                divide(&division, provider_lists[provider_list], false);
                divide(&division, provider_lists[provider_list], true);
                division.b_shape = "";
                division.b[0] = 0;
                divide(&division, provider_lists[provider_list], false);
                divide(&division, provider_lists[provider_list], true);
            }
}

/* A size divided by 0 is reported when the sizes are known. */
static void sizes_divided_by_zero(void **state)
{
    static const int64_t zero = 0, first = 0;

    (void)state;
    for (int op = 0; op < 2; op++) {
        const char *name = op == 0 ? "Div" : "Mod";
        struct wire wire = { 0 };
        wire_mark mark = mw_begin(&wire, 8, 17);
        inlay_diag diag = INLAY_DIAG_INIT;
        struct rig rig;

        mw_value(&wire, MW_INPUT, "x", RIG_FLOAT, "N");
        mw_ints(&wire, "zero", 0, 1, &zero);
        mw_ints(&wire, "first", 0, 1, &first);
        mw_node(&wire, "Shape", "x", "shape");
        mw_node(&wire, "Gather", "shape,first", "n");
        add_node(&wire, name, "half", "n,zero", "y", 0);
        mw_value(&wire, MW_OUTPUT, "y", RIG_INT64, NULL);
        wire_end(&wire, mark);
        rig = rig_open(&wire, NULL);
        rig_floats(&rig, 0, "3", (float[]){ 1, 2, 3 });
        expect_division_error(inlay_context_run(rig.context, NULL, &diag), &diag, name);
        rig_close(&rig);
    }
}

/* Does each call of `step` leak memory, even a single small block? The allocator also counts freed blocks in its
 * per-thread cache as used. That cache stops growing after a few windows; a leak grows in each window. */
static bool leaks(void (*step)(void *data), void *data)
{
    enum { WINDOWS = 8, STEPS = 32, LEAST_LEAK = 32 * STEPS };

    for (int window = 0; window < WINDOWS; window++) {
        const size_t before = mallinfo2().uordblks;

        for (int i = 0; i < STEPS; i++)
            step(data);
        if (mallinfo2().uordblks < before + LEAST_LEAK)
            return false;
    }
    return true;
}

static void run_into_zero(void *context)
{
    inlay_diag diag = INLAY_DIAG_INIT;

    expect_division_error(inlay_context_run(context, NULL, &diag), &diag, "Div");
}

static void fold_into_zero(void *by_zero)
{
    divide(by_zero, "reference", true);
}

/* A failed run leaks no memory, and neither does a session whose constants cannot be divided. */
static void failures_leave_no_memory(void **state)
{
    struct division by_zero = { "Div", 0, INLAY_INT32, "2", "2", { 7, 9 }, { 2, 0 } };
    struct wire wire = { 0 };
    wire_mark mark = mw_begin(&wire, 8, 17);
    struct rig rig;

    (void)state;
    mw_value(&wire, MW_INPUT, "a", INLAY_INT32, "2");
    mw_value(&wire, MW_INPUT, "b", INLAY_INT32, "2");
    add_node(&wire, "Div", "half", "a,b", "y", 0);
    mw_value(&wire, MW_OUTPUT, "y", INLAY_INT32, NULL);
    wire_end(&wire, mark);
    rig = rig_open(&wire, (const char *const[]){ "intra_threads", "1", NULL });
    bind_division(&rig, &by_zero);
    assert_false(leaks(run_into_zero, rig.context));
    rig_close(&rig);
    assert_false(leaks(fold_into_zero, &by_zero));
}

/* A divisor of zero without elements to divide is no error. Floats divided by zero are infinite. */
static void zero_divisor_without_elements(void **state)
{
    struct wire wire = { 0 };
    wire_mark mark = mw_begin(&wire, 8, 17);
    struct rig rig;

    (void)state;
    mw_value(&wire, MW_INPUT, "a", INLAY_INT32, "N");
    mw_value(&wire, MW_INPUT, "b", INLAY_INT32, "");
    mw_value(&wire, MW_INPUT, "f", RIG_FLOAT, "1");
    mw_value(&wire, MW_INPUT, "g", RIG_FLOAT, "1");
    mw_node(&wire, "Div", "a,b", "y");
    mw_node(&wire, "Div", "f,g", "z");
    mw_value(&wire, MW_OUTPUT, "y", INLAY_INT32, NULL);
    mw_value(&wire, MW_OUTPUT, "z", RIG_FLOAT, NULL);
    wire_end(&wire, mark);
    rig = rig_open(&wire, NULL);
    rig_set(&rig, 0, INLAY_INT32, "0", &(int32_t){ 0 });
    rig_set(&rig, 1, INLAY_INT32, "", &(int32_t){ 0 });
    rig_floats(&rig, 2, "1", (float[]){ -3 });
    rig_floats(&rig, 3, "1", (float[]){ 0 });
    rig_run(&rig);
    rig_expect(inlay_context_output(rig.context, 0), INLAY_INT32, "0", &(int32_t){ 0 });
    rig_expect_floats(&rig, 1, "1", (float[]){ -INFINITY });
    rig_close(&rig);
}

/* The lowest number divided by -1 wraps, its remainder is 0: in vectors, for single elements, and folded. */
static void lowest_by_minus_one(void **state)
{
    enum { LONG = 70 };

    (void)state;
    for (size_t type = 0; type < 4; type++) {
        const inlay_dtype dtype = integer_types[type];
        const int64_t lowest = dtype == INLAY_INT64 ? INT64_MIN : -(INT64_C(1) << (inlay_dtype_bits(dtype) - 1)),
                      minus = -1;
        int64_t many[LONG], zeros[LONG] = { 0 };
        char raw[LONG * 8], none[LONG * 8];
        struct wire wire = { 0 };
        wire_mark mark = mw_begin(&wire, 8, 17);
        struct rig rig;

        mw_value(&wire, MW_INPUT, "a", (int)dtype, "N");
        add_constant(&wire, "b", dtype, 0, 1, &minus);
        add_constant(&wire, "c", dtype, 1, 1, &lowest);
        add_node(&wire, "Div", "d", "a,b", "y", 0);
        add_node(&wire, "Mod", "m", "a,b", "rest", 0);
        add_node(&wire, "Mod", "f", "a,b", "rest_c", 1);
        add_node(&wire, "Div", "e", "c,b", "folded", 0);
        add_node(&wire, "Mod", "n", "c,b", "folded_rest", 0);
        mw_value(&wire, MW_OUTPUT, "y", (int)dtype, NULL);
        mw_value(&wire, MW_OUTPUT, "rest", (int)dtype, NULL);
        mw_value(&wire, MW_OUTPUT, "rest_c", (int)dtype, NULL);
        mw_value(&wire, MW_OUTPUT, "folded", (int)dtype, NULL);
        mw_value(&wire, MW_OUTPUT, "folded_rest", (int)dtype, NULL);
        wire_end(&wire, mark);
        rig = rig_open(&wire, NULL);
        for (size_t i = 0; i < LONG; i++)
            many[i] = lowest;
        put_integers(dtype, raw, LONG, many);
        put_integers(dtype, none, LONG, zeros);
        for (int round = 0; round < 2; round++) {
            const char *shape = round == 0 ? "70" : "1";

            rig_set(&rig, 0, dtype, shape, raw);
            rig_run(&rig);
            rig_expect(inlay_context_output(rig.context, 0), dtype, shape, raw);
            rig_expect(inlay_context_output(rig.context, 1), dtype, shape, none);
            rig_expect(inlay_context_output(rig.context, 2), dtype, shape, none);
            rig_expect(inlay_context_output(rig.context, 3), dtype, "1", raw);
            rig_expect(inlay_context_output(rig.context, 4), dtype, "1", none);
        }
        rig_close(&rig);
    }
}

enum { VALUES = 12 };
static const double cast_from[VALUES] = {
    300, -1, -129, 255.9, -0.9, 3e9, -3e9, 1e20, -1e20, NAN, INFINITY, -INFINITY
};
/* The rule is in providers/operators/cast.c. Expected values are int64; each type has their low bits. */
static const struct {
    inlay_dtype to;
    int64_t want[VALUES];
} cast_rows[] = {
    { INLAY_INT8, { 44, -1, 127, -1, 0, -1, 0, -1, 0, 0, -1, 0 } },
    { INLAY_UINT8, { 44, 255, 127, 255, 0, 255, 0, 255, 0, 0, 255, 0 } },
    { INLAY_INT16, { 300, -1, -129, 255, 0, -1, 0, -1, 0, 0, -1, 0 } },
    { INLAY_UINT16, { 300, 65535, 65407, 255, 0, 65535, 0, 65535, 0, 0, 65535, 0 } },
    { INLAY_INT32, { 300, -1, -129, 255, 0, INT32_MAX, INT32_MIN, INT32_MAX, INT32_MIN, 0, INT32_MAX, INT32_MIN } },
    { INLAY_UINT32, { 300, -1, -129, 255, 0, 3000000000, -3000000000, -1, 0, 0, -1, 0 } },
    { INLAY_INT64, { 300, -1, -129, 255, 0, 3000000000, -3000000000, INT64_MAX, INT64_MIN, 0, INT64_MAX, INT64_MIN } },
    { INLAY_UINT64, { 300, -1, -129, 255, 0, 3000000000, -3000000000, -1, INT64_MIN, 0, -1, INT64_MIN } },
    { INLAY_BOOL, { 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1 } },
};

static void add_floats(struct wire *wire, const char *name, inlay_dtype dtype)
{
    wire_mark mark = wire_begin(wire, MW_INITIALIZER);
    const int64_t count = VALUES;
    float single[VALUES];

    for (int i = 0; i < VALUES; i++)
        single[i] = (float)cast_from[i];
    mw_tensor_head(wire, name, (int)dtype, 1, &count);
    wire_bytes(wire, 9, dtype == INLAY_FLOAT ? (const void *)single : (const void *)cast_from,
               dtype == INLAY_FLOAT ? sizeof single : sizeof cast_from);
    wire_end(wire, mark);
}

/* From float and double, in vectors of several lengths, for single elements, folded, and by CastLike: the results
 * are equal. */
static void one_cast(inlay_dtype from, size_t row, const char *providers)
{
    enum { TIMES = 7 };
    const inlay_dtype to = cast_rows[row].to;
    const size_t bytes = inlay_dtype_bits(from) / 8, result = inlay_dtype_bits(to) / 8;
    const char *const options[] = { "providers", providers, NULL };
    char x[TIMES * VALUES * 8], y[TIMES * VALUES * 8];
    const int64_t zero = 0;
    struct wire wire = { 0 };
    wire_mark mark = mw_begin(&wire, 8, 17);
    struct rig rig;

    mw_value(&wire, MW_INPUT, "x", (int)from, "N");
    add_floats(&wire, "known", from);
    add_constant(&wire, "like", to, 0, 1, &zero);
    mw_node_int(&wire, "Cast", "x", "y", "to", (int64_t)to);
    mw_node_int(&wire, "Cast", "known", "folded", "to", (int64_t)to);
    mw_node(&wire, "CastLike", "x,like", "z");
    mw_value(&wire, MW_OUTPUT, "y", (int)to, NULL);
    mw_value(&wire, MW_OUTPUT, "folded", (int)to, NULL);
    mw_value(&wire, MW_OUTPUT, "z", (int)to, NULL);
    wire_end(&wire, mark);
    rig = rig_open(&wire, options);
    for (int i = 0; i < TIMES * VALUES; i++) {
        float single = (float)cast_from[i % VALUES];

        memcpy(x + (size_t)i * bytes, from == INLAY_FLOAT ? (const void *)&single : &cast_from[i % VALUES], bytes);
        put_integers(to, y + (size_t)i * result, 1, &cast_rows[row].want[i % VALUES]);
    }
    rig_set(&rig, 0, from, "84", x);
    rig_run(&rig);
    rig_expect(inlay_context_output(rig.context, 0), to, "84", y);
    rig_expect(inlay_context_output(rig.context, 1), to, "12", y);
    rig_expect(inlay_context_output(rig.context, 2), to, "84", y);
    for (int i = 0; i < VALUES; i++) {
        rig_set(&rig, 0, from, "1", x + (size_t)i * bytes);
        rig_run(&rig);
        rig_expect(inlay_context_output(rig.context, 0), to, "1", y + (size_t)i * result);
        rig_expect(inlay_context_output(rig.context, 2), to, "1", y + (size_t)i * result);
    }
    rig_close(&rig);
}

static void floats_beyond_an_integer_type(void **state)
{
    (void)state;
    for (size_t provider_list = 0; provider_list < COUNT(provider_lists); provider_list++)
        for (size_t i = 0; i < COUNT(cast_rows); i++) {
            one_cast(INLAY_FLOAT, i, provider_lists[provider_list]);
            one_cast(INLAY_DOUBLE, i, provider_lists[provider_list]);
        }
}

/* Strings that are not integers follow the same rule, and so do floats that are converted through a wider type. */
static void strings_and_wider_types(void **state)
{
    static const char *const texts[VALUES] = { "300",  "-1",   "-129",  "255.9", "-0.9", "3e9",
                                               "-3e9", "1e20", "-1e20", "nan",   "inf",  "-inf" };

    (void)state;
    for (size_t i = 0; i < COUNT(cast_rows); i++) {
        const inlay_dtype to = cast_rows[i].to;
        char y[VALUES * 8];
        float single[VALUES];
        struct wire wire = { 0 };
        wire_mark mark = mw_begin(&wire, 8, 17);
        struct rig rig;

        mw_value(&wire, MW_INPUT, "x", RIG_STRING, "N");
        mw_value(&wire, MW_INPUT, "f", RIG_FLOAT, "N");
        mw_node_int(&wire, "Cast", "x", "y", "to", (int64_t)to);
        mw_node_int(&wire, "Cast", "f", "wide", "to", INLAY_DOUBLE);
        mw_node_int(&wire, "Cast", "wide", "z", "to", (int64_t)to);
        mw_value(&wire, MW_OUTPUT, "y", (int)to, NULL);
        mw_value(&wire, MW_OUTPUT, "z", (int)to, NULL);
        wire_end(&wire, mark);
        rig = rig_open(&wire, NULL);
        for (int k = 0; k < VALUES; k++)
            single[k] = (float)cast_from[k];
        put_integers(to, y, VALUES, cast_rows[i].want);
        rig_bind(&rig, 0, rig_texts(VALUES, texts));
        rig_floats(&rig, 1, "12", single);
        rig_run(&rig);
        rig_expect(inlay_context_output(rig.context, 0), to, "12", y);
        rig_expect(inlay_context_output(rig.context, 1), to, "12", y);
        rig_close(&rig);
    }
}

typedef struct size_row {
    const char *op, *inputs; /* "v" is the tensor of sizes, "x" is float [2, 3] */
    inlay_dtype dtype;       /* of v */
    uint32_t rank, count;    /* of v */
    double values[4];        /* of v; BIG is 2^62, HUGEST becomes 2^63 - 1 */
    inlay_status status;
} size_row;

#define BIG 0x1p62
#define HUGEST 0x1p63

static const size_row size_rows[] = {
    { "Pad", "x,v", INLAY_INT64, 1, 4, { 0, BIG, 0, 0 }, INLAY_LIMIT_EXCEEDED },
    { "Pad", "x,v", INLAY_INT64, 1, 4, { BIG, 0, BIG, 0 }, INLAY_LIMIT_EXCEEDED },
    { "Pad", "x,v", INLAY_INT64, 1, 4, { 0, 0, HUGEST, 0 }, INLAY_LIMIT_EXCEEDED },
    { "Pad", "x,v", INLAY_INT64, 1, 4, { -BIG, 0, 0, 0 }, INLAY_INVALID_MODEL },
    { "Pad", "x,v", INLAY_INT64, 1, 4, { -BIG, 0, -HUGEST, 0 }, INLAY_INVALID_MODEL },
    { "Expand", "x,v", INLAY_INT64, 1, 3, { BIG, 2, 3 }, INLAY_LIMIT_EXCEEDED },
    { "Expand", "x,v", INLAY_INT64, 1, 2, { -2, 3 }, INLAY_INVALID_MODEL },
    { "Tile", "x,v", INLAY_INT64, 1, 2, { BIG, 1 }, INLAY_LIMIT_EXCEEDED },
    { "Tile", "x,v", INLAY_INT64, 1, 2, { HUGEST, HUGEST }, INLAY_LIMIT_EXCEEDED },
    { "Tile", "x,v", INLAY_INT64, 1, 2, { -2, 1 }, INLAY_INVALID_MODEL },
    { "Resize", "x,_,_,v", INLAY_INT64, 1, 2, { BIG, 3 }, INLAY_LIMIT_EXCEEDED },
    { "Resize", "x,_,_,v", INLAY_INT64, 1, 2, { -2, 3 }, INLAY_INVALID_MODEL },
    { "Resize", "x,_,v", INLAY_FLOAT, 1, 2, { BIG, 1 }, INLAY_LIMIT_EXCEEDED },
    { "Resize", "x,_,v", INLAY_FLOAT, 1, 2, { 1e38, 1 }, INLAY_LIMIT_EXCEEDED },
    { "ConstantOfShape", "v", INLAY_INT64, 1, 2, { BIG, 2 }, INLAY_LIMIT_EXCEEDED },
    { "ConstantOfShape", "v", INLAY_INT64, 1, 1, { -2 }, INLAY_INVALID_MODEL },
    { "Range", "zero,v,one", INLAY_INT64, 0, 1, { BIG }, INLAY_LIMIT_EXCEEDED },
    { "Range", "low,v,one", INLAY_INT64, 0, 1, { BIG }, INLAY_LIMIT_EXCEEDED },
    { "Range", "zero_f,v,one_f", INLAY_FLOAT, 0, 1, { BIG }, INLAY_LIMIT_EXCEEDED },
    { "Range", "zero_f,v,one_f", INLAY_FLOAT, 0, 1, { 1e38 }, INLAY_LIMIT_EXCEEDED },
    { "HannWindow", "v", INLAY_INT64, 0, 1, { BIG }, INLAY_LIMIT_EXCEEDED },
    { "HannWindow", "v", INLAY_INT64, 0, 1, { -2 }, INLAY_INVALID_MODEL },
    { "Reshape", "x,v", INLAY_INT64, 1, 2, { BIG, BIG }, INLAY_LIMIT_EXCEEDED },
};

/* Writes the tensor of sizes as raw bytes. */
static size_t size_bytes(const size_row *row, char *raw)
{
    for (uint32_t i = 0; i < row->count; i++) {
        const double v = row->values[i];
        const int64_t whole = v >= 0x1p63 ? INT64_MAX : (int64_t)v;
        const float single = (float)v;

        memcpy(raw + i * inlay_dtype_bits(row->dtype) / 8,
               row->dtype == INLAY_FLOAT ? (const void *)&single : (const void *)&whole,
               inlay_dtype_bits(row->dtype) / 8);
    }
    return (size_t)row->count * inlay_dtype_bits(row->dtype) / 8;
}

static void bind_sizes(struct rig *rig, const void *user)
{
    const size_row *row = user;
    char raw[32], shape[4] = "";

    (void)size_bytes(row, raw);
    if (row->rank > 0)
        (void)snprintf(shape, sizeof shape, "%u", row->count);
    rig_floats(rig, 0, "2,3", (float[]){ 1, 2, 3, 4, 5, 6 });
    if (inlay_session_input_count(rig->session) > 1)
        rig_set(rig, 1, row->dtype, shape, raw);
}

static void one_size(const size_row *row, bool constant)
{
    const int64_t zero = 0, one = 1, low = INT64_MIN + 9, dims[1] = { row->count };
    struct wire wire = { 0 };
    wire_mark mark = mw_begin(&wire, 8, 17);
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_status status;
    char raw[32], shape[4] = "";
    struct rig rig;

    if (row->rank > 0)
        (void)snprintf(shape, sizeof shape, "%u", row->count);
    mw_value(&wire, MW_INPUT, "x", RIG_FLOAT, "2,3");
    mw_ints(&wire, "zero", 0, 1, &zero);
    mw_ints(&wire, "one", 0, 1, &one);
    mw_ints(&wire, "low", 0, 1, &low);
    mw_scalar(&wire, "zero_f", RIG_FLOAT, 0);
    mw_scalar(&wire, "one_f", RIG_FLOAT, 1);
    if (constant) {
        wire_mark t = wire_begin(&wire, MW_INITIALIZER);

        mw_tensor_head(&wire, "v", (int)row->dtype, row->rank, dims);
        wire_bytes(&wire, 9, raw, size_bytes(row, raw));
        wire_end(&wire, t);
    } else {
        mw_value(&wire, MW_INPUT, "v", (int)row->dtype, shape);
    }
    add_node(&wire, row->op, "big", row->inputs, "y", 0);
    mw_value(&wire, MW_OUTPUT, "y", strcmp(row->op, "Range") == 0 ? (int)row->dtype : RIG_FLOAT, NULL);
    wire_end(&wire, mark);
    status = open_and_run(&rig, &wire, "reference", &diag, bind_sizes, row);
    if (status != row->status || strstr(diag.text, "'big'") == NULL || strstr(diag.text, row->op) == NULL)
        fail_msg("%s of %g, %g: %d, %s", row->op, row->values[0], row->values[1], (int)status, diag.text);
    if (row->status == INLAY_LIMIT_EXCEEDED)
        assert_non_null(strstr(diag.text, "more elements than memory can hold"));
    assert_null(strchr(diag.text, '\n'));
    rig_close(&rig);
}

static void sizes_beyond_memory(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(size_rows); i++) {
        one_size(&size_rows[i], true);
        one_size(&size_rows[i], false);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(division_by_zero_names_the_node),
        cmocka_unit_test(sizes_divided_by_zero),
        cmocka_unit_test(failures_leave_no_memory),
        cmocka_unit_test(zero_divisor_without_elements),
        cmocka_unit_test(lowest_by_minus_one),
        cmocka_unit_test(floats_beyond_an_integer_type),
        cmocka_unit_test(strings_and_wider_types),
        cmocka_unit_test(sizes_beyond_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
