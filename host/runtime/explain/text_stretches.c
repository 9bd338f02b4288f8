/* Partition by partition (a stretch in the code): provider, time, runner-up; bodies of control flow stand below their
 * node. */
#include "explain/text.h"
#include <inttypes.h>
#include <string.h>

enum { SHOWN_STRETCHES = 24 };

/* What a stretch does: the node's operator and name, or "12 Conv, 11 Relu, Add". */
static void say_content(const struct page *p, const facts_graph *g, uint32_t first, uint32_t count, int width)
{
    enum { KINDS = 8 };
    struct {
        const char *op;
        uint32_t count;
    } kinds[KINDS];
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

static void say_rival(const struct page *p, const facts_stretch *s)
{
    const facts_rival *r = &s->rival;
    char a[NICE_BYTES];

    if (s->provider == INLAY_NONE)
        return;
    if (r->kind == RIVAL_NONE || r->provider == INLAY_NONE) {
        say(p->sink, "  no other provider");
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

/* Columns that are left out where the page is narrow, the most important last. */
static bool has_traffic(const struct page *p)
{
    return p->columns >= (p->measured ? 128 : 110);
}
static bool has_source(const struct page *p)
{
    return p->source == INLAY_NONE && p->columns >= (p->measured ? 100 : 84);
}
static int content_width(const struct page *p)
{
    int rest = p->columns - 6 - p->names - 1 - 6 - 10 - 22;

    rest -= p->measured ? 17 : 0;
    rest -= has_source(p) ? 11 : 0;
    rest -= has_traffic(p) ? 20 : 0;
    return rest < 14 ? 14 : rest > 40 ? 40 : rest;
}

static void say_row(const struct page *p, const facts_graph *g, const facts_stretch *s, int indent)
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
            text_ratio(s->measured_ns, s->ns, b));
    if (has_source(p))
        say(p->sink, " %10s", s->provider == INLAY_NONE ? "bodies" : cost_source_name(s->source));
    if (has_traffic(p))
        say(p->sink, " %9s %9s", nice_bytes(s->bytes_in, a), nice_bytes(s->bytes_out, b));
    say_rival(p, s);
    say(p->sink, "\n");
}

static void say_regions(const struct page *p, const facts_graph *g, const facts_stretch *s, int indent)
{
    char a[NICE_BYTES], b[NICE_BYTES];

    for (uint32_t i = s->first; s->count > 1 && i < s->first + s->count; i++) {
        const facts_region *r = &g->regions[i];
        say(p->sink, "%*s%5" PRIu32 "  ", indent + p->names + 1, "", i);
        say_content(p, g, i, 1, content_width(p) + 1);
        say(p->sink, " %9s", nice_ns(r->ns, a));
        if (p->measured)
            say(p->sink, " %9s %6s", r->measured_ns < 0 ? "-" : nice_ns(r->measured_ns, a),
                text_ratio(r->measured_ns, r->ns, b));
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

/* Which stretches are worth a line: all from `least` on, and of those from `nearly` on the first `extra`. */
struct selection {
    double least, nearly;
    uint32_t extra;
};

/* The SHOWN_STRETCHES dearest, by bisection of their prices: no memory is needed for it. */
static struct selection select_stretches(const struct page *p, const facts_graph *g)
{
    double low = 0, high = g->ns > 0 ? g->ns * 2 : 1;
    uint32_t above_high = 0;

    if (p->all || g->stretch_count <= SHOWN_STRETCHES)
        return (struct selection){ 0 };
    for (int step = 0; step < 60; step++) {
        double middle = (low + high) / 2;
        uint32_t above = 0;
        for (uint32_t i = 0; i < g->stretch_count; i++)
            above += g->stretches[i].ns >= middle;
        if (above > SHOWN_STRETCHES) {
            low = middle;
        } else {
            high = middle;
            above_high = above;
        }
    }
    return (struct selection){ high, low, SHOWN_STRETCHES - above_high };
}

static bool is_selected(struct selection *x, const facts_stretch *s)
{
    if (s->ns >= x->least)
        return true;
    if (s->ns < x->nearly || x->extra == 0)
        return false;
    x->extra--;
    return true;
}

static double weight_of(const facts_region *r)
{
    return r->measured_ns >= 0 ? r->measured_ns : r->ns;
}

/* The regions that take most of a long stretch, on one line. */
static void say_dearest(const struct page *p, const facts_graph *g, const facts_stretch *s, int indent)
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
    say(p->sink, "%*smost expensive:", indent + 16, "");
    for (uint32_t k = 0; k < count; k++) {
        say(p->sink, "%s ", k > 0 ? "," : "");
        say_text(p->sink, facts_node_info(g, g->regions[top[k]].region->nodes[0])->name.data);
        say(p->sink, " %s", nice_ns(weight_of(&g->regions[top[k]]), a));
    }
    say(p->sink, "\n");
}

static void say_graph(const struct page *p, const facts_graph *g, int indent)
{
    struct selection shown = select_stretches(p, g);
    double hidden_ns = 0;
    uint32_t hidden = 0;
    char a[NICE_BYTES], b[NICE_BYTES];

    for (uint32_t i = 0; i < g->stretch_count; i++) {
        const facts_stretch *s = &g->stretches[i];
        const facts_region *first = &g->regions[s->first];

        if (first->body_count == 0 && !is_selected(&shown, s)) {
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
                say(p->sink, ", count depends on data; predicted as once:\n");
            else if (body->times != 1)
                say(p->sink, body->times == 0 ? ", not taken:\n" : ", predicted %.3g times:\n", body->times);
            else
                say(p->sink, ":\n");
            say_graph(p, body, indent + 6);
        }
    }
    if (hidden > 0)
        say(p->sink, "%*s      and %" PRIu32 " %s of at most %s, together %s (--all shows them)\n", indent, "", hidden,
            plural(hidden, "partition", "partitions"), nice_ns(shown.least, a), nice_ns(hidden_ns, b));
}

void text_stretches(const struct page *p)
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
