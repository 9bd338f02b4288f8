/* Each pass on graphs that it rewrites and on graphs that it must not rewrite: the remaining operators; outputs
 * equal those without the optimiser. */
#include "rewrite_rows.h"

static void no_ops(void **state)
{
    static const struct row rows[] = {
        { "reshape to its own shape", "x : 2,3\ns = i[2] 2,3\na = Reshape(x, s)\ny = Neg(a)\n-> y", "Neg", 0 },
        { "transpose in order", "x : 2,3\na = Transpose(x) perm=0,1\ny = Neg(a)\n-> y", "Neg", 0 },
        { "pad by nothing", "x : 2,3\np = i[4] 0,0,0,0\na = Pad(x, p)\ny = Neg(a)\n-> y", "Neg", 0 },
        { "pad that shifts", "x : 2,3\np = i[4] 0,1,0,-1\na = Pad(x, p)\ny = Neg(a)\n-> y", "Pad Neg", 0 },
        { "pad that crops", "x : 2,3\np = i[4] 0,-1,0,0\na = Pad(x, p)\ny = Neg(a)\n-> y", "Pad Neg", 0 },
        { "pad that crops at the end", "x : 2,3\np = i[4] 0,0,-1,0\na = Pad(x, p)\ny = Neg(a)\n-> y", "Pad Neg", 0 },
        { "pad that shifts back", "x : 2,3\np = i[4] -1,0,1,0\na = Pad(x, p)\ny = Neg(a)\n-> y", "Pad Neg", 0 },
        { "pad that crops, by attribute", "x : 2,3\na = Pad(x) pads=0,-1,0,0\ny = Neg(a)\n-> y", "Pad Neg", 10 },
        { "slice of everything", "x : 2,3\nb = i[1] 0\ne = i[1] 9\na = Slice(x, b, e)\ny = Neg(a)\n-> y", "Neg", 0 },
        { "slice backwards",
          "x : 2,3\nb = i[1] 9\ne = i[1] -9\nax = i[1] 1\nst = i[1] -1\na = Slice(x, b, e, ax, st)\ny = Neg(a)\n-> y",
          "Slice Neg", 0 },
        { "expand to its own shape", "x : 2,3\ns = i[2] 1,3\na = Expand(x, s)\ny = Neg(a)\n-> y", "Neg", 0 },
        { "expand", "x : 1,3\ns = i[2] 2,3\na = Expand(x, s)\ny = Neg(a)\n-> y", "Expand Neg", 0 },
        { "tile by ones", "x : 2,3\nr = i[2] 1,1\na = Tile(x, r)\ny = Neg(a)\n-> y", "Neg", 0 },
        { "concat of one", "x : 2,3\na = Concat(x) axis=0\ny = Neg(a)\n-> y", "Neg", 0 },
        { "split into one", "x : 2,3\ns = i[1] 3\na = Split(x, s) axis=1\ny = Neg(a)\n-> y", "Neg", 0 },
        { "flatten of a matrix", "x : 2,3\na = Flatten(x) axis=1\ny = Neg(a)\n-> y", "Neg", 0 },
        { "clip without bounds", "x : 2,3\na = Clip(x)\ny = Neg(a)\n-> y", "Neg", 0 },
        { "resize by ones", "x : 1,1,2,3\ns = [4] 1,1,1,1\na = Resize(x, _, s)\ny = Neg(a)\n-> y", "Neg", 0 },
        { "dropout of nothing", "x : 2,3\nr = [] 0\nt = Greater(r, r)\na = Dropout(x, r, t)\ny = Neg(a)\n-> y", "Neg",
          0 },
        { "an output keeps its name", "x : 2,3\ny = Identity(x)\n-> y", "Identity", 0 },
    };

    (void)state;
    CHECK_ROWS(rows);
}

static void sequences(void **state)
{
    static const struct row rows[] = {
        { "an element of a list",
          "x : 2,3\nz : 2,3\nq = SequenceConstruct(x, z, x)\ni = i[] -2\n"
          "a = SequenceAt(q, i)\ny = Neg(a)\n-> y",
          "Neg", 0 },
        { "elements that were added separately",
          "x : 2,3\nz : 2,3\ne = SequenceEmpty()\nf = SequenceInsert(e, x)\nb = i[] 0\ng = SequenceInsert(f, z, b)\n"
          "m = i[] -1\nh = SequenceInsert(g, z, m)\na = SequenceAt(h, b)\nc = SequenceAt(h, m)\no = i[] 1\n"
          "d = SequenceAt(h, o)\nj = Sub(a, c)\ny = Mul(j, d)\n-> y",
          "Sub Mul", 0 },
        { "elements left in a list",
          "x : 2,3\nz : 2,3\nq = SequenceConstruct(x, z)\no = i[] 0\nr = SequenceErase(q, o)\n"
          "s = SequenceErase(q)\na = SequenceAt(r, o)\nb = SequenceAt(s, o)\ny = Sub(a, b)\n"
          "-> y",
          "Sub", 0 },
        { "its length",
          "x : 2,3\nq = SequenceConstruct(x, x, x)\nl = SequenceLength(q)\nf = Cast(l) to=1\n"
          "y = Mul(x, f)\n-> y",
          "Mul", 0 },
        { "all parts next to each other",
          "x : 2,3\nz : 2,4\nq = SequenceConstruct(x, z)\n"
          "y = ConcatFromSequence(q) axis=1\n-> y",
          "Concat", 0 },
        { "along a new axis",
          "x : 2,3\nz : 2,3\nq = SequenceConstruct(x, z)\n"
          "y = ConcatFromSequence(q) axis=1 new_axis=1\n-> y",
          "SequenceConstruct ConcatFromSequence", 0 },
        { "parts of equal size",
          "x : 2,7\ns = i[] 3\nq = SplitToSequence(x, s) axis=1\no = i[] 1\np = i[] 2\n"
          "a = SequenceAt(q, o)\nb = SequenceAt(q, p)\ny = Mul(a, b)\n-> y",
          "Split Mul", 0 },
        { "parts of different sizes",
          "x : 7,2\ns = i[3] 1,2,4\nq = SplitToSequence(x, s)\no = i[] 1\n"
          "a = SequenceAt(q, o)\ny = Neg(a)\n-> y",
          "Split Neg", 0 },
        { "rows without their axis",
          "x : 3,2\nq = SplitToSequence(x) keepdims=0\no = i[] 1\na = SequenceAt(q, o)\n"
          "y = Neg(a)\n-> y",
          "SplitToSequence SequenceAt Neg", 0 },
    };

    (void)state;
    CHECK_ROWS(rows);
}

