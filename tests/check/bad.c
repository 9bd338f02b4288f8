/* Plugins with one defect each, which `inlay plugin-check` must find. The name of the file selects the defect: all
 * files are copies of one, except those with -DBAD_<name>, whose defect is in the file itself. They use the kit and
 * offer Relu for float (own and hush: the operator Scale). The defect is in the kernel or in the tables that the kit
 * returns to the host. unload and cached have no defect: the first sets INLAY_PLUGIN_DLCLOSE and can be unmapped, the
 * second stores its engines. */
#include "defect.h"
#include "inlay/kit.h"
#include <fcntl.h>
#include <fenv.h>
#include <float.h>
#include <locale.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#if defined(__SSE2__)
#include <xmmintrin.h>
#else
#define _mm_getcsr() 0u
#define _mm_setcsr(bits) ((void)(bits))
#endif

#if defined(BAD_oom_rust)
__asm__(".ident \"rustc version 1.75.0\""); /* as in files that this compiler wrote */
#endif

static volatile int *volatile nowhere = (volatile int *)8;

static void relu(const float *input, float *output, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        output[i] = input[i] < 0 ? 0 : input[i];
}

static void sleep_ms(long ms)
{
    const struct timespec pause = { .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000 };

    (void)nanosleep(&pause, NULL);
}

static void *return_user(void *user)
{
    return user;
}

static void *sleep_long(void *user)
{
    sleep_ms(20000);
    return user;
}

typedef struct race_loop {
    const float *from;
    float *to;
    volatile float *shared;
} race_loop;

/* A data race: all workers store their results in the same variable first. */
static inlay_status race_body(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const race_loop *loop = user;

    (void)worker;
    for (int64_t i = begin; i < end; i++) {
        *loop->shared = loop->from[i] < 0 ? 0 : loop->from[i];
        if (i % 128 == 0)
            (void)sched_yield();
        loop->to[i] = *loop->shared;
    }
    return INLAY_OK;
}

static inlay_status race(const kit_call *call, float *shared)
{
    race_loop loop = { call->in[0].data, call->out[0].data, shared };

    return kit_parallel(call, call->in[0].count, 256, race_body, &loop);
}

static pthread_key_t key;

static void drop_key(void *value)
{
    *(volatile pthread_key_t *)value = 0;
}

static volatile float one = 1; /* volatile, so that the product is computed */

static inlay_status relu_body(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const race_loop *loop = user;

    (void)worker;
    relu(loop->from + begin, loop->to + begin, end - begin);
    return INLAY_OK;
}

