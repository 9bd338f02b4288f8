/* The registry: files that are loaded from folders, files that are refused and their messages, and opening
 * providers. */
#include "base/boundary.h"
#include "base/isa.h"
#include "cmocka_all.h"
#include "inlay/extensions.h"
#include "inlay/plugin.h"
#include "plugin_dirs.h"
#include <limits.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static char log_text[4096];

static void keep_log(void *user, uint32_t level, const char *text)
{
    size_t used = strlen(log_text);

    (void)user;
    (void)snprintf(log_text + used, sizeof log_text - used, "%u %s\n", level, text);
}

static plugin_set *load(const char *variant)
{
    char dir[512];
    const char *dirs[] = { dir };
    inlay_diag diag = INLAY_DIAG_INIT;
    plugin_set *set = NULL;

    log_text[0] = '\0';
    (void)snprintf(dir, sizeof dir, "%s/%s", VARIANT_DIR, variant);
    if (plugin_set_create(dirs, 1, keep_log, NULL, &set, &diag) != INLAY_OK)
        fail_msg("%s", diag.text);
    return set;
}

static void valid_plugin(void **state)
{
    plugin_set *set = load("good");
    const plugin_file *file = plugin_set_file(set, 0);

    (void)state;
    assert_int_equal(plugin_set_file_count(set), 1);
    assert_true(file->loaded);
    assert_null(file->reason);
    assert_string_equal(file->name, "variant");
    assert_string_equal(file->version, "1.0");
    assert_non_null(strstr(file->path, "/good/good.so"));
    assert_int_equal(plugin_set_provider_count(set), 1);
    assert_ptr_equal(plugin_set_find(set, "variant"), plugin_set_provider(set, 0));
    assert_null(plugin_set_find(set, "other"));
    assert_null(plugin_set_provider(set, 1));
    assert_int_equal(plugin_set_operator_count(set), 0);
    plugin_set_destroy(set);
    plugin_set_destroy(NULL);
}

/* Missing fields of shorter structs read as zero; longer structs and strides are handled. */
static void sizes_of_other_versions(void **state)
{
    const struct provider *open = NULL;
    inlay_diag diag = INLAY_DIAG_INIT;
    plugin_set *set = load("older");
    const plugin_provider *provider = plugin_set_find(set, "older");

    (void)state;
    assert_non_null(provider);
    assert_null(provider->table->fingerprint);
    assert_null(provider->table->buffer_alloc);
    assert_null(provider->table->extension);
    assert_non_null(provider->table->execute);
    assert_int_equal(provider_open(set, "older", NULL, 0, &open, &diag), INLAY_OK);
    provider_close(open);
    plugin_set_destroy(set);

    set = load("newer");
    assert_int_equal(plugin_set_provider_count(set), 2);
    provider = plugin_set_find(set, "newer2");
    assert_non_null(provider);
    assert_int_equal(provider->table->option_count, 2);
    assert_string_equal(provider->options[1].name, "scale");
    assert_int_equal(provider->options[1].kind, INLAY_OPTION_FLOAT);
    plugin_set_destroy(set);

    set = load("high_flag"); /* a flag that hosts may ignore */
    assert_non_null(plugin_set_find(set, "high_flag"));
    plugin_set_destroy(set);
}

