/* Precision strict: which kernels run, with any value of option kernel, and that their sums have short chains. */
#include "compare.h"
#include "loops.h"
#include "text_buffer.h"

/* Layers of all kinds that cpu has kernels for. */
static const char *const layers[] = {
    "x : 1,64,20,22\nw = [64,64,3,3]\ny = Conv(x, w) pads=1,1,1,1\n-> y",
    "x : 2,32,14,14\nw = [48,32,3,3]\nb = [48]\nk = Conv(x, w, b) pads=1,1,1,1\ny = Relu(k)\n-> y",
    "x : 1,128,7,7\nw = [128,128,3,3]\ny = Conv(x, w) pads=1,1,1,1\n-> y",
    "x : 1,16,64,64\nw = [16,16,3,3]\nk = Conv(x, w)\ny = Sigmoid(k)\n-> y",
    "x : 1,256,14,14\nw = [512,256,1,1]\ny = Conv(x, w)\n-> y",
    "x : 1,3,64,64\nw = [32,3,7,7]\ny = Conv(x, w) strides=2,2 pads=3,3,3,3\n-> y",
    "x : 1,24,30,30\nw = [40,24,5,5]\ny = Conv(x, w) dilations=2,2\n-> y",
    "x : 1,40,3,3\nw = [40,40,3,3]\ny = Conv(x, w) pads=4,4,4,4 dilations=4,4\n-> y", /* most taps are in the padding */
    "x : 1,64,20,20\nw = [64,1,3,3]\ny = Conv(x, w) group=64 pads=1,1,1,1\n-> y",
    "x : 1,64,20,20\nw = [64,1,5,5]\ny = Conv(x, w) group=64 strides=2,2 pads=2,2,2,2\n-> y",
    "x : 1,64,20,20\nw = [64,16,3,3]\ny = Conv(x, w) group=4 pads=1,1,1,1\n-> y",
    "x : 1,64,20,20\nw = [128,1,3,3]\ny = Conv(x, w) group=64 pads=1,1,1,1\n-> y",
    "x : 1,64,20,20\nw = [128,32,1,1]\ny = Conv(x, w) group=2\n-> y",
    "x : 2,24,90\nw = [36,24,5]\ny = Conv(x, w) pads=2,2\n-> y",
    "x : 2,24,90\nw = [36,12,5]\ny = Conv(x, w) pads=2,2 group=2\n-> y",
    "x : 1,16,6,7,8\nw = [24,8,3,3,3]\ny = Conv(x, w) pads=1,1,1,1,1,1 group=2\n-> y",
    "x : 64,768\nw = [768,300]\ny = MatMul(x, w)\n-> y",
    "x : 1,512\nw = [512,1000]\nb = [1000]\ny = Gemm(x, w, b)\n-> y",
    "x : 5,512\nw = [70,512]\nb = [70]\nk = Gemm(x, w, b) transB=1\ny = Tanh(k)\n-> y",
    "x : 2,4,60,64\nz : 2,4,64,50\ny = MatMul(x, z)\n-> y",
    "x : 2,4,3,64\nz : 2,4,50,64\nt = Transpose(z) perm=0,1,3,2\ny = MatMul(x, t)\n-> y",
};
static const char *const options[] = { "auto", "tiles", "winograd_4x4", "winograd_2x2", "depthwise",    "groups",
                                       "rows", "gemm",  "gemm_terms",   "packed",       "packed_terms", "batched" };
/* Kernels with plain sums, which have the short chains of strict. */
static const char *const builtin_kernels[] = { "tiles", "depthwise",  "planes", "rows",         "groups",
                                               "gemm",  "gemm_terms", "packed", "packed_terms", "batched" };

/* Does this process have built-in kernels for this CPU? */
static bool has_loops(void)
{
#if defined(__x86_64__)
    return !is_below_avx2();
#else
    return false;
#endif
}

static bool is_one_of(const char *name, size_t n, const char *const *list, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (strlen(list[i]) == n && strncmp(name, list[i], n) == 0)
            return true;
    return false;
}

static struct rig open_as(const char *script, const char *providers, const char *precision, const char *option,
                          const char *value)
{
    struct wire wire = { 0 };

    script_model(&wire, 22, script);
    return rig_open(&wire, (const char *const[]){ "providers", providers, "policy", "priority", "intra_threads", "1",
                                                  "precision", precision, option, value, NULL });
}

/* Checks that all kernels in the explanation are plain; adds their number to *count. */
static void expect_plain(const char *script, const char *kernel, int *count)
{
    static const char mark[] = "\"kernel\": {\"name\": \"";
    const inlay_explain_options how = { .struct_size = sizeof how, .format = "json", .flags = INLAY_EXPLAIN_KERNELS };
    inlay_diag diag = INLAY_DIAG_INIT;
    struct rig rig = open_as(script, "cpu,reference", "strict", "cpu.kernel", kernel);
    struct text_buffer told = { 0 };

    if (inlay_session_explain(rig.session, &how, text_buffer_append, &told, &diag) != INLAY_OK)
        fail_msg("%s", diag.text);
    for (const char *at = told.data; (at = strstr(at, mark)) != NULL; (*count)++) {
        size_t n;

        at += sizeof mark - 1;
        n = strcspn(at, "\"");
        if (!is_one_of(at, n, builtin_kernels, sizeof builtin_kernels / sizeof *builtin_kernels))
            fail_msg("with kernel %s, '%.*s' runs with precision strict in\n%s", kernel, (int)n, at, script);
    }
    text_buffer_free(&told);
    rig_close(&rig);
}