static inlay_status run(const kit_call *call)
{
    const kit_tensor *input = &call->in[0], *output = &call->out[0];
    const float *from = input->data;
    float *to = output->data;

    if (is("wrong")) {
        relu(from, to, input->count);
        if (input->count % 2 == 1 && input->count > 1) /* the tail of a loop over pairs */
            to[input->count - 1] = from[input->count - 1];
    } else if (is("workspace")) {
        relu(from, to, input->count);
        memset(call->workspace, 0, 40); /* of 16 */
    } else if (is("workspace_far")) {
        relu(from, to, input->count);
        memset(call->workspace, 0, 5000);
    } else if (is("dirty")) {
        /* Assumes a cleared workspace. */
        for (int64_t i = 0; i < input->count; i++)
            to[i] = (from[i] < 0 ? 0 : from[i]) + ((const float *)call->workspace)[i % 4];
    } else if (is("tail")) {
        /* Reads whole vectors of four, also past the end. */
        for (int64_t i = 0; i < input->count; i += 4)
            for (int64_t k = i; k < i + 4; k++) {
                float value = ((const volatile float *)from)[k];

                if (k < input->count)
                    to[k] = value < 0 ? 0 : value;
            }
    } else if (is("input")) {
        for (int64_t i = 0; i < input->count; i++)
            to[i] = ((float *)input->data)[i] = from[i] < 0 ? 0 : from[i];
    } else if (is("output")) {
        relu(from, to, input->count);
        if (input->count == 7)
            to[7] = 0;
    } else if (is("alias")) {
        /* Clears the output first, although it allows the output to alias the input. */
        for (int64_t i = 0; i < input->count; i++)
            to[input->count - 1 - i] = 0;
        for (int64_t i = 0; i < input->count; i++)
            to[i] = from[i] < 0 ? 0 : from[i];
    } else if (is("crash")) {
        if (input->rank == 2)
            *nowhere = 1;
        relu(from, to, input->count);
    } else if (is("abort")) {
        (void)from, (void)to;
        abort();
    } else if (is("exit")) {
        (void)from, (void)to;
        exit(3);
    } else if (is("hang")) {
        (void)from, (void)to;
        for (;;)
            sleep_ms(1000);
    } else if (is("cancel")) {
        relu(from, to, input->count);
        if (input->count > 100000)
            sleep_ms(600); /* without polling for cancellation */
    } else if (is("rounding")) {
        relu(from, to, input->count);
        (void)fesetround(FE_UPWARD);
    } else if (is("handler")) {
        relu(from, to, input->count);
        (void)signal(SIGUSR1, SIG_IGN);
        (void)umask(0);
        (void)!chdir("/");
    } else if (is("mask")) {
        sigset_t usr2;

        relu(from, to, input->count);
        (void)sigemptyset(&usr2);
        (void)sigaddset(&usr2, SIGUSR2);
        (void)pthread_sigmask(SIG_BLOCK, &usr2, NULL);
    } else if (is("locale")) {
        relu(from, to, input->count);
        (void)setlocale(LC_ALL, "C.UTF-8");
    } else if (is("flushes")) {
        relu(from, to, input->count);
        _mm_setcsr(_mm_getcsr() | 0x8040); /* flush-to-zero and denormals-are-zero stay set */
    } else if (is("stderr")) {
        relu(from, to, input->count);
        (void)fprintf(stderr, "relu of %lld\n", (long long)input->count);
    } else if (is("thread_each")) {
        pthread_t helper;

        relu(from, to, input->count);
        if (pthread_create(&helper, NULL, return_user, NULL) == 0)
            (void)pthread_join(helper, NULL);
    } else if (is("thread_left")) {
        pthread_t helper;

        relu(from, to, input->count);
        if (pthread_create(&helper, NULL, sleep_long, NULL) == 0)
            (void)pthread_detach(helper);
    } else if (is("prints")) {
        relu(from, to, input->count);
        (void)printf("relu of %lld\n", (long long)input->count);
    } else if (is("forks")) {
        relu(from, to, input->count);
        if (fork() == 0)
            for (;;)
                sleep_ms(1000);
    } else if (is("closes")) {
        relu(from, to, input->count);
        for (int fd = 3; fd < 10; fd++)
            (void)close(fd);
    } else if (is("race")) {
        static float shared;

        if (input->count < 10000)
            relu(from, to, input->count);
        else
            return race(call, &shared);
    } else if (is("large")) {
        relu(from, to, input->count);
        for (int64_t i = 60000; i < input->count; i++) /* as with a 16-bit index */
            to[i] = 0;
    } else if (is("own") || is("hush")) {
        const float *factors = call->in[1].data;
        int64_t columns = call->in[1].count;

        for (int64_t i = 0; i < input->count; i++)
            to[i] = from[i] * factors[i % columns];
        if (is("own")) {
            if (columns == 10) /* the example's size 3 times 3 plus 1 */
                to[input->count] = 0;
        }
    } else if (is("nan")) {
        for (int64_t i = 0; i < input->count; i++)
            to[i] = from[i] > 0 ? from[i] : 0; /* NaN becomes 0 */
    } else if (is("saturates")) {
        relu(from, to, input->count);
        for (int64_t i = 0; i < input->count; i++)
            to[i] = to[i] > FLT_MAX ? FLT_MAX : to[i];
    } else if (is("denormals") || is("stated_flush")) {
        const unsigned before = _mm_getcsr();

        _mm_setcsr(before | 0x8040);
        for (int64_t i = 0; i < input->count; i++)
            to[i] = from[i] < 0 ? 0 : from[i] * one;
        _mm_setcsr(before);
    } else if (is("zero_sign")) {
        for (int64_t i = 0; i < input->count; i++)
            to[i] = 0.0F - from[i]; /* Neg */
    } else if (is("size")) {
        relu(from, to, input->count);
        if (input->count % 13 == 7 && input->count > 8)
            to[input->count - 1] += 1;
    } else if (is("huge")) {
        relu(from, to, input->count);
        if (input->count > 1000000)
            to[input->count - 1] = 0.25F;
    } else if (is("same_address")) {
        static _Atomic(const float *) last_from, last_to;

        if (last_from == from && last_to == to)
            return INLAY_OK; /* as if the result were still there */
        relu(from, to, input->count);
        last_from = from;
        last_to = to;
    } else if (is("workspace_state")) {
        /* Takes the leftovers of another run for its own. */
        float *state = call->workspace;

        if (state[0] != 1234567.0F) {
            relu(from, to, input->count);
            state[0] = 1234567.0F;
            state[1] = input->count > 0 ? to[0] : 0;
        } else {
            relu(from, to, input->count);
            if (input->count > 0)
                to[0] = state[1];
        }
    } else if (is("copied") || is("writes_constant") || is("by_name")) {
        const float *bias = call->state;

        for (int64_t i = 0; i < input->count; i++)
            to[i] = from[i] + bias[i];
        if (is("writes_constant")) {
            ((float *)call->state)[0] = bias[0];
        }
    } else if (is("swallows")) {
        (void)kit_parallel(call, input->count, 64, relu_body, &(race_loop){ from, to, NULL });
    } else if (is("cancelled")) {
        if (kit_poll(call) != INLAY_OK) {
            relu(from, malloc((size_t)input->count * sizeof *to), input->count);
            return INLAY_CANCELLED;
        }
        relu(from, to, input->count);
    } else if (is("mapping")) {
        relu(from, to, input->count);
        (void)mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    } else if (is("key")) {
        relu(from, to, input->count);
        (void)pthread_setspecific(key, &key);
    } else if (is("seeds")) {
        static char numbers[128];

        relu(from, to, input->count);
        (void)initstate(7, numbers, sizeof numbers);
    } else if (is("stack")) {
        static char stack[1 << 16];

        relu(from, to, input->count);
        (void)sigaltstack(&(stack_t){ .ss_sp = stack, .ss_size = sizeof stack }, NULL);
    } else if (is("renames")) {
        relu(from, to, input->count);
        (void)prctl(PR_SET_NAME, "bad");
        (void)prctl(PR_SET_TIMERSLACK, 7L);
    } else if (is("locks")) {
        static char page[1 << 13];

        relu(from, to, input->count);
        (void)mlock(page, sizeof page);
    } else if (is("environment")) {
        relu(from, to, input->count);
        (void)setenv("BAD_WAS_HERE", "1", 1);
    } else if (is("limits")) {
        struct rlimit limit;

        relu(from, to, input->count);
        if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
            limit.rlim_cur--;
            (void)setrlimit(RLIMIT_NOFILE, &limit);
        }
    } else if (is("affinity")) {
        cpu_set_t cpus;

        relu(from, to, input->count);
        CPU_ZERO(&cpus);
        CPU_SET(sched_getcpu(), &cpus);
        (void)sched_setaffinity(0, sizeof cpus, &cpus);
    } else if (is("nice")) {
        relu(from, to, input->count);
        (void)setpriority(PRIO_PROCESS, 0, getpriority(PRIO_PROCESS, 0) + 1);
    } else if (is("folder")) {
        FILE *file = fopen("bad.log", "we");

        relu(from, to, input->count);
        if (file != NULL)
            (void)fclose(file);
    } else if (is("heap")) {
        float *copy = malloc((size_t)input->count * sizeof *copy + 1);

        if (copy == NULL)
            return INLAY_OUT_OF_MEMORY;
        relu(from, copy, input->count);
        memcpy(to, copy, (size_t)input->count * sizeof *copy);
        free(copy);
    } else {
        relu(from, to, input->count);
    }
    return INLAY_OK;
}

