/* Results are bitwise equal for every division of the work: models of one and of several operators, with random sizes,
 * on each provider, on one to four threads, without a cache, with an empty and with a filled one.
 *
 * A random generator divides the loops over the pool: into ranges of any length from the grain on, in any order, on any
 * worker. Providers may not rely on anything else, and random divisions cover far more cases than two ordinary runs.
 * Thread teams of libraries with their own loops have the size that the session states.
 *
 *     test_exec_random_bits [SEED [CASES]]       runs CASES cases of each family, for a search by hand */
#include "cmocka_all.h"
#include "random.h"
#include "inlay/execution.h"
#include "same_bits.h"
#include "session/session.h"
#include "threads/threads.h"
#include <dirent.h>
#include <ftw.h>
#include <stdarg.h>

static uint32_t seed = 1;
static int cases = 10; /* per family */

static uint64_t drawn;

/* Returns a random number in [0, n). */
static int64_t below(int64_t n)
{
    return (int64_t)random_below(&drawn, (uint64_t)n);
}

static bool random_bool(void)
{
    return below(2) == 1;
}

/* Returns a random number in [1, most], evenly over the orders of magnitude; sometimes a multiple of 16, as in real
 * models. */
static int size(int64_t most)
{
    int64_t top = 1;

    while (top < most && below(6) > 0)
        top *= 2;
    top = 1 + below(top < most ? top : most);
    return (int)(top > 16 && below(3) == 0 ? top / 16 * 16 : top);
}

static const char *one_of(const char *const *list, size_t count)
{
    return list[below((int64_t)count)];
}
#define ONE_OF(...)                                                                                                    \
    one_of((const char *const[]){ __VA_ARGS__ }, sizeof((const char *const[]){ __VA_ARGS__ }) / sizeof(char *))

static char script[4096];

