/* What a run in steady state does not do (sdk/docs/pages/bounded.md): on one thread, after the tenth run, it makes no
 * system call and no page fault; with other data it executes the same instructions.
 *
 *     test_bounded            system calls and page faults
 *     test_bounded runs N     the same in N runs of each model, and what was counted
 *     test_bounded SEED       runs every model on the data of that seed, for bounded.sh, which counts instructions */
#include "graph_script.h"
#include "level.h"
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* The system may take pages away, or move them, at any time: one attempt without a fault suffices. */
enum { WARM = 10, ATTEMPTS = 5 };
static uint32_t run_count = 1000;

/* Five models: a perceptron, a convolutional network, attention, a quantized layer, a recurrent cell. */
static const struct {
    const char *name, *script;
} models[] = {
    { "perceptron", "x : 4,64\nw = [64,128]\nb = [128]\nv = [128,16]\n"
                    "h = MatMul(x, w)\ni = Add(h, b)\nj = Relu(i)\nk = MatMul(j, v)\ny = Softmax(k)\n-> y" },
    { "convolutions", "x : 1,8,20,20\nw = [16,8,3,3]\nb = [16]\nv = [16,1,3,3]\n"
                      "c = Conv(x, w, b) pads=1,1,1,1\nr = Relu(c)\nd = Conv(r, v) group=16 pads=1,1,1,1\n"
                      "s = Sigmoid(d)\nm = Mul(d, s)\np = MaxPool(m) kernel_shape=2,2 strides=2,2\n"
                      "y = GlobalAveragePool(p)\n-> y" },
    { "attention",
      "x : 2,12,32\nq = [32,32]\nk = [32,32]\nv = [32,32]\ng = [32]\nh = [32]\n"
      "n = LayerNormalization(x, g, h)\na = MatMul(n, q)\nb = MatMul(n, k)\nc = MatMul(n, v)\n"
      "t = Transpose(b) perm=0,2,1\ns = MatMul(a, t)\np = Softmax(s)\no = MatMul(p, c)\ny = Add(o, x)\n-> y" },
    { "quantized", "x : 4,64\ns = [] 0.02\nz = uint8[] 128\nw = [64,32]\nu = [] 0.01\n"
                   "q = QuantizeLinear(x, s, z)\nd = DequantizeLinear(q, s, z)\nr = QuantizeLinear(w, u)\n"
                   "e = DequantizeLinear(r, u)\ny = MatMul(d, e)\n-> y" },
    { "gates", "x : 4,32\nc : 4,32\nw = [32,32]\nv = [32,32]\n"
               "f = MatMul(x, w)\ng = Sigmoid(f)\nh = MatMul(x, v)\ni = Tanh(h)\nj = Mul(g, c)\nk = Mul(g, i)\n"
               "l = Add(j, k)\nm = Tanh(l)\ny = Mul(g, m)\n-> y, l" },
};
enum { MODELS = sizeof models / sizeof models[0] };

static bool try_open(size_t model, struct rig *rig)
{
    static const char *const options[] = { "providers", "cpu,reference", "policy", "priority", "intra_threads", "1",
                                           NULL };
    struct wire wire = { 0 };

    script_model(&wire, 17, models[model].script);
    return rig_open_if_built(&wire, options, models[model].name, rig);
}

static void bind(struct rig *rig, uint64_t seed)
{
    for (uint32_t i = 0; i < inlay_session_input_count(rig->session); i++) {
        inlay_io_info info = { .struct_size = sizeof info };
        int64_t dims[INLAY_MAX_RANK];
        inlay_value *value = NULL;

        assert_int_equal(inlay_session_input(rig->session, i, &info), INLAY_OK);
        for (uint32_t d = 0; d < info.rank; d++)
            dims[d] = info.dims[d];
        assert_int_equal(inlay_value_create(INLAY_FLOAT, info.rank, dims, &value, NULL), INLAY_OK);
        for (int64_t k = 0; k < inlay_value_count(value); k++)
            ((float *)inlay_value_data(value))[k] = 3 * random_signed(&seed);
        rig_bind(rig, i, value);
    }
}

static void run(struct rig *rig, uint32_t runs)
{
    for (uint32_t i = 0; i < runs; i++)
        rig_run(rig);
}

static long faults(void)
{
    struct rusage usage;

    assert_int_equal(getrusage(RUSAGE_SELF, &usage), 0);
    return usage.ru_minflt + usage.ru_majflt;
}

/* Locked memory of this process; 0: none, or not known. */
static long locked_bytes(void)
{
    FILE *file = fopen("/proc/self/status", "re");
    char line[256];
    long kilobytes = 0;

    while (file != NULL && fgets(line, sizeof line, file) != NULL)
        if (strncmp(line, "VmLck:", 6) == 0)
            kilobytes = strtol(line + 6, NULL, 10);
    if (file != NULL)
        (void)fclose(file);
    return kilobytes * 1024;
}