static void reasons_of_refused_files(void **state)
{
    static const struct {
        const char *variant, *words;
    } rows[] = {
        { "next_major", "built for plugin ABI 2." },
        { "no_symbol", "exports no inlay_plugin_open" },
        { "refuses", "not on a Friday" },
        { "no_execute", "does not set one of" },
        { "low_flag", "flags 0x200" },
        { "onnx_domain", "belongs to ONNX" },
        { "bad_signature", "com.example.Blur" },
        { "bad_default", "'many' is not an integer" },
        { "nothing", "neither providers nor operators" },
        { "no_build_id", "plugin variant has no build_id" },
        { "reserved_plugin", "plugin 'variant' sets a field that is reserved" },
        { "reserved_provider", "provider 'variant' sets a field that is reserved" },
        { "reserved_option", "option 'later' sets a field that is reserved" },
    };

    (void)state;
    for (size_t row = 0; row < sizeof rows / sizeof rows[0]; row++) {
        plugin_set *set = load(rows[row].variant);
        const plugin_file *file = plugin_set_file(set, 0);

        assert_int_equal(plugin_set_file_count(set), 1);
        assert_false(file->loaded);
        if (strstr(file->reason, rows[row].words) == NULL)
            fail_msg("%s: '%s' does not contain '%s'", rows[row].variant, file->reason, rows[row].words);
        assert_non_null(strstr(log_text, rows[row].words));
        assert_int_equal(plugin_set_provider_count(set), 0);
        plugin_set_destroy(set);
    }
}

/* A device that cannot be described is closed like any other: quiesce, then destroy. */
static void failed_descriptions(void **state)
{
    const struct provider *open = NULL;
    plugin_set *set = load("bad_describe");
    inlay_diag diag = INLAY_DIAG_INIT;
    const char *quiesced, *destroyed;

    (void)state;
    assert_int_equal(provider_open(set, "bad_describe", NULL, 0, &open, &diag), INLAY_DEVICE_LOST);
    assert_null(open);
    assert_non_null(strstr(diag.text, "it does not answer"));
    quiesced = strstr(log_text, "quiesced");
    destroyed = strstr(log_text, "destroyed");
    assert_true(quiesced != NULL && destroyed != NULL && quiesced < destroyed);
    plugin_set_destroy(set);
}

/* The number of domains is fixed before a device is described. */
static void descriptions_with_more_domains(void **state)
{
    const struct provider *open = NULL;
    plugin_set *set = load("more_domains");
    inlay_diag diag = INLAY_DIAG_INIT;

    (void)state;
    assert_int_equal(provider_open(set, "more_domains", NULL, 0, &open, &diag), INLAY_INVALID_ARGUMENT);
    assert_null(open);
    assert_non_null(strstr(diag.text, "to 1 domains; it describes the 0 domains"));
    plugin_set_destroy(set);
}

/* Operators of an open provider are checked like those of a plugin, and found by version. */
static void operators_of_an_open_provider(void **state)
{
    const struct provider *open = NULL;
    plugin_set *set = load("late_operator");
    inlay_diag diag = INLAY_DIAG_INIT;

    (void)state;
    assert_int_equal(plugin_set_operator_count(set), 0);
    assert_int_equal(provider_open(set, "late_operator", NULL, 0, &open, &diag), INLAY_OK);
    assert_int_equal(open->operator_count, 2);
    for (int64_t opset = 0; opset < 5; opset++) {
        const inlay_operator *found =
            plugin_find_operator(open->operators, open->operator_count, "com.example", "Late", opset);

        assert_int_equal(found == NULL ? 0 : found->since_version, opset == 0 ? 0 : opset < 3 ? 1 : 3);
    }
    assert_null(plugin_find_operator(open->operators, open->operator_count, "com.example", "Early", 5));
    provider_close(open);
    plugin_set_destroy(set);
    set = load("late_onnx_domain");
    assert_int_equal(provider_open(set, "late_operator", NULL, 0, &open, &diag), INLAY_INVALID_ARGUMENT);
    assert_null(open);
    assert_non_null(strstr(diag.text, "operator Late is in domain 'ai.onnx', which belongs to ONNX"));
    plugin_set_destroy(set);
}

/* What a schema has to contain. */
struct expected_schema {
    const char *domain, *op_type;
    int64_t opset;
    uint32_t since, inputs, outputs;
    struct {
        const char *name;
        uint32_t option, least;
        const char *types, *first; /* the name of its types, and the first of these */
    } last;                        /* input */
};