static void add(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void add(const char *format, ...)
{
    const size_t used = strlen(script);
    va_list list;

    va_start(list, format);
    assert_true(vsnprintf(script + used, sizeof script - used, format, list) < (int)(sizeof script - used));
    va_end(list);
}

/* Families: each writes a script and returns its opset.
 *
 * An argument list has at most one call that draws: the order of its evaluation differs between architectures. */

static int products(void)
{
    const int m = size(300), k = size(3000), n = size(1 + 2000000 / (m * k + 4000));

    if (random_bool()) {
        add("x : %d,%d\nw = [%d,%d]\nb = [%d]\np = Gemm(x, w, b) transB=1 alpha=0.7\n", m, k, n, k, n);
    } else {
        add("x : %d,%d\nw = [%d,%d]\nb = [%d]\nq = MatMul(x, w)\np = Add(q, b)\n", m, k, k, n, n);
    }
    add("y = %s(p)\n-> y", ONE_OF("Relu", "Sigmoid", "Identity", "Erf"));
    return 13;
}

static int computed_products(void)
{
    const int batch = size(12), m = size(200), k = size(700), n = size(1 + 1000000 / (m * k));
    const bool transposed = random_bool();

    add("a : %d,%d,%d\nb : %d,%d,%d\n", batch, m, k, batch, transposed ? n : k, transposed ? k : n);
    if (transposed)
        add("t = Transpose(b) perm=0,2,1\n");
    add("y = MatMul(a, %s)\n-> y", transposed ? "t" : "b");
    return 13;
}

static int convolutions(void)
{
    const int dims = 1 + (int)below(8) % 3, kernel = 1 + (int)below(3) * 2, kind = (int)below(4);
    const int wide = dims == 2 ? size(40) : dims == 1 ? size(300) : size(9), stride = 1 + (int)below(4) / 3;
    const int group = kind == 0 ? size(130) : kind == 1 ? 1 + (int)below(4) : 1;
    const int in = kind == 0 ? 1 : size(100 / group), out = kind == 0 ? 1 : size(100 / group),
              high = dims == 3 ? size(9) : size(40);
    char where[64], window[64], pads[64], strides[32];

    (void)snprintf(where, sizeof where,
                   dims == 1   ? "%d"
                   : dims == 2 ? "%d,%d"
                               : "%d,%d,5",
                   wide + kernel, high + kernel);
    (void)snprintf(window, sizeof window, dims == 1 ? "%d" : dims == 2 ? "%d,%d" : "%d,%d,1", kernel, kernel);
    (void)snprintf(pads, sizeof pads,
                   dims == 1   ? "%d,%d"
                   : dims == 2 ? "%d,%d,%d,%d"
                               : "%d,%d,0,%d,%d,0",
                   kernel / 2, kernel / 2, kernel / 2, kernel / 2);
    (void)snprintf(strides, sizeof strides, dims == 1 ? "%d," : dims == 2 ? "%d,%d" : "%d,%d,1", stride, stride);
    add("x : %d,%d,%s\n", 1 + (int)below(3), in * group, where);
    if (below(5) == 0) {
        add("w = [%d,%d,%s]\nc = ConvTranspose(x, w) strides=%s group=%d\n", in * group, out, window, strides, group);
    } else {
        add("w = [%d,%d,%s]\nb = [%d]\nc = Conv(x, w, b) strides=%s pads=%s group=%d\n", out * group, in, window,
            out * group, strides, pads, group);
    }
    add("y = %s(c)\n-> y", ONE_OF("Relu", "Sigmoid", "Identity", "HardSwish", "GlobalAveragePool"));
    return 14;
}

/* Writes "d0,d1,..." with at most `most` elements, often enough for several ranges of a loop. Returns the rank. */
static int shape(char *text, int64_t most, int *dims)
{
    const int rank = 1 + (int)below(4), filled = (int)below(rank);
    int64_t left = most >> below(6);

    for (int d = 0; d < rank; d++) {
        dims[d] = d == filled ? 1 : size(d + 1 == rank ? random_bool() ? 70 : 1500 : 60);
        dims[d] = dims[d] > left ? (int)left : dims[d];
        left /= dims[d];
    }
    dims[filled] = (int)left;
    text[0] = '\0';
    for (int d = 0; d < rank; d++)
        (void)sprintf(text + strlen(text), d > 0 ? ",%d" : "%d", dims[d]);
    return rank;
}

static int softmaxes(void)
{
    char text[64];
    int dims[4], rank = shape(text, 300000, dims);
    const int axis = random_bool() ? rank - 1 : (int)below(rank);

    add("x : %s\ny = %s(x) axis=%d\n-> y", text, ONE_OF("Softmax", "Softmax", "LogSoftmax", "Hardmax"), axis);
    return 13;
}

static int reductions(void)
{
    char text[64], axes[32] = "";
    int dims[4], rank = shape(text, 300000, dims);
    const int first = (int)below(rank), last = first + (int)below(rank - first);
    const bool keeps = random_bool();

    for (int d = first; d <= last; d++)
        (void)sprintf(axes + strlen(axes), "%d,", d);
    add("x : %s\na = Abs(x)\ny = %s(a) axes=%s keepdims=%d\n-> y", text,
        ONE_OF("ReduceMean", "ReduceSum", "ReduceL2", "ReduceL1", "ReduceSumSquare", "ReduceLogSumExp", "ReduceLogSum",
               "ReduceProd", "ReduceMax", "ReduceMin"),
        axes, keeps);
    return 11;
}

static int norms(void)
{
    const int rows = size(300), n = size(1500), channels = 4 * size(20), high = size(40), wide = size(40);

    switch (below(9)) {
    case 0:
        add("x : %d,%d\ns = [%d]\nb = [%d]\ny = LayerNormalization(x, s, b)\n-> y", rows, n, n, n);
        break;
    case 1:
        add("x : %d,%d\nr : %d,%d\ns = [%d]\na = Add(x, r)\ny = LayerNormalization(a, s)\n-> y, a", rows, n, rows, n,
            n);
        break;
    case 2:
        add("x : %d,%d\ns = [%d]\ny = RMSNormalization(x, s)\n-> y", rows, n, n);
        break;
    case 3:
        add("x : 2,%d,%d,%d\ns = [%d]\nb = [%d]\ny = InstanceNormalization(x, s, b)\n-> y", channels, high, wide,
            channels, channels);
        break;
    case 4:
        add("x : 2,%d,%d,%d\ns = [%d]\nb = [%d]\ny = GroupNormalization(x, s, b) num_groups=4\n-> y", channels, high,
            wide, channels, channels);
        break;
    case 5:
        add("x : 1,%d,%d,%d\ny = LRN(x) size=5\n-> y", channels, high, wide);
        break;
    case 6:
        add("x : %d,%d\ny = LpNormalization(x) axis=%d\n-> y", rows, n, (int)below(2));
        break;
    case 7:
        add("x : %d,%d\ny = MeanVarianceNormalization(x) axes=%d,\n-> y", rows, n, (int)below(2));
        break;
    default:
        add("x : %d,%d\nk = [] 0\nc = Cast(k) to=7\ny = CumSum(x, c)\n-> y", rows, n);
    }
    return 23;
}

static int pools(void)
{
    const int kernel = 1 + (int)below(5), high = kernel + size(40), wide = kernel + size(40);
    const int images = 1 + (int)below(2), channels = size(80), down = 1 + (int)below(2), right = 1 + (int)below(2);

    add("x : %d,%d,%d,%d\n", images, channels, high, wide);
    if (below(3) == 0) {
        add("y = %s(x)\n-> y", ONE_OF("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool"));
    } else {
        add("y = %s(x) kernel_shape=%d,%d strides=%d,%d\n-> y", ONE_OF("AveragePool", "MaxPool", "LpPool"), kernel,
            kernel, down, right);
    }
    return 17;
}

static int elements(void)
{
    char text[64];
    int dims[4], rank = shape(text, 200000, dims);

    add("x : %s\nb : %d\n", text, random_bool() ? dims[rank - 1] : 1);
    add("a = %s(x)\n", ONE_OF("Sigmoid", "Tanh", "Erf", "Exp", "Softplus", "Mish", "Sin", "Cos", "Elu", "Gelu", "Atan",
                              "Reciprocal", "HardSwish", "Selu", "Softsign", "Celu"));
    add("c = %s(a, b)\n", ONE_OF("Add", "Mul", "Sub", "Div", "Max", "Min"));
    add("y = %s(c)\n-> y", ONE_OF("Relu", "Abs", "Neg", "Sigmoid", "Tanh", "Erf", "Exp"));
    return 20;
}

static int attentions(void)
{
    const int heads = size(8), queries = size(150), keys = size(400), wide = size(80),
              shared = random_bool() ? heads : 1;

    switch (below(3)) {
    case 0:
        add("q : 2,%d,%d,%d\nk : 2,%d,%d,%d\nv : 2,%d,%d,%d\ny = Attention(q, k, v) is_causal=%d\n-> y", heads, queries,
            wide, shared, keys, wide, shared, keys, wide, queries <= keys ? (int)below(2) : 0);
        break;
    case 1:
        add("q : 1,%d,%d,%d\nk : 1,%d,%d,%d\nv : 1,%d,%d,%d\nm : %d,%d\ny = Attention(q, k, v, m)\n-> y", heads,
            queries, wide, heads, keys, wide, heads, keys, wide, queries, keys);
        break;
    default:
        add("q : %d,%d,%d\nk : %d,%d,%d\nv : %d,%d,%d\nm : %d,%d\ns = [] 0.125\np = MatMul(q, k)\nt = Mul(p, s)\n"
            "n = Add(t, m)\nu = Softmax(n)\ny = MatMul(u, v)\n-> y",
            heads, queries, wide, heads, wide, keys, heads, keys, wide, queries, keys);
    }
    return 23;
}

static int recurrences(void)
{
    const int steps = size(12), batch = size(20), in = size(200), hidden = size(100);
    const int kind = (int)below(3), gates = kind == 0 ? 4 : kind == 1 ? 3 : 1, ways = 1 + (int)below(2);

    add("x : %d,%d,%d\nw = [%d,%d,%d]\nr = [%d,%d,%d]\ns = [] 0.02\nv = Mul(w, s)\nq = Mul(r, s)\n", steps, batch, in,
        ways, gates * hidden, in, ways, gates * hidden, hidden);
    add("y, h = %s(x, v, q) hidden_size=%d direction=%s\n-> y, h",
        kind == 0   ? "LSTM"
        : kind == 1 ? "GRU"
                    : "RNN",
        hidden, ways > 1 ? "bidirectional" : ONE_OF("forward", "reverse"));
    return 14;
}

/* Matrix multiplications of int8 and with low-bit weights. */
static int bytes(void)
{
    const int m = size(80), k = size(900), n = size(150), high = 3 + size(25), channels = size(64),
              group = random_bool() ? channels : 1;

    switch (below(4)) {
    case 0:
        add("x : %d,%d\nw = [%d,%d]\nws = [] 0.01\nw8 = QuantizeLinear(w, ws)\nx8, xs, xz = DynamicQuantizeLinear(x)\n"
            "i = MatMulInteger(x8, w8, xz)\nf = Cast(i) to=1\ny = Mul(f, xs)\n-> y",
            m, k, k, n);
        break;
    case 1:
        add("x : %d,%d,%d,%d\nw = [%d,%d,3,3]\nxs = [] 0.03\nws = [] 0.01\nx8 = QuantizeLinear(x, xs)\n"
            "w8 = QuantizeLinear(w, ws)\na = DequantizeLinear(x8, xs)\nb = DequantizeLinear(w8, ws)\n"
            "k = Conv(a, b) pads=1,1,1,1 group=%d\nys = [] 0.5\nq = QuantizeLinear(k, ys)\ny = DequantizeLinear(q, "
            "ys)\n-> y",
            1 + (int)below(2), channels, high, high, channels, channels / group, group);
        break;
    case 2:
        add("x : %d,%d\nw = [%d,%d]\nxs = [] 0.03\nws = [] 0.01\nx8 = QuantizeLinear(x, xs)\nw8 = QuantizeLinear(w, "
            "ws)\n"
            "a = DequantizeLinear(x8, xs)\nb = DequantizeLinear(w8, ws)\ny = MatMul(a, b)\n-> y",
            m, k, k, n);
        break;
    default: {
        const int blocks = 1 + k / 32;

        add("x : %d,%d\nw = [%d,%d,16]\ns = [%d]\nz = [] 160.0\nv = Mul(w, z)\nb = Cast(v) to=2\n"
            "y = ms.MatMulNBits(x, b, s) K=%d N=%d bits=4 block_size=32 accuracy_level=%d\n-> y",
            m, blocks * 32, n, blocks, n * blocks, blocks * 32, n, random_bool() ? 4 : 0);
    }
    }
    return 20;
}

static int other_operators(void)
{
    const int a = size(60), b = size(60), c = size(60), high = size(40), wide = size(40), channels = size(30);

    switch (below(8)) {
    case 0:
        add("x : 1,%d,%d,%d\nz = [4] 1,1,1.7,2.3\ny = Resize(x, _, z) mode=%s\n-> y", channels, high, wide,
            ONE_OF("linear", "cubic", "nearest"));
        break;
    case 1:
        add("a : %d,%d,%d\nb : %d,%d,%d\ny = Einsum(a, b) equation=abc,cbd->ad\n-> y", a, b, c, c, b, high);
        break;
    case 2:
        add("x : 1,%d,%d,%d\ng : 1,%d,%d,2\ny = GridSample(x, g)\n-> y", channels, high, wide, a, b);
        break;
    case 3:
        add("x : %d,%d\ny = Det(x)\n-> y", a, a);
        break;
    case 4:
        add("x : %d,%d,%d\nt = Transpose(x) perm=2,0,1\nr = ReduceMean(t) axes=0,\nu = Sub(t, r)\ny = Mul(u, u)\n-> y",
            a, b, c);
        break;
    case 5:
        add("x : %d,%d\nb : %d,%d\ny = Pow(x, b)\n-> y", a, b, a, b);
        break;
    case 6:
        add("x : 2,%d,%d,%d\ns = [%d]\nb = [%d]\nm = [%d]\nv = [%d]\ny = BatchNormalization(x, s, b, m, v)\n-> y",
            channels, high, wide, channels, channels, channels, channels);
        break;
    default:
        add("x : %d,%d\nk = i[1] 1\ny, i = TopK(x, k)\n-> y", a, b);
    }
    return 17;
}

/* Layers of a transformer or of a convolutional network, which form regions. */
static int layers(void)
{
    const int count = 2 + (int)below(5), rows = size(150), channels = 4 * size(16), high = 3 + size(28),
              images = 1 + (int)below(2);
    const bool is_image = random_bool();
    int n = is_image ? channels : 4 * size(60);

    if (is_image)
        add("x0 : %d,%d,%d,%d\n", images, n, high, high);
    else
        add("x0 : %d,%d,%d\n", images, rows, n);
    for (int i = 0; i < count; i++) {
        const int next = 4 * size(40), kind = (int)below(6);
        char from[8], to[8];

        (void)snprintf(from, sizeof from, "x%d", i);
        (void)snprintf(to, sizeof to, "x%d", i + 1);
        if (kind < 2 && is_image) {
            add("w%d = [%d,%d,%d,%d]\n%s = Conv(%s, w%d) pads=%d,%d,%d,%d\n", i, next, n, 1 + 2 * kind, 1 + 2 * kind,
                to, from, i, kind, kind, kind, kind);
            n = next;
        } else if (kind < 2) {
            add("w%d = [%d,%d]\nb%d = [%d]\nm%d = MatMul(%s, w%d)\n%s = Add(m%d, b%d)\n", i, n, next, i, next, i, from,
                i, to, i, i);
            n = next;
        } else if (kind == 2 && is_image) {
            add("d%d = [%d,1,3,3]\n%s = Conv(%s, d%d) pads=1,1,1,1 group=%d\n", i, n, to, from, i, n);
        } else if (kind == 2) {
            add("s%d = [%d]\n%s = LayerNormalization(%s, s%d)\n", i, n, to, from, i);
        } else if (kind == 3) {
            add("%s = Softmax(%s) axis=%d\n", to, from, is_image ? 1 : 2);
        } else if (kind == 4) {
            add("g%d = %s(%s)\n%s = Mul(%s, g%d)\n", i, ONE_OF("Sigmoid", "Tanh", "Erf"), from, to, from, i);
        } else {
            add("r%d = %s(%s) axes=%s keepdims=1\n%s = Sub(%s, r%d)\n", i, ONE_OF("ReduceMean", "ReduceMax"), from,
                is_image ? "2,3" : "2,", to, from, i);
        }
    }
    add("-> x%d", count);
    return 17;
}

static const struct family {
    const char *name;
    int (*write)(void);
} families[] = {
    { "products", products },
    { "computed products", computed_products },
    { "convolutions", convolutions },
    { "softmaxes", softmaxes },
    { "reductions", reductions },
    { "norms", norms },
    { "pools", pools },
    { "elements", elements },
    { "attentions", attentions },
    { "recurrences", recurrences },
    { "bytes", bytes },
    { "other operators", other_operators },
    { "layers", layers },
};
enum { FAMILIES = sizeof families / sizeof *families };

static uint32_t workers; /* workers of loops; 0: loops are not changed */
static bool in_loop;
static uint32_t this_worker;
static bool was_divided;

inlay_status __real_threads_parallel_for(const inlay_run *run, int64_t count, int64_t grain, inlay_parallel_fn fn,
                                         void *user);
inlay_status __wrap_threads_parallel_for(const inlay_run *run, int64_t count, int64_t grain, inlay_parallel_fn fn,
                                         void *user);
inlay_status __wrap_threads_parallel_for(const inlay_run *run, int64_t count, int64_t grain, inlay_parallel_fn fn,
                                         void *user)
{
    enum { MOST_RANGES = 64 };
    int64_t ends[MOST_RANGES + 1] = { 0 };
    uint32_t order[MOST_RANGES], ranges = 0;
    const uint32_t outer = this_worker;
    const bool nested = in_loop;
    inlay_status status = INLAY_OK;

    if (workers == 0 || count <= 0)
        return __real_threads_parallel_for(run, count, grain, fn, user);
    grain = grain < 1 ? 1 : grain;
    while (ends[ranges] < count) {
        const int64_t left = count - ends[ranges];
        int64_t length = grain + below(1 + (random_bool() ? grain : left / 4));

        if (left - length < grain || ranges + 1 == MOST_RANGES)
            length = left;
        order[ranges] = ranges;
        ends[ranges + 1] = ends[ranges] + length;
        ranges++;
    }
    was_divided |= ranges > 1;
    in_loop = true;
    for (uint32_t left = ranges; left > 0 && status == INLAY_OK; left--) {
        const uint32_t at = (uint32_t)below(left), range = order[at];

        order[at] = order[left - 1];
        this_worker = nested ? outer : (uint32_t)below(workers);
        status = fn(user, ends[range], ends[range + 1], this_worker);
    }
    in_loop = nested;
    this_worker = outer;
    return status;
}

static const struct variant variants[] = {
    { "by cost", { NULL } },
    { "reproducible", { "reproducible", "1", NULL } },
    { "reference", { "providers", "reference", NULL } },
#ifdef HAVE_OPENBLAS
    { "openblas", { "providers", "openblas,reference", "policy", "priority", NULL } },
#endif
    { "cpu", { "providers", "cpu,reference", "policy", "priority", NULL } },
    { "cpu, reproducible", { "providers", "cpu,reference", "reproducible", "1", NULL } },
    { "fast", { "providers", "cpu,reference", "policy", "priority", "precision", "fast", NULL } },
    { "onednn", { "providers", "onednn?,reference", "policy", "priority", NULL } },
};
enum { VARIANTS = sizeof variants / sizeof *variants };
#ifdef HAVE_VULKAN
/* If there is a device, it runs one case of each family, because the driver's compilation takes longer than all other
 * cases. */
static const struct variant on_device = {
    "vulkan", { "providers", "vulkan,reference", "policy", "priority", "vulkan.device", "auto", NULL }
};

static bool has_device(void)
{
    static int present = -1;
    inlay_diag diag = INLAY_DIAG_INIT;
    const char *options[12] = { "pin", "op:Abs=vulkan" };
    struct wire wire = { 0 };
    struct rig rig;

    if (present < 0) {
        memcpy(options + 2, on_device.options, sizeof on_device.options);
        script_model(&wire, 13, "x : 4\ny = Abs(x)\n-> y");
        present = rig_try_open(&wire, options, &rig, &diag) == INLAY_OK;
        if (present == 0)
            print_message("no Vulkan device: %s\n", diag.text);
        rig_close(&rig);
    }
    return present == 1;
}
#endif

static char folder[64];

static int drop_entry(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st, (void)type, (void)ftw;
    return remove(path);
}

static void drop_cache(void)
{
    (void)nftw(folder, drop_entry, 8, FTW_DEPTH | FTW_PHYS);
}

static void check(const struct variant *variant, int opset)
{
    static const struct {
        const char *threads, *what;
        bool divided, cache;
    } rows[] = {
        { "1", "with an empty cache", false, true },
        { "2", "2 threads and a warm cache", true, true },
        { "3", "3 threads", true, false },
        { "4", "4 threads", true, false },
        { "4", "4 threads, loops divided as usual", false, false },
    };
    struct rig one;

    workers = 0;
    one = same_bits_run(script, opset, variant, "1", NULL);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct rig other;

        workers = rows[i].divided ? (uint32_t)strtoul(rows[i].threads, NULL, 10) : 0;
        other = same_bits_run(script, opset, variant, rows[i].threads,
                              rows[i].cache ? (const char *const[]){ "cache_dir", folder, NULL } : NULL);
        workers = 0;
        same_bits_compare(&one, &other, variant, rows[i].what, script);
        rig_close(&other);
    }
    rig_close(&one);
    drop_cache();
}

