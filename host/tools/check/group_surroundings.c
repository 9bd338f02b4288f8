/* Runs each operator where nothing but its inputs may matter: at another time, with other environment variables, after
 * many calls, on a thread with a small stack, and while another run computes other values. Its log is counted, and the
 * process ends while the provider is open. */
#include "check/compare_results.h"
#include "check/coverage.h"
#include "check/generate.h"
#include "check/host.h"
#include "check/peers.h"
#include "check/process.h"
#include "check/surroundings.h"
#include "inlay/check.h"
#include <pthread.h>

enum {
    CALLS = 4096,    /* of the first operator ... */
    FEW_CALLS = 64,  /* ... and of the others */
    CALLS_MS = 1500, /* time limit of all calls */
    QUICK_CALLS_MS = 1000,
    QUICK_OPERATORS = 12,
    ROUNDS = 24,            /* pairs of concurrent runs */
    LOGGED = 16,            /* messages that are not yet a flood */
    STACK_BYTES = 512 << 10 /* see "Process state" in inlay/plugin.h */
};

struct surroundings {
    struct check *check;
    const struct fixture *fixture;
    const loaded_provider *provider;
    bool is_watched;    /* the imports of the plugin are patched */
    bool found, failed; /* of the current operator: a case was offered; a failure was reported */
    uint32_t operators, variables;
    uint64_t calls;
    double left_ms; /* for further calls */
    char subject[80];
};

INLAY_PRINTF(5, 6)
static void fail(struct surroundings *test, const op_case *entry, const char *expected, const char *fix,
                 const char *format, ...)
{
    char text[256], got[500];
    va_list args;

    va_start(args, format);
    (void)vsnprintf(got, sizeof got, format, args);
    va_end(args);
    test->failed = true;
    check_fail(test->check, "surroundings", case_text(entry, text, sizeof text), expected, fix, "%s", got);
}

/* Runs, and compares with the first result. when: "at another time". False: a failure was reported. */
static bool same_again(struct surroundings *test, const struct harness *harness, const harness_result *want,
                       const char *fix, const char *when)
{
    const harness_options options = { .quiet = true };
    inlay_diag diag = INLAY_DIAG_INIT;
    harness_result got;
    char text[300];
    const inlay_status status = harness_run(harness, &options, &got, &diag);

    if (status != INLAY_OK)
        fail(test, harness->entry, "the same result", fix, "%s it fails: %.300s", when, diag.text);
    else if (got.fault[0] != '\0')
        fail(test, harness->entry, "the contract of execute is kept", got.fault_fix, "%s: %s", when, got.fault);
    else if (!harness->entry->random && !compare_results(&got, want, text, sizeof text))
        fail(test, harness->entry, "the same result", fix, "%s: %s", when, text);
    harness_result_deinit(&got);
    check_tick(test->check);
    return !test->failed;
}

/* Many calls, as in a server. */
static void check_calls(struct surroundings *test, const struct harness *harness, const harness_result *want)
{
    const uint32_t most = test->operators == 0 ? CALLS : FEW_CALLS;
    const uint64_t logged = check_host_messages();
    const process_clock begin = process_clock_start();
    uint32_t call = 0;
    char when[40];

    check_phase(test->check, "execute, many times");
    while (call < most && !test->failed && (call % 16 != 0 || process_clock_ms(&begin) < test->left_ms)) {
        (void)snprintf(when, sizeof when, "in call %u", ++call);
        (void)same_again(test, harness, want, "keep no counter on which results depend; overwrite the whole output",
                         when);
    }
    test->left_ms -= process_clock_ms(&begin);
    test->calls += call;
    if (!test->failed && call > 0 && check_host_messages() - logged > LOGGED &&
        (check_host_messages() - logged) * 2 >= call)
        fail(test, harness->entry, "runs that log only what is new",
             "log an event once, not in each run; log details with INLAY_LOG_DEBUG", "%u runs logged %llu messages",
             call, (unsigned long long)(check_host_messages() - logged));
}

