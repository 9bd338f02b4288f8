/* Results are bitwise equal on any number of threads: small graphs for every family of kernels, on each provider and
 * with each kernel that an option selects, on one thread, on two or three in turn, and on four. Sizes are large enough
 * for several threads, and no division is even. */
#include "cmocka_all.h"
#include "session/session.h"
#include "threads/pool.h"
#include "threads/threads.h"
#include "same_bits.h"

enum { MOST = SAME_BITS_THREADS };

/* The largest number of threads that a loop has used. */
static uint32_t largest;

void __real_pool_run(pool_team *team, pool_fn fn, void *data);
void __wrap_pool_run(pool_team *team, pool_fn fn, void *data);
void __wrap_pool_run(pool_team *team, pool_fn fn, void *data)
{
    largest = team->wanted >= largest ? team->wanted + 1 : largest;
    __real_pool_run(team, fn, data);
}

/* Runs a session of four threads on one and on three threads. */
static void expect_same_of_fewer(const struct rig *one, const struct rig *many, const struct variant *variant,
                                 const char *script)
{
    for (uint32_t threads = 1; threads < MOST; threads += 2) {
        inlay_run_options options = { .struct_size = sizeof options, .max_threads = threads };
        inlay_diag diag = INLAY_DIAG_INIT;

        largest = 0;
        if (inlay_context_run(many->context, &options, &diag) != INLAY_OK)
            fail_msg("%s", diag.text);
        assert_true(threads > 1 ? largest <= threads : largest == 0);
        same_bits_compare(one, many, variant, threads == 1 ? "1 of 4 threads" : "3 of 4 threads", script);
    }
}

static void expect_same(const char *script, int64_t opset, const struct variant *variant)
{
    static const char *const few[] = { "2", "3" };
    static uint32_t turn;
    const char *const threads[] = { few[turn++ % 2], "4" };
    struct rig one = same_bits_run(script, opset, variant, "1", NULL);

    for (size_t thread = 0; thread < sizeof threads / sizeof *threads; thread++) {
        struct rig many = same_bits_run(script, opset, variant, threads[thread], NULL);
        char other[16];

        (void)snprintf(other, sizeof other, "%s threads", threads[thread]);
        same_bits_compare(&one, &many, variant, other, script);
        if (strcmp(threads[thread], "4") == 0)
            expect_same_of_fewer(&one, &many, variant, script);
        rig_close(&many);
    }
    rig_close(&one);
}

/* A large loop uses all threads of a session, unless the run limits them. */
static void fewer_threads(void **state)
{
    static const struct variant variant = { "reference", { "providers", "reference", NULL } };
    inlay_run_options options = { .struct_size = sizeof options, .max_threads = 2 };
    struct rig many = same_bits_run("x : 200,300\nw = [300,400]\ny = MatMul(x, w)\n-> y", 13, &variant, "4", NULL);

    (void)state;
    if (threads_budget() != MOST) { /* a CPU quota of this container */
        rig_close(&many);
        skip();
    }
    for (int i = 0; i < 2; i++) {
        largest = 0;
        rig_run(&many);
        assert_int_equal(largest, 4);
        largest = 0;
        assert_int_equal(inlay_context_run(many.context, &options, NULL), INLAY_OK);
        assert_int_equal(largest, 2);
    }
    options.max_threads = 9;
    largest = 0;
    assert_int_equal(inlay_context_run(many.context, &options, NULL), INLAY_OK);
    assert_int_equal(largest, 4);
    options.struct_size = offsetof(inlay_run_options, max_threads); /* options of a program that was built before
                                                                     * this field existed */
    options.max_threads = 1;
    largest = 0;
    assert_int_equal(inlay_context_run(many.context, &options, NULL), INLAY_OK);
    assert_int_equal(largest, 4);
    rig_close(&many);
}

static const struct variant providers[] = {
    { "by cost", { NULL } },
    { "reference", { "providers", "reference", NULL } },
#ifdef HAVE_OPENBLAS
    { "openblas", { "providers", "openblas,reference", "policy", "priority", NULL } },
#endif
    { "cpu", { "providers", "cpu,reference", "policy", "priority", NULL } },
    { "fast", { "providers", "cpu,reference", "policy", "priority", "precision", "fast", NULL } },
    { "onednn", { "providers", "onednn?,reference", "policy", "priority", NULL } },
};

