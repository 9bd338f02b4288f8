/* Kernels of convolutions and GEMMs: each of them compared with the reference, the choice as `inlay explain` shows it,
 * and the times that tuning stores for later sessions. */
#include "loops.h"
#include "compare.h"
#include "text_buffer.h"
#include "../cache/folder.h"
#include "random.h"

static const char *const kernels[] = { "tiles", "winograd_4x4", "winograd_2x2", "depthwise", "groups", "gemm", "auto" };
static const char *const products[] = { "packed", "batched", "auto" };

static void expect_as(const char *kernel, const char *script, const char *threads)
{
    struct wire wire = { 0 };
    struct rig a, b = compare_open(script, 17, "reference", "1", NULL);

    script_model(&wire, 17, script);
    a = rig_open(&wire, (const char *const[]){ "providers", "cpu,reference", "policy", "priority", "intra_threads",
                                               threads, "cpu.kernel", kernel, NULL });
    compare_runs(&a, &b, script);
}

static void every_kernel(void **state)
{
    static const char *const endings[] = { "y = Relu(k)\n-> y", "a = Add(k, r)\ny = Relu(a)\n-> y",
                                           "s = Sigmoid(k)\ny = Mul(k, s)\n-> y", "y = Identity(k)\n-> y" };
    uint64_t dice = 5;

    (void)state;
    for (uint32_t n = 0; n < random_rounds(40); n++) {
        char script[768];
        int group = n % 5 == 4 ? 4 : 1, in = group * (int)random_between(&dice, 1, 20),
            out = group * (int)random_between(&dice, 1, 20), pads[4];
        int k = n % 2 == 0 ? 3 : (int)random_between(&dice, 1, 4), stride = n % 3 == 2 ? 2 : 1,
            dilation = n % 7 == 6 ? 2 : 1;
        int h = k * dilation + (int)random_between(&dice, 3, 18), w = k * dilation + (int)random_between(&dice, 3, 18);

        if (n % 2 == 0 && group == 1)
            in += 16, out += 16;
        for (int i = 0; i < 4; i++)
            pads[i] = (int)random_between(&dice, 0, k - 1);
        (void)snprintf(script, sizeof script,
                       "x : %d,%d,%d,%d\nw = [%d,%d,%d,%d]\nc = [%d]\nv = [%d,%d,%d,%d]\n"
                       "r = Conv(x, v) strides=%d,%d, dilations=%d,%d, pads=%d,%d,%d,%d, group=%d\n"
                       "k = Conv(x, w, c) strides=%d,%d, dilations=%d,%d, pads=%d,%d,%d,%d, group=%d\n%s",
                       (int)random_between(&dice, 1, 2), in, h, w, out, in / group, k, k, out, out, in / group, k, k,
                       stride, stride, dilation, dilation, pads[0], pads[1], pads[2], pads[3], group, stride, stride,
                       dilation, dilation, pads[0], pads[1], pads[2], pads[3], group, endings[n % 4]);
        for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++)
            expect_as(kernels[i], script, n % 2 == 0 ? "1" : "2");
    }
}

/* Dilations for which some taps are outside the image for all pixels, or for all pixels of some rows, or for which each
 * pixel has another set of valid taps. */
static void wide_gaps(void **state)
{
    static const char *const those[] = { "tiles", "gemm", "auto" };
    uint64_t dice = 23;

    (void)state;
    for (uint32_t n = 0; n < random_rounds(30); n++) {
        char script[512];
        const int kernel[2] = { (int)random_between(&dice, 1, 4), (int)random_between(&dice, 1, 4) },
                  size[2] = { (int)random_between(&dice, 5, 30), (int)random_between(&dice, 5, 30) };
        int gap[2], pads[4], in = (int)random_between(&dice, 1, 40), out = (int)random_between(&dice, 1, 70);

        for (int i = 0; i < 2; i++) {
            const int span = (gap[i] = (int)random_between(&dice, 1, size[i] + 4), gap[i] * (kernel[i] - 1));

            pads[i] = n % 3 == 0 ? span / 2 : (int)random_between(&dice, 0, span + 2);
            pads[2 + i] = n % 3 == 0           ? span - span / 2
                          : span - pads[i] > 0 ? span - pads[i] + (int)random_between(&dice, 0, 2)
                                               : 0;
        }
        (void)snprintf(script, sizeof script,
                       "x : %d,%d,%d,%d\nw = [%d,%d,%d,%d]\nc = [%d]\n"
                       "k = Conv(x, w, c) strides=%d,%d, dilations=%d,%d, pads=%d,%d,%d,%d\ny = Relu(k)\n-> y",
                       (int)random_between(&dice, 1, 2), in, size[0], size[1], out, in, kernel[0], kernel[1], out,
                       1 + (n % 5 == 4), 1 + (n % 7 == 6), gap[0], gap[1], pads[0], pads[1], pads[2], pads[3]);
        for (size_t i = 0; i < sizeof those / sizeof *those; i++)
            expect_as(those[i], script, n % 2 == 0 ? "1" : "2");
    }
}