static void check_schema(void *user, const inlay_schema *schema)
{
    const struct expected_schema *expected = *(const struct expected_schema **)user;
    const inlay_schema_types *types;
    const inlay_formal *last, *output;

    assert_true(INLAY_HAS(schema, since_version));
    assert_int_equal(schema->since_version, expected->since);
    assert_int_equal(schema->input_count, expected->inputs);
    assert_int_equal(schema->output_count, expected->outputs);
    last = INLAY_AT(inlay_formal, schema->inputs, schema->formal_stride, schema->input_count - 1);
    output = INLAY_AT(inlay_formal, schema->outputs, schema->formal_stride, 0);
    assert_string_equal(last->name, expected->last.name);
    assert_int_equal(last->option, expected->last.option);
    assert_int_equal(last->least_count, expected->last.least);
    assert_true(last->types < schema->type_count && output->types < schema->type_count);
    types = INLAY_AT(inlay_schema_types, schema->types, schema->types_stride, last->types);
    assert_string_equal(types->name, expected->last.types);
    assert_true(types->type_count > 0);
    assert_string_equal(types->types[0], expected->last.first);
    *(const struct expected_schema **)user = NULL; /* received */
}

static void schemas_for_plugins(void **state)
{
    static const struct expected_schema rows[] = {
        { "", "Concat", 13, 13, 1, 1, { "inputs", INLAY_FORMAL_VARIADIC, 1, "T", "tensor(float)" } },
        { "ai.onnx", "Clip", 12, 12, 3, 1, { "max", INLAY_FORMAL_OPTIONAL, 0, "T", "tensor(float)" } },
        { "", "Reshape", 20, 19, 2, 1, { "shape", INLAY_FORMAL_SINGLE, 1, "", "tensor(int64)" } },
        { "", "Loop", 13, 13, 3, 1, { "v_initial", INLAY_FORMAL_VARIADIC_MIXED, 0, "V", "tensor(float)" } },
        { "", "SequenceInsert", 11, 11, 3, 1, { "position", INLAY_FORMAL_OPTIONAL, 0, "I", "tensor(int32)" } },
        { "", "SequenceLength", 11, 11, 1, 1, { "input_sequence", INLAY_FORMAL_SINGLE, 1, "S", "seq(tensor(float))" } },
        { "", "OptionalHasElement", 15, 15, 1, 1, { "input", INLAY_FORMAL_SINGLE, 1, "O", "optional(tensor(float))" } },
        { "ai.onnx.ml",
          "DictVectorizer",
          1,
          1,
          1,
          1,
          { "X", INLAY_FORMAL_SINGLE, 1, "T1", "map(int64,tensor(float))" } },
    };
    const inlay_host *host = host_table();
    const inlay_ext_schemas *schemas = host->extension(host->ctx, INLAY_EXT_SCHEMAS);

    (void)state;
    assert_true(schemas != NULL && INLAY_HAS(schemas, find));
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const struct expected_schema *expected = &rows[i];
        inlay_diag diag = INLAY_DIAG_INIT;

        if (schemas->find(host->ctx, rows[i].domain, rows[i].op_type, rows[i].opset, check_schema, &expected, &diag) !=
            INLAY_OK)
            fail_msg("%s: %s", rows[i].op_type, diag.text);
        assert_null(expected);
        assert_int_equal(
            schemas->find(host->ctx, "com.example", rows[i].op_type, rows[i].opset, check_schema, &expected, &diag),
            INLAY_NOT_FOUND);
    }
}

/* Every level of the CPU has a speed. Those of `inlay tune --machine` alone are 0. */
static void speed_for_plugins(void **state)
{
    const inlay_host *host = host_table();
    const inlay_ext_speed *speed = host->extension(host->ctx, INLAY_EXT_SPEED);
    const inlay_speed *core;

    (void)state;
    assert_true(speed != NULL && INLAY_HAS(speed, get));
    core = speed->get(host->ctx);
    assert_true(core != NULL && INLAY_HAS(core, loop_ns));
    assert_ptr_equal(speed->get(host->ctx), core);
    assert_true(core->flops_baseline > 0 && core->core_bytes > 0 && core->near_bytes > 0);
#if defined(__x86_64__)
    assert_true(core->memory_bytes > 0);
#endif
    assert_int_equal(core->flops_v3 > 0, isa_in_use() >= INLAY_ISA_X86_64_V3);
    assert_int_equal(core->flops_v4 > 0, isa_in_use() >= INLAY_ISA_X86_64_V4);
    assert_true(core->shared_bytes > 0 && core->loop_ns > 0); /* of its kind of CPU */
}

