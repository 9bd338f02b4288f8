/* Passes that replace several operators by one: graphs that they rewrite, and similar graphs. */
#include "passes/rewrite.h"
#include "rewrite_rows.h"

static void activations(void **state)
{
    static const struct row rows[] = {
        { "gelu with erf",
          "x : 2,8\nr = [] 1.41421354\no = [] 1\nh = [] 0.5\na = Div(x, r)\nb = Erf(a)\n"
          "c = Add(b, o)\nd = Mul(x, c)\ny = Mul(d, h)\n-> y",
          "Gelu", 0 },
        { "gelu with erf, another order",
          "x : 2,8\nr = [] 0.70710677\no = [] 1\nh = [] 0.5\na = Mul(r, x)\n"
          "b = Erf(a)\nc = Add(o, b)\nd = Mul(h, x)\ny = Mul(d, c)\n-> y",
          "Gelu", 0 },
        { "gelu with tanh",
          "x : 2,8\nk = [] 0.044715\nr = [] 0.7978846\nt = [] 3\no = [] 1\nh = [] 0.5\n"
          "a = Pow(x, t)\nb = Mul(k, a)\nc = Add(x, b)\nd = Mul(c, r)\ne = Tanh(d)\nf = Add(e, o)\n"
          "g = Mul(x, h)\ny = Mul(g, f)\n-> y",
          "Gelu", 0 },
        { "almost gelu",
          "x : 2,8\nr = [] 1.5\no = [] 1\nh = [] 0.5\na = Div(x, r)\nb = Erf(a)\nc = Add(b, o)\n"
          "d = Mul(x, c)\ny = Mul(d, h)\n-> y",
          "Div Erf Add Mul Mul", 0 },
        { "swish", "x : 2,8\na = Sigmoid(x)\ny = Mul(a, x)\n-> y", "Swish", 0 },
        { "swish with a factor", "x : 2,8\nc = [] 1.702\na = Mul(x, c)\nb = Sigmoid(a)\ny = Mul(x, b)\n-> y", "Swish",
          0 },
        { "a factor for each column", "x : 2,8\nc = [8]\na = Mul(x, c)\nb = Sigmoid(a)\ny = Mul(x, b)\n-> y",
          "Mul Sigmoid Mul", 0 },
        { "hard swish",
          "x : 2,8\nt = [] 3\nz = [] 0\ns = [] 6\na = Add(x, t)\nb = Clip(a, z, s)\nc = Mul(x, b)\n"
          "y = Div(c, s)\n-> y",
          "HardSwish", 0 },
        { "hard swish, the quotient first",
          "x : 2,8\nt = [] 3\nz = [] 0\ns = [] 6\na = Add(x, t)\nb = Clip(a, z, s)\n"
          "c = Div(b, s)\ny = Mul(x, c)\n-> y",
          "HardSwish", 0 },
        { "mish", "x : 2,8\na = Softplus(x)\nb = Tanh(a)\ny = Mul(x, b)\n-> y", "Mish", 0 },
        { "a gate that others read", "x : 2,8\na = Sigmoid(x)\nb = Mul(a, x)\ny = Add(a, b)\n-> y", "Sigmoid Mul Add",
          0 },
    };

    (void)state;
    CHECK_ROWS(rows);
}

/* Experts of a mixture: matrices that ArgMax chooses for each row. */
#define EXPERTS(rest)                                                                                                  \
    "x : S,1,6\ni = ArgMax(x) axis=2 keepdims=0\nj = i[1] -1\no = i[1] 0\nk = Squeeze(i, j)\n" rest "\n-> y"

static void chosen_matrices(void **state)
{
    static const struct row rows[] = {
        { "matrices on the right", EXPERTS("w = [6,6,5]\ng = Gather(w, k)\ny = MatMul(x, g)"),
          "ArgMax Squeeze GatherMatMul", 0 },
        { "transposed", EXPERTS("w = [6,5,6]\ng = Gather(w, k)\nt = Transpose(g) perm=0,2,1\ny = MatMul(x, t)"),
          "ArgMax Squeeze GatherMatMul", 0 },
        { "columns", EXPERTS("w = [6,5,6]\ng = Gather(w, k)\nc = Transpose(x) perm=0,2,1\ny = MatMul(g, c)"),
          "ArgMax Squeeze Transpose Reshape GatherMatMul Reshape", 0 },
        { "GatherND", EXPERTS("w = [6,6,5]\ng = GatherND(w, i)\ny = MatMul(x, g)"), "ArgMax Squeeze GatherMatMul", 0 },
        { "a table that others read", EXPERTS("w = [6,6,6]\ng = Gather(w, k)\nz = MatMul(x, g)\ny = Add(z, g)"),
          "ArgMax Squeeze Gather MatMul Add", 0 },
        { "one matrix for all rows",
          EXPERTS("w = [6,6,5]\nl = i[1] 1\nf = Slice(k, o, l)\ng = Gather(w, f)\ny = MatMul(x, g)"),
          "ArgMax Squeeze Slice Gather MatMul", 0 },
        { "a matrix of columns", EXPERTS("w = [6,5,1]\ng = Gather(w, k)\ny = MatMul(g, x)"),
          "ArgMax Squeeze Gather MatMul", 0 },
    };

    (void)state;
    CHECK_ROWS(rows);
}

#define ERF_GELU(root, one, half)                                                                                      \
    "x : 2,8\nr = [] " root "\no = [] " one "\nh = [] " half                                                           \
    "\na = Div(x, r)\nb = Erf(a)\nc = Add(b, o)\nd = Mul(x, c)\ny = Mul(d, h)\n-> y"
#define TANH_GELU(k, r, t, one, half)                                                                                  \
    "x : 2,8\nk = [] " k "\nr = [] " r "\nt = [] " t "\no = [] " one "\nh = [] " half                                  \
    "\na = Pow(x, t)\nb = Mul(k, a)\nc = Add(x, b)\nd = Mul(c, r)\ne = Tanh(d)\nf = Add(e, o)\ng = Mul(x, h)\n"        \
    "y = Mul(g, f)\n-> y"
#define SHORT_GELU(k, one)                                                                                             \
    "x : 2,8\nk = [] " k "\nr = [] 0.7978846\no = [] " one "\nu = [] 1\nh = [] 0.5\n"                                  \
    "a = Mul(x, x)\nb = Mul(k, a)\nc = Add(o, b)\ns = Mul(x, r)\nd = Mul(s, c)\ne = Tanh(d)\nf = Add(e, u)\n"          \
    "g = Mul(x, h)\ny = Mul(g, f)\n-> y"
