/* movement.c - operators that move data, in cases that ONNX's own tests lack: rank 0, empty axes, indices and sizes out
 * of range, extreme numbers. A row has inputs, attributes and the output, with its values or a part of the error
 * message. */
#include "simd/convert.h"
#include "kernel_case.h"
#include "random.h"
#include "operators/operators.h"
#include "operators/tables.h"
#include "reference/reference_tables.h"
#include <ctype.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

/* Tensors: a letter for the type, dimensions, and after "=" the values (0 without "="). f float, i int64, j int32, b
 * uint8, n int4, h float16, g bfloat16. "-" is an omitted tensor. */
struct row {
    const char *op_type;
    uint32_t since_version;
    const char *inputs, *attrs, *output;
    const char *message; /* a part of the error message; NULL: the run succeeds, and the output has its values */
};

static const struct row rows[] = {
#include "movement_rows.inc"
};

enum { MAX_VALUES = 160 };

struct tensor {
    inlay_dtype dtype;
    uint32_t rank;
    int64_t dims[8], count;
    double values[MAX_VALUES];
};

/* Reads one tensor and moves *at after it. */
static void parse_tensor(const char **at, struct tensor *tensor)
{
    static const struct {
        char letter;
        inlay_dtype dtype;
    } types[] = { { 'f', INLAY_FLOAT }, { 'i', INLAY_INT64 },  { 'j', INLAY_INT32 },   { 'b', INLAY_UINT8 },
                  { 'n', INLAY_INT4 },  { 'd', INLAY_DOUBLE }, { 'h', INLAY_FLOAT16 }, { 'g', INLAY_BFLOAT16 } };
    char *end;

    *tensor = (struct tensor){ .dtype = INLAY_UNDEFINED, .count = 1 };
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        tensor->dtype = types[i].letter == **at ? types[i].dtype : tensor->dtype;
    ++*at;
    if (tensor->dtype == INLAY_UNDEFINED)
        return;
    for (const char *p = *at + 1; *p != ']'; p = *end == ',' ? end + 1 : end, *at = p) {
        tensor->dims[tensor->rank] = strtoll(p, &end, 10);
        tensor->count *= tensor->dims[tensor->rank++];
    }
    *at = strchr(*at, ']') + 1;
    assert_in_range(tensor->count, 0, MAX_VALUES);
    for (int64_t i = 0; **at == '=' || **at == ','; i++) {
        tensor->values[i] = strtod(*at + 1, &end);
        if (tensor->dtype == INLAY_INT64 && (tensor->values[i] > 9e18 || tensor->values[i] < -9e18))
            tensor->values[i] = tensor->values[i] > 0 ? 9.3e18 : -9.3e18; /* saturates to the ends of int64 */
        *at = end;
    }
}

static struct guard store(const struct tensor *tensor)
{
    struct guard guard = guard_alloc((size_t)kit_bytes(tensor->dtype, tensor->count));

    convert_from_f64(tensor->dtype, guard.data, 0, tensor->count, tensor->values, 0);
    if (tensor->dtype == INLAY_INT64)
        for (int64_t i = 0; i < tensor->count; i++)
            if (tensor->values[i] > 9.2e18 || tensor->values[i] < -9.2e18)
                ((int64_t *)guard.data)[i] = tensor->values[i] > 0 ? INT64_MAX : INT64_MIN;
    return guard;
}

/* "axis=1 mode=edge perm=[1,0]" */
static void parse_attrs(kernel_case *c, const char *text, char *room, int64_t (*ints)[8])
{
    char *save = NULL;

    strcpy(room, text);
    for (char *word = strtok_r(room, " ", &save); word != NULL; word = strtok_r(NULL, " ", &save)) {
        char *value = strchr(word, '=');
        uint32_t count = 0;

        *value++ = '\0';
        if (*value == '[') {
            for (char *p = value + 1; *p != ']' && *p != '\0';) {
                (*ints)[count++] = strtoll(p, &p, 10);
                p += *p == ',';
            }
            kernel_case_ints(c, word, count, *ints++);
        } else if (isdigit((unsigned char)*value) || *value == '-') {
            kernel_case_int(c, word, strtoll(value, NULL, 10));
        } else {
            kernel_case_string(c, word, value);
        }
    }
}

