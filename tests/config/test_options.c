/* Settings and their precedence. */
#include "config/options.h"
#include "cmocka_all.h"
#include "model/model.h"
#include <inttypes.h>

static inlay_options *make(void)
{
    inlay_options *options = NULL;

    assert_int_equal(inlay_options_create(&options, NULL), INLAY_OK);
    return options;
}

static void set(inlay_options *options, const char *name, const char *value, uint32_t source)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_status status = options_set_as(options, name, value, source, "test", &diag);

    if (status != INLAY_OK)
        fail_msg("%s = %s: %s", name, value, diag.text);
}

static void has(const inlay_options *options, const char *name, const char *wanted)
{
    char text[256];

    assert_int_equal(inlay_options_get(options, name, text, sizeof text, NULL, NULL), INLAY_OK);
    assert_string_equal(text, wanted);
}

/* Sets an option from each pair of sources, in both orders: the source of higher precedence decides. */
static void sources(void **state)
{
    static const char *const values[] = { "", "1", "2", "3", "4", "5" };

    (void)state;
    for (uint32_t a = INLAY_SOURCE_SYSTEM; a <= INLAY_SOURCE_PROGRAM; a++) {
        for (uint32_t b = INLAY_SOURCE_SYSTEM; b <= INLAY_SOURCE_PROGRAM; b++) {
            inlay_options *options = make();
            const char *wanted = values[a > b ? a : b];

            set(options, "intra_threads", values[a], a);
            set(options, "intra_threads", values[b], b);
            has(options, "intra_threads", wanted);
            set(options, "reference.preview", values[a], a);
            set(options, "reference.preview", values[b], b);
            has(options, "reference.preview", wanted);
            inlay_options_destroy(options);
        }
    }
}

/* PAIRS of all sources are merged; each key follows the rule for single values. */
static void pairs(void **state)
{
    inlay_options *options = make();
    option_pair pair;

    (void)state;
    set(options, "dim", "batch=4", INLAY_SOURCE_ENVIRONMENT);
    set(options, "dim", "batch=1", INLAY_SOURCE_USER);
    set(options, "dim", "a=b=3", INLAY_SOURCE_USER);
    set(options, "dim", "a=5", INLAY_SOURCE_PROGRAM);
    has(options, "dim", "a=b=3,batch=4,a=5");
    set(options, "dim", "batch=7", INLAY_SOURCE_PROGRAM);
    set(options, "dim", "batch=8", INLAY_SOURCE_PROGRAM);
    has(options, "dim", "a=b=3,batch=8,a=5");
    assert_true(options_pair(options, OPTION_dim, 0, &pair));
    assert_int_equal(pair.key_bytes, 3);
    assert_string_equal(pair.key, "a=b=3");
    assert_string_equal(pair.value, "3");
    assert_false(options_pair(options, OPTION_dim, 3, &pair));
    assert_false(options_pair(NULL, OPTION_dim, 0, &pair));
    assert_null(options_list(options, OPTION_dim, 3));
    inlay_options_destroy(options);
}

/* A list comes from one source, the latest that sets it. */
static void lists(void **state)
{
    inlay_options *options = make();

    (void)state;
    set(options, "pass", "a", INLAY_SOURCE_FILE);
    set(options, "pass", "b", INLAY_SOURCE_FILE);
    set(options, "pass", "c", INLAY_SOURCE_USER);
    has(options, "pass", "a,b");
    set(options, "pass", "d", INLAY_SOURCE_PROGRAM);
    set(options, "pass", "e", INLAY_SOURCE_PROGRAM);
    set(options, "pass", "f", INLAY_SOURCE_ENVIRONMENT);
    has(options, "pass", "d,e");
    assert_string_equal(options_list(options, OPTION_pass, 1), "e");
    assert_null(options_list(options, OPTION_pass, 2));
    assert_null(options_list(NULL, OPTION_pass, 0));
    set(options, "pass", "", INLAY_SOURCE_PROGRAM);
    set(options, "pass", "g", INLAY_SOURCE_ENVIRONMENT);
    has(options, "pass", "");
    set(options, "pass", "h", INLAY_SOURCE_PROGRAM);
    has(options, "pass", "h");
    inlay_options_destroy(options);
}