#define HARD_SWISH(three, low, six, div)                                                                               \
    "x : 2,8\nt = [] " three "\nz = [] " low "\ns = [] " six "\nv = [] " div                                           \
    "\na = Add(x, t)\nb = Clip(a, z, s)\nc = Mul(x, b)\ny = Div(c, v)\n-> y"
#define SIXTH(sixth)                                                                                                   \
    "x : 2,8\nt = [] 3\nz = [] 0\ns = [] 6\nv = [] " sixth "\na = Add(x, t)\nb = Clip(a, z, s)\ny = Mul(b, v)\n-> y"
#define BY_UNIT(alpha, beta) "x : 2,8\na = HardSigmoid(x) alpha=" alpha " beta=" beta "\ny = Mul(x, a)\n-> y"
#define LAYER_NORM(two)                                                                                                \
    "x : 2,3,8\nt = [] " two "\ne = [] 0.00001\ng = [8]\nm = ReduceMean(x) axes=-1,\n"                                 \
    "d = Sub(x, m)\np = Pow(d, t)\nv = ReduceMean(p) axes=-1,\nw = Add(v, e)\ns = Sqrt(w)\nn = Div(d, s)\n"            \
    "y = Mul(n, g)\n-> y"
#define RMS_NORM(two, one)                                                                                             \
    "x : 2,3,8\nt = [] " two "\no = [] " one "\ne = [] 0.00001\ng = [8]\nb = Abs(x)\n"                                 \
    "p = Pow(b, t)\nv = ReduceMean(p) axes=-1,\nw = Add(v, e)\ns = Sqrt(w)\ni = Div(o, s)\nn = Mul(b, i)\n"            \
    "y = Mul(g, n)\n-> y"

/* Constants that are nearly those of an operator give another function: no rewrite. */
static void nearly_matching_constants(void **state)
{
    static const char erf[] = "Div Erf Add Mul Mul", by_tanh[] = "Pow Mul Add Mul Tanh Add Mul Mul",
                      shorter[] = "Mul Mul Add Mul Mul Tanh Add Mul Mul", hard[] = "Add Clip Mul Div";
    static const struct row rows[] = {
        { "gelu", ERF_GELU("1.4142135", "1", "0.5"), "Gelu", 0 },
        { "gelu, x / 1.4120", ERF_GELU("1.4120", "1", "0.5"), erf, 0 },
        { "gelu, x / 1.4142", ERF_GELU("1.4142", "1", "0.5"), erf, 0 },
        { "gelu, x / 1.414215", ERF_GELU("1.414215", "1", "0.5"), erf, 0 },
        { "gelu, 1.000001 + erf", ERF_GELU("1.4142135", "1.000001", "0.5"), erf, 0 },
        { "gelu, 0.5000005", ERF_GELU("1.4142135", "1", "0.5000005"), erf, 0 },
        { "gelu by tanh", TANH_GELU("0.044715", "0.79788458", "3", "1", "0.5"), "Gelu", 0 },
        { "gelu by tanh, 0.04471", TANH_GELU("0.04471", "0.79788458", "3", "1", "0.5"), by_tanh, 0 },
        { "gelu by tanh, 0.0447151", TANH_GELU("0.0447151", "0.79788458", "3", "1", "0.5"), by_tanh, 0 },
        { "gelu by tanh, 0.79788", TANH_GELU("0.044715", "0.79788", "3", "1", "0.5"), by_tanh, 0 },
        { "gelu by tanh, the power 3.000001", TANH_GELU("0.044715", "0.79788458", "3.000001", "1", "0.5"), by_tanh, 0 },
        { "gelu by tanh, 0.999999 + tanh", TANH_GELU("0.044715", "0.79788458", "3", "0.999999", "0.5"), by_tanh, 0 },
        { "gelu by tanh, 0.4999995", TANH_GELU("0.044715", "0.79788458", "3", "1", "0.4999995"), by_tanh, 0 },
        { "gelu by tanh of a shorter sum", SHORT_GELU("0.044715", "1"), "Gelu", 0 },
        { "a shorter sum, 0.044714", SHORT_GELU("0.044714", "1"), shorter, 0 },
        { "a shorter sum, 1.000001", SHORT_GELU("0.044715", "1.000001"), shorter, 0 },
        { "hard swish", HARD_SWISH("3", "0", "6", "6"), "HardSwish", 0 },
        { "hard swish, x + 3.000001", HARD_SWISH("3.000001", "0", "6", "6"), hard, 0 },
        { "hard swish, from 1e-6 on", HARD_SWISH("3", "0.000001", "6", "6"), hard, 0 },
        { "hard swish, up to 5.999999", HARD_SWISH("3", "0", "5.999999", "6"), hard, 0 },
        { "hard swish, / 6.000002", HARD_SWISH("3", "0", "6", "6.000002"), hard, 0 },
        { "hard sigmoid", SIXTH("0.16666667"), "HardSigmoid", 0 },
        { "hard sigmoid, 0.1666668", SIXTH("0.1666668"), "Add Clip Mul", 0 },
        { "hard swish by a hard sigmoid", BY_UNIT("0.16666667", "0.5"), "HardSwish", 0 },
        { "by a hard sigmoid, 0.1666668", BY_UNIT("0.1666668", "0.5"), "HardSigmoid Mul", 0 },
        { "by a hard sigmoid, 0.5000001", BY_UNIT("0.16666667", "0.5000001"), "HardSigmoid Mul", 0 },
        { "layer norm", LAYER_NORM("2"), "LayerNormalization", 0 },
        { "layer norm, the power 2.000001", LAYER_NORM("2.000001"), "ReduceMean Sub Pow ReduceMean Add Sqrt Div Mul",
          0 },
        { "rms norm", RMS_NORM("2", "1"), "Abs RMSNormalization", 0 },
        { "rms norm, the power 1.999999", RMS_NORM("1.999999", "1"), "Abs Pow ReduceMean Add Sqrt Div Mul Mul", 0 },
        { "rms norm without a scale",
          "x : 2,3,8\nt = [] 2\ne = [] 0.00001\np = Pow(x, t)\nv = ReduceMean(p) axes=-1,\nw = Add(v, e)\n"
          "s = Sqrt(w)\ny = Div(x, s)\n-> y",
          "RMSNormalization", 0 },
        { "rms norm with a scale of unknown size",
          "x : 2,N\nt = [] 2\ne = [] 0.00001\np = Pow(x, t)\nv = ReduceMean(p) axes=-1,\nw = Add(v, e)\n"
          "s = Sqrt(w)\ny = Div(x, s)\n-> y",
          "Mul ReduceMean Add Sqrt Div", 0 },
        { "layer norm without a scale",
          "x : 2,3,8\nt = [] 2\ne = [] 0.00001\nm = ReduceMean(x) axes=-1,\nd = Sub(x, m)\np = Pow(d, t)\n"
          "v = ReduceMean(p) axes=-1,\nw = Add(v, e)\ns = Sqrt(w)\ny = Div(d, s)\n-> y",
          "LayerNormalization", 0 },
        { "a factor after a scale of ones",
          "x : 2,4\ng = [4] 1,1,1,1\nc = [4]\na = LayerNormalization(x, g)\n"
          "y = Mul(a, c)\n-> y",
          "LayerNormalization", 17 },
        { "a factor after another scale",
          "x : 2,4\ng = [4] 1,1,2,1\nc = [4]\na = LayerNormalization(x, g)\n"
          "y = Mul(a, c)\n-> y",
          "LayerNormalization Mul", 17 },
        { "a factor of more axes after a scale of ones",
          "x : 2,4\ng = [4] 1,1,1,1\nc = [2,4]\na = LayerNormalization(x, g)\ny = Mul(a, c)\n-> y",
          "LayerNormalization Mul", 17 },
        { "rms norm, 1.000001 / deviation", RMS_NORM("2", "1.000001"), "Abs Mul ReduceMean Add Sqrt Div Mul Mul", 0 },
    };

    (void)state;
    CHECK_ROWS(rows);
}

