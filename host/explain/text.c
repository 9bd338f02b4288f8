/* The explanation for people: the sums first, then each stretch, what was refused, what is copied. */
#include "explain/internal.h"
#include <inttypes.h>
#include <string.h>

enum { SHOWN_STRETCHES = 24, SHOWN_REFUSALS = 12, SHOWN_COPIES = 20, SHOWN_NAMES = 3, SHOWN_SIZES = 6,
       NAMES_ALL = 1000000 };

typedef struct page {
    const facts *f;
    const explain_sink *sink;
    int columns;
    int names; /* width of providers' names */
    bool all;
    bool measured;
    uint32_t source; /* where all prices come from; INLAY_NONE: from here and there */
} page;

/* "1.07x", "-" when one of the two is nothing. */
static const char *ratio(double measured, double predicted, char text[NICE_BYTES])
{
    if (measured > 0 && predicted > 0)
        (void)snprintf(text, NICE_BYTES, measured / predicted < 9.995 ? "%.2fx" : "%.0fx", measured / predicted);
    else
        (void)snprintf(text, NICE_BYTES, "-");
    return text;
}

/* ------------------------------------------------------------------ the head */

/* What the prices take symbolic dimensions to be. */
static void say_assumed(const page *p)
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

static void say_summary(const page *p)
{
    const facts *f = p->f;
    char a[NICE_BYTES], b[NICE_BYTES];

    if (f->session->model->path != NULL) {
        say_text(p->sink, f->session->model->path);
        say(p->sink, "\n");
    }
    say(p->sink, "%" PRIu32 " %s in the file, %" PRIu32 " after optimisation, in %" PRIu32 " %s\n",
        f->session->nodes_in_file, plural(f->session->nodes_in_file, "node", "nodes"), f->node_count, f->region_count,
        plural(f->region_count, "region", "regions"));
    say(p->sink, "policy %s, %" PRIu32 " %s\n", f->session->rules.by_priority ? "priority" : "cost",
        f->session->env.max_threads, plural(f->session->env.max_threads, "thread", "threads"));
    say_assumed(p);
    say(p->sink, "predicted %s", nice_ns(f->ns, a));
    if (p->source != INLAY_NONE)
        say(p->sink, " (prices: %s)", cost_source_name(p->source));
    if (f->copies_ns > 0)
        say(p->sink, ", of which %s are copies", nice_ns(f->copies_ns, b));
    if (p->measured)
        say(p->sink, "; measured %s, %s (median of %" PRIu32 " runs)", nice_ns(f->measured_ns, a),
            ratio(f->measured_ns, f->ns, b), timings_runs(f->timings));
    say(p->sink, "\n\n");
}

static void say_providers(const page *p)
{
    const facts *f = p->f;
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
            say(p->sink, " %9s %6s", nice_ns(x->measured_ns, b), ratio(x->measured_ns, x->ns, c));
        say(p->sink, " %9s %9s", nice_bytes(x->resident_bytes, d),
            x->peak_bytes > 0 ? nice_bytes(x->peak_bytes, e) : "-");
        if (x->limit_bytes > 0)
            say(p->sink, " of %s", nice_bytes(x->limit_bytes, e));
        say(p->sink, "\n");
    }
}

/* What would be under other rules. */
static void say_outcome(const page *p, const explain_view *view)
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

/* ------------------------------------------------------------------ stretches */