/* Commas separate items, as in the environment: all items are set, or none. */
static void commas(void **state)
{
    inlay_options *options = make();
    inlay_diag diag = INLAY_DIAG_INIT;

    (void)state;
    assert_int_equal(inlay_options_set(options, "no_pass", "gelu,gemm,,swish,", &diag), INLAY_OK);
    has(options, "no_pass", "gelu,gemm,swish");
    assert_int_equal(inlay_options_set(options, "no_pass", "einsum", &diag), INLAY_OK);
    has(options, "no_pass", "gelu,gemm,swish,einsum");
    assert_int_equal(inlay_options_set(options, "dim", "a=1,b=2", &diag), INLAY_OK);
    has(options, "dim", "a=1,b=2");
    assert_int_equal(inlay_options_set(options, "dim", "c=3,d", &diag), INLAY_INVALID_ARGUMENT);
    has(options, "dim", "a=1,b=2");
    assert_int_equal(inlay_options_set(options, "pin", "op:Add=one,node,with,commas=two", &diag), INLAY_OK);
    assert_string_equal(options_list(options, OPTION_pin, 1), "node,with,commas=two");
    assert_null(options_list(options, OPTION_pin, 2));
    assert_int_equal(options_set_item(options, "forbid", "name,with,commas=one", &diag), INLAY_OK);
    assert_string_equal(options_list(options, OPTION_forbid, 0), "name,with,commas=one");
    assert_null(options_list(options, OPTION_forbid, 1));
    inlay_options_destroy(options);
}

/* An empty text clears a list of its source and of earlier sources. */
static void cleared_lists(void **state)
{
    inlay_options *options = make();
    inlay_setting setting = { .struct_size = sizeof setting };
    uint32_t i = 0;

    (void)state;
    set(options, "dim", "a=1", INLAY_SOURCE_USER);
    set(options, "dim", "b=2", INLAY_SOURCE_PROGRAM);
    set(options, "dim", "", INLAY_SOURCE_ENVIRONMENT);
    has(options, "dim", "b=2");
    set(options, "dim", "c=3", INLAY_SOURCE_FILE);
    has(options, "dim", "b=2");
    set(options, "dim", "d=4", INLAY_SOURCE_ENVIRONMENT);
    has(options, "dim", "d=4,b=2");
    set(options, "dim", "", INLAY_SOURCE_PROGRAM);
    has(options, "dim", "");
    while (inlay_options_setting(options, i++, &setting) == INLAY_OK && strcmp(setting.name, "dim") != 0)
        ;
    assert_string_equal(setting.text, "");
    assert_int_equal(setting.source, INLAY_SOURCE_PROGRAM);
    assert_int_equal(setting.item, INLAY_NONE);
    inlay_options_destroy(options);
}

/* Values of switches. */
static void switches(void **state)
{
    static const char *const words[] = { "1", "true", "Yes", "ON", "0", "false", "no", "Off" };
    inlay_options *options = make();

    (void)state;
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        set(options, "free_shapes", words[i], INLAY_SOURCE_PROGRAM);
        has(options, "free_shapes", i < 4 ? "1" : "0");
    }
    assert_int_not_equal(inlay_options_set(options, "free_shapes", "2", NULL), INLAY_OK);
    assert_int_not_equal(inlay_options_set(options, "intra_threads", "on", NULL), INLAY_OK);
    inlay_options_destroy(options);
}