static void expect_products(const char *script, const char *threads)
{
    for (size_t i = 0; i < sizeof products / sizeof *products; i++)
        expect_as(products[i], script, threads);
}

static void every_product(void **state)
{
    static const char *const endings[] = { "y = Relu(k)\n-> y", "a = Add(k, r)\ny = Relu(a)\n-> y",
                                           "s = Sigmoid(k)\ny = Mul(k, s)\n-> y", "y = Identity(k)\n-> y, k" };
    static const int sizes[] = { 1, 2, 5, 16, 17, 48, 65, 130 };
    uint64_t dice = 11;

    (void)state;
    for (uint32_t n = 0; n < random_rounds(60); n++) {
        int m = sizes[random_between(&dice, 0, 7)], k = sizes[random_between(&dice, 0, 7)],
            c = sizes[random_between(&dice, 0, 7)];
        int batch = (int)random_between(&dice, 1, 5), heads = (int)random_between(&dice, 1, 4);
        const char *ending = endings[n % 4], *threads = n % 3 == 0 ? "2" : "1";
        char script[768];

        switch (n % 6) {
        case 0: /* a constant matrix */
            (void)snprintf(script, sizeof script,
                           "x : %d,%d,%d\nw = [%d,%d]\nv = [%d,%d]\nr = MatMul(x, v)\nk = MatMul(x, w)\n%s", batch, m,
                           k, k, c, k, c, ending);
            break;
        case 1: /* the same, transposed, with an addend */
            (void)snprintf(script, sizeof script,
                           "x : %d,%d\nw = [%d,%d]\nv = [%d]\nr = Gemm(x, w) transB=1\nk = Gemm(x, w, v) transB=1\n%s",
                           m, k, c, k, c, ending);
            break;
        case 2: /* a batch of both operands */
            (void)snprintf(script, sizeof script,
                           "x : %d,%d,%d,%d\nz : %d,%d,%d,%d\nr = MatMul(x, z)\nk = MatMul(x, z)\n%s", batch, heads, m,
                           k, batch, heads, k, c, ending);
            break;
        case 3: /* one column-major operand for the whole batch */
            (void)snprintf(script, sizeof script,
                           "x : %d,%d,%d\nz : %d,%d\nt = Transpose(z) perm=1,0\nr = MatMul(x, t)\nk = MatMul(x, t)\n%s",
                           batch, m, k, c, k, ending);
            break;
        case 4: /* both transposed; some axes have size 1 */
            (void)snprintf(script, sizeof script,
                           "x : %d,1,%d,%d\nz : %d,%d,%d\np = Transpose(x) perm=0,1,3,2\nt = Transpose(z) perm=0,2,1\n"
                           "r = MatMul(p, t)\nk = MatMul(p, t)\n%s",
                           batch, k, m, heads, c, k, ending);
            break;
        default: /* two computed matrices, with an addend */
            (void)snprintf(script, sizeof script,
                           "x : %d,%d\nz : %d,%d\nv = [%d]\nr = Gemm(x, z) transA=1 transB=1\n"
                           "k = Gemm(x, z, v) transA=1 transB=1\n%s",
                           k, m, c, k, c, ending);
        }
        expect_products(script, threads);
    }
    /* long sums, many columns, and vectors */
    expect_products("x : 7,1300\nw = [1300,150]\nk = MatMul(x, w)\ny = Relu(k)\n-> y", "2");
    expect_products("x : 1,300\nw = [300,5000]\nc = [5000]\nk = MatMul(x, w)\ny = Add(k, c)\n-> y", "2");
    expect_products("x : 3,40\nz : 40\nk = MatMul(x, z)\ny = Relu(k)\n-> y", "1");
    expect_products("x : 3,900,70\nz : 3,70,9\nk = MatMul(x, z)\ny = Relu(k)\n-> y", "2");
}