/* What a stretch does: the node's operator and name, or "12 Conv, 11 Relu, Add". */
static void say_content(const page *p, const facts_graph *g, uint32_t first, uint32_t count, int width)
{
    enum { KINDS = 8 };
    struct { const char *op; uint32_t count; } kinds[KINDS];
    uint32_t kind_count = 0, nodes = 0;
    char text[256];
    size_t at = 0;

    for (uint32_t i = first; i < first + count; i++) {
        const part_region *r = g->regions[i].region;
        for (uint32_t n = 0; n < r->node_count; n++, nodes++) {
            const char *op = facts_node_info(g, r->nodes[n])->op_type.data;
            uint32_t k = 0;
            while (k < kind_count && strcmp(kinds[k].op, op) != 0)
                k++;
            if (k == KINDS)
                continue;
            if (k == kind_count) {
                kinds[k].op = op;
                kinds[kind_count++].count = 0;
            }
            kinds[k].count++;
            /* The most frequent first; on a tie the one that came first. */
            for (; k > 0 && kinds[k].count > kinds[k - 1].count; k--) {
                uint32_t more = kinds[k].count;
                const char *name = kinds[k].op;
                kinds[k] = kinds[k - 1];
                kinds[k - 1].op = name;
                kinds[k - 1].count = more;
            }
        }
    }
    if (nodes == 1) {
        const inlay_node_info *n = facts_node_info(g, g->regions[first].region->nodes[0]);
        (void)snprintf(text, sizeof text, "%.60s %.180s", n->op_type.data, n->name.data);
        if ((int)strlen(text) > width) { /* the operator stays, of the name the end */
            int op = (int)(n->op_type.bytes < 60 ? n->op_type.bytes : 60) + 1;
            if (op + 8 <= width) {
                say(p->sink, "%.*s", op, text);
                say_column(p->sink, text + op, width - op);
                return;
            }
        }
        say_column(p->sink, text, width);
        return;
    }
    text[0] = '\0';
    for (uint32_t k = 0; k < kind_count && at < sizeof text; k++) {
        char piece[96];
        if (kinds[k].count == 1)
            (void)snprintf(piece, sizeof piece, "%s%.60s", k > 0 ? ", " : "", kinds[k].op);
        else
            (void)snprintf(piece, sizeof piece, "%s%" PRIu32 " %.60s", k > 0 ? ", " : "", kinds[k].count, kinds[k].op);
        if (at + strlen(piece) + (k + 1 < kind_count ? 3 : 0) > (size_t)width && k > 0) {
            at += (size_t)snprintf(text + at, sizeof text - at, " ..");
            break;
        }
        at += (size_t)snprintf(text + at, sizeof text - at, "%s", piece);
    }
    say_column(p->sink, text, width);
}

static void say_rival(const page *p, const facts_stretch *s)
{
    const facts_rival *r = &s->rival;
    char a[NICE_BYTES];

    if (s->provider == INLAY_NONE)
        return;
    if (r->kind == RIVAL_NONE || r->provider == INLAY_NONE) {
        say(p->sink, "  nobody else");
        return;
    }
    if (r->extra_ns < 0.5 && r->extra_ns > -0.5)
        say(p->sink, "  %s, a tie", facts_provider_name(p->f, r->provider));
    else
        say(p->sink, "  %s %s%s", facts_provider_name(p->f, r->provider), r->kind == RIVAL_ABOUT ? "about " : "",
            nice_change(r->extra_ns, a));
    if (r->node_count < s->node_count)
        say(p->sink, " (%" PRIu32 " of %" PRIu32 ")", r->node_count, s->node_count);
}

/* Room for the names of all providers, within reason: a name that is cut may be any of two. */
static int name_width(const facts *f)
{
    size_t width = 10;

    for (uint32_t i = 0; i < f->provider_count; i++) {
        size_t bytes = strlen(facts_provider_name(f, i));
        width = bytes > width ? bytes : width;
    }
    return width < 20 ? (int)width : 20;
}

/* Columns that are left out where the page is narrow, the dearest to lose last. */
static bool has_traffic(const page *p)
{
    return p->columns >= (p->measured ? 128 : 110);
}
static bool has_source(const page *p)
{
    return p->source == INLAY_NONE && p->columns >= (p->measured ? 100 : 84);
}
static int content_width(const page *p)
{
    int rest = p->columns - 6 - p->names - 1 - 6 - 10 - 22;

    rest -= p->measured ? 17 : 0;
    rest -= has_source(p) ? 11 : 0;
    rest -= has_traffic(p) ? 20 : 0;
    return rest < 14 ? 14 : rest > 40 ? 40 : rest;
}

