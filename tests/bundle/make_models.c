/* The models of bundle.sh: make_models FOLDER. */
#include "graph_script.h"
#include "planted.h"
#include <stdio.h>

static void write_model(const char *folder, const char *stem, struct wire *wire)
{
    char path[600];

    (void)snprintf(path, sizeof path, "%.400s/%.100s.onnx", folder, stem);
    mw_save(wire, path);
    wire_deinit(wire);
}

/* Two layers, 64 to 48 to 10. */
static void write_mlp(const char *folder)
{
    struct wire wire = { 0 };
    const wire_mark mark = plant_begin(&wire, "1,64", 17);

    plant_floats(&wire, "w1", "64,48", 0.02F);
    plant_floats(&wire, "b1", "48", 0.1F);
    plant_floats(&wire, "w2", "48,10", 0.03F);
    mw_node(&wire, "Gemm", "x,w1,b1", "h");
    mw_node(&wire, "Relu", "h", "r");
    mw_node(&wire, "MatMul", "r,w2", "y");
    plant_end(&wire, mark, "1,10");
    write_model(folder, "mlp", &wire);
}

/* Convolutions, a pool, and operators that the provider reference runs; the batch is symbolic. */
static void write_net(const char *folder)
{
    struct wire wire = { 0 };
    const wire_mark mark = plant_begin(&wire, "N,3,16,16", 17);

    plant_floats(&wire, "w1", "16,3,3,3", 0.05F);
    plant_floats(&wire, "w2", "16,16,1,1", 0.05F);
    mw_node(&wire, "Conv", "x,w1", "a");
    mw_node(&wire, "Relu", "a", "b");
    mw_node(&wire, "Conv", "b,w2", "c");
    mw_node(&wire, "GlobalAveragePool", "c", "d");
    mw_node(&wire, "Flatten", "d", "e");
    mw_node(&wire, "Cosh", "e", "y");
    plant_end(&wire, mark, "N,16");
    write_model(folder, "net", &wire);
}

/* y = s is positive ? tanh(x) + x : 2 x */
static void write_if(const char *folder)
{
    struct wire wire = { 0 };
    const wire_mark mark = plant_begin(&wire, "2,8", 17);
    wire_mark n;
    mw_body body;

    mw_value(&wire, MW_INPUT, "s", INLAY_INT64, "");
    rig_scalar(&wire, "zero", INLAY_INT64, 0);
    mw_node(&wire, "Greater", "s,zero", "positive");
    n = mw_node_begin(&wire, "If", "positive", "y");
    body = mw_body_begin(&wire, "then_branch", "then");
    mw_node(&wire, "Tanh", "x", "t");
    mw_node(&wire, "Add", "t,x", "sum");
    mw_value(&wire, MW_OUTPUT, "sum", INLAY_FLOAT, "2,8");
    mw_body_end(&wire, body);
    body = mw_body_begin(&wire, "else_branch", "else");
    mw_node(&wire, "Add", "x,x", "twice");
    mw_value(&wire, MW_OUTPUT, "twice", INLAY_FLOAT, "2,8");
    mw_body_end(&wire, body);
    wire_end(&wire, n);
    plant_end(&wire, mark, "2,8");
    write_model(folder, "branches", &wire);
}

/* The other branch takes another size of x. */
static void write_switch(const char *folder)
{
    struct wire wire = { 0 };
    const wire_mark mark = plant_begin(&wire, "1,N", 17);
    const int64_t axis = 1;
    wire_mark n;
    mw_body body;

    mw_value(&wire, MW_INPUT, "s", INLAY_INT64, "");
    rig_scalar(&wire, "zero", INLAY_INT64, 0);
    rig_ints(&wire, "axis", 1, 1, &axis);
    mw_node(&wire, "Greater", "s,zero", "positive");
    n = mw_node_begin(&wire, "If", "positive", "y");
    body = mw_body_begin(&wire, "then_branch", "then");
    mw_node(&wire, "Squeeze", "x,axis", "r");
    mw_value(&wire, MW_OUTPUT, "r", INLAY_FLOAT, "1");
    mw_body_end(&wire, body);
    body = mw_body_begin(&wire, "else_branch", "else");
    mw_node(&wire, "Tanh", "x", "t");
    mw_value(&wire, MW_OUTPUT, "t", INLAY_FLOAT, "1,N");
    mw_body_end(&wire, body);
    wire_end(&wire, n);
    plant_end(&wire, mark, "?");
    write_model(folder, "switch", &wire);
}