static const kit_table *find_table(const char *op_type)
{
    static const kit_table *const tables[] = {
#define TABLE(stem) &operators_##stem,
#include "operators/tables.def"
#undef TABLE
#define TABLE(stem) &reference_##stem,
#include "reference/kernels.def"
#undef TABLE
    };

    for (size_t table = 0; table < sizeof tables / sizeof tables[0]; table++)
        for (uint32_t k = 0; k < tables[table]->count; k++)
            if (strcmp(tables[table]->kernels[k].op_type, op_type) == 0)
                return tables[table];
    return NULL;
}

static void run_row(const struct row *row)
{
    static kernel_case c;
    struct guard data[KERNEL_CASE_VALUES] = { { 0 } }, out;
    struct tensor tensor[KERNEL_CASE_VALUES], y;
    int64_t ints[4][8];
    char room[256];
    uint32_t n = 0;
    inlay_status status;
    const char *at = row->output;

    c = (kernel_case){ .op_type = row->op_type, .since_version = row->since_version };
    parse_tensor(&at, &y);
    for (at = row->inputs; *at != '\0'; at += *at == ' ', n++) {
        parse_tensor(&at, &tensor[n]);
        if (tensor[n].dtype != INLAY_UNDEFINED)
            data[n] = store(&tensor[n]);
        kernel_case_input(&c, tensor[n].dtype, tensor[n].rank, tensor[n].dims, data[n].data, false);
    }
    out = guard_alloc((size_t)kit_bytes(y.dtype, y.count));
    memset(out.data, 0x5a, (size_t)kit_bytes(y.dtype, y.count));
    kernel_case_output(&c, y.dtype, y.rank, y.dims, out.data);
    parse_attrs(&c, row->attrs, room, ints);
    status = kernel_case_prepare(&c, find_table(row->op_type));
    if (status == INLAY_OK)
        status = kernel_case_run(&c);
    if (row->message != NULL) {
        if (status == INLAY_OK || strstr(c.diag.text, row->message) == NULL)
            fail_msg("%s %s %s: status %d, '%s' lacks '%s'", row->op_type, row->inputs, row->attrs, (int)status,
                     c.diag.text, row->message);
    } else {
        if (status != INLAY_OK)
            fail_msg("%s %s %s: %s", row->op_type, row->inputs, row->attrs, c.diag.text);
        for (int64_t i = 0; i < y.count; i++) {
            const double got = convert_get_f64(y.dtype, out.data, i), want = y.values[i];

            if (!(got == want || (isnan(got) && isnan(want))))
                fail_msg("%s %s %s: [%d] is %g, not %g", row->op_type, row->inputs, row->attrs, (int)i, got, want);
        }
    }
    kernel_case_deinit(&c);
    for (uint32_t i = 0; i < n; i++)
        if (data[i].map != NULL)
            guard_free(&data[i]);
    guard_free(&out);
}

static void test_rows(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        run_row(&rows[i]);
}