/* Constants of one element may have axes: with at most the axes of x, the pattern is rewritten; with more, the
 * result has more axes than the operator's result. Each constant is tested. */
static void constants_with_axes(void **state)
{
    static const struct {
        const char *script, *constants, *ops;
        const char *fit, *more; /* shapes with as many axes as x, and with more */
    } all[] = {
        { ERF_GELU("1.4142135", "1", "0.5"), "roh", "Gelu", "[1,1]", "[1,1,1]" },
        { TANH_GELU("0.044715", "0.79788458", "3", "1", "0.5"), "krtoh", "Gelu", "[1,1]", "[1,1,1]" },
        { SHORT_GELU("0.044715", "1"), "kroh", "Gelu", "[1]", "[1,1,1]" },
        { HARD_SWISH("3", "0", "6", "6"), "tv", "HardSwish", "[1,1]", "[1,1,1]" },
        { SIXTH("0.16666667"), "tv", "HardSigmoid", "[1,1]", "[1,1,1,1]" },
        { "x : 2,8\nc = [] 1.702\na = Mul(x, c)\nb = Sigmoid(a)\ny = Mul(x, b)\n-> y", "c", "Swish", "[1,1]",
          "[1,1,1]" },
        { LAYER_NORM("2"), "te", "LayerNormalization", "[1,1,1]", "[1,1,1,1]" },
        { RMS_NORM("2", "1"), "toe", "Abs RMSNormalization", "[1,1,1]", "[1,1,1,1]" },
        { "x : 3,5\nt = [] 2\no = [] 1\ne = [] 0.00001\ng = [3,5]\np = Pow(x, t)\n"
          "v = ReduceMean(p) axes=-2,-1\nw = Add(v, e)\ns = Sqrt(w)\ni = Div(o, s)\nn = Mul(x, i)\n"
          "y = Mul(g, n)\n-> y",
          "toe", "RMSNormalization", "[1,1]", "[1,1,1]" },
    };

    (void)state;
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        for (const char *name = all[i].constants; *name != '\0'; name++) {
            const char head[] = { '\n', *name, ' ', '=', ' ', '[', ']', '\0' }, *at = strstr(all[i].script, head);
            char fit[512], more[512];
            const struct row rows[] = { { all[i].ops, fit, all[i].ops, 0 }, { all[i].ops, more, NULL, 0 } };

            assert_non_null(at);
            at += 5;
            (void)snprintf(fit, sizeof fit, "%.*s%s%s", (int)(at - all[i].script), all[i].script, all[i].fit, at + 2);
            (void)snprintf(more, sizeof more, "%.*s%s%s", (int)(at - all[i].script), all[i].script, all[i].more,
                           at + 2);
            CHECK_ROWS(rows);
        }
    }
}

/* A faulty pass: it replaces Neg by another operator, whose result has another type, rank or size, or is invalid. */
struct faulty_pass {
    const char *op;
    const char *attr; /* or NULL */
    int64_t value;
    bool forwards; /* through a new node before it */
};

static const struct faulty_pass *mistake;

static inlay_status replace_wrongly(struct rewrite *rewrite, graph_node *node)
{
    uint32_t x = rewrite_input(rewrite, node, 0);
    graph_node *fresh = pass_is_op(node, "Neg") ? rewrite_make_node(rewrite, mistake->op, 13, node, &x, 1, 1) : NULL;
    bool done;

    if (fresh == NULL)
        return INLAY_OK;
    if (mistake->attr != NULL)
        assert_int_equal(graph_set_attr_int(rewrite->graph, fresh, mistake->attr, mistake->value), INLAY_OK);
    if (!mistake->forwards)
        return rewrite_replace_node(rewrite, node, fresh);
    assert_int_equal(rewrite_insert_node(rewrite, fresh, INLAY_FLOAT), INLAY_OK);
    return rewrite_forward(rewrite, node->info.outputs[0], fresh->info.outputs[0], &done);
}

static void faulty_passes(void **state)
{
    static const struct faulty_pass all[] = {
        { "Flatten", "axis", 2, false },     { "Flatten", "axis", 2, true },  { "Cast", "to", INLAY_DOUBLE, false },
        { "Cast", "to", INLAY_INT64, true }, { "Transpose", NULL, 0, false }, { "Shape", NULL, 0, true },
        { "Flatten", "axis", 9, false },
    };
    static const struct row rows[] = { { "careless", "x : 2,3,4\na = Neg(x)\ny = Relu(a)\n-> y", NULL, 0 } };

    (void)state;
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        struct rig rig = open_row(&rows[0], (const char *const[]){ "level", "0", NULL });
        inlay_diag diag = INLAY_DIAG_INIT;
        pass_ctx ctx = { .model = rig.session->model, .limits.rewrites = -1, .run.pass = "careless", .diag = &diag };
        bool changed = false;
        char ops[128];

        mistake = &all[i];
        ctx.model->trusts_file = true; /* wrong types may come from the file, so that checks do not abort */
        assert_int_equal(rewrite_each_graph(&ctx, replace_wrongly, &changed), INLAY_OK);
        assert_false(changed);
        list_ops(ctx.model->main, ops, sizeof ops);
        assert_string_equal(ops, "Neg Relu");
        rig_close(&rig);
    }
}