/* NonZero, whose number of elements depends on data. */
static void write_dynamic(const char *folder)
{
    struct wire wire = { 0 };
    const wire_mark mark = plant_begin(&wire, "8", 17);

    mw_node(&wire, "NonZero", "x", "i");
    rig_node_int(&wire, "Cast", "i", "y", "to", INLAY_FLOAT);
    plant_end(&wire, mark, "1,K");
    write_model(folder, "dynamic", &wire);
}

/* n iterations of a, b = b, a + b from a = x = 0 and b = exp(x) = 1; the result is a. */
static void write_fibonacci(const char *folder)
{
    struct wire wire = { 0 };
    const wire_mark mark = plant_begin(&wire, "1", 17);
    wire_mark n;
    mw_body body;

    mw_value(&wire, MW_INPUT, "n", INLAY_INT64, "");
    rig_scalar(&wire, "go", INLAY_BOOL, 1);
    mw_node(&wire, "Exp", "x", "one");
    n = mw_node_begin(&wire, "Loop", "n,go,x,one", "y,z");
    body = mw_body_begin(&wire, "body", "b");
    mw_value(&wire, MW_INPUT, "i", INLAY_INT64, "");
    mw_value(&wire, MW_INPUT, "on", INLAY_BOOL, "");
    mw_value(&wire, MW_INPUT, "a", INLAY_FLOAT, "1");
    mw_value(&wire, MW_INPUT, "b", INLAY_FLOAT, "1");
    mw_node(&wire, "Identity", "on", "on2");
    mw_node(&wire, "Identity", "b", "a2");
    mw_node(&wire, "Add", "a,b", "b2");
    mw_value(&wire, MW_OUTPUT, "on2", INLAY_BOOL, "");
    mw_value(&wire, MW_OUTPUT, "a2", INLAY_FLOAT, "1");
    mw_value(&wire, MW_OUTPUT, "b2", INLAY_FLOAT, "1");
    mw_body_end(&wire, body);
    wire_end(&wire, n);
    plant_end(&wire, mark, "1");
    write_model(folder, "fibonacci", &wire);
}

/* A loop that stacks the results of its body. */
static void write_scans(const char *folder)
{
    struct wire wire = { 0 };
    const wire_mark mark = plant_begin(&wire, "2,8", 17);
    wire_mark n;
    mw_body body;

    mw_value(&wire, MW_INPUT, "n", INLAY_INT64, "");
    rig_scalar(&wire, "go", INLAY_BOOL, 1);
    n = mw_node_begin(&wire, "Loop", "n,go,x", "z,all,roots");
    body = mw_body_begin(&wire, "body", "b");
    mw_value(&wire, MW_INPUT, "i", INLAY_INT64, "");
    mw_value(&wire, MW_INPUT, "on", INLAY_BOOL, "");
    mw_value(&wire, MW_INPUT, "h", INLAY_FLOAT, "2,8");
    mw_node(&wire, "Identity", "on", "on2");
    mw_node(&wire, "Tanh", "h", "h2");
    mw_node(&wire, "Exp", "h2", "e");
    mw_node(&wire, "Sqrt", "e", "s");
    mw_value(&wire, MW_OUTPUT, "on2", INLAY_BOOL, "");
    mw_value(&wire, MW_OUTPUT, "h2", INLAY_FLOAT, "2,8");
    mw_value(&wire, MW_OUTPUT, "h", INLAY_FLOAT, "2,8"); /* the previous state, which the next iteration overwrites */
    mw_value(&wire, MW_OUTPUT, "s", INLAY_FLOAT, "2,8");
    mw_body_end(&wire, body);
    wire_end(&wire, n);
    mw_node(&wire, "Sub", "all,roots", "d");
    mw_node(&wire, "Mul", "d,z", "p");
    rig_node_int(&wire, "ReduceSum", "p", "y", "keepdims", 0);
    plant_end(&wire, mark, "");
    write_model(folder, "scans", &wire);
}

/* An int8 convolution whose weights are packed differently on different CPUs. Its tensors have names that may occur
 * in a program's source, too. */