static void algebra(void **state)
{
    static const struct row rows[] = {
        { "x * 1", "x : 2,3\nc = [] 1\na = Mul(x, c)\ny = Neg(a)\n-> y", "Neg", 0 },
        { "1 * x that broadcasts",
          "x : 2,3\nc = [4,2,3] 1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1\n"
          "a = Mul(c, x)\ny = Neg(a)\n-> y",
          "Mul Neg", 0 },
        { "x + 0 is not x for -0", "x : 2,3\nc = [] 0\na = Add(x, c)\ny = Neg(a)\n-> y", "Add Neg", 0 },
        { "x + -0", "x : 2,3\nc = [] -0\na = Add(x, c)\ny = Neg(a)\n-> y", "Neg", 0 },
        { "x - 0", "x : 2,3\nc = [] 0\na = Sub(x, c)\ny = Neg(a)\n-> y", "Neg", 0 },
        { "x / 1, x ^ 1", "x : 2,3\nc = [] 1\na = Div(x, c)\nb = Pow(a, c)\ny = Neg(b)\n-> y", "Neg", 0 },
        { "x ^ 2", "x : 2,3\nc = [] 2\ny = Pow(x, c)\n-> y", "Mul", 0 },
        { "x / 4", "x : 2,3\nc = [] 4\ny = Div(x, c)\n-> y", "Mul", 0 },
        { "x / 3", "x : 2,3\nc = [] 3\ny = Div(x, c)\n-> y", "Div", 0 },
        { "--x", "x : 2,3\na = Neg(x)\nb = Neg(a)\ny = Abs(b)\n-> y", "Abs", 0 },
        { "relu of relu", "x : 2,3\na = Relu(x)\ny = Relu(a)\n-> y", "Relu", 0 },
        { "idempotent operators twice",
          "x : 2,3\na = Abs(x)\nb = Abs(a)\nc = Ceil(b)\nd = Ceil(c)\ne = Exp(d)\nf = Floor(e)\ng = Floor(f)\n"
          "h = Tanh(g)\ni = Round(h)\nj = Round(i)\nk = Cos(j)\nl = Sign(k)\ny = Sign(l)\n-> y",
          "Abs Ceil Exp Floor Tanh Round Cos Sign", 0 },
        { "x + -y", "x : 2,3\nz : 2,3\na = Neg(z)\ny = Add(x, a)\n-> y", "Sub", 0 },
        { "-x + y", "x : 2,3\nz : 2,3\na = Neg(x)\ny = Add(a, z)\n-> y", "Sub", 0 },
        { "x - -y", "x : 2,3\nz : 2,3\na = Neg(z)\ny = Sub(x, a)\n-> y", "Add", 0 },
        { "x + -y along an axis that is stated", "x : 2,3\nz : 2\na = Neg(z)\ny = Add(x, a) broadcast=1 axis=0\n-> y",
          "Neg Add", 6 },
        { "a choice by a negated condition", "x : 2,3\nz : 2,3\nl = Less(x, z)\nn = Not(l)\ny = Where(n, x, z)\n-> y",
          "Less Where", 0 },
        { "log of softmax, which may be 0", "x : 2,3\na = Softmax(x) axis=0\ny = Log(a)\n-> y", "Softmax Log", 0 },
    };

    (void)state;
    CHECK_ROWS(rows);
}

static void repeated_work(void **state)
{
    static const struct row rows[] = {
        { "the same twice", "x : 2,3\na = Exp(x)\nb = Exp(x)\ny = Add(a, b)\n-> y", "Exp Add", 0 },
        { "chains of the same", "x : 2,3\na = Exp(x)\nb = Exp(x)\nc = Neg(a)\nd = Neg(b)\ny = Mul(c, d)\n-> y",
          "Exp Neg Mul", 0 },
        { "equal constants", "x : 2,3\nc = [] 3\nd = [] 3\na = Mul(x, c)\nb = Mul(x, d)\ny = Add(a, b)\n-> y",
          "Mul Add", 0 },
        { "other attributes", "x : 2,3\na = LeakyRelu(x) alpha=0.1\nb = LeakyRelu(x) alpha=0.2\ny = Add(a, b)\n-> y",
          "LeakyRelu LeakyRelu Add", 0 },
        { "an attribute that the first lacks",
          "x : 2,3\na = Clip(x) max=0.5\nb = Clip(x) max=0.5 min=0.1\ny = Add(a, b)\n-> y", "Clip Clip Add", 5 },
        { "an attribute that the second lacks",
          "x : 2,3\na = Clip(x) max=0.5 min=0.1\nb = Clip(x) max=0.5\ny = Add(a, b)\n-> y", "Clip Clip Add", 5 },
        { "two outputs", "x : 2,3\na = Exp(x)\nb = Exp(x)\n-> a, b", "Exp Exp", 0 },
        { "random",
          "x : 2,3\na = RandomNormalLike(x) seed=1.0\nb = RandomNormalLike(x) seed=1.0\nc = Sub(a, a)\n"
          "d = Sub(b, b)\ny = Add(c, d)\n-> y",
          "RandomNormalLike RandomNormalLike Sub Sub Add", 0 },
    };

    (void)state;
    CHECK_ROWS(rows);
}

static void branch(struct wire *wire, const char *attr, const char *op, const char *inputs, const char *output)
{
    mw_body body = mw_body_begin(wire, attr, attr);

    mw_node(wire, op, inputs, output);
    mw_value(wire, MW_OUTPUT, output, RIG_FLOAT, NULL);
    mw_body_end(wire, body);
}

static float apply(const char *op, float number)
{
    return strcmp(op, "Neg") == 0 ? -number : strcmp(op, "Abs") == 0 ? fabsf(number) : fmaxf(number, 0);
}

/* Builds two If nodes with the same condition and these operators in their branches; the second then-branch reads
 * `reads`. Checks the operators that remain and, unless they are random, the sums of the results of both nodes. */
static void expect_branches(const char *const ops[4], const char *reads, const char *left)
{
    struct wire wire = { 0 };
    wire_mark mark = mw_begin(&wire, 8, 17), node;
    const float x[2] = { 1, -2 }, z[2] = { -3, 5 };
    char got[256];
    struct rig rig;

    mw_value(&wire, MW_INPUT, "c", RIG_BOOL, "");
    mw_value(&wire, MW_INPUT, "x", RIG_FLOAT, "2");
    mw_value(&wire, MW_INPUT, "z", RIG_FLOAT, "2");
    for (int i = 0; i < 2; i++) {
        node = mw_node_begin(&wire, "If", "c", i == 0 ? "a" : "b");
        branch(&wire, "then_branch", ops[2 * i], i == 0 ? "x" : reads, i == 0 ? "p" : "q");
        branch(&wire, "else_branch", ops[2 * i + 1], "x", i == 0 ? "r" : "s");
        wire_end(&wire, node);
    }
    mw_node(&wire, "Add", "a,b", "y");
    mw_value(&wire, MW_OUTPUT, "y", RIG_FLOAT, NULL);
    wire_end(&wire, mark);
    rig = rig_open(&wire, NULL);
    list_ops(rig.session->model->main, got, sizeof got);
    assert_string_equal(got, left);
    rig_floats(&rig, 1, "2", x);
    rig_floats(&rig, 2, "2", z);
    for (uint8_t condition = 0; condition < 2; condition++) {
        const float *second = condition == 1 && strcmp(reads, "z") == 0 ? z : x;
        float sums[2];

        rig_set(&rig, 0, INLAY_BOOL, "", &condition);
        rig_run(&rig);
        for (int i = 0; i < 2; i++)
            sums[i] = apply(ops[1 - condition], x[i]) + apply(ops[3 - condition], second[i]);
        if (condition == 0 || strcmp(ops[0], "RandomNormalLike") != 0)
            rig_expect_floats(&rig, 0, "2", sums);
    }
    rig_close(&rig);
}

