/* The first runs of a bundle: what it lacks, what its providers cannot compile, and what they pack. */
#include "bundle/maker.h"
#include <stdlib.h>
#include <string.h>

enum { MISSED = 5 }; /* what prepare.c ends with */

const char *maker_emulator(const struct maker *m)
{
    return maker_is_native(m) ? NULL : strncmp(m->job->target, "aarch64", 7) == 0 ? "qemu-aarch64" : "false";
}

/* The node that was refused, which may stand in the sentence alone, and its operator. */
static void name_node(struct maker *m, const char *why)
{
    const char *begin = strstr(why, "node '"), *end = begin != NULL ? strchr(begin + 6, '\'') : NULL;

    if (m->job->node[0] == '\0' && end != NULL)
        (void)snprintf(m->job->node, sizeof m->job->node, "%.*s", (int)(end - begin - 6), begin + 6);
    m->job->op[0] = '\0';
    for (uint32_t p = 0; p < m->c->part_count; p++) {
        const struct graph *g = m->c->parts[p].p->graph;

        for (uint32_t n = 0; n < g->node_count; n++)
            if (strcmp(g->nodes[n]->info.name.data, m->job->node) == 0)
                (void)snprintf(m->job->op, sizeof m->job->op, "%s", g->nodes[n]->info.op_type.data);
    }
    if (m->job->op[0] == '\0')
        m->job->node[0] = '\0';
}

/* What the program printed when a provider could not compile a region: the node, then why. */
static inlay_status read_refusal(struct maker *m)
{
    FILE *f = fopen(m->log, "r");
    char why[400] = "";

    if (f != NULL && fgets(m->job->node, sizeof m->job->node, f) != NULL)
        (void)!fgets(why, sizeof why, f);
    if (f != NULL)
        (void)fclose(f);
    m->job->node[strcspn(m->job->node, "\n")] = '\0';
    why[strcspn(why, "\n")] = '\0';
    name_node(m, why);
    return inlay_fail(m->diag, INLAY_UNSUPPORTED, "%s", why);
}

/* What was left out and is needed. */
static inlay_status read_missed(struct maker *m, bool *out_again)
{
    inlay_status status = INLAY_OK;
    FILE *f = fopen(m->log, "r");
    char name[80];

    *out_again = true;
    while (f != NULL && status == INLAY_OK && fgets(name, sizeof name, f) != NULL) {
        bundle_part_of *p;

        name[strcspn(name, "\n")] = '\0';
        p = maker_part(m, name);
        if (p == NULL || p->needed)
            status = inlay_fail(m->diag, INLAY_INTERNAL, "the bundle asks for '%s', which is nowhere", name);
        else
            p->needed = true;
    }
    if (f != NULL)
        (void)fclose(f);
    return status;
}

/* The kinds of CPU that a program runs on: whatever this one is, and what it can be taken for. */
typedef struct first_level {
    const char *isa;
    bool plain; /* without AVX-VNNI */
} first_level;

uint32_t maker_level_count(const struct maker *m)
{
    const bundle_part_of *bytes = maker_part(m, "byte_set_of_cpu");

    if (m->native || !maker_is_native(m) || strncmp(m->job->target, "x86_64", 6) != 0)
        return 1;
    return 1 + (m->n.isa == NULL) + (bytes != NULL && bytes->needed);
}

inlay_status maker_first_run(struct maker *m, const char *file, uint32_t level, bool *out_again)
{
    static const first_level levels[] = { { "auto", false }, { "avx2", false }, { "avx2", true } };
    const first_level *l = &levels[level > 0 && m->n.isa != NULL ? level + 1 : level];
    char *started = maker_path(m, m->job->dir, file);
    char *wrote = arena_format(&m->c->a, "%s/account.%u", m->job->dir, level);
    char *argv[] = { (char *)(uintptr_t)maker_emulator(m), started, wrote,
                     (char *)(uintptr_t)(l->plain ? "plain" : "as is"), NULL };
    char **start = argv[0] != NULL ? argv : argv + 1;
    const char *before = getenv("INLAY_ISA");
    int code;

    if (started == NULL || wrote == NULL)
        return no_memory(m->diag, "to write the bundle");
    if (before != NULL && (before = arena_format(&m->c->a, "%s", before)) == NULL)
        return no_memory(m->diag, "to write the bundle");
    (void)setenv("INLAY_ISA", l->isa, 1);
    code = maker_run(start, m->log);
    (void)(before != NULL ? setenv("INLAY_ISA", before, 1) : unsetenv("INLAY_ISA"));
    m->job->node[0] = '\0';
    if (code == 3)
        return read_refusal(m);
    if (code == MISSED)
        return read_missed(m, out_again);
    if (code == 127 && !maker_is_native(m))
        return INLAY_OK; /* no emulator: it packs when it starts */
    if (code != 0)
        return maker_failed(m, "starting the bundle once", start[0], code);
    m->job->prepared = true;
    return INLAY_OK;
}