/* TopK orders equal elements by index, in every type, for largest and smallest, sorted or not. */
static void test_top_k_ties(void **unused)
{
    static const double x[9] = { 1, 3, 3, 0, 3, 2, 3, 1, 0 };
    static const inlay_dtype types[] = { INLAY_FLOAT, INLAY_DOUBLE, INLAY_FLOAT16, INLAY_BFLOAT16,
                                         INLAY_INT8,  INLAY_INT16,  INLAY_INT32,   INLAY_INT64,
                                         INLAY_UINT8, INLAY_UINT16, INLAY_UINT32,  INLAY_UINT64 };
    static const int64_t best[2][9] = { { 3, 8, 0, 7, 5, 1, 2, 4, 6 }, { 1, 2, 4, 6, 5, 0, 7, 3, 8 } };
    static kernel_case c;

    (void)unused;
    for (size_t type = 0; type < sizeof types / sizeof types[0]; type++)
        for (int64_t largest = 0; largest < 2; largest++)
            for (int64_t k = 0; k <= 9; k++) {
                int64_t indices[9], in_dims[] = { 9 }, one[] = { 1 };
                double from[9], values[9];

                c = (kernel_case){ .op_type = "TopK", .since_version = 11 };
                convert_from_f64(types[type], from, 0, 9, x, 0);
                if (types[type] == INLAY_FLOAT)
                    ((float *)from)[8] = -0.0f; /* equal to the 0 ahead of it */
                kernel_case_input(&c, types[type], 1, in_dims, from, false);
                kernel_case_input(&c, INLAY_INT64, 1, one, &k, false);
                kernel_case_output(&c, types[type], 1, &k, values);
                kernel_case_output(&c, INLAY_INT64, 1, &k, indices);
                kernel_case_int(&c, "largest", largest);
                assert_int_equal(kernel_case_prepare(&c, &operators_top_k), INLAY_OK);
                assert_int_equal(kernel_case_run(&c), INLAY_OK);
                for (int64_t i = 0; i < k; i++) {
                    assert_int_equal(indices[i], best[largest][i]);
                    assert_true(convert_get_f64(types[type], values, i) == x[best[largest][i]]);
                }
                kernel_case_deinit(&c);
            }
}

/* True if input[a] comes before input[b]. NaN is the largest; of equal elements the lower index comes first. */
static bool comes_before(const double *input, int64_t a, int64_t b, bool largest)
{
    const bool more = isnan(input[a]) ? !isnan(input[b]) : input[a] > input[b],
               less = isnan(input[b]) ? !isnan(input[a]) : input[a] < input[b];

    return largest ? more || (!less && a < b) : less || (!more && a < b);
}

/* Sizes and k for each algorithm of TopK: comparing all elements, a heap, the best of parts, and collecting. Different
 * elements of wide types may be equal as floats. */
static void test_top_k_rows(void **unused)
{
    static const int64_t sizes[] = { 17, 64, 130, 192, 193, 1500, 6000 }, ks[] = { 1, 5, 16, 17, 60, 400 };
    static const inlay_dtype types[] = { INLAY_FLOAT,  INLAY_DOUBLE, INLAY_INT64,
                                         INLAY_UINT64, INLAY_INT32,  INLAY_FLOAT16 };
    enum { FEW, MANY, SPECIAL, RISING, CLOSE, KINDS, TYPES = sizeof types / sizeof *types };
    static double from[6000], x[6000], data[6000], values[6000];
    static int64_t indices[6000];
    static kernel_case c;
    uint64_t seed = 7;

    (void)unused;
    for (size_t n = 0; n < sizeof sizes / sizeof *sizes; n++)
        for (size_t m = 0; m < sizeof ks / sizeof *ks; m++)
            for (int way = 0; way < 2 * KINDS * TYPES; way++) {
                const bool largest = way % 2 == 0;
                const int kind = way / 2 % KINDS;
                const inlay_dtype type = types[way / 2 / KINDS];
                const int64_t count = sizes[n], k = ks[m] < count ? ks[m] : count, one = 1;
                const int64_t bytes = inlay_dtype_bits(type) / 8;

                if (type != INLAY_FLOAT && count > 1500)
                    continue;
                for (int64_t i = 0; i < count; i++) {
                    const uint64_t bits = random_bits(&seed);

                    from[i] = (double)(bits >> 8 & (kind == FEW ? 3 : 0xfffff));
                    if (kind == SPECIAL && bits >> 60 == 0)
                        from[i] = (bits >> 32 & 3) == 0 ? NAN : (bits >> 32 & 3) == 1 ? -INFINITY : INFINITY;
                    from[i] = kind == RISING  ? (double)i
                              : kind == CLOSE ? 0x7ffffc00 + (double)(bits >> 8 & 0xff)
                                              : from[i];
                }
                convert_from_f64(type, data, 0, count, from, 0);
                convert_to_f64(x, type, data, 0, count);
                c = (kernel_case){ .op_type = "TopK", .since_version = 11 };
                kernel_case_input(&c, type, 1, &count, data, false);
                kernel_case_input(&c, INLAY_INT64, 1, &one, &k, false);
                kernel_case_output(&c, type, 1, &k, values);
                kernel_case_output(&c, INLAY_INT64, 1, &k, indices);
                kernel_case_int(&c, "largest", largest);
                assert_int_equal(kernel_case_prepare(&c, &operators_top_k), INLAY_OK);
                assert_int_equal(kernel_case_run(&c), INLAY_OK);
                for (int64_t i = 0; i < k; i++) {
                    int64_t ahead = 0;

                    for (int64_t j = 0; j < count; j++)
                        ahead += comes_before(x, j, indices[i], largest);
                    assert_int_equal(ahead, i);
                    assert_memory_equal((char *)values + i * bytes, (char *)data + indices[i] * bytes, (size_t)bytes);
                }
                kernel_case_deinit(&c);
            }
}