static void repeated_bodies(void **state)
{
    (void)state;
    expect_branches((const char *const[]){ "Neg", "Abs", "Neg", "Abs" }, "x", "If Add");
    expect_branches((const char *const[]){ "Neg", "Abs", "Neg", "Relu" }, "x", "If If Add");
    expect_branches((const char *const[]){ "Neg", "Abs", "Neg", "Abs" }, "z", "If If Add");
    expect_branches((const char *const[]){ "RandomNormalLike", "Abs", "RandomNormalLike", "Abs" }, "x", "If If Add");
}

static void merged(void **state)
{
    static const struct row rows[] = {
        { "views",
          "x : 2,3,4\ns = i[2] 6,4\na = Reshape(x, s)\nb = Flatten(a) axis=0\nax = i[1] 0\n"
          "c = Squeeze(b, ax)\ny = Neg(c)\n-> y",
          "Reshape Neg", 0 },
        { "views with a free size",
          "x : 2,N,4\ns = i[2] -1,4\na = Reshape(x, s)\nt = i[3] 2,-1,4\nb = Reshape(a, t)\n"
          "y = Neg(b)\n-> y",
          "Neg", 0 },
        { "transposes", "x : 2,3,4\na = Transpose(x) perm=1,0,2\nb = Transpose(a) perm=2,1,0\ny = Neg(b)\n-> y",
          "Transpose Neg", 0 },
        { "transposes that cancel",
          "x : 2,3,4\na = Transpose(x) perm=1,2,0\nb = Transpose(a) perm=2,0,1\ny = Neg(b)\n"
          "-> y",
          "Neg", 0 },
        { "transposes across",
          "x : 2,3,4\na = Transpose(x) perm=0,2,1\nc = [3]\nb = Mul(a, c)\nd = Relu(b)\n"
          "e = Transpose(d) perm=0,2,1\ny = Neg(e)\n-> y",
          "Mul Relu Neg", 0 },
        { "transposes that nearly cancel",
          "x : 2,3,4\na = Transpose(x) perm=2,1,0\nb = Relu(a)\n"
          "e = Transpose(b) perm=0,2,1\ny = Neg(e)\n-> y",
          "Transpose Relu Neg", 0 },
        { "transpose of merged axes", /* the keys of an attention, as PyTorch exports them */
          "x : 2,4,5,3\ns = i[3] -1,5,3\na = Reshape(x, s)\nb = Transpose(a) perm=0,2,1\nt = i[4] 2,4,3,5\n"
          "c = Reshape(b, t)\ny = Neg(c)\n-> y",
          "Transpose Neg", 0 },
        { "transpose of merged axes of computed sizes",
          "x : B,4,S,3\nh = Shape(x)\nc0 = i[1] 0\nc1 = i[1] 1\nc2 = i[1] 2\nc3 = i[1] 3\nc4 = i[1] 4\nm = i[1] -1\n"
          "d0 = Slice(h, c0, c1)\nd2 = Slice(h, c2, c3)\ns = Concat(m, d2, c3) axis=0\na = Reshape(x, s)\n"
          "b = Transpose(a) perm=0,2,1\nt = Concat(d0, c4, c3, d2) axis=0\nc = Reshape(b, t)\ny = Neg(c)\n-> y",
          "Transpose Neg", 0 },
        { "transpose of two merged axes",
          "x : 2,3,4,5\ns = i[2] 6,20\na = Reshape(x, s)\nb = Transpose(a) perm=1,0\nt = i[4] 4,5,2,3\n"
          "c = Reshape(b, t)\ny = Neg(c)\n-> y",
          "Transpose Neg", 0 },
        { "transpose of merged axes of size 1",
          "x : 1,4,5,3\ns = i[3] 4,5,3\na = Reshape(x, s)\nb = Transpose(a) perm=0,2,1\nt = i[4] 4,3,1,5\n"
          "c = Reshape(b, t)\ny = Neg(c)\n-> y",
          "Transpose Neg", 0 },
        { "transpose of merged axes that are split differently",
          "x : 2,4,5,3\ns = i[3] -1,5,3\na = Reshape(x, s)\nb = Transpose(a) perm=0,2,1\nt = i[4] 4,2,3,5\n"
          "c = Reshape(b, t)\ny = Neg(c)\n-> y",
          "Reshape Transpose Reshape Neg", 0 },
        { "transpose of more merged axes than are split", /* keys that are repeated for groups of heads */
          "x : 2,2,3,5,7\ns = i[3] -1,5,7\na = Reshape(x, s)\nb = Transpose(a) perm=0,2,1\nt = i[4] 2,6,7,5\n"
          "c = Reshape(b, t)\ny = Neg(c)\n-> y",
          "Reshape Transpose Neg", 0 },
        { "transpose of more merged axes, of which one is open",
          "x : 2,2,3,S,7\nh = Shape(x)\nc3 = i[1] 3\nc4 = i[1] 4\nl = Slice(h, c3, c4)\nm = i[1] -1\nw = i[1] 7\n"
          "s = Concat(m, l, w) axis=0\na = Reshape(x, s)\nb = Transpose(a) perm=0,2,1\nf = i[2] 2,6\n"
          "t = Concat(f, w, l) axis=0\nc = Reshape(b, t)\ny = Neg(c)\n-> y",
          "Reshape Transpose Neg", 0 },
        { "transpose of more merged axes, axes of size 1 between",
          "x : 2,1,3,5,7\ns = i[2] 6,35\na = Reshape(x, s)\nb = Transpose(a) perm=1,0\nt = i[4] 35,1,1,6\n"
          "c = Reshape(b, t)\ny = Neg(c)\n-> y",
          "Reshape Transpose Neg", 0 },
        { "transpose of more merged axes, which the view merges",
          "x : 2,2,3,5,7\ns = i[3] -1,5,7\na = Reshape(x, s)\nb = Transpose(a) perm=0,2,1\nt = i[2] 12,35\n"
          "c = Reshape(b, t)\ny = Neg(c)\n-> y",
          "Reshape Transpose Reshape Neg", 0 },
        { "transpose of more merged axes, split across them",
          "x : 2,2,3,5,6\ns = i[3] -1,5,6\na = Reshape(x, s)\nb = Transpose(a) perm=0,2,1\nt = i[4] 2,12,3,5\n"
          "c = Reshape(b, t)\ny = Neg(c)\n-> y",
          "Reshape Transpose Reshape Neg", 0 },
        { "transpose of more merged axes of no elements",
          "x : 2,0,3,5,7\ns = i[3] 0,5,7\na = Reshape(x, s) allowzero=1\nb = Transpose(a) perm=0,2,1\nt = i[4] "
          "0,6,7,5\n"
          "c = Reshape(b, t) allowzero=1\ny = Neg(c)\n-> y",
          NULL, 0 },
        { "transpose of a split axis",
          "x : 2,6,5\ns = i[4] 2,2,3,5\na = Reshape(x, s)\nb = Transpose(a) perm=0,2,1,3\nt = i[3] 2,6,5\n"
          "c = Reshape(b, t)\ny = Neg(c)\n-> y",
          "Reshape Transpose Reshape Neg", 0 },
        { "slices",
          "x : 4,5,6\nb1 = i[1] 1\ne1 = i[1] 3\na0 = i[1] 0\na2 = i[1] -1\na = Slice(x, b1, e1, a0)\n"
          "y = Slice(a, b1, e1, a2)\n-> y",
          "Slice", 0 },
        { "slices of one axis",
          "x : 9,5\nb1 = i[1] 1\ne1 = i[1] 5\na0 = i[1] 0\na = Slice(x, b1, e1, a0)\n"
          "y = Slice(a, b1, e1, a0)\n-> y",
          "Slice", 0 },
        { "slices of one unknown axis",
          "x : N,5\nb1 = i[1] 1\ne1 = i[1] 8\na0 = i[1] 0\nst = i[1] 2\na = Slice(x, b1, e1, a0, st)\n"
          "y = Slice(a, b1, e1, a0)\n-> y",
          "Slice", 0 },
        { "slices that count from an unknown end",
          "x : N,5\nb1 = i[1] -2\ne1 = i[1] 8\na0 = i[1] 0\na = Slice(x, b1, e1, a0)\n"
          "y = Slice(a, b1, e1, a0)\n-> y",
          "Slice Slice", 0 },
        { "concats", "x : 2,3\nz : 2,3\na = Concat(x, z) axis=1\ny = Concat(z, a, x) axis=-1\n-> y", "Concat", 0 },
        { "concats along others", "x : 2,2\nz : 2,2\na = Concat(x, z) axis=1\ny = Concat(a, a) axis=0\n-> y",
          "Concat Concat", 0 },
        { "casts", "x : 2,3\na = Cast(x) to=11\nb = Cast(a) to=1\ny = Neg(b)\n-> y", "Neg", 0 },
        { "casts that lose precision", "x : 2,3\na = Cast(x) to=6\nb = Cast(a) to=1\ny = Neg(b)\n-> y", "Cast Cast Neg",
          0 },
        { "reductions", "x : 2,3,4\na = ReduceMax(x) axes=1, keepdims=1\ny = ReduceMax(a) axes=2, keepdims=1\n-> y",
          "ReduceMax", 0 },
        { "reductions, one keeps its axis",
          "x : 2,3,4\na = ReduceMax(x) axes=1, keepdims=1\ny = ReduceMax(a) axes=2, keepdims=0\n-> y",
          "ReduceMax ReduceMax", 0 },
        { "reduction, then squeeze",
          "x : 2,3,4\nax = i[1] 1\na = ReduceSum(x, ax) keepdims=1\ny = Squeeze(a, ax)\n-> y", "ReduceSum", 0 },
        { "reduction, then unsqueeze",
          "x : 2,3,4\nax = i[2] 0,-1\na = ReduceSum(x, ax) keepdims=0\n"
          "y = Unsqueeze(a, ax)\n-> y",
          "ReduceSum", 0 },
        { "quantized values are quantized again",
          "x : 2,3\ns = [] 0.05\nzi = i[] 3\nz = Cast(zi) to=2\nq = QuantizeLinear(x, s, z)\n"
          "d = DequantizeLinear(q, s, z)\np = QuantizeLinear(d, s, z)\ny = DequantizeLinear(p, s, z)\n-> y",
          "QuantizeLinear DequantizeLinear", 0 },
        { "again, but by another scale",
          "x : 2,3\ns = [] 0.05\nt = [] 0.06\nzi = i[] 3\nz = Cast(zi) to=2\nq = QuantizeLinear(x, s, z)\n"
          "d = DequantizeLinear(q, s, z)\np = QuantizeLinear(d, t, z)\ny = DequantizeLinear(p, t, z)\n-> y",
          "QuantizeLinear DequantizeLinear QuantizeLinear DequantizeLinear", 0 },
        { "a value without a consumer", "x : 2,3\na = Exp(x)\nb = Neg(a)\ny = Tanh(x)\n-> y", "Tanh", 0 },
        { "a branch that is known",
          "x : 2,3\nz = [] 0.0\no = [] 1.0\nt = Greater(z, o)\n"
          "a = If(t) then:Neg(x) else:Exp(x)\ny = Tanh(a)\n-> y",
          "Exp Tanh", 0 },
        { "a size that is known",
          "x : N,4,6\ns = Shape(x)\ni = i[1] 2\nb = Gather(s, i)\nm = i[1] -1\n"
          "t = Concat(m, b) axis=0\ny = Reshape(x, t)\n-> y",
          "Reshape", 0 },
        { "a shape that is computed",
          "x : N,4,6\ns = Shape(x)\nz = i[1] 0\nb = Gather(s, z)\nt = i[2] -1,3\n"
          "u = Concat(b, t) axis=0\na = Reshape(x, u)\ny = Neg(a)\n-> y",
          "Reshape Neg", 0 },
        { "heads are split and joined",
          "x : B,S,6\ns = Shape(x)\ni = i[] 0\nj = i[] 1\nb = Gather(s, i)\n"
          "l = Gather(s, j)\nz = i[1] 0\nbu = Unsqueeze(b, z)\nlu = Unsqueeze(l, z)\n"
          "h = i[2] 2,3\nt = Concat(bu, lu, h) axis=0\na = Reshape(x, t)\n"
          "c = Transpose(a) perm=0,2,1,3\nd = Relu(c)\ne = Transpose(d) perm=0,2,1,3\n"
          "m = i[1] -1\nu = Concat(bu, lu, m) axis=0\nf = Reshape(e, u)\n"
          "y = Neg(f)\n-> y",
          "Reshape Relu Reshape Neg", 0 },
        { "a size of an input",
          "x : N,4\na = Exp(x)\nc = Transpose(a) perm=1,0\ns = Shape(c)\ni = i[] 1\nb = Gather(s, i)\nz = i[1] 0\n"
          "u = Unsqueeze(b, z)\nk = i[1] 3\nt = Concat(k, u) axis=0\nw = [3,1]\ne = Expand(w, t)\n"
          "y = MatMul(e, a)\n-> y",
          "Exp Shape Gather Unsqueeze Concat Expand MatMul", 0 },
        { "sum between views",
          "x : 4,2,3\nm = [1,4,1,3]\ns = i[4] 1,4,2,3\nt = i[3] 4,2,3\na = Reshape(x, s)\n"
          "b = Add(a, m)\nc = Reshape(b, t)\ny = Neg(c)\n-> y",
          "Add Neg", 0 },
        { "sum between other views",
          "x : 4,2,3\nm = [2,2,1,3]\ns = i[4] 2,2,2,3\nt = i[3] 4,2,3\na = Reshape(x, s)\n"
          "b = Add(a, m)\nc = Reshape(b, t)\ny = Neg(c)\n-> y",
          "Reshape Add Reshape Neg", 0 },
        { "sum between views that grows",
          "x : 4,2,3\nm = [2,1,1,1]\ns = i[4] 1,4,2,3\nt = i[3] 8,2,3\n"
          "a = Reshape(x, s)\nb = Add(a, m)\nc = Reshape(b, t)\ny = Neg(c)\n-> y",
          "Reshape Add Reshape Neg", 0 },
        { "transposes before a sum",
          "x : 2,3,4\nz : 2,1,4\na = Transpose(x) perm=1,2,0\nb = Transpose(z) perm=1,2,0\n"
          "c = Sub(a, b)\ny = Neg(c)\n-> y",
          "Sub Transpose Neg", 0 },
        { "other transposes before a sum",
          "x : 2,3,3\nz : 3,2,3\na = Transpose(x) perm=1,2,0\n"
          "b = Transpose(z) perm=0,2,1\nc = Sub(a, b)\ny = Neg(c)\n-> y",
          "Transpose Transpose Sub Neg", 13 },
        { "transposes before concat",
          "x : 2,3,4\nz : 2,5,4\na = Transpose(x) perm=1,2,0\nb = Transpose(z) perm=1,2,0\n"
          "c = Concat(a, b) axis=0\ny = Neg(c)\n-> y",
          "Concat Transpose Neg", 0 },
        { "a computed shape with sizes from other positions",
          "x : B,S,6\ns = Shape(x)\ni = i[] 0\nj = i[] 1\nb = Gather(s, i)\nl = Gather(s, j)\nz = i[1] 0\n"
          "bu = Unsqueeze(b, z)\nlu = Unsqueeze(l, z)\nh = i[1] 6\nt = Concat(lu, bu, h) axis=0\n"
          "y = Reshape(x, t)\n-> y",
          "Shape Gather Gather Unsqueeze Unsqueeze Concat Reshape", 0 },
    };

    (void)state;
    CHECK_ROWS(rows);
}

