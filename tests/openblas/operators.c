/* Every operator of provider openblas compared with provider reference: random shapes, attributes and types, the same
 * node with either engine. Outputs are initialised with NaN, so that reads of them are detected; tensors and workspace
 * end at an inaccessible page. */
#include "operators/gemm/set.h"
#include "kernel_case.h"
#include "library_under_test.h"
#include "random.h"
#include "operators/operators.h"
#include "operators/tables.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <cmocka.h>

static uint64_t seed = 4711;

static inlay_dtype pick_type(void)
{
    return random_between(&seed, 0, 2) == 0 ? INLAY_DOUBLE : INLAY_FLOAT;
}

/* A node with its tensors; both engines read the same inputs. */
enum { MOST = 12 };
struct trial {
    const char *op;
    inlay_dtype dtype;
    char what[160];
    kernel_case by[2]; /* reference, openblas */
    struct guard inputs[MOST], outputs[2][MOST];
    int64_t out_count[MOST];
    uint32_t in, out;
};

static struct trial *start(const char *op, uint32_t version, inlay_dtype dtype)
{
    static struct trial trial;

    trial = (struct trial){ .op = op, .dtype = dtype };
    for (uint32_t engine = 0; engine < 2; engine++)
        trial.by[engine] = (kernel_case){ .op_type = op, .since_version = version };
    trial.by[0].provider = &blocked_engine;
    trial.by[1].provider = library_under_test();
    return &trial;
}

static struct guard fill(inlay_dtype dtype, int64_t count)
{
    struct guard guard = guard_alloc(((size_t)kit_bytes(dtype, count) + 63) & ~(size_t)63);

    for (int64_t i = 0; i < count; i++) {
        double v = (double)random_between(&seed, -999, 999) / 1000;
        if (dtype == INLAY_DOUBLE)
            ((double *)guard.data)[i] = v;
        else
            ((float *)guard.data)[i] = (float)v;
    }
    return guard;
}

static int64_t product(uint32_t rank, const int64_t *dims)
{
    int64_t n = 1;
    for (uint32_t d = 0; d < rank; d++)
        n *= dims[d];
    return n;
}

static void input(struct trial *trial, uint32_t rank, const int64_t *dims, bool constant)
{
    trial->inputs[trial->in] = fill(trial->dtype, product(rank, dims));
    for (uint32_t engine = 0; engine < 2; engine++)
        kernel_case_input(&trial->by[engine], trial->dtype, rank, dims, trial->inputs[trial->in].data, constant);
    trial->in++;
}

static void output(struct trial *trial, uint32_t rank, const int64_t *dims)
{
    int64_t count = product(rank, dims);

    for (uint32_t engine = 0; engine < 2; engine++) {
        struct guard *guard = &trial->outputs[engine][trial->out];
        *guard = guard_alloc((size_t)kit_bytes(trial->dtype, count));
        memset(guard->data, 0xff, (size_t)kit_bytes(trial->dtype, count)); /* NaN */
        kernel_case_output(&trial->by[engine], trial->dtype, rank, dims, guard->data);
    }
    trial->out_count[trial->out++] = count;
}

static double element(inlay_dtype dtype, const void *data, int64_t i)
{
    return dtype == INLAY_DOUBLE ? ((const double *)data)[i] : (double)((const float *)data)[i];
}

static void compare(const struct trial *trial, uint32_t o)
{
    double tolerance = trial->dtype == INLAY_DOUBLE ? 1e-11 : 2e-4;

    for (int64_t i = 0; i < trial->out_count[o]; i++) {
        double want = element(trial->dtype, trial->outputs[0][o].data, i),
               got = element(trial->dtype, trial->outputs[1][o].data, i);
        if (isnan(want) ? !isnan(got) : !(want == got || fabs(got - want) <= tolerance * (1 + fabs(want))))
            fail_msg("%s %s %s: output %u element %lld is %g, not %g", trial->op, inlay_dtype_name(trial->dtype),
                     trial->what, o, (long long)i, got, want);
    }
}

static void finish(struct trial *trial)
{
    for (uint32_t engine = 0; engine < 2; engine++)
        if (kernel_case_prepare(&trial->by[engine], &operators_products) != INLAY_OK ||
            kernel_case_run(&trial->by[engine]) != INLAY_OK)
            fail_msg("%s %s: %s", trial->op, trial->what, trial->by[engine].diag.text);
    for (uint32_t o = 0; o < trial->out; o++)
        compare(trial, o);
    for (uint32_t engine = 0; engine < 2; engine++) {
        kernel_case_deinit(&trial->by[engine]);
        for (uint32_t o = 0; o < trial->out; o++)
            guard_free(&trial->outputs[engine][o]);
    }
    for (uint32_t i = 0; i < trial->in; i++)
        guard_free(&trial->inputs[i]);
}