static void say_row(const page *p, const facts_graph *g, const facts_stretch *s, int indent)
{
    char a[NICE_BYTES], b[NICE_BYTES];
    int width = content_width(p) - indent;

    say(p->sink, "%*s%5" PRIu32 " ", indent, "", s->first);
    say_column(p->sink, facts_provider_name(p->f, s->provider), p->names);
    say(p->sink, " %5" PRIu32 " ", s->node_count);
    say_content(p, g, s->first, s->count, width < 14 ? 14 : width);
    say(p->sink, " %9s", nice_ns(s->ns, a));
    if (p->measured)
        say(p->sink, " %9s %6s", s->measured_ns < 0 ? "-" : nice_ns(s->measured_ns, a),
            ratio(s->measured_ns, s->ns, b));
    if (has_source(p))
        say(p->sink, " %10s", s->provider == INLAY_NONE ? "bodies" : cost_source_name(s->source));
    if (has_traffic(p))
        say(p->sink, " %9s %9s", nice_bytes(s->bytes_in, a), nice_bytes(s->bytes_out, b));
    say_rival(p, s);
    say(p->sink, "\n");
}

static void say_regions(const page *p, const facts_graph *g, const facts_stretch *s, int indent)
{
    char a[NICE_BYTES], b[NICE_BYTES];

    for (uint32_t i = s->first; s->count > 1 && i < s->first + s->count; i++) {
        const facts_region *r = &g->regions[i];
        say(p->sink, "%*s%5" PRIu32 "  ", indent + p->names + 1, "", i);
        say_content(p, g, i, 1, content_width(p) + 1);
        say(p->sink, " %9s", nice_ns(r->ns, a));
        if (p->measured)
            say(p->sink, " %9s %6s", r->measured_ns < 0 ? "-" : nice_ns(r->measured_ns, a),
                ratio(r->measured_ns, r->ns, b));
        say(p->sink, " %10s", cost_source_name(r->source));
        say(p->sink, " %9s", nice_bytes(r->bytes_in, a));
        say(p->sink, " %9s", nice_bytes(r->bytes_out, a));
        if (r->resident_bytes > 0)
            say(p->sink, "  resident %s", nice_bytes(r->resident_bytes, a));
        if (r->workspace_bytes > 0)
            say(p->sink, "  workspace %s", nice_bytes(r->workspace_bytes, a));
        say(p->sink, "\n");
    }
}

/* The predicted time from which on stretches are worth a line; 0: all are. */
static double threshold(const page *p, const facts_graph *g)
{
    double least = 0;

    if (p->all || g->stretch_count <= SHOWN_STRETCHES)
        return 0;
    /* The SHOWN_STRETCHES-th largest, by bisection: no memory is needed for it. */
    double low = 0, high = g->ns > 0 ? g->ns : 1;
    for (int step = 0; step < 60; step++) {
        uint32_t above = 0;
        least = (low + high) / 2;
        for (uint32_t i = 0; i < g->stretch_count; i++)
            above += g->stretches[i].ns >= least;
        if (above > SHOWN_STRETCHES)
            low = least;
        else
            high = least;
    }
    return high;
}

static double weight_of(const facts_region *r)
{
    return r->measured_ns >= 0 ? r->measured_ns : r->ns;
}

/* The regions that take most of a long stretch, on one line. */
static void say_dearest(const page *p, const facts_graph *g, const facts_stretch *s, int indent)
{
    enum { NAMED = 3 };
    uint32_t top[NAMED], count = 0;
    char a[NICE_BYTES];

    for (uint32_t i = s->first; i < s->first + s->count; i++) {
        uint32_t at = count;
        while (at > 0 && weight_of(&g->regions[top[at - 1]]) < weight_of(&g->regions[i]))
            at--;
        if (at == NAMED)
            continue;
        count += count < NAMED;
        for (uint32_t k = count - 1; k > at; k--)
            top[k] = top[k - 1];
        top[at] = i;
    }
    say(p->sink, "%*sdearest:", indent + 23, "");
    for (uint32_t k = 0; k < count; k++) {
        say(p->sink, "%s ", k > 0 ? "," : "");
        say_text(p->sink, facts_node_info(g, g->regions[top[k]].region->nodes[0])->name.data);
        say(p->sink, " %s", nice_ns(weight_of(&g->regions[top[k]]), a));
    }
    say(p->sink, "\n");
}