static void convolutions(void **state)
{
    static const struct row rows[] = {
        { "batch norm",
          "x : 1,2,5,5\nw = [3,2,3,3]\ns = [3]\nb = [3]\nm = [3]\nv = [3]\na = Conv(x, w)\n"
          "y = BatchNormalization(a, s, b, m, v) epsilon=0.01\n-> y",
          "Conv", 0 },
        { "batch norm after a bias",
          "x : 1,2,5,5\nw = [4,1,3,3]\nc = [4]\ns = [4]\nb = [4]\nm = [4]\nv = [4]\n"
          "a = Conv(x, w, c) group=2\ny = BatchNormalization(a, s, b, m, v)\n-> y",
          "Conv", 0 },
        { "batch norm of a transposed convolution",
          "x : 1,4,5,5\nw = [4,3,2,2]\ns = [6]\nb = [6]\nm = [6]\nv = [6]\n"
          "a = ConvTranspose(x, w) group=2 strides=2,2\n"
          "y = BatchNormalization(a, s, b, m, v)\n-> y",
          "ConvTranspose", 0 },
        { "batch norm of a value with other consumers",
          "x : 1,2,5,5\nw = [3,2,3,3]\ns = [3]\nb = [3]\nm = [3]\nv = [3]\n"
          "a = Conv(x, w)\nz = BatchNormalization(a, s, b, m, v)\n"
          "y = Add(z, a)\n-> y",
          "Conv BatchNormalization Add", 0 },
        { "scale and offset",
          "x : 1,2,5\nw = [3,2,3]\ns = [3,1]\nb = [1,3,1]\nh = [] 2\na = Conv(x, w)\n"
          "c = Mul(s, a)\nd = Add(c, b)\ne = Div(d, h)\ny = Sub(e, h)\n-> y",
          "Conv", 0 },
        { "a sum that is no offset", "x : 1,2,5\nw = [3,2,3]\nb = [3]\na = Conv(x, w)\ny = Add(a, b)\n-> y", "Conv Add",
          0 },
        { "pad",
          "x : 1,2,5,5\nw = [3,2,3,3]\np = i[8] 0,0,1,2,0,0,0,1\na = Pad(x, p)\ny = Conv(a, w) pads=1,0,1,0\n-> y",
          "Conv", 0 },
        { "pad before a transposed convolution",
          "x : 1,2,5,5\nw = [2,3,3,3]\nb = [3]\np = i[8] 0,0,1,0,0,0,2,1\na = Pad(x, p)\n"
          "y = ConvTranspose(a, w, b) pads=2,1,5,2 strides=2,2 output_padding=1,0\n-> y",
          "ConvTranspose", 0 },
        { "pad that a transposed convolution does not remove",
          "x : 1,2,5,5\nw = [2,3,3,3]\np = i[8] 0,0,1,0,0,0,2,1\na = Pad(x, p)\n"
          "y = ConvTranspose(a, w) pads=2,1,3,2 strides=2,2\n-> y",
          "Pad ConvTranspose", 0 },
        { "pad of channels",
          "x : 1,1,5,5\nw = [3,2,3,3]\np = i[8] 0,1,0,0,0,0,0,0\na = Pad(x, p)\ny = Conv(a, w)\n-> y", "Pad Conv", 0 },
        { "pad with ones",
          "x : 1,2,5,5\nw = [3,2,3,3]\np = i[8] 0,0,1,1,0,0,1,1\no = [] 1\na = Pad(x, p, o)\n"
          "y = Conv(a, w)\n-> y",
          "Pad Conv", 0 },
        { "pad before an average pool",
          "x : 1,2,5,5\np = i[8] 0,0,1,1,0,0,1,1\na = Pad(x, p)\n"
          "y = AveragePool(a) kernel_shape=3,3\n-> y",
          "AveragePool", 0 },
    };

    (void)state;
    CHECK_ROWS(rows);
}