static void set_ints(struct trial *trial, const char *name, uint32_t count, const int64_t *values)
{
    for (uint32_t engine = 0; engine < 2; engine++)
        kernel_case_ints(&trial->by[engine], name, count, values);
}
static void set_int(struct trial *trial, const char *name, int64_t value)
{
    for (uint32_t engine = 0; engine < 2; engine++)
        kernel_case_int(&trial->by[engine], name, value);
}
static void set_float(struct trial *trial, const char *name, double value)
{
    for (uint32_t engine = 0; engine < 2; engine++)
        kernel_case_float(&trial->by[engine], name, value);
}
static void set_string(struct trial *trial, const char *name, const char *value)
{
    for (uint32_t engine = 0; engine < 2; engine++)
        kernel_case_string(&trial->by[engine], name, value);
}

/* Sizes around the limits of the engine's methods; sometimes 0. */
static int64_t pick_size(void)
{
    static const int64_t edges[] = { 1, 2, 7, 31, 32, 33, 56, 57, 63, 64, 65, 128, 130 };
    int64_t kind = random_between(&seed, 0, 15);

    return kind == 0   ? 0
           : kind < 6  ? edges[random_between(&seed, 0, 12)]
           : kind == 6 ? random_between(&seed, 200, 700)
                       : random_between(&seed, 1, 40);
}

static void test_mat_mul(void **state)
{
    (void)state;
    for (int i = 0; i < 1500; i++) {
        struct trial *trial = start("MatMul", 13, pick_type());
        int64_t m = pick_size(), n = pick_size(), k = pick_size(),
                batch[2] = { random_between(&seed, 1, 3), random_between(&seed, 1, 3) };
        uint32_t a_rank = (uint32_t)random_between(&seed, 1, 4), b_rank = (uint32_t)random_between(&seed, 1, 4), rank,
                 y = 0;
        int64_t a[4] = { batch[0], batch[1], m, k }, b[4] = { batch[0], batch[1], k, n }, dims[4];

        if (random_between(&seed, 0, 3) == 0)
            a[1] = 1;
        else if (random_between(&seed, 0, 3) == 0)
            b[0] = 1;
        if (a_rank == 1)
            a[3] = k;
        if (b_rank == 1)
            b[3] = k;
        rank = a_rank > b_rank ? a_rank : b_rank;
        for (uint32_t d = 4 - rank; d < 2 && rank > 2; d++) {
            int64_t x = d >= 4 - a_rank && a_rank > 2 ? a[d] : 1, z = d >= 4 - b_rank && b_rank > 2 ? b[d] : 1;
            dims[y++] = x == 1 ? z : x;
        }
        if (a_rank > 1)
            dims[y++] = m;
        if (b_rank > 1)
            dims[y++] = n;
        (void)snprintf(trial->what, sizeof trial->what, "ranks %u %u, m %d n %d k %d", a_rank, b_rank, (int)m, (int)n,
                       (int)k);
        input(trial, a_rank, a + 4 - a_rank, random_between(&seed, 0, 4) == 0);
        input(trial, b_rank, b + 4 - b_rank, random_between(&seed, 0, 1) == 0);
        output(trial, y, dims);
        finish(trial);
    }
}

static void test_gemm(void **state)
{
    (void)state;
    for (int i = 0; i < 1500; i++) {
        struct trial *trial = start("Gemm", 13, pick_type());
        int64_t m = pick_size(), n = pick_size(), k = pick_size(), ta = random_between(&seed, 0, 1),
                tb = random_between(&seed, 0, 1), kind = random_between(&seed, 0, 5);
        int64_t a[2] = { ta ? k : m, ta ? m : k }, b[2] = { tb ? n : k, tb ? k : n }, y[2] = { m, n };
        int64_t c[2] = { kind == 2 || kind == 3 ? 1 : m, kind == 3 || kind == 4 ? 1 : n };

        (void)snprintf(trial->what, sizeof trial->what, "m %d n %d k %d, trans %d %d, C %d", (int)m, (int)n, (int)k,
                       (int)ta, (int)tb, (int)kind);
        input(trial, 2, a, random_between(&seed, 0, 3) == 0);
        input(trial, 2, b, random_between(&seed, 0, 1) == 0);
        if (kind > 0)
            input(trial, 2, c, random_between(&seed, 0, 1) == 0);
        output(trial, 2, y);
        set_int(trial, "transA", ta);
        set_int(trial, "transB", tb);
        if (random_between(&seed, 0, 1) == 0)
            set_float(trial, "alpha", random_between(&seed, 0, 4) == 0 ? 0 : 0.75);
        if (random_between(&seed, 0, 1) == 0)
            set_float(trial, "beta", random_between(&seed, 0, 2) == 0 ? 0 : -1.5);
        finish(trial);
    }
}