static void by_providers(const char *script, int64_t opset)
{
    for (size_t v = 0; v < sizeof providers / sizeof *providers; v++)
        expect_same(script, opset, &providers[v]);
}

static void by_kernels(const char *script, int64_t opset, const char *const *kernels, size_t count)
{
    for (size_t k = 0; k < count; k++) {
        const struct variant ours = {
            kernels[k], { "providers", "cpu,reference", "policy", "priority", "cpu.kernel", kernels[k], NULL }
        };

        expect_same(script, opset, &ours);
    }
}

static void products(void **state)
{
    static const char *const kernels[] = { "packed" };
    static const int sizes[][3] = {
        { 1, 4096, 200 }, { 2, 6000, 70 },  { 3, 2048, 129 },  { 5, 3000, 64 },  { 17, 5000, 17 },
        { 64, 385, 65 },  { 97, 800, 130 }, { 200, 1200, 10 }, { 641, 130, 70 }, { 1000, 40, 33 },
        { 19, 9000, 3 },  { 300, 300, 1 },  { 13, 769, 300 },
    };
    char script[256];

    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const int *size = sizes[i];

        (void)snprintf(script, sizeof script, "x : %d,%d\nw = [%d,%d]\nb = [%d]\np = MatMul(x, w)\ny = Add(p, b)\n-> y",
                       size[0], size[1], size[1], size[2], size[2]);
        by_providers(script, 13);
        by_kernels(script, 13, kernels, sizeof kernels / sizeof *kernels);
        (void)snprintf(script, sizeof script,
                       "x : %d,%d\nw = [%d,%d]\nb = [%d]\ny = Gemm(x, w, b) transB=1 alpha=0.7\n-> y", size[0], size[1],
                       size[2], size[1], size[2]);
        by_providers(script, 13);
    }
}

static void computed_products(void **state)
{
    static const char *const kernels[] = { "batched" };
    static const int sizes[][4] = {
        { 1, 1, 4096, 100 }, { 1, 3, 9000, 40 }, { 1, 70, 3000, 70 }, { 1, 300, 800, 129 },
        { 6, 1, 700, 64 },   { 7, 97, 40, 197 }, { 1, 515, 384, 1 },  { 3, 4, 1000, 133 },
    };
    char script[256];

    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        for (int transposed = 0; transposed < 2; transposed++) {
            const int *size = sizes[i];

            (void)snprintf(script, sizeof script, "a : %d,%d,%d\nb : %d,%d,%d\n%sy = MatMul(a, %s)\n-> y", size[0],
                           size[1], size[2], size[0], transposed ? size[3] : size[2], transposed ? size[2] : size[3],
                           transposed ? "t = Transpose(b) perm=0,2,1\n" : "", transposed ? "t" : "b");
            by_providers(script, 13);
            by_kernels(script, 13, kernels, sizeof kernels / sizeof *kernels);
        }
    }
}

static void convolutions(void **state)
{
    static const char *const kernels[] = { "tiles", "winograd_4x4", "winograd_2x2", "depthwise", "groups", "gemm" };
    /* images, in, height, width, out, window, stride, group */
    static const int sizes[][8] = {
        { 1, 3, 57, 50, 20, 7, 2, 1 },      { 1, 64, 29, 29, 64, 3, 1, 1 }, { 1, 128, 15, 15, 136, 3, 1, 1 },
        { 1, 160, 7, 7, 160, 3, 1, 1 },     { 1, 480, 7, 7, 160, 1, 1, 1 }, { 1, 160, 7, 7, 480, 1, 1, 1 },
        { 1, 24, 41, 41, 144, 1, 1, 1 },    { 1, 800, 1, 1, 200, 1, 1, 1 }, { 1, 400, 5, 3, 8, 1, 1, 1 },
        { 1, 800, 29, 1, 24, 1, 1, 1 },     { 3, 40, 19, 23, 24, 5, 1, 1 }, { 1, 96, 31, 29, 96, 3, 1, 96 },
        { 1, 144, 28, 28, 144, 5, 2, 144 }, { 1, 64, 20, 21, 96, 3, 1, 4 }, { 1, 64, 85, 3, 17, 3, 1, 1 },
    };
    char script[512];

    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const int *size = sizes[i], pad = size[5] / 2;

        (void)snprintf(script, sizeof script,
                       "x : %d,%d,%d,%d\nw = [%d,%d,%d,%d]\nc = [%d]\nk = Conv(x, w, c) strides=%d,%d pads=%d,%d,%d,%d "
                       "group=%d\ns = Sigmoid(k)\ny = Mul(k, s)\n-> y",
                       size[0], size[1], size[2], size[3], size[4], size[1] / size[7], size[5], size[5], size[4],
                       size[6], size[6], pad, pad, pad, pad, size[7]);
        by_providers(script, 13);
        by_kernels(script, 13, kernels, sizeof kernels / sizeof *kernels);
    }
}

