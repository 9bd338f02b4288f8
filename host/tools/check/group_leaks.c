/* What is left behind: by each way through a provider, by failed allocations, by unloading. */
#include "check/bench.h"
#include "check/generate.h"
#include "check/process.h"
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

enum { CASES = 24, WARM_UP = 3, CYCLES = 20, QUICK_CYCLES = 6, MOST_FAILURES = 400, LIBRARY_BYTES = 4096, RELOADS = 3 };

/* A case of each of a few operators. */
struct picks {
    struct check *c;
    const struct world *w;
    const loaded_provider *p;
    op_case cases[CASES];
    case_one ones[CASES];
    uint32_t count;
    bool taken; /* from the operator at hand */
};

static bool pick_case(void *user, op_case *k)
{
    struct picks *p = user;
    inlay_diag diag = INLAY_DIAG_INIT;
    bench_answer answer;
    case_one one;

    if (case_graph(k, &p->w->operators, CASE_SIZES, &one, &diag) != INLAY_OK)
        return true;
    check_phase(p->c, "assess");
    bench_assess(p->p, &one, &answer);
    case_one_deinit(&one);
    if (answer.kind != BENCH_OFFERED)
        return true;
    p->cases[p->count] = *k;
    k->a = (struct arena){ 0 }; /* ours now */
    if (case_graph(&p->cases[p->count], &p->w->operators, CASE_SIZES, &p->ones[p->count], &diag) == INLAY_OK)
        p->count++;
    else
        case_deinit(&p->cases[p->count]);
    p->taken = true;
    return false;
}

static bool pick_source(void *user, const case_source *source)
{
    struct picks *p = user;
    const case_range range = { .seed = p->c->args->seed, .scale = 1, .quick = true };
    uint64_t dice = p->c->args->seed + (uint64_t)source->op_type[0] * 31 + strlen(source->op_type);

    /* Of a provider with hundreds of operators, some: those of others come with another seed. */
    if (p->p->table != NULL && p->count > 8 && case_random(&dice) % 4 != 0)
        return true;
    check_subject(p->c, "%s-%lld", source->op_type, (long long)source->opset);
    generate_cases(source, &range, pick_case, p);
    return p->count < CASES;
}

static void drop_picks(struct picks *p)
{
    for (uint32_t i = 0; i < p->count; i++) {
        case_one_deinit(&p->ones[i]);
        case_deinit(&p->cases[i]);
    }
}

/* ------------------------------------------------------------------ cycles */

/* Compile, specialize, run, and all the way back. Statuses don't matter here. */
static void run_case(const struct picks *p, const loaded_provider *provider, uint32_t i)
{
    const bench_how how = { 0 };
    inlay_diag diag = INLAY_DIAG_INIT;
    bench_result r;
    struct bench b;

    if (bench_open(p->c, provider, &p->ones[i], &p->cases[i], 1, &b, &diag) != INLAY_OK)
        return;
    (void)!bench_run(&b, &how, &r, &diag);
    bench_result_deinit(&r);
    bench_close(&b);
}

/* One life of a provider: create, all cases, destroy. Where an allocation is to fail, one case behind it shows that
 * the provider goes on; the others have nothing to do with it. */
static void live(const struct picks *p, uint32_t index, bool until_failed)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    loaded_provider provider;
    bool over = false;

    check_phase(p->c, "create");
    if (loaded_create(&p->w->plugins[0], index, p->c->args, &provider, &diag) != INLAY_OK)
        return;
    for (uint32_t i = 0; i < p->count && !over; i++) {
        over = until_failed && heap_has_failed();
        run_case(p, &provider, i);
    }
    check_phase(p->c, "destroy");
    loaded_destroy(&provider);
    check_phase(p->c, "the checker");
}

static void report_heap(struct check *c, const char *subject, const heap_counts *left, uint32_t cycles)
{
    char at[64], words[220] = "";

    heap_blame(at, sizeof at);
    if (at[0] != '\0')
        (void)snprintf(words, sizeof words, ", most from the call at %s of the file (addr2line -e FILE %s)", at, at);
    if (left->live_blocks >= cycles)
        check_fail(c, "leaks", subject, "that nothing is left behind",
                   "free in release_instance, release_compiled and destroy what was allocated before",
                   "%llu bytes in %llu blocks after %u times%s", (unsigned long long)left->live_bytes,
                   (unsigned long long)left->live_blocks, cycles, words);
    else
        check_pass(c, "leaks", subject, "%llu blocks are left after %u times", (unsigned long long)left->live_blocks,
                   cycles);
}

/* Blocks of libraries, which heap_watch does not see, show in the allocator's own sums. */
static void report_libraries(struct check *c, const char *subject, size_t before, size_t after, uint32_t cycles)
{
    size_t each = after > before ? (after - before) / cycles : 0;

    if (each > LIBRARY_BYTES)
        check_warn(c, "leaks", subject, "that the heap does not grow",
                   "see what the libraries that it uses leave behind",
                   "%zu bytes more each time, not by the plugin's own calls", each);
}

