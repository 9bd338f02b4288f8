/* Finds leaks: after each life cycle of a provider, after failed allocations, after unloading. */
#include "base/random.h"
#include "check/generate.h"
#include "check/host.h"
#include "check/harness.h"
#include "check/process.h"
#include "inlay/check.h"
#include <malloc.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum {
    CASES = 24,
    WARM_UP = 3,
    CYCLES = 20,
    QUICK_CYCLES = 6,
    MOST_FAILURES = 400,
    LIBRARY_BYTES = 4096,
    RELOADS = 3,
    CALLS = 40,         /* of each half of a loop */
    TENTH = CALLS / 20, /* a leak in every tenth call leaves twice as many */
    LOOP_CASES = 4,
    TRIES = 96, /* compiles that may find a declined case */
    QUICK_TRIES = 24,
    LOOP_MS = 2000
};

/* One case of each of a few operators. */
struct selected_cases {
    struct check *check;
    const struct fixture *fixture;
    const loaded_provider *provider;
    op_case cases[CASES];
    case_instance ones[CASES];
    uint32_t count, most;
    bool declined;  /* selects those that are offered, but declined by compile or specialize */
    uint32_t tries; /* compiles that may still be tried to find them */
};

/* Is the case declined, although it was offered? */
static bool is_declined(struct selected_cases *selected, const op_case *entry, const case_instance *built)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    struct harness harness;
    const inlay_status status = harness_open(selected->check, selected->provider, built, entry, 1, &harness, &diag);

    selected->tries -= selected->tries > 0;
    if (status == INLAY_OK)
        harness_close(&harness);
    return status == INLAY_UNSUPPORTED && strcmp(harness.phase, "assess") != 0 && strcmp(harness.phase, "budget") != 0;
}

static bool pick_case(void *user, op_case *entry)
{
    struct selected_cases *selected = user;
    inlay_diag diag = INLAY_DIAG_INIT;
    harness_answer answer;
    case_instance built;
    bool fits;

    if (case_graph(entry, &selected->fixture->operators, CASE_SIZES, &built, &diag) != INLAY_OK)
        return true;
    check_phase(selected->check, "assess");
    harness_assess(selected->provider, &built, &answer);
    fits = answer.kind == HARNESS_OFFERED && (!selected->declined || is_declined(selected, entry, &built));
    case_instance_deinit(&built);
    if (!fits)
        return !selected->declined || selected->tries > 0;
    INLAY_CHECK(selected->count < selected->most && selected->most <= CASES);
    selected->cases[selected->count] = *entry;
    entry->arena = (struct arena){ 0 }; /* selected->cases owns it now */
    if (case_graph(&selected->cases[selected->count], &selected->fixture->operators, CASE_SIZES,
                   &selected->ones[selected->count], &diag) == INLAY_OK)
        selected->count++;
    else
        case_deinit(&selected->cases[selected->count]);
    return false;
}

static bool select_source(void *user, const case_source *source)
{
    struct selected_cases *selected = user;
    const case_range range = { .seed = selected->check->args->seed, .scale = 1, .quick = true };
    uint64_t dice = selected->check->args->seed + (uint64_t)source->op_type[0] * 31 + strlen(source->op_type);

    /* After the first 9 cases, selects a quarter of the operators, so that the cases cover a large provider; another
     * seed selects others. */
    if (selected->provider->table != NULL && selected->count > 8 && random_bits(&dice) % 4 != 0)
        return true;
    check_subject(selected->check, "%s-%lld", source->op_type, (long long)source->opset);
    generate_cases(source, &range, pick_case, selected);
    return selected->count < selected->most && (!selected->declined || selected->tries > 0);
}

static void release_cases(struct selected_cases *selected)
{
    for (uint32_t i = 0; i < selected->count; i++) {
        case_instance_deinit(&selected->ones[i]);
        case_deinit(&selected->cases[i]);
    }
}