/* Blocks a call; volatile, so that the compiler keeps the loop. A leak of more than the provider itself leaks. */
static volatile int leaks = 1;

static inlay_status prepare(const kit_node *node, void **out_state, inlay_diag *diag)
{
    int *volatile last = NULL; /* volatile: the compiler would remove the leaked allocations */
    int *state;

    if (is("tenth")) {
        static int calls;

        if (++calls % 10 == 0)
            last = malloc(100);
    }
    if (is("forgetful")) { /* when memory runs out */
        int *volatile first = malloc(100);

        last = malloc(100);
        if (last == NULL)
            return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "bad");
        free(first);
        free(last);
    }
    if (is("declines") && kit_input(node, 0)->rank == 2) {
        last = malloc(100);
        return inlay_fail(diag, INLAY_UNSUPPORTED, "not matrices");
    }
    for (int i = 0; i < leaks; i++)
        last = malloc(100);
    state = last;
    if (is("oom_abort") || is("oom_rust")) {
        if (state == NULL)
            abort();
    } else if (!is("oom")) {
        if (state == NULL)
            return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "bad");
    }
    state[0] = 1;
    *out_state = state;
    return INLAY_OK;
}

/* Add with a constant of the same shape, which run reads after prepare has dropped it. */
static bool constant_only(const kit_node *node, kit_refusal *why)
{
    const inlay_value_info *left = kit_input(node, 0), *right = kit_input(node, 1);
    bool same = kit_is_constant(node, 1) && left->rank == right->rank;

    for (uint32_t i = 0; same && i < left->rank; i++)
        same = left->dims[i].kind == INLAY_DIM_FIXED && left->dims[i].value == right->dims[i].value;
    return same || kit_refuse(why, INLAY_REFUSE_SHAPE, "make input 1 a constant", "input 1 has to be a constant");
}