static void explain(const struct rig *rig, const char *format, struct text_buffer *out)
{
    const inlay_explain_options how = {
        .struct_size = sizeof how, .format = format, .columns = 400, .flags = INLAY_EXPLAIN_KERNELS
    };
    inlay_diag diag = INLAY_DIAG_INIT;

    text_buffer_free(out);
    if (inlay_session_explain(rig->session, &how, text_buffer_append, out, &diag) != INLAY_OK)
        fail_msg("%s", diag.text);
}

static int count_of(const struct text_buffer *told, const char *what)
{
    int n = 0;

    for (const char *at = told->data; (at = strstr(at, what)) != NULL; at += strlen(what))
        n++;
    return n;
}

/* Was the sparse kernel chosen for the matrix multiplication, and not the dense one? */
static void expect_sparse(const struct text_buffer *told, bool sparse)
{
    assert_true(strstr(told->data, "\"packed\"") != NULL || strstr(told->data, "\"packed_sparse\"") != NULL);
    assert_int_equal(count_of(told, "\"name\": \"packed_sparse\""), sparse);
}

static const char layers[] =
    "x : 1,32,24,24\nw0 = [64,32,1,1]\na = Conv(x, w0)\nb = Relu(a)\nw1 = [64,64,3,3]\nc = Conv(b, w1) pads=1,1,1,1\n"
    "w2 = [96,64,1,1]\nd = Conv(c, w2)\nw3 = [48,96,3,3]\ne = Conv(d, w3) strides=2,2\nw4 = [128,48,1,1]\n"
    "f = Conv(e, w4)\n"
    "w5 = [32,128,5,5]\ng = Conv(f, w5) pads=2,2,2,2\nw6 = [200,32,1,1]\ny = Conv(g, w6)\n-> y";

static struct rig open_layers(const struct folder *folder, const char *option, const char *value)
{
    struct wire wire = { 0 };

    script_model(&wire, 17, layers);
    return rig_open(&wire, (const char *const[]){ "providers", "cpu,reference", "policy", "priority", "intra_threads",
                                                  "1", "cache_dir", folder->path, option, value, NULL });
}

static void explained(void **state)
{
    struct text_buffer told = { 0 };
    struct folder folder = folder_make();
    struct rig rig = open_layers(&folder, "precision", "strict");

    (void)state;
    explain(&rig, "json", &told);
    assert_int_equal(count_of(&told, "\"kernel\":"), 7);
    assert_int_equal(count_of(&told, "\"winograd"), 0);
    explain(&rig, "text", &told);
    assert_non_null(strstr(told.data, "\nkernels\n"));
    rig_close(&rig);
    text_buffer_free(&told);
    folder_remove(&folder);
}

/* With precision strict, Winograd's algorithm does not run, not even if option kernel names it, for layers that are
 * large enough for it. */
static void strict_kernels(void **state)
{
    static const char *const models[] = {
        layers,
        "x : 64,256\nw = [256,512]\nc = [512]\nk = MatMul(x, w)\na = Add(k, c)\ny = Relu(a)\n-> y",
        "x : 64,256\nw = [300,256]\nk = Gemm(x, w) transB=1\ny = Relu(k)\n-> y",
    };
    static const char *const wished[] = { "auto", "winograd_4x4", "winograd_2x2" };
    struct text_buffer told = { 0 };

    (void)state;
    for (size_t m = 0; m < sizeof models / sizeof *models; m++)
        for (size_t i = 0; i < sizeof wished / sizeof *wished; i++) {
            struct wire wire = { 0 };
            struct rig rig;

            script_model(&wire, 17, models[m]);
            rig = rig_open(&wire, (const char *const[]){ "providers", "cpu,reference", "policy", "priority",
                                                         "intra_threads", "1", "precision", "strict", "cpu.winograd",
                                                         "1", "cpu.kernel", wished[i], NULL });
            explain(&rig, "json", &told);
            assert_true(count_of(&told, "\"kernel\":") > 0);
            assert_int_equal(count_of(&told, "winograd_"), 0);
            rig_close(&rig);
        }
    text_buffer_free(&told);
}