/* TopK along an axis that is not the last gives what TopK of each row gives, for elements of each size. */
static void test_top_k_columns(void **unused)
{
    static const inlay_dtype types[] = { INLAY_FLOAT, INLAY_DOUBLE, INLAY_FLOAT16, INLAY_UINT8, INLAY_INT64 };
    static const int64_t inners[] = { 2, 15, 16, 17, 40 };
    enum { OUTER = 3, MOST = 70, ALL = OUTER * MOST * 40 };
    static double x[ALL], row[MOST], one_values[MOST], values[ALL];
    static int64_t one_indices[MOST], indices[ALL];
    static kernel_case c;
    uint64_t seed = 5;

    (void)unused;
    for (int round = 0; round < 150; round++) {
        const double scale = round % 3 == 0 ? 0x1p40 : 1; /* not exact as floats */
        const inlay_dtype type = types[round % 5];
        const int64_t inner = inners[round / 5 % 5], n = 1 + (int64_t)random_below(&seed, MOST), one = 1,
                      k = 1 + (int64_t)random_below(&seed, (uint64_t)n), dims[] = { OUTER, n, inner },
                      out_dims[] = { OUTER, k, inner }, bytes = inlay_dtype_bits(type) / 8;

        for (int64_t i = 0; i < OUTER * n * inner; i++) {
            const double whole = (double)random_below(&seed, 30),
                         value = whole * scale + (double)random_below(&seed, 3);

            convert_from_f64(type, x, i, 1, &value, 0);
        }
        c = (kernel_case){ .op_type = "TopK", .since_version = 11 };
        kernel_case_input(&c, type, 3, dims, x, false);
        kernel_case_input(&c, INLAY_INT64, 1, &one, &k, false);
        kernel_case_output(&c, type, 3, out_dims, values);
        kernel_case_output(&c, INLAY_INT64, 3, out_dims, indices);
        kernel_case_int(&c, "axis", 1);
        assert_int_equal(kernel_case_prepare(&c, &operators_top_k), INLAY_OK);
        assert_int_equal(kernel_case_run(&c), INLAY_OK);
        kernel_case_deinit(&c);
        for (int64_t r = 0; r < OUTER * inner; r++) {
            for (int64_t i = 0; i < n; i++)
                memcpy((char *)row + i * bytes, (char *)x + ((r / inner * n + i) * inner + r % inner) * bytes,
                       (size_t)bytes);
            c = (kernel_case){ .op_type = "TopK", .since_version = 11 };
            kernel_case_input(&c, type, 1, &n, row, false);
            kernel_case_input(&c, INLAY_INT64, 1, &one, &k, false);
            kernel_case_output(&c, type, 1, &k, one_values);
            kernel_case_output(&c, INLAY_INT64, 1, &k, one_indices);
            assert_int_equal(kernel_case_prepare(&c, &operators_top_k), INLAY_OK);
            assert_int_equal(kernel_case_run(&c), INLAY_OK);
            kernel_case_deinit(&c);
            for (int64_t i = 0; i < k; i++) {
                const int64_t at = (r / inner * k + i) * inner + r % inner;

                assert_int_equal(indices[at], one_indices[i]);
                assert_memory_equal((char *)values + at * bytes, (char *)one_values + i * bytes, (size_t)bytes);
            }
        }
    }
}

