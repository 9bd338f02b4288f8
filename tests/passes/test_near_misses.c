/* Patterns that nearly match: the pass leaves the graph as it is, and reports the condition that failed. */
#include "rewrite_rows.h"

/* A graph, and the reports of near misses about it: parts of their texts, each ended by '|'. */
struct near_row {
    const char *name;
    const char *script;
    const char *texts;
    int64_t opset; /* of the file that the model is written to; 0 = none */
};

struct reports {
    char texts[1024];
    uint32_t rewrites;
};

static void on_note(void *ctx, const char *pass, int64_t number, const struct graph *graph, const graph_node *node,
                    const char *text)
{
    struct reports *reports = ctx;
    const size_t used = strlen(reports->texts);

    (void)graph;
    reports->rewrites += number > 0;
    if (number > 0)
        return;
    assert_true(strcmp(pass, "attention") == 0 || strcmp(pass, "layer_norm") == 0);
    assert_non_null(node);
    (void)snprintf(reports->texts + used, sizeof reports->texts - used, "%s|", text);
}

/* Optimises the graph. ops[1024] receives the remaining operators. */
static struct reports optimise(const struct near_row *row, bool near_misses, const char *level, char *ops)
{
    struct reports reports = { .rewrites = 0 };
    const session_watch watch = {
        .note = on_note, .ctx = &reports, .near_misses = near_misses, .newest_opset = row->opset
    };
    session_source source = { .fd = -1 };
    inlay_options *options = NULL;
    inlay_session *session = NULL;
    inlay_diag diag = INLAY_DIAG_INIT;
    struct wire wire = { 0 };

    script_model(&wire, 17, row->script);
    source.data = wire.bytes;
    source.bytes = wire.count;
    assert_int_equal(inlay_options_create(&options, NULL), INLAY_OK);
    assert_int_equal(inlay_options_set(options, "providers", "reference", NULL), INLAY_OK);
    assert_int_equal(inlay_options_set(options, "level", level, NULL), INLAY_OK);
    if (session_prepare(&source, options, &watch, &session, &diag) != INLAY_OK)
        fail_msg("%s: %s", row->name, diag.text);
    list_ops(session->model->main, ops, 1024);
    inlay_session_destroy(session);
    inlay_options_destroy(options);
    wire_deinit(&wire);
    return reports;
}

/* Do the texts contain the parts, in their order, and as many? */
static bool agree(const char *texts, const char *parts)
{
    while (*parts != '\0' && *texts != '\0') {
        const size_t length = strcspn(parts, "|"), end = strcspn(texts, "|");
        const char *found = memmem(texts, end, parts, length);

        if (found == NULL)
            return false;
        parts += length + 1;
        texts += end + 1;
    }
    return *parts == *texts;
}

#define OPERANDS "q : 2,4,5,8\nk : 2,4,6,8\nv : 2,4,6,8\nc = [] 0.5\nz = [] 0\no = [] 1\n"
#define SCORES "t = Transpose(k) perm=0,1,3,2\ns = MatMul(q, t)\n"
#define WEIGHTS "p = Softmax(s) axis=-1\n"
#define NORM(axes, epsilon, factor)                                                                                    \
    "x : 2,3,8\nu : 2,3,8\n" epsilon "t = [] 2\np = Pow(x, t)\nv = ReduceMean(p) axes=" axes "\nw = Add(v, e)\n"       \
    "s = Sqrt(w)\ny = Div(" factor ", s)\n-> y"

