/* rewrite_rows.h - tests a pass with rows: a graph, and the operators that remain. Outputs must equal those without
 * the optimiser. */
#ifndef REWRITE_ROWS_H
#define REWRITE_ROWS_H
#include "graph_script.h"
#include "passes/pass.h"
#include "session/session.h"
#if defined(ROWS_STARVE)
#include "failing_alloc.h"
#include "model/model.h"
#endif

struct row {
    const char *name;
    const char *script;
    const char *ops; /* the remaining operators, in order */
    int64_t opset;   /* 0 = 17 */
};

static inline void list_ops(const struct graph *graph, char *text, size_t bytes)
{
    text[0] = '\0';
    for (uint32_t i = 0; i < graph->node_count; i++) {
        size_t used = strlen(text);
        (void)snprintf(text + used, bytes - used, "%s%s", i > 0 ? " " : "", graph->nodes[i]->info.op_type.data);
    }
}

static inline struct rig open_row(const struct row *row, const char *const *options)
{
    struct wire wire = { 0 };

    script_model(&wire, row->opset == 0 ? 17 : row->opset, row->script);
    return rig_open(&wire, options);
}

static inline void expect_equal(const struct row *row, inlay_value *got, inlay_value *want)
{
    const float *a = inlay_value_data(got), *b = inlay_value_data(want);

    assert_int_equal(inlay_value_rank(got), inlay_value_rank(want));
    for (uint32_t d = 0; d < inlay_value_rank(got); d++)
        assert_int_equal(inlay_value_dims(got)[d], inlay_value_dims(want)[d]);
    for (int64_t i = 0; i < inlay_value_count(got); i++) {
        bool same = (isnan(a[i]) && isnan(b[i])) || a[i] == b[i] || fabsf(a[i] - b[i]) <= 1e-4f * (1 + fabsf(b[i]));
        if (!same)
            fail_msg("%s: element %lld is %g with the optimiser and %g without", row->name, (long long)i, (double)a[i],
                     (double)b[i]);
    }
}

enum { ROWS_MOST_PASSES = 128 };
static bool rows_seen[ROWS_MOST_PASSES]; /* [pass] whether it has rewritten something */

static inline void rows_note(void *ctx, const char *pass, int64_t number, const struct graph *graph,
                             const graph_node *node, const char *text)
{
    const char *name;
    uint32_t level;

    (void)ctx, (void)number, (void)graph, (void)node, (void)text;
    for (uint32_t i = 0; i < ROWS_MOST_PASSES && (name = pass_name(i, &level)) != NULL; i++)
        rows_seen[i] = rows_seen[i] || strcmp(name, pass) == 0;
}

/* Optimises the row's graph again and records which passes changed something. */
static inline void rows_follow(const struct row *row, const char *const *options)
{
    const session_watch watch = { .note = rows_note };
    struct wire wire = { 0 };
    session_source source = { .fd = -1 };
    inlay_options *created = NULL;
    inlay_session *session = NULL;

    script_model(&wire, row->opset == 0 ? 17 : row->opset, row->script);
    source.data = wire.bytes;
    source.bytes = wire.count;
    assert_int_equal(inlay_options_create(&created, NULL), INLAY_OK);
    assert_int_equal(inlay_options_set(created, "providers", "reference", NULL), INLAY_OK);
    for (; options != NULL && options[0] != NULL; options += 2)
        assert_int_equal(inlay_options_set(created, options[0], options[1], NULL), INLAY_OK);
    assert_int_equal(session_prepare(&source, created, &watch, &session, NULL), INLAY_OK);
    inlay_session_destroy(session);
    inlay_options_destroy(created);
    wire_deinit(&wire);
}

/* Checks that every pass of the levels has rewritten a graph in the rows so far, except passes that are tested
 * elsewhere: their names, each between spaces. */
static inline void rows_expect_passes(uint32_t lowest, uint32_t highest, const char *elsewhere)
{
    char name[80];
    const char *pass;
    uint32_t level;

    for (uint32_t i = 0; (pass = pass_name(i, &level)) != NULL; i++) {
        (void)snprintf(name, sizeof name, " %s ", pass);
        assert_true(i < ROWS_MOST_PASSES);
        if (level >= lowest && level <= highest && !rows_seen[i] && strstr(elsewhere, name) == NULL)
            fail_msg("pass %s rewrites nothing in any row", pass);
    }
}

/* Appends the operators of a graph and its bodies, with a space after each. */
static inline void add_ops(const struct graph *graph, char *text, size_t bytes)
{
    for (uint32_t i = 0; i < graph->node_count; i++) {
        size_t used = strlen(text);

        (void)snprintf(text + used, bytes - used, "%s ", graph->nodes[i]->info.op_type.data);
        for (uint32_t b = 0; b < graph->nodes[i]->body_count; b++)
            add_ops(graph->nodes[i]->bodies[b].graph, text, bytes);
    }
}

