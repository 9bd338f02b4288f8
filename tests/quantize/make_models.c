/* The models and samples of quantize.sh: make_models FOLDER. */
#include "graph_script.h"
#include "archive.h"
#include "model_writer.h"
#include <math.h>
#include <stdio.h>
#include <sys/stat.h>

/* A small convolutional network with a residual, and a classifier. Weights are centred at 0. */
static const char net[] = "x : N,3,16,16\n"
                          "one = [] 1.0\n eps = [] 0.05\n"
                          "v1 = [8,3,3,3]\n v2 = [8,8,3,3]\n v3 = [16,8,1,1]\n v4 = [16,10]\n"
                          "b1 = [8]\n b4 = [10]\n"
                          "u1 = Sub(v1, one)\n u2 = Sub(v2, one)\n u3 = Sub(v3, one)\n u4 = Sub(v4, one)\n"
                          "w1 = Mul(u1, one)\n w2 = Mul(u2, one)\n w3 = Mul(u3, one)\n w4 = Mul(u4, one)\n"
                          "c1 = Conv(x, w1, b1) pads=1,1,1,1\n r1 = Relu(c1)\n"
                          "c2 = Conv(r1, w2) pads=1,1,1,1\n s2 = Add(c2, r1)\n r2 = Relu(s2)\n"
                          "c3 = Conv(r2, w3)\n r3 = Relu(c3)\n"
                          "p = GlobalAveragePool(r3)\n f = Flatten(p)\n"
                          "y = Gemm(f, w4, b4)\n"
                          "-> y";
/* A table that is indexed by the rounded input, and a matrix multiplication. */
static const char table[] =
    "x : N,64\n t = [300,64]\n w = [64,256]\n one = [] 1.0\n w1 = Sub(w, one)\n"
    "r = Abs(x)\n i = Cast(r) to=7\n g = Gather(t, i) axis=0\n m = ReduceMean(g) axes=1, keepdims=0\n"
    "s = Add(x, m)\n y = MatMul(s, w1)\n -> y";
/* A constant factor makes a few channels much larger than the others. */
static const char sharp[] =
    "x : N,64\n v = [64]\n e = [] 3.0\n g = Pow(v, e)\n h = Mul(x, g)\n w = [64,96]\n u = [96,40]\n one = [] 1.0\n w1 "
    "= Sub(w, one)\n u1 = Sub(u, one)\n f = MatMul(h, w1)\n r = Relu(f)\n y = MatMul(r, u1)\n -> y";
static const char mlp[] = "x : N,64\n"
                          "one = [] 1.0\n v1 = [64,96]\n v2 = [40,96]\n b2 = [40]\n"
                          "w1 = Sub(v1, one)\n w2 = Sub(v2, one)\n"
                          "h = MatMul(x, w1)\n t = Tanh(h)\n"
                          "y = Gemm(t, w2, b2) transB=1\n"
                          "-> y";
/* One matrix has a weight that is infinite. */
static const char infinite[] = "x : N,64\n v = [64,96] @5 inf\n u = [96,40]\n h = MatMul(x, v)\n t = Tanh(h)\n"
                               "y = MatMul(t, u)\n -> y";
/* A weight of rank 3: a matrix for each of four experts. */
static const char experts[] = "x : 4,N,64\n one = [] 1.0\n v = [4,64,96]\n w = Sub(v, one)\n y = MatMul(x, w)\n -> y";
/* Experts that a Gather selects for each row, of which the second are transposed and of a depth that blocks do not
 * divide; and values of a stack that something else reads. */
static const char selected[] =
    "x : N,1,64\n i : int64 N\n one = [] 1.0\n v = [4,64,70]\n u = [4,50,70]\n w1 = Sub(v, one)\n w2 = Sub(u, one)\n"
    "g = Gather(w1, i)\n h = MatMul(x, g)\n r = Relu(h)\n k = Gather(w2, i)\n t = Transpose(k) perm=0,2,1\n"
    "y = MatMul(r, t)\n -> y";
static const char negated[] =
    "x : N,64,3\n i : int64 N\n v = [4,64,96]\n g = Gather(v, i)\n a = Neg(g)\n t = Transpose(a) "
    "perm=0,2,1\n y = MatMul(t, x)\n -> y";