/* Matrices with mostly zero blocks use block-sparse kernels, for any number of rows and with an epilogue, unless
 * precision or reproducibility require plain sums. Other matrices keep their kernels. */
static void zeros_in_blocks(void **state)
{
    static const char *const rows[] = { "1", "5", "30" };
    static const char *const endings[] = { "y = Relu(k)\n-> y", "a = Add(k, r)\ny = Relu(a)\n-> y",
                                           "s = Sigmoid(k)\ny = Mul(k, s)\n-> y" };
    struct text_buffer told = { 0 };

    (void)state;
    for (int way = 0; way < 4; way++) { /* bit 0: transposed; bit 1: without zeros */
        for (size_t m = 0; m < 3; m++) {
            const bool turned = way % 2 != 0;
            char script[512];
            struct wire wire = { 0 };
            struct rig rig;

            (void)snprintf(script, sizeof script,
                           "x : %s,512\nr = [%s,300]\nv = [%s]\nz = [%s]\nu = %s(z, z)\n"
                           "w = Concat(v, u) axis=%d\nb = [300]\nk = Gemm(x, w, b) transB=%d\n%s",
                           rows[m], rows[m], turned ? "300,64" : "64,300", turned ? "300,448" : "448,300",
                           way < 2 ? "Sub" : "Add", turned, turned, endings[m]);
            expect_as("auto", script, "1");
            expect_as("packed_sparse", script, "2");
            for (int strict = 0; strict < 2; strict++) {
                script_model(&wire, 17, script);
                rig = rig_open(&wire, (const char *const[]){ "providers", "cpu,reference", "policy", "priority",
                                                             "intra_threads", "1", "precision",
                                                             strict ? "strict" : "f32", NULL });
                explain(&rig, "json", &told);
                expect_sparse(&told, way < 2 && !strict);
                rig_close(&rig);
            }
        }
    }
    text_buffer_free(&told);
}

/* Weights that layers share at several image sizes: they use one pack if that costs little time, with correct results
 * either way. */
static void shared_weights(void **state)
{
    static const char script[] =
        "x : 1,64,40,40\nw = [64,64,3,3]\nk = Conv(x, w) pads=1,1,1,1\n"
        "l = MaxPool(k) kernel_shape=2,2, strides=2,2\nm = Conv(l, w) pads=1,1,1,1\n"
        "n = MaxPool(m) kernel_shape=2,2, strides=2,2\no = Conv(n, w) pads=1,1,1,1\n"
        "p = MaxPool(o) kernel_shape=2,2, strides=2,2\ny = Conv(p, w) pads=1,1,1,1\n-> k, m, y";
    static const char *const shared[] = { "auto", "winograd_4x4", "tiles" };

    (void)state;
    for (size_t i = 0; i < sizeof shared / sizeof *shared; i++)
        for (int threads = 1; threads <= 2; threads++)
            expect_as(shared[i], script, threads == 1 ? "1" : "2");
}

/* The fastest kernels depend on the machine. But the measured times must be stored for later sessions, and used only by
 * sessions like the tuned one. */