static void page_faults(void **state)
{
    (void)state;
    for (size_t m = 0; m < MODELS; m++) {
        struct rig rig;
        long taken = 1;

        if (!try_open(m, &rig))
            return;
        bind(&rig, 1);
        run(&rig, WARM);
        for (int attempt = 0; attempt < ATTEMPTS && taken > 0; attempt++) {
            taken = -faults();
            run(&rig, run_count);
            taken += faults();
            if (taken > 0)
                print_message("%s: %ld page faults in %u runs\n", models[m].name, taken, run_count);
        }
        rig_close(&rig);
        if (taken != 0)
            fail_msg("%s: page faults in each of %d attempts", models[m].name, (int)ATTEMPTS);
    }
}

/* Option realtime locks all memory of a process, which this user may not be permitted. */
static bool may_lock(void)
{
    struct rlimit most;

    return getrlimit(RLIMIT_MEMLOCK, &most) == 0 && (geteuid() == 0 || most.rlim_cur == RLIM_INFINITY);
}

/* As try_open(), of a file, which is mapped unless option realtime is set. */
static bool try_open_file(size_t model, bool realtime, struct rig *rig)
{
    const char *const options[] = {
        "providers",          "cpu?,reference",  "policy", "priority", "intra_threads", "1", "realtime",
        realtime ? "1" : "0", "copy_file_bytes", "0",      NULL
    };
    char path[] = "/tmp/inlay-bounded-XXXXXX";
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_options *made = rig_options(options, &diag);
    const int fd = mkstemp(path);

    *rig = (struct rig){ 0 };
    script_model(&rig->model, 17, models[model].script);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, rig->model.bytes, rig->model.count), rig->model.count);
    assert_int_equal(close(fd), 0);
    if (inlay_session_create(path, made, &rig->session, &diag) != INLAY_OK ||
        inlay_context_create(rig->session, &rig->context, &diag) != INLAY_OK)
        fail_msg("%s", diag.text);
    inlay_options_destroy(made);
    (void)unlink(path);
    return true;
}

enum source { FROM_BYTES, FROM_MAPPED_FILE, FROM_LOCKED_FILE };

/* In a new process: after the first runs only read(), write() and exit() are permitted; any other call kills it. */
static int run_without_calls(size_t model, enum source source, bool calls)
{
    const pid_t child = fork();
    int state = 0;

    if (child == 0) {
        struct rig rig;

        if (source == FROM_BYTES ? try_open(model, &rig) : try_open_file(model, source == FROM_LOCKED_FILE, &rig)) {
            bind(&rig, 1);
            run(&rig, WARM);
            if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT) != 0)
                _exit(2);
            run(&rig, run_count);
            if (calls)
                (void)getppid();
        }
        (void)syscall(SYS_exit, 0); /* _exit() makes another call */
    }
    assert_int_equal(waitpid(child, &state, 0), child);
    return state;
}

static void system_calls(void **state)
{
    (void)state;
    assert_true(WIFSIGNALED(run_without_calls(0, FROM_BYTES, true)));        /* the test finds a call */
    assert_true(WIFSIGNALED(run_without_calls(0, FROM_MAPPED_FILE, false))); /* is the file as it was? */
    for (size_t m = 0; m < MODELS; m++) {
        for (int source = FROM_BYTES; source <= FROM_LOCKED_FILE; source++) {
            int ended;

            if (source == FROM_MAPPED_FILE || (source == FROM_LOCKED_FILE && !may_lock()))
                continue;
            ended = run_without_calls(m, source, false);
            if (ended != 0)
                fail_msg("%s: a run made a system call (state %d)", models[m].name, ended);
        }
    }
}

/* The message of opening or running a model with option realtime; "": it ran. */
static const char *refused(const char *script, const char *name, const char *value, inlay_diag *diag)
{
    const char *const options[] = { "providers", "reference", "realtime", "1", name, value, NULL };
    struct wire wire = { 0 };
    struct rig rig;
    inlay_status status;

    *diag = (inlay_diag)INLAY_DIAG_INIT;
    script_model(&wire, 17, script);
    status = rig_try_open(&wire, options, &rig, diag);
    if (status == INLAY_OK) {
        bind(&rig, 1);
        status = inlay_context_run(rig.context, NULL, diag);
    }
    if (status == INLAY_OK)
        diag->text[0] = '\0';
    rig_close(&rig);
    return diag->text;
}