static void only_plain_sums(void **state)
{
    const size_t count = sizeof layers / sizeof *layers;

    (void)state;
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < sizeof options / sizeof *options; k++) {
            int found = 0;

            expect_plain(layers[i], options[k], &found);
            if (found != 1)
                fail_msg("the explanation names %d kernels, not 1, in\n%s", found, layers[i]);
        }
}

/* A GEMM [m, k] by [k, n], or a convolution with windows of `side` x `side` of `in` channels in each of `groups`. */
struct sums {
    const char *script; /* a model with outputs y, w and x */
    int64_t groups, in, out, side;
};

static const float *output(const struct rig *rig, uint32_t i)
{
    return inlay_value_data(inlay_context_output(rig->context, i));
}

/* The root mean square of the errors compared with sums in double, each relative to the sum of its terms'
 * magnitudes. */
static double error_of(const struct rig *rig, const struct sums *sums)
{
    const inlay_value *x_value = inlay_context_output(rig->context, 2),
                      *y_value = inlay_context_output(rig->context, 0);
    const int64_t *x_dims = inlay_value_dims(x_value), *y_dims = inlay_value_dims(y_value);
    const bool image = sums->side > 0;
    const int64_t side = image ? sums->side : 1, width = image ? x_dims[3] : 1, plane = image ? x_dims[2] * width : 1;
    const int64_t y_width = image ? y_dims[3] : 1, y_plane = image ? y_dims[2] * y_width : 1,
                  k = sums->in * side * side;
    const float *input = output(rig, 2), *y = output(rig, 0), *weights = output(rig, 1);
    const int64_t count = inlay_value_count(y_value);
    double total = 0;

    for (int64_t i = 0; i < count; i++) {
        const int64_t channel = image ? i / y_plane : i % sums->out, group = channel / (sums->out / sums->groups);
        const int64_t pixel = image ? i % y_plane / y_width * width + i % y_width : i / sums->out * sums->in;
        double sum = 0, size = 0;

        for (int64_t t = 0; t < k; t++) {
            const int64_t tap = t / side % side * width + t % side;
            const int64_t at = image ? (group * sums->in + t / (side * side)) * plane + tap : t;
            const double term =
                (double)input[pixel + at] * (double)weights[image ? channel * k + t : t * sums->out + channel];

            sum += term;
            size += fabs(term);
        }
        total += pow(((double)y[i] - sum) / size, 2);
    }
    return sqrt(total / (double)count) / 0x1p-24;
}

static double error_by(const struct sums *sums, const char *providers, const char *precision, const char *option,
                       const char *value)
{
    struct rig rig = open_as(sums->script, providers, precision, option, value);
    double error;

    script_feed(&rig, 3);
    rig_run(&rig);
    error = error_of(&rig, sums);
    rig_close(&rig);
    return error;
}

#define MORE "u = Identity(x)\n-> y, v, u"
#define ENDING "v = Identity(w)\n" MORE

/* Sums of a few hundred terms: with strict, the error is that of short chains, and much smaller than that of one
 * chain. */
static void short_chains(void **state)
{
    static const struct {
        struct sums sums;
        const char *kernel; /* NULL: with any provider */
    } rows[] = {
        { { "x : 40,768\nw = [768,150]\ny = MatMul(x, w)\n" ENDING, 1, 768, 150, 0 }, "packed" },
        { { "x : 40,768\nz : 768,150\ny = MatMul(x, z)\nv = Identity(z)\n" MORE, 1, 768, 150, 0 }, "batched" },
        { { "x : 1,512,6,6\nw = [64,512,1,1]\ny = Conv(x, w)\n" ENDING, 1, 512, 64, 1 }, "gemm" },
        { { "x : 1,512,6,6\nw = [64,512,1,1]\ny = Conv(x, w)\n" ENDING, 1, 512, 64, 1 }, "tiles" },
        { { "x : 1,64,9,9\nw = [40,64,3,3]\ny = Conv(x, w)\n" ENDING, 1, 64, 40, 3 }, "tiles" },
        { { "x : 1,64,9,9\nw = [40,64,3,3]\ny = Conv(x, w)\n" ENDING, 1, 64, 40, 3 }, "gemm" },
        { { "x : 1,96,9,9\nw = [80,48,3,3]\ny = Conv(x, w) group=2\n" ENDING, 2, 48, 80, 3 }, "groups" },
    };
    const char *providers[] = { "cpu,reference", "openblas?,reference", "reference" };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct sums *sums = &rows[i].sums;
        const double most = 1.2; /* in units of eps; with chains of 384 terms it is 2 and more, for terms of one sign */

        for (int provider = has_loops() ? 0 : 1; provider < 3; provider++) {
            const double strict =
                error_by(sums, providers[provider], "strict", provider == 0 ? "cpu.kernel" : NULL, rows[i].kernel);
            const double f32 =
                error_by(sums, providers[provider], "f32", provider == 0 ? "cpu.kernel" : NULL, rows[i].kernel);

            if (!(strict <= most) || !(strict <= 0.8 * f32))
                fail_msg("%s: strict is off by %g eps, f32 by %g, in\n%s", providers[provider], strict, f32,
                         sums->script);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(only_plain_sums), cmocka_unit_test(short_chains) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