static void tuned(void **state)
{
    struct text_buffer told = { 0 };
    struct folder folder = folder_make();
    struct rig rig = open_layers(&folder, "precision", "f32"), plain;
    const inlay_tune_options how = { .struct_size = sizeof how, .runs = 3, .budget_s = 20 };
    inlay_tune_result result = { .struct_size = sizeof result };
    inlay_diag diag = INLAY_DIAG_INIT;

    (void)state;
    explain(&rig, "json", &told);
    assert_int_equal(count_of(&told, "\"by\": \"timed\""), 0);
    assert_true(count_of(&told, "\"runner_up\":") > 0);
    assert_true(count_of(&told, "\"tiles\"") > 0);
    if (inlay_tune(rig.session, &how, &result, &diag) != INLAY_OK)
        fail_msg("%s", diag.text);
    assert_true(result.measured_count > 0);
    rig_close(&rig);
    rig = open_layers(&folder, "precision", "f32");
    explain(&rig, "json", &told);
    if (result.dropped != 0) /* the tuned choice was slower */
        assert_int_equal(count_of(&told, "\"by\": \"timed\""), 0);
    plain = compare_open(layers, 17, "reference", "1", NULL);
    script_feed(&rig, 1);
    script_feed(&plain, 1);
    rig_run(&rig);
    rig_run(&plain);
    compare_outputs(&rig, &plain, layers);
    rig_close(&plain);
    rig_close(&rig);
    rig = open_layers(&folder, "cpu.winograd", "0"); /* with another setting, the stored times do not apply */
    explain(&rig, "json", &told);
    assert_int_equal(count_of(&told, "\"by\": \"timed\""), 0);
    rig_close(&rig);
    text_buffer_free(&told);
    folder_remove(&folder);
}

/* GEMMs also have a table of kernels, with constant and with computed matrices: one for each of these. */
static void products_explained(void **state)
{
    static const char script[] = "x : 3,20,64\nw = [64,80]\na = MatMul(x, w)\nb = Relu(a)\n"
                                 "t = Transpose(b) perm=0,2,1\nc = MatMul(b, t)\nv = [20,7]\ny = MatMul(c, v)\n-> y";
    struct text_buffer told = { 0 };
    struct rig rig = compare_open(script, 17, "cpu,reference", "1", NULL),
               plain = compare_open(script, 17, "reference", "1", NULL);

    (void)state;
    explain(&rig, "json", &told);
    assert_int_equal(count_of(&told, "\"kernel\": {\"name\":"), 3);
    assert_true(count_of(&told, "\"runner_up_ns\":") == (count_of(&told, "packed_terms") > 0 ? 2 : 0)); /* with AMX */
    script_feed(&rig, 1);
    script_feed(&plain, 1);
    rig_run(&rig);
    rig_run(&plain);
    compare_outputs(&rig, &plain, script);
    rig_close(&plain);
    rig_close(&rig);
    text_buffer_free(&told);
}

/* Two layers: one whose weights cancel, as those of edge filters do, and an ordinary one. */
static void cancelling_layers(char *script, size_t bytes)
{
    enum { CHANNELS = 16 };
    size_t at = (size_t)snprintf(script, bytes, "x : 1,%d,24,24\nw = [%d,%d,3,3] ", CHANNELS, CHANNELS, CHANNELS);
    uint64_t dice = 9;
    int first[CHANNELS / 2][9];

    for (int o = 0; o < CHANNELS; o++) {
        for (int i = 0; i < CHANNELS; i++) {
            for (int t = 0; t < 9; t++) {
                int *w = &first[i % (CHANNELS / 2)][t];

                *w = i < CHANNELS / 2 ? (int)random_between(&dice, -999, 999) : -*w;
                at += (size_t)snprintf(script + at, bytes - at, "%s%.3f", o + i + t > 0 ? "," : "", *w / 7.0);
            }
        }
    }
    at += (size_t)snprintf(script + at, bytes - at,
                           "\na = Conv(x, w) pads=1,1,1,1\nv = [%d,%d,3,3]\nb = Conv(x, v) pads=1,1,1,1\n-> a, b",
                           CHANNELS, CHANNELS);
    assert_true(at < bytes);
}

static struct rig open_cancelling(const struct folder *folder, const char *script)
{
    struct wire wire = { 0 };

    script_model(&wire, 17, script);
    return rig_open(&wire, (const char *const[]){ "providers", "cpu,reference", "policy", "priority", "intra_threads",
                                                  "1", "cache_dir", folder->path, "cpu.kernel", "winograd_4x4", NULL });
}