static void the_same_bits(void **state)
{
    const struct family *family = *state;

    for (int i = 0; i < cases; i++) {
        int opset;

        drawn = ((uint64_t)seed << 32) + (uint64_t)(family - families) * 1000003 + (uint64_t)i;
        (void)below(2);
        script[0] = '\0';
        opset = family->write();
        for (int variant = 0; variant < VARIANTS; variant++)
            check(&variants[variant], opset);
#ifdef HAVE_VULKAN
        if (i == 0 && has_device())
            check(&on_device, opset);
#endif
    }
}

/* Checks that loops were divided at all. */
static void loops_were_divided(void **state)
{
    (void)state;
    assert_true(was_divided);
}

/* Prints a hash of the outputs of each case with reproducible=cpu, which levels.sh compares between instruction levels.
 * All NaN are equal. */
static int print_hashes(const char *threads)
{
    static const struct variant uniform = { "uniform", { "providers", "cpu,reference", "reproducible", "cpu", NULL } };

    for (const struct family *family = families; family < families + FAMILIES; family++)
        for (int i = 0; i < cases; i++) {
            uint64_t hash = 0xcbf29ce484222325;
            struct rig rig;
            int opset;

            drawn = ((uint64_t)seed << 32) + (uint64_t)(family - families) * 1000003 + (uint64_t)i;
            (void)below(2);
            script[0] = '\0';
            opset = family->write();
            rig = same_bits_run(script, opset, &uniform, threads, NULL);
            for (uint32_t o = 0; o < inlay_session_output_count(rig.session); o++) {
                const inlay_value *output = inlay_context_output(rig.context, o);
                const uint32_t *words = inlay_value_data(output);

                for (uint64_t word = 0; word < inlay_value_bytes(output) / sizeof *words; word++) {
                    const bool nan =
                        inlay_value_dtype(output) == INLAY_FLOAT && (words[word] & INT32_MAX) > 0x7f800000u;

                    hash = (hash ^ (nan ? 0x7fc00000u : words[word])) * 0x100000001b3;
                }
            }
            (void)printf("%s %d %016llx\n", family->name, i, (unsigned long long)hash);
            rig_close(&rig);
        }
    return 0;
}

int main(int argc, char **argv)
{
    struct CMUnitTest tests[FAMILIES + 1] = { { .name = NULL } };
    int status;

    seed = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : seed;
    cases = argc > 2 ? (int)strtol(argv[2], NULL, 10) : cases;
    if (argc > 3)
        return print_hashes(argv[3]);
    (void)snprintf(folder, sizeof folder, "/tmp/inlay-bits-XXXXXX");
    if (mkdtemp(folder) == NULL)
        return 2;
    for (int family = 0; family < FAMILIES; family++)
        tests[family] = (struct CMUnitTest){ .name = families[family].name,
                                             .test_func = the_same_bits,
                                             .initial_state = (void *)(uintptr_t)&families[family] };
    tests[FAMILIES] = (struct CMUnitTest)cmocka_unit_test(loops_were_divided);
    status = cmocka_run_group_tests(tests, NULL, NULL);
    drop_cache();
    return status;
}