/* Callers with an older struct: only the fields that fit into it are written. */
static void descriptions_for_older_callers(void **state)
{
    struct {
        inlay_option_doc doc;
        char behind[16];
    } room;
    const char *bytes = (const char *)&room;

    (void)state;
    for (uint64_t size = sizeof room.doc.struct_size; size <= sizeof room.doc + 8; size++) {
        const size_t known = size < sizeof room.doc ? (size_t)size : sizeof room.doc;

        memset(&room, 0x5a, sizeof room);
        room.doc.struct_size = size;
        assert_int_equal(inlay_options_describe(0, &room.doc), INLAY_OK);
        assert_int_equal(room.doc.struct_size, size);
        if (known >= offsetof(inlay_option_doc, name) + sizeof room.doc.name)
            assert_true(strlen(room.doc.name) > 0);
        for (size_t i = known; i < sizeof room; i++)
            assert_int_equal(bytes[i], 0x5a);
    }
    room.doc.struct_size = sizeof room.doc.struct_size - 1;
    assert_int_equal(inlay_options_describe(0, &room.doc), INLAY_INVALID_ARGUMENT);
}

/* All settings in order, with their descriptions. */
static void listing(void **state)
{
    inlay_options *options = make();
    inlay_setting setting = { .struct_size = sizeof setting };
    inlay_option_doc doc = { .struct_size = sizeof doc };
    uint32_t count = 0, dims = 0, described = 0;

    (void)state;
    set(options, "dim", "a=1", INLAY_SOURCE_USER);
    set(options, "dim", "b=2", INLAY_SOURCE_PROGRAM);
    set(options, "reference.preview", "true", INLAY_SOURCE_FILE);
    assert_int_equal(inlay_options_set_from(options, "policy", "priority", "--policy", NULL), INLAY_OK);
    while (inlay_options_describe(described, &doc) == INLAY_OK)
        described++;
    for (; inlay_options_setting(options, count, &setting) == INLAY_OK; count++) {
        if (strcmp(setting.name, "policy") == 0) {
            assert_string_equal(setting.text, "priority");
            assert_string_equal(setting.origin, "--policy");
            assert_int_equal(setting.source, INLAY_SOURCE_PROGRAM);
            assert_int_equal(setting.item, INLAY_NONE);
        } else if (strcmp(setting.name, "dim") == 0) {
            assert_int_equal(setting.item, dims++);
        } else if (strcmp(setting.name, "level") == 0) {
            assert_string_equal(setting.origin, "default");
            assert_int_equal(setting.source, INLAY_SOURCE_DEFAULT);
        }
    }
    assert_int_equal(dims, 2);
    assert_int_equal(count, described + 2);
    assert_string_equal(setting.name, "reference.preview");
    setting.struct_size = sizeof setting.struct_size;
    assert_int_equal(inlay_options_setting(options, 0, &setting), INLAY_OK);
    setting.struct_size = 4;
    assert_int_equal(inlay_options_setting(options, 0, &setting), INLAY_INVALID_ARGUMENT);
    inlay_options_destroy(options);
}

/* The number of items is limited. */
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

