/* A correct Relu, in which option `fault` plants one thing that a plugin must not do. Faults before BY_VARIABLE change
 * the state of the process, in the function that option `phase` names; the others are results that depend on more than
 * the inputs, accesses outside of the buffers, and leaks, in runs. Without a fault nothing is wrong. */
#include "inlay/kit.h"
#include <alloca.h>
#include <fcntl.h>
#include <fenv.h>
#include <locale.h>
#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum fault {
    NONE,
    HANDLER,
    HANDLER_IGNORED,
    HANDLER_REALTIME,
    HANDLER_FLAGS,
    MASK,
    MASK_REALTIME,
    LOCALE,
    THREAD_LOCALE,
    ROUNDING,
    FLUSHING,
    PRECISION,
    TRAPS,
    SEED,
    SEED_48,
    MALLOC_OPTIONS,
    SIGNAL_STACK,
    LOCKED,
    LOCKED_ALL,
    LOCKED_LATER,
    DUMPABLE,
    TIMER_SLACK,
    DEATH_SIGNAL,
    SUBREAPER,
    THREAD_NAME,
    UMASK,
    FOLDER,
    VARIABLE,
    VARIABLE_LOST,
    LIMIT,
    AFFINITY,
    NICE,
    SCHEDULER,
    TIMER,
    TIMER_VIRTUAL,
    CLOSED,
    CLOSED_FOREIGN,
    REPLACED,
    NONBLOCKING,
    PRINTED,
    COMPLAINED,
    BUFFER,
    WRITTEN,
    FORKED,
    DESCRIPTOR,
    THREAD_LEFT,
    LOG_FLOOD,
    OOM_SCORE,
    CANCEL_STATE,
    PERSONALITY,
    IO_PRIORITY,
    TIMER_POSIX,
    CLOSE_ON_EXEC,
    ERROR_BUFFER,
    POSITION,
    WRITTEN_HOME,
    UNSHARED,
    MEMORY_POLICY,
    BY_VARIABLE,
    BY_ADDRESS,
    BY_AGE,
    BY_HOUR,
    BY_CALL_100,
    BY_CALL_300,
    BY_CHANCE,
    BY_2_THREADS,
    BY_3_THREADS,
    BY_4_THREADS,
    BY_5_THREADS,
    BY_16_THREADS,
    SHARED_SMALL,
    SHARED_MIDDLE,
    SHARED_LARGE,
    STACK_LARGE,
    STACK_HUGE,
    WORKSPACE_END,
    WORKSPACE_ALIGNED,
    OUTPUT_END,
    OUTPUT_BEGIN,
    OUTPUT_ALIGNED,
    INPUT_END,
    INPUT_BEGIN,
    INPUT_WRITTEN,
    RANK_7,
    LEAK_RUN,
    LEAK_CANCELLED,
    LEAK_COMPILE,
    LEAK_RARE,
    LEAK_MAPPED,
    LEAK_SPECIALIZE,
    BY_MAGNITUDE,
    BY_INSTANCE,
    BY_TURN,
    BY_64K,
    EMPTY,
    INPUT_ALIGNED,
    LOOP_WAITS,
    LOOP_GRAIN,
    FAULTS
};

enum phase { CREATE, ASSESS, COST, COMPILE, SPECIALIZE, EXECUTE, DESTROY };

static int64_t planted, planted_phase = EXECUTE;
static time_t created;

static bool has(enum fault fault)
{
    return planted == (int64_t)fault;
}

static void ignore(int signal_number)
{
    (void)signal_number;
}

static void *sleep_long(void *user)
{
    (void)sleep(20);
    return user;
}

static void change_signals(void)
{
    static char stack[1 << 16];
    struct sigaction action = { .sa_handler = ignore };
    sigset_t set;

    (void)sigemptyset(&set);
    (void)sigaddset(&set, has(MASK) ? SIGUSR2 : SIGRTMIN + 2);
    switch (planted) {
    case HANDLER:
        (void)sigaction(SIGUSR1, &action, NULL);
        break;
    case HANDLER_IGNORED:
        (void)signal(SIGPIPE, SIG_IGN);
        break;
    case HANDLER_REALTIME:
        (void)sigaction(SIGRTMIN + 3, &action, NULL);
        break;
    case HANDLER_FLAGS:
        (void)sigaction(SIGCHLD, NULL, &action);
        action.sa_flags |= SA_NOCLDWAIT;
        (void)sigaction(SIGCHLD, &action, NULL);
        break;
    case MASK:
    case MASK_REALTIME:
        (void)pthread_sigmask(SIG_BLOCK, &set, NULL);
        break;
    case SIGNAL_STACK:
        (void)sigaltstack(&(stack_t){ .ss_sp = stack, .ss_size = sizeof stack }, NULL);
        break;
    default:
        break;
    }
}

