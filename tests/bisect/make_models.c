/* The models of bisect.sh: make_models FOLDER. */
#include "graph_script.h"
#include <stdio.h>

/* Three partitions for the planted provider, with matrix multiplications between them; two outputs, a symbolic size. */
static const char several[] = "x : N,8\n"
                              "w = [8,8]\n"
                              "a = Add(x, x)\n b = Abs(a)\n c = Neg(b)\n"
                              "m = MatMul(c, w)\n"
                              "d = Mul(m, m)\n e = Relu(d)\n f = Add(e, d)\n g = Neg(f)\n"
                              "n = MatMul(g, w)\n"
                              "h = Abs(n)\n"
                              "-> f, h";
/* An If with branches of one node; the sign of the sum selects the branch. */
static const char branches[] = "x : 5,8\n"
                               "zero = [] 0.0\n"
                               "s = ReduceSum(x) keepdims=0\n q = Mul(s, s)\n t = Greater(zero, q)\n"
                               "a = Abs(x)\n"
                               "y = If(t) then:Neg(a) else:Relu(a)\n"
                               "z = Add(y, y)\n"
                               "-> z";
/* Nodes that the optimiser rewrites, before and after the difference that the planted pass changes. */
static const char rewrites[] = "x : 4,8\n"
                               "c = [8]\n one = [] 1.0\n two = [] 2.0\n half = [] 0.5\n root = [] 1.41421356\n"
                               "i = Identity(x)\n j = Mul(i, one)\n k = Div(j, two)\n"
                               "u = Sub(k, c)\n"
                               "v = Sigmoid(u)\n y = Mul(u, v)\n"
                               "-> y";

/* Two nodes that form one region once a pass has removed the node between them. */
static const char identity[] = "x : 5,8\n"
                               "a = Add(x, x)\n i = Identity(a)\n b = Abs(i)\n"
                               "-> b";

static void write_model(const char *folder, const char *name, const struct wire *wire)
{
    char path[512];

    (void)snprintf(path, sizeof path, "%s/%s.onnx", folder, name);
    mw_save(wire, path);
}

static void write_script(const char *folder, const char *name, const char *script)
{
    struct wire wire = { 0 };

    script_model(&wire, 13, script);
    write_model(folder, name, &wire);
    wire_deinit(&wire);
}

/* y = x after many iterations of h = Add(Abs(v), v), too many to be unrolled, with Neg before and after. */
static void write_loop(const char *folder)
{
    struct wire wire = { 0 };
    wire_mark mark = mw_begin(&wire, 8, 13), t, n;
    mw_body body;

    t = wire_begin(&wire, MW_INITIALIZER);
    mw_tensor_head(&wire, "turns", INLAY_INT64, 0, NULL);
    wire_int(&wire, 7, 64);
    wire_end(&wire, t);
    mw_value(&wire, MW_INPUT, "x", INLAY_FLOAT, "5,8");
    mw_node(&wire, "Neg", "x", "a");
    n = mw_node_begin(&wire, "Loop", "turns,_,a", "last");
    body = mw_body_begin(&wire, "body", "turn");
    mw_value(&wire, MW_INPUT, "i", INLAY_INT64, "");
    mw_value(&wire, MW_INPUT, "go", INLAY_BOOL, "");
    mw_value(&wire, MW_INPUT, "v", INLAY_FLOAT, "5,8");
    mw_node(&wire, "Identity", "go", "on");
    mw_node(&wire, "Abs", "v", "r");
    mw_node(&wire, "Add", "r,v", "h");
    mw_value(&wire, MW_OUTPUT, "on", INLAY_BOOL, "");
    mw_value(&wire, MW_OUTPUT, "h", INLAY_FLOAT, "5,8");
    mw_body_end(&wire, body);
    wire_end(&wire, n);
    mw_node(&wire, "Neg", "last", "y");
    mw_value(&wire, MW_OUTPUT, "y", INLAY_FLOAT, "5,8");
    wire_end(&wire, mark);
    write_model(folder, "loop", &wire);
    wire_deinit(&wire);
}

int main(int argc, char **argv)
{
    if (argc != 2)
        return 2;
    write_script(argv[1], "several", several);
    write_script(argv[1], "branches", branches);
    write_script(argv[1], "rewrites", rewrites);
    write_script(argv[1], "identity", identity);
    write_loop(argv[1]);
    return 0;
}