static void products(void **state)
{
    static const struct row rows[] = {
        { "matmul and bias", "x : 2,3\nw = [3,4]\nb = [4]\na = MatMul(x, w)\ny = Add(b, a)\n-> y", "Gemm", 0 },
        { "matmul of a batch stays", "x : 2,2,3\nw = [3,4]\nb = [4]\na = MatMul(x, w)\ny = Add(b, a)\n-> y",
          "MatMul Add", 0 },
        { "transposed operands",
          "x : 3,2\nz : 4,3\na = Transpose(x) perm=1,0\nb = Transpose(z) perm=1,0\n"
          "y = MatMul(a, b)\n-> y",
          "Gemm", 0 },
        { "transpose into gemm", "x : 3,2\nz : 4,3\na = Transpose(x) perm=1,0\ny = Gemm(a, z) transB=1 alpha=0.5\n-> y",
          "Gemm", 0 },
        { "gemm and sum", "x : 2,3\nw = [3,4]\nb = [2,4]\na = Gemm(x, w) alpha=0.5\ny = Add(a, b)\n-> y", "Gemm", 0 },
        { "queries, keys, values",
          "x : 1,3,4\na = [4,4]\nb = [4,4]\nc = [4,6]\nd = [4]\ne = [4]\nf = [6]\n"
          "g = MatMul(x, a)\nh = MatMul(x, b)\ni = MatMul(x, c)\nj = Add(d, g)\n"
          "k = Add(h, e)\nl = Add(i, f)\nm = Neg(j)\nn = Abs(k)\no = Exp(l)\n-> m, n, o",
          "MatMul Add Split Neg Abs Exp", 0 },
        { "products without biases",
          "x : 2,4\na = [4,5]\nb = [4,3]\ng = MatMul(x, a)\nh = MatMul(x, b)\nm = Neg(g)\n"
          "n = Abs(h)\no = Relu(h)\n-> m, n, o",
          "MatMul Split Neg Abs Relu", 0 },
        { "products of others",
          "x : 2,4\nz : 2,4\na = [4,5]\nb = [4,3]\ng = MatMul(x, a)\nh = MatMul(z, b)\n"
          "m = Neg(g)\nn = Abs(h)\n-> m, n",
          "MatMul MatMul Neg Abs", 0 },
        { "matrix multiplications with many rows",
          "x : 1,32,4\na = [4,5]\nb = [4,3]\ng = MatMul(x, a)\nh = MatMul(x, b)\n"
          "m = Neg(g)\nn = Abs(h)\n-> m, n",
          "MatMul MatMul Neg Abs", 0 },
        { "matrix multiplications with an unknown number of rows",
          "x : 1,S,4\na = [4,5]\nb = [4,3]\ng = MatMul(x, a)\n"
          "h = MatMul(x, b)\nm = Neg(g)\nn = Abs(h)\n-> m, n",
          "MatMul MatMul Neg Abs", 0 },
        { "matrix multiplications, one an output",
          "x : 2,4\na = [4,5]\nb = [4,3]\ng = MatMul(x, a)\nh = MatMul(x, b)\nm = Neg(g)\n-> m, h", "MatMul MatMul Neg",
          0 },
        { "matrix multiplications, one with a bias",
          "x : 2,4\na = [4,5]\nb = [4,3]\nc = [3]\ng = MatMul(x, a)\nh = MatMul(x, b)\n"
          "i = Add(h, c)\nm = Neg(g)\nn = Abs(i)\n-> m, n",
          "MatMul Gemm Neg Abs", 0 },
        { "a sum that broadcasts the product", "x : 1,3\nw = [3,4]\nb = [2,4]\na = MatMul(x, w)\ny = Add(a, b)\n-> y",
          "MatMul Add", 0 },
    };

    (void)state;
    CHECK_ROWS(rows);
}

