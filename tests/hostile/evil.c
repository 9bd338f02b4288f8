/* A plugin in many malicious variants, selected by -DHOSTILE_<name>. Its provider has the name of the variant and
 * offers Relu. The variants *_boom work until they see a node with the name "boom". */
#include "inlay/note.h"
#ifdef HOSTILE_isa
#undef INLAY_NOTE_ISA_EXTRA
#define INLAY_NOTE_ISA_EXTRA (1u << 30)
#endif
#ifdef HOSTILE_level
#undef INLAY_NOTE_ISA
#define INLAY_NOTE_ISA 9
#endif
#ifdef HOSTILE_sanitized
#undef INLAY_NOTE_SANITIZERS
#define INLAY_NOTE_SANITIZERS INLAY_SANITIZER_MEMORY
#endif
#ifdef HOSTILE_minor
#undef INLAY_NOTE_OLDEST_MINOR
#define INLAY_NOTE_OLDEST_MINOR 99
#endif
#include "inlay/kit.h"
#include <fcntl.h>
#include <fenv.h>
#include <locale.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)
#define NAME TEXT(HOSTILE)
#define UNUSED __attribute__((unused))

/* A crash that the compiler cannot optimise away. */
static UNUSED void crash(void)
{
    volatile int *volatile nowhere = (volatile int *)8;
    *nowhere = 1;
}

static UNUSED void *sleep_long(void *user)
{
    (void)sleep(20);
    return user;
}

static UNUSED void leave_thread(void)
{
    static int started;
    pthread_t thread;

    if (started++ == 0 && pthread_create(&thread, NULL, sleep_long, NULL) == 0)
        (void)pthread_detach(thread);
}

static UNUSED void hang(void)
{
    for (;;)
        (void)pause();
}

/* Waits while the test holds the pipe $INLAY_GATE open for writing; goes on at once if there is none. */
static UNUSED void wait_at_gate(void)
{
    const char *path = getenv("INLAY_GATE");
    const int fd = path != NULL ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    char some;

    while (fd >= 0 && read(fd, &some, 1) > 0)
        ;
    if (fd >= 0)
        (void)close(fd);
}

#if defined(HOSTILE_segv_constructor) || defined(HOSTILE_hang_constructor) || defined(HOSTILE_exit_constructor) ||     \
    defined(HOSTILE_abort_constructor) || defined(HOSTILE_atexit) || defined(HOSTILE_future) ||                        \
    defined(HOSTILE_old) || defined(HOSTILE_minor) || defined(HOSTILE_isa) || defined(HOSTILE_level) ||                \
    defined(HOSTILE_sanitized) || defined(HOSTILE_musl) || defined(HOSTILE_gate)
__attribute__((constructor)) static void construct(void)
{
#if defined(HOSTILE_hang_constructor)
    hang();
#elif defined(HOSTILE_exit_constructor)
    exit(0);
#elif defined(HOSTILE_abort_constructor)
    abort();
#elif defined(HOSTILE_atexit)
    (void)atexit(crash);
#elif defined(HOSTILE_gate)
    wait_at_gate();
#else
    crash(); /* a host that reads the note must not load this plugin */
#endif
}
#endif

static UNUSED int is_boom(const inlay_node_info *node)
{
    return node->name.bytes == 4 && memcmp(node->name.data, "boom", 4) == 0;
}

#if defined(HOSTILE_static_tls)
/* More than the dynamic linker has left for a library that is loaded later. */
static __thread __attribute__((tls_model("initial-exec"))) volatile char per_thread[64 * 1024];
#endif

static bool supports(const kit_node *node, kit_refusal *why)
{
    (void)node, (void)why;
#if defined(HOSTILE_assess)
    crash();
#elif defined(HOSTILE_hang_assess)
    hang();
#elif defined(HOSTILE_assess_boom)
    if (is_boom(node->info))
        crash();
#endif
    return true;
}

static inlay_status prepare(const kit_node *node, void **out_state, inlay_diag *diag)
{
    (void)diag;
#if defined(HOSTILE_compile)
    crash();
#elif defined(HOSTILE_compile_boom)
    if (is_boom(node->info))
        abort();
#elif defined(HOSTILE_execute_boom)
    *out_state = is_boom(node->info) ? malloc(1) : NULL;
#endif
    (void)node, (void)out_state;
    return INLAY_OK;
}

static UNUSED inlay_status on_worker(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    (void)user, (void)begin, (void)end, (void)worker;
    crash();
    return INLAY_OK;
}

#if defined(HOSTILE_undefined)
void missing_function(void);
#endif

