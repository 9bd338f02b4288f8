/* Option check_finite: a run fails at the first node that makes a NaN or an infinity, on every CPU provider, and only
 * there. */
#include "cmocka_all.h"
#include "graph_script.h"

enum { SIZE = 6 };

static const struct {
    const char *script;
    float input[SIZE];
    const char *node;     /* the output that names the node in the message; NULL: the run succeeds */
    const char *words[3]; /* parts of the message */
} rows[] = {
    /* all values are finite */
    { "x : 2,3\ny = Exp(x)\nz = Relu(y)\n-> z", { 1, 2, 3, -4, 5, 6 }, NULL, { NULL } },
    /* the first of several nodes, not the last one that has the NaN */
    { "x : 2,3\ny = Relu(x)\nz = Sub(y, x)\nw = Sqrt(x)\nv = Add(w, z)\n-> v",
      { 1, 2, 3, 4, -5, 6 },
      "w",
      { "made the first NaN at [1, 1] of output 'w' float[2,3]", "'x' float[2,3] of -5 to 6", NULL } },
    { "x : 2,3\ny = Log(x)\nz = Add(y, x)\n-> z",
      { 1, 2, 0, 4, 5, 6 },
      "y",
      { "the first infinity at [0, 2]", "of 0 to 6", NULL } },
    /* both operands of a node that divides */
    { "x : 2,3\nc = [3] 1,0,2\ny = Neg(x)\nz = Div(y, c)\n-> z",
      { 1, 2, 3, 4, 5, 6 },
      "z",
      { "the first infinity at [0, 1]", "'y' float[2,3] of -6 to -1", "'c' float[3] of 0 to 2" } },
    /* a mask of infinities is no finding; a row that is masked completely is */
    { "x : 2,3\nm = [3] 0,-inf,0\ny = Add(x, m)\nz = Softmax(y)\n-> z", { 1, 2, 3, 4, 5, 6 }, NULL, { NULL } },
    { "x : 2,3\nm = [3] -inf,-inf,-inf\ny = Add(x, m)\nz = Sub(y, y)\n-> z",
      { 1, 2, 3, 4, 5, 6 },
      "z",
      { "the first NaN at [0, 0]", "'y' float[2,3] of infinity", NULL } },
    /* a NaN of an input and of a constant is found where it is first read */
    { "x : 2,3\ny = Identity(x)\nz = Exp(x)\n-> z", { 1, 2, 3, 4, 5, NAN }, "z", { "[1, 2]", "and NaN", NULL } },
    { "x : 2,3\nc = [3] @1 nan\ny = Mul(x, c)\n-> y",
      { 1, 2, 3, 4, 5, 6 },
      "y",
      { "the first NaN at [0, 1]", "'c' float[3] of", "and NaN" } },
    /* views have no step of their own */
    { "x : 2,3\ns = i[1] 6\ny = Abs(x)\nr = Reshape(y, s)\nz = Exp(r)\n-> z",
      { 1, 2, 3, 4, INFINITY, 6 },
      NULL,
      { NULL } },
    { "x : 2,3\ns = i[1] 6\nr = Reshape(x, s)\nz = Exp(r)\n-> z",
      { 1, 2, 3, 4, NAN, 6 },
      "z",
      { "[4]", "and NaN", NULL } },
    /* a narrower type overflows */
    { "x : 2,3\ny = Cast(x) to=10\nz = Cast(y) to=1\n-> z",
      { 1, 2, 3, 4, 70000, 6 },
      "y",
      { "the first infinity at [1, 1] of output 'y' float16[2,3]", NULL } },
    { "x : 2,3\ny = Cast(x) to=11\nz = Sqrt(y)\nw = Cast(z) to=1\n-> w",
      { 1, 2, 3, -4, 5, 6 },
      "z",
      { "the first NaN at [1, 0] of output 'z' double[2,3]", NULL } },
    /* within a branch, and after it */
    { "x : 2,3\nc = bool[] 1\nd = Not(c)\ny = If(c) then:Sqrt(x) else:Neg(x)\nz = Abs(y)\n-> z",
      { 1, 2, 3, -4, 5, 6 },
      "",
      { "Sqrt", "the first NaN at [1, 0]", NULL } },
};