static void run_case(kernel_case *c)
{
    if (kernel_case_prepare(c, find_table(c->op_type)) != INLAY_OK || kernel_case_run(c) != INLAY_OK)
        fail_msg("%s: %s", c->op_type, c->diag.text);
    kernel_case_deinit(c);
}

/* Tile, Expand, GatherElements, MaxUnpool and ScatterElements of random shapes, by their definitions. */
static void test_moves_by_index(void **unused)
{
    static const inlay_dtype types[] = { INLAY_UINT8, INLAY_FLOAT16, INLAY_FLOAT, INLAY_DOUBLE, INLAY_COMPLEX128 };
    static const char *const names[] = { "Tile", "Expand", "GatherElements", "MaxUnpool", "ScatterElements" };
    enum { TILE, EXPAND, ELEMENTS, UNPOOL, SCATTER, KINDS, MOST = 1 << 19, RANK = 4 };
    static _Alignas(16) char x[16 * MOST + 16], y[16 * MOST], want[16 * MOST];
    static int64_t indices[MOST];
    static kernel_case c;
    static const int64_t kernel[] = { 2, 2 };
    uint64_t seed = 21;

    (void)unused;
    for (int64_t i = 0; i < (int64_t)sizeof x; i++)
        x[i] = (char)random_bits(&seed);
    for (int round = 0; round < 500; round++) {
        const int what = round % KINDS;
        const bool picks = what == ELEMENTS || what == SCATTER;
        const inlay_dtype type = types[random_below(&seed, 5)];
        const int64_t bytes = inlay_dtype_bits(type) / 8, rank = RANK, axis = (int64_t)random_below(&seed, RANK);
        int64_t in[RANK], out[RANK], given[RANK], count = 1, in_count = 1;

        for (int d = 0; d < RANK; d++) {
            in[d] = 1 + (int64_t)random_below(&seed, d == (int)random_below(&seed, RANK) ? 90 : 6);
            in_count *= in[d];
        }
        if (what == UNPOOL && round % 2 == 0)
            in[2] = in[3] = 60;
        in_count = in[0] * in[1] * in[2] * in[3];
        for (int d = 0; d < RANK; d++) {
            const int64_t some = 1 + (int64_t)random_below(&seed, d == axis ? 40 : 2);

            if (what == EXPAND && d == axis)
                in_count /= in[d], in[d] = 1;
            given[d] = what == TILE ? some : what == EXPAND ? (d == axis ? some : in[d]) : 0;
            out[d] = what == TILE     ? in[d] * some
                     : what == EXPAND ? given[d]
                     : picks          ? (d == axis                     ? some
                                         : random_below(&seed, 3) == 0 ? (in[d] + 1) / 2
                                                                       : in[d])
                                      : (d < 2 ? in[d] : 2 * in[d]);
            count *= out[d];
        }
        if (in_count > MOST || count > MOST)
            continue;
        c = (kernel_case){ .op_type = names[what], .since_version = what == UNPOOL ? 11 : 13, .threads = round % 3 };
        kernel_case_input(&c, type, RANK, in, x, false);
        if (what == UNPOOL) {
            for (int64_t i = 0; i < in_count; i++) { /* any order, or elements of the same plane */
                const int64_t plane = in[2] * in[3], block = round % 3 == 0 ? in_count : plane;

                indices[i] = (i / block * block + (i % block + 7) % block) * 4 + (int64_t)random_below(&seed, 4);
            }
            kernel_case_input(&c, INLAY_INT64, RANK, in, indices, false);
            kernel_case_ints(&c, "kernel_shape", 2, kernel);
            kernel_case_ints(&c, "strides", 2, kernel);
        } else if (picks) {
            for (int64_t i = 0; i < count; i++)
                indices[i] = (int64_t)random_below(&seed, 2 * (uint64_t)in[axis]) - in[axis];
            kernel_case_input(&c, INLAY_INT64, RANK, out, indices, false);
            if (what == SCATTER)
                kernel_case_input(&c, type, RANK, out, x + 16, false);
            kernel_case_int(&c, "axis", axis);
        } else {
            kernel_case_input(&c, INLAY_INT64, 1, &rank, given, false);
        }
        kernel_case_output(&c, type, RANK, what == SCATTER ? in : out, y);
        run_case(&c);
        if (what == SCATTER)
            memcpy(want, x, (size_t)(in_count * bytes));
        else
            memset(want, 0, (size_t)(count * bytes));
        for (int64_t i = 0; i < (what == UNPOOL ? in_count : count); i++) {
            int64_t from = 0, step = 1, rest = i;

            for (int d = RANK; d-- > 0 && what != UNPOOL; rest /= out[d], step *= in[d])
                from += (picks && d == axis ? (indices[i] + in[axis]) % in[axis] : rest % out[d] % in[d]) * step;
            if (what == UNPOOL)
                memcpy(want + indices[i] * bytes, x + i * bytes, (size_t)bytes);
            else if (what == SCATTER)
                memcpy(want + from * bytes, x + 16 + i * bytes, (size_t)bytes);
            else
                memcpy(want + i * bytes, x + from * bytes, (size_t)bytes);
        }
        assert_memory_equal(y, want, (size_t)((what == SCATTER ? in_count : count) * bytes));
    }
}

