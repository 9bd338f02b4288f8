/* The explanation for people: the sums first, then each stretch, what was refused, what is copied. */
#include "explain/text.h"
#include <inttypes.h>
#include <string.h>

enum { SHOWN_REFUSALS = 12, SHOWN_COPIES = 20, SHOWN_NAMES = 3, SHOWN_SIZES = 6, NAMES_ALL = 1000000 };

/* ------------------------------------------------------------------ the head */

/* What the prices take symbolic dimensions to be. */
static void say_assumed(const struct page *p)
{
    uint32_t shown = 0;
    const char *name;
    int64_t size;

    for (uint32_t i = 0; facts_assumed(p->f, &i, &name, &size); i++) {
        if (shown++ < SHOWN_SIZES || p->all) {
            say(p->sink, "%s", shown == 1 ? "assumed sizes: " : ", ");
            say_text(p->sink, name);
            say(p->sink, "=%" PRId64, size);
        }
    }
    if (shown > 0)
        say(p->sink, "%s (--assume NAME=N)\n", shown > SHOWN_SIZES && !p->all ? ", ..." : "");
}

static void say_summary(const struct page *p)
{
    const struct facts *f = p->f;
    const program_env *env = &f->session->env;
    const uint32_t threads = env->max_threads;
    char a[NICE_BYTES], b[NICE_BYTES];

    if (f->session->model->path != NULL) {
        say_text(p->sink, f->session->model->path);
        say(p->sink, "\n");
    }
    say(p->sink, "%" PRIu32 " %s in the file, %" PRIu32 " after optimisation, in %" PRIu32 " %s\n",
        f->session->nodes_in_file, plural(f->session->nodes_in_file, "node", "nodes"), f->node_count, f->region_count,
        plural(f->region_count, "region", "regions"));
    say(p->sink, "policy %s, %" PRIu32 " %s", f->session->rules.by_priority ? "priority" : "cost", threads,
        plural(threads, "thread", "threads"));
    if (threads != COST_THREADS)
        say(p->sink, ", costs of %d threads", COST_THREADS);
    say(p->sink, "\n");
    say_assumed(p);
    if (f->runner != NULL)
        say(p->sink, "what was predicted is shown for the sizes of the last run\n");
    say(p->sink, "predicted %s", nice_ns(f->ns, a));
    if (p->source != INLAY_NONE)
        say(p->sink, " (prices: %s)", cost_source_name(p->source));
    if (f->copies_ns > 0)
        say(p->sink, ", of which %s are copies", nice_ns(f->copies_ns, b));
    if (p->measured)
        say(p->sink, "; measured %s, %s (median of %" PRIu32 " runs)", nice_ns(f->measured_ns, a),
            text_ratio(f->measured_ns, f->ns, b), timings_runs(f->timings));
    say(p->sink, "\n\n");
}

static void say_providers(const struct page *p)
{
    const struct facts *f = p->f;
    char a[NICE_BYTES], b[NICE_BYTES], c[NICE_BYTES], d[NICE_BYTES], e[NICE_BYTES];

    say(p->sink, "%-14s %6s %8s %11s %6s", "provider", "nodes", "regions", "predicted", "share");
    if (p->measured)
        say(p->sink, " %9s %6s", "measured", "ratio");
    say(p->sink, " %9s %9s\n", "resident", "peak");
    for (uint32_t i = 0; i <= f->provider_count; i++) {
        const facts_provider *x = &f->providers[i];
        if (i == f->provider_count && x->node_count == 0)
            break;
        say_column(p->sink, x->name, 14);
        say(p->sink, " %6" PRIu32 " %8" PRIu32, x->node_count, x->region_count);
        if (i == f->provider_count) {
            say(p->sink, "   runs bodies of graphs; their times stand with the providers\n");
            break;
        }
        say(p->sink, " %11s %5.1f%%", nice_ns(x->ns, a), f->ns > 0 ? 100 * x->ns / f->ns : 0.0);
        if (p->measured)
            say(p->sink, " %9s %6s", nice_ns(x->measured_ns, b), text_ratio(x->measured_ns, x->ns, c));
        say(p->sink, " %9s %9s", nice_bytes(x->resident_bytes, d),
            x->peak_bytes > 0 ? nice_bytes(x->peak_bytes, e) : "-");
        if (x->limit_bytes > 0)
            say(p->sink, " of %s", nice_bytes(x->limit_bytes, e));
        say(p->sink, "\n");
    }
}