static void error_bound(void **state)
{
    static char script[1 << 15];
    struct text_buffer told = { 0 }, again = { 0 };
    struct folder folder = folder_make();
    struct rig rig, plain;

    (void)state;
    cancelling_layers(script, sizeof script);
    rig = open_cancelling(&folder, script);
    plain = compare_open(script, 17, "reference", "1", NULL);
    explain(&rig, "json", &told);
    if (strstr(told.data, "\"winograd_4x4\"") !=
        NULL) { /* if the CPU has Winograd kernels, one of the two layers is refused */
        assert_int_equal(count_of(&told, "\"name\": \"winograd_4x4\""), 1);
        assert_int_equal(count_of(&told, "not winograd_4x4: error "), 1);
        assert_int_equal(count_of(&told, "\"error\": "), 1);
        assert_int_equal(count_of(&told, "\"error_bound\": 1e-05"), 1);
        explain(&rig, "text", &told);
        assert_int_equal(count_of(&told, " of the largest result, bound 1e-05)"), 1);
        assert_int_equal(count_of(&told, " with these weights, at most "), 1);
    }
    script_feed(&rig, 1);
    script_feed(&plain, 1);
    rig_run(&rig);
    rig_run(&plain);
    compare_outputs(&rig, &plain, "a filter for edges");
    rig_close(&plain);
    explain(&rig, "text", &told);
    rig_close(&rig);
    rig = open_cancelling(&folder, script); /* the accuracy comes from the cache */
    explain(&rig, "text", &again);
    assert_string_equal(strstr(told.data, "\nkernels\n"), strstr(again.data, "\nkernels\n"));
    rig_close(&rig);
    text_buffer_free(&told);
    text_buffer_free(&again);
    folder_remove(&folder);
}

/* int8 convolutions and GEMMs: explain shows the kernel, the type of activations and the error. */
static void bytes_explained(void **state)
{
    static const char script[] =
        "x : 1,32,9,9\nsx = [] 0.0625\nzi = i[] 128\nz = Cast(zi) to=2\nwi = i[] 0\nwz = Cast(wi) to=3\n"
        "q = QuantizeLinear(x, sx, z)\nd = DequantizeLinear(q, sx, z)\n"
        "w = [32,32,3,3]\nwq = QuantizeLinear(w, sx, wz)\nwd = DequantizeLinear(wq, sx, wz)\n"
        "v = [32,1,3,3]\nvq = QuantizeLinear(v, sx, wz)\nvd = DequantizeLinear(vq, sx, wz)\n"
        "c = Conv(d, wd) pads=1,1,1,1\ncq = QuantizeLinear(c, sx, z)\ncd = DequantizeLinear(cq, sx, z)\n"
        "e = Conv(cd, vd) group=32\neq = QuantizeLinear(e, sx, z)\ned = DequantizeLinear(eq, sx, z)\n"
        "y = Conv(ed, wd)\n-> y";
    struct text_buffer told = { 0 };
    struct wire wire = { 0 };
    struct rig rig;

    (void)state;
    if (is_below_avx2())
        skip();
    script_model(&wire, 17, script);
    rig = rig_open(&wire, (const char *const[]){ "providers", "cpu,reference", "intra_threads", "1", NULL });
    explain(&rig, "json", &told);
    assert_int_equal(count_of(&told, "\"kernel\":"), 3);
    assert_int_equal(count_of(&told, "\"name\": \"bytes_"), 3);
    assert_int_equal(count_of(&told, "8-bit activations as in the model: sums are exact"), 3);
    if (count_of(&told, "bytes_library") == 0) {
        assert_int_equal(count_of(&told, "results equal ONNX's to the last bit"), 2);
        assert_int_equal(count_of(&told, "the epilogue rounds as floats do"), 1);
        assert_int_equal(count_of(&told, "\"bytes_depthwise\""), 1);
    }
    explain(&rig, "text", &told);
    assert_int_equal(count_of(&told, "8-bit activations as in the model"), 3);
    rig_close(&rig);
    text_buffer_free(&told);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(every_kernel),       cmocka_unit_test(wide_gaps),
                                        cmocka_unit_test(every_product),      cmocka_unit_test(explained),
                                        cmocka_unit_test(strict_kernels),     cmocka_unit_test(zeros_in_blocks),
                                        cmocka_unit_test(shared_weights),     cmocka_unit_test(tuned),
                                        cmocka_unit_test(products_explained), cmocka_unit_test(bytes_explained),
                                        cmocka_unit_test(error_bound) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