static void write_bytes(const char *folder)
{
    struct wire wire = { 0 };
    const wire_mark mark = mw_begin(&wire, 8, 17);
    int8_t weights[32 * 16 * 9];

    for (int i = 0; i < (int)sizeof weights; i++)
        weights[i] = (int8_t)(i * 37 % 251 - 125);
    mw_value(&wire, MW_INPUT, "in", INLAY_FLOAT, "1,16,9,9");
    plant_raw(&wire, MW_INITIALIZER, "w", INLAY_INT8, "32,16,3,3", weights, sizeof weights);
    rig_scalar(&wire, "s", INLAY_FLOAT, 0.01F);
    rig_scalar(&wire, "t", INLAY_FLOAT, 0.05F);
    rig_scalar(&wire, "zero", INLAY_UINT8, 128);
    mw_node(&wire, "QuantizeLinear", "in,s,zero", "a");
    mw_node(&wire, "DequantizeLinear", "a,s,zero", "b");
    mw_node(&wire, "DequantizeLinear", "w,s", "c");
    mw_node(&wire, "Conv", "b,c", "d");
    mw_node(&wire, "Relu", "d", "e");
    mw_node(&wire, "QuantizeLinear", "e,t,zero", "f");
    mw_node(&wire, "DequantizeLinear", "f,t,zero", "out");
    mw_value(&wire, MW_OUTPUT, "out", INLAY_FLOAT, "1,32,7,7");
    wire_end(&wire, mark);
    write_model(folder, "bytes", &wire);
}

/* An integer product beside a table of bytes, with the zero point as an input, a float product whose matrix is also an
 * output, and one by a sparse matrix: a program includes the packed weights, and excludes or keeps the originals. */
static void write_table(const char *folder)
{
    static uint8_t table[2000 * 128], weights[128 * 128];
    static float sparse[128 * 128];
    struct wire wire = { 0 };
    const wire_mark mark = mw_begin(&wire, 8, 17);

    for (size_t i = 0; i < sizeof table; i++)
        table[i] = (uint8_t)(i * 37 % 251);
    for (size_t i = 0; i < sizeof weights; i++)
        weights[i] = (uint8_t)(i * 41 % 253);
    for (size_t i = 0; i < sizeof sparse / sizeof *sparse; i++)
        sparse[i] = i % 128 < 32 ? (float)(i % 17) - 8 : 0;
    mw_value(&wire, MW_INPUT, "q", INLAY_UINT8, "1,4,128");
    mw_value(&wire, MW_INPUT, "z", INLAY_UINT8, "");
    mw_value(&wire, MW_INPUT, "i", INLAY_INT64, "1,2");
    plant_raw(&wire, MW_INITIALIZER, "t", INLAY_UINT8, "2000,128", table, sizeof table);
    plant_raw(&wire, MW_INITIALIZER, "w", INLAY_INT8, "128,128", weights, sizeof weights);
    plant_floats(&wire, "f", "128,128", 0.02F);
    plant_raw(&wire, MW_INITIALIZER, "s", INLAY_FLOAT, "128,128", sparse, sizeof sparse);
    mw_node(&wire, "Gather", "t,i", "g");
    mw_node(&wire, "MatMulInteger", "q,w,z", "m");
    rig_node_int(&wire, "Cast", "m", "n", "to", INLAY_FLOAT);
    mw_node(&wire, "MatMul", "n,f", "p");
    mw_node(&wire, "MatMul", "n,s", "o");
    mw_node(&wire, "Identity", "f", "copy");
    rig_node_int(&wire, "Cast", "i", "j", "to", INLAY_FLOAT);
    mw_value(&wire, MW_OUTPUT, "g", INLAY_UINT8, "1,2,128");
    mw_value(&wire, MW_OUTPUT, "m", INLAY_INT32, "1,4,128");
    mw_value(&wire, MW_OUTPUT, "p", INLAY_FLOAT, "1,4,128");
    mw_value(&wire, MW_OUTPUT, "o", INLAY_FLOAT, "1,4,128");
    mw_value(&wire, MW_OUTPUT, "copy", INLAY_FLOAT, "128,128");
    mw_value(&wire, MW_OUTPUT, "j", INLAY_FLOAT, "1,2");
    wire_end(&wire, mark);
    write_model(folder, "table", &wire);
}

/* Kernels that only a few models use: each family of the provider cpu that a program may omit, and code that the
 * provider reference shares with it. */