static inlay_status keep_constant(const kit_node *node, void **out_state, inlay_diag *diag)
{
    *out_state = (void *)(uintptr_t)kit_constant(node, 1);
    if (is("copied")) {
        kit_drop_constant(node, 1);
    }
    return *out_state != NULL ? INLAY_OK : inlay_fail(diag, INLAY_OUT_OF_MEMORY, "bad");
}

/* Keeps the packed weights of every session by the name of the value, which another model may use for others. */
static inlay_status keep_by_name(const kit_node *node, void **out_state, inlay_diag *diag)
{
    enum { MOST = 64 };
    static struct {
        char name[32];
        float *packed;
    } known[MOST];
    const inlay_value_info *info = kit_input(node, 1);
    const float *data = kit_constant(node, 1);
    uint32_t i = 0;

    while (i < MOST - 1 && known[i].packed != NULL && strcmp(known[i].name, info->name.data) != 0)
        i++;
    if (data == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "bad");
    if (known[i].packed == NULL) {
        known[i].packed = calloc(1 << 18, sizeof(float));
        if (known[i].packed == NULL)
            return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "bad");
        (void)snprintf(known[i].name, sizeof known[i].name, "%.31s", info->name.data);
        memcpy(known[i].packed, data, info->data_bytes < (1 << 20) ? (size_t)info->data_bytes : 1 << 20);
    }
    *out_state = known[i].packed;
    return INLAY_OK;
}

/* Calls free at the time of the call: the checker replaces it in the table of imports. */
static void release_state(void *state)
{
    free(state);
}

static void release_nothing(void *state)
{
    (void)state;
}

static inlay_status shape(const void *state, kit_plan *plan, inlay_diag *diag)
{
    (void)state, (void)diag;
    plan->workspace_bytes = 16;
    return INLAY_OK;
}

