/* Crashes of plugins while a model is loaded or run, as seen on the command line: the message, the quarantine, and the
 * behaviour of the next run. */
#include "onnx_bytes.h"
#include "folder.h"
#include "inlay/inlay.h"
#include <signal.h>
#include <sys/wait.h>

static struct folder test_folder;
static char out[65536], err[65536];

static void read_text(const char *name, char *text, size_t room)
{
    char path[128];
    unsigned char *data;
    size_t bytes;

    (void)snprintf(path, sizeof path, "%s/%s", test_folder.root, name);
    data = file_bytes(path, &bytes);
    bytes = bytes < room - 1 ? bytes : room - 1;
    memcpy(text, data, bytes);
    text[bytes] = '\0';
    free(data);
}

/* Runs inlay with these arguments; returns its wait status. */
static int cli(const char *arguments)
{
    char command[1024];
    int status;

    (void)snprintf(command, sizeof command,
                   "cd '%s' && exec '%s' %s --plugin-dirs '%s' --cache-dir '%s/cache' >out 2>err", test_folder.root,
                   INLAY_CLI, arguments, test_folder.plugins, test_folder.root);
    status = system(command);
    read_text("out", out, sizeof out);
    read_text("err", err, sizeof err);
    return status;
}

static void expect_text(const char *text, const char *words)
{
    if (strstr(text, words) == NULL)
        fail_msg("'%s' is not in '%s'", words, text);
}

/* A model of one Relu node, which has the name of its output. Models that differ in width count as different models. */
static void write_wide_model(const char *output, int64_t width)
{
    const int64_t dims[] = { 2, width };
    onnx_bytes bytes = { .count = 0 }, file = { .count = 0 };
    char path[128];

    onnx_node(&bytes, "Relu", "", "x", output);
    onnx_input(&bytes, "x", INLAY_FLOAT, 2, dims);
    onnx_output(&bytes, output, INLAY_FLOAT, 2, dims);
    assert_int_equal(onnx_file(&file, &bytes, 17, NULL), 0);
    (void)snprintf(path, sizeof path, "%s/model.onnx", test_folder.root);
    file_write(path, file.data, file.count);
}

static void write_model(const char *output)
{
    write_wide_model(output, 3);
}

static void begin(const char *evil, const char *node)
{
    char path[128];

    folder_make(&test_folder);
    (void)snprintf(path, sizeof path, "%s/cache", test_folder.root);
    assert_int_equal(mkdir(path, 0700), 0);
    folder_add(&test_folder, evil, evil);
    write_model(node);
}

static bool died(int status)
{
    /* The shell's exec passes the signal on; sanitizers turn it into an exit code. */
    return WIFSIGNALED(status) || (WIFEXITED(status) && WEXITSTATUS(status) != 0);
}

static void in_execute(void **state)
{
    (void)state;
    begin("execute_boom", "calm");
    assert_int_equal(cli("run model.onnx --input x=random --providers execute_boom"), 0);
    write_model("boom");
    assert_true(died(cli("run model.onnx --input x=random --providers execute_boom,reference")));
    expect_text(err, "inlay: plugin execute_boom (");
    expect_text(err, "/execute_boom.so) crashed (SIGSEGV) in execute of node 'boom', provider execute_boom");
    expect_text(err, "'inlay providers --retry execute_boom'");
    assert_int_equal(cli("providers"), 0);
    expect_text(out, "/execute_boom.so: execute_boom 6.6.6");
    expect_text(out,
                "not loaded for 1 model for a day, or until --retry: it crashed (SIGSEGV) in execute of node 'boom'");
    assert_int_not_equal(cli("doctor model.onnx --seconds 0"), 0);
    expect_text(out, "warning plugin-quarantined: plugin execute_boom is not used: it crashed (SIGSEGV) in execute of "
                     "node 'boom'");
    expect_text(out, "it is not loaded for this model until it changes, a day later, or by 'inlay providers --retry ");
    /* A quarantined provider that is named in the options gives an error with the reason. An optional one is
     * skipped. */
    assert_int_not_equal(cli("run model.onnx --input x=random --providers execute_boom,reference"), 0);
    expect_text(err, "no provider 'execute_boom'");
    expect_text(err, "crashed (SIGSEGV) in execute of node 'boom'");
    assert_int_equal(cli("run model.onnx --input x=random --providers 'execute_boom?,reference'"), 0);
    assert_int_equal(cli("run model.onnx --input x=random"), 0);
    /* Other models still use it. */
    write_model("calm");
    assert_int_equal(cli("run model.onnx --input x=random --providers execute_boom"), 0);
    assert_int_equal(cli("doctor model.onnx --seconds 0"), 0);
    expect_text(out, "note    plugin-crashed: plugin execute_boom is not used for 1 other model for a day, or until "
                     "'inlay providers --retry execute_boom': it crashed (SIGSEGV) in execute of node 'boom'");
    assert_int_equal(cli("providers --retry execute_boom"), 0);
    expect_text(out, "/execute_boom.so: execute_boom 6.6.6");
    assert_null(strstr(out, "not loaded for"));
    assert_int_equal(cli("doctor model.onnx --seconds 0"), 0);
    expect_text(out, "model.onnx: no findings");
    assert_int_not_equal(cli("providers --retry execute_boom"), 0);
    expect_text(err, "no plugin 'execute_boom' is in quarantine");
    folder_remove(&test_folder);
}