/* What would be under other rules. */
static void say_outcome(const struct page *p, const explain_view *view)
{
    const facts_outcome *o = view->outcome;
    char a[NICE_BYTES], b[NICE_BYTES], c[NICE_BYTES];

    say(p->sink, "what if ");
    for (uint32_t i = 0; i < view->what_if_count; i++) {
        say(p->sink, "%s", i > 0 ? ", " : "");
        say_text(p->sink, view->what_ifs[i]);
    }
    if (o->impossible != NULL) {
        say(p->sink, ": not possible\n  ");
        say_text(p->sink, o->impossible);
        say(p->sink, "\n\n");
        return;
    }
    say(p->sink, "\n  predicted %s instead of %s: %s", nice_ns(o->ns, a), nice_ns(p->f->ns, b),
        nice_change(o->ns - p->f->ns, c));
    if (p->f->ns > 0)
        say(p->sink, " (%+.1f%%)", 100 * (o->ns - p->f->ns) / p->f->ns);
    if (o->copy_count > 0 || p->f->copy_count > 0)
        say(p->sink, ", with %" PRIu32 " %s of %s instead of %" PRIu32 " of %s", o->copy_count,
            plural(o->copy_count, "copy", "copies"), nice_ns(o->copies_ns, a), p->f->copy_count,
            nice_ns(p->f->copies_ns, b));
    say(p->sink, "\n");
    for (uint32_t i = 0; i < o->move_count; i++) {
        const facts_move *m = &o->moves[i];
        say(p->sink, "  %" PRIu32 " %s %s -> %s: ", m->count, plural(m->count, "node", "nodes"),
            facts_provider_name(p->f, m->from), facts_provider_name(p->f, m->to));
        for (uint32_t k = 0; k < sizeof m->names / sizeof m->names[0] && m->names[k] != NULL; k++) {
            say(p->sink, "%s", k > 0 ? ", " : "");
            say_text(p->sink, m->names[k]);
        }
        say(p->sink, "%s\n", m->count > sizeof m->names / sizeof m->names[0] ? ", ..." : "");
    }
    say(p->sink, "%s\n", o->moved_count == 0 ? "  no node moves\n" : "");
}

/* ------------------------------------------------------------------ copies, refusals, files */

static void say_end(const struct page *p, const facts_graph *g, uint32_t node, const char *outside)
{
    if (node == INLAY_NONE) {
        say(p->sink, "%s", outside);
        return;
    }
    say(p->sink, "%s ", facts_node_info(g, node)->op_type.data);
    say_text(p->sink, facts_node_info(g, node)->name.data);
    say(p->sink, " (%s)", facts_provider_name(p->f, g->regions[g->nodes[node].region].region->provider));
}

static void say_copies(const struct page *p)
{
    uint32_t most = p->all ? UINT32_MAX : SHOWN_COPIES, shown = 0;
    char a[NICE_BYTES], b[NICE_BYTES];

    if (p->f->copy_count == 0)
        return;
    say(p->sink, "\n%" PRIu32 " %s, %s a run\n", p->f->copy_count, plural(p->f->copy_count, "copy", "copies"),
        nice_ns(p->f->copies_ns, a));
    for (uint32_t i = 0; i < p->f->graph_count; i++) {
        const facts_graph *g = p->f->graphs[i];
        for (uint32_t k = 0; k < g->parts->copy_count && shown < most; k++, shown++) {
            const part_copy *c = &g->parts->copies[k];
            say(p->sink, "  %9s %9s  ", nice_bytes(c->bytes, a), nice_ns(c->ns, b));
            if (p->measured && timings_copy_ns(p->f->timings, g->program, c->value) >= 0)
                say(p->sink, "measured %s  ", nice_ns(timings_copy_ns(p->f->timings, g->program, c->value), a));
            say(p->sink, "%s -> %s  ", facts_domain_name(p->f, c->from_domain), facts_domain_name(p->f, c->to_domain));
            say_text(p->sink, facts_value_name(g, c->value));
            say(p->sink, ": from ");
            say_end(p, g, facts_copy_maker(g, c), g->parent == NULL ? "an input" : "outside");
            say(p->sink, " to ");
            say_end(p, g, facts_copy_reader(g, c), "an output");
            say(p->sink, "%s\n", c->once ? ", once a loop" : "");
        }
    }
    if (shown < p->f->copy_count)
        say(p->sink, "  and %" PRIu32 " more (--all shows them)\n", p->f->copy_count - shown);
}