/* Operators that are fused into one step by a cost model, and others between convolutions. */
static void blocks(void **state)
{
    static const char *const rows[] = {
        "x : 1,24,41,43\nw = [144,24,1,1]\nb = [144]\nd = [144,1,3,3]\ne = [144]\np = [32,144,1,1]\nf = [32]\n"
        "h = Conv(x, w, b)\ni = Relu(h)\nj = Conv(i, d, e) pads=1,1,1,1 group=144\nk = Relu(j)\ny = Conv(k, p, f)\n-> "
        "y",
        "x : 1,40,14,14\nw = [240,40,1,1]\nb = [240]\nd = [240,1,5,5]\ne = [240]\np = [60,240,1,1]\nq = [240,60,1,1]\n"
        "h = Conv(x, w, b)\ni = Relu(h)\nj = Conv(i, d, e) pads=2,2,2,2 group=240\nk = Relu(j)\n"
        "m = GlobalAveragePool(k)\nn = Conv(m, p)\no = Relu(n)\nr = Conv(o, q)\ns = Sigmoid(r)\ny = Mul(k, s)\n-> y",
        "x : 1,24,61,59\nw = [72,24,3,3]\nk = Conv(x, w) strides=2,2\ny = GlobalAveragePool(k)\n-> y",
        "x : 1,24,31,29\nw = [300,24,1,1]\nk = Conv(x, w)\nr = Relu(k)\ny = GlobalAveragePool(r)\n-> y",
        ("x : 1,64,27,27\nw = [96,64,3,3]\nv = [32,64,1,1]\na = Conv(x, w) pads=1,1,1,1\nb = Conv(x, v)\n"
         "c = Concat(a, b) axis=1\nu = [70,128,1,1]\ny = Conv(c, u)\n-> y"),
        "x : 1,48,23,21\nw = [48,30,4,4]\nb = [30]\ny = ConvTranspose(x, w, b) strides=2,2 pads=1,1,1,1\n-> y",
        "x : 1,48,23,21\nw = [48,30,2,2]\ny = ConvTranspose(x, w) strides=2,2\n-> y",
        "x : 1,48,33,21\nw = [48,15,3,3]\ny = ConvTranspose(x, w) strides=1,1 group=2\n-> y",
        "x : 1,40,500\nw = [64,40,5]\ny = Conv(x, w) pads=2,2\n-> y",
        "x : 1,8,20,20,20\nw = [16,8,3,3,3]\ny = Conv(x, w) pads=1,1,1,1,1,1\n-> y",
        "x : 1,32,30,30\nw : 32,32,3,3\ny = Conv(x, w) pads=1,1,1,1\n-> y",
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        by_providers(rows[i], 13);
}

static void reductions(void **state)
{
    static const char *const shapes[][2] = {
        { "300007", "0," },    { "7,40001", "1," },    { "40001,7", "0," },   { "3,5,70,71", "2,3" },
        { "64,33,40", "0,2" }, { "1,1000,300", "1," }, { "2,200000", "0,1" }, { "90,7,11,13", "1,3" },
    };
    static const char *const ops[] = { "ReduceMean",      "ReduceL2",     "ReduceL1",   "ReduceSumSquare",
                                       "ReduceLogSumExp", "ReduceLogSum", "ReduceProd", "ReduceMax" };
    char script[256];

    (void)state;
    for (size_t shape = 0; shape < sizeof shapes / sizeof *shapes; shape++) {
        for (size_t o = 0; o < sizeof ops / sizeof *ops; o++) {
            (void)snprintf(script, sizeof script, "x : %s\na = Abs(x)\ny = %s(a) axes=%s\n-> y", shapes[shape][0],
                           ops[o], shapes[shape][1]);
            by_providers(script, 11);
        }
        (void)snprintf(script, sizeof script, "x : %s\ny = ReduceSum(x) axes=%s keepdims=0\n-> y", shapes[shape][0],
                       shapes[shape][1]);
        by_providers(script, 11);
    }
}

static void means(void **state)
{
    static const char *const rows[] = {
        "x : 3,20000\ns = [20000]\nb = [20000]\ny = LayerNormalization(x, s, b)\n-> y",
        "x : 197,768\ns = [768]\nb = [768]\ny, m, v = LayerNormalization(x, s, b)\n-> y, m, v",
        "x : 1,513,33\ns = [33]\ny = LayerNormalization(x, s)\n-> y",
        "x : 5,770\nr : 5,770\ns = [770]\na = Add(x, r)\ny = LayerNormalization(a, s)\n-> y",
        "x : 1,6,200,171\ns = [6]\nb = [6]\ny = InstanceNormalization(x, s, b)\n-> y",
        "x : 2,48,31,33\ns = [48]\nb = [48]\ny = GroupNormalization(x, s, b) num_groups=6\n-> y",
        "x : 1,70,33,31\ny = GlobalAveragePool(x)\n-> y",
        "x : 1,3,201,301\ny = GlobalAveragePool(x)\n-> y",
        "x : 1,30,61,47\ny = AveragePool(x) kernel_shape=5,5 strides=2,2\n-> y",
        "x : 1,30,61,47\ny = LpPool(x) kernel_shape=3,3\n-> y",
        "x : 1,40,25,27\ny = LRN(x) size=5\n-> y",
        "x : 1,300000\ny = Softmax(x)\n-> y",
        "x : 31,1003\ny = Softmax(x)\n-> y",
        "x : 5,1003,17\ny = Softmax(x) axis=1\n-> y",
        "x : 3,70001\ny = LogSoftmax(x)\n-> y",
        "x : 7,100,3\ny = Softmax(x) axis=0\n-> y",
        "x : 4,50001\ny = LpNormalization(x) axis=1\n-> y",
        "x : 40001,3\ny = MeanVarianceNormalization(x) axes=0,\n-> y",
        "x : 20,50\nk = [] 0\nc = Cast(k) to=7\ny = CumSum(x, c)\n-> y",
        "x : 1,33,770\ns = [770]\ny = RMSNormalization(x, s)\n-> y",
        "x : 17,9000\ny = Hardmax(x)\n-> y",
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        by_providers(rows[i], strstr(rows[i], "RMS") != NULL ? 23 : strstr(rows[i], "Group") != NULL ? 21 : 17);
}

static void attentions(void **state)
{
    static const char *const rows[] = {
        "q : 1,12,197,64\nk : 1,12,197,64\nv : 1,12,197,64\ny = Attention(q, k, v)\n-> y",
        "q : 1,2,1,64\nk : 1,2,1500,64\nv : 1,2,1500,64\ny = Attention(q, k, v)\n-> y",
        "q : 2,3,70,33\nk : 2,3,333,33\nv : 2,3,333,20\nm : 70,333\ny = Attention(q, k, v, m)\n-> y",
        "q : 1,2,801,32\nk : 1,2,801,32\nv : 1,2,801,32\ny = Attention(q, k, v) is_causal=1\n-> y",
        "q : 1,8,301,32\nk : 1,2,301,32\nv : 1,2,301,32\ny = Attention(q, k, v) is_causal=1\n-> y",
        "q : 1,1,5,700\nk : 1,1,40,700\nv : 1,1,40,700\ny = Attention(q, k, v)\n-> y",
        ("x : 1,8,130,64\nb : 1,8,64,130\nv : 1,8,130,64\ns = [] 0.125\np = MatMul(x, b)\nt = Mul(p, s)\n"
         "u = Softmax(t)\ny = MatMul(u, v)\n-> y"),
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        by_providers(rows[i], 23);
}

static void recurrences(void **state)
{
    static const char *const rows[] = {
        "x : 20,1,300\nw = [1,512,300]\nr = [1,512,128]\nb = [1,1024]\ns = [] 0.02\nv = Mul(w, s)\nq = Mul(r, s)\n"
        "y, h, c = LSTM(x, v, q, b) hidden_size=128\n-> y, h, c",
        "x : 9,7,65\nw = [2,210,65]\nr = [2,210,70]\ns = [] 0.02\nv = Mul(w, s)\nq = Mul(r, s)\n"
        "y, h = GRU(x, v, q) hidden_size=70 direction=bidirectional\n-> y, h",
        "x : 5,33,400\nw = [1,90,400]\nr = [1,90,90]\ns = [] 0.02\nv = Mul(w, s)\nq = Mul(r, s)\n"
        "y, h = RNN(x, v, q) hidden_size=90\n-> y, h",
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        by_providers(rows[i], 14);
}

#define BYTES "xs = [] 0.03\nws = [] 0.01\nx8 = QuantizeLinear(x, xs)\nw8 = QuantizeLinear(w, ws)\n"

static void bytes(void **state)
{
    static const char *const rows[] = {
        "x : 33,770\nw = [770,130]\n" BYTES "i = MatMulInteger(x8, w8)\ny = Cast(i) to=1\n-> y",
        "x : 1,3000\nw = [3000,700]\n" BYTES "z = uint8[] 0\nys = [] 12.0\np = QLinearMatMul(x8, xs, z, w8, ws, z, ys, "
        "z)\ny = DequantizeLinear(p, ys)\n-> y",
        "x : 1,64,29,31\nw = [96,64,3,3]\n" BYTES "a = DequantizeLinear(x8, xs)\nb = DequantizeLinear(w8, ws)\n"
        "k = Conv(a, b) pads=1,1,1,1\nys = [] 2.5\nq = QuantizeLinear(k, ys)\ny = DequantizeLinear(q, ys)\n-> y",
        "x : 17,900\nw = [900,70]\nws = [] 0.01\nw8 = QuantizeLinear(w, ws)\n"
        "x8, xs, xz = DynamicQuantizeLinear(x)\ni = MatMulInteger(x8, w8, xz)\nf = Cast(i) to=1\ny = Mul(f, xs)\n-> y",
        "x : 1,48,33,29\nw = [48,1,3,3]\n" BYTES "a = DequantizeLinear(x8, xs)\nb = DequantizeLinear(w8, ws)\n"
        "k = Conv(a, b) pads=1,1,1,1 group=48\nys = [] 0.5\nq = QuantizeLinear(k, ys)\ny = DequantizeLinear(q, ys)\n-> "
        "y",
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        by_providers(rows[i], 13);
}

static void elements(void **state)
{
    static const char *const functions[] = { "Sigmoid",    "Tanh",      "Erf",  "Exp",  "Softplus", "Mish",
                                             "Sin",        "Cos",       "Elu",  "Gelu", "Atan",     "Sqrt",
                                             "Reciprocal", "HardSwish", "Selu", "Log" };
    static const char *const rows[] = {
        "x : 1,30,37,41\nz = [4] 1,1,1.7,2.3\ny = Resize(x, _, z) mode=linear\n-> y",
        "x : 1,30,37,41\nz = [4] 1,1,1.7,2.3\ny = Resize(x, _, z) mode=cubic\n-> y",
        "x : 100001\nb : 100001\np = Pow(x, b)\nm = Mul(x, b)\ny = Add(p, m)\n-> y",
        "x : 70,33,41\nb : 33,1\nd = Div(x, b)\ne = Exp(d)\ny = Sub(e, x)\n-> y",
        "a : 30,40,50\nb : 50,40,70\ny = Einsum(a, b) equation=abc,cbd->ad\n-> y",
        "x : 1,20,30,31\ng : 1,40,41,2\ny = GridSample(x, g)\n-> y",
        "x : 120,120\ny = Det(x)\n-> y",
    };
    char script[128];

    (void)state;
    for (size_t function = 0; function < sizeof functions / sizeof *functions; function++) {
        (void)snprintf(script, sizeof script, "x : 3,33337\ny = %s(x)\n-> y", functions[function]);
        by_providers(script, 20);
    }
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        by_providers(rows[i], 20);
}

/* Compares the result of one row with that of the same row as the first of several rows. */
static void rows_alone(void **state)
{
    static const char *const rows[] = {
        "x : N,770\nw = [770,130]\nb = [130]\np = MatMul(x, w)\na = Add(p, b)\ny = Relu(a)\n-> y",
        "x : N,1,2048\nw = [2048,65]\ny = MatMul(x, w)\n-> y",
        "x : N,900\nw = [64,900]\nb = [64]\ny = Gemm(x, w, b) transB=1\n-> y",
        "x : N,64,1,1\nw = [200,64,1,1]\ny = Conv(x, w)\n-> y",
        "x : N,3,41,43\nw = [24,3,3,3]\ny = Conv(x, w) strides=2,2 pads=1,1,1,1\n-> y",
        "x : N,96,15,15\nw = [96,96,3,3]\nb = [96]\nk = Conv(x, w, b) pads=1,1,1,1\ny = Relu(k)\n-> y",
        "x : N,240,7,7\nw = [40,240,1,1]\nk = Conv(x, w)\nm = GlobalAveragePool(k)\ny = Flatten(m)\n-> y",
        "x : N,48,19,17\nw = [48,1,3,3]\nv = [8,48,1,1]\nk = Conv(x, w) pads=1,1,1,1 group=48\ny = Conv(k, v)\n-> y",
        ("x : N,24,14,14\nw = [144,24,1,1]\nd = [144,1,3,3]\nh = Conv(x, w)\ni = Relu(h)\n"
         "y = Conv(i, d) pads=1,1,1,1 group=144\n-> y"),
        "x : N,3,64\nt = Transpose(x) perm=0,2,1\ns = MatMul(x, t)\np = Softmax(s)\ny = MatMul(p, x)\n-> y",
        "x : N,2,401,32\ny = Attention(x, x, x) is_causal=1\n-> y",
        "x : N,770\ns = [770]\nb = [770]\ny = LayerNormalization(x, s, b)\n-> y",
        "x : N,9001\nm = ReduceMean(x) keepdims=1 axes=1,\ny = Softmax(x)\n-> y",
        "x : N,48,20\nw = [48,30,4]\ny = ConvTranspose(x, w) strides=2,\n-> y",
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const int64_t opset = strstr(rows[i], "Attention") != NULL ? 23 : 17;
        struct rig one = { 0 };

        for (int64_t count = 1; count <= 17; count += count == 1 ? 1 : 5) {
            struct wire wire = { 0 };
            struct rig rig;

            script_model(&wire, opset, rows[i]);
            rig = rig_open(&wire,
                           (const char *const[]){ "reproducible", "1", "intra_threads", count % 2 ? "1" : "3", NULL });
            script_feed_sized(&rig, count, 5, 0);
            rig_run(&rig);
            if (count == 1) {
                one = rig;
                continue;
            }
            if (memcmp(inlay_value_data(inlay_context_output(one.context, 0)),
                       inlay_value_data(inlay_context_output(rig.context, 0)),
                       inlay_value_bytes(inlay_context_output(one.context, 0))) != 0)
                fail_msg("a row alone differs from the same row among %lld, in\n%s", (long long)count, rows[i]);
            rig_close(&rig);
        }
        rig_close(&one);
    }
}

/* With option reproducible, measurements have no effect, and providers are chosen by their order. */
static void ignores_measurements(void **state)
{
    struct wire wire = { 0 };
    struct rig rig;

    (void)state;
    script_model(&wire, 13, "x : 4\ny = Neg(x)\n-> y");
    rig = rig_open(&wire, (const char *const[]){ "reproducible", "1", "cache_dir", INLAY_BINARY_DIR, NULL });
    assert_null(rig.session->env.costs);
    assert_true(rig.session->rules.by_priority);
    rig_close(&rig);
}

/* A session gets the four threads that it requests, or all CPUs of this container's quota. With a smaller quota, the
 * tests compare fewer threads than they name. */
static void four_threads(void **state)
{
    const uint32_t budget = threads_budget();
    struct wire wire = { 0 };
    struct rig rig;

    (void)state;
    script_model(&wire, 13, "x : 4\ny = Neg(x)\n-> y");
    rig = rig_open(&wire, (const char *const[]){ "intra_threads", "4", NULL });
    assert_int_equal(rig.session->env.max_threads, budget < MOST ? budget : MOST);
    rig_close(&rig);
    if (budget < MOST) {
        print_message("only %u threads: a CPU quota of this container\n", budget);
        skip();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(four_threads), cmocka_unit_test(fewer_threads),
        cmocka_unit_test(products),     cmocka_unit_test(computed_products),
        cmocka_unit_test(convolutions), cmocka_unit_test(blocks),
        cmocka_unit_test(reductions),   cmocka_unit_test(means),
        cmocka_unit_test(attentions),   cmocka_unit_test(recurrences),
        cmocka_unit_test(bytes),        cmocka_unit_test(elements),
        cmocka_unit_test(rows_alone),   cmocka_unit_test(ignores_measurements),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