/* Windows of many lengths by their definition; the ends and the center are exact, and windows are symmetric. */
static void test_windows(void **unused)
{
    static const struct {
        const char *name;
        double of[3];
    } kinds[] = { { "HannWindow", { 0.5, -0.5, 0 } },
                  { "HammingWindow", { 25.0 / 46, -21.0 / 46, 0 } },
                  { "BlackmanWindow", { 0.42, -0.5, 0.08 } } };
    enum { LONGEST = 1030 };
    static double y[LONGEST];
    static kernel_case c;
    const long double pi = 3.14159265358979323846264L;

    (void)unused;
    for (int64_t n = 1; n <= LONGEST; n += n < 40 ? 1 : 33)
        for (int way = 0; way < 6; way++) {
            const bool periodic = way % 2 != 0;
            const int64_t period = periodic ? n : n - 1;
            const double *of = kinds[way / 2].of;

            c = (kernel_case){ .op_type = kinds[way / 2].name, .since_version = 17 };
            kernel_case_input(&c, INLAY_INT64, 0, NULL, &n, false);
            kernel_case_output(&c, INLAY_DOUBLE, 1, &n, y);
            kernel_case_int(&c, "output_datatype", 11);
            kernel_case_int(&c, "periodic", periodic);
            run_case(&c);
            for (int64_t i = 0; i < n; i++) {
                const long double angle = period == 0 ? pi : 2 * pi * (long double)i / (long double)period;

                assert_float_equal(y[i], (double)(of[0] + of[1] * cosl(angle) + of[2] * cosl(2 * angle)), 6e-16);
                if (i > 0 && i <= period)
                    assert_float_equal(y[i], i == period && periodic ? y[0] : y[period - i], 0);
            }
            assert_float_equal(y[0], period == 0 ? of[0] - of[1] + of[2] : of[0] + of[1] + of[2], 0);
            if (period > 0 && period % 2 == 0)
                assert_float_equal(y[period / 2], of[0] - of[1] + of[2], 0);
        }
}

