/* Option last_logits: the last rows of the logits are those of a run that computes all of them. */
#include "graph_script.h"
#include "session/session.h"

enum { BATCH = 2, TOKENS = 5, WIDTH = 8, WORDS = 6 };

#define BEGIN                                                                                                          \
    "h : B,S,8\npast_0 : B,P,8\npresent_0 = Concat(past_0, h) axis=1\nx = Relu(h)\nw = [8,6]\nb = [6]\nc = [1,1,1] "   \
    "30.0\n"

static void open_model(const char *text, const char *wanted, struct rig *out)
{
    const char *options[] = { "providers", "reference", "last_logits", wanted, NULL };
    inlay_diag diag = INLAY_DIAG_INIT;
    struct wire wire = { 0 };

    script_model(&wire, 23, text);
    if (rig_try_open(&wire, options, out, &diag) != INLAY_OK)
        fail_msg("%s", diag.text);
}

static void bind_zeros(struct rig *rig, uint32_t input, inlay_dtype dtype, uint32_t rank, const int64_t *dims)
{
    inlay_value *value = NULL;

    assert_int_equal(inlay_value_create(dtype, rank, dims, &value, NULL), INLAY_OK);
    rig_bind(rig, input, value);
}

static void bind_hidden(struct rig *rig)
{
    const int64_t dims[] = { BATCH, TOKENS, WIDTH };
    inlay_value *value = NULL;
    uint64_t seed = 7;

    assert_int_equal(inlay_value_create(INLAY_FLOAT, 3, dims, &value, NULL), INLAY_OK);
    for (int k = 0; k < BATCH * TOKENS * WIDTH; k++)
        ((float *)inlay_value_data(value))[k] = random_signed(&seed);
    rig_bind(rig, 0, value);
    bind_zeros(rig, 1, INLAY_FLOAT, 3, (const int64_t[]){ BATCH, 3, WIDTH });
}

/* Runs the last model for its last `count` tokens, 0 for all, and compares the rows with `all`. */
static void check_rows(struct rig *rig, int64_t count, const float *all)
{
    const int64_t rows = count == 0 || count > TOKENS ? TOKENS : count;
    const inlay_value *logits;

    bind_zeros(rig, 2, INLAY_INT64, 1, &count);
    rig_run(rig);
    logits = inlay_context_output(rig->context, 0);
    assert_int_equal(inlay_value_dims(logits)[1], rows);
    for (int64_t k = 0; k < BATCH * rows * WORDS; k++) {
        const int64_t row = k / WORDS / rows * TOKENS + TOKENS - rows + k / WORDS % rows;

        assert_true(fabsf(((const float *)inlay_value_data(logits))[k] - all[row * WORDS + k % WORDS]) <= 1e-5f);
    }
}

static void same_rows(void **state)
{
    static const char *const forms[] = {
        BEGIN "logits = MatMul(x, w)\n-> logits : B,S,6\n-> present_0",
        BEGIN "p = MatMul(x, w)\nlogits = Add(b, p)\n-> logits, present_0",
        BEGIN "p = MatMul(x, w)\nd = Div(p, c)\nt = Tanh(d)\nlogits = Mul(t, c)\n-> logits : B,S,6\n-> present_0",
        BEGIN "t = Transpose(w) perm=1,0\nv = Transpose(t) perm=1,0\nlogits = MatMul(x, v)\n-> logits, present_0",
        BEGIN "q, s, z = DynamicQuantizeLinear(x)\nqw = uint8[8,6] "
              "1,2,3,4,5,6,7,8,9,1,2,3,4,5,6,7,8,9,1,2,3,4,5,6,7,8,9,1,2,3,4,5,6,7,8,9,1,2,3,4,5,6,7,8,9,1,2,3\n"
              "i = MatMulInteger(q, qw, z)\nf = Cast(i) to=1\nlogits = Mul(f, s)\n-> logits, present_0",
    };

    (void)state;
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        struct rig plain, rig;
        const float *all;

        open_model(forms[i], "0", &plain);
        open_model(forms[i], "1", &rig);
        assert_int_equal(inlay_session_input_count(plain.session), 2);
        assert_int_equal(inlay_session_find_input(rig.session, "last_logits"), 2);
        bind_hidden(&plain);
        bind_hidden(&rig);
        rig_run(&plain);
        all = inlay_value_data(inlay_context_output(plain.context, 0));
        rig_run(&rig); /* all tokens are the default */
        assert_memory_equal(inlay_value_data(inlay_context_output(rig.context, 0)), all,
                            BATCH * TOKENS * WORDS * sizeof *all);
        for (int64_t count = 0; count <= TOKENS + 1; count++)
            check_rows(&rig, count, all);
        rig_close(&plain);
        rig_close(&rig);
    }
}