/* A file whose time stamp changes while it is open is opened again; each open has its shutdown. */
static void opened_twice(void **state)
{
    plugin_set *first = load("again"), *second;
    const char *shut;

    (void)state;
    assert_non_null(strstr(log_text, "opened once"));
    assert_int_equal(utimensat(AT_FDCWD, plugin_set_file(first, 0)->path, NULL, 0), 0);
    second = load("again");
    assert_non_null(strstr(log_text, "opened twice"));
    assert_true(plugin_set_file(second, 0)->loaded);
    plugin_set_destroy(first);
    shut = strstr(log_text, "shut down");
    assert_non_null(shut);
    plugin_set_destroy(second);
    assert_non_null(strstr(shut + 1, "shut down"));
}

/* A plugin without shutdown is opened once in a process, until its file changes. */
static void opened_once(void **state)
{
    plugin_set *set = load("no_shutdown");
    const plugin_provider *first = plugin_set_provider(set, 0);
    char path[512];

    (void)state;
    assert_non_null(first);
    assert_non_null(strstr(log_text, "opened once"));
    (void)snprintf(path, sizeof path, "%s", plugin_set_file(set, 0)->path);
    plugin_set_destroy(set);
    set = load("no_shutdown");
    assert_null(strstr(log_text, "opened"));
    assert_ptr_equal(plugin_set_provider(set, 0), first);
    plugin_set_destroy(set);
    assert_int_equal(utimensat(AT_FDCWD, path, NULL, 0), 0);
    set = load("no_shutdown");
    assert_non_null(strstr(log_text, "opened twice"));
    assert_ptr_not_equal(plugin_set_provider(set, 0), first);
    plugin_set_destroy(set);
}

static void write_text(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");

    assert_non_null(file);
    (void)fputs(text, file);
    assert_int_equal(fclose(file), 0);
}

static void files_that_are_not_plugins(void **state)
{
    char dir[] = "/tmp/inlay-plugins-XXXXXX", path[128];
    const char *dirs[] = { dir };
    inlay_diag diag = INLAY_DIAG_INIT;
    plugin_set *set;

    (void)state;
    assert_non_null(mkdtemp(dir));
    (void)snprintf(path, sizeof path, "%s/a.so", dir);
    write_text(path, "not an ELF file");
    (void)snprintf(path, sizeof path, "%s/b.so", dir);
    assert_int_equal(mkdir(path, 0700), 0);
    (void)snprintf(path, sizeof path, "%s/c.so", dir);
    write_text(path, "");
    assert_int_equal(chmod(path, 0666), 0);
    (void)snprintf(path, sizeof path, "%s/d.so", dir);
    assert_int_equal(symlink("/nowhere/at/all", path), 0);
    (void)snprintf(path, sizeof path, "%s/readme.txt", dir);
    write_text(path, "hello");
    assert_int_equal(plugin_set_create(dirs, 1, NULL, NULL, &set, &diag), INLAY_OK);
    assert_int_equal(plugin_set_file_count(set), 4);
    for (uint32_t i = 0; i < 4; i++)
        assert_false(plugin_set_file(set, i)->loaded);
    assert_string_equal(plugin_set_file(set, 1)->reason, "not a regular file");
    assert_non_null(strstr(plugin_set_file(set, 2)->reason, "chmod o-w"));
    plugin_set_destroy(set);

    assert_int_equal(chmod(dir, 0777), 0);
    assert_int_equal(plugin_set_create(dirs, 1, NULL, NULL, &set, &diag), INLAY_INVALID_ARGUMENT);
    assert_non_null(strstr(diag.text, "chmod o-w"));
    assert_null(set);
    for (const char *name = "a.so\0b.so\0c.so\0d.so\0readme.txt\0"; *name != '\0'; name += strlen(name) + 1) {
        (void)snprintf(path, sizeof path, "%s/%s", dir, name);
        assert_int_equal(remove(path), 0);
    }
    assert_int_equal(rmdir(dir), 0);
}