/* A custom operator whose input shapes depend on each other, with a required attribute. */
static inlay_status infer(void *ctx, inlay_infer *in, inlay_diag *diag)
{
    const inlay_value_info *input = in->inputs[0], *weights = in->inputs[1];

    (void)ctx, (void)diag;
    if (input->rank != 2 || weights->rank != 1 || input->dims[1].kind != INLAY_DIM_FIXED ||
        input->dims[1].value != weights->dims[0].value)
        return is("hush") ? INLAY_SHAPE_MISMATCH
                          : inlay_fail(diag, INLAY_SHAPE_MISMATCH, "Scale: W has to have a factor for each column");
    return in->set_output(in->ctx, 0, INLAY_UNDEFINED, 2, input->dims);
}
static const float ones[] = { 1, 1, 1, 1, 1, 1 };
static const int64_t matrix[] = { 2, 3 };
static const inlay_tensor_view example_inputs[] = { { ones, sizeof ones, matrix, 2, INLAY_FLOAT },
                                                    { ones, 3 * sizeof ones[0], &matrix[1], 1, INLAY_FLOAT } };
static const inlay_attr_info sure = { .name = { "sure", 4 }, .kind = INLAY_ATTR_INT, .i = 1 };
static const inlay_op_example example = { .name = "ones",
                                          .attrs = &sure,
                                          .attr_count = 1,
                                          .attr_stride = sizeof sure,
                                          .inputs = example_inputs,
                                          .input_count = 2,
                                          .outputs = example_inputs,
                                          .output_count = 1 };
static inlay_operator operators[] = { { .struct_size = sizeof(inlay_operator),
                                        .domain = "com.bad",
                                        .op_type = "Scale",
                                        .signature = "X:T, W:T -> Y:T; T=float; sure:i!",
                                        .doc = "Multiplies columns.",
                                        .since_version = 1,
                                        .infer = infer,
                                        .examples = &example,
                                        .example_count = 1,
                                        .example_stride = sizeof example } };

static kit_kernel kernels[] = { { .op_type = "Relu", .in_types = { KIT_BIT(FLOAT) }, .run = run } };
static const kit_table table = { kernels, KIT_COUNT(kernels) }, *const tables[] = { &table };

/* Ends the process with a crash unless the provider was closed before. */
static int open_states;

static void close_state(void *state)
{
    (void)state;
    open_states--;
}

__attribute__((destructor)) static void destruct(void)
{
    if (open_states > 0)
        *nowhere = 1;
}

static inlay_status open_bad(const inlay_host *host, const inlay_create_args *args, void **out, inlay_diag *diag)
{
    (void)host, (void)args, (void)diag;
    if (is("files")) {
        (void)open("/dev/null", O_RDONLY);
    } else if (is("create_key")) {
        (void)pthread_key_create(&key, drop_key);
        (void)pthread_setspecific(key, &key);
    }
    if (is("destructs")) {
        open_states++;
        *out = &open_states;
        return INLAY_OK;
    }
    if (is("leak")) {
        *out = malloc(24);
        return *out != NULL ? INLAY_OK : inlay_fail(diag, INLAY_OUT_OF_MEMORY, "bad");
    } else {
        *out = NULL;
        return INLAY_OK;
    }
}

static kit_provider provider = { .name = "bad", .description = "has a defect", .tables = tables, .table_count = 1 };
static kit_plugin self = { .name = "bad", .version = "1.0", .provider = &provider };

