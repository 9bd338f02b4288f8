/* The explanation as text: totals first, then partitions, copies, refusals and unused providers. */
#include "base/core_kind.h"
#include "explain/text.h"
#include "partition/cost/cost_profile.h"
#include <inttypes.h>

enum { SHOWN_REFUSALS = 12, SHOWN_COPIES = 20, SHOWN_NAMES = 3, SHOWN_SIZES = 6, NAMES_ALL = 1000000 };

/* The assumed sizes of symbolic dimensions. */
static void say_assumed(const struct text_page *page)
{
    uint32_t shown = 0;
    const char *name;
    int64_t size;

    for (uint32_t i = 0; facts_assumed(page->facts, &i, &name, &size); i++) {
        if (shown++ < SHOWN_SIZES || page->all) {
            say(page->sink, "%s", shown == 1 ? "assumed sizes: " : ", ");
            say_text(page->sink, name);
            say(page->sink, "=%" PRId64, size);
        }
    }
    if (shown > 0)
        say(page->sink, "%s (option dim: NAME=N)\n", shown > SHOWN_SIZES && !page->all ? ", ..." : "");
}

/* With a limit of host memory below the size of the weights. */
static void say_weights(const struct text_page *page)
{
    const stream_sizes sizes = weight_stream_sizes(page->facts->session->env.stream);
    char a[FORMATTED_BYTES], b[FORMATTED_BYTES];

    if (page->facts->session->env.stream == NULL)
        return;
    say(page->sink, "weights: %s stay in memory, %s are read from their files in each run",
        format_bytes(sizes.resident, a), format_bytes(sizes.streamed, b));
    if (sizes.on_demand > 0)
        say(page->sink, ", and the used pages of tables of %s", format_bytes(sizes.on_demand, a));
    say(page->sink, "\n");
}

static void say_summary(const struct text_page *page)
{
    const struct facts *facts = page->facts;
    const program_env *env = &facts->session->env;
    const uint32_t threads = profile_threads(env->max_threads);
    char cpu[160], a[FORMATTED_BYTES], b[FORMATTED_BYTES];

    if (facts->session->model->source.path != NULL) {
        say_text(page->sink, facts->session->model->source.path);
        say(page->sink, "\n");
    }
    say(page->sink, "%" PRIu32 " %s in the file, %" PRIu32 " after optimisation, in %" PRIu32 " %s\n",
        facts->session->loading.nodes_in_file, plural(facts->session->loading.nodes_in_file, "node", "nodes"),
        facts->node_count, facts->region_count, plural(facts->region_count, "region", "regions"));
    profile_cpu(cpu, sizeof cpu);
    if (profile_is_assumed())
        say(page->sink, "as on %s%s\n", cpu,
            core_kind_is_assumed() && !core_kind_in_use()->measured ? ", with published speeds" : "");
    say(page->sink, "policy %s, ", facts->session->rules.by_priority ? "priority" : "cost");
    if (facts->session->rules.objective != OBJECTIVE_LATENCY)
        say(page->sink, "objective %s, ", partition_objective_name(facts->session->rules.objective));
    say(page->sink, "%" PRIu32 " %s", threads, plural(threads, "thread", "threads"));
    if (!facts->session->rules.by_priority)
        say(page->sink, ", chosen at the mean of the prices of %d and %d threads", COST_FEW_THREADS, COST_THREADS);
    say(page->sink, "\n");
    say_assumed(page);
    if (facts->runner != NULL)
        say(page->sink, "predictions are for the input sizes of the last run\n");
    say(page->sink, "predicted %s", format_ns(facts->ns, a));
    if (page->source != INLAY_NONE)
        say(page->sink, " (prices: %s)", cost_source_name(page->source));
    if (facts->copies_ns > 0)
        say(page->sink, ", including %s for copies", format_ns(facts->copies_ns, b));
    if (page->measured)
        say(page->sink, "; measured %s, %s (median of %" PRIu32 " runs)", format_ns(facts->measured_ns, a),
            facts->instead == NULL ? text_ratio(facts->measured_ns, facts->ns, b) : "by another assignment",
            timings_runs(facts->timings));
    if (facts->unpriced_count > 0)
        say(page->sink, ", without the time of %" PRIu32 " %s that no provider has a price for", facts->unpriced_count,
            plural(facts->unpriced_count, "offer", "offers"));
    say(page->sink, "\n");
    if (facts->instead != NULL) {
        say(page->sink, "another assignment made the measured runs: ");
        say_text(page->sink, facts->instead->fallback.why);
        say(page->sink, "\n");
    }
    if (facts->kept_back_ns > 0)
        say(page->sink, "%s without margins, which keep back %s (--what-if margins=none shows the nodes)\n",
            format_ns(facts->ns - facts->kept_back_ns, a), format_ns(facts->kept_back_ns, b));
    say_weights(page);
    say(page->sink, "\n");
}