static void directories_that_are_refused(void **state)
{
    static const struct {
        const char *dir, *words;
    } rows[] = { { "", "working directory" },
                 { ".", "working directory" },
                 { "/does/not/exist", "No such file" },
                 { "/dev/null", "not a directory" } };

    (void)state;
    for (size_t row = 0; row < sizeof rows / sizeof rows[0]; row++) {
        inlay_diag diag = INLAY_DIAG_INIT;
        plugin_set *set;

        assert_int_not_equal(plugin_set_create(&rows[row].dir, 1, NULL, NULL, &set, &diag), INLAY_OK);
        if (strstr(diag.text, rows[row].words) == NULL)
            fail_msg("'%s' does not contain '%s'", diag.text, rows[row].words);
    }
}

/* A file in the working directory is loaded by its absolute path only. */
static void a_file_of_the_working_directory(void **state)
{
    char cwd[PATH_MAX], path[PATH_MAX + 16];
    const char *paths[] = { path, "good.so", "./good.so" };

    (void)state;
    assert_non_null(getcwd(cwd, sizeof cwd));
    assert_int_equal(chdir(VARIANT_DIR "/good"), 0);
    (void)snprintf(path, sizeof path, "%s/good.so", VARIANT_DIR "/good");
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
        inlay_diag diag = INLAY_DIAG_INIT;
        plugin_set *set = NULL;
        const inlay_status status = plugin_set_create(&paths[i], 1, NULL, NULL, &set, &diag);

        assert_int_equal(status, i == 0 ? INLAY_OK : INLAY_INVALID_ARGUMENT);
        assert_true(i == 0 || strstr(diag.text, "name it by its absolute path") != NULL);
        plugin_set_destroy(set);
    }
    assert_int_equal(chdir(cwd), 0);
}

/* The provider of the first folder is used, in either order; the other is reported, and other plugins are not
 * affected. */
static void two_providers_of_one_name(void **state)
{
    static const char *const files[] = { "good", "twin" };
    const char *same[] = { VARIANT_DIR "/good", VARIANT_DIR "/older/../good" };
    inlay_diag diag = INLAY_DIAG_INIT;
    plugin_set *set;

    (void)state;
    for (int first = 0; first < 2; first++) {
        char folders[2][256], name[2][32];
        const char *dirs[] = { folders[0], folders[1] };

        for (int i = 0; i < 2; i++) {
            (void)snprintf(folders[i], sizeof folders[i], "%s/%s", VARIANT_DIR, files[i == 0 ? first : !first]);
            (void)snprintf(name[i], sizeof name[i], "%s.so", files[i == 0 ? first : !first]);
        }
        assert_int_equal(plugin_set_create(dirs, 2, NULL, NULL, &set, &diag), INLAY_OK);
        assert_int_equal(plugin_set_provider_count(set), 1);
        assert_ptr_equal(plugin_set_find(set, "variant")->file, plugin_file_named(set, name[0]));
        assert_int_equal(plugin_file_named(set, name[1])->outcome, PLUGIN_SHADOWED);
        assert_false(plugin_file_named(set, name[1])->loaded);
        assert_non_null(strstr(plugin_file_named(set, name[1])->reason, name[0]));
        plugin_set_destroy(set);
    }
    assert_int_equal(plugin_set_create(same, 2, NULL, NULL, &set, &diag), INLAY_OK);
    assert_int_equal(plugin_set_provider_count(set), 1);
    plugin_set_destroy(set);
}