static void change_numbers(void)
{
    static char numbers[128];
    static locale_t own;

    switch (planted) {
    case LOCALE:
        (void)setlocale(LC_NUMERIC, "C.UTF-8");
        break;
    case THREAD_LOCALE:
        own = own != NULL ? own : newlocale(LC_ALL_MASK, "C", NULL);
        (void)uselocale(own);
        break;
    case ROUNDING:
        (void)fesetround(FE_DOWNWARD);
        break;
    case TRAPS:
        (void)feenableexcept(FE_DIVBYZERO);
        break;
#if defined(__x86_64__)
    case FLUSHING:
        __builtin_ia32_ldmxcsr(__builtin_ia32_stmxcsr() | 0x8000);
        break;
    case PRECISION: {
        unsigned short word;

        __asm__ volatile("fnstcw %0" : "=m"(word));
        word = (unsigned short)(word & ~0x300);
        __asm__ volatile("fldcw %0" : : "m"(word));
        break;
    }
#endif
    case SEED:
        (void)initstate(7, numbers, sizeof numbers);
        break;
    case SEED_48:
        srand48(7);
        break;
    default:
        break;
    }
}

static void change_memory(void)
{
    static char page[1 << 14];

    switch (planted) {
    case MALLOC_OPTIONS:
        (void)mallopt(M_MMAP_THRESHOLD, 1 << 20);
        break;
    case LOCKED:
        (void)mlock(page, sizeof page);
        break;
    case LOCKED_ALL:
        (void)mlockall(MCL_CURRENT);
        break;
    case LOCKED_LATER:
        (void)mlockall(MCL_FUTURE | MCL_ONFAULT);
        break;
    default:
        break;
    }
}