/* Runs the script; returns the status. */
static inlay_status run_row(size_t row, const char *providers, const char *check, const char *level, inlay_diag *diag)
{
    const char *const options[] = { "providers", providers, "check_finite", check, "level", level, NULL };
    struct wire wire = { 0 };
    struct rig rig;
    inlay_status status;

    script_model(&wire, 21, rows[row].script);
    rig = rig_open(&wire, options);
    rig_floats(&rig, 0, "2,3", rows[row].input);
    status = inlay_context_run(rig.context, NULL, diag);
    if (status == INLAY_OK) /* a second run begins with no knowledge of the first one */
        status = inlay_context_run(rig.context, NULL, diag);
    rig_close(&rig);
    return status;
}

static void finds_first_node(void **state)
{
    static const char *const providers[] = { "reference", "cpu,reference" }, *const levels[] = { "0", "99" };

    (void)state;
    for (size_t row = 0; row < sizeof rows / sizeof *rows; row++)
        for (size_t k = 0; k < 4; k++) {
            inlay_diag diag = INLAY_DIAG_INIT;
            const inlay_status status = run_row(row, providers[k / 2], "1", levels[k % 2], &diag);

            if (rows[row].node == NULL && status != INLAY_OK)
                fail_msg("row %zu on %s: %s", row, providers[k / 2], diag.text);
            if (rows[row].node == NULL)
                continue;
            if (status != INLAY_RESULTS_DIFFER)
                fail_msg("row %zu on %s, level %s: status %d, %s", row, providers[k / 2], levels[k % 2], (int)status,
                         diag.text);
            if (rows[row].node[0] != '\0')
                assert_string_equal(diag.tensor, rows[row].node);
            for (size_t word = 0; word < 3 && rows[row].words[word] != NULL; word++)
                if (strstr(diag.text, rows[row].words[word]) == NULL)
                    fail_msg("row %zu on %s, level %s: no \"%s\" in: %s", row, providers[k / 2], levels[k % 2],
                             rows[row].words[word], diag.text);
        }
}

static void is_off_by_default(void **state)
{
    (void)state;
    for (size_t row = 0; row < sizeof rows / sizeof *rows; row++) {
        inlay_diag diag = INLAY_DIAG_INIT;

        if (run_row(row, "cpu,reference", "0", "99", &diag) != INLAY_OK)
            fail_msg("row %zu: %s", row, diag.text);
    }
}

/* Elements at all places of a value of many elements, so that the vector loop and its rest are both used, at each of
 * its levels. */
static void find_every_place(const char *isa)
{
    enum { MANY = 70 };
    const char *const options[] = { "providers", "reference", "check_finite", "1", "level", "0", "isa", isa, NULL };
    const float values[] = { NAN, -NAN, INFINITY, -INFINITY };
    float input[MANY];
    struct wire wire = { 0 };
    struct rig rig;
    uint64_t seed = 3;

    script_model(&wire, 21, "x : 70\ny = Neg(x)\n-> y");
    rig = rig_open(&wire, options);
    for (size_t at = 0; at < MANY; at++)
        for (size_t k = 0; k < sizeof values / sizeof *values; k++) {
            inlay_diag diag = INLAY_DIAG_INIT;
            char place[16];
            inlay_status status;

            for (size_t i = 0; i < MANY; i++)
                input[i] = random_signed(&seed) * 1e38f;
            input[at] = values[k];
            rig_floats(&rig, 0, "70", input);
            status = inlay_context_run(rig.context, NULL, &diag);
            /* Neg makes no infinity; a NaN of the caller is found where it is read. */
            assert_int_equal(status, k < 2 ? INLAY_RESULTS_DIFFER : INLAY_OK);
            (void)snprintf(place, sizeof place, "at [%zu]", at);
            if (k < 2)
                assert_non_null(strstr(diag.text, place));
        }
    rig_close(&rig);
}

static void finds_every_place(void **state)
{
    (void)state;
    find_every_place("baseline");
    find_every_place("avx2");
    find_every_place("auto");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finds_first_node),
        cmocka_unit_test(is_off_by_default),
        cmocka_unit_test(finds_every_place),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