/* Two slices of one axis with random bounds and steps, including sizes of 0. */
static void slices(void **state)
{
    static const int64_t far[] = { INT64_MIN, INT64_MAX, INT64_MIN + 1, -1000, 1000 };
    uint64_t seed = 11;

    (void)state;
    for (int round = 0; round < 400; round++) {
        char script[512];
        int64_t b[2][3];
        struct row row = { "random slices", script, NULL, 0 };

        for (int i = 0; i < 2; i++) {
            for (int k = 0; k < 2; k++)
                b[i][k] = random_unit(&seed) < 0.2f ? far[random_below(&seed, 5)] : random_between(&seed, -12, 11);
            b[i][2] = random_between(&seed, -3, 3);
            b[i][2] = b[i][2] == 0 ? 1 : b[i][2];
        }
        (void)snprintf(script, sizeof script,
                       "x : %d,2\na0 = i[1] 0\ns0 = i[1] %lld\ne0 = i[1] %lld\nt0 = i[1] %lld\ns1 = i[1] %lld\n"
                       "e1 = i[1] %lld\nt1 = i[1] %lld\nv = Slice(x, s0, e0, a0, t0)\ny = Slice(v, s1, e1, a0, t1)\n"
                       "-> y",
                       round % 11, (long long)b[0][0], (long long)b[0][1], (long long)b[0][2], (long long)b[1][0],
                       (long long)b[1][1], (long long)b[1][2]);
        check_row(&row);
    }
}

/* Values that are too large to fold are computed once if a chain of them ends in a small value, or if a run reads them.
 * */