static void change_process(void)
{
    const struct itimerval soon = { .it_value.tv_sec = 3000 };
    const unsigned long nodes = 1;
    struct rlimit limit;
    cpu_set_t cpus;
    timer_t timer;

    switch (planted) {
    case DUMPABLE:
        (void)prctl(PR_SET_DUMPABLE, 0L);
        break;
    case TIMER_SLACK:
        (void)prctl(PR_SET_TIMERSLACK, 7L);
        break;
    case DEATH_SIGNAL:
        (void)prctl(PR_SET_PDEATHSIG, (long)SIGUSR2);
        break;
    case SUBREAPER:
        (void)prctl(PR_SET_CHILD_SUBREAPER, 0L); /* plugin-check has set it */
        break;
    case THREAD_NAME:
        (void)prctl(PR_SET_NAME, "bad");
        break;
    case UMASK:
        (void)umask(0);
        break;
    case FOLDER:
        (void)!chdir("/");
        break;
    case VARIABLE:
        (void)setenv("OMP_WAIT_POLICY", "passive", 1);
        break;
    case VARIABLE_LOST:
        (void)unsetenv("PATH");
        break;
    case LIMIT:
        (void)getrlimit(RLIMIT_NOFILE, &limit);
        limit.rlim_cur = limit.rlim_cur / 2 + 1;
        (void)setrlimit(RLIMIT_NOFILE, &limit);
        break;
    case AFFINITY:
        (void)sched_getaffinity(0, sizeof cpus, &cpus);
        for (size_t cpu = 0; cpu < CPU_SETSIZE; cpu++)
            if (CPU_ISSET(cpu, &cpus) && CPU_COUNT(&cpus) > 1)
                CPU_CLR(cpu, &cpus);
        (void)sched_setaffinity(0, sizeof cpus, &cpus);
        break;
    case NICE:
        (void)!nice(1);
        break;
    case SCHEDULER:
        (void)sched_setscheduler(0, SCHED_BATCH, &(struct sched_param){ 0 });
        break;
    case TIMER:
        (void)setitimer(ITIMER_REAL, &soon, NULL);
        break;
    case TIMER_VIRTUAL:
        (void)setitimer(ITIMER_VIRTUAL, &soon, NULL);
        break;
    case TIMER_POSIX:
        (void)timer_create(CLOCK_MONOTONIC, &(struct sigevent){ .sigev_notify = SIGEV_NONE }, &timer);
        break;
    case CANCEL_STATE:
        (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
        break;
    case PERSONALITY:
        (void)personality(ADDR_NO_RANDOMIZE);
        break;
    case IO_PRIORITY: /* class 2 (best effort), level 7 */
        (void)syscall(SYS_ioprio_set, 1, 0, 2 << 13 | 7);
        break;
    case UNSHARED:
        (void)unshare(CLONE_FS);
        break;
    case MEMORY_POLICY: /* interleaved on node 0 */
        (void)syscall(SYS_set_mempolicy, 3, &nodes, 8 * sizeof nodes);
        break;
    case FORKED: {
        const pid_t child = fork();

        if (child == 0)
            _exit(0);
        (void)waitpid(child, NULL, 0);
        break;
    }
    default:
        break;
    }
}

static void change_files(void)
{
    static char buffer[BUFSIZ];
    char path[300];
    int fd;

    switch (planted) {
    case CLOSED:
        (void)close(STDIN_FILENO);
        break;
    case CLOSED_FOREIGN:
        for (fd = 3; fd < 20; fd++)
            (void)close(fd);
        break;
    case REPLACED:
        fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
        (void)dup2(fd, STDERR_FILENO);
        (void)close(fd);
        break;
    case NONBLOCKING:
        (void)fcntl(STDIN_FILENO, F_SETFL, fcntl(STDIN_FILENO, F_GETFL) | O_NONBLOCK);
        break;
    case PRINTED:
        (void)printf("relu\n");
        break;
    case COMPLAINED:
        (void)fprintf(stderr, "relu\n");
        break;
    case BUFFER:
        (void)setvbuf(stdout, buffer, _IOFBF, sizeof buffer);
        break;
    case WRITTEN:
        (void)close(open("behaviour.log", O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
        break;
    case DESCRIPTOR:
        (void)open("/dev/null", O_RDONLY | O_CLOEXEC);
        break;
    case CLOSE_ON_EXEC:
        (void)fcntl(STDERR_FILENO, F_SETFD, FD_CLOEXEC);
        break;
    case ERROR_BUFFER:
        (void)setvbuf(stderr, buffer, _IOFBF, sizeof buffer);
        break;
    case POSITION:
        (void)lseek(STDOUT_FILENO, 100, SEEK_SET);
        break;
    case WRITTEN_HOME:
        (void)snprintf(path, sizeof path, "%s/.behaviour.log", getenv("HOME") != NULL ? getenv("HOME") : "");
        (void)close(open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
        break;
    case OOM_SCORE:
        fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
        (void)!write(fd, "500", 3);
        (void)close(fd);
        break;
    default:
        break;
    }
}

static void act(enum phase phase, const inlay_host *host)
{
    pthread_t thread;

    if (planted_phase != (int64_t)phase || planted >= BY_VARIABLE)
        return;
    change_signals();
    change_numbers();
    change_memory();
    change_process();
    change_files();
    if (has(THREAD_LEFT) && pthread_create(&thread, NULL, sleep_long, NULL) == 0)
        (void)pthread_detach(thread);
    for (int i = 0; has(LOG_FLOOD) && i < 200; i++)
        host->log(host->ctx, INLAY_LOG_WARNING, "behaviour");
}

static void relu(const float *from, float *to, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        to[i] = from[i] < 0 ? 0 : from[i];
}

/* Computes by way of memory that all threads share. */
static void relu_shared(const float *from, float *to, int64_t count)
{
    static float shared[1 << 20];

    relu(from, shared, count < 1 << 20 ? count : 1 << 20);
    (void)sched_yield();
    memcpy(to, shared, (size_t)(count < 1 << 20 ? count : 1 << 20) * sizeof *to);
}

static __attribute__((noinline)) void use_stack(size_t bytes)
{
    volatile char *room = alloca(bytes);

    for (size_t i = 0; i < bytes; i += 1024)
        room[i] = 1;
}

struct state {
    uint64_t calls, instance;
};

static bool is_wrong(const kit_call *call, uint64_t number)
{
    static uint64_t turns;
    static const uint32_t threads[] = { 2, 3, 4, 5, 16 };
    struct timespec now;

    if (planted >= BY_2_THREADS && planted <= BY_16_THREADS)
        return call->max_threads == threads[planted - BY_2_THREADS];
    (void)clock_gettime(CLOCK_REALTIME, &now);
    switch (planted) {
    case BY_VARIABLE:
        return getenv("BEHAVIOUR_FAST") != NULL;
    case BY_ADDRESS:
        return ((uintptr_t)call->out[0].data >> 6) % 8 == 5;
    case BY_AGE:
        return now.tv_sec > created + 2;
    case BY_HOUR:
        return now.tv_sec > created + 3600;
    case BY_CALL_100:
        return number > 100;
    case BY_CALL_300:
        return number > 300;
    case BY_CHANCE:
        return now.tv_nsec / 1000 % 50 == 0;
    case BY_MAGNITUDE:
        return call->in[0].count > 0 && ((const float *)call->in[0].data)[0] > 100;
    case BY_INSTANCE:
        return ((const struct state *)call->state)->instance % 50 == 49;
    case BY_TURN:
        return __atomic_add_fetch(&turns, 1, __ATOMIC_RELAXED) % 50 == 0;
    case BY_64K:
        return call->in[0].count > 65536;
    case RANK_7:
        return call->in[0].rank >= 7;
    default:
        return false;
    }
}

/* Accesses next to the buffers. */
static void reach(const kit_call *call, int64_t count)
{
    volatile char *out = call->out[0].data;
    const volatile char *in = call->in[0].data;

    switch (planted) {
    case WORKSPACE_END:
        ((volatile char *)call->workspace)[64] = 1;
        break;
    case OUTPUT_END:
        if (count % 8 == 3)
            out[count * 4] = 0;
        break;
    case OUTPUT_BEGIN:
        if (count % 8 == 3)
            out[-1] = 0;
        break;
    case INPUT_END:
        if (count % 8 == 3)
            (void)in[count * 4];
        break;
    case INPUT_BEGIN:
        if (count % 8 == 3)
            (void)in[-1];
        break;
    case INPUT_WRITTEN:
        if (count > 0)
            ((volatile float *)(uintptr_t)in)[count - 1] = ((const volatile float *)in)[count - 1];
        break;
    case WORKSPACE_ALIGNED: /* to 128 bytes; 64 are promised */
        if ((uintptr_t)call->workspace % 128 != 0)
            raise(SIGSEGV);
        break;
    case EMPTY:
        if (count == 0)
            *out = 0;
        break;
    case INPUT_ALIGNED: /* to vectors; 64 bytes are promised for values of the host, 4 for those of the user */
        if ((uintptr_t)in % 16 != 0)
            raise(SIGSEGV);
        break;
    case OUTPUT_ALIGNED:
        if ((uintptr_t)out % 64 != 0)
            raise(SIGSEGV);
        break;
    default:
        break;
    }
}

enum { GRAIN = 64 };

static inlay_status relu_range(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const kit_call *call = user;
    const int64_t last = has(LOOP_GRAIN) && end > begin + GRAIN ? begin + GRAIN : end;

    (void)worker;
    relu((const float *)call->in[0].data + begin, (float *)call->out[0].data + begin, last - begin);
    return INLAY_OK;
}

/* Two ranges that wait for each other, as threads at a barrier. */
static inlay_status meet(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    int64_t *arrived = user;

    (void)worker;
    (void)__atomic_add_fetch(arrived, end - begin, __ATOMIC_RELAXED);
    while (__atomic_load_n(arrived, __ATOMIC_RELAXED) < 2)
        (void)sched_yield();
    return INLAY_OK;
}

static inlay_status relu_in_loop(const kit_call *call)
{
    int64_t arrived = 0;

    if (has(LOOP_WAITS) && kit_parallel(call, 2, 1, meet, &arrived) != INLAY_OK)
        return INLAY_CANCELLED;
    return kit_parallel(call, call->in[0].count, GRAIN, relu_range, (void *)(uintptr_t)call);
}

static inlay_status run(const kit_call *call)
{
    struct state *state = call->state;
    const int64_t count = call->in[0].count;
    const uint64_t number = __atomic_add_fetch(&state->calls, 1, __ATOMIC_RELAXED);
    float *to = call->out[0].data;
    char *leak = NULL;

    act(EXECUTE, call->host);
    if (has(STACK_LARGE) || has(STACK_HUGE))
        use_stack(has(STACK_LARGE) ? 600u << 10 : 4u << 20);
    if (has(LEAK_RUN) || (has(LEAK_RARE) && number % 40 == 0))
        leak = malloc(100);
    if (has(LEAK_CANCELLED) && kit_poll(call) != INLAY_OK)
        leak = malloc(100);
    __asm__ volatile("" : : "r"(leak) : "memory");
    if (kit_poll(call) != INLAY_OK)
        return kit_poll(call);
    if (has(LEAK_MAPPED))
        (void)mmap(NULL, 1 << 14, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (has(LOOP_WAITS) || has(LOOP_GRAIN))
        return relu_in_loop(call);
    if ((has(SHARED_SMALL) && count < 100) || (has(SHARED_MIDDLE) && count > 500 && count < 5000) ||
        (has(SHARED_LARGE) && count > 20000))
        relu_shared(call->in[0].data, to, count);
    else
        relu(call->in[0].data, to, count);
    reach(call, count);
    if (count > 0 && is_wrong(call, number))
        to[count - 1] += 1;
    return INLAY_OK;
}

static bool supports(const kit_node *node, kit_refusal *why)
{
    (void)why;
    act(ASSESS, node->host);
    return true;
}

static void cost(const kit_node *node, const kit_plan *shapes, inlay_cost *out)
{
    (void)shapes, (void)out;
    act(COST, node->host);
}

static const inlay_host *host_of_plugin;

static inlay_status prepare(const kit_node *node, void **out_state, inlay_diag *diag)
{
    static uint64_t instances;
    struct state *state;
    char *leak = NULL;

    act(COMPILE, node->host);
    if (has(LEAK_COMPILE))
        leak = malloc(100);
    __asm__ volatile("" : : "r"(leak) : "memory");
    state = calloc(1, sizeof *state);
    if (state == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory");
    state->instance = __atomic_add_fetch(&instances, 1, __ATOMIC_RELAXED);
    *out_state = state;
    return INLAY_OK;
}

static inlay_status shape(const void *state, kit_plan *plan, inlay_diag *diag)
{
    char *leak = NULL;

    (void)state, (void)diag;
    act(SPECIALIZE, host_of_plugin);
    if (has(LEAK_SPECIALIZE))
        leak = malloc(100);
    __asm__ volatile("" : : "r"(leak) : "memory");
    plan->workspace_bytes = 64;
    return INLAY_OK;
}

static const kit_kernel kernels[] = { { .op_type = "Relu",
                                        .in_types = { KIT_BIT(FLOAT) },
                                        .flags = KIT_IN_PLACE,
                                        .supports = supports,
                                        .cost = cost,
                                        .prepare = prepare,
                                        .shape = shape,
                                        .run = run } };
static const kit_table table = { kernels, KIT_COUNT(kernels) }, *const tables[] = { &table };

/* Texts, as plugin-check also opens a provider with other numbers for its options. */
static const inlay_option options[] = {
    { .name = "fault", .doc = "number of the planted fault", .default_value = "0", .kind = INLAY_OPTION_STRING },
    { .name = "phase", .doc = "number of the function with it", .default_value = "5", .kind = INLAY_OPTION_STRING },
};

static inlay_status behaviour_open(const inlay_host *host, const inlay_create_args *args, void **out, inlay_diag *diag)
{
    (void)diag;
    *out = &created; /* the kit calls behaviour_close for it */
    host_of_plugin = host;
    created = time(NULL);
    planted = strtol(INLAY_AT(inlay_option_value, args->options, args->option_stride, 0)->s, NULL, 10);
    planted_phase = strtol(INLAY_AT(inlay_option_value, args->options, args->option_stride, 1)->s, NULL, 10);
    act(CREATE, host);
    return INLAY_OK;
}

static void behaviour_close(void *provider)
{
    (void)provider;
    act(DESTROY, host_of_plugin);
}

static const kit_provider provider = { .name = "behaviour",
                                       .description = "Relu with a planted fault",
                                       .tables = tables,
                                       .table_count = KIT_COUNT(tables),
                                       .options = options,
                                       .option_count = KIT_COUNT(options),
                                       .open = behaviour_open,
                                       .close = behaviour_close,
                                       .poll_ms = 20 };
static const kit_plugin plugin = { .name = "behaviour", .version = "1.0.0", .provider = &provider };
KIT_PLUGIN_NAMED(plugin, "behaviour", "behaviour", "")