static void invalid_values(void **state)
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
        { "policy", "dear", "option policy: 'dear' is not one of cost, priority" },
        { "pin", "conv", "option pin: 'conv' is not PATTERN=PROVIDER" },
        { "pin", "a=", "option pin: 'a=' is not PATTERN=PROVIDER" },
        { "forbid", "=a", "option forbid: '=a' is not PATTERN=PROVIDER or PROVIDER" },
        { "memory_limit", "a=much", "option memory_limit: 'a=much' is not NAME=BYTES (BYTES may end in K, M or G)" },
        { "isolate_memory", "much",
          "option isolate_memory: 'much' is not a number of BYTES (which may end in K, M or G)" },
        { "memory_limit", "a", "option memory_limit: 'a' is not NAME=VALUE" },
        { "model_limits", "node=5",
          "option model_limits: 'node=5' is not NAME=NUMBER; the names are depth, subgraphs, nodes, values, "
          "tensor_bytes, densified_bytes, parsed_bytes" },
        { "model_limits", "nodes=0",
          "option model_limits: 'nodes=0' has no number from 1 to 9223372036854775807 (which may end in K, M or G)" },
        { "model_limits", "nodes=5,subgraphs=1K",
          "option model_limits: 'subgraphs=1K' has no number from 1 to 1000 (which may end in K, M or G)" },
        { "power_watts", "a=0", "option power_watts: 'a=0' is not NAME=WATTS, a number above 0 such as 45 or 2.5" },
        { "power_watts", "a=4,5", "option power_watts: '5' is not NAME=VALUE" },
        { "objective", "speed", "option objective: 'speed' is not one of latency, energy, memory" },
        { "reproducible", "gpu", "option reproducible: 'gpu' is not one of 0, 1, cpu" },
        { "isa", "sse9",
          "option isa: 'sse9' is not one of auto, amx, avx512, avx2, neon_i8mm, neon_dot, rvv, baseline" },
        { "precision", "half", "option precision: 'half' is not one of strict, f32, fast, reduced" },
        { "polcy", "cost", "unknown option 'polcy'; did you mean 'policy'?" },
    };

    (void)state;
    for (size_t r = 0; r < sizeof table / sizeof table[0]; r++) {
        inlay_options *options = make();
        inlay_diag diag = INLAY_DIAG_INIT;

        assert_int_not_equal(inlay_options_set(options, table[r].name, table[r].value, &diag), INLAY_OK);
        assert_string_equal(diag.text, table[r].text);
        /* A wrong value of an earlier source is an error, too, although it is overridden. */
        set(options, "policy", "cost", INLAY_SOURCE_PROGRAM);
        assert_int_not_equal(options_set_as(options, table[r].name, table[r].value, INLAY_SOURCE_SYSTEM, "test", &diag),
                             INLAY_OK);
        inlay_options_destroy(options);
    }
}

/* A value that does not fit is cut, fails, and states the size that it needs; size 0 only asks for it. */
static void sizes_of_values(void **state)
{
    inlay_options *options = NULL;
    inlay_diag diag = INLAY_DIAG_INIT;
    char text[10];
    size_t bytes = 77;

    (void)state;
    assert_int_equal(inlay_options_create(&options, NULL), INLAY_OK);
    set(options, "providers", "first,second", INLAY_SOURCE_PROGRAM);
    assert_int_equal(inlay_options_get(options, "providers", NULL, 0, &bytes, &diag), INLAY_OK);
    assert_int_equal(bytes, sizeof "first,second");
    memset(text, 'x', sizeof text);
    assert_int_equal(inlay_options_get(options, "providers", text, sizeof text, &bytes, &diag), INLAY_LIMIT_EXCEEDED);
    assert_string_equal(text, "first,sec");
    assert_int_equal(bytes, sizeof "first,second");
    assert_non_null(strstr(diag.text, "'providers' needs 13 bytes; the buffer has 10"));
    assert_int_equal(inlay_options_get(options, "providers", text, 6, NULL, NULL), INLAY_LIMIT_EXCEEDED);
    assert_string_equal(text, "first");
    set(options, "isa", "avx2", INLAY_SOURCE_PROGRAM);
    assert_int_equal(inlay_options_get(options, "isa", text, 4, &bytes, NULL), INLAY_LIMIT_EXCEEDED);
    assert_int_equal(inlay_options_get(options, "isa", text, 5, &bytes, NULL), INLAY_OK);
    assert_string_equal(text, "avx2");
    assert_int_equal(inlay_options_get(options, "no_such", text, sizeof text, &bytes, NULL), INLAY_NOT_FOUND);
    assert_int_equal(bytes, 0);
    assert_string_equal(text, "");
    assert_int_equal(inlay_options_standard_file(0, text, sizeof text), INLAY_LIMIT_EXCEEDED);
    inlay_options_destroy(options);
}

