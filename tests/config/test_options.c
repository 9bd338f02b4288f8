/* Settings and what may replace them. */
#include "config/options.h"
#include "cmocka_all.h"

static inlay_options *make(void)
{
    inlay_options *options = NULL;

    assert_int_equal(inlay_options_create(&options, NULL), INLAY_OK);
    return options;
}

static void set(inlay_options *options, const char *name, const char *value, option_layer layer)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_status status = options_set_from(options, name, value, (option_source){ layer, "test" }, &diag);

    if (status != INLAY_OK)
        fail_msg("%s = %s: %s", name, value, diag.text);
}

static void has(const inlay_options *options, const char *name, const char *wanted)
{
    char text[256];

    assert_int_equal(inlay_options_get(options, name, text, sizeof text, NULL), INLAY_OK);
    assert_string_equal(text, wanted);
}

/* Every layer against every other, set in both orders. */
static void layers(void **state)
{
    static const char *const values[] = { "", "1", "2", "3", "4", "5" };

    (void)state;
    for (int a = LAYER_SYSTEM; a <= LAYER_CALLER; a++) {
        for (int b = LAYER_SYSTEM; b <= LAYER_CALLER; b++) {
            inlay_options *options = make();
            const char *wanted = values[a > b ? a : b];

            set(options, "intra_threads", values[a], (option_layer)a);
            set(options, "intra_threads", values[b], (option_layer)b);
            has(options, "intra_threads", wanted);
            set(options, "reference.preview", values[a], (option_layer)a);
            set(options, "reference.preview", values[b], (option_layer)b);
            has(options, "reference.preview", wanted);
            inlay_options_destroy(options);
        }
    }
}

/* Pairs of all layers add up; each key follows the rule for single values. */
static void pairs(void **state)
{
    inlay_options *options = make();
    option_pair pair;

    (void)state;
    set(options, "dim", "batch=4", LAYER_ENVIRONMENT);
    set(options, "dim", "batch=1", LAYER_USER);
    set(options, "dim", "a=b=3", LAYER_USER);
    set(options, "dim", "a=5", LAYER_CALLER);
    has(options, "dim", "batch=4,a=b=3,a=5");
    set(options, "dim", "batch=7", LAYER_CALLER);
    set(options, "dim", "batch=8", LAYER_CALLER);
    has(options, "dim", "batch=8,a=b=3,a=5");
    assert_true(options_pair(options, OPTION_dim, 1, &pair));
    assert_int_equal(pair.key_bytes, 3);
    assert_string_equal(pair.key, "a=b=3");
    assert_string_equal(pair.value, "3");
    assert_false(options_pair(options, OPTION_dim, 3, &pair));
    assert_false(options_pair(NULL, OPTION_dim, 0, &pair));
    assert_null(options_list(options, OPTION_dim, 3));
    inlay_options_destroy(options);
}

/* A list has an end. */
static void many(void **state)
{
    inlay_options *options = make();
    inlay_status status = INLAY_OK;
    inlay_diag diag = INLAY_DIAG_INIT;
    uint32_t n = 0;

    (void)state;
    for (; status == INLAY_OK && n < 100000; n++) {
        char text[32];

        (void)snprintf(text, sizeof text, "d%u=1", n);
        status = inlay_options_set(options, "dim", text, &diag);
    }
    assert_int_equal(status, INLAY_LIMIT_EXCEEDED);
    assert_string_equal(diag.text, "option dim: more than 4096 items");
    inlay_options_destroy(options);
}

static void wrong(void **state)
{
    static const struct {
        const char *name, *value, *text;
    } table[] = {
        { "dim", "batch", "option dim: 'batch' is not NAME=N" },
        { "dim", "=3", "option dim: '=3' is not NAME=N" },
        { "dim", "a=", "option dim: 'a=' is not NAME=N" },
        { "dim", "a=-1", "option dim: '-1' is not an integer from 0 to 9223372036854775807" },
        { "dim", "a=1x", "option dim: '1x' is not an integer from 0 to 9223372036854775807" },
        { "intra_threads", "4097", "option intra_threads: '4097' is not an integer from 0 to 4096" },
        { "intra_threads", "", "option intra_threads: '' is not an integer from 0 to 4096" },
        { "policy", "dear", "option policy: 'dear' is neither cost nor priority" },
        { "polcy", "cost", "there is no option 'polcy'; did you mean 'policy'?" },
    };

    (void)state;
    for (size_t r = 0; r < sizeof table / sizeof table[0]; r++) {
        inlay_options *options = make();
        inlay_diag diag = INLAY_DIAG_INIT;

        assert_int_not_equal(inlay_options_set(options, table[r].name, table[r].value, &diag), INLAY_OK);
        assert_string_equal(diag.text, table[r].text);
        /* A wrong value of an earlier layer is one too, though it would not count. */
        set(options, "policy", "cost", LAYER_CALLER);
        assert_int_not_equal(options_set_from(options, table[r].name, table[r].value,
                                              (option_source){ LAYER_SYSTEM, "test" }, &diag), INLAY_OK);
        inlay_options_destroy(options);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(layers), cmocka_unit_test(pairs), cmocka_unit_test(many),
                                        cmocka_unit_test(wrong) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