/* With alpha 0 or beta 0 the corresponding operands are not read; otherwise NaN and infinities propagate. */
static void test_not_a_number(void **state)
{
    (void)state;
    for (int i = 0; i < 200; i++) {
        struct trial *trial = start("Gemm", 13, pick_type());
        int64_t m = random_between(&seed, 1, 40), n = random_between(&seed, 1, 80), k = random_between(&seed, 1, 80),
                a[2] = { m, k }, b[2] = { k, n }, y[2] = { m, n };
        double alpha = random_between(&seed, 0, 3) == 0 ? 0 : 1, beta = random_between(&seed, 0, 1);

        (void)snprintf(trial->what, sizeof trial->what, "NaN, m %d n %d k %d, alpha %g beta %g", (int)m, (int)n, (int)k,
                       alpha, beta);
        input(trial, 2, a, false);
        input(trial, 2, b, false);
        input(trial, 2, y, false);
        for (uint32_t j = 0; j < 3; j++) {
            int64_t at = random_between(&seed, 0, (j == 0 ? m * k : j == 1 ? k * n : m * n) - 1);
            double v = random_between(&seed, 0, 1) == 0 ? (double)NAN : (double)INFINITY;
            if (random_between(&seed, 0, 2) == 0)
                continue;
            if (trial->dtype == INLAY_DOUBLE)
                ((double *)trial->inputs[j].data)[at] = v;
            else
                ((float *)trial->inputs[j].data)[at] = (float)v;
        }
        output(trial, 2, y);
        set_float(trial, "alpha", alpha);
        set_float(trial, "beta", beta);
        finish(trial);
    }
}

static void test_conv(void **state)
{
    static const char *const auto_pads[] = { "SAME_UPPER", "SAME_LOWER", "VALID" };

    (void)state;
    for (int i = 0; i < 2000; i++) {
        struct trial *trial = start("Conv", 22, pick_type());
        uint32_t spatial = (uint32_t)random_between(&seed, 1, 3);
        int64_t group = random_between(&seed, 0, 2) == 0 ? random_between(&seed, 2, 3) : 1,
                per = random_between(&seed, 1, 6);
        int64_t auto_pad = random_between(&seed, 0, 3) == 0 ? random_between(&seed, 0, 2) : -1;
        int64_t filters =
            group * (random_between(&seed, 0, 3) == 0 ? random_between(&seed, 20, 70) : random_between(&seed, 1, 6));
        int64_t x[5] = { random_between(&seed, 0, 20) == 0 ? 0 : random_between(&seed, 1, 2), group * per },
                w[5] = { filters, per };
        int64_t y[5] = { x[0], filters }, strides[3], dilations[3], pads[6];
        bool direct = random_between(&seed, 0, 3) == 0;

        for (uint32_t d = 0; d < spatial; d++) {
            int64_t window, total;
            w[2 + d] = direct ? 1 : random_between(&seed, 1, 4);
            strides[d] = direct ? 1 : random_between(&seed, 1, 3);
            dilations[d] = random_between(&seed, 1, 3);
            pads[d] = direct || auto_pad >= 0 ? 0 : random_between(&seed, 0, 3);
            pads[d + spatial] = direct || auto_pad >= 0 ? 0 : random_between(&seed, 0, 3);
            window = (w[2 + d] - 1) * dilations[d] + 1;
            x[2 + d] = window + random_between(&seed, 0, spatial == 1 ? 300 : spatial == 2 ? 20 : 6);
            total = x[2 + d] + pads[d] + pads[d + spatial];
            y[2 + d] = auto_pad == 0 || auto_pad == 1 ? (x[2 + d] + strides[d] - 1) / strides[d]
                                                      : (total - window) / strides[d] + 1;
        }
        (void)snprintf(trial->what, sizeof trial->what,
                       "%u dims, %d channels, %d filters, %d groups, image %d x %d, window %d", spatial, (int)x[1],
                       (int)filters, (int)group, (int)x[2], (int)x[3], (int)w[2]);
        input(trial, spatial + 2, x, false);
        input(trial, spatial + 2, w, random_between(&seed, 0, 1) == 0);
        if (random_between(&seed, 0, 1) == 0)
            input(trial, 1, &filters, true);
        output(trial, spatial + 2, y);
        set_ints(trial, "strides", spatial, strides);
        set_ints(trial, "dilations", spatial, dilations);
        set_int(trial, "group", group);
        if (auto_pad >= 0)
            set_string(trial, "auto_pad", auto_pads[auto_pad]);
        else
            set_ints(trial, "pads", 2 * spatial, pads);
        finish(trial);
    }
}