/* Compiles, specialises, runs and releases a case. The statuses do not matter here. */
static void run_case(const struct selected_cases *selected, const loaded_provider *provider, uint32_t i)
{
    const harness_options options = { 0 };
    inlay_diag diag = INLAY_DIAG_INIT;
    harness_result result;
    struct harness harness;

    if (harness_open(selected->check, provider, &selected->ones[i], &selected->cases[i], 1, &harness, &diag) !=
        INLAY_OK)
        return;
    (void)!harness_run(&harness, &options, &result, &diag);
    harness_result_deinit(&result);
    harness_close(&harness);
}

/* One life cycle of a provider: create, all cases, destroy. until_failed: stops one case after the injected allocation
 * failure, which shows that the provider still works. */
static void run_lifecycle(const struct selected_cases *selected, uint32_t index, bool until_failed)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    loaded_provider provider;
    bool over = false;

    INLAY_CHECK(index < selected->fixture->plugins[0].table.provider_count);
    check_phase(selected->check, "create");
    if (loaded_create(&selected->fixture->plugins[0], index, selected->check->args, &provider, &diag) != INLAY_OK)
        return;
    for (uint32_t i = 0; i < selected->count && !over; i++) {
        over = until_failed && heap_has_failed();
        run_case(selected, &provider, i);
    }
    check_phase(selected->check, "destroy");
    loaded_destroy(&provider);
    check_phase(selected->check, "the checker");
}

/* least: the number of blocks that is a leak. */
static void report_heap(struct check *check, const char *subject, const heap_counts *left, uint32_t cycles,
                        uint32_t least)
{
    char at[64], words[220] = "";

    INLAY_CHECK(least > 0);
    heap_main_caller(at, sizeof at);
    if (at[0] != '\0')
        (void)snprintf(words, sizeof words, ", most allocated at offset %s of the file (addr2line -e FILE %s)", at, at);
    if (left->live_blocks >= least)
        check_fail(check, "leaks", subject, "no block is leaked",
                   "free the blocks in release_instance, release_compiled and destroy",
                   "%llu bytes in %llu blocks after %u cycles%s", (unsigned long long)left->live_bytes,
                   (unsigned long long)left->live_blocks, cycles, words);
    else
        check_pass(check, "leaks", subject, "%llu blocks are live after %u cycles",
                   (unsigned long long)left->live_blocks, cycles);
}

/* Blocks of libraries, which heap_watch() does not count, appear in the statistics of the allocator. */
static void report_libraries(struct check *check, const char *subject, size_t before, size_t after, uint32_t cycles)
{
    size_t each = 0;

    INLAY_CHECK(cycles > 0);
    if (after > before)
        each = (after - before) / cycles;
    if (each > LIBRARY_BYTES)
        check_warn(check, "leaks", subject, "the heap does not grow", "look for leaks of the libraries that it uses",
                   "%zu bytes more in each cycle, not allocated by the plugin itself", each);
}

static void report_process(struct check *check, const char *subject, const process_state *before,
                           const process_state *after, uint32_t cycles)
{
    if (after->files > before->files)
        check_fail(check, "leaks", subject, "no file descriptor after destroy", "close what create opened",
                   "%d more after %u cycles", after->files - before->files, cycles);
    if (after->threads > before->threads)
        check_fail(check, "leaks", subject, "no thread after destroy", "join in destroy what create started",
                   "%d more after %u cycles", after->threads - before->threads, cycles);
    if (after->resident_kb > before->resident_kb + 1024 * (long)cycles)
        check_warn(check, "leaks", subject, "resident memory does not grow", "look for mappings without munmap",
                   "%ld KiB more after %u cycles", after->resident_kb - before->resident_kb, cycles);
    if (after->files <= before->files && after->threads <= before->threads)
        check_pass(check, "leaks", subject, "no file descriptor and no thread is leaked");
}

static size_t heap_in_use(void)
{
    return mallinfo2().uordblks;
}