/* Several runs, one of them at other sizes; in a new process, because locked memory stays locked. */
static void run_realtime(void)
{
    static const char *const options[] = { "providers", "cpu?,reference", "realtime", "1", NULL };
    struct wire wire = { 0 };
    inlay_diag diag = INLAY_DIAG_INIT;
    const float data[8] = { 1, 2, 3, 4, 5, 6, 7, 8 };
    struct rig rig;
    long before;

    script_model(&wire, 17, "x : N,4\ny = Exp(x)\nz = Neg(y)\n-> z");
    rig = rig_open(&wire, options);
    rig_floats(&rig, 0, "1,4", data);
    rig_run(&rig);
    before = locked_bytes();
    assert_true(before > 0);
    run(&rig, run_count);
    assert_int_equal(locked_bytes(), before);
    rig_floats(&rig, 0, "2,4", data);
    assert_int_equal(inlay_context_run(rig.context, NULL, &diag), INLAY_UNSUPPORTED);
    assert_non_null(strstr(diag.text, "option realtime: other input sizes"));
    rig_floats(&rig, 0, "1,4", data); /* the context still runs at the first sizes */
    rig_run(&rig);
    rig_close(&rig);
}

/* A first run that may lock no memory. The user nobody may not be able to read the plug-ins, so the session is open
 * before. */
static int run_without_lock(void)
{
    static const char *const options[] = { "providers", "reference", "realtime", "1", NULL };
    const struct rlimit none = { 0, 0 };
    struct wire wire = { 0 };
    inlay_diag diag = INLAY_DIAG_INIT;
    struct rig rig;

    script_model(&wire, 17, "x : 2,4\ny = Exp(x)\n-> y");
    rig = rig_open(&wire, options);
    bind(&rig, 1);
    if (setrlimit(RLIMIT_MEMLOCK, &none) != 0 || (geteuid() == 0 && setuid(65534) != 0))
        return 0;
    return inlay_context_run(rig.context, NULL, &diag) == INLAY_LIMIT_EXCEEDED &&
                   strstr(diag.text, "memory cannot be locked") != NULL
               ? 0
               : 1;
}

static void realtime(void **state)
{
    const char *pointwise = "x : 2,4\ny = Exp(x)\n-> y";
    inlay_diag diag;
    pid_t child;
    int ended = 0;

    (void)state;
    assert_non_null(strstr(refused("x : 2,4\ny = NonZero(x)\n-> y", "priority", "normal", &diag),
                           "option realtime: NonZero node '"));
    assert_non_null(strstr(diag.text, "its sizes depend on data"));
    assert_non_null(strstr(refused("x : 2,4\nz = [] 100\ns = ReduceSum(x) keepdims=0\nt = Greater(z, s)\n"
                                   "y = If(t) then:Neg(x) else:Relu(x)\n-> y",
                                   "priority", "normal", &diag),
                           "is run by the host"));
    assert_non_null(strstr(refused(pointwise, "intra_threads", "2", &diag), "with intra_threads above 1"));
    assert_non_null(strstr(refused(pointwise, "isolate", "reference", &diag), "with isolate"));
    assert_non_null(strstr(refused(pointwise, "idle_trim_ms", "5", &diag), "with idle_trim_ms"));
    assert_non_null(strstr(refused(pointwise, "watchdog", "0.5", &diag), "with watchdog"));
    assert_non_null(strstr(refused(pointwise, "memory_limit", "host=1G", &diag), "with memory_limit"));
    child = fork();
    if (child == 0) {
        if (may_lock())
            run_realtime();
        _exit(0);
    }
    assert_int_equal(waitpid(child, &ended, 0), child);
    assert_int_equal(ended, 0);
    child = fork();
    if (child == 0)
        _exit(run_without_lock());
    assert_int_equal(waitpid(child, &ended, 0), child);
    assert_int_equal(ended, 0);
}

/* bounded.sh counts the instructions of this function alone. */
__attribute__((noinline)) void counted_runs(struct rig *rig);
void counted_runs(struct rig *rig)
{
    run(rig, 2);
}

static void run_all(uint64_t seed)
{
    for (size_t m = 0; m < MODELS; m++) {
        struct rig rig;

        if (!try_open(m, &rig))
            continue;
        bind(&rig, seed + m);
        run(&rig, WARM);
        counted_runs(&rig);
        rig_close(&rig);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(page_faults), cmocka_unit_test(system_calls),
                                        cmocka_unit_test(realtime) };

    if (argc == 3 && strcmp(argv[1], "runs") == 0) {
        run_count = (uint32_t)strtoul(argv[2], NULL, 10);
        return cmocka_run_group_tests(tests, NULL, NULL);
    }
    if (argc == 2) {
        run_all(strtoull(argv[1], NULL, 10));
        return 0;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