/* Checks that the operators which passes create are listed in the manual, or occur in the file. */
static inline void check_made(const struct row *row, const struct graph *graph, const char *listed)
{
    char word[96];

    for (uint32_t i = 0; i < graph->node_count; i++) {
        (void)snprintf(word, sizeof word, " %s ", graph->nodes[i]->info.op_type.data);
        if (graph_op_since_minor(graph->nodes[i]) == UINT32_MAX && strstr(listed, word) == NULL)
            fail_msg("%s: pass %s created%swhich is not in graph/made_ops.def", row->name, graph->nodes[i]->made_by,
                     word);
        for (uint32_t b = 0; b < graph->nodes[i]->body_count; b++)
            check_made(row, graph->nodes[i]->bodies[b].graph, listed);
    }
}

/* Runs the row on a provider that supports only the operators of the file: nodes created by passes must be replaced by
 * the original ones. */
static inline void check_narrow(const struct row *row, struct rig *plain, const struct rig *best,
                                const char *const *options)
{
#if defined(NARROW_DIR)
    static char listed[8192];
    const char *all[24] = { "plugin_dirs", NARROW_DIR, "probe", "never", "cache_dir", "", "providers", "narrow" };
    inlay_diag diag = INLAY_DIAG_INIT;
    struct wire wire = { 0 };
    struct rig narrow;

    for (uint32_t i = 0; options != NULL && options[i] != NULL && i < 15; i++)
        all[8 + i] = options[i];
    (void)snprintf(listed, sizeof listed, " ");
    add_ops(plain->session->model->main, listed, sizeof listed);
    check_made(row, best->session->model->main, listed);
    assert_int_equal(setenv("NARROW_OPS", listed, 1), 0);
    script_model(&wire, row->opset == 0 ? 17 : row->opset, row->script);
    if (rig_try_open(&wire, all, &narrow, &diag) != INLAY_OK)
        fail_msg("%s: on a provider of%s: %s", row->name, listed, diag.text);
    for (uint32_t seed = 1; seed < 3; seed++) {
        script_feed(plain, seed);
        script_feed(&narrow, seed);
        rig_run(plain);
        rig_run(&narrow);
        for (uint32_t i = 0; i < inlay_session_output_count(plain->session); i++)
            expect_equal(row, inlay_context_output(narrow.context, i), inlay_context_output(plain->context, i));
    }
    rig_close(&narrow);
#else
    (void)row, (void)plain, (void)best, (void)options;
#endif
}

/* Runs the passes repeatedly, first with the first allocation failing, then with the second, and so on: each run
 * returns a status. Skipped for long scripts, which would take a minute. ROWS_STARVE: the distance between allocations
 * that fail; above 1 with sanitizers, which are slow. */
static inline void check_starved(const struct row *row)
{
#if defined(ROWS_STARVE)
    bool failed = strlen(row->script) < 4096;
    struct wire wire = { 0 };

    script_model(&wire, row->opset == 0 ? 17 : row->opset, row->script);
    for (uint64_t n = 0; failed; n += ROWS_STARVE) {
        inlay_diag diag = INLAY_DIAG_INIT;
        graph_model *model = NULL;
        pass_ctx passes = { .limits.rewrites = -1, .diag = &diag };
        inlay_status status;

        assert_int_equal(model_load_bytes(wire.bytes, wire.count, NULL, &model, &diag), INLAY_OK);
        assert_int_equal(graph_bind(model, NULL, &diag), INLAY_OK);
        assert_int_equal(graph_infer(model, &diag), INLAY_OK);
        passes.model = model;
        failing_alloc_arm(n);
        status = passes_run(&passes, 3);
        failed = failing_alloc_disarm();
        if (status != INLAY_OK && (!failed || status != INLAY_OUT_OF_MEMORY))
            fail_msg("%s: without allocation %d: %s", row->name, (int)n, diag.text);
        graph_model_destroy(model);
    }
    wire_deinit(&wire);
#else
    (void)row;
#endif
}

/* options: those of the optimised session. */
static inline void check_row_with(const struct row *row, const char *const *options)
{
    struct rig plain = open_row(row, (const char *const[]){ "level", "0", NULL }), best = open_row(row, options);
    static char ops[8192];

    rows_follow(row, options);
    list_ops(best.session->model->main, ops, sizeof ops);
    if (row->ops != NULL && strcmp(ops, row->ops) != 0)
        fail_msg("%s: the operators are '%s', expected '%s'", row->name, ops, row->ops);
    for (uint32_t seed = 1; seed < 4; seed++) {
        script_feed(&plain, seed);
        script_feed(&best, seed);
        rig_run(&plain);
        rig_run(&best);
        assert_int_equal(inlay_session_output_count(plain.session), inlay_session_output_count(best.session));
        for (uint32_t i = 0; i < inlay_session_output_count(plain.session); i++)
            expect_equal(row, inlay_context_output(best.context, i), inlay_context_output(plain.context, i));
    }
    check_narrow(row, &plain, &best, options);
    check_starved(row);
    rig_close(&plain);
    rig_close(&best);
}

static inline void check_row(const struct row *row)
{
    check_row_with(row, (const char *const[]){ "level", "99", NULL });
}

static inline void check_rows(const struct row *rows, size_t count)
{
    for (size_t i = 0; i < count; i++)
        check_row(&rows[i]);
}
#define CHECK_ROWS(rows) check_rows(rows, sizeof(rows) / sizeof((rows)[0]))
#endif