static void ignore_line(void *user, uint32_t level, const char *text)
{
    (void)user;
    (void)level;
    (void)text;
}

static int go_on(void *user, double fraction, const char *what)
{
    (void)user;
    (void)fraction;
    (void)what;
    return 0;
}

static void *no_bytes(void *user, uint64_t bytes, uint64_t alignment)
{
    (void)user;
    (void)bytes;
    (void)alignment;
    return NULL;
}

static void no_free(void *user, void *memory, uint64_t bytes)
{
    (void)user;
    (void)memory;
    (void)bytes;
}

/* A copy has all that the original has, and outlives it. That of NULL has the default values. */
static void copies(void **state)
{
    inlay_options *options = make(), *copy = NULL, *empty = NULL;
    inlay_setting one = { .struct_size = sizeof one }, other = { .struct_size = sizeof other };
    const inlay_allocator allocator = { sizeof allocator, &one, no_bytes, no_free };
    static const float zeros[4];
    uint32_t count = 0;

    (void)state;
    set(options, "dim", "a=1", INLAY_SOURCE_USER);
    set(options, "dim", "b=2", INLAY_SOURCE_PROGRAM);
    set(options, "tap", "", INLAY_SOURCE_FILE); /* an empty list has an origin */
    set(options, "policy", "priority", INLAY_SOURCE_ENVIRONMENT);
    set(options, "reference.preview", "true", INLAY_SOURCE_SYSTEM);
    inlay_options_set_log(options, ignore_line, &one);
    inlay_options_set_progress(options, go_on, &other);
    assert_int_equal(inlay_options_set_allocator(options, &allocator, NULL), INLAY_OK);
    assert_int_equal(inlay_options_set_file(options, "weights", zeros, sizeof zeros, NULL), INLAY_OK);
    assert_int_equal(inlay_options_copy(options, &copy, NULL), INLAY_OK);
    for (; inlay_options_setting(options, count, &one) == INLAY_OK; count++) {
        assert_int_equal(inlay_options_setting(copy, count, &other), INLAY_OK);
        assert_string_equal(one.name, other.name);
        assert_string_equal(one.text, other.text);
        assert_string_equal(one.origin, other.origin);
        assert_true(one.source == other.source && one.item == other.item);
    }
    assert_int_equal(inlay_options_setting(copy, count, &other), INLAY_NOT_FOUND);
    set(copy, "policy", "cost", INLAY_SOURCE_FILE);
    has(copy, "policy", "priority");
    inlay_options_destroy(options);
    assert_true(copy->log == ignore_line && copy->log_user == &one);
    assert_true(copy->progress == go_on && copy->progress_user == &other);
    assert_true(copy->allocator.alloc == no_bytes && copy->allocator.free == no_free && copy->allocator.user == &one);
    assert_int_equal(copy->file_count, 1);
    assert_string_equal(copy->files[0].location, "weights");
    assert_true(copy->files[0].bytes == (const void *)zeros && copy->files[0].count == sizeof zeros);
    has(copy, "dim", "a=1,b=2");
    inlay_options_destroy(copy);

    assert_int_equal(inlay_options_copy(NULL, &empty, NULL), INLAY_OK);
    for (uint32_t i = 0; inlay_options_setting(empty, i, &one) == INLAY_OK; i++)
        assert_int_equal(one.source, INLAY_SOURCE_DEFAULT);
    inlay_options_destroy(empty);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(sources),
                                        cmocka_unit_test(pairs),
                                        cmocka_unit_test(lists),
                                        cmocka_unit_test(commas),
                                        cmocka_unit_test(cleared_lists),
                                        cmocka_unit_test(switches),
                                        cmocka_unit_test(descriptions_for_older_callers),
                                        cmocka_unit_test(listing),
                                        cmocka_unit_test(many),
                                        cmocka_unit_test(copies),
                                        cmocka_unit_test(sizes_of_values),
                                        cmocka_unit_test(invalid_values) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