/* Kernel, provider and plugin as the defect needs them. */
static void describe(void)
{
    kit_kernel *kernel = &kernels[0];

    read_defect();
    if (is("leak"))
        leaks = 2;
    if (is("destructs"))
        provider.close = close_state;
    if (is("hush"))
        operators[0].doc = NULL;
    if (is("own") || is("hush")) {
        kernel->domain = "com.bad";
        kernel->op_type = "Scale";
        kernel->since_max = 1;
        self.operators = operators;
        self.operator_count = KIT_COUNT(operators);
    } else if (is("zero_sign")) {
        kernel->op_type = "Neg";
    } else if (is("copied") || is("writes_constant") || is("by_name")) {
        kernel->op_type = "Add";
        kernel->supports = constant_only;
        kernel->prepare = is("by_name") ? keep_by_name : keep_constant;
        kernel->release = release_nothing;
    }
    if (is("alias"))
        kernel->flags = KIT_IN_PLACE;
    if (is("workspace") || is("workspace_far") || is("dirty") || is("workspace_state"))
        kernel->shape = shape;
    if (is("leak") || is("oom") || is("oom_abort") || is("oom_rust") || is("tenth") || is("forgetful") ||
        is("declines"))
        kernel->prepare = prepare;
    if (is("leak"))
        kernel->release = release_nothing;
    else if (is("tenth") || is("oom_abort") || is("oom_rust") || is("forgetful") || is("declines"))
        kernel->release = release_state;
    if (is("files") || is("leak") || is("create_key") || is("destructs"))
        provider.open = open_bad;
    if (is("stated_flush"))
        provider.flags = INLAY_PROVIDER_FLUSHES_DENORMALS;
    if (is("unload") || is("pinned") || is("key") || is("create_key"))
        self.flags = INLAY_PLUGIN_DLCLOSE;
}

static kit_exports exports;

static inlay_provider original; /* a copy of the kit's table */

static inlay_status no_refusal(void *ctx, const inlay_refusal *refusal)
{
    (void)ctx, (void)refusal;
    return INLAY_OK;
}

static const inlay_assess_sink *outer_sink;

/* Adds INLAY_OFFER_MERGE to the offers; the kit can compile several nodes. */
static inlay_status offer_merging(void *ctx, const inlay_offer *offer)
{
    inlay_offer merging = *offer;

    merging.flags |= INLAY_OFFER_MERGE;
    if (is("connected")) {
        merging.flags |= INLAY_OFFER_CONNECTED;
    }
    return outer_sink->offer(ctx, &merging);
}

/* Does each node of the region except the first read an output of another one? */
static bool is_connected(const inlay_compile_request *request)
{
    uint32_t linked = 1;

    for (uint32_t i = 1; i < request->node_count; i++) {
        const inlay_node_info *node = inlay_graph_node(request->graph, request->nodes[i]);
        bool found = false;

        for (uint32_t k = 0; k < node->input_count; k++) {
            const inlay_value_info *value = inlay_graph_value(request->graph, node->inputs[k]);

            for (uint32_t m = 0; value != NULL && m < request->node_count; m++)
                found |= value->producer == request->nodes[m];
        }
        linked += found;
    }
    return linked == request->node_count;
}

static const inlay_graph *kept_graph; /* invalid once compile has returned */
static inlay_status compile(void *state, const inlay_compile_request *request, inlay_compiled **out_compiled,
                            inlay_diag *diag)
{
    if (is("split") || is("connected")) {
        if (!is_connected(request))
            return inlay_fail(diag, INLAY_INTERNAL, "the nodes are not connected");
    } else if (is("swapped")) {
        /* Reverses the outputs of the region. */
        inlay_compile_request mine = *request;
        uint32_t outputs[64];

        for (uint32_t i = 0; i < request->output_count && i < 64; i++)
            outputs[i] = request->outputs[request->output_count - 1 - i];
        mine.outputs = outputs;
        if (request->output_count <= 64)
            return original.compile(state, &mine, out_compiled, diag);
    }
    kept_graph = request->graph;
    return original.compile(state, request, out_compiled, diag);
}

struct engine {
    char head[8];
    uint64_t region; /* number of its nodes: nothing about the rest of the graph, which may be another one */
    char tail[48];
};
static const struct engine plain_engine = { .head = "bad 1", .tail = "the end" };

