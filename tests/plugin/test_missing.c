/* Models with operators that no plugin defines: the message names similar operators and the searched folders. */
#include "cmocka_all.h"
#include "inlay/inlay.h"
#include "onnx_bytes.h"
#include <stdbool.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* Plugin folders: one with org.example.late.Late in versions 2 and 5; one with files that are not plugins; an empty
 * one. */
static char broken_dir[] = "/tmp/inlay-missing-XXXXXX", empty_dir[] = "/tmp/inlay-missing-XXXXXX";

static void put_text(const char *name)
{
    char path[256];
    FILE *file;

    (void)snprintf(path, sizeof path, "%s/%s", broken_dir, name);
    file = fopen(path, "w");
    assert_non_null(file);
    (void)fputs("this is no plugin\n", file);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(chmod(path, 0644), 0);
}

static int make_dirs(void **state)
{
    (void)state;
    if (mkdtemp(broken_dir) == NULL || mkdtemp(empty_dir) == NULL)
        return -1;
    put_text("a_broken.so");
    return 0;
}

static int remove_dirs(void **state)
{
    static const char *const names[] = { "a_broken.so", "b_broken.so" };
    char path[256];

    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        (void)snprintf(path, sizeof path, "%s/%s", broken_dir, names[i]);
        (void)unlink(path);
    }
    (void)rmdir(broken_dir);
    (void)rmdir(empty_dir);
    return 0;
}

/* Opens a model of one node that imports its domain at a version, with plugin folders. */
static void open_model(const char *dirs, const char *domain, const char *op_type, int64_t version, inlay_status want,
                       inlay_diag *diag)
{
    static const int64_t dims[] = { 2, 4 };
    onnx_bytes bytes = { .count = 0 }, file = { .count = 0 }, import = { .count = 0 };
    inlay_options *options = NULL;
    inlay_session *session = NULL;

    onnx_input(&bytes, "x", INLAY_FLOAT, 2, dims);
    onnx_node(&bytes, op_type, domain, "x", "y");
    onnx_output(&bytes, "y", INLAY_FLOAT, 2, dims);
    assert_int_equal(onnx_file(&file, &bytes, 17, NULL), 0);
    onnx_text(&import, 1, domain);
    onnx_number(&import, 2, version);
    onnx_message(&file, 8, &import);
    assert_int_equal(file.overflow, 0);
    *diag = (inlay_diag)INLAY_DIAG_INIT;
    assert_int_equal(inlay_options_create(&options, diag), INLAY_OK);
    assert_int_equal(inlay_options_set(options, "plugin_dirs", dirs, diag), INLAY_OK);
    if (inlay_session_create_from_bytes(file.data, file.count, options, &session, diag) != want)
        fail_msg("%s %s %lld: %s", domain, op_type, (long long)version, diag->text);
    inlay_session_destroy(session);
    inlay_options_destroy(options);
}