static void norms(void **state)
{
    static const struct row rows[] = {
        { "layer norm",
          "x : 2,3,8\nt = [] 2\ne = [] 0.00001\ng = [8]\nb = [8]\nm = ReduceMean(x) axes=-1,\n"
          "d = Sub(x, m)\np = Pow(d, t)\nv = ReduceMean(p) axes=-1,\nw = Add(v, e)\ns = Sqrt(w)\n"
          "n = Div(d, s)\no = Mul(n, g)\ny = Add(o, b)\n-> y",
          "LayerNormalization", 0 },
        { "layer norm without bias",
          "x : 2,3,8\ne = [] 0.00001\ng = [8]\nm = ReduceMean(x) axes=2,\nd = Sub(x, m)\n"
          "p = Mul(d, d)\nv = ReduceMean(p) axes=2,\nw = Add(e, v)\ns = Sqrt(w)\n"
          "r = Reciprocal(s)\nn = Mul(d, r)\ny = Mul(g, n)\n-> y",
          "LayerNormalization", 0 },
        { "layer norm over two axes",
          "x : 2,3,8\ne = [] 0.00001\ng = [3,8]\nm = ReduceMean(x) axes=1,2\n"
          "d = Sub(x, m)\np = Mul(d, d)\nv = ReduceMean(p) axes=1,2\nw = Add(v, e)\n"
          "s = Sqrt(w)\nn = Div(d, s)\ny = Mul(n, g)\n-> y",
          "LayerNormalization", 0 },
        { "rms norm",
          "x : 2,3,8\ne = [] 0.00001\ng = [8]\np = Mul(x, x)\nv = ReduceMean(p) axes=-1,\nw = Add(v, e)\n"
          "s = Sqrt(w)\nn = Div(x, s)\ny = Mul(g, n)\n-> y",
          "RMSNormalization", 0 },
        { "a residual before it",
          "x : 2,3,8\nz : 2,3,8\ng = [8]\nb = [8]\ns = Add(z, x)\n"
          "y = LayerNormalization(s, g, b) axis=-1 epsilon=0.001\n-> y",
          "SkipLayerNormalization", 0 },
        { "a residual and a bias, the sum read again",
          "x : 2,3,8\nz : 2,3,8\ng = [8]\nb = [8]\nc = [8]\nw = [8,8]\np = MatMul(x, w)\nq = Add(c, p)\ns = Add(q, z)\n"
          "n = LayerNormalization(s, g, b) axis=2\nt = Tanh(n)\ny = Add(s, t)\n-> y",
          "MatMul SkipLayerNormalization Tanh Add", 0 },
        { "residuals in a row",
          "x : 2,3,8\nz : 2,3,8\ng = [8]\nb = [8]\ns = Add(x, z)\nn = LayerNormalization(s, g, b)\nt = Tanh(n)\n"
          "u = Add(s, t)\nm = LayerNormalization(u, g)\nv = Exp(m)\ny = Add(u, v)\n-> y, m",
          "SkipLayerNormalization Tanh SkipLayerNormalization Exp Add", 0 },
        { "a residual before a norm by the mean square",
          "x : 2,S,8\nz : 2,S,8\ng = [8]\nb = [8]\na = Add(x, b)\ns = Add(z, a)\nn = RMSNormalization(s, g)\n"
          "y = Sub(n, s)\n-> y",
          "SkipSimplifiedLayerNormalization Sub", 23 },
        { "a sum that is an output",
          "x : 2,3,8\nz : 2,3,8\ng = [8]\ns = Add(z, x)\nn = LayerNormalization(s, g)\n"
          "-> n, s",
          "Add LayerNormalization", 0 },
        { "a sum that broadcasts", "x : 2,3,8\nz : 3,8\ng = [8]\ns = Add(z, x)\ny = LayerNormalization(s, g)\n-> y",
          "Add LayerNormalization", 0 },
        { "a scale that is computed", "x : 2,3,8\nz : 2,3,8\ng : 8\ns = Add(z, x)\ny = LayerNormalization(s, g)\n-> y",
          "Add LayerNormalization", 0 },
        { "over an axis in the middle",
          "x : 2,3,8\ne = [] 0.00001\ng = [8]\np = Mul(x, x)\nv = ReduceMean(p) axes=1,\n"
          "w = Add(v, e)\ns = Sqrt(w)\nn = Div(x, s)\ny = Mul(g, n)\n-> y",
          "Mul ReduceMean Add Sqrt Div Mul", 0 },
    };

    (void)state;
    CHECK_ROWS(rows);
}

#define PAST "q : 2,4,5,8\nk : 2,2,5,8\nv : 2,2,5,8\np : 2,2,3,8\nu : 2,2,3,8\nm : 5,8\n"
static void attention_with_past(void **state)
{
    static const struct row rows[] = {
        { "a mask", PAST "y, a, b = Attention(q, k, v, m, p, u) scale=0.3\n-> y, a, b", "Concat Concat Attention", 23 },
        { "causal", PAST "y, a, b = Attention(q, k, v, _, p, u) is_causal=1\n-> y, a, b", "Concat Concat Attention",
          23 },
        { "neither, and no outputs of the cache", PAST "y = Attention(q, k, v, _, p, u)\n-> y",
          "Concat Concat Attention", 24 },
        { "heads in rows",
          "q : 2,5,32\nk : 2,5,16\nv : 2,5,16\np : 2,2,3,8\nu : 2,2,3,8\nm : 5,8\n"
          "y, a, b = Attention(q, k, v, m, p, u) q_num_heads=4 kv_num_heads=2\n-> y, a, b",
          "Reshape Transpose Reshape Transpose Concat Reshape Transpose Concat Attention Transpose Reshape", 23 },
        { "causal, and a mask", PAST "y, a, b = Attention(q, k, v, m, p, u) is_causal=1\n-> y, a, b", "Attention", 23 },
        { "causal, and other keys than queries",
          "q : 2,4,5,8\nk : 2,2,6,8\nv : 2,2,6,8\np : 2,2,3,8\nu : 2,2,3,8\n"
          "y, a, b = Attention(q, k, v, _, p, u) is_causal=1\n-> y, a, b",
          "Attention", 23 },
        { "capped scores", PAST "y, a, b = Attention(q, k, v, m, p, u) softcap=2.0\n-> y, a, b",
          "Concat Concat Attention", 23 },
        { "scores as an output", PAST "y, a, b, s = Attention(q, k, v, m, p, u)\n-> y, a, b, s", "Attention", 23 },
        { "a window", PAST "y, a, b = Attention(q, k, v, m, p, u) left_window_size=2\n-> y, a, b", "Attention", 25 },
        { "quantized later",
          PAST "y = Attention(q, k, v, m, p, u)\nz, s, o = DynamicQuantizeLinear(y)\n"
               "d = DequantizeLinear(z, s, o)\n-> d",
          "Attention DynamicQuantizeLinear DequantizeLinear", 23 },
    };

    (void)state;
    CHECK_ROWS(rows);
}

