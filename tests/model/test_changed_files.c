/* Model files that other programs change while a session uses them: written over, cut short, full of holes, replaced.
 * Each run gives the result of the file as it was loaded, or fails with a sentence that names the file; the process
 * lives, other sessions go on, and no plug-in is blamed. The rows run in a child process, because cmocka has handlers
 * for SIGBUS of its own. */
#include "cmocka_all.h"
#include "graph_script.h"
#include "inlay/inlay.h"
#include "model/model.h"
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Each file is more than 1 MiB: w is packed by cpu, v is read in the file during runs. */
static const char script[] = "x : 1,64\nw = [64,4096]\nv = [64,4096]\na = MatMul(x, w)\ny = Add(a, v)\n-> y";
enum { COLUMNS = 64, RESULTS = 64 * 4096 };

static char folder[64], model[96], data[96], cache[96];
static float right[RESULTS];

#define EXPECT(condition, ...)                                                                                         \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            (void)fprintf(stderr, "%s:%d: %s: ", __FILE__, __LINE__, #condition);                                      \
            (void)fprintf(stderr, __VA_ARGS__);                                                                        \
            (void)fprintf(stderr, "\n");                                                                               \
            _exit(1);                                                                                                  \
        }                                                                                                              \
    } while (0)

/* Any later write changes a time of the past, however coarse the clock of the file system is. */
static void make_old(const char *path)
{
    const struct timespec times[2] = { { .tv_sec = 1600000000 }, { .tv_sec = 1600000000 } };

    EXPECT(utimensat(AT_FDCWD, path, times, 0) == 0, "%s", path);
}

/* Writes the model, with its weights in another file if outside. */
static void write_model(bool outside)
{
    const model_save_options save = { .external_file = outside ? "model.data" : NULL };
    inlay_diag diag = INLAY_DIAG_INIT;
    struct wire wire = { 0 };
    graph_model *loaded = NULL;

    script_model(&wire, 17, script);
    EXPECT(model_load_bytes(wire.bytes, wire.count, NULL, &loaded, &diag) == INLAY_OK &&
               model_save(loaded, model, &save, &diag) == INLAY_OK,
           "%s", diag.text);
    graph_model_destroy(loaded);
    wire_deinit(&wire);
    make_old(model);
    if (outside)
        make_old(data);
}

static off_t size_of(const char *path)
{
    struct stat st;

    EXPECT(stat(path, &st) == 0, "%s", path);
    return st.st_size;
}

struct run {
    inlay_session *session;
    inlay_context *context;
};

static inlay_options *make_options(const char *providers, const char *copy_bytes, const char *crash_report)
{
    const char *const pairs[] = { "providers", providers, "copy_file_bytes", copy_bytes, "crash_report", crash_report,
                                  "cache_dir", cache,     "intra_threads",   "2" };
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_options *options = NULL;

    EXPECT(inlay_options_create(&options, &diag) == INLAY_OK, "%s", diag.text);
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i += 2)
        EXPECT(inlay_options_set(options, pairs[i], pairs[i + 1], &diag) == INLAY_OK, "%s", diag.text);
    return options;
}

static void open_run(const inlay_options *options, struct run *out)
{
    static const int64_t dims[] = { 1, COLUMNS };
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_value *value = NULL;

    EXPECT(inlay_session_create(model, options, &out->session, &diag) == INLAY_OK &&
               inlay_context_create(out->session, &out->context, &diag) == INLAY_OK &&
               inlay_value_create(INLAY_FLOAT, 2, dims, &value, &diag) == INLAY_OK,
           "%s", diag.text);
    for (int i = 0; i < COLUMNS; i++)
        ((float *)inlay_value_data(value))[i] = (float)(i % 7) - 3;
    EXPECT(inlay_context_set_input(out->context, 0, value, &diag) == INLAY_OK, "%s", diag.text);
    inlay_value_unref(value);
}

static void close_run(struct run *run)
{
    inlay_context_destroy(run->context);
    inlay_session_destroy(run->session);
}

/* The bytes of the result of a run that succeeded; the run's status. */
static inlay_status run_once(struct run *run, float *result, inlay_diag *diag)
{
    const inlay_status status = inlay_context_run(run->context, NULL, diag);

    if (status == INLAY_OK)
        memcpy(result, inlay_value_data(inlay_context_output(run->context, 0)), sizeof right);
    return status;
}