/* The providers that offered to run no node, on one line. */
static void say_without_offer(const struct text_page *page)
{
    bool first = true;

    for (uint32_t i = 0; i < page->facts->provider_count; i++) {
        const facts_provider *provider = &page->facts->providers[i];

        if (provider->offered || provider->node_count > 0)
            continue;
        say(page->sink, "%s%s", first ? "no offer from " : ", ", provider->name);
        first = false;
    }
    say(page->sink, "%s", first ? "" : "\n");
}

static void add_provider(struct table *table, const struct text_page *page, uint32_t i)
{
    enum { NAME, NODES, REGIONS, PREDICTED, SHARE, MEASURED, RATIO, RESIDENT, PEAK, NOTE, COLUMNS };
    static const table_column columns[COLUMNS] = {
        [NAME] = { "provider", NULL, TABLE_NAME },     [NODES] = { "nodes", NULL, TABLE_NUMBER },
        [REGIONS] = { "regions", NULL, TABLE_NUMBER }, [PREDICTED] = { "predicted", NULL, TABLE_NUMBER },
        [SHARE] = { "share", NULL, TABLE_NUMBER },     [MEASURED] = { "measured", NULL, TABLE_NUMBER },
        [RATIO] = { "ratio", NULL, TABLE_NUMBER },     [RESIDENT] = { "resident", NULL, TABLE_NUMBER },
        [PEAK] = { "peak", NULL, TABLE_NUMBER },       [NOTE] = { "", NULL, TABLE_TEXT },
    };
    const struct facts *facts = page->facts;
    const facts_provider *provider = &facts->providers[i];
    char text[FORMATTED_BYTES];

    table->columns = columns;
    table->column_count = COLUMNS;
    table_row(table);
    table_text(table, NAME, provider->name);
    table_whole(table, NODES, provider->node_count);
    table_whole(table, REGIONS, provider->region_count);
    if (i == facts->provider_count) {
        table_text(table, NOTE, "runs control flow; the times of the bodies are counted at their providers");
        return;
    }
    table_say(table, PREDICTED, "%s", format_ns(provider->ns, text));
    table_say(table, SHARE, "%.1f%%", facts->ns > 0 ? 100 * provider->ns / facts->ns : 0.0);
    if (page->measured && facts->instead == NULL) {
        table_say(table, MEASURED, "%s", format_ns(provider->measured_ns, text));
        table_say(table, RATIO, "%s", text_ratio(provider->measured_ns, provider->ns, text));
    }
    table_say(table, RESIDENT, "%s", format_bytes(provider->resident_bytes, text));
    table_say(table, PEAK, "%s", provider->peak_bytes > 0 ? format_bytes(provider->peak_bytes, text) : "-");
    if (provider->limit_bytes > 0)
        table_add(table, PEAK, " of %s", format_bytes(provider->limit_bytes, text));
    if (facts->session->rules.left_out != NULL && facts->session->rules.left_out[i])
        table_text(table, NOTE, "not used: measured runs are faster without it (inlay tune)");
}

static void say_providers(const struct text_page *page)
{
    const struct facts *facts = page->facts;
    struct table table = { 0 };

    for (uint32_t i = 0; i < facts->provider_count + (facts->providers[facts->provider_count].node_count > 0); i++)
        if (i == facts->provider_count || facts->providers[i].offered || facts->providers[i].node_count > 0)
            add_provider(&table, page, i);
    text_table(page, &table);
    say_without_offer(page);
}