static const char mixture[] = "x : N,64\n p : N,4\n one = [] 1.0\n v = [4,80,64]\n u = [4,64,80]\n w1 = Sub(v, one)\n"
                              "w2 = Sub(u, one)\n y = ms.MoE(x, p, w1, _, w2, _) k=2 activation_type=silu "
                              "normalize_routing_weights=1\n -> y";
/* Two matrix multiplications of equal size: the first has larger rounding errors, but little effect on the output. */
static const char twice[] = "x : N,64\n v = [64,64]\n w = [64,64]\n one = [] 1.0\n e = [] 5.0\n little = [] 0.01\n"
                            "v0 = Sub(v, one)\n v1 = Pow(v0, e)\n w1 = Sub(w, one)\n a = MatMul(x, v1)\n"
                            "s = Mul(a, little)\n b = MatMul(x, w1)\n y = Add(s, b)\n -> y";
/* A size that passes read from the input; opset 17. */
static const char sized[] = "x : N,64\n v = [64,96]\n one = [] 1.0\n w = Sub(v, one)\n z = i[1] 0\n k = i[2] 4,24\n"
                            "t = [1,1,24]\n"
                            "h = MatMul(x, w)\n s = Shape(h)\n g = Gather(s, z)\n c = Concat(g, k) axis=0\n"
                            "y = Expand(t, c)\n -> h, y";
/* Operators whose attributes are inputs in later opsets, and a Softmax over several axes; opset 9. */
static const char old[] = "x : 2,3,40\n"
                          "one = [] 1.0\n v = [40,40]\n w = Sub(v, one)\n"
                          "u = Unsqueeze(x) axes=0,\n q = Squeeze(u) axes=0,\n"
                          "m = MatMul(q, w)\n"
                          "c = Clip(m) min=-2.0 max=2.5\n"
                          "p = Softmax(c) axis=1\n"
                          "r = ReduceSum(p) axes=1, keepdims=0\n e = ReduceMean(p) axes=2, keepdims=1\n"
                          "a, b = Split(p) axis=2\n"
                          "-> r, e, a, b, p";
/* 24 MB of weights. */
static const char wide[] = "x : N,64\n v = [64,1024]\n"
                           "a = [1024,1024]\n b = [1024,1024]\n c = [1024,1024]\n"
                           "d = [1024,1024]\n e = [1024,1024]\n f = [1024,1024]\n"
                           "h = MatMul(x, v)\n s = Tanh(h)\n"
                           "h1 = MatMul(s, a)\n s1 = Tanh(h1)\n h2 = MatMul(s1, b)\n s2 = Tanh(h2)\n"
                           "h3 = MatMul(s2, c)\n s3 = Tanh(h3)\n h4 = MatMul(s3, d)\n s4 = Tanh(h4)\n"
                           "h5 = MatMul(s4, e)\n s5 = Tanh(h5)\n y = MatMul(s5, f)\n"
                           "-> y";
/* Weights beyond float16, with quantization steps that no float32 product of two scales can represent. */
static const char big[] = "x : N,64\n s = [] 1e36\n v = [64,96]\n w = Mul(v, s)\n y = MatMul(x, w)\n -> y";
/* Two inputs, and no weights that could be quantized. */
static const char sum[] = "x : N,4\n z : N,4\n y = Add(x, z)\n -> y";
/* Channels of very different magnitude after a normalisation; opset 17. */
static const char uneven[] = "x : N,64\n v = [64]\n c = [64]\n e = [] 8.0\n g = Pow(v, e)\n"
                             "b = Pow(c, e)\n w = [64,96]\n u = [96,40]\n"
                             "one = [] 1.0\n w1 = Sub(w, one)\n h = LayerNormalization(x, g, b)\n"
                             "f = MatMul(h, w1)\n r = Relu(f)\n y = MatMul(r, u)\n -> y";
/* Channels that are zero (the last 32 of 96), and channels without a consumer (the first 8). */
static const char dead[] = "x : N,64\n u = [64,32]\n v1 = [64,64]\n a = [32]\n c = [64]\n o = [8,40]\n v2 = [88,40]\n"
                           "z = Sub(u, u)\n w1 = Concat(v1, z) axis=1\n f = Sub(a, a)\n b = Concat(c, f) axis=0\n"
                           "q = Sub(o, o)\n w2 = Concat(q, v2) axis=0\n"
                           "h = MatMul(x, w1)\n g = Add(h, b)\n r = Relu(g)\n y = MatMul(r, w2)\n"
                           "-> y";