/* Models that the option does not change. */
static void unchanged(void **state)
{
    static const char *const forms[] = {
        /* no states */
        "h : B,S,8\npast_0 : B,P,8\nw = [8,6]\nx = Relu(h)\nlogits = MatMul(x, w)\ny = Abs(past_0)\n-> logits, y",
        /* the logits of one token need others */
        BEGIN "p = MatMul(x, w)\nlogits = Softmax(p) axis=1\n-> logits, present_0",
        BEGIN "p = MatMul(x, w)\nlogits = Mul(p, p)\n-> logits, present_0",
        /* the product is read twice */
        BEGIN "p = MatMul(x, w)\nlogits = Tanh(p)\ny = Abs(p)\n-> logits, present_0, y",
        /* a matrix for each text */
        BEGIN "v : B,8,6\nlogits = MatMul(x, v)\n-> logits, present_0",
        /* rank 2 */
        ("h : S,8\npast_0 : P,8\npresent_0 = Concat(past_0, h) axis=0\nw = [8,6]\n"
         "logits = MatMul(h, w)\n-> logits, present_0"),
    };

    (void)state;
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        struct rig rig;

        open_model(forms[i], "1", &rig);
        if (inlay_session_find_input(rig.session, "last_logits") != INLAY_NONE)
            fail_msg("form %zu was changed", i);
        rig_close(&rig);
    }
}

/* A session for one token of one text has the input, too. */
static void one_token(void **state)
{
    struct rig rig;

    (void)state;
    open_model(
        "h : 1,1,8\npast_0 : 1,P,8\npresent_0 = Concat(past_0, h) axis=1\nx = Relu(h)\nw = [8,6]\nc = [1,1,1] 30.0\n"
        "p = MatMul(x, w)\nd = Div(p, c)\nt = Tanh(d)\nlogits = Mul(t, c)\n-> logits, present_0",
        "1", &rig);
    assert_int_equal(inlay_session_find_input(rig.session, "last_logits"), 2);
    rig_close(&rig);
}

/* The new input replaces one with the number of tokens. */
static void number_of_tokens(void **state)
{
    static const char *const forms[][2] = {
        { "num_logits_to_keep : int64 -", "first = Unsqueeze(less, zero)" },
        { "num_logits_to_keep : int64 1", "first = Identity(less)" },
    };

    (void)state;
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        char script[512];
        struct rig plain, rig;
        const float *all;

        (void)snprintf(script, sizeof script,
                       "%s\n" BEGIN "less = Neg(num_logits_to_keep)\nzero = i[1] 0\none = i[1] 1\n"
                       "end = i[1] 9223372036854775807\n%s\nr = Slice(x, first, end, one)\nlogits = MatMul(r, w)\n"
                       "-> logits : B,S,6\n-> present_0",
                       forms[i][0], forms[i][1]);
        open_model(script, "0", &rig);
        assert_int_equal(inlay_session_find_input(rig.session, "num_logits_to_keep"), 0);
        rig_close(&rig);
        open_model(BEGIN "logits = MatMul(x, w)\n-> logits, present_0", "0", &plain);
        open_model(script, "1", &rig);
        assert_int_equal(inlay_session_find_input(rig.session, "num_logits_to_keep"), INLAY_NONE);
        assert_int_equal(inlay_session_find_input(rig.session, "last_logits"), 2);
        bind_hidden(&plain);
        bind_hidden(&rig);
        rig_run(&plain);
        all = inlay_value_data(inlay_context_output(plain.context, 0));
        for (int64_t count = 0; count <= TOKENS + 1; count++)
            check_rows(&rig, count, all);
        rig_close(&plain);
        rig_close(&rig);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(same_rows), cmocka_unit_test(unchanged),
                                        cmocka_unit_test(one_token), cmocka_unit_test(number_of_tokens) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