/* The predicted result under other rules. */
static void say_outcome(const struct text_page *page, const explain_view *view)
{
    const facts_outcome *outcome = view->outcome;
    char a[FORMATTED_BYTES], b[FORMATTED_BYTES], c[FORMATTED_BYTES];

    say(page->sink, "what if ");
    for (uint32_t i = 0; i < view->what_if_count; i++) {
        say(page->sink, "%s", i > 0 ? ", " : "");
        say_text(page->sink, view->what_ifs[i]);
    }
    if (outcome->impossible != NULL) {
        say(page->sink, ": not possible\n  ");
        say_text(page->sink, outcome->impossible);
        say(page->sink, "\n\n");
        return;
    }
    say(page->sink, "\n  predicted %s instead of %s: %s", format_ns(outcome->ns, a), format_ns(page->facts->ns, b),
        format_ns_change(outcome->ns - page->facts->ns, c));
    if (page->facts->ns > 0)
        say(page->sink, " (%+.1f%%)", 100 * (outcome->ns - page->facts->ns) / page->facts->ns);
    if (outcome->copy_count > 0 || page->facts->copy_count > 0)
        say(page->sink, ", with %" PRIu32 " %s of %s instead of %" PRIu32 " of %s", outcome->copy_count,
            plural(outcome->copy_count, "copy", "copies"), format_ns(outcome->copies_ns, a), page->facts->copy_count,
            format_ns(page->facts->copies_ns, b));
    say(page->sink, "\n");
    for (uint32_t i = 0; i < outcome->move_count; i++) {
        const facts_move *move = &outcome->moves[i];
        say(page->sink, "  %" PRIu32 " %s %s -> %s: ", move->count, plural(move->count, "node", "nodes"),
            facts_provider_name(page->facts, move->from), facts_provider_name(page->facts, move->to));
        for (uint32_t k = 0; k < sizeof move->names / sizeof move->names[0] && move->names[k] != NULL; k++) {
            say(page->sink, "%s", k > 0 ? ", " : "");
            say_text(page->sink, move->names[k]);
        }
        say(page->sink, "%s\n", move->count > sizeof move->names / sizeof move->names[0] ? ", ..." : "");
    }
    say(page->sink, "%s\n", outcome->moved_count == 0 ? "  no node moves\n" : "");
}

/* The assignments that each objective would lead to. */
static void say_objectives(const struct text_page *page, const explain_view *view)
{
    enum { OBJECTIVE, TIME, ENERGY, MEMORY, MOVES, COLUMNS };
    static const table_column columns[COLUMNS] = { [OBJECTIVE] = { "objective", NULL, TABLE_NAME },
                                                   [TIME] = { "time", NULL, TABLE_NUMBER },
                                                   [ENERGY] = { "energy", NULL, TABLE_NUMBER },
                                                   [MEMORY] = { "memory", NULL, TABLE_NUMBER },
                                                   [MOVES] = { "nodes that move", NULL, TABLE_TEXT } };
    struct table table = { .columns = columns, .column_count = COLUMNS };
    char text[FORMATTED_BYTES];

    for (uint32_t i = 0; i < OBJECTIVE_COUNT; i++) {
        const facts_outcome *outcome = view->objectives[i];
        const bool used = i == page->facts->session->rules.objective;

        table_row(&table);
        table_say(&table, OBJECTIVE, "%s%s", partition_objective_name(i), used ? " *" : "");
        if (outcome->impossible != NULL) {
            table_text(&table, MOVES, outcome->impossible);
            continue;
        }
        table_say(&table, TIME, "%s", format_ns(outcome->ns, text));
        table_say(&table, ENERGY, "%s", outcome->energy_nj > 0 ? format_joules(outcome->energy_nj, text) : "-");
        table_say(&table, MEMORY, "%s", format_bytes((uint64_t)outcome->kept_bytes, text));
        for (uint32_t k = 0; k < outcome->move_count && k < SHOWN_NAMES; k++)
            table_add(&table, MOVES, "%s%" PRIu32 " %s -> %s", k > 0 ? ", " : "", outcome->moves[k].count,
                      facts_provider_name(page->facts, outcome->moves[k].from),
                      facts_provider_name(page->facts, outcome->moves[k].to));
        if (outcome->move_count > SHOWN_NAMES)
            table_add(&table, MOVES, ", ...");
        else if (outcome->moved_count == 0)
            table_say(&table, MOVES, "%s", used ? "this session" : "none");
    }
    text_table(page, &table);
    say(page->sink, "\n");
}