static void attention(void **state)
{
    static const struct row rows[] = {
        { "with a mask",
          "q : 2,4,5,8\nk : 2,4,6,8\nv : 2,4,6,8\nm : 2,1,1,6\nr = [] 2.828427\n"
          "t = Transpose(k) perm=0,1,3,2\ns = MatMul(q, t)\nd = Div(s, r)\na = Add(d, m)\n"
          "p = Softmax(a) axis=-1\ny = MatMul(p, v)\n-> y",
          "Attention", 0 },
        { "the constant 0 instead of a mask",
          "q : 2,4,5,8\nk : 2,4,6,8\nv : 2,4,6,8\nm = [] 0\nr = [] 2.828427\n"
          "t = Transpose(k) perm=0,1,3,2\ns = MatMul(q, t)\nd = Div(s, r)\na = Add(m, d)\n"
          "p = Softmax(a) axis=-1\ny = MatMul(p, v)\n-> y",
          "Attention", 0 },
        { "the constant 0, and a mask",
          "q : 2,4,5,8\nk : 2,4,6,8\nv : 2,4,6,8\nn : 2,1,1,6\nm = [1] 0\nt = Transpose(k) perm=0,1,3,2\n"
          "s = MatMul(q, t)\nd = Add(s, n)\na = Add(d, m)\np = Softmax(a) axis=-1\ny = MatMul(p, v)\n-> y",
          "Attention", 0 },
        { "another constant instead of a mask",
          "q : 2,4,5,8\nk : 2,4,6,8\nv : 2,4,6,8\nm = [] 1\nt = Transpose(k) perm=0,1,3,2\n"
          "s = MatMul(q, t)\na = Add(s, m)\np = Softmax(a) axis=-1\ny = MatMul(p, v)\n-> y",
          "Transpose MatMul Add Softmax MatMul", 0 },
        { "scaled operands, keys by position",
          "q : 2,4,5,8\nk : 2,6,4,8\nv : 2,4,6,8\nr = [] 0.5946\n"
          "t = Transpose(k) perm=0,2,3,1\nu = Mul(t, r)\nw = Mul(q, r)\n"
          "s = MatMul(w, u)\np = Softmax(s) axis=3\ny = MatMul(p, v)\n-> y",
          "Mul Transpose Attention", 0 },
        { "scaled queries",
          "q : 2,4,5,8\nk : 2,4,6,8\nv : 2,4,6,8\nr = [] 0.35\nt = Transpose(k) perm=0,1,3,2\nw = Mul(q, r)\n"
          "s = MatMul(w, t)\np = Softmax(s) axis=3\ny = MatMul(p, v)\n-> y",
          "Mul Attention", 0 },
        { "a mask that broadcasts along the keys",
          "q : 2,4,5,8\nk : 2,4,6,8\nv : 2,4,6,8\nm : 2,1,5,1\n"
          "t = Transpose(k) perm=0,1,3,2\ns = MatMul(q, t)\na = Add(s, m)\n"
          "p = Softmax(a) axis=-1\ny = MatMul(p, v)\n-> y",
          "Transpose MatMul Add Softmax MatMul", 0 },
        { "symbolic lengths",
          "x : B,S,6\nm : B,1,1,S\ns = Shape(x)\ni = i[] 0\nj = i[] 1\nb = Gather(s, i)\n"
          "l = Gather(s, j)\nz = i[1] 0\nbu = Unsqueeze(b, z)\nlu = Unsqueeze(l, z)\nh = i[2] 2,3\n"
          "t = Concat(bu, lu, h) axis=0\na = Reshape(x, t)\nq = Transpose(a) perm=0,2,1,3\n"
          "k = Transpose(a) perm=0,2,3,1\nd = MatMul(q, k)\ne = Add(d, m)\np = Softmax(e) axis=-1\n"
          "y = MatMul(p, q)\n-> y",
          "Reshape Transpose Attention", 0 },
        { "a past",
          "q : B,2,S,4\nk : B,2,S,4\nv : B,2,S,4\npk : B,2,P,4\npv : B,2,P,4\nm : 1,P\nn : 1,S\n"
          "kk = Concat(pk, k) axis=2\nvv = Concat(pv, v) axis=2\nmm = Concat(m, n) axis=-1\n"
          "t = Transpose(kk) perm=0,1,3,2\ns = MatMul(q, t)\na = Add(s, mm)\np = Softmax(a) axis=-1\n"
          "y = MatMul(p, vv)\n-> y",
          "Concat Concat Concat Attention", 0 },
        { "a mask of other length",
          "q : 2,2,S,4\nk : 2,2,P,4\nv : 2,2,P,4\nm : 1,T\nt = Transpose(k) perm=0,1,3,2\n"
          "s = MatMul(q, t)\na = Add(s, m)\np = Softmax(a) axis=-1\ny = MatMul(p, v)\n-> y",
          "Shape Expand Add Attention", 0 },
        { "a mask with more batches",
          "q : 1,2,5,4\nk : 1,2,5,4\nv : 1,2,5,4\nm : 3,1,1,5\n"
          "t = Transpose(k) perm=0,1,3,2\ns = MatMul(q, t)\na = Add(s, m)\n"
          "p = Softmax(a) axis=-1\ny = MatMul(p, v)\n-> y",
          "Transpose MatMul Add Softmax MatMul", 0 },
        { "two masks",
          "q : 2,4,5,8\nk : 2,4,6,8\nv : 2,4,6,8\nm : 2,1,1,6\nn : 4,5,6\nt = Transpose(k) perm=0,1,3,2\n"
          "s = MatMul(q, t)\na = Add(s, n)\nb = Add(m, a)\np = Softmax(b) axis=-1\ny = MatMul(p, v)\n-> y",
          "Add Attention", 0 },
        { "a mask of allowed keys",
          "q : 2,4,5,8\nk : 2,4,6,8\nv : 2,4,6,8\nm : 2,1,5,6\no = [] 2.9\nl = [] -3e38\n"
          "r = [] 0.3\ng = Less(m, o)\nt = Transpose(k) perm=0,1,3,2\ns = MatMul(q, t)\n"
          "d = Mul(s, r)\na = Where(g, d, l)\np = Softmax(a) axis=-1\ny = MatMul(p, v)\n-> y",
          "Less Not Where Attention", 0 },
        { "a mask of forbidden keys, and an additive mask",
          "q : 2,4,5,8\nk : 2,4,6,8\nv : 2,4,6,8\nm : 2,1,5,6\no = [] 2.9\n"
          "l = [] -3e38\ng = Greater(m, o)\nt = Transpose(k) perm=0,1,3,2\ns = MatMul(q, t)\n"
          "d = Add(s, m)\na = Where(g, l, d)\np = Softmax(a) axis=-1\ny = MatMul(p, v)\n-> y",
          "Greater Where Attention", 0 },
        { "a number that is not low",
          "q : 2,4,5,8\nk : 2,4,6,8\nv : 2,4,6,8\nm : 2,1,5,6\no = [] 0\nl = [] -10\n"
          "g = Less(m, o)\nt = Transpose(k) perm=0,1,3,2\ns = MatMul(q, t)\n"
          "a = Where(g, s, l)\np = Softmax(a) axis=-1\ny = MatMul(p, v)\n-> y",
          "Less Not Where Attention", 0 },
        { "causal",
          "q : 2,4,3,8\nk : 2,4,3,8\nv : 2,4,3,8\nm = [1,1,3,3] 0,-3e38,-3e38,0,0,-3e38,0,0,0\n"
          "t = Transpose(k) perm=0,1,3,2\ns = MatMul(q, t)\na = Add(s, m)\np = Softmax(a) axis=-1\n"
          "y = MatMul(p, v)\n-> y",
          "Attention", 0 },
        { "almost causal",
          "q : 2,4,3,8\nk : 2,4,3,8\nv : 2,4,3,8\nm = [3,3] 0,-3e38,-3e38,0,0,-3e38,0,1,0\n"
          "t = Transpose(k) perm=0,1,3,2\ns = MatMul(q, t)\na = Add(s, m)\np = Softmax(a) axis=-1\n"
          "y = MatMul(p, v)\n-> y",
          "Attention", 0 },
        { "heads in groups",
          "q : 2,6,5,8\nk : 2,2,5,8\nv : 2,2,5,8\nax = i[1] 2\nku = Unsqueeze(k, ax)\n"
          "vu = Unsqueeze(v, ax)\nes = i[5] 2,2,3,5,8\nke = Expand(ku, es)\nve = Expand(vu, es)\n"
          "rs = i[4] 2,6,5,8\nkr = Reshape(ke, rs)\nvr = Reshape(ve, rs)\n"
          "t = Transpose(kr) perm=0,1,3,2\ns = MatMul(q, t)\np = Softmax(s) axis=-1\n"
          "y = MatMul(p, vr)\n-> y",
          "Attention", 0 },
        { "heads in groups, keys through three axes",
          "q : 2,6,5,8\nk : 2,2,5,8\nv : 2,2,5,8\nax = i[1] 2\nku = Unsqueeze(k, ax)\n"
          "vu = Unsqueeze(v, ax)\nes = i[5] 2,2,3,5,8\nke = Expand(ku, es)\nve = Expand(vu, es)\n"
          "rs = i[4] 2,6,5,8\nkr = Reshape(ke, rs)\nvr = Reshape(ve, rs)\nfs = i[3] -1,5,8\nkf = Reshape(kr, fs)\n"
          "kp = Transpose(kf) perm=0,2,1\nts = i[4] 2,6,8,5\nt = Reshape(kp, ts)\ns = MatMul(q, t)\n"
          "p = Softmax(s) axis=-1\ny = MatMul(p, vr)\n-> y",
          "Attention", 0 },
        { "heads interleaved",
          "q : 2,6,5,8\nk : 2,2,5,8\nv : 2,2,5,8\nax = i[1] 1\nku = Unsqueeze(k, ax)\n"
          "vu = Unsqueeze(v, ax)\nes = i[5] 2,3,2,5,8\nke = Expand(ku, es)\nve = Expand(vu, es)\n"
          "rs = i[4] 2,6,5,8\nkr = Reshape(ke, rs)\nvr = Reshape(ve, rs)\n"
          "t = Transpose(kr) perm=0,1,3,2\ns = MatMul(q, t)\np = Softmax(s) axis=-1\n"
          "y = MatMul(p, vr)\n-> y",
          "Unsqueeze Unsqueeze Expand Expand Reshape Reshape Attention", 0 },
        { "heads of a cache, repeated as exporters do it",
          "q : B,4,S,8\nn : B,2,S,8\np : B,2,P,8\nk = Concat(p, n) axis=2\nax = i[1] 2\nku = Unsqueeze(k, ax)\n"
          "s = Shape(k)\ni0 = i[] 0\ni2 = i[] 2\nb = Gather(s, i0)\nt = Gather(s, i2)\nz = i[1] 0\n"
          "bu = Unsqueeze(b, z)\ntu = Unsqueeze(t, z)\nh = i[2] 2,2\nd = i[1] 8\nes = Concat(bu, h, tu, d) axis=0\n"
          "m = i[5] -1,-1,-1,-1,-1\no = i[5] 1,1,1,1,1\ne = Equal(es, m)\nw = Where(e, o, es)\nke = Expand(ku, w)\n"
          "h4 = i[1] 4\nrs = Concat(bu, h4, tu, d) axis=0\nkr = Reshape(ke, rs)\ntr = Transpose(kr) perm=0,1,3,2\n"
          "sc = MatMul(q, tr)\npr = Softmax(sc) axis=-1\ny = MatMul(pr, kr)\n-> y",
          "Concat Attention", 0 },
        { "softmax made safe",
          "q : 2,4,5,8\nk : 2,4,6,8\nv : 2,4,6,8\nz = [] 0\nt = Transpose(k) perm=0,1,3,2\n"
          "s = MatMul(q, t)\np = Softmax(s) axis=-1\nn = IsNaN(p)\nw = Where(n, z, p)\n"
          "y = MatMul(w, v)\n-> y",
          "Attention", 0 },
        { "softmax made unsafe",
          "q : 2,4,5,8\nk : 2,4,6,8\nv : 2,4,6,8\nz = [] 1\nt = Transpose(k) perm=0,1,3,2\n"
          "s = MatMul(q, t)\np = Softmax(s) axis=-1\nn = IsNaN(p)\nw = Where(n, z, p)\n"
          "y = MatMul(w, v)\n-> y",
          "Transpose MatMul Softmax IsNaN Where MatMul", 0 },
        { "heads and batch in one axis",
          "x : S,B,12\nr = [] 2.0\ns = Shape(x)\ni = i[] 0\nj = i[] 1\nl = Gather(s, i)\n"
          "b = Gather(s, j)\nt = i[] 3\nh = Mul(b, t)\nz = i[1] 0\nlu = Unsqueeze(l, z)\n"
          "hu = Unsqueeze(h, z)\nd = i[1] 4\nto = Concat(lu, hu, d) axis=0\na = Reshape(x, to)\n"
          "q = Transpose(a) perm=1,0,2\nqs = Div(q, r)\nk = Transpose(a) perm=1,2,0\n"
          "e = MatMul(qs, k)\np = Softmax(e) axis=-1\no = MatMul(p, q)\n"
          "c = Transpose(o) perm=1,0,2\ny = Neg(c)\n-> y",
          "Shape Gather Gather Mul Unsqueeze Unsqueeze Concat Reshape Transpose Mul Unsqueeze Unsqueeze Attention "
          "Transpose Squeeze Neg",
          0 },
        { "a mask of rank 3",
          "q : 6,5,8\nk : 6,7,8\nv : 6,7,4\nm : 6,1,7\nt = Transpose(k) perm=0,2,1\n"
          "s = MatMul(q, t)\na = Add(m, s)\np = Softmax(a) axis=2\ny = MatMul(p, v)\n-> y",
          "Unsqueeze Unsqueeze Unsqueeze Attention Squeeze", 0 },
        { "one key head for all",
          "q : 2,4,5,8\nk : 2,1,6,8\nv : 2,1,6,8\nt = Transpose(k) perm=0,1,3,2\n"
          "s = MatMul(q, t)\np = Softmax(s) axis=-1\ny = MatMul(p, v)\n-> y",
          "Attention", 0 },
        { "keys with batch 1 for all",
          "q : 2,4,5,8\nk : 1,4,6,8\nv : 2,4,6,8\nt = Transpose(k) perm=0,1,3,2\n"
          "s = MatMul(q, t)\np = Softmax(s) axis=-1\ny = MatMul(p, v)\n-> y",
          "Transpose MatMul Softmax MatMul", 0 },
        { "a factor that adds an axis",
          "q : 4,5,8\nk : 1,4,6,8\nv : 1,4,6,8\nf = [1,1,1,1] 0.5\n"
          "g = Mul(q, f)\nt = Transpose(k) perm=0,1,3,2\ns = MatMul(g, t)\n"
          "p = Softmax(s) axis=-1\ny = MatMul(p, v)\n-> y",
          "Mul Attention", 0 },
        { "a choice, then a mask",
          "q : 2,4,5,8\nk : 2,4,6,8\nv : 2,4,6,8\nm : 2,1,5,6\nn : 2,1,1,6\no = [] 2.9\n"
          "l = [] -1e9\ng = Less(m, o)\nt = Transpose(k) perm=0,1,3,2\ns = MatMul(q, t)\n"
          "w = Where(g, s, l)\na = Add(w, n)\np = Softmax(a) axis=-1\ny = MatMul(p, v)\n-> y",
          "Less Not Where Add Attention", 0 },
        { "windows",
          "x : B,64,12\nm = [1,16,1,4,4]\nc = [3,4,4]\ns = i[4] -1,4,3,4\na = Reshape(x, s)\n"
          "q = Transpose(a) perm=0,2,1,3\nt = Transpose(a) perm=0,2,3,1\nd = MatMul(q, t)\ne = Add(d, c)\n"
          "f = i[5] -1,16,3,4,4\ng = Reshape(e, f)\nh = Add(g, m)\ni = i[4] -1,3,4,4\nj = Reshape(h, i)\n"
          "p = Softmax(j) axis=-1\ny = MatMul(p, q)\n-> y",
          "Reshape Transpose Shape Div Concat Expand Reshape Add Attention", 0 },
        { "windows of one batch",
          "x : 16,4,12\nm = [16,1,4,4]\nc = [3,4,4]\ns = i[4] -1,4,3,4\na = Reshape(x, s)\n"
          "q = Transpose(a) perm=0,2,1,3\nt = Transpose(a) perm=0,2,3,1\nd = MatMul(q, t)\ne = Add(d, c)\n"
          "f = i[5] -1,16,3,4,4\ng = Reshape(e, f)\nh = Add(g, m)\ni = i[4] -1,3,4,4\nj = Reshape(h, i)\n"
          "p = Softmax(j) axis=-1\ny = MatMul(p, q)\n-> y",
          "Reshape Transpose Attention", 0 },
        { "rows of a mask known from its consumer only",
          "x : B,S,6\nm : 1,1,R,S\ns = Shape(x)\ni = i[] 0\nj = i[] 1\nb = Gather(s, i)\n"
          "l = Gather(s, j)\nz = i[1] 0\nbu = Unsqueeze(b, z)\nlu = Unsqueeze(l, z)\nh = i[2] 2,3\n"
          "t = Concat(bu, lu, h) axis=0\na = Reshape(x, t)\nq = Transpose(a) perm=0,2,1,3\n"
          "k = Transpose(a) perm=0,2,3,1\nd = MatMul(q, k)\ne = Add(d, m)\np = Softmax(e) axis=-1\n"
          "o = MatMul(p, q)\nc = Transpose(o) perm=0,2,1,3\ng = i[1] 6\nu = Concat(bu, lu, g) axis=0\n"
          "y = Reshape(c, u)\n-> y",
          "Reshape Transpose Attention Transpose Reshape", 0 },
        { "rows of a mask that are unknown",
          "q : 2,2,S,4\nm : 1,1,R,S\nt = Transpose(q) perm=0,1,3,2\ns = MatMul(q, t)\na = Add(s, m)\n"
          "p = Softmax(a) axis=-1\ny = MatMul(p, q)\n-> y",
          "Transpose MatMul Add Softmax MatMul", 0 },
        { "softmax along another axis",
          "q : 2,4,5,8\nk : 2,4,5,8\nv : 2,4,5,8\nt = Transpose(k) perm=0,1,3,2\n"
          "s = MatMul(q, t)\np = Softmax(s) axis=2\ny = MatMul(p, v)\n-> y",
          "Transpose MatMul Softmax MatMul", 0 },
    };

    (void)state;
    CHECK_ROWS(rows);
}