static void check_cycles(const struct selected_cases *selected, uint32_t index, const char *name)
{
    const uint32_t cycles = selected->check->args->quick ? QUICK_CYCLES : CYCLES;
    process_state before, after;
    size_t in_use;
    heap_counts left;
    char subject[200];

    (void)snprintf(subject, sizeof subject, "%s, from create to destroy", name);
    for (uint32_t i = 0; i < WARM_UP; i++)
        run_lifecycle(selected, index, false);
    heap_mark();
    before = process_read_state();
    in_use = heap_in_use();
    for (uint32_t i = 0; i < cycles; i++)
        run_lifecycle(selected, index, false);
    left = heap_read_counts();
    after = process_read_settled(&before);
    report_heap(selected->check, subject, &left, cycles, cycles);
    if (left.live_blocks < cycles)
        report_libraries(selected->check, subject, in_use, heap_in_use(), cycles);
    report_process(selected->check, subject, &before, &after, cycles);
}

/* A loop over one function of the provider. */
struct call_loop {
    const struct selected_cases *selected;
    uint32_t index; /* of the provider, for create */
    uint32_t which; /* of the cases */
    struct harness harness;
    bool is_open;
};

static bool loop_execute(struct call_loop *loop)
{
    const harness_options options = { .quiet = true };
    inlay_diag diag = INLAY_DIAG_INIT;
    harness_result result;
    const inlay_status status = harness_run(&loop->harness, &options, &result, &diag);

    harness_result_deinit(&result);
    return status == INLAY_OK;
}

/* Runs that are cancelled before they begin, or in their first parallel loop. */
static bool loop_cancel(struct call_loop *loop)
{
    for (uint32_t in_loops = 0; in_loops < 2; in_loops++) {
        uint32_t stop = in_loops == 0;
        const harness_options options = { .quiet = true, .cancel = &stop };
        inlay_diag diag = INLAY_DIAG_INIT;
        harness_result result;
        inlay_status status;

        check_host_cancel_in_loops(in_loops != 0 ? &stop : NULL);
        status = harness_run(&loop->harness, &options, &result, &diag);
        check_host_cancel_in_loops(NULL);
        harness_result_deinit(&result);
        if (status != INLAY_OK && status != INLAY_CANCELLED)
            return false;
    }
    return true;
}

static bool loop_specialize(struct call_loop *loop)
{
    inlay_diag diag = INLAY_DIAG_INIT;

    loop->is_open = harness_specialize_again(&loop->harness, &diag) == INLAY_OK;
    return loop->is_open;
}

static bool loop_compile(struct call_loop *loop)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    struct harness harness;

    if (harness_open(loop->selected->check, loop->selected->provider, &loop->selected->ones[loop->which],
                     &loop->selected->cases[loop->which], 1, &harness, &diag) != INLAY_OK)
        return false;
    harness_close(&harness);
    return true;
}

static bool loop_declined(struct call_loop *loop)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    struct harness harness;

    if (harness_open(loop->selected->check, loop->selected->provider, &loop->selected->ones[loop->which],
                     &loop->selected->cases[loop->which], 1, &harness, &diag) != INLAY_OK)
        return true;
    harness_close(&harness);
    return false;
}

static bool loop_create(struct call_loop *loop)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    loaded_provider provider;

    if (loaded_create(&loop->selected->fixture->plugins[0], loop->index, loop->selected->check->args, &provider,
                      &diag) != INLAY_OK)
        return false;
    loaded_destroy(&provider);
    return true;
}

/* How much more there is after a half of a loop. */
struct remains {
    int64_t blocks;
    long mapped_kb;
    int files, threads;
};

/* Calls `once` CALLS times. False: a call failed, or the time is over. */
static bool run_half(struct call_loop *loop, bool (*once)(struct call_loop *loop), const process_clock *begin,
                     struct remains *out)
{
    const process_state before = process_read_state();
    const int64_t blocks = (int64_t)heap_read_counts().all_blocks;
    process_state after;
    bool ok = true;

    heap_mark(); /* for heap_main_caller() */
    for (uint32_t i = 0; i < CALLS && ok; i++) {
        ok = process_clock_ms(begin) < LOOP_MS && once(loop);
        check_tick(loop->selected->check);
    }
    after = process_read_settled(&before);
    *out = (struct remains){ (int64_t)heap_read_counts().all_blocks - blocks, after.mapped_kb - before.mapped_kb,
                             after.files - before.files, after.threads - before.threads };
    return ok;
}