/* A run is right, or fails and names the file. must_fail: the file has lost its bytes and is not in memory. */
static void expect_run(struct run *run, bool must_fail, const char *name, const char *what, long at)
{
    static float result[RESULTS];
    inlay_diag diag = INLAY_DIAG_INIT;
    const inlay_status status = run_once(run, result, &diag);

    if (status == INLAY_OK) {
        EXPECT(memcmp(result, right, sizeof right) == 0, "%s %ld: a wrong result", what, at);
        EXPECT(!must_fail, "%s %ld", what, at);
    } else {
        EXPECT(status == INLAY_IO_ERROR && strstr(diag.text, name) != NULL && strchr(diag.text, '\n') == NULL,
               "%s %ld: %s", what, at, diag.text);
        EXPECT(must_fail, "%s %ld: %s", what, at, diag.text);
    }
}

static void cut(const char *path, off_t at)
{
    EXPECT(truncate(path, at) == 0, "%s", path);
}

static void overwrite(const char *path, off_t at)
{
    int fd = open(path, O_WRONLY);
    const char bytes[100] = { 1, 2, 3 };

    EXPECT(fd >= 0 && pwrite(fd, bytes, sizeof bytes, at) == (ssize_t)sizeof bytes && close(fd) == 0, "%s", path);
}

static void rewrite(const char *path, off_t at)
{
    const off_t bytes = size_of(path);
    int fd = open(path, O_WRONLY | O_TRUNC); /* as cp does it */

    EXPECT(fd >= 0 && ftruncate(fd, bytes - at) == 0 && close(fd) == 0, "%s", path);
}

static void punch(const char *path, off_t at)
{
    int fd = open(path, O_WRONLY);

    EXPECT(fd >= 0, "%s", path);
    (void)fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, at, 65536); /* not on every file system */
    EXPECT(pwrite(fd, "", 1, at) == 1 && close(fd) == 0, "%s", path);
}

static void replace(const char *path, off_t at)
{
    char other[128];

    (void)snprintf(other, sizeof other, "%s.new", path);
    int fd = open(other, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    EXPECT(fd >= 0 && ftruncate(fd, at) == 0 && close(fd) == 0 && rename(other, path) == 0, "%s", path);
}

static void erase(const char *path, off_t at)
{
    (void)at;
    EXPECT(unlink(path) == 0, "%s", path);
}

static const struct change {
    const char *what;
    void (*apply)(const char *path, off_t at);
    bool harms; /* whether the bytes of the mapping change */
    int places;
} changes[] = { { "cut short at", cut, true, 25 },    { "overwritten at", overwrite, true, 4 },
                { "rewritten to", rewrite, true, 2 }, { "hole at", punch, true, 4 },
                { "replaced by", replace, false, 2 }, { "deleted", erase, false, 1 } };

static bool has_verdict_of_crash(void)
{
    char path[400], text[8192];
    DIR *dir;
    const struct dirent *entry;
    bool found = false;

    (void)snprintf(path, sizeof path, "%s/plugins", cache);
    dir = opendir(path);
    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        FILE *file;

        (void)snprintf(path, sizeof path, "%s/plugins/%.255s", cache, entry->d_name);
        file = fopen(path, "rb");
        if (file == NULL)
            continue;
        text[fread(text, 1, sizeof text - 1, file)] = '\0';
        found = found || strstr(text, "verdict crashed") != NULL;
        (void)fclose(file);
    }
    if (dir != NULL)
        (void)closedir(dir);
    return found;
}

/* Every change, while another session of the same model's copy in memory runs on. */
static void change_all(const char *providers, const char *crash_report, bool outside)
{
    inlay_options *mapped = make_options(providers, "0", crash_report);
    inlay_options *copied = make_options(providers, "100000000", crash_report);
    const char *path = outside ? data : model, *name = outside ? "model.data" : "model.onnx";
    inlay_diag diag = INLAY_DIAG_INIT;
    struct run other, run;
    off_t bytes;

    write_model(outside);
    bytes = size_of(path);
    open_run(copied, &other);
    EXPECT(run_once(&other, right, &diag) == INLAY_OK, "%s", diag.text);
    for (size_t c = 0; c < sizeof changes / sizeof changes[0]; c++) {
        for (int k = 0; k < changes[c].places; k++) {
            const off_t at = k == 0 ? 0 : k == 1 ? bytes - 200 : (bytes - 200) * k / changes[c].places;

            open_run(mapped, &run);
            if (k % 2 == 0)
                expect_run(&run, false, name, "before", 0);
            changes[c].apply(path, at);
            expect_run(&run, changes[c].harms, name, changes[c].what, (long)at);
            expect_run(&run, changes[c].harms, name, changes[c].what, (long)at);
            expect_run(&other, false, name, "in memory", (long)at);
            close_run(&run);
            write_model(outside);
        }
    }
    close_run(&other);
    inlay_options_destroy(mapped);
    inlay_options_destroy(copied);
    EXPECT(!has_verdict_of_crash(), "%s", cache);
}