static void in_assess_and_compile(void **state)
{
    static const struct {
        const char *evil, *words;
    } rows[] = { { "assess_boom", "crashed (SIGSEGV) in assess" },
                 { "compile_boom", "crashed (SIGABRT) in compile of node 'boom', provider compile_boom" } };
    char command[160];

    (void)state;
    for (size_t row = 0; row < 2; row++) {
        begin(rows[row].evil, "boom");
        /* If the provider is not named, the command succeeds without it. */
        assert_int_equal(cli("run model.onnx --input x=random"), 0);
        expect_text(err, rows[row].words);
        expect_text(err, "restarting without the plugin");
        expect_text(out, "boom");
        assert_int_equal(cli("run model.onnx --input x=random"), 0);
        assert_null(strstr(err, "restarting"));
        assert_int_equal(cli("providers --json"), 0);
        expect_text(out, "\"crashed_models\": 1");
        (void)snprintf(command, sizeof command, "providers --retry %s", rows[row].evil);
        assert_int_equal(cli(command), 0);
        /* If the provider is named, its crash gives an error that names it. */
        (void)snprintf(command, sizeof command, "run model.onnx --input x=random --providers %s,reference",
                       rows[row].evil);
        assert_int_not_equal(cli(command), 0);
        expect_text(err, rows[row].words);
        expect_text(err, "restarting without the plugin");
        expect_text(err, "no provider '");
        folder_remove(&test_folder);
    }
}

/* An application enables crash reports with an option, and its own signal handler still runs. */
static void in_an_application(void **state)
{
    char path[128], log_path[128], dir[128];
    int status;
    pid_t pid;

    (void)state;
    begin("execute_boom", "boom");
    (void)snprintf(path, sizeof path, "%s/model.onnx", test_folder.root);
    (void)snprintf(log_path, sizeof log_path, "%s/err", test_folder.root);
    (void)snprintf(dir, sizeof dir, "%s/cache", test_folder.root);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        inlay_options *options = NULL;
        inlay_session *session = NULL;
        inlay_context *context = NULL;
        inlay_value *value = NULL;
        static const int64_t dims[] = { 2, 3 };
        inlay_diag diag = INLAY_DIAG_INIT;
        int fd = open(log_path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

        (void)signal(SIGSEGV, SIG_DFL); /* cmocka's handler would turn it into a failed test */
        (void)dup2(fd, STDERR_FILENO);
        if (inlay_options_create(&options, &diag) != INLAY_OK ||
            inlay_options_set(options, "plugin_dirs", test_folder.plugins, &diag) != INLAY_OK ||
            inlay_options_set(options, "cache_dir", dir, &diag) != INLAY_OK ||
            inlay_options_set(options, "providers", "execute_boom", &diag) != INLAY_OK ||
            inlay_options_set(options, "crash_report", "1", &diag) != INLAY_OK ||
            inlay_session_create(path, options, &session, &diag) != INLAY_OK ||
            inlay_context_create(session, &context, &diag) != INLAY_OK ||
            inlay_value_create(INLAY_FLOAT, 2, dims, &value, &diag) != INLAY_OK ||
            inlay_context_set_input(context, 0, value, &diag) != INLAY_OK)
            _exit(99);
        (void)!inlay_context_run(context, NULL, &diag);
        _exit(98);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
    read_text("err", err, sizeof err);
    expect_text(err, "crashed (SIGSEGV) in execute of node 'boom', provider execute_boom");
    assert_int_equal(cli("providers"), 0);
    expect_text(out,
                "not loaded for 1 model for a day, or until --retry: it crashed (SIGSEGV) in execute of node 'boom'");
    folder_remove(&test_folder);
}

/* Sets the age of all marks. */
static void make_marks_old(void)
{
    char command[256];

    (void)snprintf(command, sizeof command, "touch -d '25 hours ago' '%s'/cache/plugins/*.verdict.*", test_folder.root);
    assert_int_equal(system(command), 0);
}

/* A plugin that crashes is shut out for that model, for all models after crashes with three, and for a day. */
static void with_several_models(void **state)
{
    static const char run[] = "run model.onnx --input x=random --providers execute_boom";

    (void)state;
    begin("execute_boom", "boom");
    for (int64_t width = 3; width < 6; width++) {
        write_wide_model("calm", 7);
        assert_int_equal(cli(run), 0);
        write_wide_model("boom", width);
        for (int i = 0; i < 2; i++) /* the second time it is not loaded */
            assert_true(died(cli(run)));
        expect_text(err, "no provider 'execute_boom'");
    }
    write_wide_model("calm", 7);
    assert_true(died(cli(run)));
    expect_text(err, "no provider 'execute_boom'");
    assert_int_equal(cli("providers"), 0);
    expect_text(out, "/execute_boom.so: quarantined: it crashed (SIGSEGV) in execute of node 'boom'");
    expect_text(out, "it is not loaded for any model (it crashed with several)");
    make_marks_old();
    assert_int_equal(cli(run), 0);
    write_wide_model("boom", 3);
    assert_true(died(cli(run)));
    write_wide_model("calm", 7);
    assert_int_equal(cli(run), 0);
    folder_remove(&test_folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(in_execute),
        cmocka_unit_test(in_assess_and_compile),
        cmocka_unit_test(in_an_application),
        cmocka_unit_test(with_several_models),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