static void say_refusals(const struct page *p)
{
    const struct facts *f = p->f;
    uint32_t most = p->all ? UINT32_MAX : SHOWN_REFUSALS, names = p->all ? NAMES_ALL : SHOWN_NAMES;

    if (f->refusals_count > 0)
        say(p->sink, "\nrefused\n");
    for (uint32_t i = 0; i < f->refusals_count && i < most; i++) {
        const facts_refusals *r = &f->refusals[i];
        say(p->sink, "  %s, %" PRIu32 " %s: ", facts_provider_name(f, r->provider), r->count,
            plural(r->count, "node", "nodes"));
        say_text(p->sink, r->text);
        say(p->sink, "\n");
        if (r->accepted_if != NULL) {
            say(p->sink, "      accepted if: ");
            say_text(p->sink, r->accepted_if);
            say(p->sink, "\n");
        }
        say(p->sink, "      ");
        for (uint32_t k = 0; k < r->count && k < names; k++) {
            const facts_refused *x = &f->refused[r->first + k];
            const inlay_node_info *n = facts_node_info(x->graph, x->graph->parts->refusals[x->refusal].node);
            say(p->sink, "%s%s ", k > 0 ? ", " : "", n->op_type.data);
            say_text(p->sink, n->name.data);
        }
        say(p->sink, "%s\n", r->count > names ? ", ..." : "");
    }
    if (f->refusals_count > most)
        say(p->sink, "  and %" PRIu32 " other reasons (--all shows them)\n", f->refusals_count - most);
}

static void say_late(void *ctx, const char *shapes, const char *text)
{
    const struct page *p = ctx;

    say(p->sink, "  inputs %s: ", shapes);
    say_text(p->sink, text);
    say(p->sink, "\n");
}

/* What providers declined in runs; others run these shapes. */
static void say_declined(const struct page *p)
{
    for (uint32_t i = 0; i < p->f->graph_count; i++) {
        struct program *g = (struct program *)(uintptr_t)p->f->graphs[i]->program;
        uint32_t most = p->all ? UINT32_MAX : SHOWN_REFUSALS, count;

        if (declined_list(g, 0, NULL, NULL) == 0)
            continue;
        say(p->sink, "\ndeclined for some shapes, graph ");
        say_text(p->sink, g->graph->name);
        say(p->sink, "\n");
        count = declined_list(g, most, say_late, (void *)(uintptr_t)p);
        if (count > most)
            say(p->sink, "  and for %" PRIu32 " other shapes (--all shows them)\n", count - most);
    }
}

static void say_absent(const struct page *p)
{
    const inlay_session *s = p->f->session;

    for (const session_skipped *x = s->skipped; x != NULL; x = x->next) {
        say(p->sink, "%snot used    %s: ", x == s->skipped ? "\n" : "", x->name);
        say_text(p->sink, x->reason);
        say(p->sink, "\n");
    }
    for (uint32_t i = 0, shown = 0; i < plugin_set_file_count(s->plugins); i++) {
        const plugin_file *file = plugin_set_file(s->plugins, i);
        if (file->loaded)
            continue;
        say(p->sink, "%snot loaded  ", shown++ == 0 ? "\n" : "");
        say_text(p->sink, file->path);
        say(p->sink, ": ");
        say_text(p->sink, file->reason != NULL ? file->reason : "no reason given");
        say(p->sink, "\n");
    }
}

/* Room for the names of all providers, within reason: a name that is cut may be any of two. */
static int name_width(const struct facts *f)
{
    size_t width = 10;

    for (uint32_t i = 0; i < f->provider_count; i++) {
        size_t bytes = strlen(facts_provider_name(f, i));
        width = bytes > width ? bytes : width;
    }
    return width < 20 ? (int)width : 20;
}

/* The source of the prices of all stretches, if it is one. */
static uint32_t common_source(const struct facts *f)
{
    uint32_t source = COST_NONE;

    for (uint32_t i = 0; i < f->graph_count; i++)
        for (uint32_t k = 0; k < f->graphs[i]->stretch_count; k++) {
            const facts_stretch *x = &f->graphs[i]->stretches[k];
            if (x->provider == INLAY_NONE)
                continue;
            if (source != COST_NONE && source != x->source)
                return INLAY_NONE;
            source = x->source;
        }
    return source == COST_NONE ? INLAY_NONE : source;
}

void text_session(const struct facts *f, const explain_view *view)
{
    struct page p = {
        .f = f, .sink = view->sink, .all = view->all, .measured = f->measured_ns >= 0, .source = common_source(f)
    };

    p.names = name_width(f);
    p.columns = view->columns == 0 ? 100 : view->columns > 400 ? 400 : (int)view->columns;
    say_summary(&p);
    if (view->outcome != NULL)
        say_outcome(&p, view);
    say_providers(&p);
    if (f->region_count > 0)
        text_stretches(&p);
    say_copies(&p);
    say_refusals(&p);
    say_declined(&p);
    say_absent(&p);
}