static void large_constants(void **state)
{
    static const struct row rows[] = {
        { "a chain that ends small",
          "x : 4\nk = [1] 2.5\ns = i[2] 40,50\ne = Expand(k, s)\nn = Neg(e)\nr = ReduceSum(n) keepdims=0\n"
          "y = Add(x, r)\n-> y",
          "Add", 0 },
        { "a part of a mask, by sizes of a run",
          "x : N,N\ns = i[2] 40,40\nk = i[] 1\no = ConstantOfShape(s) value=#2.0\nt = Trilu(o, k) upper=1\n"
          "n = Shape(x) start=0 end=1\nz = i[1] 0\na = i[1] 0\nb = i[1] 1\np = Slice(t, z, n, a)\n"
          "q = Slice(p, z, n, b)\ny = Add(x, q)\n-> y",
          "Shape Slice Slice Add", 0 },
        { "a view of a temporary value",
          "x : 2000\nk = [1] 2.5\ns = i[2] 40,50\nf = i[1] -1\ne = Expand(k, s)\nr = Reshape(e, f)\n"
          "y = Add(x, r)\n-> y",
          "Add", 0 },
        { "a value with two readers in the chain",
          "x : 4\nk = [1] 2.5\ns = i[2] 40,50\ne = Expand(k, s)\nn = Neg(e)\nm = Mul(n, e)\n"
          "r = ReduceSum(m) keepdims=0\ny = Add(x, r)\n-> y",
          "Add", 0 },
        { "as much as one large value",
          "x : 40,50\nk = [1] 2.5\nl = [50]\ns = i[2] 40,50\ne = Expand(k, s)\nf = Expand(l, s)\n"
          "p = Add(x, e)\nn = Relu(p)\ny = Mul(n, f)\n-> y",
          "Expand Add Relu Mul", 0 },
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        check_row_with(&rows[i], (const char *const[]){ "fold_max_bytes", "1024", NULL });
}

/* Temporary values of a chain share memory with the results of nodes that read them last; random graphs of values that
 * are read once, twice, by one node and by several. */
static void large_constants_in_place(void **state)
{
    static const char *const operators[] = {
        "Neg(v%d)",       "Abs(v%d)",           "Trilu(v%d, k) upper=0",  "Mul(v%d, row)",
        "Max(v%d, v%d)",  "Add(v%d, v%d)",      "Sub(v%d, v%d)",          "Mul(half, v%d)",
        "Min(v%d, half)", "Where(c, v%d, v%d)", "Transpose(v%d) perm=1,0"
    };
    uint64_t seed = 5;

    (void)state;
    for (int round = 0; round < 150; round++) {
        char script[2048];
        struct row row = { "random chains", script, "Add", 0 };
        const int count = (int)random_between(&seed, 2, 9);
        size_t n = (size_t)snprintf(script, sizeof script,
                                    "x : 2\ncol = [80,1]\nrow = [80]\nhalf = [] 0.75\nk = i[] 0\ns = i[2] 80,80\n"
                                    "c = GreaterOrEqual(col, row)\nv0 = Expand(col, s)\nv1 = Expand(row, s)\n");

        for (int i = 2; i <= count; i++) {
            const int a = (int)random_between(&seed, i > 4 ? i - 4 : 0, i - 1),
                      b = (int)random_between(&seed, 0, i - 1);

            n += (size_t)snprintf(script + n, sizeof script - n, "v%d = ", i);
            n += (size_t)snprintf(script + n, sizeof script - n, operators[random_below(&seed, 11)], a, b);
            n += (size_t)snprintf(script + n, sizeof script - n, "\n");
        }
        n += (size_t)snprintf(script + n, sizeof script - n, "r = ReduceMean(v%d) keepdims=0\ny = Add(x, r)\n-> y",
                              count);
        assert_true(n < sizeof script);
        check_row_with(&row, (const char *const[]){ "fold_max_bytes", "1024", NULL });
    }
}

static void einsums(void **state)
{
    static const struct row rows[] = {
        { "a product", "x : 2,3,4\nz : 2,4,5\ny = Einsum(x, z) equation=bij,bjk->bik\n-> y", "MatMul", 0 },
        { "transposed", "x : 2,3,4\nz : 2,5,4\ny = Einsum(x, z) equation=bij,bkj->bik\n-> y", "Transpose MatMul", 0 },
        { "the other way round", "x : 2,3,4\nz : 2,4,5\ny = Einsum(x, z) equation=bij,bjk->bki\n-> y",
          "Transpose Transpose MatMul", 0 },
        { "axes as attributes", "x : 2,3\nz : 2,3,5\ny = Einsum(x, z) equation=bj,bjk->bk\n-> y",
          "Unsqueeze MatMul Squeeze", 12 },
        { "matrices and vectors", "x : 2,3,4\nz : 4,2\ny = Einsum(x, z) equation=bij,jb->bi\n-> y",
          "Transpose Unsqueeze MatMul Squeeze", 0 },
        { "heads", "x : N,S,6\nw = [6,2,3]\ny = Einsum(x, w) equation=abc,cde->abde\n-> y", "MatMul Reshape", 0 },
        { "heads that stand first", "x : 2,5,6\nw = [2,6,3]\ny = Einsum(x, w) equation=bnd,hdk->bhnk\n-> y",
          "MatMul Reshape Transpose", 0 },
        { "heads that are summed", "x : N,S,2,3\nw = [2,3,6]\ny = Einsum(x, w) equation=abcd,cde->abe\n-> y",
          "Reshape MatMul", 0 },
        { "scores", "x : N,S,2,4\nz : N,S,2,4\ny = Einsum(x, z) equation=aecd,abcd->acbe\n-> y",
          "Transpose Transpose MatMul", 0 },
        { "weighted values", "x : N,2,S,S\nz : N,S,2,4\ny = Einsum(x, z) equation=acbe,aecd->abcd\n-> y",
          "Transpose MatMul Transpose", 0 },
        { "rows of a batch", "x : 2,3,5,4\nz : 2,4,6\ny = Einsum(x, z) equation=bijk,bkl->bijl\n-> y",
          "Reshape MatMul Reshape", 0 },
        { "channels", "w = [4,3]\nx : N,3,T\ny = Einsum(w, x) equation=oi,bit->bot\n-> y", "MatMul", 0 },
        { "outer product", "x : N,3,4\nz : N,3,5\ny = Einsum(x, z) equation=bnd,bne->bnde\n-> y",
          "Unsqueeze Unsqueeze Mul", 0 },
        { "inner product", "x : N,3,4\nz : 4,3,N\ny = Einsum(x, z) equation=bnd,dnb->bn\n-> y",
          "Transpose Mul ReduceSum", 0 },
        { "a single number", "x : 3,4\nz : 3,4\ny = Einsum(x, z) equation=ij,ij->\n-> y", "Mul ReduceSum", 0 },
        { "three operands", "x : 2,3,4\nw = [4,4]\nz : 2,5,4\ny = Einsum(x, w, z) equation=bij,jk,blk->bil\n-> y",
          "MatMul Transpose MatMul", 0 },
        { "one operand", "x : N,3,4\ny = Einsum(x) equation=bnd->db\n-> y", "ReduceSum Transpose", 0 },
        { "one operand as it is", "x : N,3\na = Einsum(x) equation=bn->bn\ny = Neg(a)\n-> y", "Neg", 0 },
        { "sizes that are not known to be equal", "x : N,3\nz : M,3\ny = Einsum(x, z) equation=ij,ij->ij\n-> y",
          "Einsum", 0 },
        { "a sum over one operand", "x : 2,3\nz : 3,4\ny = Einsum(x, z) equation=ij,jk->k\n-> y", "Einsum", 0 },
        { "a sum over each operand", "x : 2,3\nz : 4,5\ny = Einsum(x, z) equation=ij,kl->il\n-> y", "Einsum", 0 },
        { "a diagonal", "x : 3,3\nz : 3,4\ny = Einsum(x, z) equation=ii,ij->j\n-> y", "Einsum", 0 },
        { "groups of unknown sizes", "x : B,N,S,4\nz : B,4,6\ny = Einsum(x, z) equation=bijk,bkl->bijl\n-> y", "Einsum",
          0 },
    };

    (void)state;
    CHECK_ROWS(rows);
}

/* A number of rewrites in one graph that exceeds the initial capacity for values. */
static void many(void **state)
{
    static char script[65536], ops[8192], line[512];
    struct row row = { "a hundred groups of matrix multiplications", script, ops, 0 };

    (void)state;
    (void)strcpy(script, "x0 : 2,4\n");
    for (int i = 0; i < 100; i++) {
        (void)snprintf(line, sizeof line,
                       "a%d = [4,4]\nb%d = [4,4]\ng%d = MatMul(x%d, a%d)\nh%d = MatMul(x%d, b%d)\n"
                       "j%d = Tanh(h%d)\nk%d = Add(g%d, j%d)\nx%d = Tanh(k%d)\n",
                       i, i, i, i, i, i, i, i, i, i, i, i, i, i + 1, i);
        (void)strcat(script, line);
        (void)strcat(ops, "MatMul Split Tanh Add Tanh ");
    }
    (void)strcat(script, "-> x100\n");
    ops[strlen(ops) - 1] = '\0';
    check_row(&row);
}

/* More values in one pass than the initial capacity of its arrays. */
static void many_values(void **state)
{
    static char script[4096], ops[512];
    struct row row = { "divisors", script, ops, 0 };
    size_t n = (size_t)snprintf(script, sizeof script, "x : 2\n"), used = 0;

    (void)state;
    for (int i = 1; i <= 70; i++) {
        n += (size_t)snprintf(script + n, sizeof script - n, "c%d = [] 0x1p%d\ny%d = Div(x, c%d)\n", i, i, i, i);
        used += (size_t)snprintf(ops + used, sizeof ops - used, "%sMul", i > 1 ? " " : "");
    }
    n += (size_t)snprintf(script + n, sizeof script - n, "-> y1");
    for (int i = 2; i <= 70; i++)
        n += (size_t)snprintf(script + n, sizeof script - n, ", y%d", i);
    assert_true(n < sizeof script && used < sizeof ops);
    check_row(&row);
}

/* A folded constant may exceed its inputs by the size that the option sets, or be the largest. Low-bit constants become
 * floats if no provider reads them packed. */
static void sizes_of_constants(void **state)
{
    static const struct row rows[] = {
        { "Expand that repeats", "x : 4,4,64\nc = [4,64]\ns = i[3] 4,4,64\na = Expand(c, s)\ny = Add(x, a)\n-> y",
          "Add", 0 },
        { "Expand that adds an axis", "x : 4,64\nc = [4,64]\ns = i[3] 1,4,64\na = Expand(c, s)\ny = Add(x, a)\n-> y",
          "Add", 0 },
        { "Tile", "x : 16,64\nc = [4,64]\ns = i[2] 4,1\na = Tile(c, s)\ny = Add(x, a)\n-> y", "Add", 0 },
        { "sums", "x : 4,64\nb = [4,64]\nc = [4,64]\na = Sub(b, c)\ny = Add(x, a)\n-> y", "Add", 0 },
        { "floats of bytes", "x : 16,64\nb = [16,64]\nq = Cast(b) to=3\nf = Cast(q) to=1\ny = Add(x, f)\n-> y", "Add",
          0 },
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        check_row_with(&rows[i], (const char *const[]){ "fold_max_bytes", "1024", NULL });
}

static void requested_passes(void **state)
{
    static const char script[] = "x : 2,8\na = Relu(x)\nb = Relu(a)\nc = Sigmoid(b)\ny = Mul(b, c)\n-> y";
    static const struct {
        const char *options[8];
        const char *ops;
    } rows[] = {
        { { "level", "0", NULL }, "Relu Relu Sigmoid Mul" },
        { { "level", "1", NULL }, "Relu Sigmoid Mul" },
        { { "level", "2", NULL }, "Relu Swish" },
        { { "no_pass", "swish", NULL }, "Relu Sigmoid Mul" },
        { { "pass", "swish", NULL }, "Relu Relu Swish" },
        { { "rewrite_limit", "1", NULL }, "Relu Sigmoid Mul" },
    };
    static const struct row asked = { "matrix multiplications with many rows, by name",
                                      "x : 1,N,4\na = [4,5]\nb = [4,3]\ng = MatMul(x, a)\nh = MatMul(x, b)\n"
                                      "m = Neg(g)\nn = Abs(h)\n-> m, n",
                                      "MatMul Split Neg Abs", 0 };
    inlay_diag diag = INLAY_DIAG_INIT;
    struct wire wire = { 0 };
    struct rig rig;

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char ops[256];

        script_model(&wire, 17, script);
        rig = rig_open(&wire, rows[i].options);
        list_ops(rig.session->model->main, ops, sizeof ops);
        assert_string_equal(ops, rows[i].ops);
        rig_close(&rig);
    }
    check_row_with(&asked, (const char *const[]){ "pass", "merge_products", NULL });
    script_model(&wire, 17, script);
    assert_int_equal(rig_try_open(&wire, (const char *const[]){ "no_pass", "swich", NULL }, &rig, &diag),
                     INLAY_INVALID_ARGUMENT);
    assert_non_null(strstr(diag.text, "did you mean 'swish'"));
    wire_deinit(&rig.model);
}

/* Must be last: every pass of these levels has a row. Constants occur in every row, captures in random_graphs; loops
 * are in test_unroll.c, integers in test_integers.c, bodies of ONNX Runtime's searches and of FlexAttention in
 * tests/ops/compat, sparse matrices in tests/quantize. */
static void every_pass_has_rows(void **state)
{
    (void)state;
    rows_expect_passes(
        0, 1,
        " constant_nodes capture_constants unroll quantized_ops quantized_functions contributed fold_weights "
        "float_activations reduced_products gather_weights searches flex_attention sparse_constants "
        "block_constants ");
}

/* Constants that are slices or reshapes of others share their memory. */
static void pieces_of_constants(void **state)
{
    static const struct row rows[] = {
        { "a piece ahead", "x : 4,3\nc = [6,3]\nb = i[1] 0\ne = i[1] 4\na = Slice(c, b, e)\ny = Add(x, a)\n-> y", "Add",
          0 },
        { "a piece from behind",
          "x : 1,2,3\nc = [1,6,3]\nb = i[1] -3\ne = i[1] -1\nd = i[1] -2\na = Slice(c, b, e, d)\n"
          "y = Add(x, a)\n-> y",
          "Add", 0 },
        { "beyond both ends",
          "x : 6,3\nc = [6,3]\nb = i[1] -100\ne = i[1] 100\nd = i[1] 0\na = Slice(c, b, e, d)\n"
          "y = Add(x, a)\n-> y",
          "Add", 0 },
        { "columns",
          "x : 6,2\nc = [6,3]\nb = i[1] 1\ne = i[1] 3\nd = i[1] 1\na = Slice(c, b, e, d)\ny = Add(x, a)\n"
          "-> y",
          "Add", 0 },
        { "two axes",
          "x : 2,2\nc = [6,3]\nb = i[2] 1,2\ne = i[2] 3,4\nd = i[2] 1,0\na = Slice(c, b, e, d)\n"
          "y = Add(x, a)\n-> y",
          "Add", 0 },
        { "one axis of two",
          "x : 2,3\nc = [6,3]\nb = i[2] 0,3\ne = i[2] 3,5\nd = i[2] 1,0\na = Slice(c, b, e, d)\n"
          "y = Add(x, a)\n-> y",
          "Add", 0 },
        { "backwards",
          "x : 6,3\nc = [6,3]\nb = i[1] 5\ne = i[1] -7\nd = i[1] 0\ns = i[1] -1\na = Slice(c, b, e, d, s)\n"
          "y = Add(x, a)\n-> y",
          "Add", 0 },
        { "every second",
          "x : 3,3\nc = [6,3]\nb = i[1] 1\ne = i[1] 6\nd = i[1] 0\ns = i[1] 2\na = Slice(c, b, e, d, s)\n"
          "y = Add(x, a)\n-> y",
          "Add", 0 },
        { "pieces in another order",
          "x : 1,4,2\nc = [1,4,2]\nb = i[1] 2\ne = i[1] 4\nd = i[1] 1\nf = i[1] 0\np = Slice(c, b, e, d)\n"
          "q = Slice(c, f, b, d)\na = Concat(p, q) axis=1\ny = Add(x, a)\n-> y",
          "Add", 0 },
        { "another shape of a piece",
          "x : 2,3\nc = [4,3]\nb = i[1] 2\ne = i[1] 4\np = Slice(c, b, e)\ns = i[1] 6\nq = Reshape(p, s)\n"
          "t = i[2] 2,-1\na = Reshape(q, t)\ny = Add(x, a)\n-> y",
          "Add", 0 },
    };

    (void)state;
    for (uint32_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        check_row(&rows[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_of_constants),
        cmocka_unit_test(no_ops),
        cmocka_unit_test(algebra),
        cmocka_unit_test(repeated_work),
        cmocka_unit_test(sequences),
        cmocka_unit_test(large_constants),
        cmocka_unit_test(large_constants_in_place),
        cmocka_unit_test(einsums),
        cmocka_unit_test(repeated_bodies),
        cmocka_unit_test(merged),
        cmocka_unit_test(convolutions),
        cmocka_unit_test(products),
        cmocka_unit_test(slices),
        cmocka_unit_test(many),
        cmocka_unit_test(many_values),
        cmocka_unit_test(sizes_of_constants),
        cmocka_unit_test(requested_passes),
        cmocka_unit_test(every_pass_has_rows),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