/* A body with separate weights. */
static const char branch[] = "x : 4,64\n zero = [] 0.0\n w = [64,64]\n"
                             "s = ReduceSum(x) keepdims=0\n t = Greater(s, zero)\n"
                             "y = If(t) then:MatMul(x,w) else:Relu(x)\n"
                             "-> y";

static void write_file(const char *folder, const char *name, const void *data, size_t bytes)
{
    char path[512];
    FILE *file;

    (void)snprintf(path, sizeof path, "%.400s/%.100s", folder, name);
    file = fopen(path, "wb");
    if (file == NULL || fwrite(data, 1, bytes, file) != bytes || fclose(file) != 0) {
        perror(path);
        exit(1);
    }
}

/* A vector input with the batch of another one, and a state whose second axis is the batch. */
static const char lengths[] = "x : N,4\nl : N\na = i[1] 1\nu = Unsqueeze(l, a)\ny = Concat(x, u) axis=1\n-> y";
static const char states[] = "x : N,4\ns : 1,N,2\na = i[1] 0\nu = Squeeze(s, a)\ny = Concat(x, u) axis=1\n-> y";

static void write_script(const char *folder, const char *name, const char *script, int64_t opset)
{
    struct wire wire = { 0 };

    script_model(&wire, opset, script);
    write_file(folder, name, wire.bytes, wire.count);
    wire_deinit(&wire);
}

/* Consumers of weights in which four fifths of the 1x16 blocks are zeros. */
static const struct sparse_kind {
    const char *prefix, *op, *x, *y;
    int64_t dims[4];
    uint32_t rank;
    bool turned; /* Gemm with weights [n, k], and sparse indices with one column per axis */
} sparse_kinds[] = {
    { "", "MatMul", "40,256", "40,256", { 256, 256 }, 2, false },
    { "conv_", "Conv", "1,256,6,6", "1,256,6,6", { 256, 256, 1, 1 }, 4, false },
    { "gemm_", "Gemm", "7,400", "7,300", { 300, 400 }, 2, true },
    { "wide_", "MatMul", "1,3072", "1,2048", { 3072, 2048 }, 2, false },
};

static void put_sparse(struct wire *wire, const struct sparse_kind *kind, const float *weights, int64_t total)
{
    const int64_t columns = kind->turned ? 2 : 1;
    float *values = calloc((size_t)total, sizeof *values);
    int64_t *at = calloc((size_t)(total * columns), sizeof *at), count = 0;
    wire_mark inner;

    if (values == NULL || at == NULL)
        exit(1);
    for (int64_t i = 0; i < total; i++) {
        values[count] = weights[i];
        at[count * columns] = kind->turned ? i / kind->dims[1] : i;
        if (kind->turned)
            at[count * columns + 1] = i % kind->dims[1];
        count += weights[i] != 0;
    }
    inner = wire_begin(wire, 1);
    mw_tensor_head(wire, "w", INLAY_FLOAT, 1, &count);
    wire_bytes(wire, 9, values, (size_t)count * sizeof *values);
    wire_end(wire, inner);
    inner = wire_begin(wire, 2);
    mw_tensor_head(wire, NULL, INLAY_INT64, kind->turned ? 2 : 1, (const int64_t[]){ count, 2 });
    wire_bytes(wire, 9, at, (size_t)(count * columns) * sizeof *at);
    wire_end(wire, inner);
    wire_ints(wire, 3, kind->dims, kind->rank);
    free(values);
    free(at);
}