static void report_process(struct check *c, const char *subject, const process_state *before,
                           const process_state *after, uint32_t cycles)
{
    if (after->files > before->files)
        check_fail(c, "leaks", subject, "no file descriptor after destroy", "close what create opened",
                   "%d more after %u times", after->files - before->files, cycles);
    if (after->threads > before->threads)
        check_fail(c, "leaks", subject, "no thread after destroy", "join in destroy what create started",
                   "%d more after %u times", after->threads - before->threads, cycles);
    if (after->resident_kb > before->resident_kb + 1024 * (long)cycles)
        check_warn(c, "leaks", subject, "that memory does not grow", "look at mappings that are never undone",
                   "%ld KiB more after %u times", after->resident_kb - before->resident_kb, cycles);
    if (after->files <= before->files && after->threads <= before->threads)
        check_pass(c, "leaks", subject, "no file descriptor and no thread is left");
}

static size_t heap_in_use(void)
{
    return mallinfo2().uordblks;
}

static void check_cycles(const struct picks *p, uint32_t index, const char *name)
{
    const uint32_t cycles = p->c->args->quick ? QUICK_CYCLES : CYCLES;
    process_state before, after;
    size_t in_use;
    heap_counts left;
    char subject[200];

    (void)snprintf(subject, sizeof subject, "%s, from create to destroy", name);
    for (uint32_t i = 0; i < WARM_UP; i++)
        live(p, index, false);
    heap_mark();
    before = process_look();
    in_use = heap_in_use();
    for (uint32_t i = 0; i < cycles; i++)
        live(p, index, false);
    left = heap_look();
    after = process_look();
    report_heap(p->c, subject, &left, cycles);
    if (left.live_blocks < cycles)
        report_libraries(p->c, subject, in_use, heap_in_use(), cycles);
    report_process(p->c, subject, &before, &after, cycles);
}

/* ------------------------------------------------------------------ failing allocations */

static void check_failures(const struct picks *p, uint32_t index, const char *name)
{
    heap_counts left;
    uint64_t n = 1;
    char subject[200];

    (void)snprintf(subject, sizeof subject, "%s, when memory runs out", name);
    check_subject(p->c, "%s", subject);
    heap_mark();
    for (; n <= MOST_FAILURES; n++) {
        heap_fail_at(n);
        live(p, index, true);
        if (!heap_has_failed())
            break; /* there are no more allocations */
    }
    heap_fail_at(0);
    left = heap_look();
    report_heap(p->c, subject, &left, (uint32_t)n < 8 ? (uint32_t)n + 1 : 8);
}

/* ------------------------------------------------------------------ unloading */

static void check_unload(struct check *c, struct world *w)
{
    char path[4096];
    bool closes = (w->plugins[0].table.flags & INLAY_PLUGIN_DLCLOSE) != 0;
    process_state before = process_look(), after;

    (void)snprintf(path, sizeof path, "%s", w->plugins[0].path);
    check_phase(c, "shutdown and dlclose");
    world_close(w);
    after = process_look();
    if (!closes) {
        check_pass(c, "unload", NULL, "it stays mapped, as it asks for (no INLAY_PLUGIN_DLCLOSE)");
    } else {
        inlay_diag diag = INLAY_DIAG_INIT;
        loaded_plugin again;

        if (process_has_mapped(path))
            check_warn(c, "unload", NULL, "that it can be unmapped, as INLAY_PLUGIN_DLCLOSE says",
                       "drop the flag; thread-local variables, -z nodelete or unique C++ symbols hold it",
                       "it is still mapped after dlclose");
        else
            check_pass(c, "unload", NULL, "it is unmapped after dlclose");
        for (int i = 0; i < RELOADS; i++) {
            check_phase(c, "loading it again");
            if (loaded_open(path, &again, &diag) != INLAY_OK) {
                check_fail(c, "unload", NULL, "that it can be loaded again", "leave nothing behind in shutdown", "%s",
                           diag.text);
                return;
            }
            loaded_close(&again);
        }
    }
    if (after.threads > before.threads)
        check_fail(c, "unload", NULL, "no thread more after shutdown", "start none in shutdown", "%d more",
                   after.threads - before.threads);
}

void check_group_leaks(struct check *c)
{
    const inlay_operator *custom[64];
    struct world w;

    if (!world_open(c, "leaks", false, &w))
        return;
    for (uint32_t i = 0; i < w.plugins[0].table.provider_count; i++) {
        const char *name = w.plugins[0].providers[i].name;
        struct picks *p = NULL;

        for (uint32_t k = 0; k < w.own_count && p == NULL; k++)
            if (w.own[k].table == &w.plugins[0].providers[i] && (p = calloc(1, sizeof *p)) != NULL)
                *p = (struct picks){ .c = c, .w = &w, .p = &w.own[k] };
        if (p == NULL)
            continue;
        generate_sources(custom, world_operators(&w, custom, 64), c->args->op, true, pick_source, p);
        if (!heap_watch(w.plugins[0].handle))
            check_skip(c, "leaks", name, "its calls of malloc cannot be seen here");
        if (check_unit(c, "%s, from create to destroy", name))
            check_cycles(p, i, name);
        if (check_unit(c, "%s, when memory runs out", name))
            check_failures(p, i, name);
        drop_picks(p);
        free(p);
    }
    if (check_unit(c, "unloading"))
        check_unload(c, &w);
    else
        world_close(&w);
}