static inlay_status run(const kit_call *call)
{
    const float *input = call->in[0].data;
    float *output = call->out[0].data;

#if defined(HOSTILE_rude)
    (void)fesetround(FE_UPWARD);
    (void)umask(0);
    (void)!chdir("/");
    (void)signal(SIGUSR1, SIG_IGN);
    (void)setlocale(LC_ALL, "C.UTF-8");
    (void)fprintf(stderr, "relu\n");
    leave_thread();
#elif defined(HOSTILE_undefined)
    missing_function();
#elif defined(HOSTILE_reads)
    char some[16];

    (void)!read(STDIN_FILENO, some, sizeof some);
#elif defined(HOSTILE_example)
    if (call->in[0].count == 5)
        crash();
#elif defined(HOSTILE_execute)
    crash();
#elif defined(HOSTILE_static_tls)
    per_thread[0]++;
#elif defined(HOSTILE_execute_boom)
    if (call->state != NULL)
        return kit_parallel(call, call->in[0].count, 1, on_worker, NULL);
#endif
    for (int64_t i = 0; i < call->in[0].count; i++)
        output[i] = input[i] < 0 ? 0 : input[i];
    return INLAY_OK;
}

/* The lowest cost, so that it is always chosen. */
static void cost(const kit_node *node, const kit_plan *shapes, inlay_cost *out)
{
    (void)node, (void)shapes;
    out->ns = 0.001;
}

static const kit_kernel kernels[] = { {
#if defined(HOSTILE_example)
    .domain = "com.evil",
    .op_type = "Five",
    .since_max = 1,
#else
    .op_type = "Relu",
#endif
    .in_types = { KIT_BIT(FLOAT) },
    .supports = supports,
    .cost = cost,
    .prepare = prepare,
    .run = run } };

#if defined(HOSTILE_example)
/* A custom operator with an example of five elements. */
static inlay_status infer(void *ctx, inlay_infer *in, inlay_diag *diag)
{
    (void)ctx, (void)diag;
    return in->set_output(in->ctx, 0, INLAY_UNDEFINED, in->inputs[0]->rank, in->inputs[0]->dims);
}
static const float elements[5];
static const int64_t five = 5;
static const inlay_tensor_view tensor = { elements, sizeof elements, &five, 1, INLAY_FLOAT };
static const inlay_op_example example = {
    .name = "five", .inputs = &tensor, .input_count = 1, .outputs = &tensor, .output_count = 1
};
static const inlay_operator operators[] = { { .struct_size = sizeof(inlay_operator),
                                              .domain = "com.evil",
                                              .op_type = "Five",
                                              .signature = "X:T -> Y:T; T=float",
                                              .doc = "The positive part.",
                                              .since_version = 1,
                                              .infer = infer,
                                              .examples = &example,
                                              .example_count = 1,
                                              .example_stride = sizeof example } };
#endif

static const kit_table table = { kernels, KIT_COUNT(kernels) }, *const tables[] = { &table };
static const kit_provider provider = { .name = NAME, .description = "evil", .tables = tables, .table_count = 1 };
static UNUSED const kit_plugin plugin = { .name = NAME,
                                          .version = "6.6.6",
                                          .provider = &provider,
#if defined(HOSTILE_example)
                                          .operators = operators,
                                          .operator_count = KIT_COUNT(operators)
#endif
};

#if defined(HOSTILE_future)
INLAY_PLUGIN_NOTE_ABI(2, 0, NAME, NAME, "")
#elif defined(HOSTILE_old)
INLAY_PLUGIN_NOTE_ABI(0, 9, NAME, NAME, "")
#elif defined(HOSTILE_lying_abi)
INLAY_PLUGIN_NOTE_ABI(1, 7, NAME, NAME, "")
#elif defined(HOSTILE_lying_name)
INLAY_PLUGIN_NOTE("somebody_else", NAME, "")
#elif defined(HOSTILE_lying_provider)
INLAY_PLUGIN_NOTE(NAME, NAME " openvino", "")
#elif defined(HOSTILE_lying_domain)
INLAY_PLUGIN_NOTE(NAME, NAME, "com.example")
#elif defined(HOSTILE_example)
INLAY_PLUGIN_NOTE(NAME, NAME, "com.evil")
#elif defined(HOSTILE_no_note)
#else
INLAY_PLUGIN_NOTE(NAME, NAME, "")
#endif

#ifndef HOSTILE_no_symbol
inlay_status inlay_plugin_open(const inlay_host *host, const inlay_plugin **out_plugin, inlay_diag *diag)
{
    static kit_exports exports;

#ifdef HOSTILE_open
    crash();
#endif
    return kit_open(&plugin, &exports, host, out_plugin, diag);
}
#endif