/* The input of DynamicQuantizeLinear is computed by the same nodes at every level: other nodes could round a value
 * near the border of two quantization steps to the other step. Attention is fused at level 0, too; functions are not
 * replaced. Nodes after the quantization may be rewritten. */
#define GELU(x, y, t)                                                                                                  \
    t "a = Div(" x ", r)\n" t "b = Erf(" t "a)\n" t "c = Add(" t "b, o)\n" t "d = Mul(" x ", " t "c)\n" y " = Mul(" t  \
      "d, h)\n"
#define NUMBERS "r = [] 1.41421354\no = [] 1\nh = [] 0.5\n"
#define ROUND(x, y) "q, s, z = DynamicQuantizeLinear(" x ")\n" y " = DequantizeLinear(q, s, z)\n"

static void quantized_later(void **state)
{
    static const struct row rows[] = {
        { "gelu, quantized", "x : 2,8\n" NUMBERS GELU("x", "g", "t") ROUND("g", "y") "-> y",
          "Div Erf Add Mul Mul DynamicQuantizeLinear DequantizeLinear", 0 },
        { "gelu, and gelu of the quantized values",
          "x : 2,8\n" NUMBERS GELU("x", "g", "t") ROUND("g", "v") GELU("v", "y", "u") "-> y",
          "Div Erf Add Mul Mul DynamicQuantizeLinear DequantizeLinear Gelu", 0 },
        { "swish, quantized after a matrix multiplication",
          "x : 2,8\nw = [8,8]\na = Sigmoid(x)\nb = Mul(a, x)\nc = MatMul(b, w)\n" ROUND("c", "y") "-> y",
          "Sigmoid Mul MatMul DynamicQuantizeLinear DequantizeLinear", 0 },
        { "only the shape is used",
          "x : 2,8\na = Sigmoid(x)\nb = Mul(a, x)\nu : 16\nk = Shape(b)\n"
          "v = Reshape(u, k)\n" ROUND("v", "y") "-> y, b",
          "Swish Reshape DynamicQuantizeLinear DequantizeLinear", 0 },
        { "attention, quantized",
          "q0 : 2,3,4,8\nk0 : 2,3,5,8\nv0 : 2,3,5,8\nc = [] 0.35\nt = Transpose(k0) perm=0,1,3,2\na = MatMul(q0, t)\n"
          "b = Mul(a, c)\np = Softmax(b) axis=-1\ng = MatMul(p, v0)\n" ROUND("g", "y") "-> y",
          "Attention DynamicQuantizeLinear DequantizeLinear", 0 },
        { "attention that a later level would find",
          "q0 : 2,3,4,8\nk0 : 2,3,5,8\nv0 : 2,3,5,8\nt = Transpose(k0) perm=0,1,3,2\na = MatMul(q0, t)\n"
          "p = Softmax(a) axis=-1\nu = Transpose(p) perm=1,0,2,3\nw = Transpose(u) perm=1,0,2,3\n"
          "g = MatMul(w, v0)\n" ROUND("g", "y") "-> y",
          "Transpose MatMul Softmax MatMul DynamicQuantizeLinear DequantizeLinear", 0 },
    };

    (void)state;
    CHECK_ROWS(rows);
}