static void opening_and_sharing(void **state)
{
    static const provider_setting device1[] = { { "device", "1" } }, also1[] = { { "device", "0x1" } },
                                  device13[] = { { "device", "13" } };
    plugin_set *set = load("good"), *second = load("good");
    const struct provider *first, *shared, *provider, *other;
    inlay_diag diag = INLAY_DIAG_INIT;

    (void)state;
    assert_int_equal(provider_open(set, "variant", NULL, 0, &first, &diag), INLAY_OK);
    assert_non_null(strstr(log_text, "created"));
    assert_int_equal(provider_open(second, "variant", NULL, 0, &shared, &diag), INLAY_OK);
    assert_ptr_equal(first, shared);
    assert_int_equal(provider_open(set, "variant", device1, 1, &provider, &diag), INLAY_OK);
    assert_int_equal(provider_open(set, "variant", also1, 1, &other, &diag), INLAY_OK);
    assert_ptr_not_equal(first, provider);
    assert_ptr_equal(provider, other);
    assert_string_equal(first->name, "variant");
    assert_int_equal(provider_open(set, "variant", device13, 1, &other, &diag), INLAY_UNSUPPORTED);
    assert_string_equal(diag.text, "there is no device 13");
    assert_null(other);

    provider_lost(provider->state);
    assert_int_equal(provider_open(set, "variant", device1, 1, &other, &diag), INLAY_OK);
    assert_ptr_not_equal(provider, other);
    /* Open providers outlive the sets. */
    plugin_set_destroy(set);
    plugin_set_destroy(second);
    provider_close(first);
    provider_close(shared);
    provider_close(provider);
    provider_close(provider);
    provider_close(other);
    provider_close(NULL);
}

static void wrong_names_and_values(void **state)
{
    static const struct {
        const char *name, *value, *words;
    } rows[] = {
        { "devcie", "1", "did you mean 'device'" },     { "device", "16", "outside [0, 15]" },
        { "device", "one", "'one' is not an integer" }, { "device", "", "'' is not an integer" },
        { "fast-math", "maybe", "true nor false" },     { "tile", "tiny", "not one of auto|small|large" },
        { "tile", "small|large", "not one of" },        { "scale", "big", "not a number" },
        { "zzzzzz", "1", "has no option 'zzzzzz'" },    { "device", "99999999999999999999", "not an integer" },
    };
    plugin_set *set = load("good");
    inlay_diag diag = INLAY_DIAG_INIT;
    const struct provider *provider;

    (void)state;
    for (size_t row = 0; row < sizeof rows / sizeof rows[0]; row++) {
        const provider_setting setting = { rows[row].name, rows[row].value };

        assert_int_equal(provider_open(set, "variant", &setting, 1, &provider, &diag), INLAY_INVALID_ARGUMENT);
        if (strstr(diag.text, rows[row].words) == NULL)
            fail_msg("'%s' does not contain '%s'", diag.text, rows[row].words);
    }
    assert_int_equal(provider_open(set, "varaint", NULL, 0, &provider, &diag), INLAY_INVALID_ARGUMENT);
    assert_non_null(strstr(diag.text, "did you mean 'variant'"));
    plugin_set_destroy(set);
    set = load("refuses");
    assert_int_equal(provider_open(set, "refuses", NULL, 0, &provider, &diag), INLAY_INVALID_ARGUMENT);
    assert_non_null(strstr(diag.text, "not on a Friday"));
    plugin_set_destroy(set);
}