static int64_t caught;

static void catch (int number)
{
    (void)number;
    caught++;
    (void)signal(SIGBUS, SIG_DFL);
}

static void no_handler(void)
{
    change_all("reference", "0", false);
    change_all("cpu?,reference", "0", true);
}

/* The handlers of crash_report, after one of the program, which keeps the signals that are its own. */
static void crash_report(void)
{
    (void)signal(SIGBUS, catch);
    change_all("cpu?,reference", "1", false);
    EXPECT(caught == 0, "%d", (int)caught);
    (void)raise(SIGBUS);
    EXPECT(caught == 1, "%d", (int)caught);
}

/* Without crash_report a program's handler stays. */
static void own_handler(void)
{
    inlay_options *options = make_options("reference", "0", "0");
    struct sigaction now;
    struct run run;

    (void)signal(SIGBUS, catch);
    write_model(false);
    open_run(options, &run);
    EXPECT(sigaction(SIGBUS, NULL, &now) == 0 && now.sa_handler == catch, "replaced");
    close_run(&run);
    inlay_options_destroy(options);
}

/* A SIGBUS of another mapping still ends the program. */
static void other_mapping(void)
{
    inlay_options *options = make_options("reference", "0", "0");
    struct run run;
    volatile char *bytes;
    int fd;

    write_model(false);
    open_run(options, &run);
    fd = open(cache, O_RDWR | O_TMPFILE, 0600);
    EXPECT(fd >= 0, "%s", cache);
    bytes = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, fd, 0);
    EXPECT(bytes != MAP_FAILED, "mmap");
    (void)bytes[0];
    _exit(1);
}

/* What is made of a file that changes meanwhile is refused. */
static void while_loading(void)
{
    graph_model *loaded = NULL;
    inlay_diag diag = INLAY_DIAG_INIT;
    char copy[128];

    write_model(true);
    EXPECT(model_load_path(model, NULL, &loaded, &diag) == INLAY_OK, "%s", diag.text);
    cut(data, 5000);
    (void)snprintf(copy, sizeof copy, "%s/copy.onnx", folder);
    EXPECT(model_save(loaded, copy, NULL, &diag) != INLAY_OK && access(copy, F_OK) != 0, "saved");
    graph_model_destroy(loaded);
}

static int run_rows(void (*rows)(void))
{
    pid_t pid = fork();
    int status = 0;

    assert_true(pid >= 0);
    if (pid == 0) {
        for (int number = 1; number < 32; number++)
            (void)signal(number, SIG_DFL); /* cmocka's */
        (void)snprintf(folder, sizeof folder, "/tmp/inlay-changed-XXXXXX");
        EXPECT(mkdtemp(folder) != NULL, "%s", folder);
        (void)snprintf(model, sizeof model, "%s/model.onnx", folder);
        (void)snprintf(data, sizeof data, "%s/model.data", folder);
        (void)snprintf(cache, sizeof cache, "%s/cache", folder);
        EXPECT(mkdir(cache, 0700) == 0, "%s", cache);
        rows();
        (void)snprintf(model, sizeof model, "rm -rf %s", folder);
        _exit(system(model) == 0 ? 0 : 1);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return status;
}

#define ROWS(name)                                                                                                     \
    static void test_##name(void **state)                                                                              \
    {                                                                                                                  \
        (void)state;                                                                                                   \
        assert_int_equal(run_rows(name), 0);                                                                           \
    }
ROWS(no_handler)
ROWS(crash_report)
ROWS(own_handler)
ROWS(while_loading)

static void test_other_mapping(void **state)
{
    const int status = run_rows(other_mapping);

    (void)state;
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_handler),    cmocka_unit_test(test_crash_report),  cmocka_unit_test(test_own_handler),
        cmocka_unit_test(test_while_loading), cmocka_unit_test(test_other_mapping),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