static const struct near_row rows[] = {
    { "fused", OPERANDS SCORES WEIGHTS "y = MatMul(p, v)\n-> y", "", 0 },
    { "a file", OPERANDS SCORES WEIGHTS "y = MatMul(p, v)\n-> y", "no operator of ONNX|", 17 },
    { "weights that are read twice", OPERANDS SCORES WEIGHTS "y = MatMul(p, v)\nm = Neg(p)\n-> y, m",
      "its weights have another reader|", 0 },
    { "weights that are an output", OPERANDS SCORES WEIGHTS "y = MatMul(p, v)\n-> y, p",
      "its weights have another reader|", 0 },
    { "weights with a factor", OPERANDS SCORES WEIGHTS "m = Mul(p, c)\ny = MatMul(m, v)\n-> y",
      "its weights are changed|", 0 },
    { "a guard that gives ones", OPERANDS SCORES WEIGHTS "n = IsNaN(p)\nw = Where(n, o, p)\ny = MatMul(w, v)\n-> y",
      "its weights pass a Where|", 0 },
    { "another axis", OPERANDS SCORES "p = Softmax(s) axis=2\ny = MatMul(p, v)\n-> y",
      "Softmax is not over the last axis|", 0 },
    { "scores that are read twice", OPERANDS SCORES WEIGHTS "y = MatMul(p, v)\n-> y, s",
      "its scores have another reader|", 0 },
    { "scores that are bounded", OPERANDS SCORES "b = Tanh(s)\np = Softmax(b) axis=-1\ny = MatMul(p, v)\n-> y",
      "its scores are changed|", 0 },
    { "a mask of the queries",
      "m : 5,1\n" OPERANDS SCORES "b = Add(s, m)\np = Softmax(b) axis=-1\ny = MatMul(p, v)\n-> y",
      "a mask has no axis of keys|", 0 },
    { "a negative scale", OPERANDS SCORES "f = [] -0.5\nb = Mul(s, f)\np = Softmax(b) axis=-1\ny = MatMul(p, v)\n-> y",
      "its scale is not positive|", 0 },
    { "keys that are stored transposed",
      "q : 2,4,5,8\nt : 2,4,8,6\nv : 2,4,6,8\ns = MatMul(q, t)\n" WEIGHTS "y = MatMul(p, v)\n-> y",
      "the keys are not transposed|", 0 },
    { "keys of another batch", "q : N,4,5,8\nk : M,4,6,8\nv : M,4,6,8\n" SCORES WEIGHTS "y = MatMul(p, v)\n-> y",
      "not known to agree|", 0 },
    { "two attentions",
      OPERANDS SCORES WEIGHTS "y = MatMul(p, v)\nb = Tanh(s)\nr = Softmax(b) axis=-1\n"
                              "w = MatMul(r, v)\n-> y, w",
      "its scores have another reader|its scores are changed|", 0 },
    { "no attention: weights of a pool", "x : 2,5,8\nv : 2,8,3\np = Softmax(x) axis=-1\ny = MatMul(p, v)\n-> y", "",
      0 },
    { "norm", NORM("-1,", "e = [] 0.00001\n", "x"), "", 0 },
    { "norm over the first axis", NORM("0,", "e = [] 0.00001\n", "x"), "not over the last axes|", 0 },
    { "norm with several numbers", NORM("-1,", "e = [8]\n", "x"), "not one constant|", 0 },
    { "norm of another value", NORM("-1,", "e = [] 0.00001\n", "u"), "not that of the squares|", 0 },
    { "norm for an old file", NORM("-1,", "e = [] 0.00001\n", "x"), "the opset of the file|", 17 },
    { "no norm: a root", "x : 2,3\ny : 2,3\ns = Sqrt(x)\nz = Div(y, s)\n-> z", "", 0 },
};

static void near_misses(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char ops[1024], same[1024];
        const struct reports with = optimise(&rows[i], true, "2", ops), without = optimise(&rows[i], false, "2", same);

        if (!agree(with.texts, rows[i].texts))
            fail_msg("%s: reports '%s', not '%s'", rows[i].name, with.texts, rows[i].texts);
        assert_string_equal(ops, same); /* the reports change nothing */
        assert_int_equal(with.rewrites, without.rewrites);
        assert_string_equal(without.texts, "");
        assert_string_equal(optimise(&rows[i], true, "1", ops).texts, ""); /* these passes do not run there */
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(near_misses) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