static void say_endpoint(const struct text_page *page, const facts_graph *graph, uint32_t node, const char *outside)
{
    if (node == INLAY_NONE) {
        say(page->sink, "%s", outside);
        return;
    }
    say(page->sink, "%s ", facts_node_info(graph, node)->op_type.data);
    say_text(page->sink, facts_node_info(graph, node)->name.data);
    say(page->sink, " (%s)",
        facts_provider_name(page->facts, graph->regions[graph->nodes[node].region].region->provider));
}

static const char *link_words(uint32_t link)
{
    return link == LINK_IMPORT ? ", in shared memory" : link == LINK_COPY ? ", directly" : "";
}

static void say_copies(const struct text_page *page)
{
    const uint32_t total = page->facts->copy_count + page->facts->import_count;
    uint32_t limit = page->all ? UINT32_MAX : SHOWN_COPIES, shown = 0;
    char a[FORMATTED_BYTES], b[FORMATTED_BYTES];

    if (total == 0)
        return;
    say(page->sink, "\n%" PRIu32 " %s, %s a run", page->facts->copy_count,
        plural(page->facts->copy_count, "copy", "copies"), format_ns(page->facts->copies_ns, a));
    if (page->facts->import_count > 0)
        say(page->sink, "; %" PRIu32 " %s in shared memory", page->facts->import_count,
            plural(page->facts->import_count, "value", "values"));
    say(page->sink, "\n");
    for (uint32_t i = 0; i < page->facts->graph_count; i++) {
        const facts_graph *graph = page->facts->graphs[i];
        for (uint32_t k = 0; k < graph->parts->copy_count && shown < limit; k++, shown++) {
            const partition_copy *copy = &graph->parts->copies[k];
            say(page->sink, "  %9s %9s  ", format_bytes(copy->bytes, a), format_ns(copy->ns, b));
            if (page->measured && timings_copy_ns(page->facts->timings, graph->program, copy->value) >= 0)
                say(page->sink, "measured %s  ",
                    format_ns(timings_copy_ns(page->facts->timings, graph->program, copy->value), a));
            say(page->sink, "%s -> %s  ", facts_domain_name(page->facts, copy->from_domain),
                facts_domain_name(page->facts, copy->to_domain));
            say_text(page->sink, facts_value_name(graph, copy->value));
            say(page->sink, ": from ");
            say_endpoint(page, graph, facts_copy_producer(graph, copy), graph->parent == NULL ? "an input" : "outside");
            say(page->sink, " to ");
            say_endpoint(page, graph, facts_copy_reader(graph, copy), "an output");
            say(page->sink, "%s%s\n", link_words(copy->link), copy->once ? ", once per loop" : "");
        }
    }
    if (shown < total)
        say(page->sink, "  and %" PRIu32 " more (--all shows them)\n", total - shown);
}

static void say_refusal(const struct text_page *page, const facts_refusals *refusals)
{
    const struct facts *facts = page->facts;
    const uint32_t names = page->all ? NAMES_ALL : SHOWN_NAMES;

    say(page->sink, "  %s, %" PRIu32 " %s: ", facts_provider_name(facts, refusals->provider), refusals->count,
        plural(refusals->count, "node", "nodes"));
    say_text(page->sink, refusals->text);
    say(page->sink, "\n");
    if (refusals->accepted_if != NULL) {
        say(page->sink, "      accepted if: ");
        say_text(page->sink, refusals->accepted_if);
        say(page->sink, "\n");
    }
    say(page->sink, "      ");
    for (uint32_t k = 0; k < refusals->count && k < names; k++) {
        const facts_refused *refused = &facts->refused[refusals->first + k];
        const inlay_node_info *node =
            facts_node_info(refused->graph, refused->graph->parts->refusals[refused->refusal].node);
        say(page->sink, "%s%s ", k > 0 ? ", " : "", node->op_type.data);
        say_text(page->sink, node->name.data);
    }
    say(page->sink, "%s\n", refusals->count > names ? ", ..." : "");
}

/* `more`: other lines of refusals are above. */
static void say_count(const struct text_page *page, bool more, uint32_t count, const char *by)
{
    if (count > 0)
        say(page->sink, "  %s%" PRIu32 " %s by providers %s (--all shows them)\n", more ? "and " : "", count,
            plural(count, "refusal", "refusals"), by);
}

/* Refusals by providers that could have run the node. The others, which no change of the model or of the provider's
 * settings would avoid, are only counted unless everything is requested. */