/* Grids of two and three axes by their definition, with rows around the number of points that are computed at once. */
static void test_affine_grids(void **unused)
{
    static const int64_t widths[] = { 1, 2, 3, 255, 256, 257, 600 };
    enum { BATCHES = 2, DEPTH = 2, HEIGHT = 3, MOST = BATCHES * DEPTH * HEIGHT * 600 * 3 };
    static double y[MOST];
    static kernel_case c;
    uint64_t seed = 3;

    (void)unused;
    for (size_t w = 0; w < sizeof widths / sizeof widths[0]; w++)
        for (int way = 0; way < 4; way++) {
            const int64_t axes = 2 + way % 2, corners = way / 2, theta_dims[] = { BATCHES, axes, axes + 1 },
                          size_dims[] = { axes + 2 }, depth = axes == 3 ? DEPTH : 1,
                          spatial[] = { widths[w], HEIGHT, depth };
            const int64_t size[] = { BATCHES, 1, axes == 3 ? DEPTH : HEIGHT, axes == 3 ? HEIGHT : widths[w],
                                     widths[w] };
            const int64_t dims[] = { BATCHES, size[2], size[3], axes == 3 ? size[4] : axes, axes };
            double theta[BATCHES * 12];

            for (int64_t i = 0; i < BATCHES * axes * (axes + 1); i++)
                theta[i] = (double)random_signed(&seed);
            c = (kernel_case){ .op_type = "AffineGrid", .since_version = 20, .threads = 2 };
            kernel_case_input(&c, INLAY_DOUBLE, 3, theta_dims, theta, false);
            kernel_case_input(&c, INLAY_INT64, 1, size_dims, size, false);
            kernel_case_output(&c, INLAY_DOUBLE, (uint32_t)axes + 2, dims, y);
            kernel_case_int(&c, "align_corners", corners);
            run_case(&c);
            for (int64_t p = 0; p < BATCHES * depth * HEIGHT * widths[w]; p++) {
                double point[4];
                int64_t rest = p;

                for (int a = 0; a < axes; rest /= spatial[a], a++) {
                    const double at = (double)(rest % spatial[a]), count = (double)spatial[a];

                    point[a] = corners == 0 ? (2 * at + 1) / count - 1 : count > 1 ? 2 * at / (count - 1) - 1 : 0;
                }
                point[axes] = 1;
                for (int64_t k = 0; k < axes; k++) {
                    double sum = 0;

                    for (int64_t a = 0; a <= axes; a++)
                        sum += theta[(rest * axes + k) * (axes + 1) + a] * point[a];
                    assert_float_equal(y[p * axes + k], sum, 1e-14);
                }
            }
        }
}

/* The bins of MelWeightMatrix at the edges of bands are those that powers of ten give: also where the lower edge is
 * exactly a bin, which a rounding error would change. Each band rises to 1 at its center. */
static void test_mel_bins(void **unused)
{
    enum { MOST = 300 * 60 };
    static float y[MOST];
    static kernel_case c;
    uint64_t seed = 9;

    (void)unused;
    for (int round = 0; round < 400; round++) {
        const int64_t bands = 1 + (int64_t)random_below(&seed, 60), length = 16 + (int64_t)random_below(&seed, 580),
                      rate = 8000 + 1000 * (int64_t)random_below(&seed, 40);
        const int64_t dims[] = { length / 2 + 1, bands };
        const float low = (float)((double)rate / (double)(length + 1) * random_below(&seed, 4)), high = (float)rate / 2;
        const double from = 2595 * log10(1 + (double)low / 700), to = 2595 * log10(1 + (double)high / 700);

        c = (kernel_case){ .op_type = "MelWeightMatrix", .since_version = 17 };
        kernel_case_input(&c, INLAY_INT64, 0, NULL, &bands, false);
        kernel_case_input(&c, INLAY_INT64, 0, NULL, &length, false);
        kernel_case_input(&c, INLAY_INT64, 0, NULL, &rate, false);
        kernel_case_input(&c, INLAY_FLOAT, 0, NULL, &low, false);
        kernel_case_input(&c, INLAY_FLOAT, 0, NULL, &high, false);
        kernel_case_output(&c, INLAY_FLOAT, 2, dims, y);
        run_case(&c);
        for (int64_t band = 0; band < bands; band++) {
            const double mel = from + (double)(band + 1) * (to - from) / (double)(bands + 2);
            const int64_t center =
                (int64_t)floor((double)(length + 1) * 700 * (pow(10, mel / 2595) - 1) / (double)rate);

            assert_in_range(center, 0, dims[0] - 1);
            assert_float_equal(y[center * bands + band], 1, 0);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_rows),           cmocka_unit_test(test_top_k_ties),
                                        cmocka_unit_test(test_top_k_rows),     cmocka_unit_test(test_top_k_columns),
                                        cmocka_unit_test(test_moves_by_index), cmocka_unit_test(test_windows),
                                        cmocka_unit_test(test_affine_grids),   cmocka_unit_test(test_mel_bins) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