/* ThreadSanitizer maps memory for each thread that a call starts, and keeps it. */
static bool maps_for_threads(const struct call_loop *loop)
{
    return (loop->selected->fixture->plugins[0].sanitizers & INLAY_SANITIZER_THREAD) != 0;
}

/* Runs two halves after a first one: what grows in both of them is a leak. False: reported. */
static bool check_loop(struct call_loop *loop, bool (*once)(struct call_loop *loop), const char *function,
                       const char *subject)
{
    const long page_kb = 4;
    const process_clock begin = process_clock_start();
    struct remains half[2];
    char at[64];

    check_phase(loop->selected->check, function);
    for (int i = 0; i < 3; i++) /* the first half is run twice, to warm up */
        if (!run_half(loop, once, &begin, &half[i / 2]))
            return true;
    heap_main_caller(at, sizeof at);
    if (half[0].blocks >= TENTH && half[1].blocks >= TENTH)
        check_fail(loop->selected->check, "leaks", subject, "no block is leaked",
                   "free in release_instance, release_compiled and destroy what the calls before them allocated",
                   "%lld blocks after %d calls of %s, most allocated at offset %s of the file (addr2line -e FILE %s)",
                   (long long)(half[0].blocks + half[1].blocks), 2 * CALLS, function, at, at);
    else if (!maps_for_threads(loop) && half[0].mapped_kb >= page_kb * CALLS && half[1].mapped_kb >= page_kb * CALLS)
        check_fail(loop->selected->check, "leaks", subject, "no mapping is leaked", "call munmap for each mmap",
                   "%ld KiB more are mapped after %d calls of %s", half[0].mapped_kb + half[1].mapped_kb, 2 * CALLS,
                   function);
    else if (half[0].files >= TENTH && half[1].files >= TENTH)
        check_fail(loop->selected->check, "leaks", subject, "no file descriptor is leaked", "close what a call opened",
                   "%d more after %d calls of %s", half[0].files + half[1].files, 2 * CALLS, function);
    else if (half[0].threads >= TENTH && half[1].threads >= TENTH)
        check_fail(loop->selected->check, "leaks", subject, "no thread is leaked", "join what a call started",
                   "%d more after %d calls of %s", half[0].threads + half[1].threads, 2 * CALLS, function);
    else
        return true;
    return false;
}

/* Repeats a compile that declines an offer. False: reported. */
static bool check_declined(const struct selected_cases *selected, const char *subject)
{
    const inlay_operator *custom[64];
    struct selected_cases *declined = calloc(1, sizeof *declined);
    struct call_loop loop = { .selected = declined };
    bool ok = true;

    if (declined == NULL)
        return true;
    *declined = (struct selected_cases){ .check = selected->check,
                                         .fixture = selected->fixture,
                                         .provider = selected->provider,
                                         .most = 1,
                                         .declined = true,
                                         .tries = selected->check->args->quick ? QUICK_TRIES : TRIES };
    generate_sources(custom, fixture_operators(selected->fixture, custom, 64), selected->check->args->op, true,
                     select_source, declined);
    if (declined->count > 0)
        ok = check_loop(&loop, loop_declined, "compile, declined", subject);
    release_cases(declined);
    free(declined);
    return ok;
}