static void say_refusals(const struct text_page *page)
{
    const struct facts *facts = page->facts;
    const uint32_t limit = page->all ? UINT32_MAX : SHOWN_REFUSALS;
    uint32_t shown = 0, without_kernel = 0, kept_out = 0;

    if (facts->refusals_count > 0)
        say(page->sink, "\nrefused\n");
    for (uint32_t i = 0; i < facts->refusals_count; i++) {
        const facts_refusals *refusals = &facts->refusals[i];

        if (!page->all && refusals->code == INLAY_REFUSE_OPERATOR)
            without_kernel += refusals->count;
        else if (!page->all && !refusals->could_run)
            kept_out += refusals->count;
        else if (shown++ < limit)
            say_refusal(page, refusals);
    }
    if (shown > limit)
        say(page->sink, "  and %" PRIu32 " other %s (--all shows them)\n", shown - limit,
            plural(shown - limit, "reason", "reasons"));
    say_count(page, shown > 0, without_kernel, "without a kernel for the operator");
    say_count(page, shown + without_kernel > 0, kept_out, "that rules, inlay tune or an emulated device keep out");
}

static void say_declined_shapes(void *ctx, const char *shapes, const char *text)
{
    const struct text_page *page = ctx;

    say(page->sink, "  inputs %s: ", shapes);
    say_text(page->sink, text);
    say(page->sink, "\n");
}

/* Shapes that providers declined during runs; other providers run them. */
static void say_declined(const struct text_page *page)
{
    for (uint32_t i = 0; i < page->facts->graph_count; i++) {
        struct program *program = (struct program *)(uintptr_t)page->facts->graphs[i]->program;
        uint32_t limit = page->all ? UINT32_MAX : SHOWN_REFUSALS, count;

        if (declined_list(program, 0, NULL, NULL) == 0)
            continue;
        say(page->sink, "\ndeclined for some shapes, graph ");
        say_text(page->sink, program->graph->name);
        say(page->sink, "\n");
        count = declined_list(program, limit, say_declined_shapes, (void *)(uintptr_t)page);
        if (count > limit)
            say(page->sink, "  and for %" PRIu32 " other shapes (--all shows them)\n", count - limit);
    }
}

static void say_unused(const struct text_page *page)
{
    const inlay_session *session = page->facts->session;

    for (const session_skipped *skipped = session->skipped; skipped != NULL; skipped = skipped->next) {
        say(page->sink, "%snot used    %s: ", skipped == session->skipped ? "\n" : "", skipped->name);
        say_text(page->sink, skipped->reason);
        say(page->sink, "\n");
    }
    for (uint32_t i = 0, shown = 0; i < plugin_set_file_count(session->plugins); i++) {
        const plugin_file *file = plugin_set_file(session->plugins, i);
        if (file->loaded)
            continue;
        say(page->sink, "%snot loaded  ", shown++ == 0 ? "\n" : "");
        say_text(page->sink, file->path);
        say(page->sink, ": ");
        say_text(page->sink, file->reason != NULL ? file->reason : "no reason given");
        say(page->sink, "\n");
    }
}

/* The source of the prices of all stretches if it is the same for all, otherwise INLAY_NONE. */
static uint32_t common_source(const struct facts *facts)
{
    uint32_t source = COST_NONE;

    for (uint32_t i = 0; i < facts->graph_count; i++)
        for (uint32_t k = 0; k < facts->graphs[i]->partition_count; k++) {
            const facts_stretch *stretch = &facts->graphs[i]->stretches[k];
            if (stretch->provider == INLAY_NONE)
                continue;
            if (source != COST_NONE && source != stretch->source)
                return INLAY_NONE;
            source = stretch->source;
        }
    return source == COST_NONE ? INLAY_NONE : source;
}

void text_session(const struct facts *facts, const explain_view *view)
{
    struct text_page page = { .facts = facts,
                              .sink = view->sink,
                              .all = view->all,
                              .measured = facts->measured_ns >= 0,
                              .source = common_source(facts) };

    say_summary(&page);
    if (view->outcome != NULL)
        say_outcome(&page, view);
    if (view->objectives != NULL)
        say_objectives(&page, view);
    if (view->scaling != NULL)
        text_scaling(&page, view->scaling);
    say_providers(&page);
    if (facts->region_count > 0)
        text_stretches(&page);
    text_modules(&page);
    say_copies(&page);
    say_refusals(&page);
    say_declined(&page);
    say_unused(&page);
}