static void messages_name_alternatives(void **state)
{
    static const struct {
        const char *domain, *op_type;
        int64_t version;
        const char *words[4]; /* required parts of the message */
        const char *absent;   /* must not occur, or NULL */
    } rows[] = {
        { "org.example.lake",
          "Late",
          2,
          { "operator Late of domain 'org.example.lake'", "did you mean domain 'org.example.late'?",
            "Searched: ", "versions" },
          NULL },
        { "com.nowhere", "Blur", 1, { "operator Blur of domain 'com.nowhere'", "Searched: " }, "did you mean" },
        { "ai.onnx.mk", "Scaler", 1, { "did you mean domain 'ai.onnx.ml'?" }, NULL },
        { "org.example.late",
          "Late",
          1,
          { "since version 2 (2, 5)", "imports version 1", "'org.example.late'" },
          "did you mean" },
        { "org.example.late", "Lake", 5, { "no operator Lake", "did you mean Late?", "'org.example.late'" }, NULL },
        { "org.example.late", "Something", 5, { "no operator Something", "they have: Late" }, "did you mean" },
    };

    (void)state;
    for (size_t row = 0; row < sizeof rows / sizeof rows[0]; row++) {
        inlay_diag diag;

        open_model(VERSIONS_DIR, rows[row].domain, rows[row].op_type, rows[row].version, INLAY_UNSUPPORTED, &diag);
        for (size_t word = 0; word < 4 && rows[row].words[word] != NULL; word++)
            if (strstr(diag.text, rows[row].words[word]) == NULL)
                fail_msg("row %zu: '%s' does not contain '%s'", row, diag.text, rows[row].words[word]);
        if (rows[row].absent != NULL && strstr(diag.text, rows[row].absent) != NULL)
            fail_msg("row %zu: '%s' contains '%s'", row, diag.text, rows[row].absent);
        if (strstr(diag.text, "Not loaded") != NULL)
            fail_msg("row %zu: '%s' names files that do not exist", row, diag.text);
    }
}

/* The model of the first row, in a folder with plugins that do not load, in an empty one, and in both. */
static void files_that_were_not_loaded(void **state)
{
    char both[512];
    inlay_diag diag;

    (void)state;
    open_model(empty_dir, "com.nowhere", "Blur", 1, INLAY_UNSUPPORTED, &diag);
    assert_non_null(strstr(diag.text, empty_dir));
    assert_null(strstr(diag.text, "Not loaded"));

    open_model(broken_dir, "com.nowhere", "Blur", 1, INLAY_UNSUPPORTED, &diag);
    assert_non_null(strstr(diag.text, broken_dir));
    assert_non_null(strstr(diag.text, "Not loaded: a_broken.so; see `inlay providers` for the reason."));

    put_text("b_broken.so");
    (void)snprintf(both, sizeof both, "%s:%s", empty_dir, broken_dir);
    open_model(both, "com.nowhere", "Blur", 1, INLAY_UNSUPPORTED, &diag);
    assert_non_null(strstr(diag.text, empty_dir));
    assert_non_null(strstr(diag.text, broken_dir));
    assert_non_null(strstr(diag.text, "Not loaded: a_broken.so and 1 more; see"));
}

/* Names of any length and with any bytes give one line that still names the operator's domain. */
static void names_from_a_hostile_file(void **state)
{
    char domain[400], op_type[400];
    inlay_diag diag;

    (void)state;
    memset(domain, 'd', sizeof domain - 1);
    memset(op_type, 'o', sizeof op_type - 1);
    domain[sizeof domain - 1] = op_type[sizeof op_type - 1] = '\0';
    open_model(broken_dir, domain, op_type, 1, INLAY_UNSUPPORTED, &diag);
    assert_non_null(strstr(diag.text, "of domain 'dddddddd"));
    open_model(broken_dir, "two\nlines\033[2J", "Op\nType", 1, INLAY_UNSUPPORTED, &diag);
    assert_null(strpbrk(diag.text, "\n\033"));
}

/* Existing versions are found: the newest that is not above the import. The remaining error is that no provider
 * supports it. */
static void existing_versions(void **state)
{
    static const int64_t versions[] = { 2, 3, 5, 99 };
    inlay_diag diag;

    (void)state;
    for (size_t version = 0; version < sizeof versions / sizeof versions[0]; version++) {
        open_model(VERSIONS_DIR, "org.example.late", "Late", versions[version], INLAY_UNSUPPORTED, &diag);
        assert_null(strstr(diag.text, "the model imports"));
        assert_non_null(strstr(diag.text, "no provider runs Late"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_name_alternatives),
        cmocka_unit_test(files_that_were_not_loaded),
        cmocka_unit_test(names_from_a_hostile_file),
        cmocka_unit_test(existing_versions),
    };
    return cmocka_run_group_tests(tests, make_dirs, remove_dirs);
}