static void test_conv_transpose(void **state)
{
    (void)state;
    for (int i = 0; i < 1000; i++) {
        struct trial *trial = start("ConvTranspose", 22, pick_type());
        uint32_t spatial = (uint32_t)random_between(&seed, 1, 3);
        int64_t group = random_between(&seed, 0, 2) == 0 ? random_between(&seed, 2, 3) : 1,
                per = random_between(&seed, 1, 8);
        int64_t out = random_between(&seed, 0, 5) == 0 ? random_between(&seed, 20, 70) : random_between(&seed, 1, 5);
        int64_t filters = group * out, x[5] = { random_between(&seed, 1, 2), group * per }, w[5] = { group * per, out };
        int64_t y[5] = { x[0], filters }, strides[3], dilations[3], pads[6], extra[3];

        for (uint32_t d = 0; d < spatial; d++) {
            w[2 + d] = random_between(&seed, 1, 4);
            strides[d] = random_between(&seed, 1, 3);
            dilations[d] = random_between(&seed, 1, 2);
            extra[d] = random_between(&seed, 0, strides[d] > dilations[d] ? strides[d] - 1 : dilations[d] - 1);
            x[2 + d] = random_between(&seed, 1, spatial == 1 ? 200 : spatial == 2 ? 14 : 5);
            pads[d] = random_between(&seed, 0, (w[2 + d] - 1) * dilations[d] / 2);
            pads[d + spatial] = random_between(&seed, 0, (w[2 + d] - 1) * dilations[d] / 2);
            y[2 + d] = strides[d] * (x[2 + d] - 1) + extra[d] + (w[2 + d] - 1) * dilations[d] + 1 - pads[d] -
                       pads[d + spatial];
        }
        (void)snprintf(trial->what, sizeof trial->what, "%u dims, %d channels, %d filters, %d groups", spatial,
                       (int)x[1], (int)filters, (int)group);
        input(trial, spatial + 2, x, false);
        input(trial, spatial + 2, w, random_between(&seed, 0, 1) == 0);
        if (random_between(&seed, 0, 1) == 0)
            input(trial, 1, &filters, true);
        output(trial, spatial + 2, y);
        set_ints(trial, "strides", spatial, strides);
        set_ints(trial, "dilations", spatial, dilations);
        set_ints(trial, "pads", 2 * spatial, pads);
        set_ints(trial, "output_padding", spatial, extra);
        set_int(trial, "group", group);
        finish(trial);
    }
}

static void test_einsum(void **state)
{
    static const char *const equations[] = {
        "ij,jk->ik",   "ij,kj->ik",   "ji,jk->ki",   "bij,bjk->bik", "bhid,bhjd->bhij", "bhij,bhjd->bihd", "ij,ij->i",
        "abc,cd->abd", "abc,dc->dab", "ijk,jil->kl", "ij,jk,kl->il", "i,i->",           "abij,abkj->aibk", "ii,ij->j",
    };

    (void)state;
    for (int i = 0; i < 1000; i++) {
        struct trial *trial = start("Einsum", 12, pick_type());
        const char *equation = equations[random_between(&seed, 0, 13)], *p = equation;
        int64_t size[26], dims[8];
        uint32_t rank = 0;
        bool output_next = false;

        for (int l = 0; l < 26; l++)
            size[l] = random_between(&seed, 0, 7) == 0 ? random_between(&seed, 40, 90) : random_between(&seed, 1, 9);
        for (;; p++) {
            if (*p >= 'a' && *p <= 'z') {
                dims[rank++] = size[*p - 'a'];
                continue;
            }
            if (output_next)
                break;
            input(trial, rank, dims, false);
            rank = 0;
            output_next = *p == '-';
            p += output_next;
        }
        (void)snprintf(trial->what, sizeof trial->what, "%s", equation);
        output(trial, rank, dims);
        set_string(trial, "equation", equation);
        finish(trial);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mat_mul), cmocka_unit_test(test_gemm),           cmocka_unit_test(test_not_a_number),
        cmocka_unit_test(test_conv),    cmocka_unit_test(test_conv_transpose), cmocka_unit_test(test_einsum),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