static void say_graph(const page *p, const facts_graph *g, int indent)
{
    double least = threshold(p, g), hidden_ns = 0;
    uint32_t hidden = 0;
    char a[NICE_BYTES], b[NICE_BYTES];

    for (uint32_t i = 0; i < g->stretch_count; i++) {
        const facts_stretch *s = &g->stretches[i];
        const facts_region *first = &g->regions[s->first];

        if (s->ns < least && first->body_count == 0) {
            hidden++;
            hidden_ns += s->ns;
            continue;
        }
        say_row(p, g, s, indent);
        if (p->all)
            say_regions(p, g, s, indent);
        else if (s->count > 3)
            say_dearest(p, g, s, indent);
        for (uint32_t k = 0; k < first->body_count; k++) {
            const facts_graph *body = first->bodies[k];
            say(p->sink, "%*s%s of ", indent + 8, "", first->step->node->bodies[k].attr);
            say_text(p->sink, first->step->node->info.name.data);
            say(p->sink, ", %s", nice_ns(body->ns, a));
            if (!body->times_known)
                say(p->sink, ", as often as the data say; reckoned as once:\n");
            else if (body->times != 1)
                say(p->sink, body->times == 0 ? ", not taken:\n" : ", reckoned %.3g times:\n", body->times);
            else
                say(p->sink, ":\n");
            say_graph(p, body, indent + 6);
        }
    }
    if (hidden > 0)
        say(p->sink, "%*s      and %" PRIu32 " %s below %s, together %s (--all shows them)\n", indent, "", hidden,
            plural(hidden, "stretch", "stretches"), nice_ns(least, a), nice_ns(hidden_ns, b));
}

static void say_stretches(const page *p)
{
    int width = content_width(p);

    say(p->sink, "\n%5s %-*s %5s %-*s %9s", "part", p->names, "provider", "nodes", width, "what", "predicted");
    if (p->measured)
        say(p->sink, " %9s %6s", "measured", "ratio");
    if (has_source(p))
        say(p->sink, " %10s", "price");
    if (has_traffic(p))
        say(p->sink, " %9s %9s", "in", "out");
    say(p->sink, "  runner-up\n");
    say_graph(p, p->f->graphs[0], 0);
}

/* ------------------------------------------------------------------ copies, refusals, files */

static void say_end(const page *p, const facts_graph *g, uint32_t node, const char *outside)
{
    if (node == INLAY_NONE) {
        say(p->sink, "%s", outside);
        return;
    }
    say(p->sink, "%s ", facts_node_info(g, node)->op_type.data);
    say_text(p->sink, facts_node_info(g, node)->name.data);
    say(p->sink, " (%s)", facts_provider_name(p->f, g->regions[g->nodes[node].region].region->provider));
}

static void say_copies(const page *p)
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
            say(p->sink, "\n");
        }
    }
    if (shown < p->f->copy_count)
        say(p->sink, "  and %" PRIu32 " more (--all shows them)\n", p->f->copy_count - shown);
}

static void say_refusals(const page *p)
{
    const facts *f = p->f;
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

static void say_absent(const page *p)
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

/* The source of the prices of all stretches, if it is one. */
static uint32_t common_source(const facts *f)
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

void text_session(const facts *f, const explain_view *view)
{
    page p = { .f = f, .sink = view->sink, .all = view->all, .measured = f->measured_ns >= 0,
               .source = common_source(f) };

    p.names = name_width(f);
    p.columns = view->columns == 0 ? 100 : view->columns > 400 ? 400 : (int)view->columns;
    say_summary(&p);
    if (view->outcome != NULL)
        say_outcome(&p, view);
    say_providers(&p);
    if (f->region_count > 0)
        say_stretches(&p);
    say_copies(&p);
    say_refusals(&p);
    say_absent(&p);
}