static inlay_status fingerprint(void *state, inlay_fingerprint *out, inlay_diag *diag)
{
    static char print[INLAY_MAX_FINGERPRINT_BYTES + 1];

    (void)state, (void)diag;
    memset(print, 'f', sizeof print);
    out->data = print;
    if (is("fingerprint")) {
        out->bytes = sizeof print;
    } else {
        out->bytes = 64;
    }
    return INLAY_OK;
}

static inlay_status cache_verdict(void *state, inlay_cache_request *request, inlay_diag *diag)
{
    const struct engine *found = request->blob;

    (void)state;
    if (is("verdict")) {
        (void)found, (void)diag;
        request->verdict = 77;
    } else if (is("trusting")) {
        (void)found, (void)diag;
        request->verdict = INLAY_CACHE_OPTIMAL;
    } else {
        if (request->bytes == sizeof *found && memcmp(found->head, plain_engine.head, sizeof found->head) == 0)
            return INLAY_OK;
        (void)inlay_fail(diag, INLAY_UNSUPPORTED, "not an engine of this version");
        request->verdict = INLAY_CACHE_RECOMPILE;
    }
    return INLAY_OK;
}

static inlay_status compile_engine(void *state, const inlay_compile_request *request, inlay_compiled **out_compiled,
                                   inlay_diag *diag)
{
    struct engine mine = plain_engine;
    const struct engine *found = request->cache_blob;

    mine.region = request->node_count;
    if (found != NULL && memcmp(found->head, mine.head, sizeof mine.head) != 0)
        return inlay_fail(diag, INLAY_INTERNAL, "this engine is of another version");
    if (request->store_begin != NULL && request->store_begin(request->ctx, sizeof mine) == INLAY_OK &&
        request->store_write(request->ctx, &mine, sizeof mine) == INLAY_OK)
        (void)request->store_end(request->ctx);
    if (is("slow")) {
        sleep_ms(100);
    }
    return original.compile(state, request, out_compiled, diag);
}

/* Refuses without a message. */
static inlay_status refuse_mutely(void *ctx, const inlay_refusal *refusal)
{
    inlay_refusal mute = *refusal;

    mute.text = "";
    return outer_sink->refuse(ctx, &mute);
}

static inlay_status assess(void *state, const inlay_assess_request *request, inlay_diag *diag)
{
    inlay_assess_request changed = *request;
    inlay_assess_sink sink = *request->sink;
    inlay_graph graph = *request->graph;

    if (is("silent")) {
        sink.refuse = no_refusal;
        changed.sink = &sink;
    } else if (is("mute")) {
        outer_sink = request->sink;
        sink.refuse = refuse_mutely;
        changed.sink = &sink;
    } else if (is("split") || is("connected") || is("swapped")) {
        outer_sink = request->sink;
        sink.offer = offer_merging;
        changed.sink = &sink;
    } else if (is("both")) {
        /* Refuses every node, although it offers some. */
        for (uint32_t i = 0; i < request->graph->node_count; i++) {
            const inlay_refusal doubt = {
                .struct_size = sizeof doubt, .node = i, .code = INLAY_REFUSE_DEVICE, .text = "perhaps not"
            };

            if (request->candidates[i])
                (void)request->sink->refuse(request->sink->ctx, &doubt);
        }
    } else if (is("greedy")) {
        static const uint32_t first = 0;
        const inlay_offer offer = { .struct_size = sizeof offer, .nodes = &first, .node_count = 1 };

        if (request->graph->node_count > 1)
            (void)request->sink->offer(request->sink->ctx, &offer);
    } else if (is("writes")) {
        if (request->graph->node_count > 1)
            ((inlay_node_info *)(uintptr_t)request->graph->nodes)->flags = 1;
    } else if (is("stride")) {
        graph.node_stride = sizeof(inlay_node_info);
        changed.graph = &graph;
    } else if (is("hang_assess")) {
        while (request->graph->node_count > 0)
            sleep_ms(1000);
    } else if (is("fickle")) {
        static int calls;
        const inlay_refusal other = { .struct_size = sizeof other, .code = INLAY_REFUSE_OPTION, .text = "not today" };

        if (++calls % 2 == 0 && request->graph->node_count > 1)
            (void)request->sink->refuse(request->sink->ctx, &other);
    }
    return original.assess(state, &changed, diag);
}