/* Repeats execute, specialize, compile and create. */
static void check_loops(const struct selected_cases *selected, uint32_t index, const char *name)
{
    struct call_loop loop = { .selected = selected, .index = index };
    char subject[200];
    bool ok;

    (void)snprintf(subject, sizeof subject, "%s, in repeated calls", name);
    ok = check_loop(&loop, loop_create, "create and destroy", subject);
    for (uint32_t i = 0; i < selected->count && i < LOOP_CASES && ok; i++) {
        inlay_diag diag = INLAY_DIAG_INIT;

        loop.which = i;
        loop.is_open = harness_open(selected->check, selected->provider, &selected->ones[i], &selected->cases[i], 1,
                                    &loop.harness, &diag) == INLAY_OK;
        if (!loop.is_open)
            continue;
        ok = check_loop(&loop, loop_execute, "execute", subject) &&
             check_loop(&loop, loop_cancel, "execute, cancelled", subject) &&
             check_loop(&loop, loop_specialize, "specialize", subject);
        if (loop.is_open)
            harness_close(&loop.harness);
        ok = ok && check_loop(&loop, loop_compile, "compile", subject);
    }
    if (ok && check_declined(selected, subject))
        check_pass(selected->check, "leaks", subject, "create, compile, specialize and execute leave nothing behind");
    check_phase(selected->check, "the checker");
}

/* Lets each allocation of a life cycle fail in turn. Returns the number of life cycles. */
static uint32_t fail_allocations(const struct selected_cases *selected, uint32_t index)
{
    uint32_t n = 1;

    for (; n <= MOST_FAILURES; n++) {
        heap_fail_at(n);
        run_lifecycle(selected, index, true);
        if (!heap_has_failed())
            break; /* no more allocations */
    }
    heap_fail_at(0);
    return n;
}

/* The first time fills what the plugin keeps; what remains each further time is a leak. */
static void check_failures(const struct selected_cases *selected, uint32_t index, const char *name)
{
    heap_counts left = { .live_blocks = 1 };
    uint32_t cycles;
    char subject[200];

    (void)snprintf(subject, sizeof subject, "%s, when memory runs out", name);
    check_subject(selected->check, "%s", subject);
    cycles = fail_allocations(selected, index);
    for (uint32_t i = 0; i < 2 && left.live_blocks > 0; i++) {
        heap_mark();
        cycles = fail_allocations(selected, index);
        left = heap_read_counts();
    }
    report_heap(selected->check, subject, &left, cycles, 1);
}

/* A thread that runs a case, and ends after the plugin was unmapped: destructors of thread-local variables run then. */
struct survivor {
    struct selected_cases *selected;
    pthread_barrier_t ran, unmapped;
};

static void *run_and_survive(void *user)
{
    struct survivor *survivor = user;

    for (uint32_t i = 0; i < survivor->selected->count; i++)
        run_case(survivor->selected, survivor->selected->provider, i);
    (void)pthread_barrier_wait(&survivor->ran);
    (void)pthread_barrier_wait(&survivor->unmapped);
    return NULL;
}

/* Closes the fixture while a thread lives that has called the plugin, and ends the thread. */
static void close_with_survivor(struct check *check, struct fixture *fixture)
{
    const inlay_operator *custom[64];
    struct selected_cases *selected = calloc(1, sizeof *selected);
    struct survivor survivor = { .selected = selected };
    bool started = false;
    pthread_t thread;

    if (selected != NULL && fixture->own_count > 0) {
        *selected =
            (struct selected_cases){ .check = check, .fixture = fixture, .provider = &fixture->own[0], .most = 2 };
        generate_sources(custom, fixture_operators(fixture, custom, 64), check->args->op, true, select_source,
                         selected);
        (void)pthread_barrier_init(&survivor.ran, NULL, 2);
        (void)pthread_barrier_init(&survivor.unmapped, NULL, 2);
        started = pthread_create(&thread, NULL, run_and_survive, &survivor) == 0;
        if (started)
            (void)pthread_barrier_wait(&survivor.ran);
        release_cases(selected);
    }
    check_phase(check, "shutdown and dlclose");
    fixture_close(fixture);
    if (started) {
        check_phase(check, "a thread that ends after dlclose");
        (void)pthread_barrier_wait(&survivor.unmapped);
        (void)pthread_join(thread, NULL);
    }
    check_phase(check, "the checker");
    free(selected);
}

/* Opens and closes the plugin, and ends. */
static void *create_and_end(void *user)
{
    struct check *check = user;
    struct fixture fixture;

    if (fixture_open(check, "leaks", false, &fixture)) {
        check_phase(check, "shutdown and dlclose");
        fixture_close(&fixture);
    }
    check_phase(check, "the end of the thread that called create");
    return NULL;
}