static void check_times(struct surroundings *test, const struct harness *harness, const harness_result *want)
{
    static const int64_t later[] = { 5, 2 * 3600, 400 * 86400 };

    check_phase(test->check, "execute, at another time");
    for (size_t i = 0; i < sizeof later / sizeof later[0] && test->is_watched && !test->failed; i++) {
        char when[60];

        (void)snprintf(when, sizeof when, "%lld s later (its clocks were moved)", (long long)later[i]);
        surroundings_move_clocks(later[i]);
        (void)same_again(test, harness, want, "use clocks to measure, not to compute", when);
    }
    surroundings_move_clocks(0);
}

/* Compiles and runs with the opposite of each variable that compile, specialize and execute read. */
static void check_variables(struct surroundings *test, const struct harness *harness, const harness_result *want)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    struct harness other;
    const char *name;
    char when[200];

    (void)surroundings_take_variable();
    check_phase(test->check, "execute");
    if (harness_open(test->check, test->provider, harness->built, harness->entry, 1, &other, &diag) != INLAY_OK)
        return;
    (void)same_again(test, &other, want, "compile it the same each time", "compiled again");
    harness_close(&other);
    name = surroundings_take_variable();
    if (name == NULL || test->failed)
        return;
    test->variables++;
    (void)snprintf(when, sizeof when, "with another value of variable %s", name);
    surroundings_invert_variables(true);
    if (harness_open(test->check, test->provider, harness->built, harness->entry, 1, &other, &diag) == INLAY_OK) {
        (void)same_again(test, &other, want, "read the environment in create, or declare an option", when);
        harness_close(&other);
    }
    surroundings_invert_variables(false);
}

struct stacked {
    struct surroundings *test;
    const struct harness *like;
    harness_result result;
    inlay_diag diag;
    inlay_status status;
};

static void *run_on_stack(void *user)
{
    static const harness_options options = { .quiet = true };
    struct stacked *stacked = user;
    struct harness own;

    stacked->status = harness_open(stacked->test->check, stacked->test->provider, stacked->like->built,
                                   stacked->like->entry, 1, &own, &stacked->diag);
    if (stacked->status == INLAY_OK) {
        check_phase(stacked->test->check, "execute, on a stack of 512 KiB");
        stacked->status = harness_run(&own, &options, &stacked->result, &stacked->diag);
        harness_close(&own);
    }
    return NULL;
}

/* A stack that is too small is a crash. */
static void check_stack(struct surroundings *test, const struct harness *harness, const harness_result *want)
{
    struct stacked *stacked = calloc(1, sizeof *stacked);
    pthread_attr_t attributes;
    pthread_t thread;
    char text[300];

    if (stacked == NULL)
        return;
    *stacked = (struct stacked){ .test = test, .like = harness, .diag = INLAY_DIAG_INIT };
    if (pthread_attr_init(&attributes) == 0) {
        if (pthread_attr_setstacksize(&attributes, STACK_BYTES) == 0 &&
            pthread_create(&thread, &attributes, run_on_stack, stacked) == 0) {
            (void)pthread_join(thread, NULL);
            if (stacked->status == INLAY_OK && !harness->entry->random &&
                !compare_results(&stacked->result, want, text, sizeof text))
                fail(test, harness->entry, "the same result on each thread", "rely on no thread-local variable",
                     "on another thread: %s", text);
            harness_result_deinit(&stacked->result);
        }
        (void)pthread_attr_destroy(&attributes);
    }
    free(stacked);
    check_phase(test->check, "the checker");
}

struct racer {
    const struct harness *harness;
    const harness_result *want;
    pthread_barrier_t *start;
    bool differs;
    char text[300];
};

static void *race(void *user)
{
    static const harness_options options = { .quiet = true };
    struct racer *racer = user;

    for (int round = 0; round < ROUNDS && !racer->differs; round++) {
        inlay_diag diag = INLAY_DIAG_INIT;
        harness_result got;

        if (round == 0)
            (void)pthread_barrier_wait(racer->start);
        racer->differs = harness_run(racer->harness, &options, &got, &diag) == INLAY_OK &&
                         !compare_results(&got, racer->want, racer->text, sizeof racer->text);
        harness_result_deinit(&got);
    }
    return NULL;
}

