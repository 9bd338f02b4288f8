/* Finds leaks: after each life cycle of a provider, after failed allocations, after unloading. */
#include "check/harness.h"
#include "check/generate.h"
#include "check/process.h"
#include "inlay/check.h"
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

enum { CASES = 24, WARM_UP = 3, CYCLES = 20, QUICK_CYCLES = 6, MOST_FAILURES = 400, LIBRARY_BYTES = 4096, RELOADS = 3 };

/* One case of each of a few operators. */
struct selected_cases {
    struct check *check;
    const struct fixture *fixture;
    const loaded_provider *provider;
    op_case cases[CASES];
    case_instance ones[CASES];
    uint32_t count;
    bool taken; /* a case of the current operator is selected */
};

static bool pick_case(void *user, op_case *entry)
{
    struct selected_cases *selected = user;
    inlay_diag diag = INLAY_DIAG_INIT;
    harness_answer answer;
    case_instance built;

    if (case_graph(entry, &selected->fixture->operators, CASE_SIZES, &built, &diag) != INLAY_OK)
        return true;
    check_phase(selected->check, "assess");
    harness_assess(selected->provider, &built, &answer);
    case_instance_deinit(&built);
    if (answer.kind != HARNESS_OFFERED)
        return true;
    INLAY_CHECK(selected->count < CASES);
    selected->cases[selected->count] = *entry;
    entry->arena = (struct arena){ 0 }; /* selected->cases owns it now */
    if (case_graph(&selected->cases[selected->count], &selected->fixture->operators, CASE_SIZES,
                   &selected->ones[selected->count], &diag) == INLAY_OK)
        selected->count++;
    else
        case_deinit(&selected->cases[selected->count]);
    selected->taken = true;
    return false;
}

static bool select_source(void *user, const case_source *source)
{
    struct selected_cases *selected = user;
    const case_range range = { .seed = selected->check->args->seed, .scale = 1, .quick = true };
    uint64_t dice = selected->check->args->seed + (uint64_t)source->op_type[0] * 31 + strlen(source->op_type);

    /* After the first 9 cases, selects a quarter of the operators, so that the cases cover a large provider; another
     * seed selects others. */
    if (selected->provider->table != NULL && selected->count > 8 && case_random(&dice) % 4 != 0)
        return true;
    check_subject(selected->check, "%s-%lld", source->op_type, (long long)source->opset);
    generate_cases(source, &range, pick_case, selected);
    return selected->count < CASES;
}

static void release_cases(struct selected_cases *selected)
{
    for (uint32_t i = 0; i < selected->count; i++) {
        case_instance_deinit(&selected->ones[i]);
        case_deinit(&selected->cases[i]);
    }
}

/* ------------------------------------------------------------------ cycles */

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

static void report_heap(struct check *check, const char *subject, const heap_counts *left, uint32_t cycles)
{
    char at[64], words[220] = "";

    INLAY_CHECK(cycles > 0);
    heap_main_caller(at, sizeof at);
    if (at[0] != '\0')
        (void)snprintf(words, sizeof words, ", most allocated at offset %s of the file (addr2line -e FILE %s)", at, at);
    if (left->live_blocks >= cycles)
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
    after = process_read_state();
    report_heap(selected->check, subject, &left, cycles);
    if (left.live_blocks < cycles)
        report_libraries(selected->check, subject, in_use, heap_in_use(), cycles);
    report_process(selected->check, subject, &before, &after, cycles);
}

/* ------------------------------------------------------------------ failing allocations */

static void check_failures(const struct selected_cases *selected, uint32_t index, const char *name)
{
    heap_counts left;
    uint64_t n = 1;
    char subject[200];

    (void)snprintf(subject, sizeof subject, "%s, when memory runs out", name);
    check_subject(selected->check, "%s", subject);
    heap_mark();
    for (; n <= MOST_FAILURES; n++) {
        heap_fail_at(n);
        run_lifecycle(selected, index, true);
        if (!heap_has_failed())
            break; /* no more allocations */
    }
    heap_fail_at(0);
    left = heap_read_counts();
    report_heap(selected->check, subject, &left, (uint32_t)n < 8 ? (uint32_t)n + 1 : 8);
}

/* ------------------------------------------------------------------ unloading */

static void check_unload(struct check *check, struct fixture *fixture)
{
    char path[4096];
    bool closes = (fixture->plugins[0].table.flags & INLAY_PLUGIN_DLCLOSE) != 0;
    process_state before = process_read_state(), after;

    (void)snprintf(path, sizeof path, "%s", fixture->plugins[0].path);
    check_phase(check, "shutdown and dlclose");
    fixture_close(fixture);
    after = process_read_state();
    if (!closes) {
        check_pass(check, "unload", NULL, "the plugin stays mapped, as requested (no INLAY_PLUGIN_DLCLOSE)");
    } else {
        inlay_diag diag = INLAY_DIAG_INIT;
        loaded_plugin again;

        if (process_has_mapped(path))
            check_warn(check, "unload", NULL, "the plugin can be unmapped, as INLAY_PLUGIN_DLCLOSE declares",
                       "drop the flag; thread-local variables, -z nodelete or unique C++ symbols hold it",
                       "it is still mapped after dlclose");
        else
            check_pass(check, "unload", NULL, "it is unmapped after dlclose");
        for (int i = 0; i < RELOADS; i++) {
            check_phase(check, "loading it again");
            if (loaded_open(path, &again, &diag) != INLAY_OK) {
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
                *selected = (struct selected_cases){ .check = check, .fixture = &fixture, .provider = &fixture.own[k] };
        if (selected == NULL)
            continue;
        generate_sources(custom, fixture_operators(&fixture, custom, 64), check->args->op, true, select_source,
                         selected);
        if (!heap_watch(fixture.plugins[0].handle))
            check_skip(check, "leaks", name, "its calls of malloc cannot be counted on this machine");
        if (check_unit(check, "%s, from create to destroy", name))
            check_cycles(selected, i, name);
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