static void *end_at_once(void *unused)
{
    return unused;
}

static void check_unload(struct check *check, struct fixture *fixture)
{
    char path[4096];
    bool closes = (fixture->plugins[0].table.flags & INLAY_PLUGIN_DLCLOSE) != 0;
    process_state before, after;
    pthread_t first;

    /* ThreadSanitizer starts a thread when the process starts its first one. */
    if (pthread_create(&first, NULL, end_at_once, NULL) == 0)
        (void)pthread_join(first, NULL);
    before = process_read_state();
    (void)snprintf(path, sizeof path, "%s", fixture->plugins[0].path);
    close_with_survivor(check, fixture);
    after = process_read_settled(&before);
    if (!closes) {
        check_pass(check, "unload", NULL, "the plugin stays mapped, as requested (no INLAY_PLUGIN_DLCLOSE)");
    } else {
        inlay_diag diag = INLAY_DIAG_INIT;
        loaded_plugin again;

        if (process_has_mapped(path))
            check_warn(check, "unload", NULL, "the plugin can be unmapped, as INLAY_PLUGIN_DLCLOSE declares",
                       "drop the flag; thread-local variables, -z nodelete or unique C++ symbols hold it",
                       "it is still mapped after dlclose%s",
                       process_imports(path, "__cxa_thread_atexit_impl") ? ": it imports __cxa_thread_atexit_impl"
                                                                         : "");
        else
            check_pass(check, "unload", NULL,
                       "it is unmapped after dlclose; threads that had called create and execute ended later%s",
                       process_imports(path, "pthread_key_create") ? "; its keys of pthread_key_create had no effect"
                                                                   : "");
        if (pthread_create(&first, NULL, create_and_end, check) == 0)
            (void)pthread_join(first, NULL);
        check_phase(check, "the checker");
        for (int i = 0; i < RELOADS; i++) {
            check_phase(check, "loading it again");
            if (loaded_open(path, false, &again, &diag) != INLAY_OK) {
                check_fail(check, "unload", NULL, "the plugin can be loaded again",
                           "undo in shutdown what inlay_plugin_open did", "%s", diag.text);
                return;
            }
            loaded_close(&again);
        }
    }
    if (after.threads > before.threads)
        check_fail(check, "unload", NULL, "no additional thread after shutdown", "start none in shutdown", "%d more",
                   after.threads - before.threads);
}

void check_group_leaks(struct check *check)
{
    const inlay_operator *custom[64];
    struct fixture fixture;

    if (!fixture_open(check, "leaks", false, &fixture))
        return;
    for (uint32_t i = 0; i < fixture.plugins[0].table.provider_count; i++) {
        const char *name = fixture.plugins[0].providers[i].name;
        struct selected_cases *selected = NULL;

        for (uint32_t k = 0; k < fixture.own_count && selected == NULL; k++)
            if (fixture.own[k].table == &fixture.plugins[0].providers[i] &&
                (selected = calloc(1, sizeof *selected)) != NULL)
                *selected = (struct selected_cases){
                    .check = check, .fixture = &fixture, .provider = &fixture.own[k], .most = CASES
                };
        if (selected == NULL)
            continue;
        generate_sources(custom, fixture_operators(&fixture, custom, 64), check->args->op, true, select_source,
                         selected);
        if (!heap_watch(fixture.plugins[0].handle))
            check_skip(check, "leaks", name, "its calls of malloc cannot be counted on this machine");
        if (check_unit(check, "%s, from create to destroy", name))
            check_cycles(selected, i, name);
        if (check_unit(check, "%s, in repeated calls", name))
            check_loops(selected, i, name);
        if (check_unit(check, "%s, when memory runs out", name))
            check_failures(selected, i, name);
        release_cases(selected);
        free(selected);
    }
    if (check_unit(check, "unloading"))
        check_unload(check, &fixture);
    else
        fixture_close(&fixture);
}
