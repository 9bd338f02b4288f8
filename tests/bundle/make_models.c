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
    script_add(&wire, "h = Gemm(x,w1,b1)\n"
                      "r = Relu(h)\n"
                      "y = MatMul(r,w2)");
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
    script_add(&wire, "a = Conv(x,w1)\n"
                      "b = Relu(a)\n"
                      "c = Conv(b,w2)\n"
                      "d = GlobalAveragePool(c)\n"
                      "e = Flatten(d)\n"
                      "y = Cosh(e)");
    plant_end(&wire, mark, "N,16");
    write_model(folder, "net", &wire);
}

/* y = s is positive ? tanh(x) + x : 2 x */
static void write_if(const char *folder)
{
    struct wire wire = { 0 };
    const wire_mark mark = plant_begin(&wire, "2,8", 17);

    script_add(&wire, "s : int64 -\n"
                      "zero = i[] 0\n"
                      "positive = Greater(s,zero)\n"
                      "y = If(positive) then_branch {\n"
                      "    t = Tanh(x)\n"
                      "    sum = Add(t,x)\n"
                      "    -> sum : 2,8\n"
                      "} else_branch {\n"
                      "    twice = Add(x,x)\n"
                      "    -> twice : 2,8\n"
                      "}");
    plant_end(&wire, mark, "2,8");
    write_model(folder, "branches", &wire);
}

/* The other branch takes another size of x. */
static void write_switch(const char *folder)
{
    struct wire wire = { 0 };
    const wire_mark mark = plant_begin(&wire, "1,N", 17);
    const int64_t axis = 1;

    mw_value(&wire, MW_INPUT, "s", INLAY_INT64, "");
    mw_scalar(&wire, "zero", INLAY_INT64, 0);
    mw_ints(&wire, "axis", 1, 1, &axis);
    script_add(&wire, "positive = Greater(s,zero)\n"
                      "y = If(positive) then_branch {\n"
                      "    r = Squeeze(x,axis)\n"
                      "    -> r : 1\n"
                      "} else_branch {\n"
                      "    t = Tanh(x)\n"
                      "    -> t : 1,N\n"
                      "}");
    plant_end(&wire, mark, "?");
    write_model(folder, "switch", &wire);
}

/* NonZero, whose number of elements depends on data. */
static void write_dynamic(const char *folder)
{
    struct wire wire = { 0 };
    const wire_mark mark = plant_begin(&wire, "8", 17);

    mw_node(&wire, "NonZero", "x", "i");
    mw_node_int(&wire, "Cast", "i", "y", "to", INLAY_FLOAT);
    plant_end(&wire, mark, "1,K");
    write_model(folder, "dynamic", &wire);
}

/* n iterations of a, b = b, a + b from a = x = 0 and b = exp(x) = 1; the result is a. */
static void write_fibonacci(const char *folder)
{
    struct wire wire = { 0 };
    const wire_mark mark = plant_begin(&wire, "1", 17);

    script_add(&wire, "n : int64 -\n"
                      "go = bool[] 1\n"
                      "one = Exp(x)\n"
                      "y,z = Loop(n,go,x,one) body {\n"
                      "    i : int64 -\n"
                      "    on : bool -\n"
                      "    a : 1\n"
                      "    b : 1\n"
                      "    on2 = Identity(on)\n"
                      "    a2 = Identity(b)\n"
                      "    b2 = Add(a,b)\n"
                      "    -> on2 : bool -\n"
                      "    -> a2, b2 : 1\n"
                      "}");
    plant_end(&wire, mark, "1");
    write_model(folder, "fibonacci", &wire);
}

/* A loop that stacks the results of its body. */
static void write_scans(const char *folder)
{
    struct wire wire = { 0 };
    const wire_mark mark = plant_begin(&wire, "2,8", 17);

    script_add(&wire, "n : int64 -\n"
                      "go = bool[] 1\n"
                      "z,all,roots = Loop(n,go,x) body {\n"
                      "    i : int64 -\n"
                      "    on : bool -\n"
                      "    h : 2,8\n"
                      "    on2 = Identity(on)\n"
                      "    h2 = Tanh(h)\n"
                      "    e = Exp(h2)\n"
                      "    s = Sqrt(e)\n"
                      "    -> on2 : bool -\n"
                      "    -> h2 : 2,8\n"
                      "    -> h : 2,8\n" /* the previous state, which the next iteration overwrites */
                      "    -> s : 2,8\n"
                      "}\n"
                      "d = Sub(all,roots)\n"
                      "p = Mul(d,z)\n"
                      "y = ReduceSum(p) keepdims=0");
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
    mw_scalar(&wire, "s", INLAY_FLOAT, 0.01F);
    mw_scalar(&wire, "t", INLAY_FLOAT, 0.05F);
    script_add(&wire, "zero = uint8[] 128\n"
                      "a = QuantizeLinear(in,s,zero)\n"
                      "b = DequantizeLinear(a,s,zero)\n"
                      "c = DequantizeLinear(w,s)\n"
                      "d = Conv(b,c)\n"
                      "e = Relu(d)\n"
                      "f = QuantizeLinear(e,t,zero)\n"
                      "out = DequantizeLinear(f,t,zero)\n"
                      "-> out : 1,32,7,7");
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
    script_add(&wire, "q : uint8 1,4,128\n"
                      "z : uint8 -\n"
                      "i : int64 1,2");
    plant_raw(&wire, MW_INITIALIZER, "t", INLAY_UINT8, "2000,128", table, sizeof table);
    plant_raw(&wire, MW_INITIALIZER, "w", INLAY_INT8, "128,128", weights, sizeof weights);
    plant_floats(&wire, "f", "128,128", 0.02F);
    plant_raw(&wire, MW_INITIALIZER, "s", INLAY_FLOAT, "128,128", sparse, sizeof sparse);
    script_add(&wire, "g = Gather(t,i)\n"
                      "m = MatMulInteger(q,w,z)\n"
                      "n = Cast(m) to=float\n"
                      "p = MatMul(n,f)\n"
                      "o = MatMul(n,s)\n"
                      "copy = Identity(f)\n"
                      "j = Cast(i) to=float\n"
                      "-> g : uint8 1,2,128\n"
                      "-> m : int32 1,4,128\n"
                      "-> p, o : 1,4,128\n"
                      "-> copy : 128,128\n"
                      "-> j : 1,2");
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

        script_model(&wire, 20, rows[i].script);
        write_model(folder, rows[i].stem, &wire);
    }
}

/* A view at an offset that is an input. */
static void write_open_view(const char *folder)
{
    struct wire wire = { 0 };
    const wire_mark mark = mw_begin(&wire, 8, 17);

    script_add(&wire, "x : 2,3\n"
                      "axes : int64 1\n"
                      "y = Unsqueeze(x,axes)\n"
                      "-> y : a,b,c");
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