static inlay_status cost(void *state, const inlay_cost_request *request, inlay_cost *out, inlay_diag *diag)
{
    inlay_status status = original.cost(state, request, out, diag);

    if (is("cost")) {
        out->ns /= 1e6; /* always the cheapest */
    } else if (is("cost_random")) {
        static unsigned calls;

        out->ns *= 1 + ++calls * 7 % 4;
    } else if (is("cost_dear") || is("cost_far")) {
        out->ns += 1e10;
        out->confidence = is("cost_far") ? INLAY_CONFIDENCE_MODEL : INLAY_CONFIDENCE_GUESS;
    } else {
        out->ns = 0.0 / (out->ns - out->ns);
    }
    return status;
}

/* Requests exactly 16 bytes; the kit would round up. */
static inlay_status specialize(void *state, inlay_compiled *compiled, inlay_specialize_request *request,
                               inlay_instance **out_instance, inlay_diag *diag)
{
    inlay_status status = original.specialize(state, compiled, request, out_instance, diag);

    request->workspace_bytes = 16;
    return status;
}

/* Reads the graph of compile after compile has returned. */
static inlay_status execute(void *state, inlay_compiled *compiled, inlay_instance *instance,
                            const inlay_exec_args *args)
{
    if (kept_graph->node_count == 0)
        return INLAY_INTERNAL;
    return original.execute(state, compiled, instance, args);
}

#if defined(BAD_note)
INLAY_PLUGIN_NOTE("bad", "good", "")
#endif

INLAY_EXPORT inlay_status inlay_plugin_open(const inlay_host *host, const inlay_plugin **out_plugin, inlay_diag *diag)
{
    inlay_status status;

    describe();
    status = kit_open(&self, &exports, host, out_plugin, diag);

    original = exports.provider;
    if (is("silent") || is("mute") || is("greedy") || is("writes") || is("stride") || is("fickle") ||
        is("hang_assess") || is("both")) {
        exports.provider.assess = assess;
    } else if (is("split") || is("connected") || is("swapped")) {
        exports.provider.assess = assess;
        exports.provider.compile = compile;
    } else if (is("keeps")) {
        exports.provider.compile = compile;
        exports.provider.execute = execute;
    } else if (is("cost") || is("cost_nan") || is("cost_random") || is("cost_dear") || is("cost_far")) {
        exports.provider.cost = cost;
    } else if (is("workspace")) {
        exports.provider.specialize = specialize;
    } else if (is("fingerprint") || is("verdict") || is("trusting") || is("cached")) {
        exports.provider.fingerprint = fingerprint;
        exports.provider.cache_verdict = cache_verdict;
        exports.provider.compile = compile_engine;
    } else if (is("slow")) {
        exports.provider.compile = compile_engine;
    } else if (is("key")) {
        if (host != NULL)
            (void)pthread_key_create(&key, drop_key);
    } else if (is("cancel")) {
        exports.provider.poll_ms = 10;
    } else if (is("flags")) {
        exports.provider.flags = 1u << 7;
        exports.plugin.build_id = "";
    } else if (is("nameless")) {
        exports.plugin.name = NULL;
        exports.provider.name = NULL;
    } else if (is("thread")) {
        pthread_t thread;

        if (pthread_create(&thread, NULL, sleep_long, NULL) == 0)
            (void)pthread_detach(thread);
    } else if (is("refuses")) {
        return inlay_fail(diag, INLAY_UNSUPPORTED, "not on this machine");
    } else if (is("open")) {
        *nowhere = 1;
    } else if (is("any_host")) {
        *out_plugin = &exports.plugin;
        return INLAY_OK;
    }
    return status;
}

#if defined(BAD_exports)
INLAY_EXPORT int bad_helper(void);
int bad_helper(void)
{
    return 1;
}
#endif