static void typed_values(void **state)
{
    static const inlay_option options[] = {
        { .name = "device", .default_value = "3", .kind = INLAY_OPTION_INT },
        { .name = "fast_math", .kind = INLAY_OPTION_BOOL },
        { .name = "scale", .default_value = "0.5", .kind = INLAY_OPTION_FLOAT },
        { .name = "tile", .default_value = "auto", .choices = "auto|large", .kind = INLAY_OPTION_ENUM },
        { .name = "label", .kind = INLAY_OPTION_STRING },
    };
    static const provider_setting settings[] = { { "fast-math", "yes" }, { "tile", "large" }, { "label", "a=b;" } };
    inlay_option_value value[5];

    (void)state;
    assert_int_equal(provider_parse_options("p", options, 5, settings, 3, value, NULL), INLAY_OK);
    assert_int_equal(value[0].i, 3);
    assert_int_equal(value[0].is_set, 0);
    assert_int_equal(value[1].i, 1);
    assert_int_equal(value[1].is_set, 1);
    assert_true(value[2].f == 0.5);
    assert_string_equal(value[3].s, "large");
    assert_string_equal(value[4].s, "a=b;");
    assert_int_equal(value[4].kind, INLAY_OPTION_STRING);
}

/* Unterminated texts are terminated within their arrays, and control characters are removed. */
static void unterminated_texts(void **state)
{
    struct {
        inlay_diag diag;
        char behind[64];
    } own;

    (void)state;
    memset(&own, '\n', sizeof own);
    assert_int_equal(boundary_finish_status(INLAY_INVALID_MODEL, &own.diag), INLAY_INVALID_MODEL);
    assert_int_equal(own.diag.struct_size, sizeof own.diag);
    assert_int_equal(own.diag.code, INLAY_INVALID_MODEL);
    assert_int_equal(strspn(own.diag.text, "?"), sizeof own.diag.text - 1);
    assert_int_equal(strspn(own.diag.node, "?"), sizeof own.diag.node - 1);
    assert_int_equal(strspn(own.diag.tensor, "?"), sizeof own.diag.tensor - 1);
    for (size_t i = 0; i < sizeof own.behind; i++)
        assert_int_equal(own.behind[i], '\n');
}

/* A plugin may state another class than that of the status, also PERMANENT; the default, and classes that the host does
 * not know, become that of the status. */
static void error_classes(void **state)
{
    static const struct {
        inlay_status status;
        uint32_t stated, result;
    } cases[] = { { INLAY_BUSY, INLAY_CLASS_DEFAULT, INLAY_CLASS_RETRY },
                  { INLAY_BUSY, INLAY_CLASS_PERMANENT, INLAY_CLASS_PERMANENT },
                  { INLAY_BUSY, INLAY_CLASS_SHAPE, INLAY_CLASS_SHAPE },
                  { INLAY_BUSY, 77, INLAY_CLASS_RETRY },
                  { INLAY_INTERNAL, INLAY_CLASS_DEFAULT, INLAY_CLASS_PERMANENT },
                  { INLAY_INTERNAL, INLAY_CLASS_RETRY, INLAY_CLASS_RETRY } };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        inlay_diag diag = INLAY_DIAG_INIT;

        assert_int_equal(diag.error_class, INLAY_CLASS_DEFAULT);
        diag.error_class = cases[i].stated;
        assert_int_equal(boundary_finish_status(cases[i].status, &diag), cases[i].status);
        assert_int_equal(diag.error_class, cases[i].result);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unterminated_texts),
        cmocka_unit_test(valid_plugin),
        cmocka_unit_test(sizes_of_other_versions),
        cmocka_unit_test(reasons_of_refused_files),
        cmocka_unit_test(error_classes),
        cmocka_unit_test(failed_descriptions),
        cmocka_unit_test(descriptions_with_more_domains),
        cmocka_unit_test(operators_of_an_open_provider),
        cmocka_unit_test(schemas_for_plugins),
        cmocka_unit_test(speed_for_plugins),
        cmocka_unit_test(opened_twice),
        cmocka_unit_test(opened_once),
        cmocka_unit_test(files_that_are_not_plugins),
        cmocka_unit_test(directories_that_are_refused),
        cmocka_unit_test(a_file_of_the_working_directory),
        cmocka_unit_test(two_providers_of_one_name),
        cmocka_unit_test(opening_and_sharing),
        cmocka_unit_test(wrong_names_and_values),
        cmocka_unit_test(typed_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