/* Graphs before a dynamic quantization give bitwise equal results at every level. */
static void levels_have_the_same_bits(void **state)
{
    static const struct row rows[] = {
        { "an encoder",
          "x : 1,N,8\nw = [8,8]\nu = [8,8]\ng = [8]\nt = [] 2\ne = [] 0.00001\n" NUMBERS
          "m = ReduceMean(x) axes=-1,\nd = Sub(x, m)\np = Pow(d, t)\nv = ReduceMean(p) axes=-1,\nl = Add(v, e)\n"
          "i = Sqrt(l)\nn = Div(d, i)\nk = Mul(n, g)\n" ROUND("k", "f") "a = MatMul(f, w)\n" GELU(
              "a", "b", "t") "c = Add(b, x)\nw2 = Add(w, u)\nj = MatMul(c, w2)\n"
                             "q2, s2, z2 = DynamicQuantizeLinear(j)\ny = DequantizeLinear(q2, s2, z2)\n-> y, f",
          NULL, 0 },
        { "attention",
          "q0 : 1,2,N,8\nk0 : 1,2,N,8\nv0 : 1,2,N,8\nc = [] 0.35\nt = Transpose(k0) perm=0,1,3,2\n"
          "a = MatMul(q0, t)\nb = Mul(a, c)\np = Softmax(b) axis=-1\ng = MatMul(p, v0)\n" ROUND("g", "y") "-> y, g",
          NULL, 0 },
    };
    static const char *const levels[] = { "0", "1", "2", "99" };

    (void)state;
    for (uint32_t k = 0; k < 2 * 3; k++) {
        const struct row *row = &rows[k / 3];
        struct rig plain = open_row(row, (const char *const[]){ "level", "0", "providers", "reference", NULL });
        struct rig best =
            open_row(row, (const char *const[]){ "level", levels[1 + k % 3], "providers", "reference", NULL });

        for (uint32_t seed = 1; seed < 40; seed++) {
            script_feed_sized(&plain, 11, seed, 0);
            script_feed_sized(&best, 11, seed, 0);
            rig_run(&plain);
            rig_run(&best);
            for (uint32_t i = 0; i < 2; i++) {
                const inlay_value *a = inlay_context_output(plain.context, i);
                const inlay_value *b = inlay_context_output(best.context, i);

                assert_memory_equal(inlay_value_data(a), inlay_value_data(b), inlay_value_bytes(a));
            }
        }
        rig_close(&plain);
        rig_close(&best);
    }
}

/* Must be last: every pass of level 2 has a row. Rows of einsum, gemm and merge_products are in test_rewrites.c, those
 * of widen_halves in test_integers.c. */
static void every_pass_has_rows(void **state)
{
    (void)state;
    rows_expect_passes(2, 2, " einsum gemm merge_products widen_halves ");
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(activations),
                                        cmocka_unit_test(chosen_matrices),
                                        cmocka_unit_test(norms),
                                        cmocka_unit_test(nearly_matching_constants),
                                        cmocka_unit_test(constants_with_axes),
                                        cmocka_unit_test(faulty_passes),
                                        cmocka_unit_test(attention),
                                        cmocka_unit_test(attention_with_past),
                                        cmocka_unit_test(quantized_later),
                                        cmocka_unit_test(levels_have_the_same_bits),
                                        cmocka_unit_test(every_pass_has_rows) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