/* The same weights in two files; in one they are a sparse initializer. */
static void write_sparse(const char *folder, const struct sparse_kind *kind, bool is_sparse)
{
    const int64_t rows = kind->dims[0], columns = kind->dims[1];
    float *weights = calloc((size_t)(rows * columns), sizeof *weights);
    uint64_t state = 9;
    bool is_zero = false;
    char name[40];
    struct wire wire = { 0 };
    wire_mark mark, t;

    if (weights == NULL)
        exit(1);
    for (int64_t k = 0; k < (kind->turned ? columns : rows); k++)
        for (int64_t n = 0; n < (kind->turned ? rows : columns); n++) {
            is_zero = n % 16 == 0 ? random_unit(&state) < 0.8F : is_zero;
            weights[kind->turned ? n * columns + k : k * columns + n] = is_zero ? 0 : random_unit(&state) - 1.25F;
        }
    mark = mw_begin(&wire, 8, 17);
    mw_value(&wire, MW_INPUT, "x", INLAY_FLOAT, kind->x);
    t = mw_node_begin(&wire, kind->op, "x,w", "y");
    if (kind->turned) {
        const wire_mark attr = wire_begin(&wire, 5);

        wire_text(&wire, 1, "transB");
        wire_int(&wire, 3, 1);
        wire_int(&wire, 20, 2);
        wire_end(&wire, attr);
    }
    wire_end(&wire, t);
    mw_value(&wire, MW_OUTPUT, "y", INLAY_FLOAT, kind->y);
    t = wire_begin(&wire, is_sparse ? MW_SPARSE : MW_INITIALIZER);
    if (is_sparse) {
        put_sparse(&wire, kind, weights, rows * columns);
    } else {
        mw_tensor_head(&wire, "w", INLAY_FLOAT, kind->rank, kind->dims);
        wire_bytes(&wire, 9, weights, (size_t)(rows * columns) * sizeof *weights);
    }
    wire_end(&wire, t);
    wire_end(&wire, mark);
    (void)snprintf(name, sizeof name, "%s%s.onnx", kind->prefix, is_sparse ? "sparse" : "dense");
    write_file(folder, name, wire.bytes, wire.count);
    wire_deinit(&wire);
    free(weights);
}

static void write_array(const char *folder, const char *name, const char *shape, const float *data, size_t count)
{
    struct buffer buffer = npy_of(shape, data, count);

    write_file(folder, name, buffer.data, buffer.bytes);
    free(buffer.data);
}

static void write_archive(const char *folder, const char *name, const char *entry, const char *shape, const float *data,
                          size_t count, bool deflate_it)
{
    struct buffer buffer = npy_of(shape, data, count), zip = zip_of(entry, &buffer, deflate_it);

    write_file(folder, name, zip.data, zip.bytes);
    free(zip.data);
    free(buffer.data);
}

/* Writes samples of `wide`: few and many. */
static void write_rows(const char *folder)
{
    enum { FEW = 8, MANY = 400, ROW = 64 };
    static float x[MANY * ROW];
    uint64_t state = 77;

    for (size_t i = 0; i < sizeof x / sizeof *x; i++)
        x[i] = random_signed(&state);
    write_archive(folder, "few.npz", "x.npy", "8, 64", x, FEW * ROW, true);
    write_archive(folder, "many.npz", "x.npy", "400, 64", x, MANY * ROW, true);
}

/* Samples of `mlp` with equal rows, with NaN, and without rows. */
static void write_unusual_rows(const char *folder)
{
    enum { COUNT = 6, ROW = 64 };
    static const struct {
        const char *name;
        float even, odd;
    } kinds[] = { { "rows_zeros.npz", 0, 0 },
                  { "rows_constant.npz", 0.5F, 0.5F },
                  { "rows_huge.npz", 3e38F, -3e38F },
                  { "rows_nans.npz", NAN, NAN },
                  { "rows_infinite.npz", INFINITY, 1 } };
    float x[COUNT * ROW];

    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
        for (int i = 0; i < COUNT * ROW; i++)
            x[i] = i % 2 == 0 ? kinds[k].even : kinds[k].odd;
        write_archive(folder, kinds[k].name, "x.npy", "6, 64", x, COUNT * ROW, true);
    }
    for (int i = 0; i < ROW; i++)
        x[i] = (float)(i % 9) * 0.25F - 1;
    write_archive(folder, "rows_one.npz", "x.npy", "1, 64", x, ROW, true);
    write_archive(folder, "rows_none.npz", "x.npy", "0, 64", x, 0, true);
}