static void write_families(const char *folder)
{
    static const struct {
        const char *stem, *script;
    } rows[] = {
        { "attention", "q : 2,4,16,8\nk : 2,4,16,8\nv : 2,4,16,8\nt = Transpose(k) perm=0,1,3,2\nm = MatMul(q, t)\n"
                       "h = [] 0.35\ns = Mul(m, h)\np = Softmax(s)\ny = MatMul(p, v)\n-> y" },
        { "encoder", "x : 1,8,16\na = [16,16]\nb = [16]\nw = [16,16]\nv = [16]\nm = MatMul(x, a)\nn = Add(m, b)\n"
                     "t = Transpose(n) perm=0,2,1\ns = MatMul(n, t)\np = Softmax(s)\nc = MatMul(p, n)\n"
                     "d = MatMul(c, w)\nr = Add(d, x)\ny = LayerNormalization(r, v, b)\nz = Gelu(y)\n-> z" },
        { "indices", "x : 5,6\nb = [6]\na = Add(x, b)\nk = i[1] 2\nv, j = TopK(a, k)\n-> j" },
        { "loose", "x : 1,3,9,9\nw : 4,3,3,3\ny = Conv(x, w)\n-> y" },
        { "recurrent", "x : 5,1,8\nw = [1,12,8]\nr = [1,12,3]\nh, l = RNN(x, u, v) hidden_size=3\nu = [1,3,8]\n"
                       "v = [1,3,3]\n-> h, l" },
        { "upsample", "x : 1,4,5,6\ns = [4] 1,1,2,2\nr = Resize(x, _, s) mode=linear\n"
                      "p = MaxPool(r) kernel_shape=3,3 strides=2,2\na = i[2] 2,3\nm = ReduceMean(p, a)\n-> m" },
        { "reduced", "x : 1,16,9,9\nk = [16,16,1,1]\nc = Conv(x, k)\na = i[2] 2,3\nm = ReduceMean(c, a)\n-> m" },
        { "winograd", "x : 1,64,28,28\na = [64,64,3,3]\nb = [64,64,3,3]\nc = Conv(x, a) pads=1,1,1,1\nr = Relu(c)\n"
                      "d = Conv(r, b) pads=1,1,1,1\ng = GlobalAveragePool(d)\n-> g" },
        { "heavy", "x : 1,256,14,14\na = [256,256,3,3]\nb = [256,256,3,3]\nc = [256,256,3,3]\nd = [256,256,3,3]\n"
                   "e = Conv(x, a) pads=1,1,1,1\nf = Conv(e, b) pads=1,1,1,1\ng = Conv(f, c) pads=1,1,1,1\n"
                   "h = Conv(g, d) pads=1,1,1,1\ny = GlobalAveragePool(h)\n-> y" },
        { "deconvolution", "x : 1,4,5,6\nk = [4,3,3,3]\nb = [3]\ny = ConvTranspose(x, k, b) strides=2,2\n-> y" },
    };

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct wire wire = { 0 };

        script_model(&wire, rows[i].script, 20);
        write_model(folder, rows[i].stem, &wire);
    }
}

/* A view at an offset that is an input. */
static void write_open_view(const char *folder)
{
    struct wire wire = { 0 };
    const wire_mark mark = mw_begin(&wire, 8, 17);

    mw_value(&wire, MW_INPUT, "x", INLAY_FLOAT, "2,3");
    mw_value(&wire, MW_INPUT, "axes", INLAY_INT64, "1");
    mw_node(&wire, "Unsqueeze", "x,axes", "y");
    mw_value(&wire, MW_OUTPUT, "y", INLAY_FLOAT, "a,b,c");
    wire_end(&wire, mark);
    write_model(folder, "open_view", &wire);
}

int main(int argc, char **argv)
{
    struct wire loop = { 0 };

    if (argc != 2)
        return 2;
    write_mlp(argv[1]);
    write_net(argv[1]);
    write_if(argv[1]);
    write_switch(argv[1]);
    write_dynamic(argv[1]);
    write_fibonacci(argv[1]);
    write_scans(argv[1]);
    write_bytes(argv[1]);
    write_table(argv[1]);
    write_families(argv[1]);
    write_open_view(argv[1]);
    plant_loop(&loop);
    write_model(argv[1], "loop", &loop);
    return 0;
}