/* Runs of small tensors are short, so two threads repeat them, each with its own values. */
static void check_race(struct surroundings *test, const struct harness *harness, const harness_result *want)
{
    struct harness varied = *harness;
    struct racer *racers = calloc(2, sizeof *racers);
    harness_result other_want;
    pthread_barrier_t start;
    pthread_t thread;
    op_case other;

    if (racers != NULL && !harness->entry->random &&
        (test->provider->table->flags & INLAY_PROVIDER_SERIAL_EXECUTE) == 0 &&
        case_vary(harness->entry, test->check->args->seed + 9, &other)) {
        varied.entry = &other;
        if (peers_run(test->check, test->fixture, harness->built, &other, &other_want)) {
            check_phase(test->check, "execute in two threads at once");
            racers[0] = (struct racer){ .harness = harness, .want = want, .start = &start };
            racers[1] = (struct racer){ .harness = &varied, .want = &other_want, .start = &start };
            (void)pthread_barrier_init(&start, NULL, 2);
            if (pthread_create(&thread, NULL, race, &racers[1]) == 0) {
                (void)race(&racers[0]);
                (void)pthread_join(thread, NULL);
            }
            (void)pthread_barrier_destroy(&start);
            for (int i = 0; i < 2 && !test->failed; i++)
                if (racers[i].differs)
                    fail(test, harness->entry, "runs that do not depend on each other",
                         "keep what a run writes in its workspace, not in the state or in static variables",
                         "while another thread computes other values: %s", racers[i].text);
            harness_result_deinit(&other_want);
        }
        case_deinit(&other);
    }
    free(racers);
    check_phase(test->check, "the checker");
}

static bool try_case(void *user, op_case *entry)
{
    const harness_options options = { 0 };
    struct surroundings *test = user;
    inlay_diag diag = INLAY_DIAG_INIT;
    harness_result want;
    struct harness harness;
    case_instance built;
    char text[256];

    if (case_graph(entry, &test->fixture->operators, CASE_SIZES, &built, &diag) != INLAY_OK)
        return true;
    check_subject(test->check, "%s", case_text(entry, text, sizeof text));
    if (harness_open(test->check, test->provider, &built, entry, 1, &harness, &diag) == INLAY_OK) {
        if (harness_run(&harness, &options, &want, &diag) == INLAY_OK && want.fault[0] == '\0') {
            test->found = true;
            check_stack(test, &harness, &want);
            check_calls(test, &harness, &want);
            if (!test->failed)
                check_times(test, &harness, &want);
            if (!test->failed)
                check_variables(test, &harness, &want);
            if (!test->failed)
                check_race(test, &harness, &want);
        }
        harness_result_deinit(&want);
        harness_close(&harness);
    }
    case_instance_deinit(&built);
    return !test->found;
}

static bool try_source(void *user, const case_source *source)
{
    struct surroundings *test = user;
    const case_range range = { .seed = test->check->args->seed, .scale = 1, .quick = true };

    if (!check_unit(test->check, "%s-%lld", source->op_type, (long long)source->opset))
        return true;
    test->found = test->failed = false;
    generate_cases(source, &range, try_case, test);
    test->operators += test->found;
    return !test->check->args->quick || test->operators < QUICK_OPERATORS;
}

void check_group_surroundings(struct check *check)
{
    static struct fixture fixture; /* as it stays open */
    const inlay_operator *custom[64];
    uint32_t custom_count;

    if (!fixture_open(check, "surroundings", true, &fixture))
        return;
    custom_count = fixture_operators(&fixture, custom, 64);
    for (uint32_t i = 0; i < fixture.own_count; i++) {
        struct surroundings test = { .check = check,
                                     .fixture = &fixture,
                                     .provider = &fixture.own[i],
                                     .left_ms = check->args->quick ? QUICK_CALLS_MS : CALLS_MS,
                                     .is_watched = !check->args->isolate };

        generate_sources(custom, custom_count, check->args->op, true, try_source, &test);
        if (test.operators > 0)
            check_pass(check, "surroundings", fixture.own[i].name,
                       "%u operators: %llu calls, moved clocks, %u read variables, a stack of 512 KiB, two threads",
                       test.operators, (unsigned long long)test.calls, test.variables);
    }
    /* Then the process ends while the provider is open, see "Exit" in inlay/plugin.h. */
    if (check->args->isolate)
        fixture_close(&fixture);
}