int main(int argc, char **argv)
{
    enum { SAMPLES = 12, IMAGE = 3 * 16 * 16, ROW = 64 };
    static float x[SAMPLES * IMAGE];
    uint64_t state = 5;
    char path[512];

    if (argc != 2)
        return 2;
    write_script(argv[1], "net.onnx", net, 13);
    write_script(argv[1], "mlp.onnx", mlp, 13);
    write_script(argv[1], "twice.onnx", twice, 13);
    write_script(argv[1], "experts.onnx", experts, 13);
    write_script(argv[1], "infinite.onnx", infinite, 13);
    write_script(argv[1], "selected.onnx", selected, 13);
    write_script(argv[1], "negated.onnx", negated, 13);
    write_script(argv[1], "mixture.onnx", mixture, 13);
    write_script(argv[1], "sized.onnx", sized, 17);
    write_script(argv[1], "old.onnx", old, 9);
    write_script(argv[1], "sum.onnx", sum, 13);
    write_script(argv[1], "dead.onnx", dead, 13);
    write_script(argv[1], "uneven.onnx", uneven, 17);
    write_script(argv[1], "branch.onnx", branch, 13);
    write_script(argv[1], "sharp.onnx", sharp, 17);
    write_script(argv[1], "wide.onnx", wide, 13);
    write_script(argv[1], "table.onnx", table, 13);
    write_script(argv[1], "big.onnx", big, 13);
    write_script(argv[1], "lengths.onnx", lengths, 13);
    write_script(argv[1], "states.onnx", states, 13);
    for (size_t i = 0; i < SAMPLES * IMAGE; i++)
        x[i] = random_signed(&state) + (float)(i / IMAGE % 4) * 0.2F;
    write_archive(argv[1], "images.npz", "x.npy", "12, 3, 16, 16", x, SAMPLES * IMAGE, true);
    write_archive(argv[1], "stored.npz", "x.npy", "12, 1, 3, 16, 16", x, SAMPLES * IMAGE, false);
    write_archive(argv[1], "one.npz", "x.npy", "1, 3, 16, 16", x, IMAGE, false);
    write_archive(argv[1], "wrong.npz", "x.npy", "12, 3, 16, 8", x, SAMPLES * IMAGE / 2, false);
    write_archive(argv[1], "other.npz", "other.npy", "12, 3, 16, 16", x, SAMPLES * IMAGE, false);
    write_archive(argv[1], "rows.npz", "x.npy", "12, 64", x, SAMPLES * ROW, true);
    write_rows(argv[1]);
    write_unusual_rows(argv[1]);
    for (size_t k = 0; k < sizeof sparse_kinds / sizeof sparse_kinds[0]; k++)
        for (int is_sparse = 0; is_sparse < 2; is_sparse++)
            write_sparse(argv[1], &sparse_kinds[k], is_sparse == 1);
    for (int i = 0; i < 3; i++) {
        (void)snprintf(path, sizeof path, "%.400s/folder", argv[1]);
        (void)mkdir(path, 0777);
        (void)snprintf(path, sizeof path, "%.400s/folder/%d", argv[1], i + 9); /* 9, 10, 11: not in alphabetical
                                                                                * order */
        (void)mkdir(path, 0777);
        write_array(path, "x.npy", "1, 3, 16, 16", x + i * IMAGE, IMAGE);
    }
    (void)snprintf(path, sizeof path, "%.400s/batch", argv[1]);
    (void)mkdir(path, 0777);
    write_array(path, "x.npy", "3, 4", x, 12);
    write_array(path, "l.npy", "3, ", x, 3);
    write_array(path, "s.npy", "1, 3, 2", x, 6);
    for (size_t i = 0; i < SAMPLES * IMAGE; i++)
        x[i] = 0;
    write_archive(argv[1], "zeros.npz", "x.npy", "12, 3, 16, 16", x, SAMPLES * IMAGE, true);
    x[100] = NAN;
    write_archive(argv[1], "nan.npz", "x.npy", "12, 3, 16, 16", x, SAMPLES * IMAGE, true);
    for (size_t i = 0; i < SAMPLES * IMAGE; i++)
        x[i] = 0.5F;
    write_archive(argv[1], "constant.npz", "x.npy", "12, 3, 16, 16", x, SAMPLES * IMAGE, true);
    for (size_t i = 0; i < SAMPLES * IMAGE; i++)
        x[i] = i % 2 == 0 ? 3e38F : -3e38F;
    write_archive(argv[1], "huge.npz", "x.npy", "12, 3, 16, 16", x, SAMPLES * IMAGE, true);
    for (size_t i = 0; i < SAMPLES * IMAGE; i++)
        x[i] = NAN;
    write_archive(argv[1], "nans.npz", "x.npy", "12, 3, 16, 16", x, SAMPLES * IMAGE, true);
    return 0;
}
